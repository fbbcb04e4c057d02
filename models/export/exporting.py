# ===- exporting.py - PyTorch module -> ONNX graph for training ------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# PyTorch's exporter aims at inference: by default it folds the transpose of a
# Linear's weight into a constant without a name, folds BatchNorm into the
# convolution before it and merges initializers that happen to be equal (all
# zero biases become one). A graph written so computes the same values but
# trains something else. Without its optimizer it leaves sequences, CastLike
# and unfolded shape arithmetic. Here the same cleanup passes run while every
# parameter and every float buffer is a graph input, so no pass can see, fold
# or merge its value; afterwards they become initializers again, under the
# module's own names and with their PARAMETER/BUFFER marks.
# ===-----------------------------------------------------------------------===
"""PyTorch module -> ONNX graph for training."""

from __future__ import annotations

import contextlib
import inspect
import io
import logging
import pathlib
import traceback
import warnings

import onnx
import onnx_ir as ir
import onnx_ir.passes.common as common_passes
import torch
from onnxscript import optimizer
from onnxscript.rewriter import pattern

from .adapting import traceable
from .gradients import ExportError, mark_stops, settle_stops, warn_of_state, watched
from .kinks import guard_attention, mark_ties, settle_ties
from .lowering import TRANSLATIONS
from .requests import check_output, check_request, equal_dims, shapes_by_input
from .verifying import refuse_invalid, verify
from .widening import narrow_kinds, widened
from .writing import KIND, take_weights, write

# Ours, beside it: "False" at a parameter that the module itself keeps fixed.
REQUIRES_GRAD = "requires_grad"
# "True" at a parameter that several places use: the module itself does, no pass has merged what was equal.
SHARED = "distrain.shared"
# A constant above this is not one the user wrote by hand; it is the sign of a
# folded weight, and importers refuse it.
MAX_CONSTANT = 64 * 1024
# Ops that only appear when the cleanup has failed on some pattern.
LEFTOVERS = {"SplitToSequence", "SequenceAt", "SequenceConstruct", "ConcatFromSequence", "CastLike", "If", "Loop", "Scan"}

# Ops that draw numbers: a program that trains has no use for those of one export.
RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}


def export(module, example_inputs, path, *, dynamic_shapes=None, input_names=None, output_names=None, weights=True, buffers=None, opset=20, check=True):
    """Writes `module` as an ONNX graph that keeps every parameter trainable.

    module          torch.nn.Module. In eval mode BatchNorm uses its fixed statistics; in train mode it is written
                    in its training form (statistics of the batch), and dropout is left out, with a warning.
    example_inputs  tuple of tensors. A dynamic dim should be at least 2 here, so that it is not
                    taken for a number.
    path            the .onnx file to write.
    dynamic_shapes  {"input_ids": {0: "batch", 1: "seq"}}, by `input_names`; a string names the dim in
                    the file. Inputs left out have fixed shapes. A key that is none of them is an error.
    weights         Weights of 2 GB and more, which no ONNX file holds, go to `path`.data beside it. False writes the graph only: parameters keep name, shape and type, and their data
                    is said to lie in a file that does not exist (`weights.bin`), which the model's metadata
                    say is meant. Such a module may live on the meta device.
    buffers         {name: tensor}: values of buffers of a module on the meta device, where they matter.
    check           Whether ONNX Runtime's outputs of the graph are compared with the module's, on the example and on
                    draws with hard values. A module on the meta device has none.
    Returns the onnx.ModelProto written. Raises ExportError, of one line, if the module cannot be exported, a
    weight has lost its name or form, or an output differs.
    """
    check_request(module, example_inputs, dynamic_shapes, input_names, output_names)
    program = _trace(module, example_inputs, dynamic_shapes, input_names, opset)
    model = program.model
    if len(output_names or ()) > len(model.graph.outputs):
        raise ExportError(f"output_names has more names ({len(output_names)}) than the module has outputs ({len(model.graph.outputs)})")
    for name, tensor in (buffers or {}).items():
        if name not in (held := dict(module.named_buffers(remove_duplicate=False))):
            raise ExportError(f"buffers: the module has no buffer '{name}'; the first is '{next(iter(held), '')}'")
        if name in model.graph.initializers:  # one that nothing reads is in no graph
            model.graph.initializers[name].const_value = ir.tensor(tensor, name=name)
    mark_stops(model, program.exported_program, module)
    guard_attention(model, program.exported_program)
    mark_ties(model, program.exported_program)
    warn_of_state(program.exported_program)
    _merge_tied(model.graph, module)
    _refuse_names_of_weights(model.graph, module, output_names or ())
    _drop_idle_squeezes(model.graph)
    _training_batch_norm(model.graph, module)
    _cut_chunks(model.graph)
    with _opaque(model.graph, module), _named(model, output_names or ()):
        _optimize(model, module)
    common_passes.TopologicalSortPass()(model)
    settle_ties(model)
    unreached = settle_stops(model)
    _check(model.graph, module, unreached)
    _mark_shared(model.graph)
    _strip_traces(model.graph)
    model.producer_name = "pytorch"
    # Copies of all weights are made of one at a time.
    values = take_weights(model)
    proto = ir.serde.serialize_model(model)
    if check and not any(t.is_meta for t in (*module.parameters(), *module.buffers(), *example_inputs) if t is not None):
        verify(module, proto, values, program.exported_program, tuple(x for x in example_inputs if x is not None))
    # Some operators have no form of their own in 16 bits; the compiler imports these files as float32.
    refuse_invalid(widened(proto) if narrow_kinds(module) else proto)
    write(proto, values if weights else None, pathlib.Path(path))
    return proto


