# ===- check.py - tools/calibrate and what reads its file ---------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# check.py ROOT MEASURE DT_SIM: the script's tables say what the planner's do at the
# sizes of MeasuredTest.cpp, a file of few sizes has all tables, and the planner
# takes it. How long anything takes decides nothing.
# ===-----------------------------------------------------------------------===
"""Fails if the planner and the script disagree about a cluster file."""

import importlib.machinery
import importlib.util
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

root, measure, dt_sim = map(pathlib.Path, sys.argv[1:])
loader = importlib.machinery.SourceFileLoader("calibrate", str(root / "tools/calibrate"))
calibrate = importlib.util.module_from_spec(importlib.util.spec_from_loader("calibrate", loader))
loader.exec_module(calibrate)


def expect(what, got, wanted):
    if got != wanted and not (isinstance(got, float) and abs(got - wanted) < 1e-9):
        sys.exit(f"{what}: expected {wanted}, not {got}")


for size, rate in ((4, 10), (8, 20), (16, 40), (30, 40), (1, 10), (1e9, 40)):
    expect(f"rate at {size}", float(calibrate.interpolate([[4, 16, 64]], [10, 40, 40], (size,))), float(rate))
grid = [[1, 4]] * 3
for i, size in enumerate(itertools.product((1, 4), repeat=3)):
    expect(f"rate at {size}", float(calibrate.interpolate(grid, [2.0**n for n in range(8)], size)), 2.0**i)
expect("rate in the middle", calibrate.interpolate(grid, [2.0**n for n in range(8)], (2, 2, 2)), 128**0.5)

with tempfile.TemporaryDirectory() as folder:
    cluster = pathlib.Path(folder) / "cluster.json"
    command = [root / "tools/calibrate", "-o", cluster, "--quick", "--target", "cpu", "--ranks", "2", "--memory", str(1 << 40), "--measure", measure]
    done = subprocess.run(command, capture_output=True, text=True)
    expect(f"calibrate ({done.stderr})", done.returncode, 0)
    file = json.loads(cluster.read_text())
    for type in ("f32", "bf16"):
        expect("tables", sorted(file["devices"]["here"]["measured"][type]), ["attention", "attention_back", "products", "stream", "weights"])
    expect("links", [key for key in ("inside", "reduce") if "measured" in file["nodes"][0][key]], ["inside", "reduce"])
    priced = subprocess.run([dt_sim, f"--cluster={cluster}", "--model=vit_huge_4096", "--batch=8", "--policy=megatron"], capture_output=True, text=True)
    expect(f"dt-sim ({priced.stderr})", priced.returncode, 0)
    refused = subprocess.run([*command, "--types", "f64"], capture_output=True, text=True)
    expect("unknown type", refused.stderr, "error: --types: expected some of f32, bf16, not 'f64'\n")
print("the planner reads what tools/calibrate writes")
