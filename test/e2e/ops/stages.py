# What module functions are made of: layer functions called with several parameters, saved sets, tensors large enough for threads.
"""Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception"""

import numpy as np

import products
import shapes
from builder import Value
from elementwise import erf, sigmoid
from products import ints


def define(b, name, shapes, body, save=""):
    """A layer function: `body` makes of values of these shapes the list of results."""
    arguments = [Value(f"%a{i}", shape, moves=True) for i, shape in enumerate(shapes)]
    outer, b.lines = b.lines, []
    results = body(*arguments)
    lines, b.lines = b.lines, outer
    attributes = f' attributes {{nn.save = "{save}"}}' if save else ""
    types = ", ".join(v.type for v in results)
    head = f"func.func private @{name}({', '.join(f'{v.name}: {v.type}' for v in arguments)}) -> ({types}){attributes}"
    tail = f"  return {', '.join(v.name for v in results)} : {types}"
    b.family.functions.append("\n".join([head + " {", *("  " + line for line in lines), tail, "}"]))

    def call(*operands):
        base = b.family.fresh()
        values = [Value(base if len(results) == 1 else f"{base}#{i}", v.shape, v.dtype, any(o.moves for o in operands)) for i, v in enumerate(results)]
        left = base if len(results) == 1 else f"{base}:{len(results)}"
        b.lines.append(f"{left} = func.call @{name}({', '.join(v.name for v in operands)}) : ({', '.join(v.type for v in operands)}) -> ({types})")
        return values if len(values) > 1 else values[0]

    return call


def block(b, name, rows, save=""):
    """A layer: a gated product behind a norm, and the sum with its input."""

    def body(x, w, u, s):
        h = b.op("rms_norm", [x, s], x.shape, "eps = 0.01 : f64, axes = 1 : i64")
        gate = b.op("silu", [b.op("linear", [h, w], x.shape)], x.shape)
        return [b.op("add", [x, b.op("mul", [gate, b.op("linear", [h, u], x.shape)], x.shape)], x.shape)]

    return define(b, name, [(rows, 4), (4, 4), (4, 4), (4,)], body, save)


def block_reference(x, w, u, s):
    h = x / np.sqrt((x * x).mean(-1, keepdims=True) + 0.01) * s
    a = h @ w.T
    return x + a * sigmoid(a) * (h @ u.T)


def layers(case):
    for save in ("", "none", "all"):
        for rows in (3, "rows"):
            name = f"layers_{save or 'vjp'}_{rows}"
            b = case(name)
            layer = block(b, f"block_{save or 'vjp'}_{rows}", rows, save)
            x = b.input("x", rows, 4) if rows == "rows" else b.param("x", 3, 4)
            weights = [[b.param(f"{n}{i}", 4, 4, rule="normal(0,0.5)") for n in "wu"] + [b.param(f"s{i}", 4)] for i in (0, 1)]
            # The second parameters are used by two layers; the first call's input may not train.
            for i in (0, 1, 1):
                x = layer(x, *weights[i])

            def reference(t):
                x = t["x"]
                for i in (0, 1, 1):
                    x = block_reference(x, *(t[f"{n}{i}"] for n in "wus"))
                return x

            b.result(x, reference)
            b.tolerance = 3e-5
    b = case("shared_operand")  # one tensor is two operands of a layer
    layer = block(b, "block_shared", 3)
    x, w, s = b.param("x", 3, 4), b.param("w", 4, 4, rule="normal(0,0.5)"), b.param("s", 4)
    b.result(layer(x, w, w, s), lambda t: block_reference(t["x"], t["w"], t["w"], t["s"]))
    b = case("unused")  # a parameter without a use trains nothing
    x = b.param("x", 3)
    b.param("nothing", 4)
    b.result(b.op("exp", [x], (3,)), lambda t: np.exp(t["x"]))
    b = case("forked")  # a branch that rejoins
    x = b.param("x", 3, 4)
    left, right = b.op("sin", [x], (3, 4)), b.op("exp", [x], (3, 4))
    both = b.op("mul", [left, right], (3, 4))
    b.result(b.op("add", [b.op("sub", [both, left], (3, 4)), x], (3, 4)), lambda t: np.sin(t["x"]) * np.exp(t["x"]) - np.sin(t["x"]) + t["x"])
    b = case("output_is_read")  # what a case ends with is a parameter's own value
    x = b.param("x", 3, 4)
    b.result(b.op("reshape", [x], (4, 3)), lambda t: t["x"].reshape(4, 3))
    several(case)
    b = case("generated")
    x = b.param("x", 4, 4)
    mask = Value(b.family.fresh(), (4, 4))
    mask.dtype = "i1"
    b.lines.append(f"{mask.name} = nn.generate : {mask.type} {{ ^bb0(%i: index, %j: index): %le = arith.cmpi sle, %j, %i : index   nn.yield %le : i1 }}")
    y = b.op("where", [mask, x, b.constant(np.array(0, np.float32))], (4, 4))
    b.result(b.op("mul", [y, x], (4, 4)), lambda t: np.tril(t["x"] ** 2))


