# ===- errors.py - what is refused, and where ---------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
# ===-----------------------------------------------------------------------===
"""ExportError, and the line of the model's code that it is about."""

from __future__ import annotations

import pathlib
import traceback

import torch


class ExportError(RuntimeError):
    """The graph that came out would not train as the module does."""


def place_of_code():
    """The line of the module's code that runs, for a message."""
    torch_code, here = pathlib.Path(torch.__file__).parent, pathlib.Path(__file__).parent
    for frame in reversed(traceback.extract_stack()):
        path = pathlib.Path(frame.filename)
        if here not in path.parents and torch_code not in path.parents and "contextlib" not in path.name:
            return f" ({path.name}:{frame.lineno})"
    return ""
