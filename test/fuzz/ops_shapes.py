# Generators of operators that move elements, or make tensors of sizes.
"""Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception"""

import numpy as np
from onnx import TensorProto, helper

from registry import generates

END = 2**63 - 1


def axis_of(b, x, signed=True):
    return b.random.randrange(-x.rank if signed else 0, x.rank)


def some_float(b, test=lambda v: True):
    """Mostly floats; integers and booleans move the same way."""
    dtype = b.choice(["float32"] * 5 + ["int64", "bool"])
    return b.find(test, dtype) or b.pick(test)


@generates("Reshape")
def reshape(b, op):
    x = some_float(b, lambda v: v.rank > 0)
    kind = b.random.randrange(4)
    if kind == 0:  # merge two neighbours
        if x.rank < 2:
            return b.node(op, [x, b.ints(*([0] * x.rank), 1)])
        k = b.random.randrange(x.rank - 1)
        shape = [0] * k + [-1] + [x.shape[a] if x.fixed(a) else -1 for a in range(k + 2, x.rank)]
    elif kind == 1:  # split one
        k = b.random.randrange(x.rank)
        divisors = [d for d in range(1, 9) if all(a.shape[k] % d == 0 for a in x.arrays)]
        shape = [0] * k + b.choice([[-1, b.choice(divisors)], [b.choice(divisors), -1]]) + [x.shape[a] if x.fixed(a) else -1 for a in range(k + 1, x.rank)]
    elif kind == 2:
        shape = [-1]
    else:  # sizes taken from the value itself, as exporters write views
        sizes = b.node("Shape", [x])
        first = b.node("Slice", [sizes, b.ints(0), b.ints(1), b.ints(0)])
        return b.node(op, [x, b.node("Concat", [first, b.ints(-1)], axis=0)])
    b.node(op, [x, b.ints(*shape)], **({"allowzero": 0} if b.chance(0.2) else {}))


@generates("Flatten")
def flatten(b, op):
    x = b.pick()
    b.node(op, [x], axis=b.random.randint(-x.rank, x.rank))


@generates("Squeeze")
def squeeze(b, op):
    x = some_float(b, lambda v: any(v.fixed(a) and v.shape[a] == 1 for a in range(v.rank)))
    ones = [a for a in range(x.rank) if x.fixed(a) and x.shape[a] == 1]
    b.node(op, [x, b.ints(*b.random.sample(ones, b.random.randint(1, len(ones))))])


@generates("Unsqueeze")
def unsqueeze(b, op):
    x = some_float(b)
    b.node(op, [x, b.ints(b.random.randint(-x.rank - 1, x.rank))])


@generates("Transpose")
def transpose(b, op):
    x = some_float(b, lambda v: v.rank > 1)
    b.node(op, [x], **({} if b.chance(0.15) else {"perm": b.random.sample(range(x.rank), x.rank)}))


@generates("Expand")
def expand(b, op):
    x = some_float(b)
    if b.chance(0.3):
        like = b.find(lambda v: b.broadcasts(x, v))
        if like is not None:
            return b.node(op, [x, b.node("Shape", [like])])
    shape = [b.choice([2, 3]) if x.fixed(a) and x.shape[a] == 1 and b.chance(0.6) else 1 for a in range(x.rank)]
    b.node(op, [x, b.ints(*([2] if b.chance(0.3) else []), *shape)])


@generates("Concat")
def concat(b, op):
    x = some_float(b, lambda v: v.rank > 0)
    axis = axis_of(b, x)
    fits = lambda v: v.rank == x.rank and all(v.dims[a] == x.dims[a] for a in range(x.rank) if a != axis % x.rank)
    parts = [x] + [b.find(fits, x.dtype) for _ in range(b.choice([1, 1, 2]))]
    b.random.shuffle(parts)
    b.node(op, parts, axis=axis)