def several(case):
    """Layers with several results, some unused; layers inside layers; operands of every kind in one place."""
    for save in ("", "none", "all"):
        suffix = save or "vjp"
        b = case(f"results_{suffix}")
        halves = define(b, f"halves_{suffix}", [(3, 4), (4, 4)], lambda x, w: [b.op("tanh", [b.op("linear", [x, w], (3, 4))], (3, 4)), b.op("exp", [x], (3, 4))], save)
        x, w = b.param("x", 3, 4), b.param("w", 4, 4)
        p, q = halves(x, w)
        _, r = halves(p, w)  # the first result is not used
        s, _ = halves(b.op("mul", [q, r], (3, 4)), b.op("exp", [w], (4, 4)))  # a computed weight
        u, v = halves(b.frozen("k", 3, 4), w)  # nothing goes to the input
        y = b.op("add", [b.op("mul", [s, u], (3, 4)), v], (3, 4))
        b.result(y, lambda t: np.tanh((np.exp(t["x"]) * np.exp(np.tanh(t["x"] @ t["w"].T))) @ np.exp(t["w"]).T) * np.tanh(t["k"] @ t["w"].T) + np.exp(t["k"]))
        b.tolerance = 3e-5
        b = case(f"nested_{suffix}")
        inner = define(b, f"inner_{suffix}", [("rows", 4), (4, 4)], lambda x, w: [b.op("tanh", [b.op("linear", [x, w], x.shape)], x.shape)], save)
        outer = define(b, f"outer_{suffix}", [("rows", 4), (4, 4), (4, 4)], lambda x, w, u: [inner(inner(inner(x, w), u), w)], save)
        x = b.input("x", "rows", 4)
        w, u, f = b.param("w", 4, 4), b.param("u", 4, 4), b.frozen("f", 4, 4)
        y = outer(outer(outer(x, w, u), f, u), w, w)

        def nested(t):
            x = t["x"]
            for name in "wuwfufwww":
                x = np.tanh(x @ t[name].T)
            return x

        b.result(y, nested)
        b.tolerance = 1e-4
    b = case("passed_through")  # a layer that returns what it got, once changed and twice as it is
    layer = define(b, "pass", [(3,), (3,)], lambda x, y: [x, b.op("mul", [x, y], (3,)), y, x])
    x, y = b.param("x", 3), b.param("y", 3)
    p, q, r, s = layer(x, y)
    y = b.op("add", [b.op("mul", [p, q], (3,)), b.op("mul", [r, s], (3,))], (3,))
    b.result(y, lambda t: t["x"] ** 2 * t["y"] + t["x"] * t["y"])
    b = case("tied")  # one table for tokens and for what they are read out with, in a layer and outside
    table, index = b.param("table", 5, 4), np.array([[1, 4], [1, 0]], np.int64)
    read = define(b, "read_out", [(2, 2, 4), (5, 4)], lambda h, w: [b.op("linear", [h, w], (2, 2, 5))])
    h = b.op("gather", [table, b.constant(index)], (2, 2, 4), "axis = 0 : i64")
    y = b.op("mul", [read(b.op("tanh", [h], h.shape), table), b.op("linear", [h, table], (2, 2, 5))], (2, 2, 5))
    b.result(y, lambda t: (np.tanh(t["table"][index]) @ t["table"].T) * (t["table"][index] @ t["table"].T))
    b.tolerance = 3e-5


