# ===- backend.py - ONNX's own tests ----------------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Runs the backend tests that the `onnx` package ships (nodes, whole networks) as
# modules of training programs: beside each graph a parameter of its own trains, so
# that there is a loss, and the graph's outputs are compared at the suite's own
# tolerances. A test passes, or is refused in one line; anything else fails. What
# an operator takes as an operand but a compiler must know (axes, shapes, pads) is
# made a constant where the test has it as an input.
#
# --table writes the score of every operator; --compare says whether a page is still so. Most of the time goes into
# what ends refused, with every choice of constants. --known reads what came of each test (--write-known): those that
# passed must pass again, those that were refused are left out, and what is new is tried as without.
# ===-----------------------------------------------------------------------===
"""backend.py --dt-opt PATH --runtime dt_runtime.cmake [--suites node,…] [--only REGEX] [--table FILE | --compare FILE] [--known FILE]"""

import argparse
import collections
import copy
import json
import pathlib
import re
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "fuzz"))
import suites  # noqa: E402
import table  # noqa: E402
from program import Module, Setting, Suite  # noqa: E402
from registry import importable  # noqa: E402

CHUNK = 100
TRAINED = "dt_trained"
SETTING = Setting(micro=1, samples=1, items={})


class Refused(Exception):
    pass


def array(value, what):
    if value is None or not suites.is_tensor(value):
        raise Refused(f"{what} is no tensor (a sequence, an optional or a map)")
    value = np.asarray(value)
    if value.dtype.kind in "OUSc":
        raise Refused(f"{what} has strings or complex numbers")
    return value


def plain(value):
    """In a type that a batch file has; the program converts it back."""
    if value.dtype.name == "bfloat16":
        return value.astype(np.float32)
    if value.dtype.kind in "fiub" and value.dtype.itemsize <= 8 and value.dtype.name in ("float16", "float32", "float64", "int64", "int32", "int8", "uint8", "bool"):
        return value
    raise Refused(f"element type {value.dtype.name}")


