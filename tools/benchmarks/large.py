# ===- large.py - dt-opt on graphs without weights ------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
# ===-----------------------------------------------------------------------===
"""What benches that only compile have in common."""

import gzip
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DT_OPT = ROOT / "build/release/bin/dt-opt"


def unpack(name, folder):
    """A graph of test/models/large, unpacked into the folder."""
    model = pathlib.Path(folder, f"{name}.onnx")
    with gzip.open(ROOT / f"test/models/large/{name}.onnx.gz") as packed, open(model, "wb") as file:
        shutil.copyfileobj(packed, file)
    return model


def compile(*arguments):
    """What dt-opt prints; ends with its error."""
    done = subprocess.run([str(a) for a in (DT_OPT, *arguments)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr.strip().splitlines()[-1])
    return done.stdout
