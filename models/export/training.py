# ===- training.py - a golden folder, compiled and trained --------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# The way from a folder that golden.py wrote to a verdict: the recipe is compiled,
# the program built and run, and its outputs, gradients and losses compared with
# PyTorch's by the tests' own tools (test/e2e). A difference is explained: backward,
# an error passes on to everything before it, so the parameter nearest to the loss
# says where it is.
# ===-----------------------------------------------------------------------===
"""compiled_and_trained: whether the program of a golden folder trains as PyTorch does, or why not."""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile

import numpy as np
import onnx

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test" / "e2e"))
import golden as figures  # noqa: E402
import train_model  # noqa: E402


# A ReLU or a maximum that a rounding turns the other way gives another course of the losses, in PyTorch too.
KINK = "the losses are PyTorch's own with weights that differ by a rounding: a kink (ReLU, maximum) lies between"


def compiled_and_trained(folder, dt_opt, nearby=None):
    """("trains", "" or a remark) or (the stage that it ends at: compile, build or train; why, in a line).

    `nearby` gives PyTorch's losses from weights that differ by a rounding, and is called if only the losses differ.
    """
    program = folder / "program"
    done = train_model.emit(dt_opt, folder / "recipe.json", program, "cpu")
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if "error:" in line]
        return "compile", errors[0].partition("error: ")[2].removeprefix(f"{folder}/") if errors else last_line(done.stderr)
    try:
        train_model.build(program, os.environ.get("CCACHE_DIR"), train_model.prebuilt(dt_opt))
        expected = figures.Golden(folder, frozen=False)
        with tempfile.TemporaryDirectory() as temporary:
            outputs, gradients, losses = figures.run(program, expected, 1, pathlib.Path(temporary))
    except SystemExit as e:
        text = str(e)
        lines = [line.strip() for line in text.splitlines() if "error" in line] or [last_line(text)]
        return "train" if text.startswith("train ") else "build", lines[0]
    why = explain(folder, expected, outputs, gradients, losses)
    if why.startswith("the loss before") and nearby:
        for expected.curve in nearby():
            if not explain(folder, expected, outputs, gradients, losses):
                return "trains", KINK
    return ("train", why) if why else ("trains", "")


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no message"


def explain(folder, expected, outputs, gradients, losses):
    """What differs first from PyTorch, by how much, and what it may be; nothing if nothing does."""
    rows = figures.compare_all(expected, outputs, gradients, losses)
    if not expected.gradients or not expected.outputs:
        return "PyTorch has no gradients to compare with"
    bad = {kind: {name: remark for name, units, remark in entries if not units <= 1} for kind, entries in rows.items()}
    if bad["outputs"]:
        name = next(n for n in expected.outputs if n in bad["outputs"])
        return f"output '{name}' differs by {bad['outputs'][name]}: the forward pass, which ONNX Runtime computes as PyTorch does"
    if bad["gradients"]:
        return _first_gradient(folder, expected, gradients, bad["gradients"])
    if bad["curve"]:
        step = min(bad["curve"], key=lambda name: int(name.split()[1]))
        return f"the loss before {step} differs by {bad['curve'][step]}, though the first step's gradients are equal: the optimizer's settings, or what changes from step to step"
    return ""


def _first_gradient(folder, expected, gradients, bad):
    unknown = [n for n in bad if n not in expected.gradients]
    if unknown:
        return f"'{unknown[0]}' has a gradient that PyTorch does not have: the graph uses it in another way"
    # In the order of use: the last one is nearest to the loss.
    graph = onnx.load(folder / "model.onnx", load_external_data=False).graph
    used = [f"model.{name}" for node in graph.node for name in node.input]
    last_use = {name: at for at, name in enumerate(used)}
    order = sorted(expected.gradients, key=lambda n: last_use.get(n, -1))
    first = max(bad, key=order.index)
    after = len(order) - 1 - order.index(first)
    want, have = expected.gradients[first].astype(np.float64), gradients.get(first)
    text = f"the gradient of '{first}' differs by {bad[first]} of {np.linalg.norm(want):.2e}; {len(bad)} of {len(order)} gradients differ, none of the {after} nearer to the loss"
    if have is None or have.shape != want.shape:
        return text
    factor = float((have * want).sum() / max((want * want).sum(), 1e-300))
    if abs(factor - 1) > 1e-3 and np.linalg.norm(have - factor * want) < 1e-3 * np.linalg.norm(want):
        return text + f": it is {factor:.4g} times PyTorch's, a mean or sum over another number of elements"
    rows = [] if want.ndim < 2 else np.flatnonzero(np.abs(have - want).reshape(len(want), -1).max(1) > 1e-4 * np.abs(want).max())
    if 0 < len(rows) < len(want):
        return text + f": only in {len(rows)} of {len(want)} rows (row {rows[0]} first), as of rows that are taken several times or padding"
    return text
