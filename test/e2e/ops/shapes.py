# Normalisation, softmax, reductions, losses; data movement and indexing.
"""Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception"""

import itertools

import numpy as np

from products import ints


def trained_input(b, shape, scale_shape):
    """A parameter, or with ragged rows an input times one."""
    if "rows" not in shape:
        return b.param("x", *shape)
    return b.op("mul", [b.input("x", *shape), b.param("s", *scale_shape)], shape)


SCATTERS = ["set", "add", "mul", "max", "min"]


def scattered(kind, x, index, updates):
    """nn.scatter_nd of that kind (its number)."""
    y = x.copy()
    combine = [lambda old, new: new, np.add, np.multiply, np.maximum, np.minimum][kind]
    for place in np.ndindex(*index.shape[:-1]):
        at = tuple(index[place])
        y[at] = combine(y[at], updates[place])
    return y


def norm(case):
    for kind, parts, (shape, axes) in itertools.product(
        ("layer_norm", "rms_norm"), ("", "scale", "scale_bias"), [((3, 5), 1), ((2, 3, 4), 2), (("rows", 5), 1), (("rows", 2, 3), 2), ((2, "rows", 6), 1), ((2, 70), 1)]
    ):
        if kind == "rms_norm" and "bias" in parts:
            continue
        b = case(f"{kind}_{'x'.join(map(str, shape))}{'_' + parts if parts else ''}")
        x = trained_input(b, shape, shape[1:] if shape[0] == "rows" else shape[2:])
        operands = [x] + [b.param(p, *shape[-axes:]) for p in parts.split("_") if p]
        segments = [1, int("scale" in parts), int("bias" in parts)] if kind == "layer_norm" else None
        y = b.op(kind, operands, shape, f"eps = 0.01 : f64, axes = {axes} : i64", segments=segments)

        def reference(t, kind=kind, axes=tuple(range(-axes, 0))):
            x = t["x"] * t.get("s", 1)
            if kind == "layer_norm":
                x = x - x.mean(axes, keepdims=True)
            return x / np.sqrt((x * x).mean(axes, keepdims=True) + 0.01) * t.get("scale", 1) + t.get("bias", 0)

        b.result(y, reference)
    for kind, frozen in itertools.product(("layer_norm", "rms_norm"), ("x", "scale")):  # only one of the gradients is wanted
        b = case(f"{kind}_frozen_{frozen}")
        operands = [b.param(n, *shape, trainable=n != frozen) for n, shape in [("x", (3, 5)), ("scale", (5,))]]
        y = b.op(kind, operands, (3, 5), "eps = 0.01 : f64, axes = 1 : i64", segments=[1, 1, 0] if kind == "layer_norm" else None)

        def frozen_reference(t, kind=kind):
            x = t["x"] - (t["x"].mean(-1, keepdims=True) if kind == "layer_norm" else 0)
            return x / np.sqrt((x * x).mean(-1, keepdims=True) + 0.01) * t["scale"]

        b.result(y, frozen_reference)
    for shape, groups, parts in [
        ((2, 6), 6, "scale_bias"), ((2, 4, 1, 1), 4, ""), ((1, 4, 3, 3), 4, "scale_bias"),
        ((2, 4, 3, 3), 2, "scale_bias"), ((2, 4, 3, 3), 1, "scale"), ((2, 4, 5), 4, "scale_bias"), ((2, 4, 5), 4, ""), ((2, 6, 2, 2, 2), 3, "scale_bias"), ((2, 6), 2, "scale_bias"),
        (("rows", 4, 3, 3), 2, "scale_bias"), (("rows", 4, 5), 4, "scale"), ((2, 4, 9, 9), 2, "scale_bias"),
    ]:
        b = case(f"group_norm_{'x'.join(map(str, shape))}_{groups}{'_' + parts if parts else ''}")
        x = trained_input(b, shape, shape[1:])
        operands = [x] + [b.param(p, shape[1]) for p in parts.split("_") if p]
        y = b.op("group_norm", operands, shape, f"eps = 0.01 : f64, groups = {groups} : i64", segments=[1, int("scale" in parts), int("bias" in parts)])

        def reference(t, groups=groups):
            x = t["x"] * t.get("s", 1)
            g = x.reshape(x.shape[0], groups, int(np.prod(x.shape[1:])) // groups)
            g = (g - g.mean(-1, keepdims=True)) / np.sqrt(g.var(-1, keepdims=True) + 0.01)
            along = lambda a: a.reshape(-1, *(1,) * (x.ndim - 2)) if isinstance(a, np.ndarray) else a
            return g.reshape(x.shape) * along(t.get("scale", 1)) + along(t.get("bias", 0))

        b.result(y, reference)


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def softmaxes(case):
    for kind, (shape, axis) in itertools.product(("softmax", "log_softmax"), [((3, 5), 1), ((3, 5), 0), ((2, 3, 4), 1), (("rows", 4), 1), (("rows", 3, 4), 1), ((2, 40), 1), ((7,), 0)]):
        b = case(f"{kind}_{'x'.join(map(str, shape))}_{axis}")
        x = trained_input(b, shape, shape[1:])
        f = softmax if kind == "softmax" else lambda x, axis: np.log(softmax(x, axis))
        b.result(b.op(kind, [x], shape, f"axis = {axis} : i64"), lambda t, f=f, axis=axis: f(t["x"] * t.get("s", 1), axis))
    for kind in ("softmax", "log_softmax"):  # behind a mask of -inf
        b = case(f"{kind}_masked")
        seen = np.tril(np.ones((4, 4), bool))
        x = b.op("where", [b.constant(seen), b.param("x", 4, 4), b.constant(np.array(-np.inf, np.float32))], (4, 4))
        y = b.op(kind, [x], (4, 4), "axis = 1 : i64")
        if kind == "log_softmax":
            y = b.op("where", [b.constant(seen), y, b.constant(np.array(0, np.float32))], (4, 4))
        b.result(y, lambda t, kind=kind, seen=seen: (lambda p: p if kind == "softmax" else np.where(seen, np.log(p), 0))(softmax(np.where(seen, t["x"], -np.inf), 1)))
    for shape, labels, ignored in [((4, 5), [3, 3, 3, 3], 3), ((5, 1), [0, 0, -100, 0, 0], -100), ((3, 77), [76, 0, 33], -100), ((4, 5), [1, 4, 0, 2], -100), ((4, 5), [1, -100, 7, 2], -100), ((2, 2, 3), [[2, 1], [1, 0]], 1), ((3,), 2, -100)]:
        b = case(f"cross_entropy_{'x'.join(map(str, shape))}_{str(ignored).replace('-', 'minus_')}" + ("_ignored" if -100 in np.ravel(labels) else ""))
        labels = np.array(labels, np.int64)
        x = b.param("x", *shape)
        y = b.op("cross_entropy", [x, b.constant(labels)], shape[:-1], f"ignore_index = {ignored} : i64")

        def reference(t, labels=labels, ignored=ignored):
            log = np.log(softmax(t["x"], -1))
            counted = (labels != ignored) & (labels >= 0) & (labels < log.shape[-1])
            return -np.take_along_axis(log, np.where(counted, labels, 0)[..., None], -1)[..., 0] * counted

        b.result(y, reference)
    for classes in (1, 3, 77):  # those behind them are padding
        b = case(f"cross_entropy_of_{classes}")
        labels = np.array([0, classes - 1, -100], np.int64)
        x = b.param("x", 3, 77)
        y = b.op("cross_entropy", [x, b.constant(labels), b.constant(np.array(classes, np.int64))], (3,))
        b.result(y, lambda t, n=classes, labels=labels: np.where(labels < 0, 0, -np.take_along_axis(np.log(softmax(t["x"][:, :n], -1)), np.maximum(labels, 0)[:, None], -1)[:, 0]))
    b = case("cross_entropy_ragged")
    x = trained_input(b, ("rows", 5), (5,))
    labels = b.input("labels", "rows", dtype="i64")
    y = b.op("cross_entropy", [x, labels], ("rows",), "")
    b.result(y, lambda t: -np.take_along_axis(np.log(softmax(t["x"] * t["s"], -1)), t["labels"][:, None], -1)[:, 0])


REDUCTIONS = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min, "prod": np.prod}


