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
import os
import pathlib
import re
import subprocess
import sys
import warnings

import numpy as np
from safetensors.numpy import load_file

import builder
import covered
import elementwise
import experts
import kinks
import products
import random_graphs
import shapes
import sizes
import stages
import threads

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import train_model  # noqa: E402

SEED = 0.75  # kSeed of Gradients.cpp
HERE = pathlib.Path(__file__).resolve().parent


def families(only):
    result = []
    for name, make in {**elementwise.FAMILIES, **experts.FAMILIES, **kinks.FAMILIES, **products.FAMILIES, **shapes.FAMILIES, **sizes.FAMILIES, **stages.FAMILIES, **threads.FAMILIES, **random_graphs.FAMILIES}.items():
        family = builder.Family(name, getattr(make, "save", None))

        def case(case_name, family=family):
            wanted = not only or re.search(only, f"{family.name}.{case_name}")
            return builder.Case(family if wanted else builder.Family(family.name), case_name)

        make(case)
        result.append(family)
    return [f for f in result if f.cases]


def write(chosen, folder):
    (folder / "ops.mlir").write_text(builder.program(chosen))
    return folder / "ops.mlir"


def build(source, options):
    directory = options.work / "program"
    subprocess.run([options.dt_opt, source, "--emit=cpp", f"--target={'cuda' if options.double else 'cpu'}", "-o", directory], check=True)
    quiet = {} if options.verbose else {"stdout": subprocess.DEVNULL}
    cache = dict(os.environ, CCACHE_BASEDIR=str(options.work), CCACHE_NOHASHDIR="1")
    runtime = train_model.prebuilt_double(options.dt_opt, directory) if options.double else train_model.prebuilt(options.dt_opt)
    if not runtime:
        sys.exit("there is no runtime for the double: run CTest's cuda-double/build")
    if options.double:
        options.cmake.append(f"-DDT_CUDA_DOUBLE={options.double.resolve()}")
    configure = ["cmake", "-C", runtime, "-S", HERE, "-B", options.work / "build", "-G", "Ninja", f"-DPROGRAM={directory}", "-DCMAKE_BUILD_TYPE=Release", *options.cmake]
    subprocess.run(configure, check=True, env=cache, **quiet)
    subprocess.run(["cmake", "--build", options.work / "build", "--target", "gradients"], check=True, env=cache, **quiet)


class Values:
    """What the checker saved: tensors of a case with a number of rows, gradients of its parameters."""

    def __init__(self, file):
        self.values = load_file(file)

    def rows(self, family):
        return sorted({key.split("|")[0] for key in self.values if key.split("|")[1].startswith(f"{family.name}.") and key[0] != "|"})

    def tensors(self, rows, case):
        prefix, result = f"{case.family.name}.{case.name}.", {}
        for key, value in self.values.items():
            if key.startswith(f"{rows}|{prefix}") or key.startswith(f"|{prefix}"):
                result[key.split(prefix)[1]] = value.astype(np.float64) if value.dtype == np.float32 else value
        return result

    def gradients(self, rows, case):
        prefix = f"{rows}|gradient|{case.family.name}.{case.name}."
        return {key.removeprefix(prefix): value for key, value in self.values.items() if key.startswith(prefix)}


def differs(actual, expected, tolerance):
    """How two tensors differ, or nothing."""
    expected = np.asarray(expected)
    if expected.shape != actual.shape:
        return f"shape {actual.shape}, expected {expected.shape}"
    error = np.abs(actual - expected).max(initial=0) / max(np.abs(expected).max(initial=0), 1e-3)
    return None if error <= tolerance or np.array_equal(actual, expected, equal_nan=True) else f"differs by {error:.2g}: {actual.ravel()[:8]}, expected {expected.ravel()[:8]}"


def compare(case, rows, values):
    """Compares a case's result with its reference, and gradients that it has formulas for."""
    tensors = values.tensors(rows, case)
    if "result" not in tensors:
        return ["has no result"]
    y = tensors.pop("result")
    found = []
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        expected = case.reference(tensors)
        found.append(("result", None if expected is None else differs(y, expected, case.tolerance)))
        if case.gradients:
            actual = values.gradients(rows, case)
            for name, expected in case.gradients(tensors).items():
                found.append((f"gradient of {name}", differs(actual[name], SEED * np.ravel(expected), 1e-5)))
    return [f"{name} {what}" for name, what in found if what]


def compare_all(families, values):
    failures, count = [], 0
    for family in families:
        for case in family.cases.values():
            for rows in values.rows(family):
                count += 1
                failures += [f"{family.name}.{case.name} with {rows} rows: {failure}" for failure in compare(case, rows, values)]
    return failures, count


def uncovered(families, options):
    """What no case has of the operators with a gradient: each of them, with which sizes and broadcasts."""
    if not options.tblgen:
        return []
    return covered.missing(covered.operators(options.tblgen, options.llvm_include), [use for f in families for use in f.differentiated])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dt-opt", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--double", type=pathlib.Path, help="for CUDA, on this double of it")
    parser.add_argument("--only", help="cases family.name that match this expression")
    parser.add_argument("--cmake", action="append", default=[], help="further arguments of cmake")
    parser.add_argument("--onnx", action="store_true", help="cases of onnx_cases.py instead of those written in dialect nn")
    parser.add_argument("--tblgen", help="llvm-tblgen: every operator with a gradient must have its cases (covered.py)")
    parser.add_argument("--llvm-include", default="/usr/lib/llvm-22/include")
    parser.add_argument("--write", action="store_true", help="write the program's source only")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    options.work = options.work.resolve()
    options.work.mkdir(parents=True, exist_ok=True)
    if options.onnx:
        import onnx_cases as source
    else:
        source = sys.modules[__name__]
    chosen = source.families(options.only)
    program = source.write(chosen, options.work)
    print(f"{sum(len(f.cases) for f in chosen)} cases in {len(chosen)} modules")
    if options.write:
        return 0
    build(program, options)
    values = options.work / "values.safetensors"
    gradients = subprocess.run([options.work / "build" / "gradients", options.work / "program", values, *(["-v"] if options.verbose else [])])
    if gradients.returncode not in (0, 1):
        return 1
    failures, count = compare_all(chosen, Values(values))
    if not options.only:
        failures += uncovered(chosen, options)
    for failure in failures:
        print(failure)
    print(f"{count} results: {len(failures)} failures")
    return 1 if failures or gradients.returncode or not count else 0


if __name__ == "__main__":
    sys.exit(main())
