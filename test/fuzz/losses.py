# Losses at the end of a random graph: means, sums over masks, clips, conditions, terms that are subtracted.
"""Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception"""

import numpy as np
from onnx import TensorProto

from builder import Rejected
from case import Dim


def scalar(b, value):
    """A number that does not train."""
    return b.number(round(value, 3))


def total(b, value, op="ReduceSum"):
    return b.node(op, [value], keepdims=0)


def rows_of(b, value):
    """Number of rows, as a float: those of items, if there are any."""
    axis = next((a for a, d in enumerate(value.dims) if d.symbol), 0)
    size = b.node("Gather", [b.node("Shape", [value]), b.constant(np.array(axis, np.int64))], axis=0)
    return b.node("Cast", [size], to=TensorProto.FLOAT)


def guarded(b, count):
    """A denominator kept away from zero, one way or another; what it is kept at matters."""
    limit = b.choice([1.0, 1.0, 3.0, 10.0])
    kind = b.random.randrange(5)
    if kind == 0:
        return b.node("Clip", [count, scalar(b, limit)])
    if kind == 1:
        return b.node("Max", [count, scalar(b, limit)])
    if kind == 2:
        return b.node("Where", [b.node("Greater", [count, scalar(b, limit)]), scalar(b, limit), b.node("Max", [count, scalar(b, 1.0)])])
    if kind == 3:
        return b.node("Add", [count, scalar(b, b.choice([1.0, 1e-6]))])
    return b.node("Min", [b.node("Max", [count, scalar(b, 1.0)]), scalar(b, limit)])


def masked_mean(b, h):
    """sum(h * mask) / count(mask)"""
    dims = [d if a == 0 or d.symbol or b.chance(0.5) else Dim(1) for a, d in enumerate(h.dims)]
    if h.rank > 1 and b.chance(0.5):
        dims = [d if a == 0 or d.symbol else Dim(1) for a, d in enumerate(h.dims)]
    if b.chance(0.5):
        mask = b.input("bool", dims, 0, b.choice([0.6, 0.9]))
        picked = b.node("Where", [mask, h, scalar(b, 0.0)])
        weights = b.node("Cast", [mask], to=TensorProto.FLOAT)
    else:
        weights = b.input("float32", dims, 0.1, 1.0)
        picked = b.node("Mul", [h, weights])
    count = total(b, weights)
    if b.chance(0.2):
        count = total(b, b.node("ReduceMean", [weights, b.ints(-1)] if b.case.opset >= 18 else [weights], **({} if b.case.opset >= 18 else {"axes": [-1]})))
    if b.chance(0.6):
        count = guarded(b, count)
    return b.node("Div", [total(b, picked), count])


def mean_by_rows(b, h):
    count = rows_of(b, h)
    return b.node("Div", [total(b, h), guarded(b, count) if b.chance(0.7) else count])


def cross_entropy(b, h):
    if h.rank not in (2, 3) or not h.fixed(1) or h.shape[1] < 2:
        raise Rejected("no classes")
    ignore = b.choice([None, -100, 0])
    labels = b.input("int64", [d for a, d in enumerate(h.dims) if a != 1], 0, h.shape[1])
    rows = b.node("SoftmaxCrossEntropyLoss", [h, labels], reduction=b.choice(["mean", "sum", "none"]), **({} if ignore is None else {"ignore_index": ignore}))
    if rows.rank == 0:
        return rows
    if b.chance(0.4):  # what is too large counts nothing
        rows = b.node("Where", [b.node("Less", [rows, scalar(b, 1.2)]), rows, scalar(b, 0.0)])
    counted = b.node("Cast", [b.node("Not", [b.node("Equal", [labels, b.constant(np.array(0 if ignore is None else ignore, np.int64))])])], to=TensorProto.FLOAT)
    return b.node("Div", [total(b, rows), guarded(b, total(b, counted))])


def squares(b, h):
    return total(b, b.node("Mul", [h, h]), "ReduceMean")


def weighted(b, h):
    return total(b, b.node("Mul", [h, b.constant(b.array(b.narrower(h)))]), b.choice(["ReduceMean", "ReduceSum"]))


def plain(b, h):
    return total(b, h, b.choice(["ReduceMean", "ReduceMean", "ReduceSum"]))


TERMS = [masked_mean, masked_mean, mean_by_rows, cross_entropy, squares, weighted, plain, plain]


def bend(b, term):
    """Something around a term that is not a sum over items any more, or is after all."""
    kind = b.random.randrange(8)
    if kind == 0:
        flag = b.input("bool", [], 0, 0.5)
        return b.node("Where", [flag, term, scalar(b, 0.0)])
    if kind == 1:
        return b.node("Clip", [term, scalar(b, -0.3), scalar(b, 0.6)])
    if kind == 2:
        return b.node("Where", [b.node("Less", [term, scalar(b, 0.4)]), term, scalar(b, 0.4)])
    if kind == 3:
        return b.node("Neg", [term])
    if kind == 4:
        return b.node("Mul", [term, scalar(b, b.random.uniform(-2, 2))])
    if kind == 5:
        return b.node("Tanh", [term])
    if kind == 6:
        return b.node("Div", [term, scalar(b, 3.0)])
    return b.node("Sqrt", [b.node("Add", [b.node("Mul", [term, term]), scalar(b, 0.5)])])


def one_term(b, leaves):
    h = b.choice(leaves)
    make = b.choice(TERMS)
    if h.rank == 0 and make is not plain:
        make = plain
    term = make(b, h)
    return bend(b, term) if b.chance(0.3) else term


def graph_loss(b, leaves):
    term = one_term(b, leaves)
    for _ in range(b.choice([0, 0, 1, 2])):
        other = one_term(b, leaves)
        if b.chance(0.4):
            other = b.node("Mul", [other, scalar(b, b.random.uniform(0.1, 1))])
        term = b.node(b.choice(["Add", "Add", "Sub"]), [term, other])
    if b.chance(0.15):
        term = bend(b, term)
    b.case.loss = {"kind": "graph_output", "output": term.name}
    b.case.outputs.append(term.name)


def recipe_loss(b, leaves):
    """A loss that the recipe names: the graph ends in logits or values."""
    h = b.choice([v for v in leaves if v.rank > 0] or leaves)
    if h.rank > 0 and h.fixed(h.rank - 1) and h.shape[-1] > 1 and b.chance(0.6):
        ignore = b.choice([-100, 0])
        labels = b.input("int64", h.dims[:-1], 0, h.shape[-1])
        b.case.loss = {"kind": "cross_entropy", "logits": h.name, "labels": labels.name, "ignore_index": ignore, "classes": h.shape[-1]}
    else:
        target = b.input("float32", h.dims)
        b.case.loss = {"kind": "mse", "output": h.name, "target": target.name}
    if h.name not in b.case.outputs:
        b.case.outputs.append(h.name)


def add_loss(b, leaves):
    for _ in range(6):
        nodes, outputs, inputs = len(b.case.nodes), list(b.case.outputs), dict(b.case.inputs)
        try:
            return (recipe_loss if b.chance(0.15) else graph_loss)(b, leaves)
        except Rejected:
            b.case.outputs, b.case.inputs = outputs, inputs
            for node in b.case.nodes[nodes:]:
                for name in node.outputs:
                    del b.values[name]
            del b.case.nodes[nodes:]
    raise Rejected("no loss fits")
