# ===- sizes.py - every operator with dims of 1, of 0 and without a number -===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# An operator's dims are letters, as in einsum. Each letter in turn is 1 and 0, and
# one is a batch's number of rows, which may be 0. What broadcasts does so in every
# way. covered.py says what is missing.
# ===-----------------------------------------------------------------------===
"""Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception"""

import dataclasses
import typing

import numpy as np

import elementwise
import shapes
from elementwise import POSITIVE
from products import KINDS, attend, convolve, ints, pooled, turn


@dataclasses.dataclass
class Form:
    """An operator with dims "bi,oi->bo": a letter is a dim, a digit is that number."""

    op: str
    dims: str
    f: typing.Callable  # the result of the operands
    attributes: typing.Union[str, typing.Callable] = ""  # text, or that of the sizes
    label: str = ""
    rules: tuple = ()  # of the operands' values, normal(0,1) for those behind its end
    kinds: str = ""  # of the operands: f for trained, o for trained and ordered, c for frozen, i for indices, b for bools; f behind its end
    limit: str = ""  # the letter that indices are below
    sizes: dict = dataclasses.field(default_factory=dict)  # of letters, other than 2, 3, 4, 2, …
    derived: dict = dataclasses.field(default_factory=dict)  # of a letter that follows from others: these, and the function
    empty: dict = dataclasses.field(default_factory=dict)  # of a letter: those that are 0 with it
    never: dict = dataclasses.field(default_factory=dict)  # of a letter that cannot be 0: why
    tried: str = None  # letters that are 1 and 0 in turn: all
    rows: str = None  # the letter that may be without a number: the first; none if empty
    segments: list = None
    dtypes: tuple = ("f32",)  # of the results

    def letters(self):
        """Those that do not follow from others."""
        found = [c for c in self.dims if c.isalpha()] + [c for others, _ in self.derived.values() for c in others]
        return [c for c in dict.fromkeys(found) if c not in self.derived]

    def shapes(self, sizes):
        """Of the operands, of the results."""
        known = sizes | {c: f(*(sizes[other] for other in others)) for c, (others, f) in self.derived.items()}
        return [[tuple(known[c] if c.isalpha() else int(c) for c in shape) for shape in side.split(",")] for side in self.dims.split("->")]

    def variants(self):
        """Pairs of a case's end of name and its sizes."""
        base = {c: self.sizes.get(c, 2 + i % 3) for i, c in enumerate(self.letters())}
        if self.tried == "":
            yield "plain", base
        for c in base if self.tried is None else self.tried:
            yield f"{c}1", base | {c: 1}
            if c not in self.never:
                yield f"{c}0", base | {c: 0} | dict.fromkeys(self.empty.get(c, ""), 0)
        rows = next(iter(base)) if self.rows is None else self.rows
        if rows:
            yield f"{rows}_rows", base | {rows: "rows"}


def indices(shape, limit):
    return (np.arange(int(np.prod(shape))) % max(limit, 1)).reshape(shape).astype(np.int64)


class Operands:
    """Makes a form's operands, and says what they are when the tensors are known."""

    def __init__(self, b, form, sizes):
        self.b, self.form, self.sizes = b, form, sizes
        self.values, self.known = [], []
        for i, shape in enumerate(form.shapes(sizes)[0]):
            kind = form.kinds[i] if i < len(form.kinds) else "f"
            rule = form.rules[i] if i < len(form.rules) else "normal(0,1)"
            make = {"i": self.index, "b": self.bools}.get(kind, self.floats)
            value, known = make(f"x{i}", shape, rule, kind)
            self.values.append(value)
            self.known.append(known)

    def index(self, name, shape, *_):
        if "rows" in shape:  # a batch's numbers are below 4
            return self.b.input(name, *shape, dtype="i64"), lambda t: t[name]
        k = indices(shape, self.sizes[self.form.limit])
        return self.b.constant(k), lambda t: k

    def bools(self, name, shape, *_):
        if "rows" in shape:
            return self.b.input(name, *shape, dtype="i1"), lambda t: t[name]
        k = indices(shape, 3) != 1
        return self.b.constant(k), lambda t: k

    def floats(self, name, shape, rule, kind):
        """Ragged ones are drawn by the batch from a parameter with 4 rows, so that they follow the rule too."""
        full = tuple(4 if d == "rows" else d for d in shape)
        if kind == "o":
            value, order = self.b.spread(name, *full)
        else:
            value, order = self.b.param(name, *full, rule=rule, trainable=kind == "f"), 0
        if "rows" not in shape:
            return value, lambda t: t[name] + order
        axis, at = shape.index("rows"), name + "at"
        value = self.b.op("gather", [value, self.b.input(at, "rows", dtype="i64")], shape, f"axis = {axis} : i64")
        return value, lambda t: np.take(t[name] + order, t[at], axis)


