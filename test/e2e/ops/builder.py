# ===- builder.py - writes the modules of the gradient test ----------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A case is one form of an operator: parameters in, a tensor `result` out, and a
# NumPy function that says what it is. Cases of a family share a dist.module, whose loss
# is the sum of all results times fixed `weights`: the emitted program stays small, and
# a parameter's name still says whose gradient it is. Ops are written in MLIR's generic
# form, which is the same for all of them.
# ===-----------------------------------------------------------------------===

import dataclasses
import typing

import numpy as np

TYPES = {"f32": np.float32, "i64": np.int64, "i1": np.bool_, "i32": np.int32, "f64": np.float64}


@dataclasses.dataclass
class Value:
    """An SSA value: `shape` holds numbers and, where ragged, expressions of the module's symbol."""

    name: str
    shape: tuple
    dtype: str = "f32"
    moves: bool = False  # a trained parameter is in it

    @property
    def type(self):
        dims = "".join(f"{'?' if isinstance(d, str) else d}x" for d in self.shape)
        symbolic = [d for d in self.shape if isinstance(d, str)]
        return f"tensor<{dims}{self.dtype}{', #nn.dims<' + ', '.join(symbolic) + '>' if symbolic else ''}>"


@dataclasses.dataclass
class Use:
    """An operator in a case: what covered.py counts."""

    op: str
    operands: typing.List[Value]
    results: typing.List[Value]
    segments: typing.Optional[typing.List[int]]


def literal(array):
    """Text of a dense attribute."""
    array = np.asarray(array)
    if not array.size:
        body = ""
    elif array.dtype == np.bool_:
        body = str(array.tolist()).replace("True", "true").replace("False", "false")
    elif array.dtype.kind == "f":
        body = str(array.tolist()).replace("nan", "0x7FC00000").replace("inf", "0x7F800000").replace("-0x7F800000", "0xFF800000")
    else:
        body = str(array.tolist())
    name = next(k for k, v in TYPES.items() if array.dtype == v)
    return f"dense<{body}> : {Value('', array.shape, name).type}"


class Case:
    """Builder and record of one case."""

    def __init__(self, family, name):
        self.family, self.name = family, name
        self.lines = []
        self.reference = None
        self.gradients = None
        self.tolerance = 1e-5  # of y, relative to its largest element

    def param(self, name, *shape, rule="normal(0,1)", trainable=True):
        full = f"{self.name}.{name}"
        value = Value(self.family.fresh(), shape, moves=trainable)
        self.family.parameters.append(f'nn.parameter @"{full}" : {value.type} {"trainable " if trainable else ""}from #nn.init<"{rule}", "", "">')
        self.lines.append(f'{value.name} = nn.read @"{full}" : {value.type}')
        return value

    def frozen(self, name, *shape, rule="normal(0,1)"):
        return self.param(name, *shape, rule=rule, trainable=False)

    def input(self, name, *shape, dtype="f32"):
        value = Value(self.family.fresh(), shape, dtype)
        self.family.inputs.append((f"{self.name}.{name}", value))
        return value

    def op(self, name, operands, result, attributes="", dtype="f32", segments=None):
        """`result`: shape, or a list of shapes for several results, `dtype` one for all or a tuple."""
        several = isinstance(result, list)
        moves = any(v.moves for v in operands)
        shapes = result if several else [result]
        dtypes = dtype if isinstance(dtype, tuple) else (dtype,) * len(shapes)
        values = [Value("", shape, d, moves and d[0] == "f") for shape, d in zip(shapes, dtypes)]
        if moves:
            self.family.differentiated.append(Use(name, operands, values, segments))
        base = self.family.fresh()
        if segments:
            attributes += (", " if attributes else "") + f"operandSegmentSizes = array<i32: {', '.join(map(str, segments))}>"
        left = base if not several else f"{base}:{len(values)}"
        self.lines.append(
            f'{left} = "nn.{name}"({", ".join(v.name for v in operands)}) {{{attributes}}} : '
            f'({", ".join(v.type for v in operands)}) -> ({", ".join(v.type for v in values)})'
        )
        for i, value in enumerate(values):
            value.name = f"{base}#{i}" if several else base
        return values if several else values[0]

    def constant(self, array):
        array = np.asarray(array)
        dtype = next(k for k, v in TYPES.items() if array.dtype == v)
        value = Value(self.family.fresh(), array.shape, dtype)
        self.lines.append(f'{value.name} = "nn.constant"() {{value = {literal(array)}}} : () -> {value.type}')
        return value

    def spread(self, name, *shape, step=0.5):
        """A trained tensor whose elements keep their order under small changes: for maxima."""
        n = int(np.prod(shape))
        order = np.random.default_rng(n).permutation(n).reshape(shape).astype(np.float32) * step - n * step / 2 + 0.25 * step
        noise = self.param(name, *shape, rule=f"uniform({-0.1 * step},{0.1 * step})")
        return self.op("add", [noise, self.constant(order)], shape), order

    def away(self, name, *shape, low=0.3, high=2.0):
        """A trained tensor of both signs, away from zero."""
        n = int(np.prod(shape))
        sign = (1 - 2 * np.random.default_rng(n + 1).integers(0, 2, n)).reshape(shape).astype(np.float32)
        size = self.param(name, *shape, rule=f"uniform({low},{high})")
        return self.op("mul", [size, self.constant(sign)], shape), sign

    def result(self, y, reference, gradients=None):
        """Ends the case. `reference` gets the case's tensors by name, as float64 (integers as they are). `gradients`, for what
        differences do not tell, gets the same and says d sum(y * weights) / d parameter for some of the parameters."""
        self.reference, self.gradients = reference, gradients
        counted = len(self.family.differentiated)
        ragged = any(isinstance(d, str) for d in y.shape)
        weights = self.input("weights", *y.shape) if ragged else self.frozen("weights", *y.shape)
        weighted = self.op("mul", [y, weights], y.shape)
        axes = f"array<i64: {', '.join(str(i) for i in range(len(y.shape)))}>" if y.shape else "array<i64>"
        total = self.op("reduce", [weighted], (), f"kind = 0 : i32, axes = {axes}")
        del self.family.differentiated[counted:]  # what every case ends with says nothing of mul and reduce
        self.family.finish(self, y, total)


