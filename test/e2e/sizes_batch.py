# ===- sizes_batch.py - samples of unequal size, packed into steps ----------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Texts of any length and pictures of any shape, drawn from a seed, and the tensors
# of a step: one item's rows behind another's, no row of padding. Measures of 0 and
# of the bound, samples without a picture, without a learned token and without a
# token are among them. pack() of one sample is that sample alone.
# ===-----------------------------------------------------------------------===
"""draw, pack, pictures_of, learned_of, recipe: steps for the networks of models/export/sizes.py, with NumPy alone."""

import dataclasses

import numpy as np

IGNORED = -100
MERGE = 2  # patches along each side that Qwen's towers merge into one row
WINDOW = 2  # rows along each side that see one another in its windowed layers
ROWS = MERGE * MERGE


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Bounds of what is drawn: words of a text, rows along a picture's side (merged), pictures of a sample, samples of a step; patches along a row's side; whether a picture is one row of the text, whatever its size."""

    words: int = 40
    side: int = 4
    pictures: int = 3
    samples: int = 8
    merge: int = MERGE
    pooled: bool = False

    @property
    def merged(self):
        return self.side * self.side

    @property
    def tokens(self):
        return self.words + self.pictures * self.merged


QUICK, SLOW = Sizes(), Sizes(words=400, side=16)


@dataclasses.dataclass
class Picture:
    """height x width merged rows, each of merge x merge patches that stand together, as Qwen2-VL's processor has them."""

    height: int
    width: int
    pixels: np.ndarray  # [patches, features]
    merge: int = MERGE
    pooled: bool = False

    @property
    def merged(self):
        return self.height * self.width

    @property
    def patches(self):
        return self.merged * self.merge**2

    @property
    def shape(self):
        """In patches."""
        return self.height * self.merge, self.width * self.merge

    def places(self):
        """Row and column of each patch, [patches, 2]."""
        grid = np.indices(self.shape).reshape(2, self.height, self.merge, self.width, self.merge)
        return grid.transpose(1, 3, 2, 4, 0).reshape(-1, 2)

    def windows(self):
        """The window of each merged row, from 0 in the order of the windows."""
        row, column = np.indices((self.height, self.width)).reshape(2, -1)
        across = -(-self.width // WINDOW)
        return np.unique(row // WINDOW * across + column // WINDOW, return_inverse=True)[1].reshape(-1)


@dataclasses.dataclass
class Sample:
    ids: np.ndarray  # [tokens]
    documents: np.ndarray  # [tokens]: the document that each token is of, from 0
    learned: np.ndarray  # [tokens]: whether it is a prediction's target
    pictures: list
    rows: np.ndarray  # places of the pictures' rows among the tokens, in order

    def labels(self):
        """The next token of the same document if it is learned."""
        labels = np.full(len(self.ids), IGNORED)
        follows = (self.documents[1:] == self.documents[:-1]) & self.learned[1:]
        labels[:-1][follows] = self.ids[1:][follows]
        return labels

    def positions(self, axes):
        """[axes, tokens]: of texts 0, 1, … in each document; with three axes a picture's rows have one time, and a height and a width (Qwen2-VL)."""
        places = np.zeros((axes, len(self.ids)), np.int64)
        starts = np.split(self.rows, np.cumsum([p.merged for p in self.pictures])[:-1]) if self.pictures else []
        pictures = {int(rows[0]): p for rows, p in zip(starts, self.pictures) if len(rows)}
        at = following = 0
        while at < len(self.ids):
            if at and self.documents[at] != self.documents[at - 1]:
                following = 0
            picture = pictures.get(at) if axes == 3 else None
            if picture is None:
                places[:, at] = following
                at, following = at + 1, following + 1
                continue
            grid = np.stack([np.zeros(picture.merged, np.int64), *np.indices((picture.height, picture.width)).reshape(2, -1)])
            places[:, at : at + picture.merged] = following + grid
            at, following = at + picture.merged, following + max(picture.height, picture.width)
        return places


# What a sample must be, by its number in the step; None: as drawn.
SPECIAL = [None, "one", "zero", "largest", "empty", None, "ignored", "none"]


def draw(seed, sizes=QUICK, vocabulary=37, features=0, special=SPECIAL):
    """Samples of a step. `features` of a patch; 0: texts only. The last word of the vocabulary stands where a picture's rows go."""
    random = np.random.default_rng(seed)
    kinds = [special[i % len(special)] for i in range(sizes.samples)]
    return [_sample(random, kind, sizes, vocabulary, features) for kind in kinds]


def _sample(random, kind, sizes, vocabulary, features):
    number = {"none": 0, "empty": 0, "one": 1, "largest": sizes.pictures}.get(kind, random.integers(1, sizes.pictures + 1)) if features else 0
    pictures = [_picture(random, kind == "largest", sizes, features) for _ in range(number)]
    if kind == "zero" and pictures and not sizes.pooled:  # the library pools nothing of no patches
        pictures[0] = Picture(0, 0, np.zeros((0, features), np.float32), sizes.merge)
    words = {"empty": 0, "largest": sizes.words, "one": 3}.get(kind, random.integers(3, sizes.words + 1))
    # Some pictures stand before the text, some inside of it.
    cuts = np.sort(random.integers(0, words + 1, len(pictures)))
    ids, rows = [random.integers(0, vocabulary - 1, words)], []
    ids = np.split(ids[0], cuts)
    pieces = [ids[0]]
    for picture, following in zip(pictures, ids[1:]):
        count = 1 if sizes.pooled else picture.merged
        rows.append(sum(map(len, pieces)) + np.arange(count))
        pieces += [np.full(count, vocabulary - 1), following]
    ids = np.concatenate(pieces).astype(np.int64)
    rows = np.concatenate(rows).astype(np.int64) if rows else np.zeros(0, np.int64)
    documents = np.zeros(len(ids), np.int64)
    text = np.flatnonzero(~np.isin(np.arange(len(ids)), rows))
    if kind is None and len(text) > 4:
        documents[text[len(text) // 2] :] = 1  # never inside of a picture, whose places are no text
    learned = (ids != vocabulary - 1) & (random.random(len(ids)) < 0.8) & (kind != "ignored")
    return Sample(ids, documents, learned, pictures, rows)


def _picture(random, largest, sizes, features):
    height, width = (sizes.side, sizes.side) if largest else random.integers(1, sizes.side + 1, 2)
    return Picture(int(height), int(width), random.standard_normal((height * width * sizes.merge**2, features)).astype(np.float32), sizes.merge)


# --- the tensors of a step --------------------------------------------------------


def joined(arrays, shape=(0,), kind=np.int64, axis=0):
    return np.concatenate([np.zeros(shape, kind), *arrays], axis)


def sums(measures):
    return np.concatenate([[0], np.cumsum(measures, dtype=np.int64)]).astype(np.int64)


def numbered(groups):
    """Numbers that restart in each group, made unique."""
    groups, first = list(groups), 0
    for group in groups:
        yield group + first
        first += int(group.max(initial=-1)) + 1


def pictures_of(pictures):
    """The tower's inputs for pictures, by name; places in `window_index` and its inverse are those of the rows of all of them."""
    windows = list(numbered(p.windows() for p in pictures))
    orders = [np.argsort(w, kind="stable") for w in windows]
    first = sums([p.merged for p in pictures])
    features = pictures[0].pixels.shape[1] if pictures else 0
    return {
        "pixel_values": joined([p.pixels for p in pictures], (0, features), np.float32),
        "positions": joined([p.places() for p in pictures], (0, 2)),
        "segments": joined(np.full(p.patches, i) for i, p in enumerate(pictures)),
        "pictures": np.arange(len(pictures)),
        "windows": joined(np.repeat(w, p.merge**2) for w, p in zip(windows, pictures)),
        "windows_in_order": joined(np.repeat(np.sort(w), p.merge**2) for w, p in zip(windows, pictures)),
        "window_index": joined(order + at for order, at in zip(orders, first)),
        "window_places": joined(np.argsort(order) + at for order, at in zip(orders, first)),
    }


def texts_of(samples, axes=1):
    """The language model's inputs and labels, by name."""
    first = sums([len(s.ids) for s in samples])
    positions = joined([s.positions(axes) for s in samples], (axes, 0), axis=1)
    return {
        "input_ids": joined(s.ids for s in samples)[None],
        "position_ids": positions if axes == 1 else positions[:, None],
        "segments": joined(numbered(s.documents for s in samples))[None],
        "image_rows": joined(s.rows + at for s, at in zip(samples, first)),
        "labels": joined(s.labels() for s in samples)[None],
    }


def pack(samples, features=0, axes=1):
    """All inputs of both, `vision.` and `llm.` before their names, offsets of all measures and items' samples."""
    pictures = [p for s in samples for p in s.pictures]
    tensors = {f"llm.{name}": value for name, value in texts_of(samples, axes).items()}
    tensors["labels"] = tensors.pop("llm.labels")
    tensors["offsets.sample.tokens"] = sums([len(s.ids) for s in samples])
    if features:
        vision = pictures_of(pictures)
        vision["pixel_values"] = vision["pixel_values"].reshape(-1, features)
        tensors |= {f"vision.{name}": value for name, value in vision.items()}
        tensors["offsets.image.merged"] = sums([p.merged for p in pictures])
        tensors["item_of.image"] = joined(np.full(len(s.pictures), i) for i, s in enumerate(samples))
    return {name: np.ascontiguousarray(value) for name, value in tensors.items()}


def learned_of(samples):
    """The loss's denominator: learned tokens of the step."""
    return sum(int((s.labels() != IGNORED).sum()) for s in samples)


# --- the recipe ---------------------------------------------------------------------

OPTIMIZER = {"kind": "adamw", "lr": 0.001, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.01}


def recipe(graphs, inputs, sizes, batch, fixed=None, rows=("image_embeds",)):
    """Of graphs {module: file} with these inputs of --batch; `rows`: what the tower gives. `fixed`: a step, whose sizes are numbers then: one microbatch, on whole batches only."""
    towers = "vision" in graphs
    made = {"modules": {name: {"onnx": file} for name, file in graphs.items()}}
    if fixed is None:
        made["items"] = {"sample": {"measures": {"tokens": {"max": sizes.tokens if towers else sizes.words}}}}
        made["dims"] = {"seq": "sample.tokens"}
        if towers:
            made["items"]["image"] = {"of": "sample", "max": sizes.pictures, "measures": {"merged": {"max": sizes.merged}}}
            made["dims"] |= {"merged": "image.merged"} | ({"images": "image"} if sizes.pooled else {})
            made["inputs"] = {"llm.image_rows": {"index": ["sample", "token"], "of": "image"}}
            made["inputs"] |= {f"vision.{name}": {"rebase": "image.merged"} for name in ("window_index", "window_places") if f"vision.{name}" in inputs}
    else:
        made["dims"] = {"seq": fixed["labels"].shape[1]}
        if towers:
            made["dims"] |= {"merged": int(fixed["offsets.image.merged"][-1])} | ({"images": len(fixed["llm.image_rows"])} if sizes.pooled else {})
    if towers:
        made["connections"] = {f"llm.{name}": f"vision.{name}" for name in rows}
    made["losses"] = [{"name": "text", "kind": "cross_entropy", "logits": "llm.logits", "labels": "labels", "ignore_index": IGNORED, "weight": 1}]
    return made | {"optimizer": OPTIMIZER, "batch": batch, "seed": 0}
