# ===- onnx_cases.py - operators as ONNX files have them --------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# The importer's cases (test/models/check_ops.py) as modules of a program: what is
# data there is trained here ("fixed"), or comes with the batch, with an open first
# dim, times a trained number ("open"). ONNX Runtime says what a result should be,
# finite differences what the gradients should be.
# ===-----------------------------------------------------------------------===
"""Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception"""

import json
import pathlib
import re
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "models"))
import check_ops  # noqa: E402

# A batch's mask may name more rows than the file has; what is squeezed depends on the batch.
ONLY_FIXED = {"masked_scatter", "masked_scatter-rows", "masked_scatter-counted", "Squeeze-all"}
# Differences do not tell the slopes: scores of -1e4 and below round their changes away, and of -inf alone there are none.
ONLY_VALUES = re.compile("masked-(?!guarded)|ReduceLogSumExp-hidden")
INDEX_LIMIT = 3  # integers of a batch are indices below this


def off_grid(x):
    """Away from multiples of a half, where functions may have kinks."""
    grid = np.round(2 * x) / 2
    away = 0.04 + np.abs(x - grid) / 4
    return np.where(np.abs(x - grid) < 0.04, grid + np.where(x < grid, -away, away), x).astype(np.float32)


class Case:
    """One model of check_ops in a family: its names get the case's in front."""

    def __init__(self, family, model, opened, stepwise=False):
        self.family, self.opened = family, opened
        self.name = re.sub("[^A-Za-z0-9]+", "_", model.name.replace("--", "_minus_")).strip("_")
        if stepwise or ONLY_VALUES.match(model.name):
            self.name = "at_" + self.name  # gradients are not compared with differences
        self.tolerance, self.gradients = 3e-5, None
        self.nodes, self.inputs, self.constants = [], [], []
        self.rows = next(iter(model.data.values())).shape[:1]
        names = {"": ""}
        for name, value in model.data.items():
            names[name] = self.data(name, value)
        for name, value in model.constants.items():
            made_up = re.fullmatch("val_[0-9]+", name)
            full = family.made_up() if made_up else f"{self.name}.{name}"
            value = np.asarray(value)
            names[name] = self.constant(full, off_grid(value) if value.dtype == np.float32 and not made_up else value)
        for op, ins, outs, attributes in model.nodes:
            for out in outs:
                names.setdefault(out, f"{self.name}.{out}" if out else "")
            self.node(op, [names[i] for i in ins], [names[o] for o in outs], **attributes)
        self.output = self.name + ".result"
        self.result([names[o] for o in model.outputs], model)

    def node(self, op, ins, outs, **attributes):
        self.nodes.append(helper.make_node(op, ins, outs, name=f"{self.name}.n{len(self.nodes)}", **attributes))
        return outs[0]

    def constant(self, name, value):
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def data(self, name, value):
        full = f"{self.name}.{name}"
        if not self.opened or value.shape[:1] != self.rows:
            return self.constant(full, off_grid(value) if value.dtype == np.float32 else value)
        self.inputs.append(helper.make_tensor_value_info(full, helper.np_dtype_to_tensor_dtype(value.dtype), ["n", *value.shape[1:]]))
        if value.dtype == np.int64:
            return self.node("Mod", [full, self.constant(self.family.made_up(), np.int64(INDEX_LIMIT))], [full + ".index"])
        if value.dtype != np.float32:
            return full
        scale = 1 + np.arange(value.shape[-1] if value.ndim > 1 else 1, dtype=np.float32) / 8
        scaled = self.node("Mul", [full, self.constant(full + "_scale", scale)], [full + ".scaled"])
        return self.node("Exp", [scaled], [full + ".positive"]) if value.min(initial=1) > 0 else scaled

    def result(self, outputs, model):
        """All outputs that are floats, in a row; with open dims the first. Where there is none, whole numbers and conditions as floats.
        `shape` stays None of what cannot be written so."""
        self.shape, self.opset, self.whole = None, model.opset, False
        sizes = [self.evaluate(outputs, self.some(n)) for n in (4, 3)]
        floats = [i for i, v in enumerate(sizes[0]) if v.dtype == np.float32]
        if not floats:
            exact = [i for i, v in enumerate(sizes[0]) if v.dtype.kind in "iub" and abs(v.astype(np.int64)).max(initial=0) < 2**24]
            outputs = [self.node("Cast", [o], [o + ".float"], to=1) if i in exact else o for i, o in enumerate(outputs)]
            floats, self.whole = exact, True
        if not floats:
            return
        output, (large, small) = outputs[floats[0]], (size[floats[0]].shape for size in sizes)
        if len(floats) > 1 and not self.opened:
            minus = self.constant(self.family.made_up(), np.int64([-1]))
            flat = [self.node("Reshape", [outputs[i], minus], [f"{outputs[i]}.flat"]) for i in floats]
            output = self.node("Concat", flat, [self.name + ".all"], axis=0)
            large = small = (sum(sizes[0][i].size for i in floats),)
        self.node("Identity", [output], [self.output])
        self.shape = [symbolic(b - 4 * (b - a), b - a) for a, b in zip(small, large)]

    def some(self, n):
        """Inputs with n rows."""
        random, feed = np.random.default_rng(n), {}
        for i in self.inputs:
            tensor = i.type.tensor_type
            shape = [n if d.dim_param else d.dim_value for d in tensor.shape.dim]
            feed[i.name] = random.uniform(0, 2, shape).astype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
        return feed

    def evaluate(self, outputs, feed):
        graph = helper.make_graph(self.nodes, "case", self.inputs, [helper.make_empty_tensor_value_info(o) for o in outputs], self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)
        feed = {i.name: feed[i.name] for i in self.inputs}
        try:
            return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(outputs, feed)
        except Exception:  # operators that the runtime lacks
            return ReferenceEvaluator(model).run(outputs, feed)

    def reference(self, tensors):
        """The result; of no rows ONNX Runtime makes what it likes, down to other shapes."""
        feed = {f"{self.name}.{k}": v.astype(np.float32) if v.dtype == np.float64 else v for k, v in tensors.items()}
        empty = any(feed[i.name].size == 0 for i in self.inputs)
        return None if empty else self.evaluate([self.output], feed)[0]


