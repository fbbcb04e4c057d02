# ===- __main__.py - the command -----------------------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# `python -m export check` goes the whole way with a network of the user's own, and
# says where its graph or its program first differs from PyTorch.
# ===-----------------------------------------------------------------------===
"""python -m export check FILE.py [--dt-opt PATH]: exports, compiles and trains a network, and says what differs from PyTorch."""

import argparse
import pathlib
import runpy
import sys
import tempfile

from . import golden
from .checking import CheckError
from .exporting import ExportError


def main():
    parser = argparse.ArgumentParser(prog="python -m export", description="Exports networks for training, and compares with PyTorch.")
    check = parser.add_subparsers(dest="command", required=True).add_parser("check", help="a network of your own, from the module to trained weights")
    check.add_argument("file", type=pathlib.Path, help="Python file with a function model() that returns an export.golden.Model")
    check.add_argument("--dt-opt", type=pathlib.Path, help="the compiler; without it the graph is compared, and not trained")
    check.add_argument("--out", type=pathlib.Path, help="keep the graph, recipe, figures and program here")
    arguments = parser.parse_args()
    for path in (arguments.file, arguments.dt_opt):
        if path and not path.exists():
            parser.error(f"no such file: {path}")
    made = runpy.run_path(str(arguments.file))
    if not callable(made.get("model")):
        parser.error(f"{arguments.file} has no function model()")
    with tempfile.TemporaryDirectory() as temporary:
        sys.exit(run(made["model"](), (arguments.out or pathlib.Path(temporary)).resolve(), arguments.dt_opt))


def run(model, out, dt_opt):
    """Exit code; prints a line a stage."""
    try:
        print(golden.write(model, out))
    except (ExportError, CheckError) as e:
        print(f"error: {e}", file=sys.stderr)
        return 1
    print("the graph gives PyTorch's outputs, at the exported and at moved weights")
    if not dt_opt:
        return 0
    from .training import compiled_and_trained

    result, reason = compiled_and_trained(out / model.name, dt_opt.resolve())
    if result != "trains":
        print(f"error: {result}: {reason}", file=sys.stderr)
        return 1
    print(f"outputs, gradients and the losses of {golden.STEPS} steps are PyTorch's")
    return 0


if __name__ == "__main__":
    main()
