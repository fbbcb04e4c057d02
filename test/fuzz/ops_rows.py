# Generators for rows of items of unequal size: attention inside of segments, rows picked by an index, rows put at places.
"""Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception"""

import numpy as np
from onnx import TensorProto

from builder import Rejected
from case import Dim

ROWS = []  # functions of a builder that add what only such rows have


def of_rows(function):
    ROWS.append(function)
    return function


def rows_axis(value):
    """The only axis that adds up a measure; None: there is none, or it is beside other symbols."""
    axes = [a for a, d in enumerate(value.dims) if d.symbol]
    if len(axes) != 1 or value.dims[axes[0]].symbol not in "tr" or value.dims[axes[0]].offset:
        return None
    return axes[0]


def handed(value):
    """What may go from one module to another: one axis of items' rows, before it axes of 1."""
    axes = [a for a, d in enumerate(value.dims) if d.symbol]
    return len(axes) == 1 and not value.dims[axes[0]].offset and all(s == 1 for s in value.shape[: axes[0]])


def matrix(value):
    """[rows, size] or [1, rows, size]"""
    axis = rows_axis(value)
    return axis == value.rank - 2 and value.rank in (2, 3) and (axis == 0 or value.shape[0] == 1) and value.fixed(value.rank - 1) and value.shape[-1] > 0


def pointing(b, dims, kind, into=None):
    """An input that points to items: one that is there, or another one."""
    dims = tuple(dims)
    for name, given in b.case.inputs.items():
        if (given.kind, given.dims, given.into) == (kind, dims, into) and b.chance(0.7):
            return b.values[name]
    return b.input(b.choice(["int64", "int64", "int32"]) if kind == "segments" else "int64", dims, kind=kind, into=into)


# -- attention ---------------------------------------------------------------


def mask_of(b, dim, rank):
    """[rows, rows], or with an axis before: who may see whom."""
    ids = pointing(b, [dim] if rank == 2 else [Dim(1), dim], "segments")
    across, down = b.node("Unsqueeze", [ids, b.ints(-2)]), b.node("Unsqueeze", [ids, b.ints(-1)])
    mask = b.node("Equal", [down, across] if b.chance(0.7) else [across, down])
    if b.chance(0.5):
        return mask
    size = b.node("Gather", [b.node("Shape", [ids]), b.constant(np.array(rank - 2, np.int64))], axis=0)
    numbers = b.node("Range", [b.constant(np.array(0, np.int64)), size, b.constant(np.array(1, np.int64))])
    query, key = b.node("Unsqueeze", [numbers, b.ints(1)]), b.node("Unsqueeze", [numbers, b.ints(0)])
    if b.chance(0.8):
        past = b.node("GreaterOrEqual", [query, key]) if b.chance(0.5) else b.node("LessOrEqual", [key, query])
        mask = b.node("And", [mask, past])
    if b.chance(0.5):
        near = b.node("Less", [b.node("Sub", [query, key]), b.constant(np.array(b.choice([1, 2, 3, 5]), np.int64))])
        mask = b.node("And", [mask, near] if b.chance(0.5) else [near, mask])
    return mask


def heads_of(b, x, heads, size):
    """[1, heads, rows, size], or [heads, rows, size] of rows alone."""
    y = b.node("MatMul", [x, b.parameter(x.shape[-1], heads * size)])
    if x.rank == 2:
        return b.node("Transpose", [b.node("Reshape", [y, b.constant(np.array([-1, heads, size], np.int64))])], perm=[1, 0, 2])
    return b.node("Transpose", [b.node("Reshape", [y, b.constant(np.array([1, -1, heads, size], np.int64))])], perm=[0, 2, 1, 3])


@of_rows
def attention(b):
    x = b.pick(matrix)
    b.largest = np.inf  # what is hidden
    first = b.made
    heads, size = b.choice([1, 2, 2]), b.choice([1, 2, 4])
    mask = mask_of(b, x.dims[x.rank - 2], x.rank)
    if x.rank == 3 and (heads > 1 or b.chance(0.5)):
        mask = b.node("Unsqueeze", [mask, b.ints(1)])
    few = b.choice([h for h in (1, heads) if heads % h == 0])
    if b.case.opset >= 23 and b.chance(0.5):
        q, k, v = heads_of(b, x, heads, size), heads_of(b, x, few, size), heads_of(b, x, few, size)
        if x.rank == 2:
            q, k, v = (b.node("Unsqueeze", [h, b.ints(0)]) for h in (q, k, v))
        y = b.node("Attention", [q, k, v, mask], **({"scale": 0.5} if b.chance(0.3) else {}))
        back = b.node("Reshape", [b.node("Transpose", [y], perm=[0, 2, 1, 3]), b.constant(np.array([-1, heads * size] if x.rank == 2 else [1, -1, heads * size], np.int64))])
    else:
        q, k, v = (heads_of(b, x, heads, size) for _ in range(3))
        scores = b.node("MatMul", [q, b.node("Transpose", [k], perm=[*range(k.rank - 2), k.rank - 1, k.rank - 2])])
        if b.chance(0.7):
            scores = b.node("Mul", [scores, b.number(0.5)])
        hidden = b.number(b.choice([-np.inf, -np.inf, np.finfo(np.float32).min, np.finfo(np.float32).min, -1e4]))
        if b.chance(0.5):
            scores = b.node("Where", [mask, scores, hidden])
        else:
            scores = b.node("Add", [scores, b.node("Where", [mask, b.number(0.0), hidden])])
        y = b.node("MatMul", [b.node("Softmax", [scores], axis=-1), v])
        perm = [1, 0, 2] if y.rank == 3 else [0, 2, 1, 3]
        back = b.node("Reshape", [b.node("Transpose", [y], perm=perm), b.constant(np.array([-1, heads * size] if x.rank == 2 else [1, -1, heads * size], np.int64))])
    if b.chance(0.8):  # attention is recognised where nothing else takes what is inside
        for name, value in b.values.items():
            number = int(name.lstrip("valwx_"))
            value.inside |= number > first and name != back.name and name not in b.case.inputs
    if b.chance(0.5):
        b.node("Add", [x, b.node("MatMul", [back, b.parameter(heads * size, x.shape[-1])])])


