# ===- ptxas.py - what ptxas makes of a program's kernels --------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Emits a recipe's program for CUDA and compiles its generated kernels; nothing
# runs, so no GPU is needed, but nvcc is. Beside it stands what the compiler
# itself says of them.
# ===-----------------------------------------------------------------------===
"""ptxas.py RECIPE [--arch sm_90]...: registers, spills and bytes of each generated kernel."""

import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'.*?(\d+) bytes spill stores, (\d+) bytes spill loads.*?Used (\d+) registers([^\n]*)", re.S)


def compiled(nvcc, directory, file, arch):
    """(kernel, registers, bytes spilled, bytes of shared memory) of each kernel."""
    command = [nvcc, "-std=c++20", f"-arch={arch}", "--resource-usage", "-I.", "-c", file.name, "-o", "/dev/null"]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"error: {' '.join(command)}: {done.stderr}")
    for name, _, stores, loads, registers, rest in ENTRY.findall(done.stdout + done.stderr):
        shared = re.search(r"(\d+) bytes smem", rest)
        yield name, int(registers), int(stores) + int(loads), int(shared[1]) if shared else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("recipe")
    parser.add_argument("--arch", action="append", help="sm_80, sm_90, ... (default: sm_80, sm_90, sm_100)")
    parser.add_argument("--dt-opt", default=ROOT / "build/release/bin/dt-opt")
    options = parser.parse_args()
    nvcc = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    if not nvcc:
        sys.exit("error: nvcc is missing: kernels are compiled, not run")
    with tempfile.TemporaryDirectory() as directory:
        emitted = subprocess.run([options.dt_opt, options.recipe, "--emit=cpp", "--target=cuda", "-o", directory], capture_output=True, text=True)
        if emitted.returncode:
            sys.exit(emitted.stderr)
        table = pathlib.Path(directory) / "kernels.json"
        subprocess.run([options.dt_opt, options.recipe, "--emit=kernels", "-o", table], check=True, stderr=subprocess.DEVNULL)
        costs = {kernel["name"]: kernel for kernel in json.loads(table.read_text())["kernels"]}
        print(f"{'registers':>9} {'spilled':>7} {'shared':>6} {'launches':>8} {'blocks':>9} {'threads':>7} {'bytes':>14} {'ratio':>5}  {'for':6} kernel")
        for arch in options.arch or ["sm_80", "sm_90", "sm_100"]:
            rows = [row for file in sorted(pathlib.Path(directory).glob("*_kernels.cu")) for row in compiled(nvcc, directory, file, arch)]
            demangled = subprocess.run(["c++filt", "-p", *(name for name, *_ in rows)], capture_output=True, text=True).stdout.split("\n")
            for name, (_, registers, spilled, shared) in sorted(zip(demangled, rows), key=lambda pair: -pair[1][1]):
                cost = costs[name.split("(")[0]]
                bytes = cost["read"] + cost["written"] if "read" in cost else 0
                asked = f"{bytes:14,} {bytes / max(cost['least'], 1):5.2f}" if bytes else f"{'-':>14} {'-':>5}"
                print(f"{registers:9} {spilled:7} {shared:6} {cost['launches']:8} {cost['blocks']:9,} {cost['threads']:7} {asked}  {arch:6} {name.split('(')[0]}")
            print(f"{arch}: {len(rows)} kernels, at most {max(row[1] for row in rows)} registers, {sum(row[2] > 0 for row in rows)} that spill", file=sys.stderr)


main()