def differentiate(case, form, name, sizes):
    b = case(f"{form.op}{'_' + form.label if form.label else ''}_{name}")
    operands = Operands(b, form, sizes)
    outs = form.shapes(sizes)[1]
    attributes = form.attributes(sizes) if callable(form.attributes) else form.attributes
    y = b.op(form.op, operands.values, outs, attributes, dtype=form.dtypes, segments=form.segments)[0]
    if y.dtype != "f32":
        y = b.op("cast", [y], y.shape)
    b.result(y, lambda t: form.f(*(known(t) for known in operands.known)))
    b.tolerance = 3e-5


def unary_forms():
    for name, attributes, rule, f in elementwise.SMOOTH:
        yield Form(name, "ab->ab", f, attributes, label=attributes, rules=(rule or "normal(0,1)",), tried="a")
    for name, attributes, suffix, f in elementwise.KINKED:
        yield Form(name, "ab->ab", f, attributes, label=suffix[1:], rules=("uniform(0.3,1)",), tried="a")
    yield Form("cast", "ab->ab", lambda x: x, dtypes=("f64",))


# Dims, and which are tried: those that meet from two sides.
BINARY = {"a1,1b->ab": "ab", "ab,->ab": "", ",ab->ab": "", "ab,b->ab": "", "b,ab->ab": "", "1b,ab->ab": "", "ab,a1->ab": ""}
TERNARY = {",ab,b->ab": "", "b,,ab->ab": "", "ab,b,->ab": "", "1b,ab,a1->ab": "ab", "a1,1b,ab->ab": "ab", "ab,a1,1b->ab": "ab"}
REMAINDER = ("uniform(1.2,1.4)", "uniform(0.9,1)")


def cross_entropy_of_two(x, y):
    return -y * np.log(x) - (1 - y) * np.log(1 - x)


def joined(dims):
    return dims.split("->")[0].replace(",", "_") or "scalar"


def broadcast_forms():
    for name, f, rules in [
        ("add", np.add, ()), ("sub", np.subtract, ()), ("mul", np.multiply, ()), ("div", np.divide, (POSITIVE,) * 2), ("pow", np.power, (POSITIVE,) * 2),
        ("binary_cross_entropy", cross_entropy_of_two, ("uniform(0.2,0.4)", "uniform(0.6,0.8)")),
        ("max", np.maximum, ("uniform(0.5,1)", "uniform(0.1,0.4)")), ("min", np.minimum, ("uniform(0.5,1)", "uniform(0.1,0.4)")), ("mod", np.mod, REMAINDER), ("mod fmod", np.fmod, REMAINDER),
    ]:
        op, _, attribute = name.partition(" ")
        for dims, tried in BINARY.items():
            yield Form(op, dims, lambda x, y, f=f: f(x, y), attribute, attribute + joined(dims), rules, tried=tried)
    for dims, tried in TERNARY.items():
        yield Form("where", dims, lambda c, x, y: np.where(c, x, y), label=joined(dims), kinds="b", tried=tried)
    for n in (0, 1, 4):
        yield Form("broadcast", f"a1->a{n}", lambda x, n=n: x.repeat(n, 1), label=f"to_{n}")


