# ===- lowering.py - operators that PyTorch's exporter writes wrongly ---------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# torch.onnx drops arguments that ONNX's operators do not have (label_smoothing,
# divisor_override), writes files that are not valid (probabilities as labels), and
# takes formulas that overflow (the logarithm of a sigmoid). While a module is
# traced, these calls are made of operators that it writes rightly.
# ===-----------------------------------------------------------------------===
"""Lowered, TRANSLATIONS, weighted_l1_loss: PyTorch's functions as ONNX has them, argument by argument."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from onnxscript import opset18 as op
from torch import nn
from torch.utils._python_dispatch import _disable_current_modes

from .errors import ExportError, place_of_code

# The functions themselves: while a module is traced, others stand in their place.
L1_LOSS, CROSS_ENTROPY, BATCH_NORM, INTERPOLATE = F.l1_loss, F.cross_entropy, F.batch_norm, F.interpolate
REDUCTIONS = {"none": lambda x: x, "sum": torch.sum, "mean": torch.mean}


class Lowered(torch.overrides.TorchFunctionMode):
    """Replaces the calls of LOWERED; `module` is what is traced."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def __torch_function__(self, func, types, args=(), kwargs=None):
        lowered = LOWERED.get(func)
        if func is BATCH_NORM:
            return self._batch_norm(*args, **(kwargs or {}))
        return (lowered or func)(*args, **(kwargs or {}))

    def _batch_norm(self, input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
        """In training statistics are the batch's; PyTorch's exporter takes the running ones. Those of layers are mended in the graph."""
        layers = (m for m in self.module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm))
        if training and running_mean is not None and not any(m.running_mean is running_mean for m in layers):
            running_mean = running_var = None
        return BATCH_NORM(input, running_mean, running_var, weight, bias, training, momentum, eps)


def weighted_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """F.l1_loss, which loses its weight wherever calls of PyTorch are watched."""
    if weight is None:
        return L1_LOSS(input, target, size_average, reduce, reduction)
    if weight.shape != input.shape:
        raise ValueError("Weights and input must have the same size.")
    if size_average is not None or reduce is not None:
        reduction = F._Reduction.legacy_get_string(size_average, reduce)
    errors = (input - target).abs() * weight
    return errors.sum() / weight.sum() if reduction == "mean" else REDUCTIONS[reduction](errors)


def _cross_entropy(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0):
    if size_average is not None or reduce is not None:
        reduction = F._Reduction.legacy_get_string(size_average, reduce)
    if input.dim() == 1 and not target.is_floating_point():
        # One item without an axis that counts them, as ONNX wants.
        loss = _cross_entropy(input[None], target.reshape(1), weight, None, ignore_index, None, reduction, label_smoothing)
        return loss.reshape(()) if reduction == "none" else loss
    if target.is_floating_point():
        return _probabilities(input, target, weight, reduction, label_smoothing)
    if label_smoothing == 0.0:
        return CROSS_ENTROPY(input, target, weight, None, ignore_index, None, reduction)
    # (1 - s) times the label's loss and s times the mean of all classes', over the items that are not ignored.
    taken = target != ignore_index
    log_probabilities = F.log_softmax(input, 1)
    classes = log_probabilities if weight is None else log_probabilities * _by_class(weight, input)
    uniform = torch.where(taken, -classes.mean(1), 0.0)
    own = CROSS_ENTROPY(input, target, weight, None, ignore_index, None, "none")
    loss = (1 - label_smoothing) * own + label_smoothing * uniform
    if reduction != "mean":
        return REDUCTIONS[reduction](loss)
    share = taken.to(input.dtype)
    if weight is not None:
        share = share * weight[torch.where(taken, target, 0)]
    return loss.sum() / share.sum()


def _probabilities(input, target, weight, reduction, label_smoothing):
    """Cross entropy of labels that are probabilities of classes: a mean over items, whatever their weight."""
    axis = 0 if input.dim() == 1 else 1
    if label_smoothing:
        target = target * (1 - label_smoothing) + label_smoothing / input.shape[axis]
    loss = -target * F.log_softmax(input, axis)
    loss = (loss if weight is None else loss * _by_class(weight, input)).sum(axis)
    return REDUCTIONS[reduction](loss)


def _by_class(weight, input):
    return weight if input.dim() == 1 else weight.reshape(1, -1, *[1] * (input.dim() - 2))


def _linear_cross_entropy(input, linear_weight, target, *, linear_bias=None, weight=None, reduction="mean", ignore_index=None, label_smoothing=0.0, options=None):
    classes, *places, width = linear_weight.shape
    logits = F.linear(input, linear_weight.reshape(-1, width), None if linear_bias is None else linear_bias.reshape(-1))
    logits = logits.reshape(*input.shape[:-1], classes, *places)
    return _cross_entropy(logits, target, weight, None, -100 if ignore_index is None else ignore_index, None, reduction, label_smoothing)


