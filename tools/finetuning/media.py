# ===- media.py - pictures and recordings of a conversation ------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Files are the user's data and not trusted: one that is none, or that is too large,
# is an error that names it. A picture is seen as viewers show it and as the
# library's own loader reads it: turned as its EXIF data say.
# ===-----------------------------------------------------------------------===
"""pictures(place, messages), sounds(place, messages, rate): in the order in which they stand."""

import os
import stat
import warnings
import wave

import numpy as np

from .errors import Failure, one_line

MOST = 1 << 28  # pixels


def pictures(place, messages):
    parts = (part for message in messages if not isinstance(message["content"], str) for part in message["content"])
    return [_picture(place, part["path"]) for part in parts if part["type"] == "image"]


def _picture(place, path):
    from PIL import Image, ImageOps

    try:
        _check_file(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what Pillow warns of is refused, or is none of ours
            with Image.open(path) as picture:
                if picture.width * picture.height > MOST:
                    raise Failure(f"{place}: {path}: a picture of {picture.width} x {picture.height}")
                return ImageOps.exif_transpose(picture).convert("RGB")
    except FileNotFoundError:
        raise Failure(f"{place}: {path}: there is no such picture") from None
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as e:  # Pillow raises all of these
        raise Failure(f"{place}: {path}: no picture: {one_line(e)}") from None


def _check_file(path):
    if not stat.S_ISREG(os.stat(path).st_mode):  # a pipe would be waited for
        raise OSError("no regular file")


def sounds(place, messages, rate):
    """[samples in -1 to 1], of so many a second."""
    parts = (part for message in messages if not isinstance(message["content"], str) for part in message["content"])
    return [_sound(place, part["path"], rate) for part in parts if part["type"] == "audio"]


def _sound(place, path, rate):
    try:
        _check_file(path)
        found = _wave(path, rate)
        return _decoded(path, rate) if found is None else found
    except FileNotFoundError:
        raise Failure(f"{place}: {path}: there is no such recording") from None
    except Exception as e:  # of whatever library decodes it
        raise Failure(f"{place}: {path}: no recording: {one_line(e)}") from None


def _wave(path, rate):
    """Plain 16 bits at that rate, which need no library; None: something else."""
    try:
        with wave.open(path, "rb") as file:
            if (file.getsampwidth(), file.getframerate()) != (2, rate):
                return None
            values = np.frombuffer(file.readframes(file.getnframes()), "<i2").reshape(-1, file.getnchannels())
    except (wave.Error, EOFError):
        return None
    return (values.mean(1) / 32768).astype(np.float32)


def _decoded(path, rate):
    from transformers.audio_utils import load_audio

    return load_audio(path, sampling_rate=rate)
