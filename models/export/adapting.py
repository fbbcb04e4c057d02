# ===- adapting.py - a module as it is traced --------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Libraries choose code for speed in PyTorch: experts that take only their own
# tokens, attention of other packages, picture rows put in place by position. What
# these compute has shapes that depend on data, or no ONNX form. While a module is
# traced, code that computes the same with known shapes takes their place; the
# module is as before afterwards.
# ===-----------------------------------------------------------------------===
"""traceable, without_dropout: what of a module is replaced while it is traced or compared."""

from __future__ import annotations

import contextlib
import inspect
import os
import statistics
import warnings

import torch
import torch.nn.functional as F
from torch import nn

from .lowering import Lowered, weighted_l1_loss

ATTENTION = ("sdpa", "eager")  # transformers' implementations that ONNX has a form for


@contextlib.contextmanager
def without_dropout(module, tell=False):
    """Modules in train mode that leave out numbers at random are as in evaluation; `tell`: with a warning that names them."""
    found = [(name, m) for name, m in module.named_modules() if m.training and _drops(m)]
    if found and tell:
        names = ", ".join(f"'{name or type(m).__name__}'" for name, m in found[:3]) + (", …" if len(found) > 3 else "")
        warnings.warn(f"dropout is left out of the graph: {len(found)} modules in train mode have it ({names})", stacklevel=6)
    for _, m in found:
        m.training = False
    try:
        yield module
    finally:
        for _, m in found:
            m.training = True


def _drops(module):
    if isinstance(module, nn.modules.dropout._DropoutNd):
        return module.p > 0
    return any(isinstance(v, float) and v > 0 for k, v in vars(module).items() if "drop" in k.lower())


@contextlib.contextmanager
def traceable(module):
    """The module is as its graph is written, without gradients (attention then has the strides that its decomposition has)."""
    with without_dropout(module, tell=True), torch.no_grad(), Lowered(module), _Complex(), contextlib.ExitStack() as stack:
        _set(stack, torch.Tensor, "masked_scatter", _masked_scatter)
        _set(stack, torch, "isin", _is_in)
        _set(stack, F, "l1_loss", weighted_l1_loss)
        for code in {inspect.getmodule(type(m)) for m in module.modules()} - {None}:
            if not code.__name__.startswith("torch.") and not hasattr(code, "len"):
                code.len = _length
                stack.callback(delattr, code, "len")
        models = _library_models(module)
        if models:
            # Its checks of values become assertions in the trace, which have no ONNX form.
            stack.enter_context(_environment("TRANSFORMERS_DISABLE_TORCH_CHECK", "1"))
            _experts(models, stack)
            _attention(models, stack)
            _special(models, stack)
        yield module


@contextlib.contextmanager
def _environment(name, value):
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _set(stack, owner, name, value):
    before = getattr(owner, name)
    setattr(owner, name, value)
    stack.callback(setattr, owner, name, before)


# --- implementations of transformers -------------------------------------------


def _library_models(module):
    """Submodules that are models of transformers (nothing of it is imported for others)."""
    return [m for m in module.modules() if hasattr(m, "config") and any(c.__module__ == "transformers.modeling_utils" for c in type(m).__mro__)]


def _experts(models, stack):
    """Each row is multiplied by the weight of its expert, which is gathered: the compiler knows this form. The library's others have loops over data, or operators of their own."""
    for config in {id(m.config): m.config for m in models}.values():
        if getattr(config, "_experts_implementation", None) is not None:
            _set(stack, config, "_experts_implementation_internal", "batched_mm")


def _attention(models, stack):
    """Attention is an implementation that ONNX has a form for; what is not (flash, flex) computes the same."""
    for model in models:
        config = model.config
        if getattr(config, "_attn_implementation", None) not in (None, *ATTENTION):
            _set(stack, config, "_attn_implementation_internal", "sdpa" if getattr(model, "_supports_sdpa", False) else "eager")


# --- operators ------------------------------------------------------------------


def _masked_scatter(self, mask, source):
    """Elements of `source`, in order, where `mask` is true: by counting, as positions from data have no fixed number."""
    mask = mask.expand_as(self)
    if mask.dim() > 1 and mask.stride(-1) == 0 and source.shape[-1] == self.shape[-1]:
        # Whole rows: one index a row instead of one an element.
        rows = mask[..., 0]
        return torch.where(rows[..., None], _in_order(rows, source.reshape(-1, source.shape[-1])).reshape(self.shape), self)
    return torch.where(mask, _in_order(mask, source.flatten()).reshape(self.shape), self)


def _in_order(mask, source):
    """For the k-th true place of `mask` row k - 1 of `source`, of which there may be none: number 0 is a row of zeros, for places before the first."""
    return torch.cat([source.new_zeros(1, *source.shape[1:]), source])[mask.flatten().long().cumsum(0)]


def _is_in(elements, test_elements, *, assume_unique=False, invert=False):
    """By comparing: PyTorch's decomposition sorts and searches, which has no ONNX form."""
    found = (torch.as_tensor(elements)[..., None] == torch.as_tensor(test_elements).flatten()).any(-1)
    return ~found if invert else found


