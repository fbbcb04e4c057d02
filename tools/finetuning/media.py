# ===- media.py - pictures, videos and recordings of a conversation ----------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Files are the user's data and not trusted: one that is none, or that is too large,
# is an error that names it. A picture is seen as viewers show it and as the
# library's own loader reads it: turned as its EXIF data say.
# ===-----------------------------------------------------------------------===
"""pictures(place, messages), videos(place, messages, processor), sounds(place, messages, rate): in the order in which they stand."""

import importlib.util
import os
import stat
import warnings
import wave

import numpy as np

from .errors import Failure, one_line

MOST = 1 << 28  # pixels


RATE = 2.0  # frames of a second, where neither sample nor processor say it


def _parts(messages, kind):
    parts = (part for message in messages if not isinstance(message["content"], str) for part in message["content"])
    return (part for part in parts if part["type"] == kind)


def pictures(place, messages):
    return [_picture(place, part["path"]) for part in _parts(messages, "image")]


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


def videos(place, messages, processor):
    """[(frames [frames, height, width, 3], what the library's processor is told of them)]; `processor`: that of videos, or None."""
    return [_video(place, part, processor) for part in _parts(messages, "video")]


def _video(place, part, processor):
    if processor is None:
        raise Failure(f"{place}: a video, but the folder has no video processor (video_preprocessor_config.json)")
    rate = part["fps"] or processor.fps or RATE
    if "path" in part:
        return _clip(place, part["path"], processor, rate)
    frames = [_picture(place, path) for path in part["frames"]]
    for path, frame in zip(part["frames"], frames):
        if frame.size != frames[0].size:
            raise Failure(f"{place}: {path}: a frame of {frame.width} x {frame.height}, the first is {frames[0].width} x {frames[0].height}")
    _check_frames(place, part["frames"][0], len(frames), *frames[0].size)
    return np.stack([np.asarray(frame) for frame in frames]), {"fps": rate, "total_num_frames": len(frames), "frames_indices": list(range(len(frames)))}


def _clip(place, path, processor, rate):
    """Of a file the frames that its processor chooses."""
    try:
        _check_file(path)
    except FileNotFoundError:
        raise Failure(f"{place}: {path}: there is no such video") from None
    except OSError as e:
        raise Failure(f"{place}: {path}: no video: {one_line(e)}") from None
    if importlib.util.find_spec("av") is None:
        raise Failure(f"{place}: {path}: a video file needs PyAV (python -m pip install av); a list of its frames as pictures needs nothing")
    from transformers.video_utils import load_video

    def choose(metadata, **_):
        if metadata.total_num_frames < 1:
            raise ValueError("its header does not say how many frames there are")
        chosen = np.asarray(processor.sample_frames(metadata=metadata, fps=rate)).tolist()
        _check_frames(place, path, len(chosen), metadata.width, metadata.height)
        return chosen

    try:
        frames, metadata = load_video(path, backend="pyav", sample_indices_fn=choose)
        return frames, {"fps": metadata.fps, "total_num_frames": metadata.total_num_frames, "frames_indices": list(metadata.frames_indices)[: len(frames)]}
    except Failure:
        raise
    except Exception as e:  # of whatever library decodes it
        raise Failure(f"{place}: {path}: no video: {one_line(e)}") from None


def _check_frames(place, path, count, width, height):
    if count * width * height > MOST:
        raise Failure(f"{place}: {path}: {count} frames of {width} x {height}, more than 2^28 pixels together")


def sounds(place, messages, rate):
    """[samples in -1 to 1], of so many a second."""
    return [_sound(place, part["path"], rate) for part in _parts(messages, "audio")]


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