def prepared(test, number, constant):
    """(Module, batch): the test's graph with a loss; inputs for which constant(name, value, place) holds are constants."""
    model = copy.deepcopy(test.model)
    graph = model.graph
    initialised = {i.name for i in graph.initializer} | {i.values.name for i in graph.sparse_initializer}
    infos = [i for i in graph.input if i.name not in initialised]
    name, batch = f"t{number}", {}
    del graph.input[:]
    for place, (info, value) in enumerate(zip(infos, test.inputs)):
        value = array(value, f"input '{info.name}'")
        if constant(info.name, value, place):
            settle(graph, info.name, value)
            continue
        shaped = helper.make_tensor_value_info(info.name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        graph.input.append(shaped)
        batch[f"{name}.{info.name}"] = plain(value)
    graph.initializer.append(numpy_helper.from_array(np.float32([0.5, -0.25]), TRAINED))
    graph.node.append(helper.make_node("ReduceMean", [TRAINED], [TRAINED + ".loss"], name=TRAINED, keepdims=0))
    graph.output.append(helper.make_tensor_value_info(TRAINED + ".loss", TensorProto.FLOAT, []))
    return Module(name, {name: model}, {"kind": "graph_output", "output": TRAINED + ".loss"}, {}), batch


def settle(graph, name, value):
    """An input that is a constant: with the name of a literal."""
    literal = f"val_{9000 + len(graph.initializer)}"
    for node in graph.node:
        for k, i in enumerate(node.input):
            if i == name:
                node.input[k] = literal
    graph.initializer.append(numpy_helper.from_array(value, literal))


# What is tried one after another: all inputs are data; those that are no floats are constants but the first; all but the first are.
ATTEMPTS = (
    lambda name, value, place: False,
    lambda name, value, place: place > 0 and (value.dtype.kind not in "f" or value.size <= 1),
    lambda name, value, place: place > 0,
    lambda name, value, place: True,
)


class Known:
    """What came of tests before: by suite and name the choice of constants with which it passed, or None."""

    def __init__(self, path):
        read = json.loads(path.read_text()) if path else {"onnx": "", "tests": {}}
        self.same, self.tests = read["onnx"] == onnx.__version__, read["tests"]

    def __contains__(self, test):
        return key(test) in self.tests

    def __getitem__(self, test):
        return self.tests[key(test)]


def key(test):
    return f"{test.suite}/{test.name}"


class Runner:
    def __init__(self, suite, known):
        self.suite, self.known, self.verdicts, self.missing, self.tried, self.choices = suite, known, {}, {}, {}, {}

    def refuse(self, test, reason):
        self.verdicts[id(test)] = ("refused", reason)

    def is_new(self, test, how):
        """Whether this choice of constants differs from those that were tried."""
        choice = tuple(suites.is_tensor(v) and how("", np.asarray(v), place) for place, v in enumerate(test.inputs))
        tried = self.tried.setdefault(id(test), set())
        if choice in tried or "not handled" in self.verdicts.get(id(test), ("", ""))[1] and "operator" in self.verdicts[id(test)][1]:
            return False
        tried.add(choice)
        return True

    def attempt(self, tests, how):
        """Those that were refused with this choice of constants; verdicts of the others are set."""
        ready, refused = [], []
        for number, test in enumerate(tests):
            if not self.is_new(test, how):
                refused.append(test)
                continue
            try:
                ready.append((test, *prepared(test, number, how)))
            except Refused as reason:
                self.refuse(test, str(reason))
                refused.append(test)
        good = []
        for (test, module, batch), verdict in zip(ready, self.suite.check_all([m for _, m, _ in ready], SETTING)):
            if verdict is None:
                good.append((test, module, batch))
            elif verdict[0] == "refused":
                if id(test) not in self.verdicts:  # the first reason is about the test as it is
                    self.refuse(test, verdict[1])
                refused.append(test)
            else:
                self.verdicts[id(test)] = ("failed", verdict[1])
        batch = {k: v for _, _, b in good for k, v in b.items()}
        for (test, module, _), result in zip(good, self.suite.run([m for _, m, _ in good], SETTING, [batch])):
            self.verdicts[id(test)] = ("failed", result) if isinstance(result, str) else compare(test, result[0][0])
            self.choices[key(test)] = ATTEMPTS.index(how)
        return refused

    def repeat(self, tests):
        """Those of which nothing is known, or no longer."""
        left = [t for t in tests if t not in self.known]
        for choice, how in enumerate(ATTEMPTS):
            again = [t for t in tests if t in self.known and self.known[t] == choice]
            left += self.attempt(again, how) if again else []
        for test in tests:
            if test in self.known and self.known[test] is None:
                self.refuse(test, "refused before, not tried again")
        return left

    def run(self, tests):
        known, left = importable(), []
        for test in tests:
            if test.name in suites.DISPUTED:
                self.refuse(test, suites.DISPUTED[test.name])
                continue
            strange = [op for op in suites.operators(test.model.graph) if op not in known]
            if strange and strange[0] in self.missing:  # refused once, so always
                self.refuse(test, self.missing[strange[0]])
                continue
            left.append(test)
            if strange:
                self.missing.setdefault(strange[0], f"{strange[0]}: this operator is not handled")
        for first in range(0, len(left), CHUNK):
            refused = self.repeat(left[first : first + CHUNK])
            for how in ATTEMPTS:
                refused = self.attempt(refused, how) if refused else []
        for test in left:
            if self.known.same and test in self.known and self.verdicts[id(test)][0] == "refused" and self.known[test] is not None:
                self.verdicts[id(test)] = ("failed", f"passed before, and is refused now: {self.verdicts[id(test)][1]}")
        return [(test, *self.verdicts[id(test)]) for test in tests]


def compare(test, outputs):
    names = [o.name for o in test.model.graph.output]
    # Of 16 bits the reference rounds every operator's result, a program none.
    narrow = {"bfloat16": 2.0**-6, "float16": 2.0**-9}
    for name, wanted in zip(names, test.outputs):
        if not suites.is_tensor(wanted):
            return "failed", f"output {name} should be no tensor"
        wanted = np.asarray(wanted)
        if name not in outputs:
            if wanted.size == 0:
                continue
            return "failed", f"output {name} is missing"
        got = outputs[name]
        if got.shape != wanted.shape:
            return "failed", f"output {name} has shape {list(got.shape)}, expected {list(wanted.shape)}"
        with np.errstate(all="ignore"):
            if wanted.dtype.kind in "biu" and np.array_equal(got.astype(wanted.dtype), wanted):
                continue
            good = np.isclose(got.astype(np.float64), wanted.astype(np.float64), rtol=max(test.rtol, narrow.get(wanted.dtype.name, 0)), atol=test.atol, equal_nan=True)
        if not good.all():
            where = tuple(np.argwhere(~good)[0])
            return "failed", f"output {name} is {got[where]}, expected {wanted[where]} at {[int(i) for i in where]} ({(~good).sum()} of {got.size} differ)"
    return "passed", ""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dt-opt", type=pathlib.Path, required=True)
    parser.add_argument("--runtime", type=pathlib.Path, required=True, help="dt_runtime.cmake of a build")
    parser.add_argument("--compiler", help="C++ compiler of that build")
    parser.add_argument("--suites", default=",".join(suites.SUITES))
    parser.add_argument("--only", help="names that match")
    parser.add_argument("--table", type=pathlib.Path, help="write the table of operators here")
    parser.add_argument("--compare", type=pathlib.Path, help="the table must be what this file has")
    parser.add_argument("--known", type=pathlib.Path, help="do not try again what this file says is refused")
    parser.add_argument("--write-known", type=pathlib.Path, help="write this file")
    parser.add_argument("--work", type=pathlib.Path)
    options = parser.parse_args()
    runner, begin, results = Runner(Suite(options.dt_opt, options.runtime, options.work or tempfile.mkdtemp(), options.compiler), Known(options.known)), time.time(), []
    for name in options.suites.split(","):
        tests = suites.tests(name)
        if not tests:
            sys.exit(f"suite {name} has no tests: the `onnx` package has them elsewhere now")
        results += runner.run([t for t in tests if not options.only or re.search(options.only, t.name)])
    for test, kind, text in results:
        if kind == "failed" or options.only:
            print(f"{kind.upper()} {test.suite}/{test.name}: {text[:600]}")
    counts = collections.Counter(kind for _, kind, _ in results)
    print(f"{len(results)} tests: {counts['passed']} passed, {counts['refused']} refused, {counts['failed']} FAILED; {time.time() - begin:.0f} s")
    if options.write_known:
        passed = {key(test): runner.choices[key(test)] if kind == "passed" else None for test, kind, _ in results}
        rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(choice)}" for name, choice in sorted(passed.items()))
        options.write_known.write_text(f'{{"onnx": "{onnx.__version__}", "tests": {{\n{rows}\n}}}}\n')
    if options.known:
        return 1 if counts["failed"] or not counts["passed"] else 0
    text = table.page(results)
    if options.table:
        options.table.write_text(text)
    if options.compare and table.version_line() not in options.compare.read_text():
        print(f"{options.compare} is about another version of onnx: not compared")
    elif options.compare and options.compare.read_text() != text:
        print(f"{options.compare} is not what the tests say now: write it anew with --table")
        return 1
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
