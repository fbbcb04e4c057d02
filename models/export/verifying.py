# ===- verifying.py - what export() writes, before it returns -----------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# The written graph under ONNX Runtime beside the module: on the example, and on
# draws with hard values (rows that a mask hides, zeros, ties, saturated numbers,
# labels that are ignored). How far the two may differ is measured on the module
# itself: its outputs when every operator's result is rounded otherwise.
# ===-----------------------------------------------------------------------===
"""verify: refuses a graph that gives other outputs than its module."""

from __future__ import annotations

import contextlib
import re
import warnings

import numpy as np
import onnx
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from .adapting import traceable
from .checking import Session, run_module
from .errors import ExportError
from .widening import NARROW, narrow_kinds, wide, wide_module, widened
from .writing import KIND

# Of how many runs with other roundings the largest deviation counts, and how many times it may be passed:
# a sum of n numbers rounds about sqrt(n) times, of which these runs see one.
RUNS, FACTOR = 3, 64
IGNORED = -100  # the label that PyTorch's losses ignore by default


def verify(module, proto, weights, program, inputs):
    """Raises ExportError, of one line, where `proto` with `weights` (take_weights) gives another output than `module`; `program` is what PyTorch traced.

    Draws that the module itself refuses are left out, and elements that it has no number for.
    """
    epsilon = max([torch.finfo(torch.float32).eps, *(torch.finfo(kind).eps for kind in narrow_kinds(module))])
    wide_copy, graph = (wide_module(module), widened(proto)) if narrow_kinds(module) else (module, proto)
    values = {name: np.asarray(tensor.numpy(), np.float32) if tensor.dtype in NARROW.values() else tensor.numpy() for name, tensor in weights.items()}
    compare = _Comparison(wide_copy, graph, values, program, epsilon)
    example = wide(inputs)
    if not compare(example, "on the example"):
        return
    for words, draw in _draws(program, example):
        changed = [i for i, (a, b) in enumerate(zip(example, draw)) if a is not b and not torch.equal(a, b)]
        # What the module refuses as a whole it may take one by one.
        if not changed or compare(draw, f"on a draw with {words}"):
            continue
        for i in changed if len(changed) > 1 else ():
            compare((*example[:i], draw[i], *example[i + 1 :]), f"on a draw with {words} in '{graph.graph.input[i].name}'")


def refuse_invalid(proto):
    """Raises ExportError for a file that ONNX's checker refuses, as one whose nodes are not in order."""
    # Weights count as inputs: their values say nothing of the form, and may lie in another file.
    form = onnx.ModelProto(ir_version=proto.ir_version, opset_import=proto.opset_import, functions=proto.functions)
    held = {v.name for v in proto.graph.value_info if any(p.key == KIND for p in v.metadata_props)}
    form.graph.name = proto.graph.name or "graph"
    form.graph.node.extend(proto.graph.node)
    form.graph.input.extend(proto.graph.input)
    form.graph.output.extend(proto.graph.output)
    for tensor in proto.graph.initializer:
        if tensor.name in held:
            form.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
        else:
            form.graph.initializer.append(tensor)
    try:
        onnx.checker.check_model(form, full_check=True)
    except Exception as e:  # the checker's own kinds, and those of its shape inference
        raise ExportError(f"PyTorch's exporter wrote a graph that is not valid ONNX: {_line(e)}") from e


# --- draws ------------------------------------------------------------------------


def _draws(program, example):
    generator = torch.Generator().manual_seed(0)
    labels, tables, places = _uses(program, len(example))
    yield "values in another order, zeros and ties", tuple(_shuffled(x, generator) for x in example)
    yield "whole rows masked, 0 or at a bound", tuple(x if i in places else _rows(x, tables.get(i)) for i, x in enumerate(example))
    yield "large numbers", tuple(x * 64 if x.is_floating_point() else _shuffled(x, generator) for x in example)
    if labels:
        yield "labels that are ignored", tuple(torch.where(_every(x, 2), labels[i], x) if i in labels else x for i, x in enumerate(example))
        yield "ignored labels only", tuple(torch.full_like(x, labels[i]) if i in labels else x for i, x in enumerate(example))


def _every(x, n):
    return torch.arange(x.numel()).reshape(x.shape) % n == 0


def _shuffled(x, generator):
    """The example's own values in another order; of floats some are 0, some equal."""
    if x.numel() < 2:
        return x
    y = x.flatten()[torch.randperm(x.numel(), generator=generator)].reshape(x.shape)
    if x.is_floating_point():
        y = torch.where(_every(x, 5), y.new_zeros(()), torch.where(_every(x, 3), y.flatten()[0], y))
    return y


