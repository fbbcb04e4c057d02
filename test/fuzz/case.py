# ===- case.py - a graph of the fuzzer --------------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A graph that can be written as ONNX, shown, and made smaller: plain lists and
# arrays. Its sizes are numbers or an affine expression of one symbol: `n` counts
# samples, `m` images, of which a sample may have none.
# ===-----------------------------------------------------------------------===
"""Graphs with symbolic sizes, their inputs' values, and their ONNX models."""

import dataclasses
import zlib

import numpy as np
from onnx import GraphProto, TensorProto, helper, numpy_helper

FLOAT, DOUBLE = TensorProto.FLOAT, TensorProto.DOUBLE
TYPES = {"float32": FLOAT, "float64": DOUBLE, "int64": TensorProto.INT64, "int32": TensorProto.INT32, "bool": TensorProto.BOOL}
SAMPLES = 4  # a step's; what n is when a graph runs whole
IMAGES = ([0, 0, 2, 3, 3], [], [1])  # the sample of each image, in the batches that a program runs


def sizes(batch):
    return {"n": SAMPLES, "m": len(IMAGES[batch])}


@dataclasses.dataclass(frozen=True)
class Dim:
    """scale * symbol + offset; a number without a symbol."""

    offset: int
    symbol: str = ""
    scale: int = 0

    def at(self, values):
        return self.offset + (self.scale * values[self.symbol] if self.symbol else 0)

    def __str__(self):
        if not self.symbol:
            return str(self.offset)
        text = f"{self.scale}*{self.symbol}" if self.scale != 1 else self.symbol
        return text + (f" {'+' if self.offset > 0 else '-'} {abs(self.offset)}" if self.offset else "")


@dataclasses.dataclass
class Node:
    op: str
    inputs: list
    outputs: list
    attributes: dict


@dataclasses.dataclass
class Input:
    """`low`, `high`: the range of its values; integers are below `high`."""

    dtype: str
    dims: tuple
    low: float = -1.5
    high: float = 1.5


@dataclasses.dataclass
class Case:
    name: str
    opset: int
    nodes: list
    inputs: dict  # name -> Input
    constants: dict  # name -> array; of floats, those not named val_N train
    outputs: list
    loss: dict  # of the recipe: kind, and names of outputs
    micro: int = SAMPLES
    seed_name: str = ""  # what values of inputs follow; the name if empty

    def trained(self):
        return [k for k, v in self.constants.items() if v.dtype == np.float32 and not k.startswith("val_")]

    def symbols(self):
        return {d.symbol for i in self.inputs.values() for d in i.dims if d.symbol}

    def feed(self, values, batch=0):
        """Values of all inputs; each depends on its name and size only."""
        result = {}
        for name, i in self.inputs.items():
            shape = [d.at(values) for d in i.dims]
            random = np.random.default_rng([zlib.crc32(f"{self.seed_name or self.name}.{name}".encode()), batch])
            if i.dtype == "float32":
                value = random.uniform(i.low, i.high, shape)
            elif i.dtype == "bool":
                value = random.random(shape) < i.high
            else:
                value = random.integers(int(i.low), int(i.high), shape)
            result[name] = np.asarray(value, i.dtype)
        return result

    # -- ONNX ------------------------------------------------------------------

    def loss_nodes(self):
        """What the reference computes for a loss that the compiler makes itself: nodes and constants."""
        kind = self.loss["kind"]
        if kind == "graph_output":
            return [Node("Identity", [self.loss["output"]], ["@loss"], {})], {}
        if kind == "mse":
            nodes = [Node("Sub", [self.loss["output"], self.loss["target"]], ["@d"], {}), Node("Mul", ["@d", "@d"], ["@s"], {})]
            return nodes + [Node("ReduceMean", ["@s"], ["@loss"], {"keepdims": 0})], {}
        classes = self.loss["classes"]
        nodes = [Node("Reshape", [self.loss["logits"], "@rows"], ["@logits"], {}), Node("Reshape", [self.loss["labels"], "@flat"], ["@labels"], {})]
        nodes.append(Node("SoftmaxCrossEntropyLoss", ["@logits", "@labels"], ["@loss"], {"ignore_index": self.loss["ignore_index"]}))
        return nodes, {"@rows": np.array([-1, classes], np.int64), "@flat": np.array([-1], np.int64)}

    def graph(self, nodes, outputs, constants, inputs=None, double=False):
        made = [helper.make_node(n.op, n.inputs, n.outputs, name=f"k{i}_{n.op}", **n.attributes) for i, n in enumerate(nodes)]
        infos = []
        for name, i in (self.inputs if inputs is None else inputs).items():
            dtype = DOUBLE if double and i.dtype == "float32" else TYPES[i.dtype]
            infos.append(helper.make_tensor_value_info(name, dtype, [d.offset if not d.symbol else str(d) for d in i.dims]))
        tensors = [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()]
        graph = helper.make_graph(made, self.name, infos, outputs, tensors)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)

    def model(self, output_types):
        """What the compiler reads. `output_types`: dtype and rank of each output."""
        targets = {self.loss.get("labels"), self.loss.get("target")}
        inputs = {k: v for k, v in self.inputs.items() if k not in targets or any(k in n.inputs for n in self.nodes)}
        outputs = [helper.make_tensor_value_info(o, TYPES[output_types[o][0]], [None] * output_types[o][1]) for o in self.outputs]
        return self.graph(self.nodes, outputs, self.constants, inputs)

    def reference(self, outputs, double=False, trained_inputs=False):
        """All nodes and the loss, as "@loss", with the results `outputs`; trained constants are inputs if asked for."""
        extra, more = self.loss_nodes()
        nodes, means = written_out(self.nodes + extra)
        constants = {**self.constants, **more, **means}
        inputs = dict(self.inputs)
        if trained_inputs:
            for name in self.trained():
                inputs[name] = Input("float32", tuple(Dim(d) for d in constants.pop(name).shape))
        if double:
            nodes, constants = in_double(nodes, constants)
        return self.graph(nodes, [helper.make_empty_tensor_value_info(o) for o in outputs], constants, inputs, double)

    def text(self):
        lines = [f"opset {self.opset}, microbatches of {self.micro} of {SAMPLES} samples, loss {self.loss}"]
        for name, i in self.inputs.items():
            lines.append(f"  input {name}: {i.dtype} [{', '.join(map(str, i.dims))}] in {i.low:g} .. {i.high:g}")
        for name, value in self.constants.items():
            shown = f" = {np.asarray(value).tolist()}" if np.size(value) <= 8 else ""
            lines.append(f"  {'trained' if name in self.trained() else 'constant'} {name}: {value.dtype} {list(value.shape)}{shown}")
        for n in self.nodes:
            attributes = ", ".join(f"{k}={show(v)}" for k, v in n.attributes.items())
            lines.append(f"  {', '.join(n.outputs)} = {n.op}({', '.join(n.inputs)}){' {' + attributes + '}' if attributes else ''}")
        return "\n".join(lines + [f"  outputs {', '.join(self.outputs)}"])


