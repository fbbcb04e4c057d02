# Gradients where functions have none: PyTorch's choices, by formula.
"""Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception"""

import numpy as np

from products import attention_op, ints


def at_zero(case):
    """x = 0 and beside it: the slope at each element."""
    x0 = np.array([0, 0, 1, -1], np.float32)
    for name, attributes, value, slope in [
        ("relu", "", [0, 0, 1, 0], [0, 0, 1, 0]),
        ("abs", "", [0, 0, 1, 1], [0, 0, 1, -1]),
        ("leaky_relu", "alpha = 0.1 : f64", [0, 0, 1, -0.1], [0.1, 0.1, 1, 0.1]),
        ("elu", "alpha = 2.0 : f64, scale = 3.0 : f64", [0, 0, 3, 6 * np.expm1(-1)], [6, 6, 3, 6 * np.exp(-1)]),
        ("hard_sigmoid", "alpha = 0.5 : f64, beta = 0.5 : f64", [0.5, 0.5, 1, 0], [0.5, 0.5, 0, 0]),
    ]:
        b = case(f"at_{name}")
        x = b.op("add", [b.param("x", 4, rule="zeros"), b.constant(x0)], (4,))
        b.result(b.op(name, [x], (4,), attributes), lambda t, v=value: np.array(v), lambda t, s=slope: {"x": t["weights"] * s})
    for exponent, slope in [(2, 0), (3, 0), (1, 1), (0, 0)]:
        b = case(f"at_pow_{exponent}")
        y = b.op("pow", [b.param("x", 3, rule="zeros"), b.constant(np.array(exponent, np.float32))], (3,))
        b.result(y, lambda t, e=exponent: np.zeros(3) ** e, lambda t, s=slope: {"x": t["weights"] * s})
    b = case("at_pow_exponents")  # the exponent's slope is 0 where the base is
    y = b.op("pow", [b.param("x", 3, rule="zeros"), b.op("add", [b.param("y", 3, rule="zeros"), b.constant(np.array([0, 1, 2], np.float32))], (3,))], (3,))
    b.result(y, lambda t: np.array([1, 0, 0]), lambda t: {"x": t["weights"] * [0, 1, 0], "y": np.zeros(3)})
    b = case("at_binary_cross_entropy")  # finite where logarithms are not; 0 where the target is met
    x0, target = np.array([0, 1, 0, 1, 0.5], np.float32), np.array([0, 1, 1, 0, 1], np.float32)
    x = b.op("add", [b.param("x", 5, rule="zeros"), b.constant(x0)], (5,))
    y = b.op("binary_cross_entropy", [x, b.constant(target)], (5,))
    b.result(y, lambda t: np.array([0, 0, 100, 100, np.log(2)]), lambda t: {"x": t["weights"] * (x0 - target) / np.maximum(x0 * (1 - x0), 1e-12)})


