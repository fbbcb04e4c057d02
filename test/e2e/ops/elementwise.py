# Elementwise operators and their broadcasts.
"""Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception"""

import math

import numpy as np

erf = np.vectorize(math.erf, otypes=[float])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu_tanh(x):
    return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


POSITIVE = "uniform(0.5,2)"
SMOOTH = [
    ("neg", "", None, lambda x: -x),
    ("exp", "", None, np.exp),
    ("log", "", POSITIVE, np.log),
    ("sqrt", "", POSITIVE, np.sqrt),
    ("rsqrt", "", POSITIVE, lambda x: 1 / np.sqrt(x)),
    ("reciprocal", "", POSITIVE, lambda x: 1 / x),
    ("sin", "", None, np.sin),
    ("cos", "", None, np.cos),
    ("tan", "", "uniform(-1,1)", np.tan),
    ("asin", "", "uniform(-0.8,0.8)", np.arcsin),
    ("acos", "", "uniform(-0.8,0.8)", np.arccos),
    ("atan", "", None, np.arctan),
    ("sinh", "", None, np.sinh),
    ("cosh", "", None, np.cosh),
    ("tanh", "", None, np.tanh),
    ("asinh", "", None, np.arcsinh),
    ("acosh", "", "uniform(1.2,3)", np.arccosh),
    ("atanh", "", "uniform(-0.8,0.8)", np.arctanh),
    ("erf", "", None, erf),
    ("sigmoid", "", None, sigmoid),
    ("silu", "", None, lambda x: x * sigmoid(x)),
    ("softplus", "", None, lambda x: np.log1p(np.exp(x))),
    ("gelu", "", None, lambda x: x / 2 * (1 + erf(x / math.sqrt(2)))),
    ("gelu", "tanh", None, gelu_tanh),
]
KINKED = [
    ("abs", "", "", np.abs),
    ("relu", "", "", lambda x: np.maximum(x, 0)),
    ("leaky_relu", "alpha = 0.1 : f64", "", lambda x: np.where(x > 0, x, 0.1 * x)),
    ("elu", "", "", lambda x: np.where(x > 0, x, np.expm1(x))),
    ("elu", "alpha = 1.67 : f64, scale = 1.05 : f64", "_scaled", lambda x: 1.05 * np.where(x > 0, x, 1.67 * np.expm1(x))),
    ("hard_sigmoid", "alpha = 0.4 : f64, beta = 0.5 : f64", "", lambda x: np.clip(0.4 * x + 0.5, 0, 1)),
]
ZERO = [("floor", np.floor), ("ceil", np.ceil), ("round", np.round), ("sign", np.sign)]


def unary(case):
    for name, attributes, rule, f in SMOOTH:
        b = case(name + ("_" + attributes if attributes else ""))
        x = b.param("x", 3, 5, rule=rule or "normal(0,1)")
        b.result(b.op(name, [x], x.shape, attributes), lambda t, f=f: f(t["x"]))
    for name, attributes, suffix, f in KINKED:
        b = case(name + suffix)
        x, sign = b.away("x", 4, 5, low=0.3, high=1.2 if name == "hard_sigmoid" else 2)
        b.result(b.op(name, [x], x.shape, attributes), lambda t, f=f, s=sign: f(t["x"] * s))
    # No gradient of their own, but of what they are multiplied with.
    for name, f in ZERO:
        b = case(name)
        x = b.param("x", 7, rule="uniform(0.1,0.4)")
        k = b.constant(np.array([-2, -1, 0, 1, 2, 3, 1.5], np.float32))
        sum_ = b.op("add", [x, k], (7,))
        y = b.op("mul", [b.op(name, [sum_], (7,)), x], (7,))
        b.result(y, lambda t, f=f: f(t["x"] + np.array([-2, -1, 0, 1, 2, 3, 1.5])) * t["x"])
    b = case("is_nan")
    x = b.param("x", 4, rule="uniform(0.5,1)")
    root = b.op("log", [b.op("mul", [x, b.constant(np.array([1, -1, 1, -1], np.float32))], (4,))], (4,))
    y = b.op("where", [b.op("is_nan", [root], (4,), dtype="i1"), x, root], (4,))
    b.result(y, lambda t: np.where([False, True, False, True], t["x"], np.log(t["x"])))
    b = case("is_inf")
    x = b.param("x", 4, rule="uniform(0.5,1)")
    k = b.constant(np.array([1, np.inf, 2, -np.inf], np.float32))
    y = b.op("where", [b.op("is_inf", [b.op("mul", [x, k], (4,))], (4,), dtype="i1"), x, b.op("mul", [x, x], (4,))], (4,))
    b.result(y, lambda t: np.where([False, True, False, True], t["x"], t["x"] ** 2))


