# ===- generate.py - case number k of a seed --------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===
"""make(seed, number): a random graph with a loss; the same one each time."""

import random

import onnx
import ops_elementwise  # noqa: F401
import ops_index  # noqa: F401
import ops_layers  # noqa: F401
import ops_rows
import ops_shapes  # noqa: F401
from builder import LARGEST, Builder, Rejected
from case import Dim, can_be_edge
from losses import add_loss
from registry import GENERATORS
from steps import SAMPLES

OPSETS = [13, 14, 15, 16, 17, 18, 18, 19, 20, 20, 21, 22, 23, 23, 24]
TRIES = 40
UNEQUAL = 0.2  # the share of graphs whose items have unequal sizes
PLANS = ["dp=2", "tp=2", "dp=2,sub=2,zero=1", "pp=2", "sub=2,save=none", "dp=2,reorder=both", "tp=2,sequence_parallel=true"]
PLANNED = 0.35  # the share of these that a plan runs
EDGES = 0.4  # the share of these that are two modules, where they can be


def begin(b):
    """Inputs, most of them with samples in front, times something that trains."""
    symbols = b.choice([["n"], ["n"], ["n"], ["m"], ["n", "m"], []])
    for k in range(b.choice([1, 2, 2, 3])):
        symbol = symbols[k % len(symbols)] if symbols else ""
        dims = [Dim(b.choice([0, 0, 0, 0, 1, 2]) if b.whole else 0, symbol, b.choice([1, 1, 1, 2])) if symbol else Dim(b.choice([1, 2, 4]))]
        dims += [Dim(b.choice([1, 2, 3, 4, 4, 6])) for _ in range(b.choice([0, 1, 1, 2, 2, 3]))]
        if len(dims) > 1 and b.chance(0.04):
            dims[b.random.randrange(1, len(dims))] = Dim(0)
        if symbol and b.whole and len(dims) > 1 and b.chance(0.08):
            b.random.shuffle(dims)
        x = b.input("float32", dims)
        kind = b.random.randrange(4)
        if kind < 2:
            b.node("Mul", [x, b.parameter(*b.narrower(x))])
        elif kind == 2 and x.rank > 1 and x.fixed(x.rank - 1):
            b.node("MatMul", [x, b.parameter(x.shape[-1], b.choice([1, 2, 4]))])
    if b.chance(0.3):
        b.parameter(*[b.choice([1, 2, 3, 4]) for _ in range(b.choice([1, 2, 2, 3]))])
    if b.chance(0.25):
        b.input(b.choice(["int64", "int32"]), [Dim(0, symbols[0], 1) if symbols else Dim(3), Dim(b.choice([1, 3]))], -4, 6)
    if b.chance(0.15):
        b.input("bool", [Dim(0, symbols[0], 1) if symbols else Dim(3), Dim(b.choice([1, 4]))], 0, 0.5)


def attempt(b, function, op):
    """All of what a generator adds, or nothing."""
    nodes, inputs = len(b.case.nodes), dict(b.case.inputs)
    try:
        function(b, op)
        return True
    except Rejected:
        for node in b.case.nodes[nodes:]:
            for name in node.outputs:
                b.values.pop(name, None)
        for name in set(b.case.inputs) - set(inputs):
            del b.values[name]
        del b.case.nodes[nodes:]
        b.case.inputs = inputs
        return False
    finally:
        b.largest = LARGEST


def used_names(case):
    """Names that an output or the loss depends on."""
    needed = set(case.outputs) | {v for k, v in case.loss.items() if isinstance(v, str) and k != "kind"}
    for node in reversed(case.nodes):
        if needed & set(node.outputs):
            needed |= set(node.inputs)
            for value in node.attributes.values():  # an If reads by name
                if hasattr(value, "node"):
                    needed |= {i for inner in value.node for i in inner.input}
    return needed


def prune(case):
    """Without what no output depends on."""
    needed = used_names(case)
    case.nodes = [n for n in case.nodes if needed & set(n.outputs)]
    case.inputs = {k: v for k, v in case.inputs.items() if k in needed}
    case.constants = {k: v for k, v in case.constants.items() if k in needed}
    return case


def finish(b):
    used = {i for n in b.case.nodes for i in n.inputs}
    made = [b.values[o] for n in b.case.nodes for o in n.outputs if o in b.values]
    made = [v for v in made if not v.points and not v.inside]
    ends = [v for v in made if v.name not in used]
    leaves = [v for v in ends if v.trained] or [v for v in made if v.trained][-2:]
    if not leaves:
        raise Rejected("nothing trains")
    leaves = b.random.sample(leaves, min(len(leaves), b.choice([1, 2, 2, 3])))
    extra = [v for v in ends if v not in leaves] + b.random.sample(made, min(2, len(made)))
    b.case.outputs = list(dict.fromkeys(v.name for v in leaves + extra[:4] if v.dims or b.chance(0.7)))
    add_loss(b, leaves)


def cut_edge(b, case):
    """At times two modules, of which one takes what the other makes."""
    if case.unequal and b.chance(EDGES):
        fits = lambda v: v.dtype == "float32" and ops_rows.handed(v) and can_be_edge(case, v.name)
        found = [o for n in case.nodes for o in n.outputs if o in b.values and fits(b.values[o])]
        case.edge = b.choice(found) if found else ""
    return case


def start(seed, number, source, opset, unequal):
    """A builder; what cases of a hundred share makes them one program."""
    block = number // 100
    b = Builder(f"g{number}", source, opset, f"{seed}:{block}" if unequal else "")
    b.whole = source.random() < (0.2 if unequal else 0.65)
    b.case.micro = SAMPLES if b.whole else 1 + block % 3
    if unequal and source.random() < PLANNED:
        b.case.plan, b.case.micro = PLANS[block % len(PLANS)], 2 + block % 2
    return b


def grow(b, names, focus):
    """Nodes; how many proposals were taken."""
    taken, wanted = 0, b.choice([1, 2, 3, 4, 5, 6, 8, 10])
    for _ in range(TRIES):
        if b.case.unequal and b.chance(0.6):
            taken += attempt(b, lambda b, _: b.choice(ops_rows.ROWS)(b), "")
        else:
            op = focus if taken == 0 or b.chance(0.1) else b.choice(names)
            taken += attempt(b, b.choice(GENERATORS[op]), op)
        if taken == wanted:
            break
    return taken


def make(seed, number, only=None, unequal=None):
    """`only`: names of operators to draw from, if given. `unequal`: whether sizes of items differ; if not given, in some cases."""
    if unequal is None:
        unequal = random.Random(f"{seed}:{number}:sizes").random() < UNEQUAL
    names = sorted(only or GENERATORS)
    focus = names[number % len(names)]  # every operator has its turn
    first = min((s.since_version for s in onnx.defs.get_all_schemas_with_history() if s.name == focus and not s.domain), default=1)
    for attempt_number in range(60):
        source = random.Random(f"{seed}:{number}:{attempt_number}")
        if attempt_number == 30:
            focus = source.choice(names)
        b = start(seed, number, source, source.choice([o for o in OPSETS if o >= first]), unequal)
        try:
            (ops_rows.begin if unequal else begin)(b)
            if grow(b, names, focus) == 0:
                continue
            finish(b)
            return cut_edge(b, prune(b.case))
        except Rejected:
            continue
    raise AssertionError(f"no graph for {seed}:{number}")
