# ===- gradients.py - what autograd does beside the forward pass -------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A graph says what a module computes; its gradient is derived from that. Where
# PyTorch takes another one (detach, no_grad, the padding row of an embedding), the
# graph has an Identity with a mark. While a module is traced, operators that run
# without gradients get an annotation, which torch.export carries to the nodes
# that it makes of them. What depends on nothing that trains needs no mark.
# A gradient that Python code defines has no such form, and is refused.
# ===-----------------------------------------------------------------------===
"""watched, refuse_hooks, warn_of_state, mark_stops, settle_stops: gradients that the forward pass does not tell."""

from __future__ import annotations

import ast
import contextlib
import inspect
import operator
import re
import warnings

import onnx_ir as ir
import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from torch.fx.traceback import annotate, preserve_node_meta
from torch.overrides import TorchFunctionMode

from .adapting import _set
from .errors import ExportError, place_of_code
from .finite import FINITE

MARK = "distrain.stop_gradient"
TIES = "distrain.ties"
IN_PLACE = "distrain.in_place"
SCOPES = "pkg.torch.onnx.name_scopes"
# What stands for a marked Identity while passes run that remove an Identity.
DOMAIN, STOP = "distrain", "StopGradient"

DATA = torch.Tensor.data.__get__
WRITES = {"__setitem__", "__iadd__", "__isub__", "__imul__", "__idiv__", "__itruediv__", "__ipow__", "__iand__", "__ior__"}
# Autograd functions whose backward is the derivative of their forward.
SAME_GRADIENT = {("transformers.models.bloom.modeling_bloom", "GeLUFunction")}
SAME_GRADIENT |= {("timm.layers.activations_me", f"{name}AutoFn") for name in ("Swish", "Mish", "HardSigmoid", "HardSwish", "HardMish")}
DETACH, DETACH_IN_PLACE = (torch.Tensor.detach, torch.detach), (torch.Tensor.detach_, torch.detach_)
EMBEDDINGS = (F.embedding, F.embedding_bag)
# Of several equal elements the first has the gradient; traced they are a maximum whose elements would share it.
FIRST_OF_EQUALS = (F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d)
HOOKS = (torch.Tensor.register_hook, torch.Tensor.register_post_accumulate_grad_hook)


# --- while a module is traced ---------------------------------------------------


@contextlib.contextmanager
def watched(module):
    """What runs without gradients in the module's forward() is annotated; a gradient that code defines is an ExportError.

    Whether gradients are on is kept here, and not in PyTorch: a trace is without.
    """
    watch = _Watch(module)
    with contextlib.ExitStack() as stack:
        stack.callback(module.register_forward_pre_hook(watch.begin, prepend=True).remove)
        stack.callback(module.register_forward_hook(watch.end, always_call=True).remove)
        # Of a hook that raises before forward() PyTorch tells nobody.
        stack.callback(watch.end, module, (), None)
        stack.enter_context(preserve_node_meta())
        # PyTorch's own annotations name the function that made a node, and two of its passes do not agree on it.
        _set(stack, torch.fx.traceback, "annotate", _not_annotated)
        real = torch.is_grad_enabled
        _set(stack, torch, "is_grad_enabled", lambda: watch.enabled if watch.listening else real())
        _inference(stack, watch)
        _functions(stack, watch)
        for name in ("_checkpoint_without_reentrant_generator", "_checkpoint_without_reentrant_generator_impl"):
            if hasattr(torch.utils.checkpoint, name):
                _set(stack, torch.utils.checkpoint, name, _run_between)
        _only_strategy(stack)
        yield


def _not_annotated(_):
    return contextlib.nullcontext()


_not_annotated.__wrapped__ = annotate.__wrapped__  # torch.compile looks for it


def _inference(stack, watch):
    """inference_mode is as no_grad."""
    enter, leave = torch.inference_mode.__enter__, torch.inference_mode.__exit__

    def begin(context):
        context.before = watch.enabled if watch.listening else None
        if context.before is None:
            return enter(context)
        watch.enabled = not context.mode

    def end(context, *error):
        if context.before is None:
            return leave(context, *error)
        watch.enabled = context.before

    _set(stack, torch.inference_mode, "__enter__", begin)
    _set(stack, torch.inference_mode, "__exit__", end)


