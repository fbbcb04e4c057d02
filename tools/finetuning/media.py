# ===- media.py - the pictures of a conversation -----------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Files are the user's data and not trusted: one that is no picture, or that is too
# large to be one, is an error that names it.
# ===-----------------------------------------------------------------------===
"""pictures(place, messages): [PIL.Image], in the order in which they stand."""

import warnings

from .errors import Failure, one_line

MOST = 1 << 28  # pixels


def pictures(place, messages):
    parts = (part for message in messages if not isinstance(message["content"], str) for part in message["content"])
    return [_picture(place, part["path"]) for part in parts if part["type"] == "image"]


def _picture(place, path):
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what Pillow warns of is refused, or is none of ours
            with Image.open(path) as picture:
                if picture.width * picture.height > MOST:
                    raise Failure(f"{place}: {path}: a picture of {picture.width} x {picture.height}")
                return picture.convert("RGB")
    except FileNotFoundError:
        raise Failure(f"{place}: {path}: there is no such picture") from None
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as e:  # Pillow raises all of these
        raise Failure(f"{place}: {path}: no picture: {one_line(e)}") from None