def _rows(x, table):
    """Rows along the last axis in turn at the least value that is known to be legal, at the largest, and as they are."""
    if x.numel() == 0:
        return x
    if x.dtype == torch.bool:
        low, high = False, True
    elif x.is_floating_point():
        low, high = (0.0 if torch.isfinite(x).all() else x.min().item()), x.max().item()
    else:
        low, high = x.min().item(), x.max().item()
        low = 0 if table or (low, high) == (1, 1) else low
        high = table - 1 if table else high
    rows = torch.arange(x[..., 0].numel() if x.dim() else 1).reshape(x.shape[:-1] + (1,) if x.dim() else ())
    return torch.where(rows % 3 == 0, torch.tensor(low, dtype=x.dtype), torch.where(rows % 3 == 1, torch.tensor(high, dtype=x.dtype), x)).contiguous()


def _uses(program, count):
    """Inputs, by number, that are labels of a loss, with what it ignores; those that are rows of a table, with how many it has; those that are places to write to, of which no two may be one."""
    labels, tables, places = {}, {}, set()
    names = [name for name in program.graph_signature.user_inputs if isinstance(name, str)]
    reached = {node: i for i, node in enumerate(n for n in program.graph.nodes if n.op == "placeholder" and n.name in names)}
    for node in program.graph.nodes:
        if node.op != "call_function" or not node.args:
            continue
        packet = getattr(node.target, "overloadpacket", None)
        name = str(packet).removeprefix("aten.")
        if name in ("cross_entropy_loss", "nll_loss", "nll_loss_nd", "nll_loss2d", "nll_loss_forward", "nll_loss2d_forward"):
            i = reached.get(node.args[1])
            if i is not None and i < count and not node.args[1].meta["val"].is_floating_point():
                places = [a.name for a in node.target._schema.arguments]
                at = places.index("ignore_index")
                labels[i] = node.args[at] if at < len(node.args) else node.kwargs.get("ignore_index", IGNORED)
        elif name == "embedding":
            i, rows = reached.get(node.args[1]), node.args[0].meta["val"].shape[0]
            if i is not None and isinstance(rows, int):
                tables[i] = min(rows, tables.get(i, rows))
        elif name == "index_put" and not (node.args[3] if len(node.args) > 3 else node.kwargs.get("accumulate", False)):
            places |= {reached[index] for index in node.args[1] if index in reached}
        elif name in ("view", "reshape", "_unsafe_view", "squeeze", "unsqueeze", "clone", "_to_copy", "slice", "contiguous", "alias", "permute", "transpose", "to"):
            if node.args[0] in reached:
                reached[node] = reached[node.args[0]]
    return labels, tables, places


# --- comparing ----------------------------------------------------------------------


class _Rounded(TorchDispatchMode):
    """Every operator's floats are rounded otherwise, small ones as those near 1 are: sums and approximations round so. Integers and infinities stay."""

    def __init__(self, epsilon, seed):
        super().__init__()
        self.epsilon, self.generator = epsilon, torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func._schema.is_mutable or any(r.alias_info is not None for r in func._schema.returns):
            return result
        return pytree.tree_map_only(torch.Tensor, self._rounded, result)

    def _rounded(self, x):
        if x.dtype not in (torch.float32, torch.float64) or x.device.type != "cpu" or x.numel() == 0:
            return x
        # Towards 0: a mask's number, the lowest that there is, must not become infinite.
        least = min(1.0, float(torch.where(x.isfinite(), x.abs(), 0).max()))
        size = x.abs().clamp(min=least) * x.sign()
        return torch.where(x == x.round(), x, x - self.epsilon * torch.rand(x.shape, generator=self.generator).to(x.dtype) * size)


class _Comparison:
    def __init__(self, module, proto, weights, program, epsilon):
        self.module, self.proto, self.weights, self.program, self.epsilon = module, proto, weights, program, epsilon
        self.session = None  # of ONNX Runtime, made when it is first asked for

    def __call__(self, inputs, where):
        """False if the module does not take these inputs."""
        wanted = self._run(inputs)
        if wanted is None:
            return False
        if any(not np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(wanted, self._run(inputs))):
            raise ExportError(f"{type(self.module).__name__} gives other outputs each time it is called: a program that trains has no use for random numbers of one export; call module.eval(), or make them an input")
        try:
            self.session = self.session or Session(self.proto, self.weights)
            have = self.session(inputs)
        except Exception as e:
            if "NOT_IMPLEMENTED" in str(e):
                warnings.warn(f"the graph is not compared with the module, as ONNX Runtime lacks an operator: {_line(e)}", stacklevel=4)
                return False
            raise ExportError(f"ONNX Runtime fails on the graph {where}: {_line(e)} (check=False writes it nevertheless)") from e
        limits = self._limits(inputs, wanted)
        for i, (want, (name, got)) in enumerate(zip(wanted, have.items())):
            if want.shape != got.shape:
                self._refuse(inputs, name, where, f"it has shape {list(got.shape)}, in PyTorch {list(want.shape)}", limits)
            wrong = _wrong(want, got, limits[i])
            if wrong.any():
                at = np.unravel_index(int(np.argmax(wrong)), want.shape)
                said = f"at {[int(k) for k in at]} it is {got[at]:.6g}, in PyTorch {want[at]:.6g}; {wrong.sum()} of {want.size} elements differ"
                self._refuse(inputs, name, where, said, limits)
        return True

    def _run(self, inputs):
        """The module's outputs, or None if it refuses the inputs."""
        inputs = tuple(x.clone() for x in inputs)
        for own in (True, False):
            with contextlib.ExitStack() as stack:
                stack.enter_context(warnings.catch_warnings())
                warnings.simplefilter("ignore")
                if not own:
                    stack.enter_context(traceable(self.module))
                try:
                    return run_module(self.module, inputs)
                except Exception:  # whatever code raises on inputs that it was not made for
                    continue
        return None

    def _limits(self, inputs, wanted):
        """By how much each element may differ."""
        moved = []
        for seed in range(RUNS):
            with _Rounded(self.epsilon, seed):
                moved.append(self._run(inputs))
        return [_limit(want, [m[i] for m in moved if m is not None], self.epsilon) for i, want in enumerate(wanted)]

    def _refuse(self, inputs, name, where, said, limits):
        origin = _first_difference(self, inputs)
        raise ExportError(f"output '{name}' of the graph differs from the module's {where}: {said}{origin} (check=False writes it nevertheless)")


