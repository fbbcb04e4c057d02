# ===- graphs.py - random graphs against ONNX Runtime -----------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Random small graphs over all operators that the importer knows, with losses of
# all forms and items of equal and unequal sizes, compiled and run as users do. Each
# must be refused in one clear line, or give ONNX Runtime's values and the gradients
# that differences in double precision say (evaluate.py). A case depends on the seed
# and its number only. What fails is made smaller (reduce.py), printed and saved.
# See docs/testing.md.
# ===-----------------------------------------------------------------------===
"""graphs.py --dt-opt PATH --runtime dt_runtime.cmake [--seed N] [--first N] [--count N]: exit code 0 if no graph fails."""

import argparse
import collections
import pathlib
import re
import sys
import tempfile
import time

import numpy as np
from safetensors.numpy import save_file

import registry
from checking import Checker, as_module, batches_for, setting_of
from generate import make
from program import Suite
from reduce import reduce

CHUNK = 100


def reason(text):
    """A refusal without names and numbers, to be counted."""
    text = re.sub(r"^\S*\.onnx: ", "", text)
    text = re.sub(r"node '[^']*' \((\w+)\)", r"\1", text)
    text = re.sub(r"'[^']*'", "'…'", text)
    return re.sub(r"-?\d+", "#", text)[:150]


def save(case, folder):
    folder.mkdir(parents=True, exist_ok=True)
    module = as_module(case)
    Suite.recipe([module], setting_of(case), folder)
    batch = batches_for([case])
    for k, tensors in enumerate(batch):
        save_file({name: np.asarray(value, order="C") for name, value in tensors.items()}, folder / f"batch-{k}.safetensors")
    (folder / "case.txt").write_text(case.text() + "\n")


def report(checker, case, verdict, options):
    print(f"FAILED {options.seed}:{case.name[1:]}: {verdict.text[:700]}", flush=True)
    if options.reduce:
        case, verdict = reduce(checker, case, verdict)
        print(f"smallest: {verdict.text[:700]}")
    print(case.text(), flush=True)
    if options.keep:
        save(case, options.keep / f"{options.seed}-{case.name.split('_')[0][1:]}")


class Tally:
    def __init__(self):
        self.kinds, self.refused, self.uncut, self.operators = (collections.Counter() for _ in range(4))
        self.compared = self.skipped = 0

    def add(self, case, verdict):
        self.kinds[verdict.kind] += 1
        self.compared += verdict.compared
        self.skipped += verdict.skipped
        if verdict.kind == "refused":
            self.refused[reason(verdict.text)] += 1
        if verdict.kind == "ok":
            self.operators.update({n.op for n in case.nodes})
        if verdict.whole:
            self.uncut[reason(verdict.whole)] += 1

    def show(self, seconds):
        total = sum(self.kinds.values())
        print(f"{total} graphs: {self.kinds['ok']} hold, {self.kinds['refused']} refused, {self.kinds['failed']} FAILED, {self.kinds['impossible']} not run by ONNX Runtime; "
              f"{self.compared} comparisons, {self.skipped} of them undecided; {len(self.operators)} operators; {seconds:.0f} s")
        for title, counts in (("refused", self.refused), ("as drawn refused, simpler not,", self.uncut)):
            for text, count in counts.most_common():
                print(f"  {title} {count:4}: {text}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dt-opt", type=pathlib.Path, required=True)
    parser.add_argument("--runtime", type=pathlib.Path, required=True, help="dt_runtime.cmake of a build")
    parser.add_argument("--compiler", help="C++ compiler of that build")
    parser.add_argument("--optimise", default="-O0", help="how generated code is compiled")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--unequal", action=argparse.BooleanOptionalAction, help="only graphs whose items have unequal sizes, or none; both if not given")
    parser.add_argument("--only", help="operators to draw from, with commas")
    parser.add_argument("--reduce", action=argparse.BooleanOptionalAction, default=True, help="make failing cases smaller")
    parser.add_argument("--most", type=int, default=20, help="end after so many failures")
    parser.add_argument("--keep", type=pathlib.Path, help="save failing cases here")
    parser.add_argument("--work", type=pathlib.Path)
    options = parser.parse_args()
    if registry.missing():
        print("operators with an import rule and no generator:", *registry.missing())
        return 1
    work = options.work or pathlib.Path(tempfile.mkdtemp())
    checker = Checker(Suite(options.dt_opt, options.runtime, work, options.compiler, options.optimise))
    tally, begin, end = Tally(), time.time(), options.first + options.count
    for first in range(options.first, end, CHUNK):
        cases = [make(options.seed, k, options.only and options.only.split(","), options.unequal) for k in range(first, min(first + CHUNK, end))]
        for case, verdict in zip(cases, checker.check(cases)):
            tally.add(case, verdict)
            if verdict.kind == "failed":
                report(checker, case, verdict, options)
        if tally.kinds["failed"] >= options.most:
            break
    tally.show(time.time() - begin)
    return 1 if tally.kinds["failed"] or not tally.kinds["ok"] else 0


if __name__ == "__main__":
    sys.exit(main())
