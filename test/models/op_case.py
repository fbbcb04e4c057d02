# ===- op_case.py - one small model a case ---------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# What a case of an operator is made with. Random data come from one generator, in the
# order of the calls.
# ===-----------------------------------------------------------------------===
import warnings

import numpy as np
import onnxruntime
from onnx import helper, numpy_helper

warnings.filterwarnings("ignore")
onnxruntime.set_default_logger_severity(4)
rng = np.random.default_rng(7)
CASES = []
I64 = np.int64


def f(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def ints(*values):
    return np.array(values, I64)


class Model:
    """One case: nodes (op, inputs, outputs, attributes), data inputs and constants."""

    without = ()

    def __init__(self, name, nodes, data, constants=None, outputs=None, opset=20, open_dims=True):
        self.name, self.nodes, self.data = name, nodes, data
        self.constants = constants or {}
        self.outputs = outputs or [n[2][0] for n in nodes[-1:]]
        self.opset, self.open_dims = opset, open_dims

    def build(self, opened):
        nodes = [helper.make_node(op, ins, outs, name=f"n{i}", **attrs) for i, (op, ins, outs, attrs) in enumerate(self.nodes)]
        inputs = []
        for k, v in self.data.items():
            shape = list(v.shape)
            if opened and shape:
                shape[0] = "n" if shape[0] == next(iter(self.data.values())).shape[0] else shape[0]
            inputs.append(helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), shape))
        constants = [numpy_helper.from_array(np.asarray(v), k) for k, v in self.constants.items()]
        outputs = [helper.make_empty_tensor_value_info(o) for o in self.outputs]
        graph = helper.make_graph(nodes, "case", inputs, outputs, constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)


def case(name, op, data, constants=None, attrs=None, opset=20, outputs=("y",), order=None, open_dims=True):
    names = order or [*data, *(constants or {})]
    CASES.append(Model(name, [(op, names, list(outputs), attrs or {})], data, constants, list(o for o in outputs if o), opset, open_dims))


def graph(name, nodes, data, constants=None, outputs=None, opset=20, open_dims=True, without=()):
    """`without`: operators of dialect nn that the import must not need."""
    CASES.append(Model(name, nodes, data, constants, outputs, opset, open_dims))
    CASES[-1].without = without