def symbolic(offset, scale):
    if not scale:
        return offset
    return (f"{scale}*n" if scale > 1 else "n") + (f" {'-' if offset < 0 else '+'} {abs(offset)}" if offset else "")


class Family:
    """A graph of one opset with many cases in it; its loss is the sum of all results times `weights`."""

    def __init__(self, name, opset):
        self.name, self.opset = name, opset
        self.cases, self.made = {}, 0

    def made_up(self):
        """A name as the exporter gives to what it made itself: it does not train."""
        self.made += 1
        return f"val_{self.made}"

    def add(self, model, opened):
        case = Case(self, model, opened)
        if case.whole:  # a result of steps has slopes of 0, and differences that are no slopes where a step is near
            case = Case(self, model, opened, stepwise=True)
        if case.shape is not None:
            assert case.name not in self.cases, case.name
            self.cases[case.name] = case

    def model(self):
        nodes, inputs, constants, outputs, total = [], [], [], [], None
        for case in self.cases.values():
            weights = f"{case.name}.weights"
            inputs += [*case.inputs, helper.make_tensor_value_info(weights, onnx.TensorProto.FLOAT, case.shape)]
            outputs.append(helper.make_tensor_value_info(case.output, onnx.TensorProto.FLOAT, case.shape))
            constants += case.constants
            nodes += case.nodes
            nodes.append(helper.make_node("Mul", [case.output, weights], [weights + ".y"]))
            nodes.append(helper.make_node("ReduceSum", [weights + ".y"], [weights + ".sum"], keepdims=0))
            if total:
                nodes.append(helper.make_node("Add", [total, weights + ".sum"], [weights + ".total"]))
            total = weights + (".total" if total else ".sum")
        nodes.append(helper.make_node("Identity", [total], ["loss"]))
        outputs.append(helper.make_tensor_value_info("loss", onnx.TensorProto.FLOAT, []))
        graph = helper.make_graph(nodes, self.name, inputs, outputs, constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)


def families(only):
    result = {}
    for model in check_ops.make_all(without=[check_ops.control]):  # a branch's names are its own
        for opened in (False, True) if model.open_dims and model.name not in ONLY_FIXED else (False,):
            name = f"{'open' if opened else 'fixed'}{model.opset}"
            if not only or re.search(only, f"{name}.{model.name}"):
                result.setdefault(name, Family(name, model.opset)).add(model, opened)
    return [f for f in result.values() if f.cases]


def write(chosen, folder):
    """The recipe's path."""
    for family in chosen:
        onnx.save(family.model(), folder / f"{family.name}.onnx")
    recipe = {
        "modules": {f.name: {"onnx": f"{f.name}.onnx"} for f in chosen},
        "dims": {"n": "sample"},
        "losses": [{"name": f"{f.name}_loss", "kind": "graph_output", "output": f"{f.name}.loss", "weight": 1} for f in chosen],
        "optimizer": {"kind": "sgd", "lr": 0.1},
        "batch": {"global": 4, "micro": 4},
        "seed": 7,
    }
    (folder / "recipe.json").write_text(json.dumps(recipe, indent=1))
    return folder / "recipe.json"