BROADCASTS = [
    ("same", (3, 4), (3, 4), (3, 4)),
    ("middle", (3, 1, 4), (2, 1), (3, 2, 4)),
    ("row", (4,), (3, 4), (3, 4)),
    ("scalar", (), (3, 4), (3, 4)),
    ("rank", (2, 3, 4), (1, 3, 1), (2, 3, 4)),
    ("ones", (1, 1), (3, 1), (3, 1)),
    ("deep", (2, 1, 3, 1, 2), (2, 1, 2, 1), (2, 2, 3, 2, 2)),
]


def binary(case):
    for name, f in [("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("div", np.divide), ("pow", np.power)]:
        for kind, left, right, out in BROADCASTS:
            b = case(f"{name}_{kind}")
            x = b.param("x", *left, rule=POSITIVE)
            y = b.param("y", *right, rule=POSITIVE)
            b.result(b.op(name, [x, y], out), lambda t, f=f: f(t["x"], t["y"]))
    for exponent in (2, 3, 0.5, -1, -0.5, 1, 0, 1.7):
        b = case(f"pow_{str(exponent).replace('.', '_').replace('-', 'minus_')}")
        x, sign = b.away("x", 3, 4) if exponent in (2, 3, -1) else (b.param("x", 3, 4, rule=POSITIVE), 1)
        y = b.op("pow", [x, b.constant(np.array(exponent, np.float32))], (3, 4))
        b.result(y, lambda t, s=sign, e=exponent: (t["x"] * s) ** float(e))
    for kind, left, right, out in BROADCASTS:
        b = case(f"binary_cross_entropy_{kind}")
        x, y = b.param("x", *left, rule="uniform(0.2,0.8)"), b.param("y", *right, rule="uniform(0,1)")
        b.result(b.op("binary_cross_entropy", [x, y], out), lambda t: -t["y"] * np.log(t["x"]) - (1 - t["y"]) * np.log(1 - t["x"]))
    for name, f in [("max", np.maximum), ("min", np.minimum)]:
        for kind, left, right, out in BROADCASTS:
            b = case(f"{name}_{kind}")
            x, sx = b.away("x", *left, low=0.5, high=1)
            y = b.param("y", *right, rule="uniform(-0.3,0.3)")
            b.result(b.op(name, [x, y], out), lambda t, f=f, s=sx: f(t["x"] * s, t["y"]))
    for kind, left, right, out in BROADCASTS:
        for attributes, f in [("", np.mod), ("fmod", np.fmod)]:
            b = case(f"mod_float_{attributes}{kind}")  # between multiples: dividends 1.2 to 1.4 and -3.3 to -3.1, divisors 0.9 to 1.0 of both signs
            x = b.op("where", [b.constant(np.arange(int(np.prod(left))).reshape(left) % 2 == 0), b.param("x", *left, rule="uniform(1.2,1.4)"), b.param("z", *left, rule="uniform(-3.3,-3.1)")], left)
            y, sign = b.away("y", *right, low=0.9, high=1.0)

            def remainder(t, f=f, sign=sign):
                even = np.arange(t["x"].size).reshape(t["x"].shape) % 2 == 0
                return f(np.where(even, t["x"], t["z"]), t["y"] * sign)

            b.result(b.op("mod", [x, y], out, attributes), remainder)
    # Of whole numbers: what the remainder is multiplied with gets a gradient.
    for attributes, f in [("", np.mod), ("fmod", np.fmod)]:
        b = case("mod" + attributes)
        x = b.param("x", 6, rule="uniform(0.5,0.6)")
        p, q = np.array([5, -5, 5, -5, 7, 0], np.int64), np.array([3, 3, -3, -3, 7, 4], np.int64)
        whole = b.op("mod", [b.constant(p), b.constant(q)], (6,), attributes, dtype="i64")
        b.result(b.op("mul", [b.op("cast", [whole], (6,)), x], (6,)), lambda t, f=f, p=p, q=q: f(p, q) * t["x"])
    b = case("same_operand")  # x * x + x / x
    x = b.param("x", 3, 4, rule=POSITIVE)
    y = b.op("add", [b.op("mul", [x, x], (3, 4)), b.op("div", [x, x], (3, 4))], (3, 4))
    b.result(y, lambda t: t["x"] ** 2 + 1)
    for kind, left, right, out in [("column", ("rows", 3), ("rows", 1), ("rows", 3)), ("inner", ("rows", 1, 3), ("rows", 2, 1), ("rows", 2, 3)), ("outer", ("rows", 1), ("others",), ("rows", "others")),
                                   ("square", ("rows", 1), ("rows",), ("rows", "rows"))]:
        b = case(f"div_ragged_{kind}")
        x, y = (b.op("exp", [b.op("mul", [b.input(n, *shape), b.param(n + "s", rule=POSITIVE)], shape)], shape) for n, shape in [("x", left), ("y", right)])
        b.result(b.op("div", [x, y], out), lambda t: np.exp(t["x"] * t["xs"]) / np.exp(t["y"] * t["ys"]))
        b.tolerance = 3e-5
    # Ragged rows: what is broadcast along them sums over them.
    for name, f in [("add", np.add), ("mul", np.multiply), ("div", np.divide)]:
        for kind, shape in [("row", (3,)), ("scalar", ()), ("one", (1, 1))]:
            b = case(f"{name}_ragged_{kind}")
            x, w = b.input("x", "rows", 3), b.param("w", *shape, rule=POSITIVE)
            y = b.op(name, [x, w], ("rows", 3))
            b.result(b.op("tanh", [b.op("mul", [y, w], y.shape)], y.shape), lambda t, f=f: np.tanh(f(t["x"], t["w"]) * t["w"]))


def choice(case):
    for kind, cond, left, right, out in [
        ("same", (3, 4), (3, 4), (3, 4), (3, 4)),
        ("condition", (3, 1), (3, 4), (3, 4), (3, 4)),
        ("operands", (3, 4), (4,), (), (3, 4)),
        ("all", (3, 1, 1), (2, 1), (4,), (3, 2, 4)),
    ]:
        b = case(f"where_{kind}")
        k = (np.arange(int(np.prod(cond))) % 3 == 0).reshape(cond)
        x, y = b.param("x", *left), b.param("y", *right)
        b.result(b.op("where", [b.constant(k), x, y], out), lambda t, k=k: np.where(k, t["x"], t["y"]))
    for i, (predicate, f) in enumerate([("eq", np.equal), ("ne", np.not_equal), ("lt", np.less), ("le", np.less_equal), ("gt", np.greater), ("ge", np.greater_equal)]):
        b = case(f"cmp_{predicate}")
        x = b.param("x", 5)
        k = np.array([1, 2, 3, 2, 1], np.int64)
        condition = b.op("cmp", [b.constant(k), b.constant(np.array(2, np.int64))], (5,), f"predicate = {i} : i32", dtype="i1")
        y = b.op("where", [condition, x, b.op("mul", [x, x], (5,))], (5,))
        b.result(y, lambda t, f=f, k=k: np.where(f(k, 2), t["x"], t["x"] ** 2))
    for name, f in [("and", np.logical_and), ("or", np.logical_or), ("xor", np.logical_xor)]:
        b = case(name)
        x = b.param("x", 4)
        p, q = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
        condition = b.op(name, [b.constant(p), b.op("not", [b.constant(q)], (4,), dtype="i1")], (4,), dtype="i1")
        y = b.op("where", [condition, x, b.op("mul", [x, x], (4,))], (4,))
        b.result(y, lambda t, f=f, p=p, q=q: np.where(f(p, ~q), t["x"], t["x"] ** 2))
    b = case("cast_i64")
    x = b.param("x", 5, rule="uniform(0.63,0.7)")
    moved = b.op("mul", [x, b.constant(np.array([1, -1, 4, -4, 2.7], np.float32))], (5,))
    whole = b.op("cast", [b.op("cast", [moved], (5,), dtype="i64")], (5,))
    b.result(b.op("mul", [whole, x], (5,)), lambda t: np.trunc(t["x"] * [1, -1, 4, -4, 2.7]) * t["x"])
    b = case("cast_bool")
    x = b.param("x", 4)
    k = b.op("cast", [b.op("cast", [b.constant(np.array([0, 3, -1, 0], np.int64))], (4,), dtype="i1")], (4,))
    b.result(b.op("mul", [k, x], (4,)), lambda t: np.array([0, 1, 1, 0]) * t["x"])
    b = case("cast_f64")
    x = b.param("x", 4)
    wide = b.op("cast", [x], (4,), dtype="f64")
    y = b.op("cast", [b.op("mul", [wide, wide], (4,), dtype="f64")], (4,))
    b.result(y, lambda t: t["x"] ** 2)


FAMILIES = {"unary": unary, "binary": binary, "choice": choice}
