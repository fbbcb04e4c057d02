# Generators of gathers, scatters, reductions and running sums.
"""Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception"""

import numpy as np
from onnx import TensorProto

from builder import Rejected
from case import Dim
from registry import generates


def indices_below(b, limit, dims, low=None):
    """Positions in an axis of `limit` elements: an input, or a literal. Those from the end are worked out: of an input they are a mistake (Lookups.cpp)."""
    if limit <= 0:
        raise Rejected("no elements to pick from")
    low = -limit if low is None and b.chance(0.3) else low or 0
    if any(d.symbol for d in dims) or b.chance(0.5):
        given = b.input(b.choice(["int64", "int64", "int32"]), dims, 0, limit - low)
        return b.node("Add", [given, b.constant(np.array(low, given.dtype))]) if low else given
    values = np.random.default_rng(b.random.getrandbits(60)).integers(low, limit, [d.offset for d in dims])
    return b.constant(values.astype(np.int64))


def some_dims(b, rank):
    """Small sizes; the first may count samples."""
    symbol = b.choice(sorted(b.case.symbols()) or ["n"])
    return [Dim(0, symbol, 1) if a == 0 and b.chance(0.5) else Dim(b.choice([1, 2, 3])) for a in range(rank)]


@generates("Gather")
def gather(b, op):
    x = b.pick(lambda v: v.rank > 0) if b.chance(0.6) else b.parameter(b.choice([3, 7]), b.choice([1, 4]))
    axes = [a for a in range(x.rank) if x.fixed(a) and x.shape[a] > 0]
    if not axes:
        raise Rejected("no axis of known size")
    axis = b.choice(axes)
    size = x.shape[axis]
    kind = b.random.randrange(4)
    if kind == 0:
        at = b.constant(np.array(b.random.randrange(-size, size), np.int64))
    elif kind == 1:
        start = b.random.randrange(size)
        at = b.constant(np.arange(start, size)[: b.choice([1, 2, 9])][:: b.choice([1, -1])].astype(np.int64))
    else:
        at = indices_below(b, size, some_dims(b, b.choice([1, 1, 2])))
    b.node(op, [x, at], axis=axis if b.chance(0.6) else axis - x.rank)


@generates("GatherElements")
def gather_elements(b, op):
    x = b.pick(lambda v: v.rank > 0 and any(v.fixed(a) and v.shape[a] for a in range(v.rank)))
    axis = b.choice([a for a in range(x.rank) if x.fixed(a) and x.shape[a]])
    dims = [Dim(b.choice([1, 2, 3])) if a == axis else d for a, d in enumerate(x.dims)]
    b.node(op, [x, indices_below(b, x.shape[axis], dims)], axis=axis)


@generates("GatherND")
def gather_nd(b, op):
    x = b.pick(lambda v: v.rank > 1 and all(v.fixed(a) and v.shape[a] for a in range(1, v.rank)))
    batch = 1 if not x.fixed(0) or b.chance(0.3) else 0
    depth = b.random.randint(1, x.rank - batch)
    limit = min(x.shape[batch : batch + depth])
    dims = [x.dims[0]] * batch + [Dim(b.choice([1, 2, 4])) for _ in range(b.choice([0, 1]))] + [Dim(depth)]
    b.node(op, [x, indices_below(b, limit, dims)], batch_dims=batch)


def reduction(b):
    """How updates meet what is there, as the attribute: none replace it."""
    kinds = ["add", "mul"] if b.case.opset >= 16 else []
    kinds += ["max", "min"] if b.case.opset >= 18 else []
    return {"reduction": b.choice(kinds)} if kinds and b.chance(0.6) else {}


@generates("ScatterND")
def scatter_nd(b, op):
    x = b.pick(lambda v: v.rank > 0 and v.fixed(0) and v.shape[0] > 0)
    count = b.random.randint(1, x.shape[0])
    kind = reduction(b)
    places = np.random.default_rng(b.random.getrandbits(60)).permutation(x.shape[0])[:count].reshape(-1, 1).astype(np.int64)
    if kind:
        places[:] = places[0]
    updates = b.node("Slice", [x, b.ints(0), b.ints(count), b.ints(0)])
    updates = b.node(b.choice(["Tanh", "Neg", "Identity"]), [updates])
    b.node(op, [x, b.constant(places), updates], **kind)


@generates("ScatterElements")
def scatter_elements(b, op):
    x = b.pick(lambda v: v.rank > 0 and all(v.shape) and any(v.fixed(a) for a in range(v.rank)))
    axis = b.choice([a for a in range(x.rank) if x.fixed(a)])
    one = b.random.randrange(x.shape[axis])
    at = b.node("Expand", [b.constant(np.full([1] * x.rank, one, np.int64)), b.node("Shape", [b.node("Slice", [x, b.ints(0), b.ints(1), b.ints(axis)])])])
    updates = b.node("Sin", [b.node("Slice", [x, b.ints(0), b.ints(1), b.ints(axis)])])
    b.node(op, [x, at, updates], axis=axis, **reduction(b))


