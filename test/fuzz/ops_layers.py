# Generators of products, convolutions, norms, attention and losses.
"""Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception"""

import numpy as np

from builder import Rejected
from case import Dim
from registry import generates


def fixed(x, *axes):
    return all(x.fixed(a) and x.shape[a] > 0 for a in axes)


def flat(b):
    return b.pick(lambda v: v.rank == 2 and v.fixed(1))


@generates("MatMul")
def matmul(b, op):
    x = b.pick(lambda v: v.rank > 0 and v.fixed(v.rank - 1))
    k = x.shape[-1]
    kind = b.random.randrange(5)
    if kind < 2:
        return b.node(op, [x, b.parameter(k, b.choice([1, 3, 4]))])
    if kind == 2:
        return b.node(op, [x, b.parameter(k)])
    if kind == 3 and x.rank > 1:
        return b.node(op, [x, b.node("Transpose", [x], perm=[*range(x.rank - 2), x.rank - 1, x.rank - 2])])
    y = b.find(lambda v: v.rank > 1 and v.name != x.name and v.shape[-2] == k and v.fixed(v.rank - 2))
    b.node(op, [x, y if y is not None else b.node("Transpose", [b.parameter(2, k)], perm=[1, 0])])


@generates("Gemm")
def gemm(b, op):
    x = flat(b)
    turned, k, out = b.chance(0.4), x.shape[1], b.choice([1, 3, 4])
    attributes = {"transB": int(turned)}
    if b.chance(0.3):
        attributes.update(alpha=0.5, beta=b.choice([0.0, 2.0]))
    a = x
    if b.chance(0.2):
        a, attributes["transA"] = b.node("Transpose", [x], perm=[1, 0]), 1
    c = b.choice([[], [b.parameter(out)], [b.parameter(1, out)], [b.parameter(1)], [b.parameter()]])
    b.node(op, [a, b.parameter(*((out, k) if turned else (k, out)))] + c, **attributes)


@generates("Einsum")
def einsum(b, op):
    x = b.pick(lambda v: 1 <= v.rank <= 3)
    letters = "abc"[: x.rank]
    kind = b.random.randrange(4)
    if kind == 0:
        return b.node(op, [x], equation=f"{letters}->{''.join(b.random.sample(letters, b.random.randint(0, x.rank)))}")
    if kind == 1:
        return b.node(op, [x, x], equation=f"{letters},{letters}->{letters[: b.random.randint(0, x.rank)]}")
    if not x.fixed(x.rank - 1):
        raise Rejected("size of the sum is open")
    if kind == 2:
        return b.node(op, [x, b.parameter(3, x.shape[-1])], equation=f"{letters},d{letters[-1]}->{letters[:-1]}d")
    if x.rank < 2:
        raise Rejected("needs rank 2")
    b.node(op, [x, x], equation=f"{letters[:-2]}{letters[-2]}{letters[-1]},{letters[:-2]}d{letters[-1]}->{letters[:-2]}{letters[-2]}d")


def image(b, spatial=(1, 2, 2, 3)):
    """[items, channels, …]: one that is there, or an input."""
    rank = 2 + b.choice(spatial)
    x = b.find(lambda v: v.rank == rank and fixed(v, *range(1, rank)))
    if x is not None and b.chance(0.7):
        return x
    symbol = b.choice(sorted(b.case.symbols()) or ["n"])
    x = b.input("float32", [Dim(0, symbol, 1), Dim(b.choice([1, 2, 4]))] + [Dim(b.choice([1, 3, 4, 5])) for _ in range(rank - 2)])
    return b.node("Mul", [x, b.parameter(*[1 if b.chance(0.5) else s for s in x.shape[1:]])])


def window(b, x, most=3):
    """Attributes of a window over the axes behind the first two."""
    spatial = x.rank - 2
    attributes = {"kernel_shape": [b.random.randint(1, most) for _ in range(spatial)]}
    if b.chance(0.5):
        attributes["strides"] = [b.choice([1, 2]) for _ in range(spatial)]
    if b.chance(0.3):
        attributes["dilations"] = [b.choice([1, 2]) for _ in range(spatial)]
    if b.chance(0.3):
        attributes["auto_pad"] = b.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
    elif b.chance(0.5):
        attributes["pads"] = [b.random.randint(0, k - 1) for k in attributes["kernel_shape"]] * 2 if b.chance(0.5) else [b.random.randint(0, 1) for _ in range(2 * spatial)]
    return attributes


