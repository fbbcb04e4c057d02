# ===- case.py - a graph of the fuzzer --------------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A graph that can be written as ONNX, shown, and made smaller: plain lists and
# arrays. Its sizes are numbers or an affine expression of one symbol: `n` counts
# samples, `m` images, of which a sample may have none; `t` and `r` add up the
# tokens of samples and the rows of images, of which each has its own number.
# ===-----------------------------------------------------------------------===
"""Graphs with symbolic sizes, their inputs' values, and their ONNX models."""

import dataclasses
import zlib

import numpy as np
from onnx import GraphProto, TensorProto, helper, numpy_helper

import steps
from steps import SAMPLES

FLOAT, DOUBLE = TensorProto.FLOAT, TensorProto.DOUBLE
TYPES = {"float32": FLOAT, "float64": DOUBLE, "int64": TensorProto.INT64, "int32": TensorProto.INT32, "bool": TensorProto.BOOL}


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
    kind: str = ""  # of numbers that point to items (steps.numbers): segments, own, places, owner
    into: Dim | None = None  # the rows that "own" points to

    def entry(self):
        """What the recipe says about it, if anything."""
        if self.kind == "own":
            return {"rebase": steps.DIMS[self.into.symbol], **({"rows": self.into.scale} if self.into.scale != 1 else {})}
        return {"places": {"index": ["sample", "token"], "of": "image"}, "owner": {"item_of": "image"}}.get(self.kind)


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
    unequal: str = ""  # what sizes of items follow; equal ones if empty
    plan: str = ""  # who runs it, as on the command line of dt-opt without the unit's name; one rank if empty

    edge: str = ""  # the value that one module hands to another; one module if empty

    def sizes(self, batch):
        return (steps.unequal(self.unequal) if self.unequal else steps.equal())[batch]

    def entries(self):
        return {name: i.entry() for name, i in self.inputs.items() if i.entry()}

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
            if i.kind:
                value = steps.numbers(i, values, i.dims, random)
            elif i.dtype == "float32":
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
        return self.part(self.nodes, self.outputs, self.constants, inputs, output_types)

    def part(self, nodes, outputs, constants, inputs, output_types):
        infos = [helper.make_tensor_value_info(o, TYPES[output_types[o][0]], [None] * output_types[o][1]) for o in outputs]
        return self.graph(nodes, infos, constants, inputs)

    def models(self, output_types, dims):
        """Of a case with an edge: the module that makes its value, and the one that takes it, of these dims."""
        first, rest = halves(self.nodes, self.edge)
        made = {o for n in first for o in n.outputs}
        models = []
        for nodes, outputs in ((first, dict.fromkeys([self.edge, *(o for o in self.outputs if o in made)])), (rest, [o for o in self.outputs if o not in made])):
            used = {i for n in nodes for i in n.inputs}
            inputs = {k: v for k, v in self.inputs.items() if k in used}
            if nodes is rest:
                inputs[self.edge] = Input("float32", dims)
            models.append(self.part(nodes, list(outputs), {k: v for k, v in self.constants.items() if k in used}, inputs, output_types))
        return models

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
        lines = [f"opset {self.opset}, microbatches of {self.micro} of {SAMPLES} samples{', plan ' + self.plan if self.plan else ''}, loss {self.loss}"]
        for k in range(steps.BATCHES) if self.unequal else ():
            lines.append("  step: tokens {tokens}, images of samples {owners}, their rows {rows}".format(**self.sizes(k)))
        for name, i in self.inputs.items():
            lines.append(f"  input {name}: {i.dtype} [{', '.join(map(str, i.dims))}] {'of ' + i.kind if i.kind else f'in {i.low:g} .. {i.high:g}'}")
        for name, value in self.constants.items():
            shown = f" = {np.asarray(value).tolist()}" if np.size(value) <= 8 else ""
            lines.append(f"  {'trained' if name in self.trained() else 'constant'} {name}: {value.dtype} {list(value.shape)}{shown}")
        for n in self.nodes:
            attributes = ", ".join(f"{k}={show(v)}" for k, v in n.attributes.items())
            lines.append(f"  {', '.join(n.outputs)} = {n.op}({', '.join(n.inputs)}){' {' + attributes + '}' if attributes else ''}")
        return "\n".join(lines + [f"  outputs {', '.join(self.outputs)}{', module cut at ' + self.edge if self.edge else ''}"])


def halves(nodes, edge):
    """(nodes that a value comes from, the others)"""
    needed, first = {edge}, []
    for n in reversed(nodes):
        if needed & set(n.outputs):
            needed |= set(n.inputs)
            first.insert(0, n)
    return first, [n for n in nodes if n not in first]


def can_be_edge(case, edge):
    """Whether the value is all that the others take of the nodes that it comes from."""
    first, rest = halves(case.nodes, edge)
    made, used = {o for n in first for o in n.outputs}, {i for n in rest for i in n.inputs}
    own = {i for n in first for i in n.inputs} & set(case.trained())
    lost = made & set(case.loss.values())
    return bool(first) and edge in used and made & used == {edge} and not own & used and not lost and all(n.op != "If" for n in case.nodes)


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
