#===- interpret.py - Runs nn IR with numpy, slowly ---------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Says what an imported graph computes, independent of everything after the
# importer: reads the generic text form of a module's @forward and evaluates it
# with numpy. Only for tests; nothing here is fast.
#===----------------------------------------------------------------------===
import math
import re
import struct

import numpy as np

DTYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "i1": np.bool_, "i8": np.int8, "ui8": np.uint8, "i32": np.int32, "i64": np.int64,
          "index": np.int64, "bf16": np.float32}
COMPARE = [np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal]


def unquoted(text, start=0):
    """(index, character, brackets open behind it) outside of quotes."""
    depth, quoted = 0, False
    for i in range(start, len(text)):
        c = text[i]
        if c == '"' and text[i - 1] != "\\":
            quoted = not quoted
        elif not quoted:
            depth += c in "([{<"
            depth -= c in ")]}" or (c == ">" and text[i - 1] != "-")
            yield i, c, depth


def split(text):
    """Top-level parts between commas: brackets and quotes are kept together."""
    parts, start = [], 0
    for i, c, depth in unquoted(text):
        if c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return parts + [last] if last else parts


def matching(text, start):
    """Index of the bracket that closes the one at `start`."""
    return next(i for i, _, depth in unquoted(text, start) if depth == 0)


class Op:
    def __init__(self, name, results, operands, attrs, types, blocks):
        self.name, self.results, self.operands, self.attrs, self.types, self.blocks = name, results, operands, attrs, types, blocks


class Block:
    def __init__(self, arguments):
        self.arguments, self.ops = arguments, []


def parse_attrs(text):
    attrs = {}
    for part in split(text):
        key, eq, value = part.partition(" = ")
        attrs[key.strip()] = value.strip() if eq else "unit"
    return attrs


