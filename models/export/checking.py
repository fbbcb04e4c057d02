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

import ast
import copy
import warnings

import numpy as np
import onnx
import onnx.numpy_helper
import onnxruntime
import torch

from .adapting import without_dropout
from .widening import narrow_kinds, wide, wide_module, widened

SCOPES = "pkg.torch.onnx.name_scopes"


class CheckError(AssertionError):
    """The graph gives other numbers than the module, or does not take the inputs; the text says where first, by how much, and what it may be."""


def check(module, proto, inputs, *, tolerance=1e-4, seed=0):
    """Largest absolute difference of the outputs, over the initial and moved weights.

    `proto` must hold its weights. A module in 16 bits is compared in float32, as its graph trains: then the graph's own numbers
    (an attention's scale) are rounded, and outputs may differ by as much. Raises CheckError above `tolerance` times the output's spread, and for inputs of
    sizes that the graph does not take.
    """
    _check_sizes(proto, inputs)
    tolerance = max([tolerance, *(torch.finfo(kind).eps for kind in narrow_kinds(module))])
    module = wide_module(module)
    proto, inputs = widened(proto), wide(inputs)
    worst = {"initial": _compare(module, proto, inputs, tolerance, moved=False)}
    _perturb(module, proto, seed)
    worst["perturbed"] = _compare(module, proto, inputs, tolerance, moved=True)
    return worst


def _check_sizes(proto, inputs):
    """Refuses inputs whose sizes differ from those that the graph has fixed."""
    held = {t.name for t in proto.graph.initializer}
    for value, x in zip((i for i in proto.graph.input if i.name not in held), inputs):
        dims = value.type.tensor_type.shape.dim
        if value.type.tensor_type.HasField("shape") and len(dims) != x.dim():
            raise CheckError(f"input '{value.name}' has {x.dim()} axes, in the graph {len(dims)}")
        for axis, (dim, size) in enumerate(zip(dims, x.shape)):
            if dim.HasField("dim_value") and dim.dim_value != size:
                raise CheckError(f"input '{value.name}' has size {size} on axis {axis}, which the graph has fixed at {dim.dim_value}: dynamic_shapes of export names the dims that may change")


def _perturb(module, proto, seed):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in module.parameters():
            p += 0.5 * float(p.std() if p.numel() > 1 else p.abs().mean()) * torch.randn(p.shape, generator=generator)
    values = dict(module.named_parameters(remove_duplicate=False))
    for t in proto.graph.initializer:
        if t.name in values:
            t.CopyFrom(onnx.numpy_helper.from_array(values[t.name].detach().numpy(), t.name))


class Session:
    """A graph under onnxruntime. `weights`: {name: array} of initializers that it has in a file; they are used where they are."""

    def __init__(self, proto, weights=None):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        # Its fusions take BatchNorm for the inference form, also where it is not.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.add_session_config_entry("session.disable_prepacking", "1")  # a copy of the weights
        self.weights = {name: np.asarray(value, order="C") for name, value in (weights or {}).items()}
        if self.weights:
            options.add_external_initializers(list(self.weights), [onnxruntime.OrtValue.ortvalue_from_numpy(value) for value in self.weights.values()])
        self.session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def __call__(self, inputs):
        """Outputs by name; `inputs` in the graph's order."""
        feed = {i.name: x.detach().numpy() for i, x in zip(self.session.get_inputs(), inputs)}
        return dict(zip((o.name for o in self.session.get_outputs()), self.session.run(None, feed)))


def run_module(module, inputs):
    """Outputs of the module as it was exported, in order; its state (statistics of BatchNorm) stays as it was."""
    shared = {id(p): p for p in module.parameters()}  # which nothing writes into
    values = _call(copy.deepcopy(module, shared), inputs)
    return [v.detach().numpy() for v in (values if isinstance(values, (tuple, list)) else (values,))]