@generates("Conv")
def conv(b, op):
    x = image(b)
    attributes = window(b, x)
    channels = x.shape[1]
    group = b.choice([g for g in (1, 1, 2, 4) if channels % g == 0])
    out = group * b.choice([1, 2])
    inputs = [x, b.parameter(out, channels // group, *attributes["kernel_shape"])]
    if b.chance(0.5):
        inputs.append(b.parameter(out))
    if b.chance(0.5):
        del attributes["kernel_shape"]
    b.node(op, inputs, **attributes, **({"group": group} if group > 1 else {}))


@generates("ConvTranspose")
def conv_transpose(b, op):
    x = image(b)
    attributes = window(b, x, 2 if x.rank == 5 else 3)
    channels = x.shape[1]
    group = b.choice([g for g in (1, 1, 2) if channels % g == 0])
    out = b.choice([1, 2])
    if "strides" in attributes and b.chance(0.3):
        attributes["output_padding"] = [s - 1 for s in attributes["strides"]]
    inputs = [x, b.parameter(channels, out, *attributes["kernel_shape"])]
    if b.chance(0.5):
        inputs.append(b.parameter(group * out))
    b.node(op, inputs, **attributes, **({"group": group} if group > 1 else {}))


@generates("MaxPool", "AveragePool")
def pool(b, op):
    x = image(b)
    attributes = window(b, x)
    if b.chance(0.15):  # all of it, as networks for images of any size have it
        wide = [b.choice([9, 40])] * (x.rank - 2)
        attributes = {"kernel_shape": wide, "strides": wide, "ceil_mode": 1}
    if op == "AveragePool":
        if b.case.opset < 19:
            attributes.pop("dilations", None)
        if b.chance(0.4):
            attributes["count_include_pad"] = 1
    if b.chance(0.3):
        attributes["ceil_mode"] = 1
    if attributes.get("auto_pad", "VALID") != "VALID":  # where ONNX Runtime forgets the dilations
        attributes.pop("dilations", None)
    b.node(op, [x], **attributes)


@generates("GlobalAveragePool", "GlobalMaxPool")
def global_pool(b, op):
    b.node(op, [image(b)])


@generates("LayerNormalization", "RMSNormalization")
def layer_norm(b, op):
    x = b.pick(lambda v: v.rank > 0 and v.fixed(v.rank - 1) and v.shape[-1] > 1)
    axis = x.rank - 1
    while axis > 1 and x.fixed(axis - 1) and b.chance(0.3):
        axis -= 1
    shape = x.shape[axis:]
    inputs = [x, b.parameter(*shape) if b.chance(0.8) else b.constant(np.ones(shape, np.float32))]
    if op == "LayerNormalization" and b.chance(0.6):
        inputs.append(b.parameter(*shape))
    b.node(op, inputs, axis=axis if b.chance(0.5) else axis - x.rank, epsilon=b.choice([0.1, 0.01]))


def channels_of(b):
    x = b.pick(lambda v: v.rank > 2 and fixed(v, *range(1, v.rank)) and np.prod(v.shape[2:]) > 1)
    return x, x.shape[1]


@generates("InstanceNormalization")
def instance_norm(b, op):
    x, c = channels_of(b)
    b.node(op, [x, b.parameter(c), b.parameter(c)], epsilon=0.1)


@generates("GroupNormalization")
def group_norm(b, op):
    x, c = channels_of(b)
    groups = b.choice([g for g in (1, 2, 4) if c % g == 0])
    size = groups if b.case.opset < 21 else c
    b.node(op, [x, b.parameter(size), b.parameter(size)], num_groups=groups, epsilon=0.1)


@generates("BatchNormalization")
def batch_norm(b, op):
    x = b.pick(lambda v: v.rank > 1 and fixed(v, 1))
    c = x.shape[1]
    inputs = [x, b.parameter(c), b.parameter(c), b.constant(b.array((c,))), b.constant(b.array((c,), 0.5, 2))]
    if b.case.opset >= 14 and b.chance(0.3):
        return b.node(op, inputs, outputs=3, training_mode=1, epsilon=0.1)
    b.node(op, inputs, epsilon=0.1)


@generates("LpNormalization")
def lp_norm(b, op):
    x = b.pick(lambda v: v.rank > 0)
    b.node(op, [x], p=b.choice([1, 2]), axis=b.random.randrange(-x.rank, x.rank))


@generates("MeanVarianceNormalization")
def mean_variance(b, op):
    x, _ = channels_of(b)
    # Of one element ONNX Runtime takes the root of a rounding error.
    axes = b.choice([a for a in ([2], [1, 2], [0, 2]) if all("m" != x.dims[k].symbol for k in a) and np.prod([x.shape[k] for k in a]) > 1] or [[1, 2]])
    b.node(op, [x], axes=axes)


@generates("Attention")
def attention(b, op):
    if b.chance(0.5):  # [batch, heads, tokens, size]
        x = b.pick(lambda v: v.rank == 3 and fixed(v, 1, 2))
        heads, size = b.choice([1, 2]), b.choice([2, 4])
        make = lambda h: b.node("Transpose", [b.node("Reshape", [b.node("MatMul", [x, b.parameter(x.shape[2], h * size)]), b.ints(0, 0, h, size)])], perm=[0, 2, 1, 3])
        kv = b.choice([h for h in (1, heads) if heads % h == 0])
        inputs, attributes = [make(heads), make(kv), make(kv)], {}
    else:
        x = b.pick(lambda v: v.rank == 3 and fixed(v, 1, 2) and v.shape[2] % 2 == 0)
        inputs, attributes = [x, x, x], {"q_num_heads": 2, "kv_num_heads": 2}
    t = x.shape[1]
    if b.chance(0.4):
        attributes["is_causal"] = 1
    elif b.chance(0.5):
        inputs.append(b.constant(b.array((t, t))) if b.chance(0.5) else b.constant(np.tri(t) > 0))
    if b.chance(0.3):
        attributes["scale"] = 0.3
    if b.chance(0.2):
        attributes["softcap"] = 2.0
    b.node(op, inputs, **attributes)


@generates("RotaryEmbedding")
def rotary(b, op):
    x = b.pick(lambda v: v.rank == 4 and fixed(v, 1, 2, 3) and v.shape[3] % 2 == 0)
    angles = b.array((6, x.shape[3] // 2))
    at = b.input("int64", [x.dims[0], x.dims[2]], 0, 6)
    b.node(op, [x, b.constant(np.cos(angles)), b.constant(np.sin(angles)), at], interleaved=b.choice([0, 1]))


@generates("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss")
def classes(b, op):
    x = b.pick(lambda v: v.rank in (2, 3) and fixed(v, 1) and v.shape[1] > 1)
    ignore = {"ignore_index": b.choice([-100, -1, 0])} if b.chance(0.6) else {}
    low = -1 if ignore.get("ignore_index") == -1 else 0
    labels = b.input("int64", [d for a, d in enumerate(x.dims) if a != 1], low, x.shape[1])
    if op == "NegativeLogLikelihoodLoss":
        x = b.node("LogSoftmax", [x], axis=1)
    weights = [b.constant(b.array((x.shape[1],), 0.2, 1))] if b.chance(0.3) else []
    b.node(op, [x, labels] + weights, reduction=b.choice(["mean", "sum", "none"]), **ignore)


@generates("GridSample")
def grid_sample(b, op):
    """At places inside and outside of the image; one grid for all items, or moved by each item's mean."""
    x = b.pick(lambda v: v.rank in (3, 4) and all(v.fixed(a) and v.shape[a] > 0 for a in range(1, v.rank)))
    if x.rank == 3:
        x = b.node("Unsqueeze", [x, b.ints(1)])
    modes = ["linear", "nearest", "cubic"] if b.case.opset >= 20 else ["bilinear", "nearest", "bicubic"]
    count = b.choice([1, 2, 3])
    first = b.node("Gather", [b.node("Shape", [x]), b.ints(0)], axis=0)
    shape = b.node("Concat", [first, b.ints(count, 2, 2)], axis=0)
    grid = b.node("Expand", [b.parameter(1, count, 2, 2, low=-1.4, high=1.4), shape])
    if b.chance(0.5):
        mean = b.node("Reshape", [b.node("GlobalAveragePool", [x]), b.constant(np.array([0, -1, 1, 1], np.int64))])
        grid = b.node("Add", [grid, b.node("Slice", [mean, b.ints(0), b.ints(1), b.ints(1)])])
    b.node(op, [x, grid], mode=b.choice(modes), padding_mode=b.choice(["zeros", "border", "reflection"]), align_corners=b.choice([0, 1]))