class Family:
    """A dist.module."""

    def __init__(self, name, save=None):
        self.name, self.save = name, save
        self.parameters, self.functions, self.inputs, self.lines, self.outputs = [], [], [], [], []
        self.cases: typing.Dict[str, Case] = {}
        self.differentiated = []  # uses of operators through which gradients go
        self.total = None
        self.count = 0

    def fresh(self):
        self.count += 1
        return f"%v{self.count}"

    def finish(self, case, y, total):
        self.lines += case.lines
        self.outputs.append((f"{case.name}.result", y))
        self.cases[case.name] = case
        if self.total:
            name = self.fresh()
            self.lines.append(f"{name} = nn.add {self.total.name}, {total.name} : tensor<f32>, tensor<f32>")
            total = Value(name, ())
        self.total = total

    def text(self):
        inputs = ", ".join(f'{v.name}: {v.type} {{nn.name = "{n}"}}' for n, v in self.inputs)
        outputs = self.outputs + [("loss", self.total)]
        results = ", ".join(f'{v.type} {{nn.name = "{n}"}}' for n, v in outputs)
        body = [*self.parameters, *"\n".join(self.functions).splitlines(), f"func.func @forward({inputs}) -> ({results}) {{"]
        body += ["  " + line for line in self.lines]
        body += [f"  return {', '.join(v.name for _, v in outputs)} : {', '.join(v.type for _, v in outputs)}", "}"]
        used = str([v.shape for _, v in self.inputs])
        symbols = [f'nn.dim @{name} of "{item}" max 4' for name, item in [("rows", "sample"), ("others", "thing")] if name in used]
        lines = "".join(f"  {line}\n" for line in symbols + body)
        attributes = f'save {self.save} ' if self.save else ""
        return f'dist.module @{self.name} {attributes}{{\n{lines}}}\ndist.loss "{self.name}_loss" in @{self.name} numerator "loss" weight 1.0\n'


def program(families):
    return (
        "".join(f.text() for f in families if f.cases)
        + "dist.batch global 4 micro 4\ndist.seed 7\ndist.optimizer sgd lr 0.1\n"
    )
