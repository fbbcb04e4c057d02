# ===- covered.py - what the cases have of every operator ------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# The dialect's definition says which operators have a gradient, and which broadcast.
# The types in the cases say what they are differentiated with. Each operand that gets
# a gradient must have a dim of 1 in some case and of 0 in some case, and each
# operator rows that may be none. What broadcasts must do so in every way.
# ===-----------------------------------------------------------------------===
"""Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception"""

import dataclasses
import itertools
import json
import pathlib
import subprocess
import typing

ROOT = pathlib.Path(__file__).resolve().parents[3]

NO_CASE = "has a gradient, but no case"
SCALAR, FEWER, ONE, BOTH = "a scalar", "fewer dims", "a dim of 1 that is repeated", "a dim of 1 that is repeated beside one of another operand"
SIZE_ONE, SIZE_ZERO, NO_ROWS = "a dim of 1", "a dim of 0", "rows that may be none"

# Broadcasts of what is not elementwise: the operands that meet, with their dims, and the dims they are repeated to.
BROADCASTS = {
    "broadcast": lambda o, result: ({"input": o["input"]}, result),
    "matmul": lambda o, result: ({"lhs": o["lhs"][:-2], "rhs": o["rhs"][:-2]}, result[:-2]),
    "attention": lambda o, _: ({"mask": o["mask"]} if "mask" in o else {}, tuple(o["query"][i] for i in (0, 2, 1)) + o["key"][1:2]),
    "rotary": lambda o, result: ({"cos": o["cos"], "sin": o["sin"]}, result[:2] + o["cos"][-1:]),
}
# What an operator cannot have, and why.
IMPOSSIBLE = {
    ("rotary", "cos", SCALAR): "every token has its angles",
    ("rotary", "sin", SCALAR): "every token has its angles",
    ("rotary", "", BOTH): "both angles have one shape",
}


@dataclasses.dataclass
class Operator:
    """An operator with a gradient, as the dialect defines it."""

    name: str
    operands: typing.List[str]
    elementwise: bool

    def named(self, use):
        """Pairs of an operand's name and its value; those of a variadic operand share a name."""
        names = self.operands
        if use.segments:
            names = [name for name, n in zip(names, use.segments) for _ in range(n)]
        return list(itertools.zip_longest(names[: len(use.operands)], use.operands, fillvalue=names[-1]))

    def meeting(self, use):
        """Dims of the operands that broadcast, by name, and those of what they become."""
        shapes = {name: value.shape for name, value in self.named(use)}
        result = use.results[0].shape
        if self.name in BROADCASTS:
            return BROADCASTS[self.name](shapes, result)
        return (shapes, result) if self.elementwise and len(self.operands) > 1 else ({}, result)


def operators(tblgen, include):
    """Those of the dialect that have a gradient."""
    command = [tblgen, "-dump-json", "-I", ROOT, "-I", include, ROOT / "dialects/nn/NNOps.td"]
    records = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    def flat(traits):
        for trait in traits:
            record = records[trait["def"]]
            yield record.get("cppInterfaceName")
            if "TraitList" in record["!superclasses"]:
                yield from flat(record["traits"])

    found = []
    for record in (records[name] for name in records["!instanceof"]["Op"]):
        traits = set(flat(record["traits"]))
        operands = [name for kind, name in record["arguments"]["args"] if "TypeConstraint" in records[kind["def"]]["!superclasses"]]
        if "VjpOpInterface" in traits:
            found.append(Operator(record["opName"], operands, "ScalarOpInterface" in traits))
    assert found, "no operator with a gradient: has the interface's name changed?"
    return found


def may_be_none(dim):
    """With 4, 1 or 0 rows (Gradients.cpp), of 4 items in all."""
    return isinstance(dim, str) and any(eval(dim, {"rows": rows, "others": 4 - rows}) == 0 for rows in (4, 1, 0))


def repeated(shape, to):
    """Axes from the last on along which a dim of 1 is repeated."""
    return {i for i, (d, e) in enumerate(zip(reversed(shape), reversed(to))) if d == 1 != e}


def sizes_in(operator, use):
    for name, value in operator.named(use):
        if value.moves:
            yield from ((name, what) for size, what in [(1, SIZE_ONE), (0, SIZE_ZERO)] if size in value.shape)
            yield from (("", NO_ROWS) for dim in value.shape if may_be_none(dim))


def broadcasts_in(operator, use):
    shapes, to = operator.meeting(use)
    for name, shape in shapes.items():
        if to and not shape:
            yield name, SCALAR
        elif len(shape) < len(to):
            yield name, FEWER
        if repeated(shape, to):
            yield name, ONE
    for a, b in itertools.combinations([repeated(shape, to) for shape in shapes.values()], 2):
        if a - b and b - a:
            yield "", BOTH


def needed(operator, uses):
    """Pairs of an operand, or none, and what it must have."""
    moving = dict.fromkeys(name for use in uses for name, value in operator.named(use) if value.moves)
    meeting = dict.fromkeys(name for use in uses for name in operator.meeting(use)[0])
    yield from itertools.product(moving, (SIZE_ONE, SIZE_ZERO))
    yield "", NO_ROWS
    yield from itertools.product(meeting, (SCALAR, FEWER, ONE))
    if len(meeting) > 1:
        yield "", BOTH


def missing(all_operators, all_uses):
    """A line for everything that no case has."""
    lines = []
    for operator in all_operators:
        uses = [use for use in all_uses if use.op == operator.name]
        if not uses:
            lines.append(f"nn.{operator.name} {NO_CASE}")
            continue
        has = {what for use in uses for find in (sizes_in, broadcasts_in) for what in find(operator, use)}
        for operand, what in needed(operator, uses):
            impossible = (operator.name, operand, what) in IMPOSSIBLE
            if impossible == ((operand, what) in has):
                of = f" of `{operand}`" if operand else ""
                lines.append(f"nn.{operator.name}{of}: {'covered.py says impossible: ' if impossible else 'no case has '}{what}")
    return lines
