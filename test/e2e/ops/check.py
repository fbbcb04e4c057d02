# ===- check.py - gradients of every operator against finite differences ---===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Writes the cases as .mlir, compiles them to one program, runs `gradients` (see
# Gradients.cpp), which links against it, and compares what the cases gave with
# NumPy in double precision.
# ===-----------------------------------------------------------------------===
"""check.py --dt-opt DT_OPT --work FOLDER [--only REGEX]: exit code 0 when forward values and gradients hold."""

import argparse
import pathlib
import re
import subprocess
import sys

import numpy as np
from safetensors.numpy import load_file

import builder
import elementwise
import products
import shapes
import stages

HERE = pathlib.Path(__file__).resolve().parent


def families(only):
    result = []
    for name, make in {**elementwise.FAMILIES, **products.FAMILIES, **shapes.FAMILIES, **stages.FAMILIES}.items():
        family = builder.Family(name)

        def case(case_name, family=family):
            wanted = not only or re.search(only, f"{family.name}.{case_name}")
            return builder.Case(family if wanted else builder.Family(family.name), case_name)

        make(case)
        result.append(family)
    return [f for f in result if f.cases]


def build(options):
    source, directory = options.work / "ops.mlir", options.work / "program"
    subprocess.run([options.dt_opt, source, "--emit=cpp", "-o", directory], check=True)
    subprocess.run(["cmake", "-S", HERE, "-B", options.work / "build", "-G", "Ninja", f"-DPROGRAM={directory}", "-DCMAKE_BUILD_TYPE=Release",
                    *options.cmake], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", options.work / "build", "--target", "gradients"], check=True, stdout=None if options.verbose else subprocess.DEVNULL)


def forward_values(families, values):
    """Compares each case's result with its reference, for every number of rows; returns failures and the number of comparisons."""
    failures, count = [], 0
    for family in families:
        for case in family.cases.values():
            prefix = f"{family.name}.{case.name}."
            for rows in sorted({key.split("|")[0] for key in values if prefix in key}):
                tensors = {}
                for key, value in values.items():
                    if key.startswith(f"{rows}|{prefix}") or key.startswith(f"|{prefix}"):
                        name = key.split(prefix)[1]
                        tensors[name] = value.astype(np.float64) if value.dtype == np.float32 else value
                if "result" not in tensors or case.reference is None:
                    continue
                y = tensors.pop("result")
                count += 1
                with np.errstate(all="ignore"):
                    expected = np.asarray(case.reference(tensors))
                if expected.shape != y.shape:
                    failures.append(f"{prefix[:-1]} with {rows} rows: shape {y.shape}, expected {expected.shape}")
                    continue
                error = np.abs(y - expected).max(initial=0) / max(np.abs(expected).max(initial=0), 1e-3)
                if not error <= case.tolerance:
                    failures.append(f"{prefix[:-1]} with {rows} rows: values differ by {error:.2g}")
    return failures, count


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dt-opt", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--only", help="cases family.name that match this expression")
    parser.add_argument("--cmake", action="append", default=[], help="further arguments of cmake")
    parser.add_argument("--write", action="store_true", help="write ops.mlir only")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    chosen = families(options.only)
    (options.work / "ops.mlir").write_text(builder.program(chosen))
    print(f"{sum(len(f.cases) for f in chosen)} cases in {len(chosen)} modules")
    if options.write:
        return 0
    build(options)
    values = options.work / "values.safetensors"
    gradients = subprocess.run([options.work / "build" / "gradients", values, *(["-v"] if options.verbose else [])])
    failures, count = forward_values(chosen, load_file(values)) if gradients.returncode in (0, 1) else ([], 0)
    for failure in failures:
        print(failure)
    print(f"{count} results: {len(failures)} failures")
    return 1 if failures or gradients.returncode or not count else 0


if __name__ == "__main__":
    sys.exit(main())