def mixture(case):
    """The same small net under each saved set of its module: what is computed again must be the same."""
    b = case("net")
    x, table = b.param("x", 2, 6, 8), b.param("table", 6, 8)
    w, o, scale, bias = b.param("w", 24, 8, rule="normal(0,0.3)"), b.param("o", 8, 8, rule="normal(0,0.3)"), b.param("scale", 8), b.param("bias", 8)
    h = b.op("add", [x, table], x.shape)
    n = b.op("layer_norm", [h, scale, bias], x.shape, "eps = 0.01 : f64, axes = 1 : i64", segments=[1, 1, 1])
    qkv = b.op("linear", [n, w], (2, 6, 24))
    parts = [b.op("reshape", [b.op("slice", [qkv], (2, 6, 8), f"starts = {ints([0, 0, 8 * i])}, steps = {ints([1, 1, 1])}")], (2, 6, 2, 4)) for i in range(3)]
    a, _ = products.attention_op(b, parts, [(2, 6, 2, 4), (2, 2, 6)], "scale = 0.5 : f64, causal")
    h = b.op("add", [h, b.op("linear", [b.op("reshape", [a], x.shape), o], x.shape)], x.shape)
    p = b.op("softmax", [b.op("gelu", [h], x.shape)], x.shape, "axis = 2 : i64")
    y = b.op("cumsum", [b.op("mul", [p, h], x.shape)], x.shape, "axis = 1 : i64")

    def net(t):
        h = t["x"] + t["table"]
        n = h - h.mean(-1, keepdims=True)
        n = n / np.sqrt((n * n).mean(-1, keepdims=True) + 0.01) * t["scale"] + t["bias"]
        q, k, v = np.split(n @ t["w"].T, 3, -1)
        a = products.attend(*(m.reshape(2, 6, 2, 4) for m in (q, k, v)), None, 0.5, True, "mean")
        h = h + a.reshape(2, 6, 8) @ t["o"].T
        return (shapes.softmax(h / 2 * (1 + erf(h / np.sqrt(2))), -1) * h).cumsum(1)

    b.result(y, net)
    b.tolerance = 3e-5
    b = case("picture")
    x, w, o = b.param("x", 2, 4, 6, 6), b.param("w", 6, 4, 3, 3, rule="normal(0,0.3)"), b.param("o", 6, 4, 2, 2)
    h = b.op("conv", [x, w], (2, 6, 6, 6), f"strides = {ints([1, 1])}, pads = {ints([1] * 4)}, dilations = {ints([1, 1])}, groups = 1 : i64")
    h = b.op("silu", [b.op("group_norm", [h], h.shape, "eps = 0.01 : f64, groups = 2 : i64", segments=[1, 0, 0])], h.shape)
    h = b.op("pool", [h], (2, 6, 3, 3), f"kind = 1 : i32, kernel = {ints([2, 2])}, strides = {ints([2, 2])}, pads = {ints([0] * 4)}, dilations = {ints([1, 1])}")
    y = b.op("conv_dx", [h, o], (2, 4, 6, 6), f"strides = {ints([2, 2])}, pads = {ints([0] * 4)}, dilations = {ints([1, 1])}, groups = 1 : i64")

    def picture(t):
        h = products.convolve(t["x"], t["w"], (1, 1), (1, 1, 1, 1), (1, 1), 1).reshape(2, 2, -1)
        h = ((h - h.mean(-1, keepdims=True)) / np.sqrt(h.var(-1, keepdims=True) + 0.01)).reshape(2, 6, 6, 6)
        h = h * sigmoid(h)
        h = h.reshape(2, 6, 3, 2, 3, 2).mean((3, 5))
        return np.einsum("nohw,ocij->nchiwj", h, t["o"]).reshape(2, 4, 6, 6)

    b.result(y, picture)
    b.tolerance = 3e-5


def saved(mode):
    def family(case):
        layers(case)
        mixture(case)

    family.save = mode
    return family


