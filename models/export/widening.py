# ===- widening.py - a graph in 16 bits as programs compute it ---------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# The compiler imports bfloat16 and float16 as float32: weights are widened, casts
# between floats vanish. What it makes of such a graph is compared with PyTorch
# in that form, which onnxruntime has kernels for.
# ===-----------------------------------------------------------------------===
"""widened, wide_module, wide: ONNX graphs, modules and inputs in 16 bits as float32."""

from __future__ import annotations

import copy

import numpy as np
import onnx.numpy_helper
import torch
from onnx import AttributeProto, TensorProto

NARROW = {torch.bfloat16: TensorProto.BFLOAT16, torch.float16: TensorProto.FLOAT16}
# Attributes that name an element type.
TYPES = {"to", "dtype", "softmax_precision", "stash_type"}


def narrow_kinds(module):
    """The 16-bit types that the module holds."""
    return {t.dtype for t in (*module.parameters(), *module.buffers())} & set(NARROW)


def wide_module(module):
    """A copy whose 16-bit floats are float32."""
    module = copy.deepcopy(module)
    return module.float() if narrow_kinds(module) else module


def widened(proto):
    """A copy of the model in which 16-bit floats are float32."""
    proto = copy.deepcopy(proto)
    _widen_graph(proto.graph)
    for function in proto.functions:
        _widen_nodes(function.node)
    return proto


def wide(inputs):
    return tuple(x.float() if x.dtype in NARROW else x for x in inputs)


def _widen_graph(graph):
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type.tensor_type.elem_type in NARROW.values():
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    _widen_nodes(graph.node)


def _widen_nodes(nodes):
    for attribute in (a for node in nodes for a in node.attribute):
        if attribute.type == AttributeProto.TENSOR:
            _widen_tensor(attribute.t)
        elif attribute.type == AttributeProto.GRAPH:
            _widen_graph(attribute.g)
        elif attribute.name in TYPES and attribute.i in NARROW.values():
            attribute.i = TensorProto.FLOAT


def _widen_tensor(tensor):
    if tensor.data_type in NARROW.values() and tensor.data_location == TensorProto.EXTERNAL:
        tensor.data_type = TensorProto.FLOAT  # of which only the form is looked at
    elif tensor.data_type in NARROW.values():
        tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor).astype(np.float32), tensor.name))
