# ===- requests.py - what export() is asked for -----------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# PyTorch's exporter takes names, dims and results that it then leaves out, or
# reads otherwise than they were meant. Here they are compared with the module
# and its example before anything is traced.
# ===-----------------------------------------------------------------------===
"""Refuses requests that PyTorch's exporter would take in silence."""

import inspect

import torch

from .gradients import ExportError, refuse_hooks

# What programs keep as float32: 16-bit floats are widened when a graph is imported.
FLOATS = (torch.float32, torch.bfloat16, torch.float16)


def check_request(module, example_inputs, dynamic_shapes, input_names, output_names):
    """Refuses what PyTorch's exporter would take in silence, and write something else than was meant."""
    refuse_hooks(module)
    for name, p in module.named_parameters():
        if p.is_floating_point() and p.dtype not in FLOATS:
            raise ExportError(f"parameter '{name}' is {str(p.dtype).removeprefix('torch.')}, and parameters must be float32, bfloat16 or float16: call module.float()")
    # A None among them is none of the graph's inputs, but may have a name.
    count = len(torch.utils._pytree.tree_leaves(tuple(example_inputs)))
    if len(input_names or ()) > count:
        raise ExportError(f"input_names has more names ({len(input_names)}) than there are example inputs ({count})")
    both = [name for name in input_names or () if name in (output_names or ())]
    if both:
        raise ExportError(f"'{both[0]}' is in input_names and in output_names: a name stands for one value")
    for kind, names in (("input_names", input_names or ()), ("output_names", output_names or ())):
        twice = [name for name in names if list(names).count(name) > 1]
        if twice:
            raise ExportError(f"{kind} has '{twice[0]}' twice: a name stands for one value")
    if isinstance(dynamic_shapes, dict):
        _check_keys(module, dynamic_shapes, input_names)
    _check_axes(module, dynamic_shapes or (), input_names, example_inputs)


def _check_keys(module, dynamic_shapes, input_names):
    """Refuses a key of dynamic_shapes that names no input: its dims would stay fixed."""
    parameters = inspect.signature(module.forward).parameters.values()
    known = [p.name for p in parameters] if input_names is None else input_names
    wrong = next((key for key in dynamic_shapes if key not in known), None)
    if wrong is None:
        return
    if input_names is None:
        raise ExportError(f"dynamic_shapes has the key '{wrong}', which is no parameter of forward: without input_names keys are forward's parameters ({_quoted(known)})")
    names = _names_of(parameters, input_names).get(wrong)
    stands = f"; forward's '{wrong}' is {_quoted(names)} there" if names else ""
    raise ExportError(f"dynamic_shapes has the key '{wrong}', which names no input: keys are the names in input_names ({_quoted(known)}){stands}")


def _check_axes(module, dynamic_shapes, input_names, example_inputs):
    """Refuses an axis that the example does not have; a negative one would stay fixed."""
    names = input_names if input_names is not None else list(inspect.signature(module.forward).parameters)
    sizes = {}
    for name, dims, x in zip(names, shapes_by_input(module, dynamic_shapes, input_names), example_inputs):
        if not isinstance(dims, dict) or not isinstance(x, torch.Tensor):
            continue
        wrong = next((axis for axis in dims if axis not in range(x.dim())), None)
        if wrong is not None:
            raise ExportError(f"dynamic_shapes has the axis {wrong!r} for input '{name}', whose example has {x.dim()} axes, counted from 0")
        for axis, dim in dims.items():
            first, size = sizes.setdefault(dim if isinstance(dim, str) else (name, axis), (name, x.shape[axis]))
            if size != x.shape[axis]:
                raise ExportError(f"dynamic_shapes has the dim '{dim}' for input '{name}', whose example has size {x.shape[axis]} there, and for '{first}', which has {size}: a name stands for one size")


def shapes_by_input(module, dynamic_shapes, input_names):
    """Axis -> dim of each input, in order."""
    names = input_names if input_names is not None else list(inspect.signature(module.forward).parameters)
    return [dynamic_shapes.get(name) for name in names] if isinstance(dynamic_shapes, dict) else list(dynamic_shapes)


def equal_dims(shapes):
    """A hook: for PyTorch dims of one name may differ, which some code then asks."""

    def tell(module, inputs):
        first = {}
        for axes, x in zip(shapes, inputs):
            for axis, dim in axes.items() if isinstance(axes, dict) and isinstance(x, torch.Tensor) else ():
                if isinstance(dim, str):
                    torch._check(x.shape[axis] == first.setdefault(dim, x.shape[axis]))

    return tell


def check_output(module, inputs, output):
    """A hook: refuses what forward returns that is no list of tensors, as it has no order or names that a graph could keep."""
    for value in output if isinstance(output, (tuple, list)) else (output,):
        if not isinstance(value, torch.Tensor):
            kind = type(value).__name__ + (f" in a {type(output).__name__}" if value is not output else "")
            raise ExportError(f"forward returns a value of type {kind}: an output is a tensor or a tuple of tensors (Pick takes fields of a result)")


def _names_of(parameters, input_names):
    """Parameter of forward -> the names of the inputs that it takes."""
    names, left = {}, list(input_names)
    for p in parameters:
        count = len(left) if p.kind == p.VAR_POSITIONAL else 1
        names[p.name], left = left[:count], left[count:]
    return names


def _quoted(names):
    return ", ".join(f"'{name}'" for name in names)
