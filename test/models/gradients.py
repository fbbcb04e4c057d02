#===- gradients.py - Gradient ops of nn in numpy, and ranks in lockstep -------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Extends interpret.py to differentiated modules in double precision, and to
# modules cut over the ranks of a replica: every op runs for all
# ranks before the next one does. Only for tests.
#===----------------------------------------------------------------------===
import re

import numpy as np

from interpret import Interpreter, parse, split

def dictionaries(text):
    """'[{a = 1}, {}]' -> [{'a': '1'}, {}]"""
    return [{k.strip(): v.strip() for k, _, v in (p.partition(" = ") for p in split(d.strip()[1:-1]))} for d in split(text.strip()[1:-1])] if text else []


def cuts_of(layout):
    """Whole shape, shape in files, cuts of '#dist.layout<4x6 of 3x6, [#dist.cut<0, 2, 2, 1>]>'."""
    body = layout[len("#dist.layout<"):-1]
    shape, _, rest = body.partition(",")
    whole, _, files = shape.partition(" of ")
    sizes = lambda t: [None if n == "?" else int(n) for n in t.strip().split("x")] if t.strip() else []
    return sizes(whole), sizes(files or whole), [tuple(map(int, m)) for m in re.findall(r"#dist\.cut<(\d+), (\d+), (\d+), (\d+)>", rest)]


def part(x, dim, chunk, over, index):
    x = np.moveaxis(x, dim, 0)
    x = x.reshape((-1, over, chunk) + x.shape[1:])[:, index]
    return np.moveaxis(x.reshape((-1,) + x.shape[2:]), 0, dim)


def join(parts, dim, chunk):
    parts = [np.moveaxis(x, dim, 0) for x in parts]
    y = np.stack([x.reshape((-1, chunk) + x.shape[1:]) for x in parts], 1)
    return np.moveaxis(y.reshape((-1,) + y.shape[3:]), 0, dim)