def _line(error):
    return re.sub(r"\s+", " ", str(error)).strip()[:300]


def _limit(want, moved, epsilon):
    """FACTOR times the largest deviation of `moved`; elements far above the others (a mask's) have their own, relative to their size."""
    if want.dtype.kind != "f" or want.size == 0:
        return np.zeros(want.shape)
    with np.errstate(all="ignore"):
        size = np.abs(want.astype(np.float64))
        known = np.isfinite(size) & (size > 0)
        usual = float(np.median(size[known])) if known.any() else 0.0
        off = np.max([np.abs(m.astype(np.float64) - want) if m.shape == want.shape else size for m in moved] or [0 * size], 0)
        off = np.where(np.isnan(off), np.inf, off)
        near = (size <= 16 * usual) & np.isfinite(off)
        common = max(float(off[near].max()) if near.any() else 0.0, epsilon * usual)
        return FACTOR * np.maximum(off, common * np.maximum(1.0, size / max(16 * usual, 1e-300)))


def _wrong(want, have, limit):
    """Elements that differ by more; where PyTorch has no number there is nothing to differ from."""
    if want.dtype.kind != "f":
        return np.asarray(want != have)
    with np.errstate(all="ignore"):
        return np.asarray(np.isfinite(want) & ~(np.abs(have.astype(np.float64) - want) <= limit))


# --- where ----------------------------------------------------------------------------


class _Recorder(torch.fx.Interpreter):
    def run_node(self, n):
        result = super().run_node(n)
        if isinstance(result, torch.Tensor):
            self.values[n] = result.detach().clone().numpy()
        return result


def _first_difference(comparison, inputs):
    """The first operator of the traced program whose value in the graph is another, with the line that called it."""
    program, proto = comparison.program, comparison.proto
    try:
        recorder = _Recorder(program.graph_module)
        recorder.values = {}
        with torch.no_grad():
            recorder.run(*_arguments(program, comparison.module, inputs))
        probed = onnx.ModelProto()
        probed.CopyFrom(proto)
        made = {o for n in proto.graph.node for o in n.output} - {o.name for o in proto.graph.output}
        probed.graph.output.extend(onnx.ValueInfoProto(name=n.name) for n in recorder.values if n.name in made and n.op != "placeholder")
        have = Session(probed, comparison.weights)(inputs)
    except Exception:  # an explanation that fails is none
        return ""
    outputs = {name: o.name for name, o in zip(program.graph_signature.user_outputs, proto.graph.output) if isinstance(name, str)}
    for node, want in recorder.values.items():
        got = have.get(outputs.get(node.name, node.name)) if node.op != "placeholder" else None
        if got is None:
            continue
        if want.shape != got.shape or _wrong(want, got, _limit(want, [], comparison.epsilon) * 64 + 0.0).any():
            lines = re.findall(r'File ".*?([^/"]+)", line (\d+)', node.meta.get("stack_trace") or "")
            return f". The first operator whose result differs is {str(node.target).removesuffix('.default')}" + (f" ({':'.join(lines[-1])})" if lines else "")
    return ". Every operator of the traced program has its value in the graph: the code takes another way when it is traced (it branches on values of the example, or asks whether it is traced)"


def _arguments(program, module, inputs):
    """What the traced program takes, in order: weights, buffers, constants, inputs."""
    held = dict(module.named_parameters(remove_duplicate=False)) | dict(module.named_buffers(remove_duplicate=False)) | dict(program.constants)
    given = iter(inputs)
    for spec in program.graph_signature.input_specs:
        yield held[spec.target] if spec.target is not None else next(given)
