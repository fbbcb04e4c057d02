# ===- packing.py - a library's models without padding ------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Texts stand one behind another in one row of tokens, pictures in one list of
# patches. The libraries keep them apart by kernels that take offsets, or by loops
# over lists of lengths, and neither has an ONNX form. Here masks do that which
# compare a number per row: the text, the picture or the window that it is of.
# ===-----------------------------------------------------------------------===
"""Packed, PackedTower, DeepstackTower, NaflexTower, PackedLanguage, BlockLanguage, PackedDecoder: modules around a library's models, for export()."""

from __future__ import annotations

import numpy as np
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


def masks(config, segments, blocks=None):
    """What transformers takes as attention_mask: one mask, or one for each kind of layers. Rows of one number in `blocks` see one another, whichever is first."""
    rows = torch.arange(segments.shape[1])
    before = rows[:, None] >= rows[None, :]
    window, kinds = getattr(config, "sliding_window", None), getattr(config, "layer_types", None)
    near = before & (rows[:, None] - rows[None, :] < window) if window else before
    whole, near = (same(segments)[:, None] & (m if blocks is None else m | same(blocks)[:, None]) for m in (before, near))
    if getattr(config, "_attn_implementation", None) == "eager":  # which adds masks
        whole, near = (torch.where(m, 0.0, -torch.inf) for m in (whole, near))
    return {"full_attention": whole, "sliding_attention": near} if kinds else near


def placed(x, places, rows, add=False):
    """[1, seq, width] with rows [n, width] at these places of seq, or added to what is there."""
    return x.reshape(-1, x.shape[-1]).index_put((places,), rows, accumulate=add).reshape(x.shape)


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
        return masks(self.net.config, segments)

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
            x = self._block(block, x, cos, sin, whole if i in everywhere else window)
        rows = net.merger(x)
        return rows[window_places] if self.reordered else rows

    def _block(self, block, x, cos, sin, mask):
        x = x + self._attention(block.attn, block.norm1(x), cos, sin, mask)
        return x + block.mlp(block.norm2(x))

    @staticmethod
    def _attention(attention, x, cos, sin, mask):
        q, k, v = attention.qkv(x).reshape(x.shape[0], 3, attention.num_heads, attention.head_dim).unbind(1)
        q, k = (t * cos[:, None] + _half_turn(t) * sin[:, None] for t in (q, k))
        q, k, v = (t.transpose(0, 1)[None] for t in (q, k, v))
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=attention.scaling)
        return attention.proj(out[0].transpose(0, 1).reshape(x.shape))


class DeepstackTower(PackedTower):
    """The vision tower of Qwen3-VL on pictures of any shape.

    net  `visual` of Qwen3VLForConditionalGeneration.

    pixel_values [patches, features], positions [patches, 2] (get_vision_position_ids), segments [patches]: the number of
    the picture that a patch is of; indices and weights [patches, 4]: what of the table of position embeddings a patch has
    (get_vision_interpolation_indices_and_weights, with align_corners=True and the model's num_grid_per_side and
    spatial_merge_size) -> rows [merged, width of the text], and as many for each of deepstack_visual_indexes.
    """

    def forward(self, pixel_values, positions, segments, indices, weights):
        net = self.net
        x = net.patch_embed(pixel_values) + (net.pos_embed(indices) * weights[:, :, None]).sum(1)
        cos, sin = net.rotary_pos_emb(x, positions)
        mask, tapped = same(segments)[None, None], []
        for i, block in enumerate(net.blocks):
            x = self._block(block, x, cos, sin, mask)
            if i in net.deepstack_visual_indexes:
                merger = net.deepstack_merger_list[net.deepstack_visual_indexes.index(i)]
                tapped.append(merger(x))
        return net.merger(x), *tapped


class NaflexTower(nn.Module):
    """The vision tower of SigLIP 2 (NaFlex) on pictures of any shape.

    net     Siglip2VisionModel.
    then    what rows go through behind it, such as a LLaVA's projector.
    pooled  a row for each picture, of the model's pooling head, and not for each patch.

    pixel_values [patches, features], segments [patches]: the number of the picture that a patch is of; row_weights and
    column_weights [patches, side]: how much of each row and column of the table of position embeddings a patch has
    (naflex_weights); with `pooled` pictures [images]: their numbers -> rows [patches, width] or [images, width].
    """

    def __init__(self, net, then=None, pooled=False):
        super().__init__()
        self.net, self.then, self.pooled = net, then or nn.Identity(), pooled

    def forward(self, pixel_values, segments, row_weights, column_weights, pictures=None):
        net = self.net
        table = net.embeddings.position_embedding.weight
        weights = (row_weights[:, :, None] * column_weights[:, None, :]).reshape(-1, table.shape[0])
        x = net.embeddings.patch_embedding(pixel_values) + weights @ table
        x = net.encoder(inputs_embeds=x[None], attention_mask=same(segments)[None, None]).last_hidden_state
        x = net.post_layernorm(x)[0]
        return self.then(self._pool(x, pictures[:, None] == segments[None, :]) if self.pooled else x)

    def _pool(self, x, mask):
        """As Siglip2MultiheadAttentionPoolingHead; mask [images, patches]: whose patch it is."""
        head, attention = self.net.head, self.net.head.attention
        weights = zip(attention.in_proj_weight.chunk(3), attention.in_proj_bias.chunk(3))
        probes = head.probe[0].expand(mask.shape[0], -1)
        q, k, v = (F.linear(t, *w).unflatten(-1, (attention.num_heads, -1)).transpose(0, 1)[None] for t, w in zip((probes, x, x), weights))
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[None, None])
        x = attention.out_proj(out[0].transpose(0, 1).flatten(1))
        return x + head.mlp(head.layernorm(x))


