# ===- cuda_ranks.py - programs of several ranks for GPUs, by nvcc ------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A layout's program is compiled for several GPUs and linked with CUDA's libraries,
# cuDNN and NCCL, without a warning. It starts with all symbols resolved. Where there
# is no GPU it ends in one line that says so.
# ===-----------------------------------------------------------------------===
"""cuda_ranks.py --dt-opt PATH [--layout NAME]: a program of several ranks is compiled and linked by nvcc."""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from layout_cases import CASES
from layouts import Runner, parse_plan
from train_model import GPUS, SKIPPED, build, find_gpu, find_nvcc


def skip(missing):
    print(f"skipped: no program of several ranks was linked with NCCL: no {missing} here (tools/setup --cuda gets it)")
    sys.exit(SKIPPED)


def check_build(said, program):
    lines = [line for line in said.splitlines() if "warning" in line.lower()]
    if lines:
        sys.exit("the build warns:\n" + "\n".join(lines[:20]))
    symbols = subprocess.run(["nm", "-D", "--undefined-only", program], capture_output=True, text=True, check=True).stdout
    if not re.search(r"\bncclAllReduce\b", symbols):
        sys.exit("the program does not call NCCL")


def check_without_gpu(program, ranks):
    for fabric in ({}, {"DT_FABRIC": "nccl"}):
        done = subprocess.run([program, "--ranks", str(ranks)], capture_output=True, text=True, timeout=120, env={**os.environ, **fabric, "LD_BIND_NOW": "1"})
        if done.returncode != 1 or not re.fullmatch("error: no usable GPU: .*\n", done.stderr):
            sys.exit(f"ended with {done.returncode}, not with one line about the GPU: {done.stdout[-500:]}{done.stderr[-1500:]}")
    print(done.stderr, end="")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dt-opt", required=True, type=pathlib.Path)
    parser.add_argument("--layout", default="llama-tp2-dp2-pp2", help="a name of layout_cases.py")
    arguments = parser.parse_args()
    nvcc = find_nvcc()
    if not nvcc:
        skip("nvcc")
    case = next(case for case in CASES if case["name"] == arguments.layout)
    plan = parse_plan(case["plan"])
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        done = Runner(arguments.dt_opt, pathlib.Path(__file__).parents[1] / "models", folder).compile(case, case["micro"], plan, folder, "cuda")
        if done.returncode:
            sys.exit(f"dt-opt ended with {done.returncode}: {done.stderr[-1500:]}")
        program = folder / "program/build/train"
        said = build(folder / "program", os.environ.get("CCACHE_DIR"), None, [f"-DCMAKE_CUDA_COMPILER={nvcc}", f"-DCMAKE_CUDA_ARCHITECTURES={GPUS}"])
        if "-- No NCCL" in said:
            skip("NCCL")
        check_build(said, program)
        print(f"{arguments.layout}: compiled and linked for {GPUS}")
        if find_gpu():
            return print("there is a GPU: what is said without one was not looked at")
        check_without_gpu(program, plan["ranks"])


if __name__ == "__main__":
    main()
