# ===- program.py - from the recipe to a program ------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# What the compiler and the build say goes to a log; of what fails, the error.
# ===-----------------------------------------------------------------------===
"""plan, build: what dt-opt makes of OUT/recipe.json."""

import json
import os
import subprocess

from . import recipe
from .errors import Failure

LOG, PLAN = "compile.log", "plan.json"


def check_tools(options):
    if not (options.bin / "dt-opt").is_file():
        raise Failure(f"{options.bin / 'dt-opt'} is not there: build it first (cmake --preset release && cmake --build --preset release), or --bin DIR")


def plan(options, out):
    """Asks for a plan, or for all that a given one leaves open: OUT/plan.json, as an object."""
    asked = [f"--plan={options.plan}"]
    if options.plan == "auto":
        asked += [f"--cluster={cluster(options)}", *([f"--devices={options.ranks}"] if options.ranks else [])]
    run_logged([options.bin / "dt-opt", out / recipe.FILE, *asked, f"--target={options.target}", "--emit=plan", "-o", out / "plan.new.json"], out)
    (out / "plan.new.json").rename(out / PLAN)
    return json.loads((out / PLAN).read_text())


def cluster(options):
    """More ranks than this machine has cores share them."""
    named, cores = options.cluster or "here", len(os.sched_getaffinity(0))
    return f"here:{options.ranks}" if named == "here" and (options.ranks or 0) > cores else named


def build(options, out, flags):
    run_logged([options.bin / "dt-opt", out / recipe.FILE, *flags, f"--target={options.target}", "--emit=exe", "-o", out / "program"], out)


def run_logged(command, out):
    command = [str(c) for c in command]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    with (out / LOG).open("a") as log:
        log.write(" ".join(command) + "\n" + done.stdout)
    if done.returncode:
        errors = [line for line in done.stdout.splitlines() if "error:" in line]
        raise Failure(f"{os.path.basename(command[0])} ended with {done.returncode}: {errors[0] if errors else 'no error was named'} (all it said: {out / LOG})")