def product_forms():
    yield Form("linear", "bi,oi,o->bo", lambda x, w, b: x @ w.T + b)
    yield Form("linear", "bi,io,o->bo", lambda x, w, b: x @ w + b, "in_out", "in_out")
    for dims, tried in {"bmk,bkn->bmn": "bmkn", "bmk,kn->bmn": "bm", "mk,bkn->bmn": "bn", "1mk,bkn->bmn": "bm", "bmk,1kn->bmn": "b", "b1mk,1ckn->bcmn": "bc", "cmk,bckn->bcmn": "", "bcmk,ckn->bcmn": ""}.items():
        yield Form("matmul", dims, lambda x, y: x @ y, label=joined(dims), tried=tried)
    yield Form("matmul", "bkm,nk->bmn", lambda x, y: x.swapaxes(-1, -2) @ y.T, "trans_a, trans_b", "turned")


def window_forms():
    """Kernels of 2 x 2 beside a padding of 1: an input without an element still has windows."""
    reach = {"y": ("hi", lambda h, i: h + 3 - i), "x": ("wj", lambda w, j: w + 3 - j)}
    kernel = dict.fromkeys("ij", "a kernel has an element")
    attributes = f"strides = {ints([1, 1])}, pads = {ints([1] * 4)}, dilations = {ints([1, 1])}, groups = 1 : i64"
    f = lambda x, w, b: convolve(x, w, (1, 1), (1, 1, 1, 1), (1, 1), 1) + b.reshape(-1, 1, 1)
    yield Form("conv", "nchw,ocij,o->noyx", f, attributes, derived=reach, sizes={"i": 2, "j": 2}, never=kernel)

    def transposed(y, w):
        x = np.zeros((y.shape[0], w.shape[1], y.shape[2] + w.shape[2] - 1, y.shape[3] + w.shape[3] - 1))
        for i, j in np.ndindex(w.shape[2:]):
            x[:, :, i : i + y.shape[2], j : j + y.shape[3]] += np.einsum("nohw,oc->nchw", y, w[:, :, i, j])
        return x[:, :, 1:-1, 1:-1]

    yield Form("conv_dx", "noyx,ocij->nchw", transposed, attributes, derived=reach, sizes={"i": 2, "j": 2}, never=kernel)
    rest = {"y": ("h", lambda h: max(h - 1, 0)), "x": ("w", lambda w: max(w - 1, 0))}
    for i, kind in enumerate(KINDS):
        attributes = f"kind = {i} : i32, kernel = {ints([2, 2])}, strides = {ints([1, 1])}, pads = {ints([0] * 4)}, dilations = {ints([1, 1])}"
        f = lambda x, kind=kind: pooled(x, kind, (2, 2), (1, 1), (0, 0, 0, 0), (1, 1), [max(d - 1, 0) for d in x.shape[2:]])
        yield Form("pool", "nchw->ncyx", f, attributes, kind, kinds="o" if kind == "max" else "", derived=rest)


def attention_forms():
    heads = {"h": "the query's heads are a multiple of the keys' heads"}
    dtypes = ("f32", "f32")
    for label, causal in [("", ""), ("causal", ", causal")]:
        f = lambda q, k, v, causal=bool(causal): attend(q, k, v, None, 0.6, causal, "zero")
        yield Form("attention", "bthd,bshd,bshe->bthe,bht", f, "scale = 0.6 : f64, empty_row = 1 : i32" + causal, label, dtypes=dtypes, never=heads, tried="ts" if causal else None, segments=[1, 1, 1, 0, 0, 0])
    for mask in ["bhts", "1hts", "b1ts", "bh1s", "bht1", "ts", ""]:
        yield Form("attention", f"bthd,bshd,bshe,{mask}->bthe,bht", lambda q, k, v, m: attend(q, k, v, m, 0.6, False, "zero"), "scale = 0.6 : f64, empty_row = 1 : i32",
                   f"mask_{mask or 'scalar'}", dtypes=dtypes, never=heads, tried="bhts" if mask == "bhts" else "", rows="", segments=[1, 1, 1, 1, 0, 0])
    for batched in ("", "1", "b"):
        f = lambda x, cos, sin: turn(x, cos, sin, 0, False)
        yield Form("rotary", f"bthd,{batched}tr,{batched}tr->bthd", f, "style = 0 : i32", f"angles_{batched}tr", kinds="fcc", derived={"d": ("r", lambda r: 2 * r + 1)}, tried="" if batched else "bthr", rows="" if batched else "b")


