# ===- checking.py - an exported graph against its PyTorch module ----------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Equal outputs at the exported weights prove little: a constant computed from
# a weight gives the same values. So the comparison is made a second time with
# every parameter moved, in the module and in the graph alike.
# ===-----------------------------------------------------------------------===
"""Compares an exported graph with its module, at two settings of the weights."""

from __future__ import annotations

import copy

import numpy as np
import onnx
import onnx.numpy_helper
import onnxruntime
import torch


def check(module, proto, inputs, *, tolerance=1e-4, seed=0):
    """Largest absolute difference of the outputs, over the initial and moved weights.

    `proto` must hold its weights. Raises AssertionError above `tolerance` times the output's spread.
    """
    module = copy.deepcopy(module)
    worst = {"initial": _compare(module, proto, inputs, tolerance)}
    proto = copy.deepcopy(proto)
    _perturb(module, proto, seed)
    worst["perturbed"] = _compare(module, proto, inputs, tolerance)
    return worst


def _perturb(module, proto, seed):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in module.parameters():
            p += 0.5 * float(p.std() if p.numel() > 1 else p.abs().mean()) * torch.randn(p.shape, generator=generator)
    values = dict(module.named_parameters(remove_duplicate=False))
    for t in proto.graph.initializer:
        if t.name in values:
            t.CopyFrom(onnx.numpy_helper.from_array(values[t.name].detach().numpy(), t.name))


def run_onnx(proto, inputs):
    """Outputs of the graph under onnxruntime, by name; `inputs` in the graph's order."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    # Its fusions take BatchNorm for the inference form, also where it is not.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feed = {i.name: x.detach().numpy() for i, x in zip(session.get_inputs(), inputs)}
    return dict(zip((o.name for o in session.get_outputs()), session.run(None, feed)))


def _compare(module, proto, inputs, tolerance):
    # What the module gives in the mode it was exported in; BatchNorm in training form also
    # writes its statistics, which a copy takes.
    with torch.no_grad():
        expected = copy.deepcopy(module)(*inputs)
    expected = expected if isinstance(expected, (tuple, list)) else (expected,)
    worst = 0.0
    for want, (name, have) in zip(expected, run_onnx(proto, inputs).items()):
        want = want.numpy()
        difference = float(np.max(np.abs(want - have))) if want.size else 0.0
        spread = max(float(np.std(want)), 1e-3) if want.size else 1.0
        assert difference <= tolerance * max(spread, 1.0), f"output '{name}' differs from PyTorch by {difference:.3g}"
        worst = max(worst, difference)
    return worst