def _functions(stack, watch):
    """autograd.Function is refused, but for those that change no gradient: checkpointing's, and some written for speed."""
    base = torch.autograd.Function
    own = vars(base).get("apply")

    def refused(kind, *args, **kwargs):
        if not watch.listening or (kind.__module__, kind.__name__) in SAME_GRADIENT:
            return (own.__get__(None, kind) if own else super(base, kind).apply)(*args, **kwargs)
        raise ExportError(f"forward calls the autograd function '{kind.__name__}'{place_of_code()}: the gradient that it defines has no ONNX form")

    _set_method(stack, base, "apply", classmethod(refused))
    _set_method(stack, torch.utils.checkpoint.CheckpointFunction, "apply", staticmethod(_run))


def _set_method(stack, owner, name, value):
    """As _set, where a class has inherited the method or it is no plain function."""
    before = vars(owner).get(name)
    setattr(owner, name, value)
    stack.callback(lambda: delattr(owner, name) if before is None else setattr(owner, name, before))


def _run(function, preserve, *args):
    return function(*args)


def _run_between(*args, **kwargs):
    yield


def _only_strategy(stack):
    """The second way that PyTorch's exporter tries (torch.compile's) does not run the module: annotations would be lost."""
    from torch.onnx._internal.exporter import _capture_strategies as strategies

    _set(stack, strategies, "CAPTURE_STRATEGIES", (strategies.TorchExportNonStrictStrategy,))


class _Watch(TorchFunctionMode):
    """Sees every call of PyTorch that forward() makes itself."""

    def __init__(self, module):
        super().__init__()
        self.module, self.enabled, self.listening = module, True, False
        self.data = {}  # id -> the tensor, which keeps it from being another's

    def begin(self, module, inputs):
        self.enabled, self.listening, self.data = True, True, {}
        self.__enter__()

    def end(self, module, inputs, output):
        if self.listening:
            self.listening = False
            self.__exit__(None, None, None)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch._C._set_grad_enabled:
            (self.enabled,) = args
            return None
        if func in HOOKS:
            raise ExportError(f"forward registers a backward hook{place_of_code()}: the gradient that it defines has no ONNX form")
        if func in EMBEDDINGS:
            self._refuse_embedding(func, *args, **kwargs)
        if _writes(func) and id(args[0]) in self.data:
            raise ExportError(f"forward changes '.data' of a tensor{place_of_code()}: gradients then are not those of the values, which has no ONNX form")
        func = FINITE.get(func, func)
        self.listening = False
        try:
            if func == DATA:
                return self._data(args[0])
            if func in DETACH_IN_PLACE:
                return _detach_in_place(*args)
            if func in FIRST_OF_EQUALS:
                with annotate({TIES: "first", MARK: not self.enabled}):
                    return func(*args, **kwargs)
            if func not in DETACH and self.enabled:
                return func(*args, **kwargs)
            with annotate({MARK: True, IN_PLACE: not self.enabled and _writes(func)}):
                return func(*args, **kwargs)
        finally:
            self.listening = True

    def _data(self, x):
        if type(x) is torch.Tensor:
            return x.data
        with annotate({MARK: True, IN_PLACE: False}):
            result = x.detach()
        if x.is_floating_point() and not any(x is b for b in self.module.buffers()):
            self.data[id(result)] = result
        return result

    def _refuse_embedding(self, func, *args, **kwargs):
        call = inspect.signature(func).bind(*args, **kwargs).arguments
        wrong = next((key for key in ("max_norm", "scale_grad_by_freq", "sparse") if call.get(key)), None)
        if wrong:
            name = next((n for n, p in self.module.named_parameters() if p is call["weight"]), "")
            raise ExportError(f"the embedding '{name}' has {wrong}{place_of_code()}: the gradient that it defines has no ONNX form")