def _compare(module, proto, inputs, tolerance, moved):
    worst = 0.0
    for want, (name, have) in zip(run_module(module, inputs), Session(proto)(inputs).items()):
        if want.shape != have.shape:
            raise CheckError(f"output '{name}' has shape {list(have.shape)}, in PyTorch {list(want.shape)}: a dim that varies was taken for a number, or the other way")
        if not agree(want, have, tolerance):
            raise CheckError(_explain(module, proto, inputs, name, want, have, tolerance, moved))
        worst = max(worst, float(np.max(np.abs(want - have))) if want.size else 0.0)
    return worst


def agree(want, have, tolerance):
    """Whether no element differs by more than `tolerance` of the spread (of 1, if that is larger); NaN equals NaN."""
    if want.size == 0 or want.dtype.kind not in "fc":
        return bool(np.array_equal(want, have))
    limit = tolerance * max(float(np.nanstd(want)), 1.0)
    with np.errstate(invalid="ignore"):
        return bool(np.all((np.abs(want - have) <= limit) | (want == have) | (np.isnan(want) & np.isnan(have))))


# --- explaining a difference ---------------------------------------------------


def _explain(module, proto, inputs, name, want, have, tolerance, moved):
    difference = np.abs(want.astype(np.float64) - have.astype(np.float64))
    at = np.unravel_index(int(np.argmax(np.where(np.isnan(difference), np.inf, difference))), want.shape)
    share = np.mean(~(difference <= tolerance * max(float(np.nanstd(want)), 1.0)))
    text = f"output '{name}' differs from PyTorch: at {[int(i) for i in at]} it is {have[at]:.6g}, in PyTorch {want[at]:.6g}; {share:.0%} of {want.size} elements differ"
    if moved:
        text += ". At the exported weights all outputs are equal, after moving the parameters they are not: a use of a weight became a constant"
    first = _first_module(module, proto, inputs, tolerance)
    if first:
        text += f". The first module whose result differs is '{first[0]}' ({first[1]}), by {first[2]:.3g}"
    return text + _guess(module, want, have, moved)


def _guess(module, want, have, moved):
    if np.isnan(have).any() != np.isnan(want).any():
        return ". Only one of them has NaN: a softmax over a row that a mask hides completely, or a division by 0"
    if moved:
        return ""
    if any(type(m).__name__.endswith("Attention") for m in module.modules()) and want.ndim == 3:
        rows = ~np.isclose(want, have, rtol=1e-3, atol=1e-5).all(-1)
        if 0 < rows.sum() < rows.size:
            return f". Only {rows.sum()} of {rows.size} rows differ: rows whose mask hides every key are left to the implementation; give a loss that ignores them, or examples without them"
    return ". It may be code that branches on values of the example (torch.export keeps the branch taken), or a random number"


def _first_module(module, proto, inputs, tolerance):
    """(name, class, difference) of the first submodule whose result in the graph is another than in PyTorch."""
    module, results = copy.deepcopy(module), []

    def record(name, m):
        def hook(_, __, output):
            if isinstance(output, torch.Tensor) and output.is_floating_point():
                results.append((name, type(m).__name__, output.detach().clone().numpy()))

        return hook

    for name, m in module.named_modules():
        if name:
            m.register_forward_hook(record(name, m))
    _call(module, inputs)
    # A module's result is what the last node of its scope makes. One that runs twice has no single one.
    last = {}
    for node in proto.graph.node:
        scopes = next((p.value for p in node.metadata_props if p.key == SCOPES), "[]")
        for scope in ast.literal_eval(scopes)[:-1]:
            last[scope] = node.output[0]
    names = [name for name, _, _ in results]
    wanted = [(n, kind, value) for n, kind, value in results if n in last and names.count(n) == 1]
    probed = copy.deepcopy(proto)
    known = {o.name for o in probed.graph.output}
    for value in dict.fromkeys(last[n] for n, _, _ in wanted):
        if value not in known:
            probed.graph.output.append(onnx.ValueInfoProto(name=value))
    have = Session(probed)(inputs)
    for name, kind, want in wanted:
        got = have[last[name]]
        if got.shape == want.shape and not agree(want, got, tolerance):
            return name, kind, float(np.max(np.abs(want - got)))
    return None



def _call(module, inputs):
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with without_dropout(module):
            return module(*inputs)