# -- rows by an index --------------------------------------------------------


@of_rows
def gather_own(b):
    """Rows of the same item, in any order, some not at all and some twice."""
    x = b.pick(lambda v: rows_axis(v) is not None)
    axis = rows_axis(x)
    dim = x.dims[axis]
    index = pointing(b, [Dim(0, dim.symbol, b.choice([1, dim.scale]))], "own", dim)
    b.node("Gather", [x, index], axis=axis if b.chance(0.7) else axis - x.rank)


@of_rows
def gather_places(b):
    """Rows of tokens for rows of images."""
    x = b.pick(lambda v: rows_axis(v) is not None and v.dims[rows_axis(v)] == Dim(0, "t", 1))
    b.node("Gather", [x, pointing(b, [Dim(0, "r", 1)], "places")], axis=rows_axis(x))


@of_rows
def gather_owner(b):
    """What a sample has, for each of its images."""
    x = b.pick(lambda v: v.rank > 0 and v.dims[0] == Dim(0, "n", 1) and all(v.fixed(a) for a in range(1, v.rank)))
    b.node("Gather", [x, pointing(b, [Dim(0, "m", 1)], "owner")], axis=0)


@of_rows
def put_places(b):
    """Rows of images at their places among tokens."""
    y = b.pick(lambda v: v.rank == 2 and v.dims[0] == Dim(0, "r", 1) and v.fixed(1))
    x = b.find(lambda v: v.rank in (2, 3) and matrix(v) and v.dims[v.rank - 2] == Dim(0, "t", 1) and v.shape[-1] == y.shape[1])
    if x is None:
        x = b.input("float32", [Dim(0, "t", 1), Dim(y.shape[1])])
    flat = b.node("Reshape", [x, b.ints(-1, y.shape[1])]) if x.rank == 3 else x
    at = b.node("Unsqueeze", [pointing(b, [Dim(0, "r", 1)], "places"), b.ints(-1)])
    made = b.node("ScatterND", [flat, at, y], **({"reduction": "add"} if b.case.opset >= 16 and b.chance(0.4) else {}))
    if x.rank == 3:
        b.node("Reshape", [made, b.ints(1, -1, y.shape[1])])


# -- row by row --------------------------------------------------------------


@of_rows
def layer(b):
    """What a network does with each row."""
    x = b.pick(matrix)
    kind = b.random.randrange(4)
    if kind == 0:
        width = b.choice([2, 4])
        y = b.node("MatMul", [x, b.parameter(x.shape[-1], width)])
        y = b.node("Add", [y, b.parameter(width)])
        return b.node(b.choice(["Relu", "Tanh", "Sigmoid"]), [y])
    if kind == 1 and x.shape[-1] > 1:
        return b.node("LayerNormalization", [x, b.parameter(x.shape[-1])], axis=-1, epsilon=0.1)
    if kind == 2:
        return b.node("Mul", [x, b.parameter(x.shape[-1])])
    return b.node("Add", [x, b.input("float32", [d if d.symbol or b.chance(0.7) else Dim(1) for d in x.dims])])


@of_rows
def embed(b):
    """Rows of a table, by an id for each row."""
    symbol = b.choice("ttr")
    dims = [Dim(0, symbol, 1)] if b.chance(0.5) else [Dim(1), Dim(0, symbol, 1)]
    b.node("Gather", [b.parameter(5, b.choice([2, 4])), b.input("int64", dims, 0, 5)], axis=0)


@of_rows
def merge(b):
    """Rows put together, or apart: two of a picture's make one."""
    x = b.pick(lambda v: matrix(v) and v.rank == 2)
    if x.dims[0].scale % 2 == 0 and b.chance(0.7):
        return b.node("Reshape", [x, b.ints(-1, 2 * x.shape[1])])
    if x.shape[1] % 2:
        raise Rejected("odd")
    b.node("Reshape", [x, b.ints(-1, x.shape[1] // 2)])


@of_rows
def share(b):
    """The part of each row in a sum over its columns, counted where it is positive."""
    x = b.pick(matrix)
    positive = b.node("Cast", [b.node("Greater", [x, b.number(0.0)])], to=TensorProto.FLOAT)
    b.node("Mul", [b.node("Softmax", [x], axis=-1), positive])


def begin(b):
    """Rows of tokens, of images or of both, times something that trains; at times what samples and images have once."""
    symbols = b.choice([["t"], ["t"], ["r"], ["t", "r"], ["t", "r"], ["r", "m"], ["t", "n"], ["t", "r", "n"]])
    for symbol in symbols:
        width = Dim(b.choice([2, 4, 4]))
        if symbol in "nm":
            dims = [Dim(0, symbol, 1), width]
        elif b.chance(0.3):
            dims = [Dim(1), Dim(0, symbol, 1), width]
        else:
            dims = [Dim(0, symbol, b.choice([1, 1, 1, 2])), width]
        x = b.input("float32", dims)
        if b.chance(0.7):
            b.node("MatMul", [x, b.parameter(width.offset, b.choice([2, 4]))])
        else:
            b.node("Mul", [x, b.parameter(width.offset)])
    return symbols