def naflex_weights(shapes, side):
    """(row_weights, column_weights), each [patches, side] in float32: what NaflexTower takes beside the patches.

    shapes  (height, width) in patches of each picture, whose patches stand row by row.
    side    of the square table of position embeddings: config.num_patches ** 0.5.
    """
    pairs = [(np.repeat(_resized(side, h), w, 0), np.tile(_resized(side, w), (h, 1))) for h, w in shapes]
    return tuple(np.concatenate([np.zeros((0, side), np.float32), *part]) for part in (zip(*pairs) if pairs else ((), ())))


def _resized(side, size):
    """[size, side]: weights of F.interpolate(mode="bilinear", align_corners=False, antialias=True) along one axis."""
    scale = side / max(size, 1)
    center = (np.arange(size) + 0.5) * scale - 0.5
    weights = np.maximum(1 - np.abs(np.arange(side) - center[:, None]) / max(scale, 1), 0)
    return (weights / weights.sum(1, keepdims=True)).astype(np.float32)


class PackedLanguage(nn.Module):
    """The language model of a vision-language model of transformers on texts one behind another.

    net  LlavaForConditionalGeneration, or that of Qwen2-VL, Qwen2.5-VL or Qwen3-VL; its tower is left out.

    input_ids and segments [1, seq], position_ids ([3, 1, seq] of Qwen's models, get_rope_index of each text; else [1, seq],
    from 0 in each text), image_embeds [merged, width] and image_rows [merged], which says at which of the seq tokens each of
    them stands; with Qwen3-VL DeepstackTower's further outputs -> logits [1, seq, vocabulary].
    """

    def __init__(self, net):
        super().__init__()
        self.model, self.lm_head = getattr(net.model, "language_model", None) or net.model.text_model, net.lm_head

    def forward(self, input_ids, position_ids, segments, image_embeds, image_rows, *deepstack):
        x = placed(self.model.embed_tokens(input_ids), image_rows, image_embeds)
        if not deepstack:
            mask = masks(self.model.config, segments)
            return self.lm_head(self.model(inputs_embeds=x, position_ids=position_ids, attention_mask=mask, use_cache=False).last_hidden_state)
        # The library looks for the places with a mask of bools, whose rows no graph can count.
        tables = self.model.rotary_emb(x, position_ids)
        for i, layer in enumerate(self.model.layers):
            x = layer(x, attention_mask=causal(segments), position_embeddings=tables)
            if i < len(deepstack):
                x = placed(x, image_rows, deepstack[i], add=True)
        return self.lm_head(self.model.norm(x))


class BlockLanguage(PackedLanguage):
    """The language model of Gemma 3 or PaliGemma on texts one behind another: tokens of a block see one another.

    As PackedLanguage, but for `blocks` [1, seq], behind segments: tokens of one picture (or of a prompt) have one number,
    every other token has one of its own. `cap`: logits are cap * tanh(logits / cap) (PaliGemma 2).
    """

    def __init__(self, net, cap=None):
        super().__init__(net)
        self.cap = cap

    def forward(self, input_ids, position_ids, segments, blocks, image_embeds, image_rows):
        x = placed(self.model.embed_tokens(input_ids), image_rows, image_embeds)
        mask = masks(self.model.config, segments, blocks)
        logits = self.lm_head(self.model(inputs_embeds=x, position_ids=position_ids, attention_mask=mask, use_cache=False).last_hidden_state)
        return logits if self.cap is None else torch.tanh(logits / self.cap) * self.cap


class PackedDecoder(nn.Module):
    """The decoder of Whisper on texts one behind another, each beside its own recording.

    net  WhisperForConditionalGeneration; its encoder is left out.

    input_ids, position_ids (from 0 in each text) and segments [1, seq], audio_states [clips, frames, width] of the encoder and
    audio_segments [1, clips * frames]: the number that the recording's text has in `segments` -> logits [1, seq, vocabulary].
    """

    def __init__(self, net):
        super().__init__()
        self.decoder, self.proj_out = net.model.decoder, net.proj_out

    def forward(self, input_ids, position_ids, segments, audio_states, audio_segments):
        decoder = self.decoder
        x = decoder.embed_tokens(input_ids) + decoder.embed_positions.weight[position_ids]
        states = audio_states.reshape(1, -1, audio_states.shape[-1])
        mask, heard = causal(segments), (segments[:, :, None] == audio_segments[:, None, :])[:, None]
        for layer in decoder.layers:
            x = layer(x, attention_mask=mask, encoder_hidden_states=states, encoder_attention_mask=heard, use_cache=False)
        return self.proj_out(decoder.layer_norm(x))
