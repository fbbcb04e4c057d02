# ===- tiling.py - a library's vision towers on tiles of one size --------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Many towers see a picture as one tile or several of the same size. The libraries
# take lists of tiles apart with loops over the batch, or look for empty ones by
# their values, and neither has an ONNX form for any number of tiles. Here are the
# same modules without.
# ===-----------------------------------------------------------------------===
"""LlavaTower, InternTower, IdeficsTower, ProjectedTower: [tiles, 3, height, width] -> rows [tiles * rows of a tile, width of the text]. AnyresTower."""

from __future__ import annotations

import torch
from torch import nn


class Tower(nn.Module):
    """net  the model of a ...ForConditionalGeneration (`net.model`), whose language model is left out."""

    def forward(self, pixel_values):
        return self.rows(pixel_values).flatten(0, 1)

    def states(self, pixel_values):
        """Behind each of the tower's layers."""
        return self.tower(pixel_values=pixel_values, output_hidden_states=True).hidden_states


class LlavaTower(Tower):
    """The tower and projector of LLaVA."""

    def __init__(self, net):
        super().__init__()
        self.tower, self.projector = net.vision_tower, net.multi_modal_projector
        self.layer, self.drops_first = net.config.vision_feature_layer, net.config.vision_feature_select_strategy == "default"

    def rows(self, pixel_values):
        states, layers = self.states(pixel_values), [self.layer] if isinstance(self.layer, int) else self.layer
        chosen = [states[i][:, 1:] if self.drops_first else states[i] for i in layers]
        return self.projector(torch.cat(chosen, -1) if len(chosen) > 1 else chosen[0])


class InternTower(Tower):
    """InternVL: rows of a tile are put together in squares."""

    def __init__(self, net):
        super().__init__()
        self.tower, self.projector = net.vision_tower, net.multi_modal_projector
        config = net.config
        self.layer, self.drops_first, self.scale = config.vision_feature_layer, config.vision_feature_select_strategy == "default", config.downsample_ratio
        self._shuffle = type(net).pixel_shuffle

    def rows(self, pixel_values):
        # The last layer's states are those behind the tower's norm.
        x = self.tower(pixel_values=pixel_values).last_hidden_state if self.layer == -1 else self.states(pixel_values)[self.layer]
        x = x[:, 1:] if self.drops_first else x
        side = int(x.shape[1] ** 0.5)
        x = self._shuffle(None, x.reshape(-1, side, side, x.shape[-1]), self.scale)
        return self.projector(x.flatten(1, 2))


class IdeficsTower(Tower):
    """SmolVLM and Idefics 3, of tiles that are whole: no row of padding."""

    def __init__(self, net):
        super().__init__()
        self.tower, self.connector = net.vision_model, net.connector

    def rows(self, pixel_values):
        embeddings = self.tower.embeddings
        x = embeddings.patch_embedding(pixel_values).flatten(2).transpose(1, 2) + embeddings.position_embedding.weight
        x = self.tower.encoder(inputs_embeds=x, attention_mask=None).last_hidden_state
        return self.connector(self.tower.post_layernorm(x))


class ProjectedTower(Tower):
    """Gemma 3 and PaliGemma: what the tower's last layer gives goes through the projector."""

    def __init__(self, net):
        super().__init__()
        self.tower, self.projector = net.vision_tower, net.multi_modal_projector

    def rows(self, pixel_values):
        return self.projector(self.tower(pixel_values=pixel_values).last_hidden_state)


class AnyresTower(LlavaTower):
    """LLaVA-OneVision: what a picture's tiles give is one grid of rows, without what pads it and made smaller if it is large.

    pixel_values [tiles, 3, height, width]; taps [merged, 4]: rows of all tiles that a row of a picture is made of, and
    tap_weights [merged, 4]; newlines [merged]: 1 for what stands behind a line of the grid -> rows [merged, width of the text].
    """

    def __init__(self, net):
        super().__init__(net)
        self.newline = net.image_newline

    def forward(self, pixel_values, taps, tap_weights, newlines):
        rows = self.rows(pixel_values).flatten(0, 1)
        return (rows[taps] * tap_weights[:, :, None]).sum(1) + newlines[:, None] * self.newline


class Frames(nn.Module):
    """Whisper's encoder: input_features [clips, mels, 2 * frames] -> [clips, frames, width]."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, input_features):
        return self.net(input_features).last_hidden_state