def _trace(module, example_inputs, dynamic_shapes, input_names, opset):
    equal = equal_dims(shapes_by_input(module, dynamic_shapes or (), input_names))
    # torch.export knows the arguments of forward(), not the names that they get in the file.
    if isinstance(dynamic_shapes, dict) and input_names is not None:
        dynamic_shapes = tuple(dynamic_shapes.get(name) for name in input_names)
        kinds = [p.kind for p in inspect.signature(module.forward).parameters.values()]
        if inspect.Parameter.VAR_POSITIONAL in kinds:
            first = kinds.index(inspect.Parameter.VAR_POSITIONAL)
            rest = dynamic_shapes[first:]
            dynamic_shapes = (*dynamic_shapes[:first], *([rest] if rest else []))
    try:
        with traceable(module), watched(module), module.register_forward_hook(check_output), module.register_forward_pre_hook(equal), _silence():
            return torch.onnx.export(
                module,
                tuple(example_inputs),
                dynamo=True,
                optimize=False,
                opset_version=opset,
                dynamic_shapes=dynamic_shapes,
                input_names=input_names,
                external_data=False,
                custom_translation_table=TRANSLATIONS,
                verbose=False,
            )
    except Exception as e:  # PyTorch's exporter raises many kinds, each with its own advice on many lines
        raise ExportError(_why(e, module)) from e


@contextlib.contextmanager
def _silence():
    """No warnings of packages that are not installed or of one name for two equal dims, and no listings of what it tried."""
    logs = [logging.getLogger(name) for name in ("torch.onnx", "torch.fx.experimental.symbolic_shapes")]
    levels = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.ERROR)
    nowhere = io.StringIO()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
            warnings.simplefilter("ignore")
            yield
    finally:
        for log, level in zip(logs, levels):
            log.setLevel(level)


# What the first line of the innermost error says -> what to do about it.
ADVICE = {
    "already exists": "PyTorch's exporter needs this name itself: give the parameter or module another",
    "complex": "it computes with complex numbers, which ONNX has no form for: write them as pairs of real ones",
    "data-dependent": "a size or a branch depends on the values of a tensor: make it a number, or an input that says it",
    "data dependent": "a size or a branch depends on the values of a tensor: make it a number, or an input that says it",
    "inferred a static shape": "a dim that dynamic_shapes names is a fixed number in the module's code: leave it out, or mend the code (a loop or a list over the dim fixes it)",
    "no onnx function found": "the module uses an operator that PyTorch's exporter has no ONNX form for",
}


def _why(error, module):
    """One line: the innermost cause of an error of PyTorch's exporter, where it is, and what may be done about it."""
    place = _place(error)
    while error.__cause__ is not None:
        error = error.__cause__
        place = _place(error) or place
    if isinstance(error, ExportError):
        return str(error)
    lines = [line.strip(" -") for line in str(error).splitlines() if line.strip(" -")] or [type(error).__name__]
    said = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
    advice = next((text for sign, text in ADVICE.items() if sign in str(error).lower()), "")
    return f"{type(module).__name__} cannot be exported{place}: {said}" + (f" ({advice})" if advice else "")


def _place(error):
    """" at file.py:12", of the model's or a library's code that was running."""
    skipped = (str(pathlib.Path(torch.__file__).parent), str(pathlib.Path(__file__).parent))
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith((*skipped, "<"))]
    frames = [f for f in frames if "/onnxscript/" not in f.filename and "/onnx_ir/" not in f.filename]
    return f" at {pathlib.Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""