def reduce(case):
    for (i, (kind, f)), (shape, axes), keep in itertools.product(
        enumerate(REDUCTIONS.items()), [((3, 5), (1,)), ((3, 5), (0,)), ((2, 3, 4), (0, 2)), ((2, 3, 4), (1,)), ((2, 3, 4), (0, 1, 2)), ((2, 3), ()), ((3, 70), (1,)), ((70, 3), (0,))], (False, True)
    ):
        b = case(f"reduce_{kind}_{'x'.join(map(str, shape))}_{''.join(map(str, axes))}{'_keep' if keep else ''}")
        order = 0
        if kind in ("max", "min"):
            x, order = b.spread("x", *shape)
        else:
            x = b.param("x", *shape, rule="uniform(0.8,1.25)" if kind == "prod" else "normal(0,1)")
        out = tuple(1 if a in axes else d for a, d in enumerate(shape) if keep or a not in axes)
        y = b.op("reduce", [x], out, f"kind = {i} : i32, axes = {ints(axes) if axes else 'array<i64>'}" + (", keepdims" if keep else ""))
        b.result(y, lambda t, f=f, axes=axes, keep=keep, order=order: f(t["x"] + order, axis=axes, keepdims=keep))
    for i, shape, axes in [(0, ("rows", 3), (0,)), (0, ("rows", 3), (1,)), (0, ("rows", 3), (0, 1)), (0, (2, "rows", 3), (1,)), (2, ("rows", 3), (1,)), (4, ("rows", 3), (1,)), (1, ("rows", 3), (1,)),
                          (1, ("rows", 3), (0,)), (1, ("rows", 3), (0, 1)), (1, (2, "rows", 3), (0, 1)), (4, ("rows", 3), (0,)), (0, ("rows", 2, "others"), (0, 2)), (0, ("rows",), (0,))]:
        kind = list(REDUCTIONS)[i]
        b = case(f"reduce_{kind}_{'x'.join(map(str, shape))}_{''.join(map(str, axes))}")
        x = b.op("mul", [b.input("x", *shape), b.param("s", *(1,) * len(shape), rule="uniform(1,1.2)")], shape)
        y = b.op("reduce", [x], tuple(d for a, d in enumerate(shape) if a not in axes), f"kind = {i} : i32, axes = {ints(axes)}")
        b.result(y, lambda t, f=REDUCTIONS[kind], axes=axes: f(t["x"] * t["s"], axis=axes))
    for zeros in (1, 2):  # a factor of 0 has the product of the others as its gradient, and two of them leave none
        b = case(f"reduce_prod_{zeros}_zeros")
        x = b.op("concat", [b.param("x", 2, 3), b.param("z", 2, zeros, rule="zeros")], (2, 3 + zeros), "axis = 1 : i64")
        b.result(b.op("reduce", [x], (2,), f"kind = 4 : i32, axes = {ints([1])}"), lambda t: np.concatenate([t["x"], t["z"]], 1).prod(1))
    for flags in ("", "min", "last", "min, last"):
        b = case("arg_max" + flags.replace(", ", "_"))
        k = np.array([[3, 1, 3, 1], [2, 2, 2, 2]], np.int64)
        index = b.op("arg_max", [b.constant(k)], (2,), "axis = 1 : i64" + (", " + flags if flags else ""), dtype="i64")
        y = b.op("gather", [b.param("w", 4, 2), index], (2, 2), "axis = 0 : i64")
        best = {"": [0, 0], "min": [1, 0], "last": [2, 3], "min, last": [3, 3]}[flags]
        b.result(y, lambda t, best=best: t["w"][best])
    b = case("arg_max_of_trained")
    x, order = b.spread("x", 3, 4)
    index = b.op("arg_max", [x], (3,), "axis = 1 : i64", dtype="i64")
    y = b.op("gather", [b.param("w", 4, 2), index], (3, 2), "axis = 0 : i64")
    b.result(y, lambda t, order=order: t["w"][(t["x"] + order).argmax(1)])
    for (shape, axis), exclusive, reverse in itertools.product([((4,), 0), ((3, 4), 0), ((2, 3, 2), 1), (("rows", 3), 0), (("rows", 3), 1)], (False, True), (False, True)):
        b = case(f"cumsum_{'x'.join(map(str, shape))}_{axis}{'_exclusive' if exclusive else ''}{'_reverse' if reverse else ''}")
        x = trained_input(b, shape, shape[1:])
        y = b.op("cumsum", [x], shape, ", ".join([f"axis = {axis} : i64"] + ["exclusive"] * exclusive + ["reverse"] * reverse))

        def reference(t, axis=axis, exclusive=exclusive, reverse=reverse):
            x = t["x"] * t.get("s", 1)
            x = np.flip(x, axis) if reverse else x
            y = np.cumsum(x, axis) - (x if exclusive else 0)
            return np.flip(y, axis) if reverse else y

        b.result(y, reference)


