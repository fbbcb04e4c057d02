# ===- wrappers.py - modules around a library's models ----------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A graph has tensors as inputs and outputs, and sizes that are known when it is
# compiled. Models whose forward() takes pictures of any size as one packed list,
# or reads sizes out of a tensor, get one of these around them. Parameters keep
# their names below `net.`.
# ===-----------------------------------------------------------------------===
"""Pick, FixedGrid, FixedShapes: modules around a library's models, for export()."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class Pick(nn.Module):
    """A library's model that returns only some of its outputs.

    inputs   forward()'s names for the values, in order.
    outputs  keys of what the model returns.
    fixed    further arguments of forward(), the same in every call.
    """

    def __init__(self, net, inputs, *outputs, **fixed):
        super().__init__()
        self.net, self.inputs, self.outputs, self.fixed = net, inputs, outputs, fixed

    def forward(self, *values):
        result = self.net(**dict(zip(self.inputs, values)), **self.fixed)
        return tuple(result[o] for o in self.outputs)


class FixedGrid(nn.Module):
    """Qwen2-VL or Qwen2.5-VL, or its vision tower alone, on pictures of one size.

    net   Qwen2VLForConditionalGeneration, Qwen2_5_VLForConditionalGeneration or the `visual` of one.
    grid  (time, height, width) of a picture in patches: a row of the processor's image_grid_thw.

    The tower: pixel_values [images, patches, features] -> rows [images, tokens, hidden].
    The whole model: input_ids [batch, seq], pixel_values as above, position_ids [batch, 3, seq] (see
    positions()) -> logits [batch, seq, vocabulary]; the pictures' rows go, in order, where image_token_id is.
    """

    def __init__(self, net, grid):
        super().__init__()
        self.net = net
        tower = self._tower()
        if not all(hasattr(tower, part) for part in ("patch_embed", "rotary_pos_emb", "blocks", "merger")) or hasattr(tower, "deepstack_merger_list"):
            raise ValueError(f"{type(net).__name__} has no vision tower of the kind of Qwen2-VL's or Qwen2.5-VL's")
        from transformers.vision_utils import get_vision_position_ids

        self.grid = torch.tensor([grid])
        time, height, width = grid
        merge = tower.spatial_merge_size
        if height % merge or width % merge:
            raise ValueError(f"a grid of {height} x {width} patches does not divide into the tower's {merge} x {merge}")
        self.patches, self.unit = time * height * width, merge * merge
        self.image_tokens = self.patches // self.unit
        place = get_vision_position_ids(self.grid, merge)
        order = torch.arange(self.patches)
        self.frame, self.window = height * width, None
        if hasattr(tower, "window_size"):
            order = self._windows(tower)
        self.register_buffer("order", order, persistent=False)
        # The tower works in this order; outputs go back to the places of the units.
        self.register_buffer("back", torch.argsort(order[:: self.unit]), persistent=False)
        self.register_buffer("place", place[order], persistent=False)

    def _tower(self):
        return getattr(getattr(self.net, "model", None), "visual", self.net)

    def _windows(self, tower):
        from transformers.vision_utils import get_vision_window_index

        units, bounds = get_vision_window_index(self.grid, spatial_merge_size=tower.spatial_merge_size, window_size=tower.window_size, patch_size=tower.patch_size)
        sizes = torch.as_tensor(bounds).diff()
        if (sizes != sizes[0]).any():
            raise ValueError(f"a grid of {self.grid[0, 1]} x {self.grid[0, 2]} patches does not divide into windows of {tower.window_size} pixels")
        self.window = int(sizes[0])
        return (units[:, None] * self.unit + torch.arange(self.unit)).flatten()

    def positions(self, input_ids):
        """position_ids [batch, 3, seq] for forward(), of token ids [batch, seq]."""
        kind = (input_ids == self.net.config.image_token_id).int()
        images = int(kind.sum()) // self.image_tokens
        places, _ = self.net.model.get_rope_index(input_ids, kind, image_grid_thw=self.grid.expand(images, 3))
        return places.transpose(0, 1).contiguous()

    def forward(self, *values):
        if self._tower() is self.net:
            return self._rows(*values)
        input_ids, pixel_values, position_ids = values
        rows = self._rows(pixel_values)
        embeds = self.net.get_input_embeddings()(input_ids)
        embeds = embeds.masked_scatter((input_ids == self.net.config.image_token_id)[..., None], rows)
        states = self.net.model.language_model(inputs_embeds=embeds, position_ids=position_ids.transpose(0, 1), use_cache=False)
        return self.net.lm_head(states.last_hidden_state)

    def _rows(self, pixel_values):
        tower = self._tower()
        # A convolution whose kernel is the whole patch.
        patch = tower.patch_embed.proj
        x = F.linear(pixel_values, patch.weight.flatten(1), patch.bias)[:, self.order]
        cos, sin = tower.rotary_pos_emb(x, self.place)
        for i, block in enumerate(tower.blocks):
            whole = self.window is None or i in tower.fullatt_block_indexes
            x = x + self._attention(block.attn, block.norm1(x), cos, sin, self.frame if whole else self.window)
            x = x + block.mlp(block.norm2(x))
        rows = tower.merger(x)
        return rows.reshape(-1, self.image_tokens, rows.shape[-1])[:, self.back]

    @staticmethod
    def _attention(attention, x, cos, sin, length):
        """Attention within runs of `length` rows of x [images, patches, hidden]."""
        heads = attention.num_heads, x.shape[-1] // attention.num_heads  # PyTorch finds no size for itself where there are no images
        q, k, v = (t.unflatten(-1, heads) for t in attention.qkv(x).chunk(3, -1))
        q, k = (t * cos[:, None] + _half_turn(t) * sin[:, None] for t in (q, k))
        q, k, v = (t.reshape(-1, length, *t.shape[2:]).transpose(1, 2) for t in (q, k, v))
        out = F.scaled_dot_product_attention(q, k, v, scale=attention.scaling)
        return attention.proj(out.transpose(1, 2).reshape(x.shape))


def _half_turn(x):
    a, b = x.chunk(2, -1)
    return torch.cat([-b, a], -1)


class FixedShapes(nn.Module):
    """SigLIP 2 (NaFlex), whole or its vision tower, on pictures of shapes that are known at export.

    net     Siglip2Model or Siglip2VisionModel.
    shapes  [(height, width), ...] in patches; an input says which of them each picture has.
    room    patches that a picture has room for (the processor's max_num_patches).

    The last two inputs are pixel_values [batch, room, features] and shape [batch] (int64, a place in `shapes`);
    before them come the model's other inputs by name, `first` (input_ids of the whole model).
    """

    def __init__(self, net, shapes, room, first=("input_ids",), output="logits_per_image"):
        super().__init__()
        if max(h * w for h, w in shapes) > room:
            raise ValueError(f"a shape of more than {room} patches does not fit into the room for {room}")
        self.net, self.first, self.output = net, first, output
        self.embeddings = [m for m in net.modules() if hasattr(m, "resize_positional_embeddings")]
        if len(self.embeddings) != 1:
            raise ValueError(f"{type(net).__name__} has no vision tower of SigLIP 2's kind")
        side = self.embeddings[0].position_embedding_size
        sizes = torch.tensor(shapes)
        # Resizing is linear in the table: its matrices are what the library makes of the identity.
        identity = torch.eye(side * side).reshape(side, side, side * side)
        self.register_buffer("resizing", self.embeddings[0].resize_positional_embeddings(identity, sizes, room), persistent=False)
        self.register_buffer("mask", (torch.arange(room) < sizes.prod(1, keepdim=True)).long(), persistent=False)

    def forward(self, *values):
        *others, pixel_values, shape = values
        embeddings = self.embeddings[0]
        embeddings.resize_positional_embeddings = lambda table, which, max_length: self.resizing[which] @ table.flatten(0, 1)
        try:
            result = self.net(**dict(zip(self.first, others)), pixel_values=pixel_values, pixel_attention_mask=self.mask[shape], spatial_shapes=shape)
        finally:
            del embeddings.resize_positional_embeddings
        return result[self.output]
