# The generators by operator, and the operators that the importer knows.
"""Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception"""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
GENERATORS = {}  # operator -> functions of (builder, operator) that add it to a graph
# What the importer has a rule for though no file it reads can hold it.
IMPOSSIBLE = {"Scatter": "deprecated since opset 11, the oldest that is read is 13"}


def generates(*names):
    def add(function):
        for name in names:
            GENERATORS.setdefault(name, []).append(function)
        return function

    return add


def importable():
    """Every operator with a rule, from the importer's sources, or that is an op of dialect nn by name (OnnxOpInterface)."""
    names = {"If"}
    for path in sorted((ROOT / "dialects/nn/ops").glob("*.td")):
        names |= set(re.findall(r'^def NN_\w+ : NN_\w*Unary<"[^"]*", "[^"]*", \[[^\]]*\], "(\w+)">', path.read_text(), re.MULTILINE))
    for path in sorted((ROOT / "models/frontend/import").glob("*.cpp")):
        names |= set(re.findall(r'\brules\["(\w+)"\]\s*=', path.read_text()))
    assert len(names) > 100 and "Sigmoid" in names, "the importer's rules are not written as they were: registry.py looks for rules[\"Op\"] = and for names in Elementwise.td"
    return names


def missing():
    return sorted(importable() - set(GENERATORS) - set(IMPOSSIBLE))
