# ===- reduce.py - the smallest case that fails the same way ----------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Delta debugging over nodes, attributes, outputs, sizes and the microbatch. All
# candidates of a round are checked in one program; the smallest that still fails
# alike is the next round's case.
# ===-----------------------------------------------------------------------===
"""reduce(checker, case, verdict): a smaller case with the same kind of failure."""

import copy

import numpy as np

from builder import session
from case import Dim, Input, Node
from generate import prune
from steps import SAMPLES

ROUNDS = 40


def weight(case):
    elements = sum(int(np.prod([d.at(case.sizes(0)) for d in i.dims])) for i in case.inputs.values()) + sum(v.size for v in case.constants.values())
    attributes = sum(len(n.attributes) for n in case.nodes)
    symbols = sum(bool(d.symbol) for i in case.inputs.values() for d in i.dims)
    return 100 * len(case.nodes) + 10 * attributes + 8 * len(case.outputs) + 5 * (case.micro != SAMPLES) + 3 * len(case.plan) + 40 * bool(case.edge) + 5 * symbols + 3 * len(case.inputs) + elements / 100


def values_of(case):
    """All values of the case for the first batch; None where it does not run."""
    names = [o for n in case.nodes for o in n.outputs if o]
    try:
        run = session(case.reference(names))
        feed = case.feed(case.sizes(0))
        return dict(zip(names, run.run(None, {i.name: feed[i.name] for i in run.get_inputs()})))
    except Exception:  # the runtime has no types for what it raises
        return {}


def replace_uses(case, old, new):
    case.edge = new if case.edge == old else case.edge
    for n in case.nodes:
        n.inputs = [new if i == old else i for i in n.inputs]
    case.outputs = list(dict.fromkeys(new if o == old else o for o in case.outputs))
    case.loss = {k: new if v == old else v for k, v in case.loss.items()}


def is_made(case, name):
    return any(name in n.outputs for n in case.nodes)


def without_node(case, index, values):
    """Without a node: its result is one of its operands, or a parameter, input or literal of the same shape."""
    node = case.nodes[index]
    known = {**{k: np.asarray(v) for k, v in case.constants.items()}, **case.feed(case.sizes(0)), **values}
    for operand in dict.fromkeys(i for i in node.inputs if i):
        if operand in known and all(o in known and known[o].shape == known[operand].shape and known[o].dtype == known[operand].dtype for o in node.outputs):
            smaller = copy.deepcopy(case)
            del smaller.nodes[index]
            for o in node.outputs:
                replace_uses(smaller, o, operand)
            yield smaller
    for kind in ("val_", "w", "x"):
        smaller = copy.deepcopy(case)
        del smaller.nodes[index]
        if not all(o in known for o in node.outputs):
            continue
        for o in node.outputs:
            name = f"{kind}9{o.lstrip('vwxal_')}"
            replace_uses(smaller, o, name)
            if kind == "x" and known[o].dtype == np.float32:
                smaller.inputs[name] = Input("float32", tuple(Dim(s) for s in known[o].shape))
            elif kind == "val_" or known[o].dtype == np.float32:
                smaller.constants[name] = known[o]
            else:
                break
        else:
            yield smaller


def one_more_sized(case):
    for name, i in case.inputs.items():
        for a, d in enumerate(i.dims):
            if not d.symbol:
                continue
            for dim in (Dim(0, d.symbol, 1), Dim(d.at(case.sizes(0)))):
                if dim != d:
                    smaller = copy.deepcopy(case)
                    smaller.inputs[name].dims = tuple(dim if k == a else e for k, e in enumerate(i.dims))
                    yield smaller


def narrower(case):
    """One number smaller wherever it stands: in shapes and in literals of integers."""
    found = {d.offset for i in case.inputs.values() for d in i.dims if not d.symbol} | {s for v in case.constants.values() for s in v.shape}
    for size in sorted(found):
        for less in sorted({1, size // 2, size - 1}):
            if not 0 < less < size:
                continue
            smaller = copy.deepcopy(case)
            for i in smaller.inputs.values():
                i.dims = tuple(Dim(less) if d == Dim(size) else d for d in i.dims)
            for name, value in smaller.constants.items():
                cut = value[tuple(slice(0, less if s == size else s) for s in value.shape)]
                smaller.constants[name] = np.where(cut == size, less, cut).astype(cut.dtype) if cut.dtype == np.int64 else cut
            yield smaller


def candidates(case):
    values = values_of(case)
    for index in reversed(range(len(case.nodes))):
        yield from without_node(case, index, values)
    for index, node in enumerate(case.nodes):
        for key in node.attributes:
            smaller = copy.deepcopy(case)
            del smaller.nodes[index].attributes[key]
            yield smaller
    for output in case.outputs:
        if len(case.outputs) > 1:
            smaller = copy.deepcopy(case)
            smaller.outputs.remove(output)
            yield smaller
    for plan, micro in ((case.plan, SAMPLES), ("", case.micro), *((p, case.micro) for p in case.plan.split(","))):
        smaller = copy.deepcopy(case)
        smaller.plan, smaller.micro = plan, micro
        yield smaller
    if case.edge:
        smaller = copy.deepcopy(case)
        smaller.edge = ""
        yield smaller
    yield from one_more_sized(case)
    yield from narrower(case)


def simple_loss(case):
    """Another loss: the mean of any output."""
    values = values_of(case)
    for output in case.outputs + [o for n in case.nodes for o in n.outputs]:
        if output in values and values[output].dtype == np.float32 and output != case.loss.get("output"):
            smaller = copy.deepcopy(case)
            smaller.nodes.append(Node("ReduceMean", [output], ["mean_of_it"], {"keepdims": 0}))
            smaller.loss = {"kind": "graph_output", "output": "mean_of_it"}
            smaller.outputs = list(dict.fromkeys([output, "mean_of_it"]))
            if not is_made(case, "mean_of_it"):
                yield smaller


def reduce(checker, case, verdict):
    """(case, verdict) of the smallest found."""
    for round_number in range(ROUNDS):
        found, seen = [], set()
        for smaller in [*candidates(case), *(simple_loss(case) if round_number == 0 else [])]:
            smaller = prune(smaller)
            smaller.name = f"{case.name.split('_')[0]}_{len(found)}"
            key = smaller.text()
            losing = smaller.loss.get("output", smaller.loss.get("logits"))
            if weight(smaller) < weight(case) + (1000 if round_number == 0 else 0) and key not in seen and is_made(smaller, losing) and smaller.trained():
                seen.add(key)
                found.append(smaller)
        names = [c.name for c in found]
        assert len(set(names)) == len(names)
        # Values of inputs follow the case's name: they stay what they were.
        for smaller in found:
            smaller.seed_name = case.seed_name or case.name
        kept = [(c, v) for c, v in zip(found, checker.check(found)) if v.signature() == verdict.signature()]
        if not kept:
            break
        case, verdict = min(kept, key=lambda pair: weight(pair[0]))
    return case, verdict
