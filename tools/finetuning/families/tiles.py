# ===- tiles.py - pictures as tiles of one size --------------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A picture is one tile (LLaVA), or as many as its shape asks for (InternVL,
# SmolVLM). Each tile is a fixed number of the text's tokens.
# ===-----------------------------------------------------------------------===
"""Llava, InternVL, SmolVLM."""

import numpy as np

from ..errors import Failure
from .pictures import Pictures
from .tensors import Tensor
from .text import Graph, zeros


class Tiles(Pictures):
    KINDS = {"image": ("tiles",)}
    TOWER = None  # of models/export/tiling.py

    @property
    def vision(self):
        return self.config.vision_config

    @property
    def size(self):
        """Of a tile, in pixels."""
        size = self.vision.image_size
        return (size, size) if isinstance(size, int) else tuple(size)

    @property
    def patches(self):
        patch = self.vision.patch_size
        return tuple(n // p for n, p in zip(self.size, (patch, patch) if isinstance(patch, int) else patch))

    @property
    def places(self):
        """Tokens that a tile is."""
        raise NotImplementedError

    @property
    def PLACED(self):
        return f"{self.places}*tiles"

    def read(self, made, counts=()):
        pixels = self.pixels(made) if made is not None else np.zeros((0, 3, *self.size), np.float32)
        if pixels.shape[1:] != (3, *self.size):
            raise ValueError(f"tiles are {list(pixels.shape[1:])}, the network's [3, {self.size[0]}, {self.size[1]}]")
        tiles = np.array(counts, np.int64) // self.places
        if tiles.sum() != len(pixels):
            raise ValueError(f"{len(pixels)} tiles of {self.places} places each for {list(counts)} places in the text")
        return {"image.tiles": tiles, "pixels": pixels}

    def pixels(self, made):
        return np.stack([np.asarray(tile, np.float32) for tile in made["pixel_values"]])

    def rows(self, items):
        return int(items["image.tiles"].sum()) * self.places

    def tensors(self):
        return super().tensors() | {"vision.pixel_values": Tensor("pixels", (0, 3, *self.size), np.float32)}

    def graphs(self, net):
        from export import tiling

        tower = Graph(getattr(tiling, self.TOWER)(net.model), {"pixel_values": (zeros(4, 3, *self.size, kind="float32"), {0: "tiles"})}, list(self.ROWS))
        return {"vision": tower, "llm": self.language(net)}


class Llava(Tiles):
    """One tile, whatever the picture's shape."""

    TOWER = "LlavaTower"
    TOWERS = {"clip_vision_model": 1, "siglip_vision_model": 0}  # rows beside those of patches

    def check(self):
        super().check()
        if self.vision.model_type not in self.TOWERS:
            raise Failure(f"{self.folder.path}: a LLaVA with the tower '{self.vision.model_type}' is not there yet (known: {', '.join(self.TOWERS)})")

    @property
    def places(self):
        height, width = self.patches
        return height * width + self.TOWERS[self.vision.model_type] - (self.config.vision_feature_select_strategy == "default")


class InternVL(Tiles):
    TOWER = "InternTower"

    @property
    def places(self):
        height, width = self.patches
        return round(height * width * self.config.downsample_ratio**2)


class SmolVLM(Tiles):
    """A picture is cut into tiles, which are followed by the whole of it as one more."""

    TOWER = "IdeficsTower"

    @property
    def places(self):
        height, width = self.patches
        return height * width // self.config.scale_factor**2

    def pixels(self, made):
        if not all(np.asarray(mask).all() for mask in made["pixel_attention_mask"]):
            raise ValueError("tiles with padding (do_image_splitting is off)")
        return np.concatenate([np.asarray(tiles, np.float32) for tiles in made["pixel_values"]])