def parse(text):
    """The blocks of the top module's region, nested."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    position = 0

    def parse_block_list():
        nonlocal position
        blocks = [Block([])]
        while position < len(lines):
            line = lines[position]
            if line.startswith("})"):
                return blocks
            if line.startswith("^"):
                arguments = re.findall(r"(%[\w#]+): ((?:[^,<]|<[^>]*(?:<[^>]*>)?[^>]*>)+)", line)
                block = Block([(n, t.strip().rstrip("):")) for n, t in arguments])
                blocks = [block] if not blocks[0].ops and len(blocks) == 1 else blocks + [block]
                position += 1
                continue
            blocks[-1].ops.append(parse_op())
        return blocks

    def parse_op():
        nonlocal position
        line = lines[position]
        position += 1
        results = []
        m = re.match(r"(%[\w]+)(?::(\d+))? = ", line)
        if m:
            count = int(m.group(2) or 1)
            results = [m.group(1)] if count == 1 and not m.group(2) else [f"{m.group(1)}#{i}" for i in range(count)]
            line = line[m.end():]
        m = re.match(r'"([\w.]+)"\(([^)]*)\)\s*', line)
        name, operands = m.group(1), split(m.group(2))
        rest = line[m.end():]
        attrs, blocks = {}, []
        if rest.startswith("<{"):
            end = matching(rest, 0)
            attrs.update(parse_attrs(rest[2:end - 1]))
            rest = rest[end + 1:].strip()
        if rest.startswith("({"):
            blocks = parse_block_list()
            rest = lines[position][2:].strip()
            position += 1
        if rest.startswith("{"):
            end = matching(rest, 0)
            attrs.update(parse_attrs(rest[1:end]))
            rest = rest[end + 1:].strip()
        arrow = rest.rfind(" -> ")
        types = rest[arrow + 4:].strip() if arrow >= 0 else "()"
        types = split(types[1:-1]) if types.startswith("(") else [types]
        return Op(name, results, operands, attrs, types, blocks)

    return parse_block_list()


def number(text):
    text = text.strip()
    if text.startswith("0x"):
        bits = int(text, 16)
        return struct.unpack(">d", bits.to_bytes(8, "big"))[0] if len(text) > 10 else struct.unpack(">f", bits.to_bytes(4, "big"))[0]
    return {"true": True, "false": False}.get(text, None) if text in ("true", "false") else float(text) if re.search(r"[.eEnN]", text) else int(text)


class Interpreter:
    def __init__(self, text, parameters):
        top = parse(text)[0].ops[0]
        self.module = top.blocks[0].ops[0]
        self.functions = {o.attrs["sym_name"].strip('"'): o for o in self.module.blocks[0].ops if o.name == "func.func"}
        self.parameters = parameters
        self.sizes = {}

    # ---- types ----
    def tensor(self, text):
        """(dims or expressions, numpy type)."""
        body = text[len("tensor<"):-1]
        shape, *encoding = split(body)
        *dims, element = shape.split("x") if "x" in shape else [shape]
        exprs = split(encoding[0][len("#nn.dims<"):-1]) if encoding else []
        exprs = iter(exprs)
        return [next(exprs) if d == "?" else int(d) for d in dims], DTYPES[element]

    def size(self, expr):
        if isinstance(expr, int):
            return expr
        return eval(expr, {}, self.sizes)  # test data only

    def shape(self, text):
        dims, dtype = self.tensor(text)
        return tuple(self.size(d) for d in dims), dtype

    def run(self, inputs):
        f = self.functions["forward"]
        block = f.blocks[0]
        names = re.findall(r'nn\.name = "([^"]*)"', f.attrs.get("arg_attrs", ""))
        results = re.findall(r'nn\.name = "([^"]*)"', f.attrs.get("res_attrs", ""))
        env = {}
        for (value, type_), name in zip(block.arguments, names):
            dims, _ = self.tensor(type_)
            for d, n in zip(dims, inputs[name].shape):
                if isinstance(d, str) and re.fullmatch(r"[A-Za-z_]\w*", d):
                    self.sizes[d] = n
            env[value] = inputs[name]
        for op in block.ops:
            if op.name == "func.return":
                return dict(zip(results, [env[v] for v in op.operands]))
            self.execute(op, env)

    def execute(self, op, env):
        args = [env[v] for v in op.operands]
        method = getattr(self, op.name.replace(".", "_"), None)
        if method is None:
            raise NotImplementedError(op.name)
        with np.errstate(all="ignore"):
            out = method(op, *args)
        out = out if isinstance(out, tuple) else (out,)
        for name, value, type_ in zip(op.results, out, op.types):
            if type_.startswith("tensor"):
                shape, dtype = self.shape(type_)
                value = np.asarray(value)
                if value.shape != shape:
                    raise AssertionError(f"{op.name}: is {value.shape}, its type says {shape}")
                value = value.astype(dtype)
            env[name] = value

    # ---- attributes ----
    @staticmethod
    def i(op, key, default=None):
        return int(op.attrs[key].split(" : ")[0]) if key in op.attrs else default

    @staticmethod
    def f(op, key, default=None):
        return float(number(op.attrs[key].split(" : ")[0])) if key in op.attrs else default

    @staticmethod
    def a(op, key, default=None):
        if key not in op.attrs:
            return default
        body = op.attrs[key]
        body = body[body.index("<") + 1:-1]
        values = body.split(":", 1)[1] if ":" in body else ""
        return [{"true": 1, "false": 0}.get(v.strip()) if v.strip() in ("true", "false") else int(v) for v in values.split(",") if v.strip()]

    # ---- nn: creation ----
    def nn_constant(self, op):
        text = op.attrs["value"]
        body, type_ = text.rsplit(" : ", 1)
        shape, dtype = self.shape(type_)
        body = body[len("dense<"):-1]
        if body.startswith('"0x'):
            return np.frombuffer(bytes.fromhex(body[3:-1]), dtype).reshape(shape)
        values = [number(t) for t in re.findall(r"[^\[\],\s]+", body)]
        return np.full(shape, values[0], dtype) if len(values) == 1 else np.array(values, dtype).reshape(shape)

    def nn_read(self, op):
        return self.parameters[op.attrs["parameter"].lstrip("@").strip('"')]

    def nn_generate(self, op):
        shape, dtype = self.shape(op.types[0])
        block = op.blocks[0]
        env = {}
        for axis, (name, _) in enumerate(block.arguments):
            view = [1] * len(shape)
            view[axis] = shape[axis]
            env[name] = np.arange(shape[axis]).reshape(view)
        for o in block.ops:
            if o.name == "nn.yield":
                return np.broadcast_to(env[o.operands[0]], shape)
            self.scalar(o, env)

    def scalar(self, op, env):
        args = [env[v] for v in op.operands]
        kind = op.name.split(".", 1)[1]
        two = {"addi": np.add, "subi": np.subtract, "muli": np.multiply, "addf": np.add, "subf": np.subtract, "mulf": np.multiply, "divf": np.divide,
               "floordivsi": np.floor_divide, "divsi": lambda a, b: np.trunc(a / b).astype(np.int64), "remsi": np.fmod, "minsi": np.minimum,
               "maxsi": np.maximum, "minimumf": np.minimum, "maximumf": np.maximum, "andi": np.logical_and, "ori": np.logical_or,
               "xori": np.logical_xor}
        if op.name == "nn.size":
            value = self.size(op.attrs["size"][len("#nn.dim<") : -1])
        elif kind == "constant":
            value = np.array(number(op.attrs["value"].split(" : ")[0]), DTYPES[op.types[0]])
        elif kind in two:
            value = two[kind](*args)
        elif kind == "cmpi":
            value = COMPARE[self.i(op, "predicate")](*args)
        elif kind == "cmpf":
            value = {1: np.equal, 4: np.less, 5: np.less_equal}[self.i(op, "predicate")](*args)
        elif kind == "select":
            value = np.where(*args)
        elif kind in ("index_cast", "sitofp"):
            value = np.asarray(args[0]).astype(DTYPES[op.types[0]])
        else:
            raise NotImplementedError(op.name)
        env[op.results[0]] = value

    # ---- nn: elementwise ----
    nn_rsqrt = lambda self, op, x: 1 / np.sqrt(x)
    nn_reciprocal = lambda self, op, x: 1 / x
    nn_erf = lambda self, op, x: np.vectorize(math.erf, otypes=[np.float64])(x)
    nn_sigmoid = lambda self, op, x: 1 / (1 + np.exp(-x))
    nn_silu = lambda self, op, x: x / (1 + np.exp(-x))
    nn_softplus = lambda self, op, x: np.logaddexp(0, x)
    nn_relu = lambda self, op, x: np.maximum(x, 0)
    nn_stop_gradient = lambda self, op, x: x
    nn_leaky_relu = lambda self, op, x: np.where(x >= 0, x, self.f(op, "alpha") * x)
    nn_elu = lambda self, op, x: self.f(op, "scale", 1) * np.where(x > 0, x, self.f(op, "alpha", 1) * (np.exp(x) - 1))
    nn_hard_sigmoid = lambda self, op, x: np.clip(self.f(op, "alpha") * x + self.f(op, "beta"), 0, 1)

    def nn_gelu(self, op, x):
        if "tanh" in op.attrs:
            return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
        return 0.5 * x * (1 + self.nn_erf(op, x / np.sqrt(2)))

    def nn_div(self, op, x, y):
        return x / y if np.issubdtype(x.dtype, np.floating) else np.trunc(x / y)

    def nn_mod(self, op, x, y):
        return np.fmod(x, y) if "fmod" in op.attrs else np.mod(x, y)

    def nn_cmp(self, op, x, y):
        return COMPARE[self.i(op, "predicate")](x, y)

    def nn_cast(self, op, x):
        dtype = self.shape(op.types[0])[1]
        return x != 0 if dtype == np.bool_ else np.trunc(x) if np.issubdtype(dtype, np.integer) and x.dtype != np.bool_ else x

    # ---- nn: movement ----
    def nn_reshape(self, op, x):
        return x.reshape(self.shape(op.types[0])[0])

    def nn_broadcast(self, op, x):
        return np.broadcast_to(x, self.shape(op.types[0])[0])

    def nn_transpose(self, op, x):
        return x.transpose(self.a(op, "permutation"))

    def nn_slice(self, op, x):
        shape = self.shape(op.types[0])[0]
        ends = self.a(op, "from_end") or [0] * x.ndim
        for axis, (start, step, n, end) in enumerate(zip(self.a(op, "starts"), self.a(op, "steps"), shape, ends)):
            start = x.shape[axis] - start if end else start
            at = start + step * np.arange(n)
            assert n == 0 or (at.min() >= 0 and at.max() < x.shape[axis]), f"slice outside: {at}"
            x = np.take(x, at, axis)
        return x

    def nn_pad(self, op, x):
        out = np.full(self.shape(op.types[0])[0], self.f(op, "value", 0.0), x.dtype)
        index = tuple(slice(lo, lo + n * (k + 1) - k if n else lo, k + 1)
                      for lo, k, n in zip(self.a(op, "low"), self.a(op, "interior"), x.shape))
        out[index] = x
        return out

    def nn_concat(self, op, *xs):
        return np.concatenate(xs, self.i(op, "axis"))

    def nn_gather(self, op, x, at):
        axis = self.i(op, "axis")
        if "zero_out_of_range" in op.attrs:
            inside = (at >= 0) & (at < x.shape[axis])
            y = np.take(x, np.where(inside, at, 0), axis)
            return y * inside.reshape((1,) * axis + at.shape + (1,) * (x.ndim - axis - 1))
        return np.take(x, np.where(at < 0, at + x.shape[axis], at), axis)

    def nn_gather_elements(self, op, x, at):
        axis = self.i(op, "axis")
        if "block" in op.attrs:  # outside of this rank's block: any element, which nobody takes
            at = np.clip(at, 0, x.shape[axis] - 1)
        return np.take_along_axis(x[tuple(slice(None) if i == axis else slice(0, n) for i, n in enumerate(at.shape))],
                                  np.where(at < 0, at + x.shape[axis], at), axis)

    def nn_gather_nd(self, op, x, at):
        batch = self.i(op, "batch_dims", 0)
        lead = np.indices(at.shape[:-1])[:batch]
        return x[tuple(lead) + tuple(np.moveaxis(at, -1, 0))]

    def nn_scatter_nd(self, op, x, at, updates):
        x = x.copy()
        combine = [lambda old, new: new, np.add, np.multiply, np.maximum, np.minimum][self.i(op, "kind")]
        for place in np.ndindex(at.shape[:-1]):
            key = tuple(at[place])
            x[key] = combine(x[key], updates[place])
        return x

    # ---- nn: reductions, norms ----
    def nn_reduce(self, op, x):
        axes = tuple(self.a(op, "axes"))
        keep = "keepdims" in op.attrs
        kind = self.i(op, "kind")
        if x.dtype == np.bool_:
            return {2: np.any, 3: np.all}[kind](x, axis=axes, keepdims=keep)
        return [np.sum, np.mean, np.max, np.min, np.prod][kind](x, axis=axes, keepdims=keep)

    def nn_arg_max(self, op, x):
        axis = self.i(op, "axis")
        f = np.argmin if "min" in op.attrs else np.argmax
        y = x.shape[axis] - 1 - f(np.flip(x, axis), axis) if "last" in op.attrs else f(x, axis)
        return np.expand_dims(y, axis) if "keepdims" in op.attrs else y

    def nn_top_k(self, op, x):
        axis, k = self.i(op, "axis"), self.shape(op.types[0])[0][self.i(op, "axis")]
        order = np.argsort(x, axis, kind="stable")
        if "smallest" not in op.attrs:  # the stable order of the reversed axis, reversed: of equals the lower index first
            order = np.flip(x.shape[axis] - 1 - np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
        order = np.take(order, np.arange(k), axis)
        return np.take_along_axis(x, order, axis), order

    def nn_cumsum(self, op, x):
        axis = self.i(op, "axis")
        x = np.flip(x, axis) if "reverse" in op.attrs else x
        y = np.cumsum(x, axis)
        y = y - x if "exclusive" in op.attrs else y
        return np.flip(y, axis) if "reverse" in op.attrs else y

    def nn_softmax(self, op, x):
        e = np.exp(x - x.max(self.i(op, "axis"), keepdims=True))
        return e / e.sum(self.i(op, "axis"), keepdims=True)

    def nn_log_softmax(self, op, x):
        x = x - x.max(self.i(op, "axis"), keepdims=True)
        return x - np.log(np.exp(x).sum(self.i(op, "axis"), keepdims=True))

    def segments(self, op, args):
        counts = iter(args)
        return [next(counts) if n else None for n in self.a(op, "operandSegmentSizes")]

    def nn_layer_norm(self, op, *args):
        x, scale, bias = self.segments(op, args)
        axes = tuple(range(x.ndim - self.i(op, "axes", 1), x.ndim))
        y = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + self.f(op, "eps"))
        y = y if scale is None else y * scale
        return y if bias is None else y + bias

    def nn_rms_norm(self, op, x, scale=None):
        axes = tuple(range(x.ndim - self.i(op, "axes", 1), x.ndim))
        y = x / np.sqrt((x * x).mean(axes, keepdims=True) + self.f(op, "eps"))
        return y if scale is None else y * scale

    def nn_group_norm(self, op, *args):
        x, scale, bias = self.segments(op, args)
        g = x.reshape(x.shape[0], self.i(op, "groups"), -1)
        g = (g - g.mean(-1, keepdims=True)) / np.sqrt(g.var(-1, keepdims=True) + self.f(op, "eps"))
        channel = (-1,) + (1,) * (x.ndim - 2)
        y = g.reshape(x.shape)
        y = y if scale is None else y * scale.reshape(channel)
        return y if bias is None else y + bias.reshape(channel)

    def nn_cross_entropy(self, op, logits, labels):
        p = logits - logits.max(-1, keepdims=True)
        p = p - np.log(np.exp(p).sum(-1, keepdims=True))
        valid = (labels >= 0) & (labels < logits.shape[-1]) & (labels != self.i(op, "ignore_index", -100))
        picked = np.take_along_axis(p, np.where(valid, labels, 0)[..., None], -1)[..., 0]
        return np.where(valid, -picked, 0)

    # ---- nn: products ----
    def nn_linear(self, op, x, w, bias=None):
        y = x @ (w if "in_out" in op.attrs else w.T)
        return y if bias is None else y + bias

    def nn_matmul(self, op, x, y):
        x = np.swapaxes(x, -1, -2) if "trans_a" in op.attrs else x
        y = np.swapaxes(y, -1, -2) if "trans_b" in op.attrs else y
        return x @ y

    def window(self, op, spatial):
        return self.a(op, "strides"), self.a(op, "pads"), self.a(op, "dilations")

    def nn_conv(self, op, x, w, bias=None):
        rank = x.ndim - 2
        strides, pads, dilations = self.window(op, rank)
        groups = self.i(op, "groups", 1)
        x = np.pad(x, [(0, 0), (0, 0)] + list(zip(pads[:rank], pads[rank:])))
        shape = self.shape(op.types[0])[0]
        y = np.zeros(shape, np.float64)
        co, ci = w.shape[0] // groups, w.shape[1]
        for k in np.ndindex(*w.shape[2:]):
            view = x[(slice(None), slice(None)) + tuple(slice(k[i] * dilations[i], k[i] * dilations[i] + (shape[i + 2] - 1) * strides[i] + 1, strides[i])
                                                        for i in range(rank))]
            for g in range(groups):
                y[:, g * co:(g + 1) * co] += np.einsum("nc...,oc->no...", view[:, g * ci:(g + 1) * ci], w[(slice(g * co, (g + 1) * co), slice(None)) + k])
        return y if bias is None else y + bias.reshape((-1,) + (1,) * rank)

    def nn_conv_dx(self, op, dy, w):
        rank = dy.ndim - 2
        strides, pads, dilations = self.window(op, rank)
        groups = self.i(op, "groups", 1)
        shape = self.shape(op.types[0])[0]
        padded = np.zeros(shape[:2] + tuple(shape[i + 2] + pads[i] + pads[i + rank] for i in range(rank)), np.float64)
        co, ci = w.shape[0] // groups, w.shape[1]
        for k in np.ndindex(*w.shape[2:]):
            where = tuple(slice(k[i] * dilations[i], k[i] * dilations[i] + (dy.shape[i + 2] - 1) * strides[i] + 1, strides[i]) for i in range(rank))
            for g in range(groups):
                padded[(slice(None), slice(g * ci, (g + 1) * ci)) + where] += np.einsum(
                    "no...,oc->nc...", dy[:, g * co:(g + 1) * co], w[(slice(g * co, (g + 1) * co), slice(None)) + k])
        return padded[(slice(None), slice(None)) + tuple(slice(pads[i], pads[i] + shape[i + 2]) for i in range(rank))]

    def nn_pool(self, op, x):
        rank = x.ndim - 2
        strides, pads, dilations = self.window(op, rank)
        kernel, kind = self.a(op, "kernel"), self.i(op, "kind")
        shape = self.shape(op.types[0])[0]
        y = np.zeros(shape, np.float64)
        for place in np.ndindex(*shape[2:]):
            taken, count = [], 0
            for k in np.ndindex(*kernel):
                at = [place[i] * strides[i] + k[i] * dilations[i] - pads[i] for i in range(rank)]
                inside = all(0 <= a < n for a, n in zip(at, x.shape[2:]))
                padded = all(a < n + pads[i + rank] for i, (a, n) in enumerate(zip(at, x.shape[2:])))
                count += inside or (kind == 2 and padded)
                if inside:
                    taken.append(x[(slice(None), slice(None)) + tuple(at)])
            stack = np.stack(taken)
            y[(slice(None), slice(None)) + place] = stack.max(0) if kind == 0 else stack.sum(0) / count
        return y

    def nn_rotary(self, op, x, cos, sin):
        r = cos.shape[-1]
        cos, sin = (np.expand_dims(a if a.ndim == 3 else a[None], 2) for a in (cos, sin))
        y = x.copy()
        a, b = (slice(0, r), slice(r, 2 * r)) if self.i(op, "style", 0) == 0 else (slice(0, 2 * r, 2), slice(1, 2 * r, 2))
        y[..., a] = x[..., a] * cos - x[..., b] * sin
        y[..., b] = x[..., b] * cos + x[..., a] * sin
        return y


# Ops that numpy has, under its name where that is another.
NUMPY = {name: name for name in "abs exp log sqrt sin cos tan sinh cosh tanh floor ceil sign add where".split()} | {
    "neg": "negative", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh",
    "round": "rint", "is_nan": "isnan", "is_inf": "isinf", "not": "logical_not", "sub": "subtract", "mul": "multiply", "pow": "power",
    "max": "maximum", "min": "minimum", "and": "logical_and", "or": "logical_or", "xor": "logical_xor",
}
for own, name in NUMPY.items():
    setattr(Interpreter, f"nn_{own}", lambda self, op, *xs, f=getattr(np, name): f(*xs))