class Gradients(Interpreter):
    """One module of a differentiated program, on `ranks` ranks."""

    def __init__(self, text, name, parameters, sizes, ranks=1):
        top = parse(text)[0].ops[0]
        self.module = next(o for o in top.blocks[0].ops if o.name == "dist.module" and o.attrs["sym_name"].strip('"') == name)
        ops = self.module.blocks[0].ops
        self.functions = {o.attrs["sym_name"].strip('"'): o for o in ops if o.name == "func.func"}
        self.symbols = {o.attrs["sym_name"].strip('"'): o for o in ops if o.name == "nn.parameter"}
        self.sizes, self.ranks, self.sent = dict(sizes), ranks, {}
        self.local = [{n: self.slice_of(n, parameters[n], r) for n in self.symbols if n in parameters} for r in range(ranks)]
        self.gradients = [{} for _ in range(ranks)]

    def slice_of(self, name, value, rank):
        value = value.astype(np.float64) if value.dtype == np.float32 else value
        layout = self.symbols[name].attrs.get("dist.layout")
        if not layout:
            return value
        whole, files, cuts = cuts_of(layout)
        value = np.pad(value, [(0, w - f) for w, f in zip(whole, files)])
        for dim, chunk, over, stride in cuts:
            value = part(value, dim, chunk, over, rank // stride % over)
        return value

    def whole_of(self, layout, values):
        """One tensor from all ranks' parts; those that should be equal must be."""
        whole, files, cuts = cuts_of(layout) if layout else (None, None, [])
        for dim, chunk, over, stride in reversed(cuts):
            values = [join([values[self.peer(r, i, over, stride)] for i in range(over)], dim, chunk) for r in range(len(values))]
        for v in values[1:]:
            np.testing.assert_allclose(v, values[0], rtol=1e-9, atol=1e-12, err_msg="ranks differ")
        return values[0][tuple(slice(0, f) for f in files)] if files else values[0]

    @staticmethod
    def peer(rank, index, over, stride):
        return rank + (index - rank // stride % over) * stride

    def gradient(self, name):
        symbol = self.symbols[name]
        values = [g.get(name) for g in self.gradients]
        if values[0] is None:
            return None
        for over, stride in [(int(o), int(s)) for _, _, o, s in re.findall(r"#dist\.cut<(\d+), (\d+), (\d+), (\d+)>", symbol.attrs.get("dist.partial_gradient", ""))]:
            values = [sum(values[self.peer(r, i, over, stride)] for i in range(over)) for r in range(self.ranks)]
        return self.whole_of(symbol.attrs.get("dist.layout"), values)

    def shape(self, text):
        dims, dtype = self.tensor(text)
        return tuple(self.size(d) for d in dims), {np.float32: np.float64, np.float16: np.float64}.get(dtype, dtype)

    def call(self, function, arguments):
        """Arguments and results: a list of one value a rank each."""
        block = self.functions[function].blocks[0]
        env = {name: value for (name, _), value in zip(block.arguments, arguments)}
        for op in block.ops:
            if op.name == "func.return":
                return [env[v] for v in op.operands]
            self.step(op, env)

    def step(self, op, env):
        values = [env[v] for v in op.operands]
        if op.name == "func.call":
            out = self.call(op.attrs["callee"].lstrip("@").strip('"'), values)
        elif op.name == "nn.accumulate":
            name = op.attrs["parameter"].lstrip("@").strip('"')
            for g, v in zip(self.gradients, values[0]):
                g[name] = g.get(name, 0) + v
            return
        elif op.name == "nn.read":
            name = op.attrs["parameter"].lstrip("@").strip('"')
            out = [[p[name] for p in self.local]]
        elif op.name.startswith("dist."):
            out = [self.collective(op, *values)]
        else:
            method = getattr(self, op.name.replace(".", "_"), None)
            if method is None:
                raise NotImplementedError(op.name)
            with np.errstate(all="ignore"):
                ranks = [self.on(r, method, op, [v[r] for v in values]) for r in range(self.ranks)]
            out = [list(v) for v in zip(*[r if isinstance(r, tuple) else (r,) for r in ranks])]
        for name, value, type_ in zip(op.results, out, op.types):
            shape, dtype = self.shape(type_)
            for v in value:
                if np.shape(v) != shape:
                    raise AssertionError(f"{op.name}: is {np.shape(v)}, its type says {type_}")
            env[name] = [np.asarray(v).astype(dtype) for v in value]

    def on(self, rank, method, op, values):
        self.rank = rank
        return method(op, *values)

    def collective(self, op, *values):
        over, stride = self.i(op, "over"), self.i(op, "stride")
        ranks = range(self.ranks)
        index = [r // stride % over for r in ranks]
        if op.name == "dist.rank":
            return [np.array(i, np.int64) for i in index]
        x, = values
        if op.name == "dist.partial":
            return [v if i == 0 else np.zeros_like(v) for v, i in zip(x, index)]
        groups = [[x[self.peer(r, i, over, stride)] for i in range(over)] for r in ranks]
        if op.name == "dist.slice":
            return [part(v, self.i(op, "axis"), self.i(op, "chunk"), over, i) for v, i in zip(x, index)]
        self.sent[op.name] = self.sent.get(op.name, 0) + 1
        if op.name == "dist.all_reduce":
            f = [np.sum, np.max, np.min][self.i(op, "kind")]
            return [f(np.stack(g), 0) for g in groups]
        if op.name == "dist.shift":
            return [g[(i - 1) % over] for g, i in zip(groups, index)]
        if op.name == "dist.all_gather":
            return [join(g, self.i(op, "axis"), self.i(op, "chunk")) for g in groups]
        if op.name == "dist.reduce_scatter":
            return [part(sum(g), self.i(op, "axis"), self.i(op, "chunk"), over, i) for g, i in zip(groups, index)]
        if op.name == "dist.all_to_all":
            return [part(join(g, self.i(op, "gather"), self.i(op, "gather_chunk")), self.i(op, "scatter"), self.i(op, "scatter_chunk"), over, i)
                    for g, i in zip(groups, index)]
        raise NotImplementedError(op.name)

    # ---- what double precision changes ----
    def nn_constant(self, op):
        saved, Gradients.shape = Gradients.shape, Interpreter.shape
        try:
            return super().nn_constant(op)
        finally:
            Gradients.shape = saved

    # ---- gradients ----
    def nn_linear_dw(self, op, x, dy):
        x, dy = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
        return x.T @ dy if "in_out" in op.attrs else dy.T @ x

    def nn_silu_grad(self, op, x, dy):
        s = 1 / (1 + np.exp(-x))
        return dy * (s + x * s * (1 - s))

    def nn_gelu_grad(self, op, x, dy):
        h = 1e-5  # of the definition
        return dy * (self.nn_gelu(op, x + h) - self.nn_gelu(op, x - h)) / (2 * h)

    def layer_statistics(self, op, x):
        axes = tuple(range(x.ndim - self.i(op, "axes", 1), x.ndim))
        return axes, x.mean(axes, keepdims=True), np.sqrt(x.var(axes, keepdims=True) + self.f(op, "eps"))

    def nn_layer_norm_dx(self, op, x, *rest):
        axes, mean, deviation = self.layer_statistics(op, x)
        y, g = (x - mean) / deviation, rest[-1] * rest[0] if len(rest) > 1 else rest[-1]
        return (g - g.mean(axes, keepdims=True) - y * (g * y).mean(axes, keepdims=True)) / deviation

    def nn_layer_norm_dscale(self, op, x, dy):
        axes, mean, deviation = self.layer_statistics(op, x)
        return (dy * (x - mean) / deviation).sum(tuple(range(axes[0])))

    def nn_rms_norm_dx(self, op, x, *rest):
        axes = tuple(range(x.ndim - self.i(op, "axes", 1), x.ndim))
        deviation = np.sqrt((x * x).mean(axes, keepdims=True) + self.f(op, "eps"))
        y, g = x / deviation, rest[-1] * rest[0] if len(rest) > 1 else rest[-1]
        return (g - y * (g * y).mean(axes, keepdims=True)) / deviation

    def nn_rms_norm_dscale(self, op, x, dy):
        axes = tuple(range(x.ndim - self.i(op, "axes", 1), x.ndim))
        return (dy * x / np.sqrt((x * x).mean(axes, keepdims=True) + self.f(op, "eps"))).sum(tuple(range(axes[0])))

    def groups(self, op, x):
        return x.reshape(x.shape[0], self.i(op, "groups"), -1)

    def nn_group_norm_dx(self, op, x, *rest):
        dy = rest[-1] * rest[0].reshape((-1,) + (1,) * (x.ndim - 2)) if len(rest) > 1 else rest[-1]
        v, g = self.groups(op, x), self.groups(op, dy)
        deviation = np.sqrt(v.var(-1, keepdims=True) + self.f(op, "eps"))
        y = (v - v.mean(-1, keepdims=True)) / deviation
        return ((g - g.mean(-1, keepdims=True) - y * (g * y).mean(-1, keepdims=True)) / deviation).reshape(x.shape)

    def nn_group_norm_dscale(self, op, x, dy):
        v = self.groups(op, x)
        y = ((v - v.mean(-1, keepdims=True)) / np.sqrt(v.var(-1, keepdims=True) + self.f(op, "eps"))).reshape(x.shape)
        return (dy * y).sum((0,) + tuple(range(2, x.ndim)))

    def nn_softmax_grad(self, op, y, dy):
        return y * (dy - (y * dy).sum(self.i(op, "axis"), keepdims=True))

    def nn_log_softmax_grad(self, op, y, dy):
        return dy - np.exp(y) * dy.sum(self.i(op, "axis"), keepdims=True)

    def scores(self, op, q, k, mask):
        """Queries and keys that are stripes of the whole stand where these do; `rank` is the one that computes."""
        t, s, group = q.shape[1], k.shape[1], q.shape[2] // k.shape[2]
        scores = np.einsum("bthd,bshd->bhts", q, np.repeat(k, group, 2)) * self.f(op, "scale")
        if mask is not None:
            scores = np.where(mask, scores, -np.inf) if mask.dtype == np.bool_ else scores + mask
        if "causal" in op.attrs:
            rows, columns = self.places(op, "stripes", t), self.places(op, "key_stripes", s)
            scores = np.where(columns[None] <= rows[:, None], scores, -np.inf)
        return scores

    def places(self, op, name, count):
        """Counted from the last one of all: the last query stands beside the last key."""
        stripes = dict(re.findall(r"(\w+) = (\d+)", op.attrs.get(name, "")))
        chunk, over, stride, behind = (int(stripes.get(key, default)) for key, default in (("chunk", count), ("over", 1), ("stride", 1), ("behind", 0)))
        return part(np.arange(count * over), 0, chunk, over, (self.rank // stride - behind) % over) - count * over

    def nn_attention(self, op, q, k, v, mask=None):
        """Of a part of the keys a row may see none: it is 0, and weighs nothing."""
        scores = self.scores(op, q, k, mask)
        top = scores.max(-1, keepdims=True)
        if "partial" in op.attrs:
            top = np.where(np.isneginf(top), 0, top)
        e = np.exp(scores - top)
        total = e.sum(-1, keepdims=True)
        out = np.einsum("bhts,bshd->bthd", e / (np.maximum(total, 1e-300) if "partial" in op.attrs else total), np.repeat(v, q.shape[2] // v.shape[2], 2))
        return out, (top + np.log(total))[..., 0]

    def nn_attention_grad(self, op, q, k, v, *rest):
        mask = rest[0] if len(rest) > 3 else None
        out, lse, dout = rest[-3:]
        group = q.shape[2] // k.shape[2]
        p = np.exp(self.scores(op, q, k, mask) - lse[..., None])
        dp = np.einsum("bthd,bshd->bhts", dout, np.repeat(v, group, 2))
        ds = p * (dp - np.einsum("bthd,bthd->bht", dout, out)[..., None]) * self.f(op, "scale")
        fold = lambda x: x.reshape(x.shape[:2] + (-1, group, x.shape[-1])).sum(3)
        return (np.einsum("bhts,bshd->bthd", ds, np.repeat(k, group, 2)), fold(np.einsum("bhts,bthd->bshd", ds, q)),
                fold(np.einsum("bhts,bthd->bshd", p, dout)))

    def nn_cross_entropy_grad(self, op, logits, labels, dy, loss=None):
        e = np.exp(logits - logits.max(-1, keepdims=True))
        valid = (labels >= 0) & (labels < logits.shape[-1]) & (labels != self.i(op, "ignore_index", -100))
        hot = np.arange(logits.shape[-1]) == labels[..., None]
        share = e / e.sum(-1, keepdims=True)
        if loss is not None:
            own = np.take_along_axis(logits, np.where(valid, labels, 0)[..., None], -1)
            share = np.exp(logits - own - loss[..., None])
        return np.where(valid[..., None], (share - hot) * dy[..., None], 0)

    def nn_gather_grad(self, op, dy, at):
        shape, _ = self.shape(op.types[0])
        axis = self.i(op, "axis")
        out = np.zeros((shape[axis],) + shape[:axis] + shape[axis + 1:])
        dy = np.moveaxis(dy, range(axis, axis + at.ndim), range(at.ndim))
        inside = (at >= 0) & (at < shape[axis]) if "zero_out_of_range" in op.attrs else np.ones(at.shape, bool)
        np.add.at(out, np.where(at < 0, at + shape[axis], at)[inside], dy[inside])
        return np.moveaxis(out, 0, axis)

    def nn_gather_elements_grad(self, op, dy, at):
        out = np.zeros(self.shape(op.types[0])[0])
        axis = self.i(op, "axis")
        index = list(np.indices(at.shape))
        index[axis] = np.where(at < 0, at + out.shape[axis], at)
        np.add.at(out, tuple(index), dy)
        return out

    def nn_conv_dw(self, op, x, dy):
        rank = x.ndim - 2
        strides, pads, dilations = self.window(op, rank)
        groups = self.i(op, "groups", 1)
        shape = self.shape(op.types[0])[0]
        x = np.pad(x, [(0, 0), (0, 0)] + list(zip(pads[:rank], pads[rank:])))
        out = np.zeros(shape)
        co, ci = shape[0] // groups, shape[1]
        for k in np.ndindex(*shape[2:]):
            view = x[(slice(None), slice(None)) + tuple(slice(k[i] * dilations[i], k[i] * dilations[i] + (dy.shape[i + 2] - 1) * strides[i] + 1, strides[i])
                                                        for i in range(rank))]
            for g in range(groups):
                out[(slice(g * co, (g + 1) * co), slice(None)) + k] = np.einsum(
                    "nos,ncs->oc", dy[:, g * co:(g + 1) * co].reshape(len(dy), co, -1), view[:, g * ci:(g + 1) * ci].reshape(len(dy), ci, -1))
        return out

    def nn_pad(self, op, x):
        for axis, turned in enumerate(self.a(op, "reverse") or []):
            x = np.flip(x, axis) if turned else x
        return super().nn_pad(op, x)
