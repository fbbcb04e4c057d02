# ===- pictures.py - language models that see pictures ----------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Two graphs: `vision`, whose items are pictures of any size, and `llm`, which puts
# their rows at the places of the text's picture tokens.
# ===-----------------------------------------------------------------------===
"""Pictures: the base of vision-language families. Qwen2VL, Qwen25VL, Qwen3VL."""

import numpy as np

from .tensors import Tensor
from .text import Graph, Text, texts, zeros


class Pictures(Text):
    KINDS = {"image": ("merged",)}  # rows of the text that a picture is
    PLACED = "merged"  # a dim: rows that pictures have in the text
    CLASS = "AutoModelForImageTextToText"
    ROWS = ("image_embeds",)  # outputs of `vision`, one row for each of `merged`

    def writer(self):
        return self.folder.processor()

    @property
    def token(self):
        """That stands where a picture's rows go."""
        return getattr(self.config, "image_token_id", None) or self.config.image_token_index

    @property
    def tokens(self):
        return [self.token]

    def read(self, made, counts=()):
        """As Text.read; `counts`: of the places that the text has for each picture."""
        raise NotImplementedError

    def rows(self, items):
        """How many tokens a sample's pictures are."""
        return int(items["image.merged"].sum())

    def words(self, ids):
        return ids[~np.isin(ids, self.tokens)]

    def arrays(self, ids, labels, items):
        pictures = np.isin(ids, self.tokens)
        if self.token >= self.text.vocab_size:  # a picture's row stands there, whatever the token's is
            ids = np.where(pictures, 0, ids)
        return super().arrays(ids, labels, items) | items | {"image_rows": np.flatnonzero(pictures)}

    def tensors(self):
        return super().tensors() | {"llm.image_rows": Tensor("image_rows", (0,), into="sample.tokens")}

    def language(self, net, positions=()):
        """The graph of the language model."""
        from export.packing import PackedLanguage

        factor = self.PLACED.rpartition("*")[0]
        count = 4 * int(factor or 1)
        rows = {name: (zeros(count, self.text.hidden_size, kind="float32"), {0: self.PLACED}) for name in self.ROWS}
        inputs = texts(positions) | {"image_embeds": rows["image_embeds"], "image_rows": (zeros(count), {0: self.PLACED})} | rows
        return Graph(PackedLanguage(net), inputs)

    def recipe(self):
        made = super().recipe()
        made["dims"] |= {measure: f"image.{measure}" for measure in self.KINDS["image"]}
        made["inputs"] = {"llm.image_rows": {"index": ["sample", "token"], "of": "image"}}
        made["connections"] = {f"llm.{name}": f"vision.{name}" for name in self.ROWS}
        return made


