# ===- kinks.py - PyTorch's slopes where ONNX has one operator for several ---===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# clamp to a number has no gradient at it, maximum shares it between equals; amax
# shares, max(dim) picks the first of equals. ONNX has Clip, Max and ReduceMax for
# all of them: a mark on the node says which it was. A query that may see no key
# gives 0 in scaled_dot_product_attention: its softmax gets the guard that the
# exporter leaves out.
# ===-----------------------------------------------------------------------===
"""mark_ties, settle_ties, guard_attention: what ONNX does not say about slopes."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import torch

from .gradients import DOMAIN, TIES, annotated, is_float, origin

aten = torch.ops.aten
SHARE = {aten.maximum.default, aten.minimum.default, aten.amax.default, aten.amin.default, aten.max.default, aten.min.default, aten.linalg_vector_norm.default}
FIRST = {aten.max.dim, aten.min.dim}
CLAMPS = {aten.clamp.Tensor, aten.clamp_min.Tensor, aten.clamp_max.Tensor}
MARKED = {"Max", "Min", "Clip", "ReduceMax", "ReduceMin"}


def _ties(node):
    """What PyTorch's operator does with the gradient where several are equal; nothing where it is as in an unmarked node."""
    if node.target in CLAMPS:  # bounds that were numbers have become scalars
        bounds = [n for n in (*node.args[1:], *node.kwargs.values()) if isinstance(n, torch.fx.Node)]
        return None if all(n.target == aten.scalar_tensor.default for n in bounds) else "share"
    if annotated(node, TIES) or node.target in FIRST:
        return "first"
    return "share" if node.target in SHARE else None


def mark_ties(model, program):
    """Marks maxima and minima; until settle_ties() no pass takes them for ONNX's own, and merges different ones."""
    ties = {n.name: _ties(n) for n in program.graph.nodes if n.op == "call_function" and is_float(n)}
    for node in model.graph:
        if node.op_type in MARKED and (kind := ties.get(origin(node))):
            node.metadata_props[TIES] = kind
            node.domain = DOMAIN
            model.opset_imports[DOMAIN] = 1


def settle_ties(model):
    """The marked nodes' final form."""
    for node in model.graph:
        if node.domain == DOMAIN and node.op_type in MARKED:
            node.domain = ""
    model.opset_imports.pop(DOMAIN, None)


def guard_attention(model, program):
    """scaled_dot_product_attention with a mask: -inf hides (the exporter puts the lowest number for bools), and a row of -inf gives 0."""
    kinds = {n.name: n.meta["val"].dtype for n in program.graph.nodes if n.target == aten.scaled_dot_product_attention.default}
    ours = [n for n in model.graph if origin(n) in kinds]
    for node in ours:
        value = node.attributes.get_tensor("value") if node.op_type == "Constant" and "value" in node.attributes else None
        if value is not None and value.size == 1 and value.dtype.is_floating_point() and float(value.numpy().item()) == float(value.dtype.min):
            node.attributes["value"] = ir.AttrTensor("value", ir.tensor(np.full(value.shape.numpy(), -np.inf, value.dtype.numpy()), dtype=value.dtype))
    for node in [n for n in ours if n.op_type == "Softmax" and n.inputs[0].producer().op_type == "Add"]:
        p = node.outputs[0]
        uses = list(p.uses())
        if any(user.op_type == "IsNaN" for user, _ in uses):
            continue
        tape = ir.tape.Tape()
        zero = tape.op("Constant", [], {"value": ir.tensor(torch.zeros((), dtype=kinds[origin(node)]))})
        safe = tape.op("Where", [tape.op("IsNaN", [p]), zero, p])
        safe.type, safe.shape = p.type, p.shape
        for made in tape.nodes:
            made.metadata_props.update(node.metadata_props)
        model.graph.insert_after(node, tape.nodes)
        for user, place in uses:
            user.replace_input_with(place, safe)