def normalized(x, axes):
    return x / np.sqrt((x * x).mean(axes, keepdims=True) + 0.01)


def norm_forms():
    def layer(x, scale, bias):
        return normalized(x - x.mean(-1, keepdims=True), -1) * scale + bias

    def group(x, scale, bias):
        x = normalized(x - x.mean((1, 2, 3), keepdims=True), (1, 2, 3))
        return x * scale.reshape(-1, 1, 1) + bias.reshape(-1, 1, 1)

    yield Form("layer_norm", "abc,c,c->abc", layer, "eps = 0.01 : f64, axes = 1 : i64", segments=[1, 1, 1])
    yield Form("rms_norm", "abc,c->abc", lambda x, s: normalized(x, -1) * s, "eps = 0.01 : f64, axes = 1 : i64")
    yield Form("group_norm", "nchw,c,c->nchw", group, "eps = 0.01 : f64, groups = 1 : i64", segments=[1, 1, 1])
    for name, f in [("softmax", lambda x: x), ("log_softmax", np.log)]:
        yield Form(name, "abc->abc", lambda x, f=f: f(shapes.softmax(x, 1)) if x.size else x, "axis = 1 : i64")

    def cross_entropy(x, labels):
        if not x.size:
            return np.zeros(labels.shape)
        return -np.take_along_axis(np.log(shapes.softmax(x, -1)), labels[:, None], 1)[:, 0]

    yield Form("cross_entropy", "bv,b->b", cross_entropy, kinds="fi", limit="v", sizes={"b": 3, "v": 5})


def reduction_forms():
    of_none = {"max": -np.inf, "min": np.inf}
    for i, (kind, f) in enumerate(shapes.REDUCTIONS.items()):
        ordered = "o" if kind in of_none else ""
        initial = {"initial": of_none[kind]} if ordered else {}
        f = lambda x, axis, f=f, initial=initial: f(x, axis=axis, **initial)
        yield Form("reduce", "abc->ac", lambda x, f=f: f(x, 1), f"kind = {i} : i32, axes = {ints([1])}", kind, kinds=ordered)
        yield Form("reduce", "ab->", lambda x, f=f: f(x, None), f"kind = {i} : i32, axes = {ints([0, 1])}", kind + "_all", kinds=ordered, tried="a")
    f = lambda x: np.take_along_axis(x, shapes.ordered(x, 1, min(2, x.shape[1])), 1)
    yield Form("top_k", "abc->akc,akc", f, "axis = 1 : i64", kinds="o", derived={"k": ("b", lambda b: min(b, 2))}, dtypes=("f32", "i64"))
    yield Form("cumsum", "ab->ab", lambda x: x.cumsum(1), "axis = 1 : i64")
    yield Form("cumsum", "ab->ab", lambda x: np.flip(np.flip(x, 0).cumsum(0), 0) - x, "axis = 0 : i64, exclusive, reverse", "back")