class Qwen(Pictures):
    """Patches of a picture stand in squares that are merged into a row. The tower sees frames of a video one by one, as pictures: each is an item (with temporal_patch_size 2 two are one)."""

    PARTS = ("image", "video")

    @property
    def vision(self):
        return self.config.vision_config

    @property
    def tokens(self):
        return [self.config.image_token_id, self.config.video_token_id]

    @property
    def features(self):
        return self.vision.in_channels * self.vision.temporal_patch_size * self.vision.patch_size**2

    def read(self, made, counts=()):
        grids, pixels, clips, times = [], [np.zeros((0, self.features), np.float32)], [], []
        for number, (grid, patches, seconds) in enumerate(self.seen(made) if made is not None else ()):
            frames, height, width = map(int, grid)
            grids += [(1, height, width)] * frames
            pixels.append(patches)
            clips += [number] * frames
            times += self.times(frames, seconds)
        grids = np.array(grids, np.int64).reshape(-1, 3)
        made = {"image.merged": grids.prod(1) // self.vision.spatial_merge_size**2, "grids": grids, "pixels": np.concatenate(pixels)}
        return made | {"clips": np.array(clips, np.int64), "times": np.array(times, np.int64)} | self.patches(grids)

    def seen(self, made):
        """(grid, patches, seconds between frames; of a picture None) of all pictures and videos, as they stand in the text."""
        kinds = {
            "image": self.split(made, "pixel_values", "image_grid_thw", [None]),
            "video": self.split(made, "pixel_values_videos", "video_grid_thw", np.asarray(made.get("second_per_grid_ts", [1]), np.float64)),
        }
        return [next(kinds[replaced["type"]]) for replaced in made["text_replacement_offsets"][0]]

    @staticmethod
    def split(made, pixels, grids, seconds):
        first, found = 0, np.asarray(made.get(grids, np.zeros((0, 3))), np.int64).reshape(-1, 3)
        for i, grid in enumerate(found):
            end = first + int(grid.prod())
            yield grid, np.asarray(made[pixels][first:end], np.float32), seconds[min(i, len(seconds) - 1)]
            first = end

    def times(self, frames, seconds):
        """Of the frames of a video: the times that their rows have in the text, from its first row on."""
        return list(range(frames))

    def patches(self, grids):
        """Of what picture each patch is, and where in it it stands."""
        import torch
        from transformers.vision_utils import get_vision_position_ids

        places = get_vision_position_ids(torch.from_numpy(grids), self.vision.spatial_merge_size).numpy() if len(grids) else np.zeros((0, 2), np.int64)
        return {"patch_places": places, "patch_pictures": np.repeat(np.arange(len(grids)), grids.prod(1))}

    def tensors(self):
        return super().tensors() | {
            "llm.position_ids": Tensor("positions", (3, 1, 0)),
            "vision.pixel_values": Tensor("pixels", (0, self.features), np.float32),
            "vision.positions": Tensor("patch_places", (0, 2)),
            "vision.segments": Tensor("patch_pictures", (0,), numbers=True),
        }

    def arrays(self, ids, labels, items):
        arrays = super().arrays(ids, labels, items)
        return arrays | {"positions": self.positions(len(ids), arrays["image_rows"], items)}

    def positions(self, count, rows, items):
        """[3, count], as get_rope_index: a frame's rows have one time, and a height and a width; what follows a video begins where its first frame's rows end."""
        places, at, following, begun, clip = np.zeros((3, count), np.int64), 0, 0, 0, -1
        grids, merged = items["grids"] // (1, *[self.vision.spatial_merge_size] * 2), items["image.merged"]
        for (_, height, width), first, size, own, time in zip(grids, np.cumsum([0, *merged])[:-1], merged, items["clips"], items["times"]):
            begin = rows[first]
            places[:, at:begin] = following + np.arange(begin - at)
            begun = begun if own == clip else following + begin - at
            places[:, begin : begin + size] = begun + np.stack([np.full(size, time), *np.indices((height, width)).reshape(2, -1)])
            at, following, clip = begin + size, begun + max(height, width), own
        places[:, at:] = following + np.arange(count - at)
        return places

    def graphs(self, net):
        patches = f"{self.vision.spatial_merge_size**2}*merged"
        count = 4 * self.vision.spatial_merge_size**2
        inputs = {"pixel_values": (zeros(count, self.features, kind="float32"), {0: patches}), "positions": (zeros(count, 2), {0: patches}), "segments": (zeros(count), {0: patches})}
        return {"vision": self.tower(net.model.visual, inputs, count, patches), "llm": self.language(net, (3,))}


class Qwen2VL(Qwen):
    def tower(self, visual, inputs, count, patches):
        from export.packing import PackedTower

        return Graph(PackedTower(visual), inputs, list(self.ROWS))


class Qwen25VL(Qwen):
    """Most layers see windows of the picture, whose rows the tower puts together."""

    def tower(self, visual, inputs, count, patches):
        from export.packing import PackedTower

        inputs |= {"windows": (zeros(count), {0: patches}), "window_index": (zeros(4), {0: "merged"}), "window_places": (zeros(4), {0: "merged"})}
        return Graph(PackedTower(visual, reordered=True), inputs, list(self.ROWS))

    def times(self, frames, seconds):
        """Only those of a video are apart by what the config says."""
        return [0] * frames if seconds is None else [int(i * self.vision.tokens_per_second * seconds) for i in range(frames)]

    def patches(self, grids):
        side = self.vision.window_size // self.vision.spatial_merge_size // self.vision.patch_size
        merge = self.vision.spatial_merge_size
        windows, orders, places, first, seen = [], [], [], 0, 0
        for frames, height, width in grids // (1, merge, merge):
            frame, row, column = np.indices((frames, height, width)).reshape(3, -1)
            down, across = -(-height // side), -(-width // side)
            found = np.unique((frame * down + row // side) * across + column // side, return_inverse=True)[1].reshape(-1)
            order = np.argsort(found, kind="stable")
            windows.append(np.repeat(np.sort(found), merge**2) + seen)
            orders.append(order + first)
            places.append(np.argsort(order) + first)
            first, seen = first + len(found), seen + int(found.max(initial=-1)) + 1
        joined = lambda parts: np.concatenate([np.zeros(0, np.int64), *parts])
        return super().patches(grids) | {"windows": joined(windows), "window_index": joined(orders), "window_places": joined(places)}

    def tensors(self):
        into = "image.merged"
        return super().tensors() | {
            "vision.windows": Tensor("windows", (0,), numbers=True),
            "vision.window_index": Tensor("window_index", (0,), into=into),
            "vision.window_places": Tensor("window_places", (0,), into=into),
        }

    def recipe(self):
        made = super().recipe()
        made["inputs"] |= {f"vision.{name}": {"rebase": "image.merged"} for name in ("window_index", "window_places")}
        return made


class Qwen3VL(Qwen):
    """Rows of some of the tower's layers are added to the first layers of the text; a picture has the table of positions resized. The text says when a frame of a video is seen, so each stands by itself."""

    @property
    def ROWS(self):
        return ("image_embeds", *(f"deepstack_{i}" for i in range(len(self.vision.deepstack_visual_indexes))))

    def seen(self, made):
        for grid, patches, seconds in super().seen(made):
            for frame in np.split(patches, grid[0]):
                yield (1, *grid[1:]), frame, seconds

    def tower(self, visual, inputs, count, patches):
        from export.packing import DeepstackTower

        inputs |= {"indices": (zeros(count, 4), {0: patches}), "weights": (zeros(count, 4, kind="float32"), {0: patches})}
        return Graph(DeepstackTower(visual), inputs, list(self.ROWS))

    def patches(self, grids):
        import torch
        from transformers.vision_utils import get_vision_interpolation_indices_and_weights

        found = np.zeros((0, 4), np.int64), np.zeros((0, 4), np.float32)
        if len(grids):
            side = int(self.vision.num_position_embeddings**0.5)
            found = (v.numpy() for v in get_vision_interpolation_indices_and_weights(torch.from_numpy(grids), side, align_corners=True, spatial_merge_size=self.vision.spatial_merge_size))
        return super().patches(grids) | dict(zip(("table_rows", "table_weights"), found))

    def tensors(self):
        return super().tensors() | {"vision.indices": Tensor("table_rows", (0, 4)), "vision.weights": Tensor("table_weights", (0, 4), np.float32)}