@generates("Tile")
def tile(b, op):
    x = some_float(b, lambda v: v.rank > 0)
    b.node(op, [x, b.ints(*[b.choice([1, 1, 2]) for _ in range(x.rank)])])


@generates("DepthToSpace", "SpaceToDepth")
def space(b, op):
    x = b.pick(lambda v: v.rank == 4 and all(v.fixed(a) for a in (1, 2, 3)))
    mode = {"mode": b.choice(["DCR", "CRD"])} if op == "DepthToSpace" and b.chance(0.6) else {}
    b.node(op, [x], blocksize=b.choice([1, 2]), **mode)


@generates("Shape", "Size")
def sizes(b, op):
    """A size in arithmetic: a mean by hand."""
    x = b.pick(lambda v: v.rank > 0)
    if op == "Size":
        n = b.node(op, [x])
    else:
        part = {"start": 0, "end": 1} if b.chance(0.5) and b.case.opset >= 15 else {}
        n = b.node("Gather", [b.node(op, [x], **part), b.constant(np.array(0, np.int64))], axis=0)
    if b.chance(0.5):
        n = b.node(b.choice(["Add", "Mul", "Max"]), [n, b.constant(np.array(b.choice([1, 2]), np.int64))])
    n = b.node("Cast", [n], to=TensorProto.FLOAT)
    total = b.node("ReduceSum", [x, b.ints(0)], keepdims=b.choice([0, 1])) if b.chance(0.5) else x
    b.node("Div", [total, b.node("Max", [n, b.number(1.0)])])


@generates("ConstantOfShape")
def constant_of_shape(b, op):
    x = b.pick()
    filled = b.node(op, [b.node("Shape", [x])], value=helper.make_tensor("t", TensorProto.FLOAT, [1], [b.choice([0.0, 0.5])]))
    b.node("Add", [x, filled])


@generates("Range")
def positions(b, op):
    """0, 1, … along an axis: a factor, or rows of a table."""
    x = b.pick(lambda v: v.rank > 0)
    a = b.random.randrange(x.rank)
    size = b.node("Gather", [b.node("Shape", [x]), b.constant(np.array(a, np.int64))], axis=0)
    start = b.choice([0, 0, 1])
    if start:
        size = b.node("Add", [size, b.constant(np.array(start, np.int64))])
    run = b.node(op, [b.constant(np.array(start, np.int64)), size, b.constant(np.array(1, np.int64))])
    if b.chance(0.5) and a == x.rank - 2:
        table = b.parameter(b.choice([12, 20]), x.shape[-1] if x.fixed(x.rank - 1) else 1)
        return b.node("Add", [x, b.node("Gather", [table, run])])
    column = b.node("Unsqueeze", [b.node("Cast", [run], to=TensorProto.FLOAT), b.ints(*range(1, x.rank - a))]) if a < x.rank - 1 else b.node("Cast", [run], to=TensorProto.FLOAT)
    b.node("Sin", [b.node("Mul", [x, column])])


@generates("Trilu")
def trilu(b, op):
    x = b.pick(lambda v: v.rank > 1)
    k = [b.constant(np.array(b.random.randint(-2, 2), np.int64))] if b.chance(0.6) else []
    b.node(op, [x] + k, upper=b.choice([0, 1]))


@generates("EyeLike")
def eye(b, op):
    x = b.pick(lambda v: v.rank == 2)
    b.node("Add", [x, b.node(op, [x], dtype=TensorProto.FLOAT, k=b.choice([0, 0, 1, -1]))])


@generates("Split")
def split(b, op):
    x = some_float(b, lambda v: v.rank > 0 and any(v.fixed(a) and v.shape[a] > 1 for a in range(v.rank)))
    axis = b.choice([a for a in range(x.rank) if x.fixed(a) and x.shape[a] > 1])
    size = x.shape[axis]
    if b.chance(0.5) or (b.case.opset < 18 and size % 2):
        first = b.random.randint(0, size)
        b.node(op, [x, b.ints(first, size - first)], outputs=2, axis=axis)
    else:
        b.node(op, [x], outputs=2, axis=axis, **({"num_outputs": 2} if b.case.opset >= 18 else {}))