def ties(case):
    k = np.array([1, 2, 3], np.float32)
    for name, f, other in [("max", np.maximum, [0, 0.5, 1]), ("min", np.minimum, [1, 0.5, 0])]:
        for kind in ("same", "broadcast"):
            b = case(f"at_{name}_{kind}")  # two operands share
            x = b.op("add", [b.param("x", 3, rule="zeros"), b.constant(k)], (3,))
            y = b.op("add", [b.param("y", *((3,) if kind == "same" else ()), rule="zeros"), b.constant(np.array(2, np.float32))], (3,) if kind == "same" else ())

            def shares(t, other=np.array(other), kind=kind):
                dy = t["weights"] * (1 - other)
                return {"x": t["weights"] * other, "y": dy if kind == "same" else dy.sum()}

            b.result(b.op(name, [x, y], (3,)), lambda t, f=f: f(k, 2), shares)
        for kind, slope in [("", other), ("bound", np.floor(other))]:  # a constant shares as well; a clamp has no gradient at its bound
            b = case(f"at_{name}_{kind or 'constant'}")
            x = b.op("add", [b.param("x", 3, rule="zeros"), b.constant(k)], (3,))
            y = b.op(name, [x, b.constant(np.array(2, np.float32))], (3,), kind)
            b.result(y, lambda t, f=f: f(k, 2), lambda t, o=slope: {"x": t["weights"] * o})
        b = case(f"at_{name}_trained_bound")  # which takes all of it
        x = b.op("add", [b.param("x", 3, rule="zeros"), b.constant(k)], (3,))
        y = b.op("add", [b.param("y", 3, rule="zeros"), b.constant(np.array(2, np.float32))], (3,))
        b.result(b.op(name, [x, y], (3,), "bound"), lambda t, f=f: f(k, 2), lambda t, o=np.floor(other): {"x": t["weights"] * o, "y": t["weights"] * (1 - o)})
        order = np.array([[4, 1, 4, 2, 4], [1, 3, 1, 2, 1]], np.float32)
        best = order == f.reduce(order, axis=1, keepdims=True)
        b = case(f"at_reduce_{name}")  # equal elements share (amax), as many as there are
        x = b.op("add", [b.param("x", 2, 5, rule="zeros"), b.constant(order)], (2, 5))
        y = b.op("reduce", [x], (2,), f"kind = {2 if name == 'max' else 3} : i32, axes = {ints([1])}")
        b.result(y, lambda t, f=f, order=order: f.reduce(order, axis=1), lambda t, best=best: {"x": t["weights"][:, None] * best / best.sum(1, keepdims=True)})
        for axes in ([1], [0], [0, 1], [0, 2]):  # or the first of them has it (max along a dim)
            whole = np.array([[[4, 4], [1, 2], [4, 0]], [[4, 1], [1, 2], [3, 0]]], np.float32) * (1 if name == "max" else -1)
            shape = tuple(n for i, n in enumerate(whole.shape) if i not in axes)
            b = case(f"at_reduce_{name}_first_{''.join(map(str, axes))}")
            x = b.op("add", [b.param("x", 2, 3, 2, rule="zeros"), b.constant(whole)], (2, 3, 2))
            y = b.op("reduce", [x], shape, f"kind = {2 if name == 'max' else 3} : i32, axes = {ints(axes)}, first")

            def first(t, whole=whole, axes=axes, name=name):
                kept = [i for i in range(3) if i not in axes]
                moved = whole.transpose(*kept, *axes)
                rows = moved.reshape(*[whole.shape[i] for i in kept], -1)
                place = (rows.argmax if name == "max" else rows.argmin)(-1)
                dx = (np.arange(rows.shape[-1]) == place[..., None]) * t["weights"][..., None]
                return {"x": dx.reshape(moved.shape).transpose(np.argsort([*kept, *axes]))}

            b.result(y, lambda t, f=f, whole=whole, axes=tuple(axes): f.reduce(whole, axis=axes), first)
        here, changes = np.array([3, 1, 2], np.float32), np.array([3, 2, 2, 0, 3], np.float32) * (1 if name == "max" else -1)
        here, places = here * (1 if name == "max" else -1), np.array([[0], [1], [1], [2], [0]])
        b = case(f"at_scatter_{name}")  # so do an input and the updates at its place (scatter_reduce)
        x = b.op("add", [b.param("x", 3, rule="zeros"), b.constant(here)], (3,))
        u = b.op("add", [b.param("u", 5, rule="zeros"), b.constant(changes)], (5,))
        y = b.op("scatter_nd", [x, b.constant(places), u], (3,), f"kind = {3 if name == 'max' else 4} : i32")
        best = np.array([3, 2, 2], np.float32) * (1 if name == "max" else -1)
        shares = lambda t: {"x": t["weights"] * [1 / 3, 0, 1], "u": t["weights"][[0, 1, 1, 2, 0]] * [1 / 3, 0.5, 0.5, 0, 1 / 3]}
        b.result(y, lambda t, best=best: best, shares)
    order = np.array([1, 5, 5, 5, 2, 2], np.float32).reshape(1, 1, 6)
    b = case("at_pool")  # the first of equals
    x = b.op("add", [b.param("x", 1, 1, 6, rule="zeros"), b.constant(order)], order.shape)
    y = b.op("pool", [x], (1, 1, 3), f"kind = 0 : i32, kernel = {ints([2])}, strides = {ints([2])}, pads = {ints([0, 0])}, dilations = {ints([1])}")
    b.result(y, lambda t: np.array([[[5.0, 5, 2]]]), lambda t: {"x": np.array([0, 1, 1, 0, 1, 0]) * t["weights"].ravel()[[0, 0, 1, 1, 2, 2]]})


def hidden(case):
    """A branch that `where` does not take counts nothing, unless its own slope is infinite (as in PyTorch)."""
    b = case("at_where")
    x = b.op("add", [b.param("x", 2, rule="zeros"), b.constant(np.array([4, -1], np.float32))], (2,))
    seen = b.op("cmp", [x, b.constant(np.array(0, np.float32))], (2,), "predicate = 4 : i32", dtype="i1")
    safe = b.op("where", [seen, x, b.constant(np.array(1, np.float32))], (2,))
    y = b.op("where", [seen, b.op("sqrt", [safe], (2,)), b.constant(np.array(0, np.float32))], (2,))
    b.result(y, lambda t: np.array([2.0, 0]), lambda t: {"x": t["weights"] * [0.25, 0]})
    # Of an empty row's mean, query and key get the gradient of an added mask of -3.4e38: as if it were not there, but for equal weights.
    # A number in the place of scores leaves them none; a query whose output is 0 has none at all.
    for causal, empty in [(c, e) for c in (False, True) for e in (0, 1, 3)]:
        b = case("at_attention_empty" + ("_causal" if causal else "") + ["", "_zero", "", "_filled"][empty])
        q, k, v = (b.param(c, 1, n, 1, 3) for c, n in zip("qkv", (3, 2, 2)))
        mask = None if causal else b.constant(np.array([[0, 0], [1, 0], [1, 1]], bool))
        y, _ = attention_op(b, [q, k, v], [(1, 3, 1, 3), (1, 1, 3)], f"scale = 0.5 : f64, empty_row = {empty} : i32" + (", causal" if causal else ""), mask)
        visible = np.array([[False, False], [True, False], [True, True]])

        def run(t, visible=visible, empty=empty):
            q, k, v, c = (t[n][0, :, 0] for n in ("q", "k", "v", "weights"))
            scores = q @ k.T * 0.5
            p = np.exp(np.where(visible.any(1, keepdims=True), np.where(visible, scores, -np.inf), 0))
            p /= p.sum(1, keepdims=True)
            p *= empty != 1 or visible.any(1, keepdims=True)
            dp = c @ v.T
            ds = p * (dp - (p * dp).sum(1, keepdims=True)) * 0.5
            ds *= empty == 0 or visible.any(1, keepdims=True)
            return (p @ v)[None, :, None], {"q": ds @ k, "k": ds.T @ q, "v": p.T @ c}

        b.result(y, lambda t, run=run: run(t)[0], lambda t, run=run: run(t)[1])


FAMILIES = {"at_zero": at_zero, "ties": ties, "hidden": hidden}
