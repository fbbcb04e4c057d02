# Products, convolutions, pooling, attention, rotary embedding.
"""Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception"""

import itertools

import numpy as np

from elementwise import sigmoid


def ints(values):
    return f"array<i64: {', '.join(map(str, values))}>"


def linear(case):
    for in_out, bias, shape in itertools.product((False, True), (False, True), [(4, 3), (2, 2, 3), (3,), ("rows", 3), ("rows", 2, 3), (2, "rows", 3)]):
        ragged = "rows" in shape
        b = case(f"linear{'_in_out' if in_out else ''}{'_bias' if bias else ''}_{'x'.join(map(str, shape))}")
        w = b.param("w", *((3, 5) if in_out else (5, 3)))
        x = b.input("x", *shape) if ragged else b.param("x", *shape)
        if ragged:
            x = b.op("tanh", [b.op("mul", [x, b.param("s", 3)], shape)], shape)
        operands = [x, w] + ([b.param("b", 5)] if bias else [])
        y = b.op("linear", operands, (*shape[:-1], 5), "in_out" if in_out else "")

        def reference(t, in_out=in_out):
            x = np.tanh(t["x"] * t["s"]) if "s" in t else t["x"]
            return x @ (t["w"] if in_out else t["w"].T) + t.get("b", 0)

        b.result(y, reference)
    b = case("linear_raw_input")  # nothing upstream trains
    x, w = b.input("x", "rows", 3), b.param("w", 5, 3)
    b.result(b.op("linear", [x, w], ("rows", 5)), lambda t: t["x"] @ t["w"].T)
    for shape, out in [((3, 1), 4), ((3, 4), 1), ((1, 4), 3), ((2, 1, 2, 3), 4), (("rows", 1), 1)]:
        b = case(f"linear_thin_{'x'.join(map(str, shape))}_{out}")
        x = b.input("x", *shape) if "rows" in shape else b.param("x", *shape)
        y = b.op("linear", [x, b.param("w", out, shape[-1]), b.param("b", out)], (*shape[:-1], out))
        b.result(y, lambda t: t["x"] @ t["w"].T + t["b"])
    for frozen in ("x", "w"):  # only one of the gradients is wanted
        b = case(f"linear_frozen_{frozen}")
        x, w = (b.param(n, *shape, trainable=n != frozen) for n, shape in [("x", (2, 3)), ("w", (5, 3))])
        b.result(b.op("linear", [x, w, b.frozen("b", 5)], (2, 5)), lambda t: t["x"] @ t["w"].T + t["b"])
    b = case("linear_computed_weight")  # a weight that is not a parameter itself
    x, v = b.param("x", 2, 3), b.param("v", 3, 5)
    w = b.op("mul", [b.op("transpose", [v], (5, 3), f"permutation = {ints([1, 0])}"), b.param("s", 5, 1)], (5, 3))
    b.result(b.op("linear", [x, w], (2, 5)), lambda t: t["x"] @ (t["v"].T * t["s"]).T)
    b = case("linear_views_of_weight")  # one parameter, read as it is, transposed, cut and reshaped
    x, w = b.param("x", 2, 6), b.param("w", 4, 6)
    a = b.op("tanh", [b.op("linear", [x, w], (2, 4))], (2, 4))
    c = b.op("tanh", [b.op("matmul", [a, b.op("reshape", [w], (4, 6))], (2, 6))], (2, 6))
    d = b.op("linear", [c, b.op("transpose", [w], (6, 4), f"permutation = {ints([1, 0])}")], (2, 4), "in_out")
    part = b.op("slice", [w], (4, 3), f"starts = {ints([0, 1])}, steps = {ints([1, 2])}")
    b.result(b.op("matmul", [d, part], (2, 3)), lambda t: np.tanh(np.tanh(t["x"] @ t["w"].T) @ t["w"]) @ t["w"].T @ t["w"][:, 1::2])
    b = case("linear_twice")  # one weight, two uses
    x, w = b.param("x", 2, 3), b.param("w", 3, 3)
    h = b.op("tanh", [b.op("linear", [x, w], (2, 3))], (2, 3))
    b.result(b.op("linear", [h, w], (2, 3)), lambda t: np.tanh(t["x"] @ t["w"].T) @ t["w"].T)