@generates("Slice")
def slices(b, op):
    x = some_float(b, lambda v: v.rank > 0)
    axes = b.random.sample(range(x.rank), b.random.randint(1, min(2, x.rank)))
    ranges = [(0, 1), (1, END), (-1, END), (0, -1), (1, 3), (-100, 100), (2, 2)]
    forward = [b.choice(ranges) for _ in axes]
    steps = [b.choice([1, 1, 1, 2, -1]) for _ in axes]
    turned = [(-1, -END) if s < 0 else r for r, s in zip(forward, steps)]
    inputs = [x, b.ints(*[r[0] for r in turned]), b.ints(*[r[1] for r in turned]), b.ints(*axes)]
    b.node(op, inputs + ([b.ints(*steps)] if any(s != 1 for s in steps) or b.chance(0.3) else []))


@generates("Slice")
def slice_by_size(b, op):
    """A table's rows as far as another tensor reaches."""
    x = b.pick(lambda v: v.rank > 0 and v.dims[0].symbol)
    size = b.node("Slice", [b.node("Shape", [x]), b.ints(0), b.ints(1), b.ints(0)])
    table = b.parameter(b.choice([16, 24]), *[s if x.fixed(a) else 1 for a, s in enumerate(x.shape) if a])
    rows = b.node(op, [table, b.ints(0), size, b.ints(0)])
    b.node("Mul", [x, rows])


@generates("Pad")
def pad(b, op):
    x = b.find(lambda v: v.rank > 0, b.choice(["float32"] * 4 + ["int64"])) or b.pick(lambda v: v.rank > 0)
    modes = ["constant", "constant", "reflect", "edge"] + (["wrap"] if b.case.opset >= 19 else [])
    mode = b.choice(modes)
    low = -1 if mode == "constant" and b.chance(0.3) else 0
    pads = [b.choice([low, 0, 0, 1, 2]) if x.fixed(k % x.rank) or b.chance(0.2) else 0 for k in range(2 * x.rank)]
    inputs = [x, b.ints(*pads)]
    if mode == "constant" and b.chance(0.5):
        inputs.append(b.constant(np.array(b.choice([0, 1, -2]), x.dtype)))
    b.node(op, inputs, mode=mode)


@generates("Resize")
def resize(b, op):
    x = b.pick(lambda v: v.rank == 4 and all(v.fixed(a) for a in (1, 2, 3)) and min(v.shape) > 0)
    mode = b.choice(["nearest", "linear", "cubic"])
    attributes = {"mode": mode, "coordinate_transformation_mode": b.choice(["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"])}
    if mode == "nearest":
        attributes["nearest_mode"] = b.choice(["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
    if mode == "cubic" and b.chance(0.4):
        attributes["cubic_coeff_a"] = -0.5
    if mode == "cubic" and b.chance(0.3):
        attributes["exclude_outside"] = 1
    if mode != "nearest" and b.case.opset >= 18 and b.chance(0.4):
        attributes["antialias"] = 1
    if b.chance(0.6) or not x.fixed(0):
        scales = [1, 1, b.choice([1.0, 2.0, 1.3, 0.5, 3.0]), b.choice([1.0, 2.0, 1.7, 0.6])]
        if all(int(size * scale) == size for size, scale in zip(x.shape[2:], scales[2:])):
            scales[2:] = [1.0, 1.0]  # ONNX Runtime copies where no size changes, whatever the scale
        return b.node(op, [x, "", b.constant(np.array(scales, np.float32))], **attributes)
    b.node(op, [x, "", "", b.ints(x.shape[0], x.shape[1], b.choice([1, 3, 4]), b.choice([2, 5]))], **attributes)