def _optimize(model, module):
    """The exporter's cleanup, with numbers as they are; its errors name the node and not the pass alone."""
    # Its rules take 1e-8 for 0 and 0.999999 for 1, and leave out `x + 1e-8`: a division by 0 remains.
    exact = property(lambda number: 0.0)
    kinds = ("_abs_tol", "_rel_tol")
    for kind in kinds:
        setattr(pattern.Constant, kind, exact)
    try:
        optimizer.optimize_ir(model)
    except Exception as e:
        raise ExportError(_why(e, module)) from e
    finally:
        for kind in kinds:
            delattr(pattern.Constant, kind)
    _register_bounds(model.graph)


def _register_bounds(graph):
    """Its rules name a clamp's bounds after the clamped value: of two clamps the second's take the first's place among the initializers."""
    for node in graph:
        for value in node.inputs:
            if value is None or value.producer() is not None or value.const_value is None or graph.initializers.get(value.name) is value:
                continue
            value.name = f"{node.name}.{value.name}"
            graph.register_initializer(value)


def _merge_tied(graph, module):
    """One initializer for a parameter that the module holds under several names: the first of them."""
    names = {}
    for name, tensor in module.named_parameters(remove_duplicate=False):
        names.setdefault(id(tensor), []).append(name)
    for first, *others in names.values():
        for name in others:
            if name not in graph.initializers:
                continue
            value = graph.initializers.pop(name)
            if first in graph.initializers:
                ir.convenience.replace_all_uses_with(value, graph.initializers[first])
            else:
                value.name = first
                graph.initializers[first] = value


def _refuse_names_of_weights(graph, module, output_names):
    """Refuses an input or output that is named like a parameter: one of them would get another name."""
    held = {v.name for v in _held(graph, module) if v.uses() or v.is_graph_output()}
    for kind, names in (("input", [v.name for v in graph.inputs]), ("output", output_names)):
        wrong = next((name for name in names if name in held), None)
        if wrong is not None:
            raise ExportError(f"{kind} '{wrong}' is named like the module's parameter or buffer '{wrong}', which keeps its name: give another in {kind}_names")


def _drop_idle_squeezes(graph):
    """PyTorch's squeeze(1) leaves an axis that is not 1 alone; ONNX's, which the exporter writes for it, does not."""
    for node in [n for n in graph if n.op_type == "Squeeze" and len(n.inputs) == 2]:
        before, after = node.inputs[0], node.outputs[0]
        if before.shape is not None and after.shape is not None and len(before.shape) == len(after.shape) > 0:
            ir.convenience.replace_all_uses_with(after, before, replace_graph_outputs=True)
            graph.remove(node, safe=True)


def _cut_chunks(graph):
    """x.chunk(n) of a dim that varies has pieces of a length that no pass knows: piece i is a slice from i times that length on."""
    for node in [n for n in graph if n.op_type == "SequenceAt"]:
        split, place = node.inputs[0].producer(), _number(node.inputs[1])
        if split is None or split.op_type != "SplitToSequence" or place is None or place < 0:
            continue
        # Of split(length) and chunk(n); split([lengths]) has another name.
        if "'aten.split.Tensor'" not in split.metadata_props.get("pkg.torch.onnx.class_hierarchy", "") or _number(split.inputs[1]) is not None:
            continue
        x, length = split.inputs
        axis = split.attributes.get_int("axis", 0)
        tape = ir.tape.Tape()
        bounds = [tape.op("Mul", [tape.op("Unsqueeze", [length, _constant(tape, [0])]), _constant(tape, [i])]) for i in (place, place + 1)]
        piece = tape.op("Slice", [x, *bounds, _constant(tape, [axis])])
        piece.type, piece.shape = node.outputs[0].type, node.outputs[0].shape
        for made in tape.nodes:
            made.metadata_props.update(split.metadata_props)
        graph.insert_before(node, tape.nodes)
        ir.convenience.replace_all_uses_with(node.outputs[0], piece)
        graph.remove(node, safe=True)
        if not split.outputs[0].uses():
            graph.remove(split, safe=True)


def _constant(tape, values):
    return tape.op("Constant", [], {"value_ints": values})


def _number(value):
    """The one integer that a value is, if it is a constant."""
    tensor = ir.convenience.get_const_tensor(value)
    return None if tensor is None or tensor.size != 1 else int(tensor.numpy().item())


def _held(graph, module):
    """The initializers whose values no pass may look at."""
    parameters = {name for name, _ in module.named_parameters(remove_duplicate=False)}
    buffers = {name for name, b in module.named_buffers(remove_duplicate=False) if b.is_floating_point()}
    return [v for name, v in graph.initializers.items() if name in parameters or name in buffers]