def _detach_in_place(x):
    with annotate({MARK: True, IN_PLACE: False}):
        return x.copy_(x.detach())


def _writes(func):
    """Whether a call changes its first argument."""
    name = getattr(func, "__name__", "")
    return name in WRITES or (name.endswith("_") and not name.endswith("__"))


def refuse_hooks(module):
    """Refuses hooks that run backward: they may change any gradient."""
    for name, p in module.named_parameters():
        if p._backward_hooks or getattr(p, "_post_accumulate_grad_hooks", None):
            raise ExportError(f"parameter '{name}' has a backward hook: the gradient that it defines has no ONNX form")
    for name, m in module.named_modules():
        if m._backward_hooks or m._backward_pre_hooks:
            raise ExportError(f"module '{name or type(m).__name__}' has a backward hook: the gradient that it defines has no ONNX form")


# --- where the gradient stops ----------------------------------------------------


def warn_of_state(program):
    """Buffers that forward() changes keep their values in a graph."""
    names = list(dict.fromkeys(program.graph_signature.buffers_to_mutate.values()))
    if names:
        listed = ", ".join(f"'{name}'" for name in names[:3]) + (", …" if len(names) > 3 else "")
        warnings.warn(f"forward changes {len(names)} buffers ({listed}): training leaves them as they are in the file", stacklevel=3)


def mark_stops(model, program, module):
    """Puts marks into the ONNX graph where the exported program's gradient stops."""
    nodes = list(program.graph.nodes)
    stopped = {n for n in nodes if annotated(n, MARK)}
    wanted = _wanted(nodes, program)
    live = _trained(nodes, program, module)
    values = _Values(model.graph, program)
    for node in nodes:
        if node not in live and is_float(node) and any(n in live for n in node.all_input_nodes):
            live.add(node)
        if node not in live:
            continue
        if annotated(node, IN_PLACE) and node.args and node.args[0] in live and node.args[0] not in stopped:
            raise ExportError(f"forward changes a value in place without gradients{_module_of(node)}, and the value has one: it has no ONNX form")
        if node in stopped:
            users = [u for u in node.users if u not in stopped and (u in wanted or u.op == "output")]
            if users:
                values.stop(node, users)
        elif node.target == torch.ops.aten.embedding.default and len(node.args) > 2 and node.args[2] >= 0:
            values.stop_row(node, node.args[2])
    if values.marks:
        model.opset_imports[DOMAIN] = 1
        model.graph.sort()


def settle_stops(model):
    """The marks' final form, an Identity; a parameter that no gradient reaches is as one that the module keeps fixed."""
    marks = [node for node in model.graph if node.domain == DOMAIN]
    for node in marks:
        node.domain, node.op_type = "", "Identity"
        node.metadata_props[MARK] = "1"
    model.opset_imports.pop(DOMAIN, None)
    return _unreached(model.graph) if marks else set()


def _unreached(graph):
    """Names of the initializers that gradients from the outputs do not reach."""
    reached = set(graph.outputs)
    for node in reversed(graph):
        if MARK not in node.metadata_props and any(o in reached for o in node.outputs):
            reached |= set(node.inputs)
    return {name for name, value in graph.initializers.items() if value not in reached}


def annotated(node, key):
    if node.target is operator.getitem:
        node = node.args[0]
    return bool(node.meta.get("custom", {}).get(key))


def is_float(node):
    value = node.meta.get("val")
    return any(isinstance(v, torch.Tensor) and v.is_floating_point() for v in (value if isinstance(value, (tuple, list)) else (value,)))


def _trained(nodes, program, module):
    """Placeholders that have a gradient: parameters that train, and float inputs."""
    signature = program.graph_signature
    fixed = {name for name, p in module.named_parameters(remove_duplicate=False) if not p.requires_grad}
    parameters = {name for name, target in signature.inputs_to_parameters.items() if target not in fixed}
    known = parameters | set(signature.user_inputs)
    return {n for n in nodes if n.op == "placeholder" and n.name in known and is_float(n)}