def matmul(case):
    batches = [((), ()), ((2,), (2,)), ((), (2,)), ((2,), ()), ((2, 1), (3,)), ((1,), (3,)), ((2, 3), (2, 3)), (("rows",), ("rows",)), (("rows",), ()), ((2, "rows"), ("rows",))]
    for (left, right), trans_a, trans_b in itertools.product(batches, (False, True), (False, True)):
        rank = max(len(left), len(right))
        padded = [(1,) * (rank - len(s)) + s for s in (left, right)]
        batch = tuple(p if q == 1 else q for p, q in zip(*padded))
        name = f"matmul_{'x'.join(map(str, left))}_{'x'.join(map(str, right))}{'_ta' if trans_a else ''}{'_tb' if trans_b else ''}"
        b = case(name)

        def operand(name, shape):
            if "rows" not in shape:
                return b.param(name, *shape)
            scaled = b.op("mul", [b.input(name, *shape), b.param(name + "s", shape[-1])], shape)
            return b.op("tanh", [scaled], shape)

        x = operand("x", (*left, 4, 3) if not trans_a else (*left, 3, 4))
        y = operand("y", (*right, 3, 5) if not trans_b else (*right, 5, 3))
        z = b.op("matmul", [x, y], (*batch, 4, 5), ", ".join(["trans_a"] * trans_a + ["trans_b"] * trans_b))

        def reference(t, trans_a=trans_a, trans_b=trans_b):
            x, y = (np.tanh(t[n] * t[n + "s"]) if n + "s" in t else t[n] for n in "xy")
            return (x.swapaxes(-1, -2) if trans_a else x) @ (y.swapaxes(-1, -2) if trans_b else y)

        b.result(z, reference)
    b = case("matmul_similarity")  # every row with every row, and a softmax over them
    x, w = b.input("x", "rows", 3), b.param("w", 3, 4)
    h = b.op("linear", [x, w], ("rows", 4), "in_out")
    z = b.op("matmul", [h, b.op("tanh", [h], h.shape)], ("rows", "rows"), "trans_b")
    p = b.op("softmax", [z], z.shape, "axis = 1 : i64")

    def similarity(t):
        h = t["x"] @ t["w"]
        z = np.exp(h @ np.tanh(h).T)
        return z / z.sum(1, keepdims=True)

    b.result(p, similarity)
    b.tolerance = 3e-5
    b = case("matmul_pairs")  # rows with others
    x, y = (b.op("mul", [b.input(n, size, 3), b.param(n + "s", 3)], (size, 3)) for n, size in [("x", "rows"), ("y", "others")])
    z = b.op("matmul", [x, y], ("rows", "others"), "trans_b")
    z = b.op("matmul", [z, b.op("tanh", [y], y.shape)], ("rows", 3))
    b.result(z, lambda t: (t["x"] * t["xs"]) @ (t["y"] * t["ys"]).T @ np.tanh(t["y"] * t["ys"]))
    b = case("matmul_ragged_inner")  # sums over no row with an empty part
    x, w = b.input("x", "rows", 3), b.param("w", 3, 4)
    h = b.op("linear", [x, w], ("rows", 4), "in_out")
    b.result(b.op("matmul", [h, h], (4, 4), "trans_a"), lambda t: (t["x"] @ t["w"]).T @ (t["x"] @ t["w"]))


def windows(size, kernel, stride, dilation, out):
    """For each output place: its begin in the padded input."""
    return itertools.product(*(range(o) for o in out))


