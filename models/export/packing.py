# ===- packing.py - a library's models without padding ------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Texts stand one behind another in one row of tokens, pictures in one list of
# patches. The libraries keep them apart by kernels that take offsets, or by loops
# over lists of lengths, and neither has an ONNX form. Here masks do that which
# compare a number per row: the text, the picture or the window that it is of.
# ===-----------------------------------------------------------------------===
"""Packed, PackedTower, PackedLanguage: modules around a library's models, for export()."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from .wrappers import _half_turn


def same(numbers):
    """[..., n] -> [..., n, n]: whether two rows have one number."""
    return numbers[..., :, None] == numbers[..., None, :]


def causal(segments):
    """[1, seq] -> [1, 1, seq, seq]: what stands before in the same text."""
    rows = torch.arange(segments.shape[1])
    return (same(segments) & (rows[:, None] >= rows[None, :]))[:, None]


class Packed(nn.Module):
    """A causal language model of transformers on texts one behind another.

    net  a ...ForCausalLM whose layers attend to all that stands before, or to a sliding window of it.

    input_ids, position_ids (from 0 in each text), segments (another number for each text), all [1, seq] -> logits
    [1, seq, vocabulary].
    """

    def __init__(self, net):
        super().__init__()
        self.net = net

    def masks(self, position_ids, segments):
        """What transformers takes as attention_mask: one mask, or one for each kind of layers."""
        mask, rows = causal(segments), torch.arange(segments.shape[1])
        window, kinds = getattr(self.net.config, "sliding_window", None), getattr(self.net.config, "layer_types", None)
        near = mask & (rows[:, None] - rows[None, :] < window) if window else mask
        return {"full_attention": mask, "sliding_attention": near} if kinds else near

    def forward(self, input_ids, position_ids, segments):
        return self.net(input_ids=input_ids, position_ids=position_ids, attention_mask=self.masks(position_ids, segments), use_cache=False).logits


class PackedTower(nn.Module):
    """The vision tower of Qwen2-VL or Qwen2.5-VL on pictures of any shape.

    net        `visual` of one of these models.
    reordered  patches of a window are put together, as the library does; then window_index [merged] says which merged
               row stands where, window_places is its inverse, and windows are in that order.

    pixel_values [patches, features], positions [patches, 2] (get_vision_position_ids), segments and windows [patches]:
    the number of the picture and of the window that a patch is of (Qwen2-VL has no windows) -> rows [merged, width of the text].
    """

    def __init__(self, net, reordered=False):
        super().__init__()
        self.net, self.reordered = net, reordered

    def forward(self, pixel_values, positions, segments, windows=None, window_index=None, window_places=None):
        net = self.net
        x = net.patch_embed(pixel_values)
        cos, sin = net.rotary_pos_emb(x, positions)
        if self.reordered:
            x, cos, sin = (v.reshape(-1, net.spatial_merge_unit * v.shape[-1])[window_index].reshape(-1, v.shape[-1]) for v in (x, cos, sin))
        whole, window = (None if v is None else same(v)[None, None] for v in (segments, windows))
        everywhere = getattr(net, "fullatt_block_indexes", range(len(net.blocks)))
        for i, block in enumerate(net.blocks):
            x = x + self._attention(block.attn, block.norm1(x), cos, sin, whole if i in everywhere else window)
            x = x + block.mlp(block.norm2(x))
        rows = net.merger(x)
        return rows[window_places] if self.reordered else rows

    @staticmethod
    def _attention(attention, x, cos, sin, mask):
        q, k, v = attention.qkv(x).reshape(x.shape[0], 3, attention.num_heads, attention.head_dim).unbind(1)
        q, k = (t * cos[:, None] + _half_turn(t) * sin[:, None] for t in (q, k))
        q, k, v = (t.transpose(0, 1)[None] for t in (q, k, v))
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=attention.scaling)
        return attention.proj(out[0].transpose(0, 1).reshape(x.shape))


class PackedLanguage(nn.Module):
    """The language model of Qwen2.5-VL on texts one behind another.

    net  Qwen2_5_VLForConditionalGeneration; its tower is left out.

    input_ids and segments [1, seq], position_ids [3, 1, seq] (get_rope_index of each text), image_embeds [merged, width]
    and image_rows [merged], which says at which of the seq tokens each of them stands -> logits [1, seq, vocabulary].
    """

    def __init__(self, net):
        super().__init__()
        self.model, self.lm_head = net.model.language_model, net.lm_head

    def forward(self, input_ids, position_ids, segments, image_embeds, image_rows):
        x = self.model.embed_tokens(input_ids)
        x = x.reshape(-1, x.shape[-1]).index_put((image_rows,), image_embeds).reshape(x.shape)
        states = self.model(inputs_embeds=x, position_ids=position_ids, attention_mask={"full_attention": causal(segments)}, use_cache=False)
        return self.lm_head(states.last_hidden_state)
