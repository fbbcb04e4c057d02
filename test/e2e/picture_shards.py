# ===- picture_shards.py - pictures of any size from shards -------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A tower with windows and positions of its own, and a language model whose tokens
# stand where pictures have rows (Qwen2.5-VL). A step that is a whole epoch of tar
# shards has the loss of a batch file that NumPy makes, in float64 until pixels are
# rounded: in one part, and cut over two ranks. A picture that has no size is
# named and left out.
# ===-----------------------------------------------------------------------===
"""picture_shards.py --dt-opt PATH: exit code 0 when all losses agree and what is said is true."""

import argparse
import io
import json
import math
import pathlib
import random
import struct
import sys
import tarfile
import tempfile
import zlib

import numpy as np
import packed_shards as texts
from safetensors.numpy import save_file

GRAPHS = pathlib.Path(__file__).parents[1] / "models/sizes/vlm"
PATCH, MERGE, WINDOW, MOST = 2, 2, 2, 12  # MOST: squares of a picture
SIDE = PATCH * MERGE
BOS, EOS, IMAGE = 1, 2, 0
WORDS = [f"w{i}" for i in range(33)]
SPECIAL = ["<image>", "<bos>", "<eos>", "<pad>"]


def draw():
    """Samples of segments: (words, a picture [height, width, 3] or None)."""
    drawn, pixels = random.Random(3), np.random.default_rng(3)
    picture = lambda height, width: pixels.integers(0, 256, (height, width, 3), np.uint8)
    sizes = [(1, 1), (4, 4), (8, 12), (30, 30), (3, 40), (17, 9), (5, 11)]
    samples = []
    for i in range(12):
        segments = []
        for _ in range(1 + i % 3):
            words = [drawn.randrange(len(WORDS)) for _ in range(drawn.randint(0, 6))]
            segments.append((words, picture(*sizes[len(samples) % len(sizes)]) if drawn.random() < 0.6 else None))
        samples.append(segments)
    return [*samples, [([3], None)], [([5], picture(*sizes[3])), ([], picture(*sizes[0])), ([7, 7], picture(*sizes[2]))]]


# --- what the shards hold -----------------------------------------------------------


def png(picture):
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    height, width, _ = picture.shape
    rows = b"".join(b"\0" + row.tobytes() for row in picture)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def write_shard(path, samples):
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:

        def add(name, content):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))

        for i, segments in enumerate(samples):
            made = []
            for n, (words, picture) in enumerate(segments):
                made.append(([{"image": f"{n}.png"}] if picture is not None else []) + [{"text": " ".join(WORDS[w] for w in words)}])
            add(f"{i:04}.json", json.dumps({"segments": made}).encode())
            for n, (_, picture) in enumerate(segments):
                if picture is not None:
                    add(f"{i:04}.{n}.png", png(picture))


# --- the same as tensors ------------------------------------------------------------


def scale(values, axis, count):
    """Averages of areas to fewer pixels, bilinear to more."""
    have = values.shape[axis]
    ratio, taps = have / count, np.zeros((count, have))
    for i in range(count):
        if ratio > 1:
            for j in range(have):
                taps[i, j] = max(0, min((i + 1) * ratio, j + 1) - max(i * ratio, j)) / ratio
        else:
            centre = min(max((i + 0.5) * ratio - 0.5, 0), have - 1)
            first = int(centre)
            taps[i, first] += 1 - (centre - first)
            taps[i, min(first + 1, have - 1)] += centre - first
    return np.moveaxis(np.tensordot(taps, values, (1, axis)), 0, axis)


def grid_of(height, width):
    """Squares down and across (transformers' smart_resize)."""
    down, across, most = round(height / SIDE), round(width / SIDE), MOST * SIDE * SIDE
    if down * across * SIDE * SIDE > most:
        factor = math.sqrt(height * width / most)
        return max(1, math.floor(height / factor / SIDE)), max(1, math.floor(width / factor / SIDE))
    if down * across < 1:
        factor = math.sqrt(SIDE * SIDE / (height * width))
        return math.ceil(height * factor / SIDE), math.ceil(width * factor / SIDE)
    return down, across


def patches_of(picture):
    """(squares down and across, patches [patches, 3 * PATCH * PATCH])."""
    down, across = grid_of(*picture.shape[:2])
    made = scale(scale(picture.astype(np.float64), 0, down * SIDE), 1, across * SIDE)
    made = (np.floor(made + 0.5) / 255 - 0.5) / 0.5
    cut = made.reshape(down, MERGE, PATCH, across, MERGE, PATCH, 3).transpose(0, 3, 1, 4, 6, 2, 5)
    return down, across, cut.reshape(-1, 3 * PATCH * PATCH)


def places_of(down, across):
    grid = np.indices((down * MERGE, across * MERGE)).reshape(2, down, MERGE, across, MERGE)
    return grid.transpose(1, 3, 2, 4, 0).reshape(-1, 2)