@contextlib.contextmanager
def _opaque(graph, module):
    held = [(v, v.const_value) for v in _held(graph, module)]
    for value, _ in held:
        del graph.initializers[value.name]
        value.const_value = None
        graph.inputs.append(value)
    yield
    for value, tensor in held:
        graph.inputs.remove(value)
        # A parameter that nothing reads is left out, as a model file's readers expect.
        if value.uses() or value.is_graph_output():
            value.const_value = tensor
            graph.register_initializer(value)


@contextlib.contextmanager
def _named(model, output_names):
    """Names that were given: passes put an Identity before an output that is an input, a parameter or another output, and rename values then."""
    before = [(v, v.name) for v in model.graph.inputs]
    yield
    for value, name in [*before, *zip(model.graph.outputs, output_names)]:
        value.name = name
    common_passes.NameFixPass()(model)


def _check(graph, module, unreached):
    """Refuses a graph in which a use of a weight is lost or hidden; marks what does not train."""
    # Operators without a 16-bit form keep their operands' types open. Between floats a cast is nothing to the importer.
    narrow = {"CastLike"} if narrow_kinds(module) else set()
    left = sorted({n.op_type for n in graph if n.op_type in LEFTOVERS - narrow})
    if left:
        raise ExportError(f"the exporter left {', '.join(left)} in the graph")
    for node in graph:
        if node.op_type in RANDOM or (node.op_type == "Dropout" and _drops(node)):
            raise ExportError(f"node '{node.name}' ({node.op_type}) draws random numbers: call module.eval(), or make them an input")
    parameters = dict(module.named_parameters(remove_duplicate=False))
    for name, value in graph.initializers.items():
        tensor = value.const_value
        if name in parameters:
            if value.metadata_props.get(KIND) != "PARAMETER":
                raise ExportError(f"parameter '{name}' has lost its PARAMETER mark")
            if tuple(value.shape) != tuple(parameters[name].shape):
                raise ExportError(f"parameter '{name}' has changed its shape to {list(value.shape)}")
            if not parameters[name].requires_grad or name in unreached:
                value.metadata_props[REQUIRES_GRAD] = "False"
        elif value.metadata_props.get(KIND) is None and tensor.size > MAX_CONSTANT:
            raise ExportError(f"constant '{name}' of shape {list(value.shape)} has {tensor.size} elements: a folded weight or a large table")


def _mark_shared(graph):
    for value in graph.initializers.values():
        if value.metadata_props.get(KIND) == "PARAMETER" and len(value.uses()) > 1:
            value.metadata_props[SHARED] = "True"


def _drops(dropout):
    """Whether a Dropout node has a rate other than 0 and is in training mode."""
    values = [v.const_value if v is not None else None for v in dropout.inputs[1:3]]
    rate, training = (v.numpy().item() if v is not None else None for v in (*values, None, None)[:2])
    return rate != 0 and training is not False


def _training_batch_norm(graph, module):
    """Gives BatchNorm of modules in train mode its training form back, which the exporter drops."""
    training = {n for n, m in module.named_modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm) and m.training and m.running_mean is not None}
    for node in graph:
        if node.op_type != "BatchNormalization":
            continue
        name = (node.inputs[3].name or "").removesuffix("running_mean").removesuffix(".")
        if name not in training:
            continue
        training.discard(name)
        node.attributes["training_mode"] = ir.AttrInt64("training_mode", 1)
        node.resize_outputs(3)
        for output, statistic in zip(node.outputs[1:], node.inputs[3:]):
            output.name = f"{statistic.name}.after"
            output.type, output.shape = statistic.type, statistic.shape
    if training:
        raise ExportError(f"BatchNorm '{min(training)}' is in train mode, but the exporter's form of it is not known; call module.eval() if fixed statistics are meant")


def _strip_traces(graph):
    """Python stack traces: half of a file's size, with the paths of whoever exported it."""
    for node in graph.all_nodes():
        node.metadata_props.pop("pkg.torch.onnx.stack_trace", None)


def parameter_count(proto):
    """Elements of all initializers marked PARAMETER."""
    marked = {v.name for v in proto.graph.value_info for p in v.metadata_props if p.key == KIND and p.value == "PARAMETER"}
    total = 0
    for t in proto.graph.initializer:
        if t.name in marked:
            n = 1
            for d in t.dims:
                n *= d
            total += n
    return total


def op_counts(proto: onnx.ModelProto):
    """Operator name -> number of nodes."""
    counts = {}
    for node in proto.graph.node:
        counts[node.op_type] = counts.get(node.op_type, 0) + 1
    return dict(sorted(counts.items()))