def _wanted(nodes, program):
    """Nodes whose gradient reaches an output."""
    outputs = set(program.graph_signature.user_outputs)
    wanted = set()
    for node in reversed(nodes):
        if is_float(node) and (node.name in outputs or any(u in wanted for u in node.users)):
            wanted.add(node)
    return wanted


def _module_of(node):
    names = [name for name, _ in (node.meta.get("nn_module_stack") or {}).values()]
    lines = re.findall(r'File ".*?([^/"]+)", line (\d+)', node.meta.get("stack_trace") or "")
    return (f" in '{names[-1]}'" if names and names[-1] else "") + (f" ({':'.join(lines[-1])})" if lines else "")


class _Values:
    """The ONNX graph's values of an exported program's nodes."""

    def __init__(self, graph, program):
        self.graph, self.marks = graph, 0
        self.named = {v.name: v for node in graph for v in node.outputs} | {v.name: v for v in graph.inputs}
        self.outputs = [name if isinstance(name, str) else None for name in program.graph_signature.user_outputs]
        self.named |= {name: v for name, v in zip(self.outputs, graph.outputs) if name}

    def of(self, node):
        """A node that does nothing has passed its name on to its input's value."""
        if node.name in self.named:
            return self.named[node.name]
        for user in node.users:
            if user.op != "output" and (found := self.of(user)) is not None:
                return found
        return None

    def stop(self, node, users):
        value = self.of(node)
        if value is None:
            raise ExportError(f"the gradient stops at '{node.name}'{_module_of(node)}, which the graph does not have")
        names = {u.name for u in users}
        mark = self._mark(value)
        for user, place in list(value.uses()):
            if user is not mark.producer() and origin(user) in names:
                user.replace_input_with(place, mark)
        if any(u.op == "output" for u in users):
            self._replace_outputs(node, value, mark)

    def stop_row(self, node, row):
        """Row `row` of an embedding's table has no gradient: Where(ids == row, marked rows, rows)."""
        rows = self.of(node)
        gather = rows.producer() if rows is not None else None
        if gather is None or gather.op_type != "Gather":
            raise ExportError(f"embedding '{node.name}'{_module_of(node)} with padding_idx: the exporter's form of it is not known")
        ids, uses = gather.inputs[1], list(rows.uses())
        kind = ids.dtype or ir.DataType.INT64
        place = self._add("Constant", [], rows, "row", value=ir.tensor(row, dtype=kind))
        equal = self._add("Equal", [ids, place], rows, "is_padding")
        axis = self._add("Constant", [], rows, "axis", value=ir.tensor([-1], dtype=ir.DataType.INT64))
        column = self._add("Unsqueeze", [equal, axis], rows, "padding")
        chosen = self._add("Where", [column, self._mark(rows), rows], rows, "trained")
        chosen.shape, chosen.type = rows.shape, rows.type
        for user, at in uses:
            user.replace_input_with(at, chosen)
        self._replace_outputs(node, rows, chosen)

    def _mark(self, value):
        self.marks += 1
        stopped = self._add(STOP, [value], value, "stopped", DOMAIN)
        stopped.shape, stopped.type = value.shape, value.type
        return stopped

    def _add(self, kind, inputs, after, name, domain="", **attributes):
        node = ir.node(kind, inputs, attributes or None, domain=domain, name=f"{after.name}.{name}")
        node.outputs[0].name = node.name
        if after.producer() is not None:
            node.metadata_props.update({k: v for k, v in after.producer().metadata_props.items() if k in (SCOPES, "namespace")})
        self.graph.append(node)
        return node.outputs[0]

    def _replace_outputs(self, node, value, mark):
        for i, name in enumerate(self.outputs):
            if name == node.name and self.graph.outputs[i] is value:
                self.graph.outputs[i] = mark
                value.name, mark.name = f"{value.name}.live", value.name


def origin(node):
    """Name of the exported program's node that an ONNX node comes from."""
    scopes = node.metadata_props.get(SCOPES)
    return ast.literal_eval(scopes)[-1] if scopes else ""
