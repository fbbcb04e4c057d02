# ===- slopes.py - slopes at kinks and rows without keys, against PyTorch's -----===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# models/export/slopes.py says what the cases are and wrote test/e2e/slopes: the
# graph, and PyTorch's results and gradients. With --fresh it does so again, here.
# ===-----------------------------------------------------------------------===
"""slopes.py FOLDER --dt-opt PATH: every gradient at a kink is PyTorch's, infinite or no number where that is."""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from safetensors.numpy import load_file, save_file

import train_model

ROOT = pathlib.Path(__file__).resolve().parents[2]


def differs(have, want):
    """Kinks differ by whole shares of a slope; roundings of float32 by some 1e-6 of the largest."""
    finite = np.abs(want[np.isfinite(want)])
    return have.shape != want.shape or not np.allclose(have, want, rtol=1e-4, atol=1e-6 + 1e-5 * finite.max(initial=0), equal_nan=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--dt-opt", required=True, type=pathlib.Path)
    parser.add_argument("--double", type=pathlib.Path)
    parser.add_argument("--fresh", action="store_true", help="let PyTorch write the folder first, elsewhere")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(temporary)
        if options.fresh:
            try:
                import torch  # noqa: F401
            except ImportError:
                print("skipped: tools/setup --torch installs what this needs")
                return train_model.SKIPPED
            options.model = work / "fresh"
            subprocess.run([sys.executable, "-m", "export.slopes", options.model], cwd=ROOT / "models", check=True)
        train_model.make(options.dt_opt, options.model / "recipe.json", work / "program", "cuda" if options.double else "cpu", options.double, settings=train_model.QUICK)
        save_file({"m.data": np.ones((1, 1), np.float32)}, work / "batch.safetensors")
        command = [work / "program/build/train", "--batch", "batch.safetensors", "--steps", "1", "--save-outputs", "outputs", "--save-gradients", "gradients"]
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, timeout=600)
        if not (work / "gradients").exists():
            sys.exit(f"train ended with {done.returncode}:\n{done.stderr[-3000:]}")
        outputs, gradients, wanted = (load_file(path) for path in (work / "outputs", work / "gradients", options.model / "slopes.safetensors"))
    bad = 0
    for name, want in sorted(wanted.items()):
        kind, _, of = name.partition(".")
        have = outputs[f"m.{name}"] if kind == "result" else gradients.get(f"m.{of}", np.zeros_like(want))
        with np.errstate(all="ignore"):
            if differs(have, want):
                bad += 1
                print(f"{name}: {have.ravel()[:12]}, PyTorch has {want.ravel()[:12]}")
    print(f"{len(wanted)} results and gradients: {bad} differ")
    return 1 if bad or not wanted else 0


if __name__ == "__main__":
    sys.exit(main())