def _length(x):
    """len(x), which Python makes a number: of a tensor the dim, which may vary."""
    return x.shape[0] if isinstance(x, torch.Tensor) and x.dim() else len(x)


class _Complex(torch.overrides.TorchFunctionMode):
    """Views of complex numbers by those of PyTorch's operators that its exporter writes for them: as pairs of real ones."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        view = _COMPLEX.get(getattr(func, "__name__", ""))
        if view is not None and args and isinstance(args[0], torch.Tensor) and args[0].is_complex():
            return view(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _pieces(x, split_size_or_sections, dim=0):
    sizes, length = split_size_or_sections, x.shape[dim]
    if isinstance(sizes, int):
        sizes = [min(sizes, length - at) for at in range(0, length, sizes)]
    return tuple(x.narrow(dim, sum(sizes[:i]), size) for i, size in enumerate(sizes))


def _unsqueezed(x, dim):
    dim = dim % (x.dim() + 1)
    return x.reshape(*x.shape[:dim], 1, *x.shape[dim:])


def _expanded(x, *size):
    size = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
    x = x.reshape(*[1] * (len(size) - x.dim()), *x.shape)
    for dim, length in enumerate(size):
        if length not in (-1, x.shape[dim]):
            x = torch.cat([x] * length, dim)
    return x


_COMPLEX = {"split": _pieces, "split_with_sizes": _pieces, "unsqueeze": _unsqueezed, "expand": _expanded}


# --- models of transformers that need more ------------------------------------------


def _real_rotary(self, x, position_ids):
    """Llama 4's rotation as cosine and sine instead of complex numbers: [..., pairs, 2]."""
    angles = position_ids[..., None].float() * self.inv_freq.float()
    return torch.stack([angles.cos(), angles.sin()], -1) * self.attention_scaling


def _rotate_pairs(queries, keys, turns):
    def rotate(x):
        a, b = x.float().unflatten(-1, (-1, 2)).unbind(-1)
        cos, sin = turns[:, :, None].unbind(-1)
        return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2).type_as(x)

    return rotate(queries), rotate(keys)


def _llama4_experts(self, hidden_states):
    """Llama 4's experts: the library runs all of them on every token, times 0 where they were not chosen."""
    x = hidden_states.reshape(-1, self.hidden_dim)
    logits = self.router(x)[1]
    values, chosen = torch.topk(logits, self.top_k, dim=1)
    rows = x.repeat_interleave(self.top_k, dim=0) * torch.sigmoid(values.float()).to(x.dtype).reshape(-1, 1)
    chosen = chosen.reshape(-1)
    gate, up = torch.bmm(rows[:, None], self.experts.gate_up_proj[chosen])[:, 0].chunk(2, dim=-1)
    out = torch.bmm((up * self.experts.act_fn(gate))[:, None], self.experts.down_proj[chosen])
    return self.shared_expert(x) + out.view(-1, self.top_k, self.hidden_dim).sum(1), logits


def _all_images(self, pixel_values, pixel_attention_mask=None, **settings):
    """Idefics 3's and SmolVLM's picture rows, where every picture is one: those left black as padding count too."""
    if pixel_attention_mask is not None:
        raise ValueError("pixel_attention_mask is not exported: pictures must fill their size")
    pictures = pixel_values.flatten(0, 1)
    output = self.vision_model(pixel_values=pictures, patch_attention_mask=None, return_dict=True)
    rows = self.connector(output.last_hidden_state)
    output.pooler_output = [rows.flatten(0, 1)]
    return output


def _one_list(module, inputs, output):
    """LLaVA lists the pictures' rows one by one, which fixes how many there are: all of them count as one picture's."""
    return output.flatten(0, 1)[None]


def _sparse_above(self, inputs):
    """Gemma 3n's cut of small activations: the normal distribution's quantile is a number, and its inverse error function has no ONNX form."""
    cut = inputs.mean(-1, keepdim=True) + statistics.NormalDist().inv_cdf(self.activation_sparsity) * inputs.std(-1, keepdim=True, unbiased=False)
    return F.relu(inputs - cut)


def _special(models, stack):
    for m in models:
        kind = type(m).__name__
        if kind == "Llama4TextModel":
            code = inspect.getmodule(type(m))
            _set(stack, code.Llama4TextRotaryEmbedding, "forward", _real_rotary)
            _set(stack, code, "apply_rotary_emb", _rotate_pairs)
            _set(stack, code.Llama4TextMoe, "forward", _llama4_experts)
        elif kind == "Gemma3nTextModel":
            _set(stack, inspect.getmodule(type(m)).Gemma3nTextMLP, "_gaussian_topk", _sparse_above)
        elif kind in ("SmolVLMModel", "Idefics3Model"):
            _set(stack, type(m), "get_image_features", _all_images)
        elif kind == "LlavaModel":
            stack.callback(m.multi_modal_projector.register_forward_hook(_one_list).remove)