def _average_pool(function, axes):
    def pool(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
        if divisor_override is None:
            return function(input, kernel_size, stride or kernel_size, padding, ceil_mode, count_include_pad)
        kernel, steps, rims = (_each(v, axes) for v in (kernel_size, stride or kernel_size, padding))
        # Zeros where windows reach over the edge, so that all have as many elements.
        sides = []
        for size, k, step, rim in zip(input.shape[-axes:], kernel, steps, rims):
            over = _over(size, k, step, rim) if ceil_mode else 0
            sides = [rim, rim + over, *sides]
        return function(F.pad(input, sides), kernel, steps) * (math.prod(kernel) / divisor_override)

    return pool


def _each(value, axes):
    values = list(value) if isinstance(value, (tuple, list)) else [value]
    return values * axes if len(values) == 1 else values


def _over(size, kernel, step, rim):
    """By how much the last window reaches over the padded edge; it begins before the right padding does."""
    count = -(-(size + 2 * rim - kernel) // step) + 1
    if (count - 1) * step >= size + rim:
        count -= 1
    return max((count - 1) * step + kernel - size - 2 * rim, 0)


def _interpolate(input, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None, antialias=False):
    """Resizing with antialiasing is a product with a matrix an axis, where the exporter has none or drops the scale."""
    settings = {"mode": mode, "align_corners": align_corners, "antialias": antialias}
    scaled = scale_factor is not None and not recompute_scale_factor
    if not antialias or not (scaled or align_corners or mode == "lanczos") or input.dim() != 4:
        return INTERPOLATE(input, size, scale_factor, recompute_scale_factor=recompute_scale_factor, **settings)
    if scale_factor is not None and not scaled:
        size, scale_factor = [int(s * f) for s, f in zip(input.shape[2:], _each(scale_factor, 2))], None
    rows, columns = input.shape[2:]
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise ExportError(f"interpolate with antialias of a size that varies{place_of_code()} has no ONNX form: give dynamic_shapes no name for it")
    matrices = []
    for axis, length in enumerate((rows, columns)):
        # What resizing makes of the identity, whose other axis keeps its size.
        to = {"scale_factor": (_each(scale_factor, 2)[axis], 1.0)} if scaled else {"size": (_each(size, 2)[axis], length)}
        with _disable_current_modes():
            matrix = INTERPOLATE(torch.eye(length)[None, None], **to, **settings)[0, 0].tolist()
        matrices.append(torch.tensor(matrix, dtype=input.dtype))
    return matrices[0] @ input @ matrices[1].T


def _attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    if dropout_p:
        raise ExportError(f"scaled_dot_product_attention with dropout_p draws random numbers{place_of_code()}: call module.eval(), or make it 0")
    if query.dim() == key.dim() == value.dim() == 3 and (attn_mask is None or attn_mask.dim() <= 3):
        # The exporter knows four axes only. The first stays first, where items are that a batch is cut by, unless it is heads that share keys.
        axis = 1 if query.shape[0] == key.shape[0] == value.shape[0] else 0
        query, key, value = (x.unsqueeze(axis) for x in (query, key, value))
        mask = attn_mask.unsqueeze(axis) if attn_mask is not None and attn_mask.dim() == 3 else attn_mask
        return F.scaled_dot_product_attention(query, key, value, mask, 0.0, is_causal, scale=scale, enable_gqa=enable_gqa and axis == 0).squeeze(axis)
    return F.scaled_dot_product_attention(query, key, value, attn_mask, 0.0, is_causal, scale=scale, enable_gqa=enable_gqa)


def _softmax(function):
    def lowered(input, dim=None, _stacklevel=3, dtype=None):
        """The exporter casts afterwards, and ONNX has no softmax of integers."""
        return function(input if dtype is None else input.to(dtype), dim, _stacklevel)

    return lowered


LOWERED = {
    F.cross_entropy: _cross_entropy,
    F.linear_cross_entropy: _linear_cross_entropy,
    F.avg_pool2d: _average_pool(F.avg_pool2d, 2),
    F.avg_pool3d: _average_pool(F.avg_pool3d, 3),
    F.interpolate: _interpolate,
    F.scaled_dot_product_attention: _attention,
    F.softmax: _softmax(F.softmax),
    F.log_softmax: _softmax(F.log_softmax),
    F.softmin: _softmax(F.softmin),
}


def _log_sigmoid(x):
    """The exporter's logarithm of a sigmoid is -inf from -104 on, and has few digits above 10."""
    y = op.Neg(op.Softplus(op.Neg(x)))
    return y


def _log_sigmoid_forward(x):
    y = _log_sigmoid(x)
    return y, y


TRANSLATIONS = {
    torch.ops.aten.log_sigmoid.default: _log_sigmoid,
    torch.ops.aten.log_sigmoid_forward.default: _log_sigmoid_forward,
}