def windows_of(down, across):
    row, column = np.indices((down, across)).reshape(2, -1)
    return np.repeat(row // WINDOW * -(-across // WINDOW) + column // WINDOW, MERGE * MERGE)


def tensors_of(samples):
    lists = {name: [] for name in ("ids", "labels", "segments", "rows", "pixels", "places", "pictures", "windows", "merged", "owner", "tokens")}
    positions, windows, segment = [np.zeros((3, 0), np.int64)], 0, 0
    for number, segments in enumerate(samples):
        before = len(lists["ids"])
        for words, picture in segments:
            down, across = 0, 0
            if picture is not None:
                down, across, patches = patches_of(picture)
                lists["pixels"].append(patches)
                lists["places"].append(places_of(down, across))
                lists["pictures"] += [len(lists["merged"])] * len(patches)
                lists["windows"].append(windows_of(down, across) + windows)
                windows = lists["windows"][-1].max() + 1
                lists["rows"] += range(len(lists["ids"]) + 1, len(lists["ids"]) + 1 + down * across)
                lists["merged"].append(down * across)
                lists["owner"].append(number)
            ids = [BOS, *[IMAGE] * (down * across), *(len(SPECIAL) + w for w in words), EOS]
            learned = 1 + down * across  # the first of these tokens
            lists["ids"] += ids
            lists["labels"] += [token if i + 1 >= learned else -100 for i, token in enumerate(ids[1:])] + [-100]
            lists["segments"] += [segment] * len(ids)
            behind = np.arange(len(words) + 1) + 1 + max(down, across)
            seen = 1 + np.stack([np.zeros(down * across, np.int64), *np.indices((down, across)).reshape(2, -1)])
            positions += [np.zeros((3, 1), np.int64), seen, np.broadcast_to(behind, (3, len(behind)))]
            segment += 1
        lists["tokens"].append(len(lists["ids"]) - before)
    row = lambda name: np.array(lists[name], np.int64)[None]
    return {
        "llm.input_ids": row("ids"),
        "labels": row("labels"),
        "llm.segments": row("segments"),
        "llm.position_ids": np.concatenate(positions, 1)[:, None],
        "llm.image_rows": row("rows")[0],
        "vision.pixel_values": np.concatenate(lists["pixels"]).astype(np.float32),
        "vision.positions": np.concatenate(lists["places"]),
        "vision.segments": row("pictures")[0],
        "vision.windows": np.concatenate(lists["windows"]),
        "offsets.sample.tokens": np.cumsum([0, *lists["tokens"]]),
        "offsets.image.merged": np.cumsum([0, *lists["merged"]]),
        "item_of.image": row("owner")[0],
    }


# --- the program --------------------------------------------------------------------


def recipe(batch, most):
    learned = [{"text": "text", "loss": True}, {"token": "<eos>", "loss": True}]
    return {
        "modules": {name: {"onnx": f"{name}.onnx"} for name in ("vision", "llm")},
        "items": {"image": {"max": 3, "measures": {"merged": {"max": MOST}}}, "sample": {"measures": {"tokens": {"max": most}}}},
        "dims": {"merged": "image.merged", "seq": "sample.tokens"},
        "connections": {"llm.image_embeds": "vision.image_embeds"},
        "batch": batch,
        "losses": [{"name": "text", "kind": "cross_entropy", "logits": "llm.logits", "labels": "labels"}],
        "optimizer": {"kind": "adamw", "lr": 1e-3},
        "data": {
            "sequence": "seq",
            "tokenizer": {"kind": "words", "vocabulary": WORDS},
            "special": SPECIAL,
            "pictures": {"image": {"patches": {"size": PATCH, "merge": MERGE}}},
            "segments": {
                "text": {"parts": ["text"], "tokens": ["<bos>", *learned]},
                "seen": {"parts": ["image", "text"], "tokens": ["<bos>", {"token": "<image>", "count": "merged", "of": "image"}, *learned]},
            },
        },
        "inputs": {
            "llm.input_ids": {"tokens": "ids"},
            "llm.segments": {"tokens": "segment"},
            "llm.position_ids": {"tokens": "position", "pictures": "image", "within": "segment"},
            "llm.image_rows": {"index": ["sample", "token"], "of": "image"},
            "labels": {"tokens": "labels"},
            "vision.pixel_values": {"pixels": "image"},
            "vision.positions": {"patches": "image", "gives": "places"},
            "vision.segments": {"patches": "image", "gives": "segment"},
            "vision.windows": {"patches": "image", "gives": "windows", "squares": WINDOW},
        },
    }


def build(dt_opt, folder, made, plan):
    for module in made["modules"].values():
        module["onnx"] = str(GRAPHS / module["onnx"])
    return texts.build(dt_opt, folder, made, plan)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dt-opt", required=True, type=pathlib.Path)
    dt_opt = parser.parse_args().dt_opt.resolve()
    samples, failures, losses = draw(), [], {}
    tensors = tensors_of(samples)
    most = int(np.diff(tensors["offsets.sample.tokens"]).max())
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(temporary)
        shard, batch = work / "pictures.tar", work / "batch.safetensors"
        thin = [([1], np.zeros((1, 201, 3), np.uint8))]
        write_shard(shard, [*samples, thin])
        save_file({name: np.ascontiguousarray(value) for name, value in tensors.items()}, batch)
        whole = build(dt_opt, work / "whole", recipe({"global": len(samples)}, most), [])
        bound = int(tensors["offsets.sample.tokens"][-1]) // 4 + most
        cut = build(dt_opt, work / "cut", recipe({"global": len(samples), "micro": 7, "tokens": bound}, most), ["--plan=vision:dp=2;llm:dp=2,ranks=0-1"])
        for name, program, ranks, flags in [("file", whole, 1, ["--batch", batch]), ("shards", whole, 1, ["--data", shard]), ("cut", cut, 2, ["--data", shard])]:
            run = texts.train(program, ranks, *flags, steps=3)
            if run.returncode:
                failures.append(f"{name}: ended with {run.returncode}: {run.stderr}")
                continue
            losses[name] = texts.curve(program)
            if name == "shards" and f"sample '{len(samples):04}': member '0.png': a picture of 201 x 1, more than 200 times as long as wide" not in run.stderr:
                failures.append(f"the thin picture is not named: {run.stderr}")
        for name in losses:
            failures += texts.differ(name, losses[name], losses.get("file", []))
    print("\n".join(failures) or f"{len(samples)} samples, {len(tensors['item_of.image'])} pictures: losses {[line['loss'] for line in losses['file']]}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