def convolve(x, w, strides, pads, dilations, groups):
    d = w.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0)] + [(pads[i], pads[d + i]) for i in range(d)])
    extent = [dilations[i] * (w.shape[2 + i] - 1) + 1 for i in range(d)]
    out = [(x.shape[2 + i] - extent[i]) // strides[i] + 1 for i in range(d)]
    y = np.zeros((x.shape[0], w.shape[0], *out))
    c, o = w.shape[1], w.shape[0] // groups
    for place in itertools.product(*map(range, out)):
        part = x[(slice(None), slice(None), *(slice(place[i] * strides[i], place[i] * strides[i] + extent[i], dilations[i]) for i in range(d)))]
        for g in range(groups):
            y[(slice(None), slice(g * o, g * o + o), *place)] = np.tensordot(part[:, g * c : g * c + c], w[g * o : g * o + o], (range(1, d + 2), range(1, d + 2)))
    return y


# name, input [n, c, spatial], output channels, kernel, strides, pads, dilations, groups, bias
CONVOLUTIONS = [
    ("1d", (2, 3, 8), 4, (3,), (1,), (1, 1), (1,), 1, True),
    ("1d_stride_dilation", (2, 3, 9), 4, (3,), (2,), (2, 1), (2,), 1, False),
    ("1d_groups", (2, 4, 7), 6, (3,), (1,), (0, 0), (1,), 2, True),
    ("2d", (2, 3, 5, 6), 4, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1, True),
    ("2d_1x1", (2, 3, 4, 3), 4, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1, True),
    ("2d_patches", (2, 3, 6, 6), 5, (3, 3), (3, 3), (0, 0, 0, 0), (1, 1), 1, True),
    ("2d_stride_rest", (2, 2, 6, 7), 3, (3, 2), (2, 2), (1, 0, 0, 1), (1, 1), 1, False),
    ("2d_groups", (2, 4, 5, 5), 6, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 2, False),
    ("2d_depthwise", (2, 4, 5, 5), 4, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 4, True),
    ("2d_dilation", (1, 2, 7, 8), 3, (3, 3), (1, 1), (2, 2, 2, 2), (2, 2), 1, False),
    ("3d", (1, 2, 4, 4, 5), 3, (3, 2, 3), (1, 1, 2), (1, 0, 1, 1, 1, 1), (1, 1, 1), 1, True),
    ("2d_one_channel", (2, 1, 5, 4), 1, (2, 4), (1, 1), (1, 2, 0, 1), (1, 1), 1, True),
    ("2d_groups_dilation_stride", (1, 4, 9, 8), 8, (3, 2), (2, 3), (2, 0, 1, 1), (2, 3), 4, True),
    ("1d_depthwise_multiplied", (2, 3, 6), 6, (3,), (1,), (2, 0), (1,), 3, False),
    ("3d_groups", (1, 2, 3, 4, 4), 4, (2, 2, 2), (1, 2, 2), (0, 0, 0, 0, 0, 0), (1, 1, 1), 2, False),
]


def conv(case):
    for name, shape, o, kernel, strides, pads, dilations, groups, bias in CONVOLUTIONS:
        d = len(kernel)
        out = [(shape[2 + i] + pads[i] + pads[d + i] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1 for i in range(d)]
        attributes = f"strides = {ints(strides)}, pads = {ints(pads)}, dilations = {ints(dilations)}, groups = {groups} : i64"
        for ragged in (False, True):
            n = "rows" if ragged else shape[0]
            b = case(f"conv_{name}" + ("_ragged" if ragged else ""))
            x = b.input("x", n, *shape[1:]) if ragged else b.param("x", *shape)
            w = b.param("w", o, shape[1] // groups, *kernel)
            if ragged:
                x = b.op("mul", [x, b.param("s", *shape[1:])], x.shape)
            y = b.op("conv", [x, w] + ([b.param("b", o)] if bias else []), (n, o, *out), attributes)

            def reference(t, args=(strides, pads, dilations, groups), d=d):
                y = convolve(t["x"] * t.get("s", 1), t["w"], *args)
                return y + t["b"].reshape(-1, *(1,) * d) if "b" in t else y

            b.result(y, reference)
        for frozen in ("x", "w"):
            if name not in ("2d", "2d_depthwise"):
                continue
            b = case(f"conv_{name}_frozen_{frozen}")
            x, w = b.param("x", *shape, trainable=frozen != "x"), b.param("w", o, shape[1] // groups, *kernel, trainable=frozen != "w")
            y = b.op("conv", [x, b.op("mul", [w, b.frozen("s", o, 1, 1, 1)], w.shape)], (shape[0], o, *out), attributes)
            b.result(y, lambda t, args=(strides, pads, dilations, groups): convolve(t["x"], t["w"] * t["s"], *args))
        # The transposed convolution: from a tensor of the output's shape to one of the input's, which may have a rest that no window reaches.
        b = case(f"conv_transposed_{name}")
        y, w = b.param("y", shape[0], o, *out), b.param("w", o, shape[1] // groups, *kernel)
        x = b.op("conv_dx", [y, w], shape, attributes)

        def transposed(t, shape=shape, args=(strides, pads, dilations, groups)):
            result = np.zeros(shape)
            for index in np.ndindex(*shape):
                one = np.zeros(shape)
                one[index] = 1
                result[index] = (convolve(one, t["w"], *args) * t["y"]).sum()
            return result

        b.result(x, transposed)


# name, kind, input, kernel, strides, pads, dilations, output (None: rounded down)
POOLS = [
    ("max_2d", "max", (2, 2, 6, 6), (2, 2), (2, 2), (0, 0, 0, 0), (1, 1), None),
    ("max_overlap", "max", (2, 2, 6, 7), (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), None),
    ("max_ceil", "max", (1, 2, 5, 5), (2, 2), (2, 2), (0, 0, 0, 0), (1, 1), (3, 3)),
    ("max_dilation", "max", (1, 2, 7, 6), (2, 3), (1, 1), (0, 1, 0, 1), (2, 2), None),
    ("max_1d", "max", (2, 3, 7), (3,), (2,), (1, 0), (1,), None),
    ("max_3d", "max", (1, 2, 4, 4, 4), (2, 2, 2), (2, 2, 1), (0, 0, 0, 0, 0, 0), (1, 1, 1), None),
    ("avg_2d", "avg", (2, 2, 6, 6), (2, 2), (2, 2), (0, 0, 0, 0), (1, 1), None),
    ("avg_padded", "avg", (2, 2, 6, 7), (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), None),
    ("avg_ceil", "avg", (1, 2, 5, 5), (2, 2), (2, 2), (0, 0, 0, 0), (1, 1), (3, 3)),
    ("avg_1d", "avg", (2, 3, 7), (3,), (1,), (1, 1), (1,), None),
    ("avg_3d", "avg", (1, 2, 4, 4, 4), (2, 2, 2), (2, 2, 1), (0, 0, 0, 0, 0, 0), (1, 1, 1), None),
    ("avg_include_pad", "avg_include_pad", (2, 2, 6, 7), (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), None),
    ("avg_global", "avg", (2, 3, 4, 5), (4, 5), (1, 1), (0, 0, 0, 0), (1, 1), None),
]
KINDS = ["max", "avg", "avg_include_pad"]


def pooled(x, kind, kernel, strides, pads, dilations, out):
    d = len(kernel)
    y = np.zeros((*x.shape[:2], *out))
    for place in itertools.product(*map(range, out)):
        index = np.meshgrid(*[place[i] * strides[i] - pads[i] + dilations[i] * np.arange(kernel[i]) for i in range(d)], indexing="ij")
        inside = np.all([(index[i] >= 0) & (index[i] < x.shape[2 + i]) for i in range(d)], axis=0)
        padded = np.all([index[i] < x.shape[2 + i] + pads[d + i] for i in range(d)], axis=0)
        values = x[(slice(None), slice(None), *(i[inside] for i in index))]
        if kind == "max":
            y[(slice(None), slice(None), *place)] = values.max(-1)
        else:
            y[(slice(None), slice(None), *place)] = values.sum(-1) / (inside if kind == "avg" else padded).sum()
    return y


def pool(case):
    for name, kind, shape, kernel, strides, pads, dilations, out in POOLS:
        d = len(kernel)
        if out is None:
            out = [(shape[2 + i] + pads[i] + pads[d + i] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1 for i in range(d)]
        attributes = f"kind = {KINDS.index(kind)} : i32, kernel = {ints(kernel)}, strides = {ints(strides)}, pads = {ints(pads)}, dilations = {ints(dilations)}"
        b = case(f"pool_{name}")
        x, order = b.spread("x", *shape) if kind == "max" else (b.param("x", *shape), 0)
        y = b.op("pool", [x], (*shape[:2], *out), attributes)
        b.result(y, lambda t, order=order, args=(kind, kernel, strides, pads, dilations, out): pooled(t["x"] + order, *args))
        b = case(f"pool_{name}_ragged")
        x = b.op("mul", [b.input("x", "rows", *shape[1:]), b.param("s", *(1,) * (d + 1), rule="uniform(1,1.1)")], ("rows", *shape[1:]))
        y = b.op("pool", [x], ("rows", shape[1], *out), attributes)
        b.result(y, lambda t, args=(kind, kernel, strides, pads, dilations, out): pooled(t["x"] * t["s"], *args))


def attend(q, k, v, mask, scale, causal, empty, cap=None):
    heads = q.shape[2] // k.shape[2]
    k, v = (np.repeat(a, heads, axis=2) for a in (k, v))
    scores = np.einsum("bthd,bshd->bhts", q, k) * scale
    scores = cap * np.tanh(scores / cap) if cap else scores
    t, s = scores.shape[-2:]
    visible = np.ones(scores.shape, bool)
    if mask is not None:
        if mask.dtype == bool:
            visible &= mask
        else:
            scores = scores + mask
            visible &= scores > -np.inf
    if causal:
        visible &= np.arange(s)[None] <= np.arange(t)[:, None] + s - t
    some = visible.any(-1, keepdims=True)
    scores = np.where(visible, scores, -np.inf)
    scores = np.where(some, scores, 0)
    p = np.exp(scores - scores.max(-1, keepdims=True, initial=-1e30))
    p = p / p.sum(-1, keepdims=True)
    if empty == "zero":
        p = p * some
    return np.einsum("bhts,bshe->bthe", p, v)


# name, b, t, s, query heads, kv heads, d, e, mask shape, mask kind, causal, empty row
ATTENTIONS = [
    ("plain", 2, 3, 3, 2, 2, 4, 4, None, None, False, "mean"),
    ("causal", 2, 4, 4, 2, 2, 4, 4, None, None, True, "mean"),
    ("values", 1, 3, 5, 2, 2, 4, 3, None, None, False, "mean"),
    ("causal_longer_keys", 1, 3, 5, 2, 2, 4, 4, None, None, True, "mean"),
    ("causal_shorter_keys_mean", 1, 5, 3, 2, 2, 4, 4, None, None, True, "mean"),
    ("causal_shorter_keys_zero", 1, 5, 3, 2, 2, 4, 4, None, None, True, "zero"),
    ("grouped", 2, 3, 3, 4, 2, 4, 4, None, None, True, "mean"),
    ("one_kv_head", 1, 3, 4, 3, 1, 4, 4, None, None, False, "mean"),
    ("bool_mask", 2, 3, 4, 2, 2, 4, 4, (2, 2, 3, 4), "bool", False, "mean"),
    ("bool_mask_keys", 2, 3, 4, 2, 2, 4, 4, (2, 1, 1, 4), "bool", False, "mean"),
    ("bool_mask_empty_mean", 2, 3, 4, 2, 2, 4, 4, (2, 1, 3, 4), "empty", False, "mean"),
    ("bool_mask_empty_zero", 2, 3, 4, 2, 2, 4, 4, (2, 1, 3, 4), "empty", False, "zero"),
    ("bool_mask_causal_grouped", 2, 4, 4, 4, 2, 4, 4, (4, 4), "bool", True, "zero"),
    ("float_mask", 2, 3, 4, 2, 2, 4, 4, (2, 1, 3, 4), "float", False, "mean"),
    ("float_mask_heads", 1, 3, 4, 2, 2, 4, 4, (1, 2, 3, 4), "float", True, "mean"),
    ("float_mask_small", 2, 3, 4, 4, 2, 4, 4, (3, 4), "float", False, "mean"),
    ("one_query", 2, 1, 5, 2, 1, 4, 4, None, None, True, "mean"),
    ("one_element", 1, 3, 3, 1, 1, 1, 1, None, None, False, "mean"),
    ("longer", 1, 33, 70, 2, 1, 8, 8, None, None, True, "mean"),
]


def make_mask(kind, shape):
    n = int(np.prod(shape))
    if kind == "float":
        return np.round(np.random.default_rng(n).normal(size=shape), 2).astype(np.float32)
    mask = np.random.default_rng(n).integers(0, 3, shape) > 0
    mask[..., 0] = True
    if kind == "empty":
        mask[..., 1, :] = False
    return mask


def attention_op(b, operands, results, attributes, mask=None, segments=()):
    """`segments`: numbers of queries and of keys."""
    counts = [1, 1, 1, int(mask is not None), *[len(segments) // 2] * 2]
    return b.op("attention", [*operands, *([] if mask is None else [mask]), *segments], results, attributes, segments=counts)


def attention(case):
    for name, n, t, s, h, k, d, e, shape, kind, causal, empty in ATTENTIONS:
        for ragged in (False, True):
            if ragged and shape and (len(shape) == 4 and shape[0] > 1):
                continue
            rows = "rows" if ragged else n
            b = case(f"attention_{name}" + ("_ragged" if ragged else ""))
            operands = []
            for letter, dims in [("q", (t, h, d)), ("k", (s, k, d)), ("v", (s, k, e))]:
                # Of an empty row's mean, query and key get the gradient that an added mask of -3.4e38 gives in PyTorch (as if
                # it were 0), though the output does not change with them: no differences tell that.
                moves = letter == "v" or empty == "zero" or "mean" not in name
                value = b.param(letter, *(dims if ragged else (n, *dims)), trainable=moves)
                if ragged:
                    value = b.op("mul", [b.input("x" + letter, "rows", 1, 1, 1), value], ("rows", *dims))
                operands.append(value)
            mask = make_mask(kind, shape) if kind else None
            given = b.constant(mask) if kind else None
            attributes = f"scale = 0.6 : f64, empty_row = {['mean', 'zero'].index(empty)} : i32" + (", causal" if causal else "")
            y, _ = attention_op(b, operands, [(rows, t, h, e), (rows, h, t)], attributes, given)

            def reference(t, args=(mask, 0.6, causal, empty)):
                q, k, v = (t[c] * t.get("x" + c, 1) for c in "qkv")
                return attend(q, k, v, *args)

            b.result(y, reference)
            b.tolerance = 3e-5
    # A trained bias on the scores.
    for name, n, t, s, h, k, shape, causal in [
        ("heads", 2, 3, 4, 2, 2, (1, 2, 3, 4), False), ("batch", 2, 3, 4, 2, 2, (2, 1, 3, 4), False), ("keys", 2, 3, 4, 2, 2, (4,), False), ("full", 2, 3, 4, 2, 2, (2, 2, 3, 4), False),
        ("grouped", 2, 4, 4, 4, 2, (4, 4, 4), True), ("causal_longer", 1, 3, 5, 2, 1, (3, 5), True), ("queries", 1, 3, 5, 2, 1, (1, 2, 3, 1), False), ("ragged", "rows", 3, 4, 2, 1, (2, 3, 4), True),
    ]:
        b = case(f"attention_bias_{name}")
        q, k, v = (b.op("mul", [b.input("x" + c, n, 1, 1, 1), b.param(c, *dims)], (n, *dims)) if n == "rows" else b.param(c, n, *dims) for c, dims in zip("qkv", [(t, h, 4), (s, k, 4), (s, k, 3)]))
        y, _ = attention_op(b, [q, k, v], [(n, t, h, 3), (n, h, t)], "scale = 0.6 : f64" + (", causal" if causal else ""), b.param("bias", *shape))
        b.result(y, lambda t, causal=causal: attend(*(t[c] * t.get("x" + c, 1) for c in "qkv"), t["bias"], 0.6, causal, "mean"))
        b.tolerance = 3e-5
    # Scores that are bent before they are masked: grouped heads, an added mask, and one that trains.
    for name, t, s, h, k, kind, causal in [("grouped", 4, 4, 4, 2, None, True), ("mask", 3, 4, 2, 2, "float", False), ("bias", 3, 5, 2, 1, "bias", True)]:
        b = case(f"attention_cap_{name}")
        q, key, v = (b.param(c, 2, *dims) for c, dims in zip("qkv", [(t, h, 4), (s, k, 4), (s, k, 3)]))
        mask = make_mask("float", (t, s)) if kind == "float" else None
        given = b.param("bias", t, s) if kind == "bias" else None if mask is None else b.constant(mask)
        y, _ = attention_op(b, [q, key, v], [(2, t, h, 3), (2, h, t)], "scale = 0.6 : f64, soft_cap = 0.7 : f64" + (", causal" if causal else ""), given)
        b.result(y, lambda t, mask=mask, causal=causal: attend(*(t[c] for c in "qkv"), t.get("bias", mask), 0.6, causal, "mean", 0.7))
        b.tolerance = 3e-5
    for empty in ("mean", "zero"):  # masks of -inf; behind the guard a row may see nothing
        mask = np.where(make_mask("empty" if empty == "zero" else "bool", (2, 1, 3, 4)), 0, -np.inf).astype(np.float32)
        b = case(f"attention_infinite_mask_{empty}")
        q, k, v = (b.param(c, 2, s, 2, 4) for c, s in zip("qkv", (3, 4, 4)))
        y, _ = attention_op(b, [q, k, v], [(2, 3, 2, 4), (2, 2, 3)], f"scale = 0.6 : f64, empty_row = {int(empty == 'zero')} : i32", b.constant(mask))
        b.result(y, lambda t, mask=mask, empty=empty: attend(t["q"], t["k"], t["v"], mask == 0, 0.6, False, empty))
        b.tolerance = 3e-5
    for wanted in ("q", "k", "v", "qk", "kv"):  # not all gradients are wanted
        b = case(f"attention_only_{wanted}")
        q, k, v = (b.param(c, 1, s, 2, 4, trainable=c in wanted) for c, s in zip("qkv", (3, 4, 4)))
        y, _ = attention_op(b, [q, k, v], [(1, 3, 2, 4), (1, 2, 3)], "scale = 0.6 : f64")
        b.result(y, lambda t: attend(t["q"], t["k"], t["v"], None, 0.6, False, "mean"))
        b.tolerance = 3e-5
    # The mask of a batch comes with the data.
    b = case("attention_data_mask")
    mask = b.input("mask", "rows", 1, 1, 4, dtype="i1")
    q, k, v = (b.op("mul", [b.input("x" + c, "rows", 1, 1, 1), b.param(c, 4, 2, 4)], ("rows", 4, 2, 4)) for c in "qkv")
    y, _ = attention_op(b, [q, k, v], [("rows", 4, 2, 4), ("rows", 2, 4)], "scale = 0.5 : f64", mask)
    b.result(y, lambda t: attend(*(t["x" + c] * t[c] for c in "qkv"), t["mask"], 0.5, False, "mean"))
    segments(case)


def hidden_by(ids, window, causal, t, s):
    """The mask [b, 1, t, s] that segments and a window stand for."""
    behind = np.arange(t)[:, None] + s - t - np.arange(s)
    visible = np.ones((1, 1, t, s), bool)
    if window:
        visible &= (behind < window) & (causal | (-behind < window))
    if ids:
        visible = visible & (ids[0][:, None, :, None] == ids[1][:, None, None, :])
    return visible


# name, b, t, s, shapes of the segments of queries and of keys, their element, window, causal, empty row
SEGMENTS = [
    ("packed", 2, 6, 6, (2, 6), (2, 6), np.int64, None, False, "zero"),
    ("packed_causal", 2, 6, 6, (2, 6), (2, 6), np.int32, None, True, "zero"),
    ("one_batch", 2, 4, 6, (1, 4), (1, 6), np.int64, None, True, "zero"),
    ("padding", 2, 4, 5, (1, 1), (2, 5), np.int32, None, False, "zero"),
    ("padding_of_queries", 2, 4, 5, (2, 4), (1, 5), np.int32, None, False, "zero"),
    ("empty_mean", 1, 5, 4, (1, 5), (1, 4), np.int64, None, True, "mean"),
    ("window", 2, 6, 6, None, None, None, 3, False, "zero"),
    ("window_causal", 1, 5, 7, None, None, None, 2, True, "zero"),
    ("window_packed", 1, 7, 7, (1, 7), (1, 7), np.int64, 2, True, "zero"),
    ("longer", 1, 70, 130, (1, 70), (1, 130), np.int64, 40, True, "zero"),
]


def segments(case):
    for name, n, t, s, ofQueries, ofKeys, element, window, causal, empty in SEGMENTS:
        b = case(f"attention_segments_{name}")
        attributes = f"scale = 0.6 : f64, empty_row = {['mean', 'zero'].index(empty)} : i32" + (", causal" if causal else "") + (f", window = {window} : i64" if window else "")
        operands = [b.param(c, n, rows, heads, 4, trainable=c == "v" or empty == "zero") for c, rows, heads in [("q", t, 4), ("k", s, 2), ("v", s, 2)]]
        ids = [np.random.default_rng(7 + i).integers(0, 3, shape).astype(element) for i, shape in enumerate([ofQueries, ofKeys])] if element else []
        y, _ = attention_op(b, operands, [(n, t, 4, 4), (n, 4, t)], attributes, segments=[b.constant(i) for i in ids])
        mask = hidden_by(ids, window, causal, t, s)
        b.result(y, lambda t, mask=mask, causal=causal, empty=empty: attend(t["q"], t["k"], t["v"], mask, 0.6, causal, empty))
        b.tolerance = 3e-5
    # A trained bias beside them.
    b = case("attention_segments_bias")
    ids = [np.array([[0, 0, 1, 5]]), np.array([[1, 0, 1, 0, 0]])]
    q, k, v = b.param("q", 2, 4, 2, 4), b.param("k", 2, 5, 1, 4), b.param("v", 2, 5, 1, 3)
    y, _ = attention_op(b, [q, k, v], [(2, 4, 2, 3), (2, 2, 4)], "scale = 0.6 : f64, empty_row = 1 : i32, causal, window = 4 : i64", b.param("bias", 2, 4, 5), [b.constant(i) for i in ids])
    mask = hidden_by(ids, 4, True, 4, 5)
    b.result(y, lambda t: attend(t["q"], t["k"], t["v"], np.where(mask, t["bias"], -np.inf), 0.6, True, "zero"))
    b.tolerance = 3e-5
    # Segments of a batch come with the data.
    b = case("attention_segments_data")
    numbers = b.input("numbers", "rows", 6, dtype="i64")
    q, k, v = (b.op("mul", [b.input("x" + c, "rows", 1, 1, 1), b.param(c, 6, 2, 4)], ("rows", 6, 2, 4)) for c in "qkv")
    y, _ = attention_op(b, [q, k, v], [("rows", 6, 2, 4), ("rows", 2, 6)], "scale = 0.5 : f64, causal", segments=[numbers, numbers])
    b.result(y, lambda t: attend(*(t["x" + c] * t[c] for c in "qkv"), hidden_by([t["numbers"]] * 2, None, True, 6, 6), 0.5, True, "mean"))


def turn(x, cos, sin, style, inverse):
    r = cos.shape[-1]
    first, second = (slice(0, r), slice(r, 2 * r)) if style == 0 else (slice(0, 2 * r, 2), slice(1, 2 * r, 2))
    cos, sin = (a[..., :, None, :] for a in (cos, sin))
    sin = -sin if inverse else sin
    y = x.copy()
    y[..., first] = x[..., first] * cos - x[..., second] * sin
    y[..., second] = x[..., second] * cos + x[..., first] * sin
    return y


def rotary(case):
    for style, r, batched, inverse in itertools.product((0, 1), (3, 2), (False, True), (False, True)):
        b = case(f"rotary_{['half', 'interleaved'][style]}{'_partial' if r == 2 else ''}{'_batched' if batched else ''}{'_inverse' if inverse else ''}")
        x = b.param("x", 2, 3, 2, 6)
        tables = [b.frozen(n, *([2] if batched else []), 3, r) for n in ("cos", "sin")]
        y = b.op("rotary", [x, *tables], x.shape, f"style = {style} : i32" + (", inverse" if inverse else ""))
        b.result(y, lambda t, style=style, inverse=inverse: turn(t["x"], t["cos"], t["sin"], style, inverse))
    b = case("rotary_ragged")
    x = b.op("mul", [b.input("x", "rows", 3, 2, 6), b.param("s", 2, 6)], ("rows", 3, 2, 6))
    y = b.op("rotary", [x, b.frozen("cos", 3, 3), b.frozen("sin", 3, 3)], x.shape)
    b.result(y, lambda t: turn(t["x"] * t["s"], t["cos"], t["sin"], 0, False))


def gated(case):
    """What layers are made of: several ops in a row, so that residuals, recomputation and fusion meet."""
    b = case("gated_mlp")
    x, g, u, d = b.param("x", 3, 4), b.param("gate", 6, 4), b.param("up", 6, 4), b.param("down", 4, 6)
    silu = b.op("silu", [b.op("linear", [x, g], (3, 6))], (3, 6))
    h = b.op("mul", [silu, b.op("linear", [x, u], (3, 6))], (3, 6))
    y = b.op("add", [x, b.op("linear", [h, d], (3, 4))], (3, 4))

    def reference(t):
        a = t["x"] @ t["gate"].T
        return t["x"] + (a * sigmoid(a) * (t["x"] @ t["up"].T)) @ t["down"].T

    b.result(y, reference)


FAMILIES = {"linear": linear, "matmul": matmul, "conv": conv, "pool": pool, "attention": attention, "rotary": rotary, "gated": gated}