def large(case):
    """Past the sizes from which kernels use threads, vectors and blocked layouts."""
    wide = (600, 65)
    b = case("chain")
    x = b.param("x", *wide)
    y = b.op("gelu", [b.op("mul", [x, b.param("w", 65)], wide)], wide)
    b.result(y, lambda t: (lambda v: v / 2 * (1 + erf(v / np.sqrt(2))))(t["x"] * t["w"]))
    b = case("linear")
    x, w = b.param("x", *wide), b.param("w", 33, 65, rule="normal(0,0.2)")
    b.result(b.op("linear", [x, w, b.param("b", 33)], (600, 33)), lambda t: t["x"] @ t["w"].T + t["b"])
    b = case("row")  # a row of a local that dies in the sum, read by all of its points
    x, w = b.param("x", *wide), b.param("w", 33, 65, rule="normal(0,0.2)")
    h = b.op("linear", [x, w], (600, 33))
    first = b.op("slice", [h], (1, 33), f"starts = {ints([0, 0])}, steps = {ints([1, 1])}")
    y = b.op("softmax", [b.op("add", [h, first], h.shape)], h.shape, "axis = 1 : i64")

    def row(t):
        h = t["x"] @ t["w"].T
        return shapes.softmax(h + h[:1], -1)

    b.result(y, row)
    b.tolerance = 3e-5
    b = case("layer_norm")
    x = b.param("x", *wide)
    y = b.op("layer_norm", [x, b.param("scale", 65), b.param("bias", 65)], wide, "eps = 0.01 : f64, axes = 1 : i64", segments=[1, 1, 1])

    def layer_norm(t):
        x = t["x"] - t["x"].mean(-1, keepdims=True)
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 0.01) * t["scale"] + t["bias"]

    b.result(y, layer_norm)
    b = case("rms_norm")
    x = b.param("x", *wide)
    y = b.op("rms_norm", [x, b.param("scale", 65)], wide, "eps = 0.01 : f64, axes = 1 : i64")
    b.result(y, lambda t: t["x"] / np.sqrt((t["x"] ** 2).mean(-1, keepdims=True) + 0.01) * t["scale"])
    for axis in (0, 1):
        b = case(f"softmax_{axis}")
        b.result(b.op("softmax", [b.param("x", *wide)], wide, f"axis = {axis} : i64"), lambda t, axis=axis: 1.0 * shapes.softmax(t["x"], axis))
        b = case(f"reduce_{axis}")
        b.result(b.op("reduce", [b.param("x", *wide)], (wide[1 - axis],), f"kind = 1 : i32, axes = {ints([axis])}"), lambda t, axis=axis: t["x"].mean(axis))
    b = case("reduce_all")
    b.result(b.op("reduce", [b.param("x", *wide)], (), f"kind = 0 : i32, axes = {ints([0, 1])}"), lambda t: t["x"].sum())
    b.tolerance = 1e-4  # positive and negative elements
    b = case("transpose")
    b.result(b.op("transpose", [b.param("x", 20, 30, 70)], (70, 20, 30), f"permutation = {ints([2, 0, 1])}"), lambda t: t["x"].transpose(2, 0, 1))
    b = case("gather")
    index = (np.arange(700) * 37 % 50).astype(np.int64)
    b.result(b.op("gather", [b.param("x", 50, 32), b.constant(index)], (700, 32), "axis = 0 : i64"), lambda t: t["x"][index])
    b = case("cross_entropy")
    labels = (np.arange(600) * 29 % 65).astype(np.int64)
    y = b.op("cross_entropy", [b.param("x", *wide), b.constant(labels)], (600,), "")
    b.result(y, lambda t: -np.log(shapes.softmax(t["x"], -1))[np.arange(600), labels])
    b = case("group_norm")
    x = b.param("x", 2, 16, 24, 24)
    y = b.op("group_norm", [x, b.param("scale", 16), b.param("bias", 16)], x.shape, "eps = 0.01 : f64, groups = 4 : i64", segments=[1, 1, 1])

    def group_norm(t):
        g = t["x"].reshape(2, 4, -1)
        g = (g - g.mean(-1, keepdims=True)) / np.sqrt(g.var(-1, keepdims=True) + 0.01)
        return g.reshape(t["x"].shape) * t["scale"].reshape(16, 1, 1) + t["bias"].reshape(16, 1, 1)

    b.result(y, group_norm)
    for name, groups, stride in [("conv", 1, 1), ("conv_strided", 1, 2), ("conv_depthwise", 16, 1)]:
        b = case(name)
        x, w = b.param("x", 2, 16, 20, 20), b.param("w", 16 if groups > 1 else 24, 16 // groups, 3, 3, rule="normal(0,0.2)")
        size = (20 - 1) // stride + 1
        y = b.op("conv", [x, w, b.param("b", w.shape[0])], (2, w.shape[0], size, size),
                 f"strides = {ints([stride] * 2)}, pads = {ints([1] * 4)}, dilations = {ints([1] * 2)}, groups = {groups} : i64")
        b.result(y, lambda t, s=stride, g=groups: products.convolve(t["x"], t["w"], (s, s), (1, 1, 1, 1), (1, 1), g) + t["b"].reshape(-1, 1, 1))
    b = case("pool")
    x = b.param("x", 2, 16, 24, 24)
    attributes = f"kernel = {ints([3, 3])}, strides = {ints([2, 2])}, pads = {ints([1, 1, 1, 1])}, dilations = {ints([1, 1])}"
    y = b.op("pool", [x], (2, 16, 12, 12), "kind = 1 : i32, " + attributes)
    b.result(y, lambda t: products.pooled(t["x"], "avg", (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), (12, 12)))
    b = case("attention")
    q, k, v = b.param("q", 2, 70, 4, 16), b.param("k", 2, 130, 2, 16), b.param("v", 2, 130, 2, 16)
    y, _ = products.attention_op(b, [q, k, v], [(2, 70, 4, 16), (2, 4, 70)], "scale = 0.25 : f64, causal")
    b.result(y, lambda t: products.attend(t["q"], t["k"], t["v"], None, 0.25, True, "mean"))
    b = case("matmul")
    x, y = b.param("x", 3, 90, 70, rule="normal(0,0.3)"), b.param("y", 3, 70, 50, rule="normal(0,0.3)")
    b.result(b.op("matmul", [x, y], (3, 90, 50)), lambda t: t["x"] @ t["y"])
    b = case("cumsum")
    b.result(b.op("cumsum", [b.param("x", 300, 70, rule="normal(0,0.1)")], (300, 70), "axis = 0 : i64"), lambda t: t["x"].cumsum(0))


FAMILIES = {"layers": saved("vjp"), "saved_none": saved("none"), "saved_all": saved("all"), "large": large}