def show(value):
    if isinstance(value, TensorProto):
        array = numpy_helper.to_array(value)
        return f"{array.dtype}{array.tolist()}"
    if isinstance(value, GraphProto):
        return "{" + "; ".join(f"{n.output[0]} = {n.op_type}({', '.join(n.input)})" for n in value.node) + "}"
    return repr(value)


def written_out(nodes):
    """Means as sums over counts, and their constants: of nothing that is no number, of which ONNX Runtime makes 0."""
    made, constants = [], {}
    for n in nodes:
        if n.op != "ReduceMean":
            made.append(n)
            continue
        attributes, inputs, y = dict(n.attributes), list(n.inputs), "@" + n.outputs[0]
        if "axes" in attributes:
            inputs.append(y + ".axes")
            constants[y + ".axes"] = np.array(attributes.pop("axes"), np.int64)
        made.append(Node("ReduceSum", inputs, [y], attributes))
        for source, size in ((inputs[0], y + ".all"), (y, y + ".left")):
            made += [Node("Size", [source], [size + ".n"], {}), Node("Cast", [size + ".n"], [size], {"to": FLOAT})]
        made += [Node("Div", [y + ".all", y + ".left"], [y + ".count"], {}), Node("Div", [y, y + ".count"], list(n.outputs), {})]
    return made, constants


def in_double(nodes, constants):
    """The same in double precision; scales of Resize stay what they must be."""
    scales = {n.inputs[2] for n in nodes if n.op == "Resize" and len(n.inputs) > 2}
    constants = {k: v.astype(np.float64) if v.dtype == np.float32 and k not in scales else v for k, v in constants.items()}
    made = []
    for n in nodes:
        attributes = {}
        for k, v in n.attributes.items():
            if k in ("to", "dtype") and v == FLOAT:
                v = DOUBLE
            elif isinstance(v, TensorProto) and v.data_type == FLOAT:
                v = numpy_helper.from_array(numpy_helper.to_array(v).astype(np.float64))
            elif k in ("value_float", "value_floats"):
                k, v = "value", numpy_helper.from_array(np.float32(v).astype(np.float64))
            attributes[k] = v
        made.append(Node(n.op, n.inputs, n.outputs, attributes))
    return made, constants
