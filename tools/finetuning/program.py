# ===- program.py - from the recipe to a program ------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# What the compiler and the build say goes to a log; of what fails, the error.
# ===-----------------------------------------------------------------------===
"""build(options, out): plans and compiles OUT/recipe.json; returns the ranks of the program."""

import json
import os
import subprocess

from .errors import Failure, say

LOG = "compile.log"


def check_tools(options):
    if not (options.bin / "dt-opt").is_file():
        raise Failure(f"{options.bin / 'dt-opt'} is not there: build it first (cmake --preset release && cmake --build --preset release), or --bin DIR")


def build(options, out):
    (out / LOG).write_text("")
    target = [f"--target={options.target}"]
    plan, ranks = [], 1
    if options.plan:
        file = out / "plan.json"
        asked = [f"--plan={options.plan}"]
        if options.plan == "auto":
            asked += [f"--cluster={options.cluster or 'here'}", *([f"--devices={options.ranks}"] if options.ranks else [])]
        run_logged([options.bin / "dt-opt", out / "recipe.json", *asked, *target, "--emit=plan", "-o", file], out)
        plan, ranks = [f"--plan={file}"], json.loads(file.read_text())["ranks"]
        if options.ranks and options.ranks != ranks:
            if options.plan != "auto":
                raise Failure(f"--ranks {options.ranks}: the plan has {ranks}")
            say(f"the plan uses {ranks} of {options.ranks} devices")
    run_logged([options.bin / "dt-opt", out / "recipe.json", *plan, *target, "--emit=exe", "-o", out / "program"], out)
    return ranks


def run_logged(command, out):
    command = [str(c) for c in command]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    with (out / LOG).open("a") as log:
        log.write(" ".join(command) + "\n" + done.stdout)
    if done.returncode:
        errors = [line for line in done.stdout.splitlines() if "error:" in line]
        raise Failure(f"{os.path.basename(command[0])} ended with {done.returncode}: {errors[0] if errors else 'no error was named'} (all it said: {out / LOG})")
