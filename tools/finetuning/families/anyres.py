# ===- anyres.py - grids of tiles ------------------------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# LLaVA-OneVision sees a picture whole and as a grid of tiles. The rows of these are
# put together, padding is cut off, large grids are made smaller, and a line ends
# with a row of its own. Which rows of the tiles that takes is known from the
# picture's size, so the tower is given them (pack_image_features).
# ===-----------------------------------------------------------------------===
"""LlavaOnevision."""

import math

import numpy as np

from .tensors import Tensor
from .text import Graph, zeros
from .tiles import Llava

TAPS = 4  # rows that a row of a smaller grid is made of


class LlavaOnevision(Llava):
    KINDS = {"image": ("tiles", "merged")}
    PLACED = "merged"

    def read(self, made, counts=()):
        sizes = np.zeros((0, 2), np.int64) if made is None else np.asarray(made["image_sizes"])
        patched = [] if made is None else [n == 1 for n in np.asarray(made["batch_num_images"]).tolist() for _ in range(n)]
        tiles, rows, pixels, first = [], [], [np.zeros((0, 3, *self.size), np.float32)], 0
        for i, (size, is_grid) in enumerate(zip(sizes.tolist(), patched)):
            grid = self._grid(size) if is_grid else (0, 0)
            tiles.append(1 + grid[0] * grid[1])
            rows.append([part + (first * self.places if j == 0 else 0) for j, part in enumerate(self._rows(size, grid))])
            pixels.append(np.asarray(made["pixel_values"][i], np.float32)[: tiles[-1]])
            first += tiles[-1]
        joined = lambda j, empty: np.concatenate([empty, *(r[j] for r in rows)])
        return {
            "image.tiles": np.array(tiles, np.int64),
            "image.merged": np.array([len(r[0]) for r in rows], np.int64),
            "pixels": np.concatenate(pixels),
            "taps": joined(0, np.zeros((0, TAPS), np.int64)),
            "tap_weights": joined(1, np.zeros((0, TAPS), np.float32)),
            "newlines": joined(2, np.zeros(0, np.float32)),
        }

    def rows(self, items):
        return int(items["image.merged"].sum())

    def _grid(self, size):
        from transformers.models.llava_onevision.modeling_llava_onevision import get_anyres_image_grid_shape

        return get_anyres_image_grid_shape(size, self.config.image_grid_pinpoints, self.vision.image_size)

    def _rows(self, size, grid):
        """(taps, their weights, which are newlines) of a picture, whose tiles begin at 0."""
        whole = np.arange(self.places)[:, None, None]
        parts = [_plain(whole.reshape(-1))]
        if grid == (0, 0):
            parts.append(_newline(1))
        else:
            taps, weights = self._shrunk(self._unpadded(size, grid))
            for line, line_weights in zip(taps, weights):
                parts += [(line, line_weights, np.zeros(len(line), np.float32)), _newline(1)]
        return [np.concatenate(p) for p in zip(*parts)]

    def _unpadded(self, size, grid):
        """[lines, columns]: the row of the tiles that is at each place of the grid."""
        import torch
        from transformers.models.llava_onevision.modeling_llava_onevision import unpad_image

        height, width = self.patches
        down, across = grid
        numbers = np.arange(self.places, (1 + down * across) * self.places).reshape(down, across, height, width)
        numbers = numbers.transpose(0, 2, 1, 3).reshape(1, down * height, across * width)
        return unpad_image(torch.from_numpy(numbers), size)[0].numpy()

    def _shrunk(self, numbers):
        """[lines, columns, taps]: numbers and weights; of a large grid as F.interpolate(mode="bilinear")."""
        most = int(self.config.vision_aspect_ratio.strip("anyres_max_"))
        lines, columns = numbers.shape
        ratio = math.sqrt(lines * columns / (most * self.patches[0] ** 2))
        if ratio <= 1.1:
            taps = np.repeat(numbers[:, :, None], TAPS, 2)
            return taps, np.broadcast_to(np.array([1, 0, 0, 0], np.float32), taps.shape)
        (tops, top_weights), (lefts, left_weights) = _linear(lines, int(lines // ratio)), _linear(columns, int(columns // ratio))
        taps = numbers[tops[:, None, :, None], lefts[None, :, None, :]]
        weights = top_weights[:, None, :, None] * left_weights[None, :, None, :]
        return taps.reshape(*taps.shape[:2], TAPS), weights.reshape(*taps.shape[:2], TAPS).astype(np.float32)

    def tensors(self):
        return super().tensors() | {
            "vision.taps": Tensor("taps", (0, TAPS), into="image.tiles", rows=self.places),
            "vision.tap_weights": Tensor("tap_weights", (0, TAPS), np.float32),
            "vision.newlines": Tensor("newlines", (0,), np.float32),
        }

    def graphs(self, net):
        from export.tiling import AnyresTower

        rows = {"taps": (zeros(6, TAPS), {0: "merged"}), "tap_weights": (zeros(6, TAPS, kind="float32"), {0: "merged"}), "newlines": (zeros(6, kind="float32"), {0: "merged"})}
        tower = Graph(AnyresTower(net.model), {"pixel_values": (zeros(4, 3, *self.size, kind="float32"), {0: "tiles"})} | rows, list(self.ROWS))
        return {"vision": tower, "llm": self.language(net)}

    def recipe(self):
        made = super().recipe()
        made["inputs"] |= {"vision.taps": {"rebase": "image.tiles", "rows": self.places}}
        return made


def _plain(numbers):
    weights = np.zeros((len(numbers), TAPS), np.float32)
    weights[:, 0] = 1
    return np.repeat(numbers[:, None], TAPS, 1), weights, np.zeros(len(numbers), np.float32)


def _newline(count):
    return np.zeros((count, TAPS), np.int64), np.zeros((count, TAPS), np.float32), np.ones(count, np.float32)


def _linear(size, made):
    """(places [made, 2], weights [made, 2]) along an axis, with align_corners=False."""
    at = np.maximum((np.arange(made) + 0.5) * (size / made) - 0.5, 0)
    low = np.floor(at).astype(np.int64)
    return np.stack([low, np.minimum(low + 1, size - 1)], 1), np.stack([1 - (at - low), at - low], 1)