def bools(values):
    return f"array<i1: {', '.join(str(v).lower() for v in values)}>"


def ordered(x, axis, k, smallest=False):
    """Places of the k largest, equals by index; not-a-number above all numbers."""
    if smallest:
        order = np.argsort(x, axis, kind="stable")
    else:
        order = np.flip(x.shape[axis] - 1 - np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
    return np.take(order, np.arange(k), axis)


def top_k(case):
    both = ("f32", "i64")
    for shape, axis, k, smallest in [((3, 5), 1, 2, False), ((3, 5), 1, 5, True), ((5, 3), 0, 2, False), ((2, 6, 3), 1, 4, True), ((2, 64), 1, 3, False), ((2, 64, 3), 1, 8, True), ((1, 1), 1, 1, False)]:
        b = case(f"top_k_{'x'.join(map(str, shape))}_{axis}_{k}{'_smallest' if smallest else ''}")
        x, order = b.spread("x", *shape)
        out = tuple(k if a == axis else d for a, d in enumerate(shape))
        y, _ = b.op("top_k", [x], [out, out], f"axis = {axis} : i64" + (", smallest" if smallest else ""), dtype=both)
        b.result(y, lambda t, o=order, a=axis, k=k, s=smallest: np.take_along_axis(t["x"] + o, ordered(t["x"] + o, a, k, s), a))
    b = case("top_k_ragged")  # each row by itself, whatever their number
    x = trained_input(b, ("rows", 5), (5,))
    y, _ = b.op("top_k", [x], [("rows", 2)] * 2, "axis = 1 : i64", dtype=both)
    b.result(y, lambda t: np.take_along_axis(t["x"] * t["s"], ordered(t["x"] * t["s"], 1, 2), 1))
    b = case("top_k_sort_ragged")  # all of an axis without a number
    x = trained_input(b, ("rows", 5), (5,))
    y, _ = b.op("top_k", [x], [("rows", 5)] * 2, "axis = 0 : i64", dtype=both)
    b.result(y, lambda t: np.sort(t["x"] * t["s"], 0)[::-1])
    for n, k, smallest in [(8, 8, False), (8, 8, True), (8, 3, False), (40, 5, False), (40, 5, True)]:  # equals, infinities and what is no number
        x = np.tile(np.array([1, np.nan, 3, -np.inf, 3, np.nan, np.inf, 1], np.float32), n // 8)
        b = case(f"top_k_places_{n}_{k}{'_smallest' if smallest else ''}")
        _, at = b.op("top_k", [b.constant(x)], [(k,)] * 2, "axis = 0 : i64" + (", smallest" if smallest else ""), dtype=both)
        y = b.op("mul", [b.op("cast", [at], (k,)), b.param("p", k)], (k,))
        b.result(y, lambda t, x=x, k=k, s=smallest: ordered(x, 0, k, s) * t["p"])


def movement(case):
    for old, new in [((2, 6), (3, 4)), ((2, 3, 4), (24,)), ((1,), ()), (("rows", 6), ("rows", 2, 3)), (("rows", 2, 3), ("2*rows", 3)), (("rows", 2), ("2*rows",))]:
        b = case(f"reshape_{'x'.join(map(str, old))}_{'x'.join(map(str, new))}".replace("*", "t"))
        x = trained_input(b, old, old[1:])
        y = b.op("tanh", [b.op("reshape", [x], new)], new)
        b.result(y, lambda t, new=new: np.tanh((t["x"] * t.get("s", 1)).reshape([-1 if isinstance(d, str) else d for d in new])))
    for old, new in [((2, 1), (3, 2, 4)), ((), (3,)), ((3,), (2, 3)), ((1, 3), ("rows", 3)), ((3,), ("rows", 3)), ((), ("rows", 3)), ((2, 1), ("rows", 2, "others"))]:
        b = case(f"broadcast_{'x'.join(map(str, old))}_{'x'.join(map(str, new))}")
        x = b.param("x", *old)
        b.result(b.op("broadcast", [x], new), lambda t, new=new: np.broadcast_to(t["x"], [t["weights"].shape[i] for i in range(len(new))]))
    for shape, order in [((2, 3), (1, 0)), ((2, 3, 4), (2, 0, 1)), ((2, 3, 4, 2), (0, 2, 1, 3)), (("rows", 3, 2), (1, 0, 2)), (("rows", 3), (1, 0)), ((17, 33), (1, 0)),
                         ((2, 3, 1, 2, 2), (4, 1, 0, 3, 2)), (("rows", 2, 2, 3), (3, 1, 0, 2))]:
        b = case(f"transpose_{'x'.join(map(str, shape))}_{''.join(map(str, order))}")
        x = trained_input(b, shape, shape[1:])
        y = b.op("transpose", [x], tuple(shape[i] for i in order), f"permutation = {ints(order)}")
        b.result(y, lambda t, order=order: (t["x"] * t.get("s", 1)).transpose(order))
    for name, shape, cut, starts, steps in [
        ("plain", (5, 4), (slice(1, 4), slice(0, 4)), (1, 0), (1, 1)),
        ("step", (7, 5), (slice(1, 7, 2), slice(0, 5, 3)), (1, 0), (2, 3)),
        ("back", (8, 2), (slice(6, 1, -2), slice(None)), (6, 0), (-2, 1)),
        ("flip", (4, 3), (slice(None, None, -1), slice(None, None, -1)), (3, 2), (-1, -1)),
        ("none", (4, 3), (slice(2, 2), slice(None)), (2, 0), (1, 1)),
    ]:
        b = case(f"slice_{name}")
        x = b.param("x", *shape)
        out = np.zeros(shape)[cut].shape
        b.result(b.op("slice", [x], out, f"starts = {ints(starts)}, steps = {ints(steps)}"), lambda t, cut=cut: t["x"][cut])
    for name, shape, out, starts, steps, from_end, f in [
        ("ragged_inner", ("rows", 5), ("rows", 2), (0, 1), (1, 2), None, lambda x: x[:, 1:4:2]),
        ("ragged_rest", ("rows + 1", 3), ("rows", 3), (1, 0), (1, 1), None, lambda x: x[1:]),
        ("ragged_end", ("rows + 1", 3), (1, 3), (1, 0), (1, 1), [True, False], lambda x: x[-1:]),
        ("ragged_flip", ("rows", 3), ("rows", 3), (1, 0), (-1, 1), [True, False], lambda x: x[::-1]),
    ]:
        b = case(f"slice_{name}")
        x = trained_input(b, shape, shape[1:]) if shape[0] == "rows" else b.op("mul", [b.input("x", *shape), b.param("s", 3)], shape)
        y = b.op("slice", [x], out, f"starts = {ints(starts)}, steps = {ints(steps)}" + (f", from_end = {bools(from_end)}" if from_end else ""))
        b.result(y, lambda t, f=f: f(t["x"] * t["s"]))
    for name, shape, out, low, interior, reverse, value, cut in [
        ("plain", (2, 3), (4, 4), (1, 1), (0, 0), None, 0, (slice(1, 3), slice(1, 4))),
        ("value", (2, 3), (4, 3), (1, 0), (0, 0), None, -2.5, (slice(1, 3), slice(0, 3))),
        ("interior", (2, 3), (5, 6), (1, 0), (1, 1), None, 0, (slice(1, 4, 2), slice(0, 5, 2))),
        ("reverse", (3, 2), (7, 2), (1, 0), (1, 0), [True, False], 0, (slice(5, 0, -2), slice(None))),
    ]:
        b = case(f"pad_{name}")
        x = b.param("x", *shape)
        y = b.op("pad", [x], out, f"low = {ints(low)}, interior = {ints(interior)}, value = {value:.1f} : f64" + (f", reverse = {bools(reverse)}" if reverse else ""))

        def reference(t, out=out, value=value, cut=cut):
            y = np.full(out, float(value))
            y[cut] = t["x"]
            return y

        b.result(y, reference)
    b = case("pad_ragged")
    x = trained_input(b, ("rows", 3), (3,))
    y = b.op("pad", [x], ("rows + 2", 4), f"low = {ints((1, 0))}, interior = {ints((0, 0))}, value = 0.5 : f64")
    b.result(y, lambda t: np.pad(t["x"] * t["s"], ((1, 1), (0, 1)), constant_values=0.5))
    for axis, shapes in [(0, [(2, 3), (1, 3), (4, 3)]), (1, [(2, 3), (2, 1)]), (1, [(2, 1, 2), (2, 2, 2)])]:
        b = case(f"concat_{axis}_{len(shapes)}_{len(shapes[0])}")
        xs = [b.param(f"x{i}", *s) for i, s in enumerate(shapes)]
        out = list(shapes[0])
        out[axis] = sum(s[axis] for s in shapes)
        y = b.op("concat", xs, tuple(out), f"axis = {axis} : i64")
        b.result(y, lambda t, n=len(shapes), axis=axis: np.concatenate([t[f"x{i}"] for i in range(n)], axis))
    b = case("concat_ragged")
    x, w = trained_input(b, ("rows", 3), (3,)), b.param("w", 2, 3)
    y = b.op("concat", [w, x, b.op("tanh", [x], x.shape)], ("2*rows + 2", 3), "axis = 0 : i64")
    b.result(y, lambda t: np.concatenate([t["w"], t["x"] * t["s"], np.tanh(t["x"] * t["s"])]))


def indexing(case):
    for axis, shape, index in [
        (0, (5, 3), [1, 4, 1]), (0, (5, 3), [[0, -1], [2, 2]]), (1, (2, 5, 3), [3, 0, 3, -2]), (2, (2, 3, 4), [[1], [1]]), (0, (5, 3), 2), (1, (3, 4), 1), (0, (5,), [4, 4, 0]),
        (0, (9, 40), [1, 7, 1, 1]),
    ]:
        index = np.array(index, np.int64)
        b = case(f"gather_{axis}_{'x'.join(map(str, shape))}_{index.ndim}")
        x = b.param("x", *shape)
        out = (*shape[:axis], *index.shape, *shape[axis + 1 :])
        y = b.op("gather", [x, b.constant(index)], out, f"axis = {axis} : i64")
        b.result(y, lambda t, axis=axis, index=index: np.take(t["x"], index, axis))
    for axis, shape in [(0, (4, 3)), (1, (2, 4, 3))]:
        b = case(f"gather_zero_{axis}")
        index = np.array([0, -1, 3, 4, 3], np.int64)
        x = b.param("x", *shape)
        y = b.op("gather", [x, b.constant(index)], (*shape[:axis], 5, *shape[axis + 1 :]), f"axis = {axis} : i64, zero_out_of_range")

        def reference(t, axis=axis, index=index):
            y = np.take(t["x"], np.where((index < 0) | (index > 3), 0, index), axis)
            return y * ((index >= 0) & (index < 4)).reshape(-1, *(1,) * (y.ndim - axis - 1))

        b.result(y, reference)
    b = case("gather_embedding_ragged")
    index = b.input("index", "rows", 3, dtype="i64")
    y = b.op("gather", [b.param("x", 4, 5), index], ("rows", 3, 5), "axis = 0 : i64")
    b.result(y, lambda t: t["x"][t["index"]])
    b = case("gather_rows_ragged")  # from ragged rows; places that name none give zeros
    x = trained_input(b, ("rows", 3), (3,))
    y = b.op("gather", [x, b.constant(np.array([0, 2, -1, 1, 0, 9], np.int64))], (6, 3), "axis = 0 : i64, zero_out_of_range")

    def rows_reference(t):
        x = np.concatenate([t["x"] * t["s"], np.zeros((10, 3))])
        return x[[0, 2, 9, 1, 0, 9]]

    b.result(y, rows_reference)
    for axis, shape, index in [(0, (4, 3), [[1, 0, 3], [1, 2, -1]]), (1, (2, 5), [[4, 0, 4], [2, 2, 2]]), (1, (2, 3, 2), [[[0, 2]], [[1, 1]]])]:
        index = np.array(index, np.int64)
        b = case(f"gather_elements_{axis}_{len(shape)}")
        y = b.op("gather_elements", [b.param("x", *shape), b.constant(index)], index.shape, f"axis = {axis} : i64")

        def reference(t, axis=axis, index=index):
            cut = tuple(slice(None) if a == axis else slice(0, index.shape[a]) for a in range(index.ndim))
            return np.take_along_axis(t["x"][cut], index, axis)

        b.result(y, reference)
    for name, shape, index, batch in [
        ("slices", (4, 3), [[1], [3], [1]], 0), ("elements", (4, 3), [[1, 2], [3, 0], [1, 2]], 0), ("nested", (3, 2, 4), [[[0, 1], [2, -1]]], 0),
        ("batch", (2, 4, 3), [[[1], [3], [1]], [[0], [0], [2]]], 1), ("batch_elements", (2, 4, 3), [[1, 2], [3, 0]], 1),
    ]:
        index = np.array(index, np.int64)
        k = index.shape[-1]
        b = case(f"gather_nd_{name}")
        y = b.op("gather_nd", [b.param("x", *shape), b.constant(index)], (*index.shape[:-1], *shape[batch + k :]), f"batch_dims = {batch} : i64")

        def reference(t, index=index, batch=batch):
            if batch:
                return np.stack([x[tuple(np.moveaxis(i, -1, 0))] for x, i in zip(t["x"], index)])
            return t["x"][tuple(np.moveaxis(index, -1, 0))]

        b.result(y, reference)
    repeated = [("", (4, 3), [[1], [3], [1]]), ("_elements", (4, 3), [[1, 2], [3, 0], [1, 2], [1, 2]]), ("_all", (4, 3), [[2], [0], [1], [3]])]
    for name, shape, index, kind in [
        ("slices", (4, 3), [[1], [3]], 0), ("elements", (4, 3), [[1, 2], [3, 0], [0, 0]], 0), ("nested", (3, 2, 4), [[[0, 1], [2, 0]]], 0), ("negative", (4, 3), [[-1], [0]], 0),
    ] + [(SCATTERS[kind] + suffix, shape, index, kind) for kind in range(1, len(SCATTERS)) for suffix, shape, index in repeated]:
        index = np.array(index, np.int64)
        k = index.shape[-1]
        b = case(f"scatter_nd_{name}")
        x, u = (b.param(n, *dims, rule="uniform(-0.2,0.2)") for n, dims in (("x", shape), ("u", (*index.shape[:-1], *shape[k:]))))
        apart = (np.arange(np.prod(u.shape)).reshape(u.shape) * 7 % 11 - 4.5).astype(np.float32)  # which is the largest is clear
        u = b.op("add", [u, b.constant(apart)], u.shape)
        y = b.op("scatter_nd", [x, b.constant(index), u], shape, f"kind = {kind} : i32")
        b.result(y, lambda t, index=index, kind=kind, apart=apart: scattered(kind, t["x"], index, t["u"] + apart))
    # A product with one update that is 0, with two, with an input that is.
    k, places = np.array([1.5, -2, 0, 1], np.float32), np.array([[0], [0], [1], [1], [1], [2]])
    changes = np.array([0, 2, 0, 0, 3, -2], np.float32)
    b = case("scatter_nd_mul_zeros")
    x = b.op("add", [b.param("x", 4, rule="zeros"), b.constant(k)], (4,))
    u = b.op("add", [b.param("u", 6, rule="zeros"), b.constant(changes)], (6,))
    y = b.op("scatter_nd", [x, b.constant(places), u], (4,), "kind = 2 : i32")
    b.result(y, lambda t: scattered(2, t["x"] + k, places, t["u"] + changes))
    b = case("scatter_nd_ragged")  # rows of images into a sequence
    u = trained_input(b, ("rows", 3), (3,))
    index = b.input("index", "rows", 1, dtype="i64")
    y = b.op("scatter_nd", [b.param("w", 4, 3), index, u], (4, 3), "kind = 1 : i32")

    def scatter_reference(t):
        y = t["w"].copy()
        np.add.at(y, t["index"][:, 0], t["x"] * t["s"])
        return y

    b.result(y, scatter_reference)


FAMILIES = {"norm": norm, "softmax": softmaxes, "reduce": reduce, "top_k": top_k, "movement": movement, "indexing": indexing}
