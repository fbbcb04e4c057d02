# ===- builder.py - grows a graph node by node ------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Every node is run by ONNX Runtime as soon as it is proposed, for several sizes
# of the symbols: what it refuses, what is not finite or grows too large, and what
# has sizes that are not affine in one symbol does not enter the graph. So a
# generator needs to know neither result shapes nor domains exactly.
# ===-----------------------------------------------------------------------===
"""Builder: values with their arrays for some sizes, from which generators pick operands."""

import dataclasses

import numpy as np
import onnx
import onnxruntime
from onnx import helper

import steps
from case import TYPES, Case, Dim, Input, Node

LARGEST = 200.0
MOST_ELEMENTS = 4096

options = onnxruntime.SessionOptions()
options.log_severity_level = 4
options.intra_op_num_threads = options.inter_op_num_threads = 1
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
onnxruntime.set_default_logger_severity(4)


def session(model):
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


class Rejected(Exception):
    """A proposed node has no place in the graph."""


@dataclasses.dataclass
class Value:
    name: str
    arrays: list  # for each of the builder's sizes
    dims: tuple
    trained: bool  # depends on a trained parameter through floats
    points: bool = False  # holds places of items, which are other ones in each part of a batch
    inside: bool = False  # not for other nodes

    @property
    def dtype(self):
        return str(self.arrays[0].dtype)

    @property
    def rank(self):
        return self.arrays[0].ndim

    @property
    def shape(self):
        return self.arrays[0].shape

    def fixed(self, axis):
        return not self.dims[axis].symbol


def infer(shapes, sizes):
    """The dims of a value with these shapes for these sizes (steps.grown)."""
    dims = []
    if len({len(s) for s in shapes}) != 1:
        raise Rejected("rank depends on sizes")
    symbols = "nmtr"[: len(sizes) - 1]
    for base, *more in zip(*shapes):
        moving = [(s, size - base, grown[s] - sizes[0][s]) for s, size, grown in zip(symbols, more, sizes[1:]) if size != base]
        if not moving:
            dims.append(Dim(base))
            continue
        symbol, difference, step = moving[0]
        if len(moving) > 1 or difference % step:
            raise Rejected("a size is not affine in one symbol")
        scale = difference // step
        dims.append(Dim(base - scale * sizes[0][symbol], symbol, scale))
    return tuple(dims)