@generates("OneHot")
def one_hot(b, op):
    at = indices_below(b, 4, some_dims(b, b.choice([1, 2])))
    y = b.node(op, [at, b.constant(np.array(b.choice([4, 5]), np.int64)), b.constant(np.array([0, 1] if b.chance(0.7) else [-1, 2], np.float32))], axis=b.random.randint(-1, at.rank))
    b.node("Mul", [y, b.partner(y)])


def some_mask(b, shape):
    """A literal; at times one that the importer does not fold (running sums of floats)."""
    mask = np.random.default_rng(b.random.getrandbits(60)).random(shape) < 0.5
    if not mask.any():
        raise Rejected("nothing chosen")
    if b.chance(0.5):
        return b.constant(mask)
    steps = np.diff(mask.astype(np.float32), axis=0, prepend=0)
    return b.node("Greater", [b.node("CumSum", [b.constant(steps), b.ints(0)]), b.number(0.5)])


@generates("NonZero")
def chosen_places(b, op):
    """Elements, or whole rows, where a mask that is known is not 0."""
    x = b.pick(lambda v: v.rank > 1 and v.fixed(0) and v.fixed(1) and all(v.shape[:2]))
    depth = b.choice([1, 2])
    mask = np.random.default_rng(b.random.getrandbits(60)).integers(-1, 2, x.shape[:depth])
    mask = b.choice([mask, mask > 0, np.float32(0.5) * mask.astype(np.float32), np.ones_like(mask)])
    at = b.node("Transpose", [b.node(op, [b.constant(mask)])], perm=[1, 0])
    b.node("GatherND", [x, at])


@generates("NonZero")
def masked_scatter(b, op):
    """The form in which exporters write x[mask] = rows."""
    x = b.pick(lambda v: v.rank == 2 and v.fixed(0) and v.fixed(1) and all(v.shape))
    at = b.node("Transpose", [b.node(op, [some_mask(b, x.shape)])], perm=[1, 0])
    count = b.node("Gather", [b.node("Shape", [at]), b.ints(0)], axis=0)
    rows = b.node("Reshape", [b.parameter(*x.shape), b.ints(-1)])
    b.node("ScatterND", [x, at, b.node("Slice", [rows, b.ints(0), count, b.ints(0)])])


@generates("TopK")
def top_k(b, op):
    x = b.pick(lambda v: v.rank > 0 and any(v.fixed(a) and v.shape[a] > 0 for a in range(v.rank)))
    axis = b.choice([a for a in range(x.rank) if x.fixed(a) and x.shape[a]])
    values, at = b.node(op, [x, b.ints(b.random.randint(1, x.shape[axis]))], outputs=2, axis=axis, largest=b.choice([0, 1]), sorted=1)
    if b.chance(0.3):
        b.node("Mul", [values, b.node("Cast", [at], to=TensorProto.FLOAT)])


DOMAINS = {"ReduceLogSum": (0.1, 9), "ReduceProd": (-2, 2), "ReduceLogSumExp": (-9, 9), "ReduceL2": (0.05, 9)}


@generates(*"ReduceSum ReduceMax ReduceMin ReduceProd ReduceMean ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSum ReduceLogSumExp".split())
def reduce(b, op):
    integers = op in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd") and b.chance(0.25)
    if integers:
        x = b.pick(dtype=b.choice(["int64", "int32"]))
    else:
        x = b.within(*DOMAINS[op]) if op in DOMAINS else b.pick()
    axes = b.random.sample(range(x.rank), b.random.randint(0, x.rank))
    axes = [a - x.rank if b.chance(0.3) else a for a in axes]
    attributes = {"keepdims": b.choice([0, 1])} if b.chance(0.8) else {}
    inputs = [x]
    if axes and (op == "ReduceSum" or b.case.opset >= 18):
        inputs.append(b.ints(*axes))
        if b.chance(0.2):
            attributes["noop_with_empty_axes"] = b.choice([0, 1])
    elif axes:
        attributes["axes"] = axes
    elif b.case.opset >= 18 and b.chance(0.3):
        attributes["noop_with_empty_axes"] = 1
    b.node(op, inputs, **attributes)


@generates("CumSum")
def cumsum(b, op):
    x = b.pick(lambda v: v.rank > 0, b.choice(["float32", "float32", "int64"]))
    attributes = {k: 1 for k in ("exclusive", "reverse") if b.chance(0.4)}
    b.node(op, [x, b.constant(np.array(b.random.randrange(-x.rank, x.rank), b.choice([np.int64, np.int32])))], **attributes)


@generates("ArgMax", "ArgMin")
def arg_most(b, op):
    x = b.pick(lambda v: v.rank > 0 and all(v.shape))
    if b.chance(0.3):
        x = b.node("Round", [x])
    at = b.node(op, [x], axis=b.random.randrange(-x.rank, x.rank), keepdims=b.choice([0, 1]), **({"select_last_index": 1} if b.chance(0.4) else {}))
    if b.chance(0.5):
        b.node("Cast", [at], to=TensorProto.FLOAT)