def movement_forms():
    whole = {"d": ("ab", lambda a, b: a * b)}
    yield Form("reshape", "abc->dc", lambda x: x.reshape(x.shape[0] * x.shape[1], x.shape[2]), label="together", derived=whole, rows="c")
    for n in (1, 3):
        yield Form("reshape", f"dc->a{n}c", lambda x, n=n: x.reshape(len(x) // n, n, x.shape[1]), label=f"apart_{n}", derived={"d": ("a", lambda a, n=n: a * n)}, rows="c")
    yield Form("transpose", "abc->cab", lambda x: x.transpose(2, 0, 1), f"permutation = {ints([2, 0, 1])}")
    yield Form("slice", "ab->cb", lambda x: x[:2], f"starts = {ints([0, 0])}, steps = {ints([1, 1])}", derived={"c": ("a", lambda a: min(a, 2))}, sizes={"a": 3}, rows="b")
    yield Form("slice", "ab->ab", lambda x: x[::-1], lambda sizes: f"starts = {ints([max(sizes['a'] - 1, 0), 0])}, steps = {ints([-1, 1])}", "back", rows="b")
    pad = f"low = {ints([1, 0])}, interior = {ints([1, 0])}, value = 0.5 : f64"

    def padded(x):
        y = np.full((2 * x.shape[0] + 2, x.shape[1]), 0.5)
        y[1 : 1 + 2 * x.shape[0] : 2] = x
        return y

    yield Form("pad", "ab->cb", padded, pad, derived={"c": ("a", lambda a: 2 * a + 2)}, rows="b")
    yield Form("concat", "ac,bc->dc", lambda x, y: np.concatenate([x, y]), "axis = 0 : i64", derived={"d": ("ab", lambda a, b: a + b)}, rows="c")


def index_forms():
    """Without an item there is no index either, unless places outside give zeros. What is not added names no place twice: as in PyTorch, each
    of its updates would get the gradient, though only the last is seen."""
    yield Form("gather", "ac,i->ic", lambda x, i: x[i], "axis = 0 : i64", kinds="fi", limit="a", sizes={"a": 4}, empty={"a": "i"}, rows="i")
    yield Form("gather", "bac,i->bic", lambda x, i: x[:, i], "axis = 1 : i64", "inner", kinds="fi", limit="a", sizes={"a": 4}, empty={"a": "i"})
    f = lambda x, i: x[i] if len(x) else np.zeros((len(i), x.shape[1]))
    yield Form("gather", "ac,i->ic", f, "axis = 0 : i64, zero_out_of_range", "zero", kinds="fi", limit="a", sizes={"a": 4}, rows="i")
    f = lambda x, i: np.take_along_axis(x, i, 0)
    yield Form("gather_elements", "ac,ic->ic", f, "axis = 0 : i64", kinds="fi", limit="a", sizes={"a": 4}, empty={"a": "i"}, rows="c")
    yield Form("gather_nd", "ac,i1->ic", lambda x, i: x[i[:, 0]], kinds="fi", limit="a", sizes={"a": 4}, empty={"a": "i"}, rows="i")
    f = lambda x, i: np.stack([row[k[:, 0]] for row, k in zip(x, i)]) if len(x) else np.zeros((0, i.shape[1], x.shape[2]))
    yield Form("gather_nd", "bac,bi1->bic", f, "batch_dims = 1 : i64", "batch", kinds="fi", limit="a", sizes={"a": 4}, empty={"a": "i"})

    def scattered(kind):
        return lambda x, i, u: shapes.scattered(kind, x, i, u)

    once = {"a": 4, "i": 1}
    yield Form("scatter_nd", "ac,i1,ic->ac", scattered(0), "kind = 0 : i32", kinds="fif", limit="a", sizes=once, empty={"a": "i"}, rows="c")
    for kind, label in enumerate(shapes.SCATTERS[1:], 1):
        yield Form("scatter_nd", "ac,i1,ic->ac", scattered(kind), f"kind = {kind} : i32", label, kinds="fif", limit="a", sizes={"a": 4}, empty={"a": "i"}, rows="i")


def family(forms):
    def make(case):
        for form in forms():
            for name, sizes in form.variants():
                differentiate(case, form, name, sizes)

    return make


FAMILIES = {
    "sizes_unary": family(unary_forms),
    "sizes_broadcast": family(broadcast_forms),
    "sizes_product": family(product_forms),
    "sizes_window": family(window_forms),
    "sizes_attention": family(attention_forms),
    "sizes_norm": family(norm_forms),
    "sizes_reduction": family(reduction_forms),
    "sizes_movement": family(movement_forms),
    "sizes_index": family(index_forms),
}