class Builder:
    def __init__(self, name, random, opset, unequal=""):
        self.random = random  # random.Random
        self.case = Case(name, opset, [], {}, {}, [], {}, unequal=unequal)
        self.sizes = steps.grown(self.case.sizes(0))
        self.values = {}
        self.made = 0
        self.largest = LARGEST

    # -- random ----------------------------------------------------------------

    def chance(self, p):
        return self.random.random() < p

    def choice(self, items):
        return self.random.choice(list(items))

    def array(self, shape, low=-1.5, high=1.5):
        generator = np.random.default_rng(self.random.getrandbits(60))
        return generator.uniform(low, high, shape).astype(np.float32)

    # -- leaves ----------------------------------------------------------------

    def fresh(self, stem="v"):
        self.made += 1
        return f"{stem}{self.made}"

    def remember(self, name, arrays, trained):
        self.values[name] = Value(name, arrays, infer([a.shape for a in arrays], self.sizes), trained)
        return self.values[name]

    def constant(self, array, stem="val_"):
        """A literal: made up names do not train."""
        array = np.asarray(array)
        name = self.fresh(stem)
        self.case.constants[name] = array
        return self.remember(name, [array] * len(self.sizes), False)

    def ints(self, *values):
        return self.constant(np.array(values, np.int64)).name

    def parameter(self, *shape, low=-1.0, high=1.0):
        name = self.fresh("w")
        self.case.constants[name] = self.array(shape, low, high)
        return self.remember(name, [self.case.constants[name]] * len(self.sizes), True)

    def input(self, dtype, dims, low=-1.5, high=1.5, kind="", into=None):
        name = self.fresh("x")
        self.case.inputs[name] = Input(dtype, tuple(dims), low, high, kind, into)
        value = self.remember(name, [self.case.feed(s)[name] for s in self.sizes], False)
        value.points = kind in ("own", "places", "owner")
        return value

    # -- nodes -----------------------------------------------------------------

    def node(self, op, inputs, outputs=1, **attributes):
        """Adds a node; its outputs, or the only one."""
        inputs = [i.name if isinstance(i, Value) else i for i in inputs]
        try:
            schema = onnx.defs.get_schema(op, self.case.opset)
        except onnx.defs.SchemaError:
            raise Rejected(f"{op} is newer than opset {self.case.opset}") from None
        if schema.deprecated:
            raise Rejected(f"{op} is deprecated")
        names = [self.fresh() for _ in range(outputs)]
        node = Node(op, inputs, names, attributes)
        results = self.evaluate(node)
        for arrays in results:
            self.check(arrays)
        self.case.nodes.append(node)
        grows = any(self.values[i].trained for i in inputs if i)
        values = [self.remember(name, arrays, grows and arrays[0].dtype == np.float32) for name, arrays in zip(names, results)]
        for value in values:
            value.points = value.dtype != "float32" and any(self.values[i].points for i in inputs if i)
        return values if outputs > 1 else values[0]

    def evaluate(self, node):
        used = [self.values[i] for i in dict.fromkeys(node.inputs) if i]
        if node.op == "Einsum" and any(a.size == 0 for v in used for a in v.arrays):
            raise Rejected("Einsum: ONNX Runtime divides by a size of 0")
        infos = [helper.make_tensor_value_info(v.name, TYPES[v.dtype], [None] * v.rank) for v in used]
        # What a rule of the language wants as a constant is one here too.
        constants = [onnx.numpy_helper.from_array(self.case.constants[v.name], v.name) for v in used if v.name in self.case.constants]
        graph = helper.make_graph([helper.make_node(node.op, node.inputs, node.outputs, **node.attributes)], "node",
                                  [i for i in infos if i.name not in self.case.constants],
                                  [helper.make_empty_tensor_value_info(o) for o in node.outputs], constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.case.opset)], ir_version=10)
        try:
            run = session(model)
            feeds = [{v.name: v.arrays[k] for v in used if v.name not in self.case.constants} for k in range(len(self.sizes))]
            results = [run.run(None, feed) for feed in feeds]
        except Exception as error:  # the runtime has no types for what it raises
            raise Rejected(f"{node.op}: {str(error)[:200]}") from None
        return [[r[o] for r in results] for o in range(len(node.outputs))]

    def check(self, arrays):
        infer([a.shape for a in arrays], self.sizes)
        for a in arrays:
            if str(a.dtype) not in TYPES or a.dtype == np.float64:
                raise Rejected(f"type {a.dtype}")
            if a.size > MOST_ELEMENTS or a.ndim > 6:
                raise Rejected("too large")
            if a.dtype == np.float32 and not (np.abs(a) <= self.largest).all():
                raise Rejected("not finite, or too large")

    # -- picking ---------------------------------------------------------------

    def find(self, test, dtype="float32", deep=0.25):
        """A value that passes the test, later ones more often; None if there is none."""
        found = [v for v in self.values.values() if v.dtype == dtype and not v.points and not v.inside and not v.name.startswith("val_") and test(v)]
        if not found:
            return None
        back = 0
        while back < len(found) - 1 and not self.chance(deep):
            back += 1
        return found[len(found) - 1 - back]

    def pick(self, test=lambda v: True, dtype="float32"):
        value = self.find(test, dtype)
        if value is None:
            raise Rejected("no operand")
        return value

    def within(self, low, high, test=lambda v: True):
        """A float value whose elements lie between, brought there if there is none."""
        inside = lambda v: test(v) and v.arrays[0].size and all(a.min(initial=low) >= low and a.max(initial=high) <= high for a in v.arrays)
        value = self.find(inside)
        if value is not None and self.chance(0.8):
            return value
        value = self.pick(test)
        middle, half = (low + high) / 2, (high - low) / 2
        if low == -high:
            return self.node("Mul", [self.node("Tanh", [value]), self.number(0.95 * half)])
        return self.node("Add", [self.node("Mul", [self.node("Sin", [value]), self.number(0.95 * half)]), self.number(middle)])

    def number(self, value, dtype="float32"):
        return self.constant(np.array(value, dtype))

    def partner(self, value, low=-1.0, high=1.0):
        """What broadcasts with a value: another one, a parameter or a literal."""
        if self.chance(0.5):
            found = self.find(lambda v: v.name != value.name and self.broadcasts(value, v), value.dtype)
            if found is not None:
                return found
        if value.dtype == "bool":
            return self.constant(self.array(self.narrower(value)) > 0)
        if value.dtype != "float32":
            return self.constant(np.array(self.random.choice([-3, -1, 1, 2, 5]), value.dtype))
        if self.chance(0.2):
            return self.number(round(self.random.uniform(low, high), 2))
        return self.parameter(*self.narrower(value), low=low, high=high)

    def narrower(self, value):
        """A shape that broadcasts to a value's: some axes 1, some in front left out."""
        shape = [s if value.fixed(a) and self.chance(0.7) else 1 for a, s in enumerate(value.shape)]
        return tuple(shape[self.random.randint(0, len(shape)) if self.chance(0.4) else 0 :])

    @staticmethod
    def broadcasts(a, b):
        try:
            for x, y in zip(a.arrays, b.arrays):
                if np.broadcast_shapes(x.shape, y.shape) is None:
                    return False
        except ValueError:
            return False
        return True
