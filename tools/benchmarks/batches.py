# ===- batches.py - the batches that are measured --------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# One batch a model, as train --batch and torch_step.py read it. The demo's has the
# mean number of pictures of its data: 9 to describe and 12 to draw in 6 sequences
# of 44 tokens. Values do not matter for time, shapes and places do. "skewed" is the
# demo without its generator on sequences cut from documents, four of each: two
# documents of five are illustrated and have four to eight pictures in a sequence,
# the others next to none.
# ===-----------------------------------------------------------------------===
"""write("demo", "gpt2" or "skewed", path), with other sizes than the defaults as named arguments."""

import numpy as np
from safetensors.numpy import save_file

BATCH, SEQ, IMAGE_TOKENS, PLACES, VOCABULARY = 6, 44, 4, 6, 129
WORDS = 2  # of every name


def demo(rng, samples=BATCH):
    ids = np.zeros((samples, SEQ), np.int64)
    segments = np.full((samples, SEQ), -1, np.int64)
    labels = np.full((samples, SEQ), -100, np.int64)
    images, targets = [], []
    for b in range(samples):
        at, number = 0, 0
        for kind in ["image"] * (1 + b % 2) + ["target"] * 2 + ["names"] * 9:
            before = 1 + (IMAGE_TOKENS if kind == "image" else 0)
            length = before + (WORDS + 1 if kind != "names" else 2 * WORDS + 2)
            if at + length > SEQ:
                break
            segments[b, at : at + length] = number
            ids[b, at : at + length] = rng.integers(5, VOCABULARY, length)
            last = at + length - (2 if kind == "target" else 1)  # <gen> is not predicted
            labels[b, at + before - 1 : last] = ids[b, at + before : last + 1]
            if kind == "image":
                images.append(b * SEQ + at + 1 + np.arange(IMAGE_TOKENS))
            if kind == "target":
                targets.append([b * SEQ + at + 1 + k if k <= WORDS else -1 for k in range(PLACES)])
            at, number = at + length, number + 1
    rows, n = np.array(targets), len(targets)
    pictures, t = rng.standard_normal((n, 3, 32, 32)), rng.random(n) ** 2
    mix = t[:, None, None, None]
    return {
        "vision.pixel_values": rng.standard_normal((len(images), 3, 32, 32)).astype(np.float32),
        "llm.input_ids": ids,
        "llm.segment_ids": segments,
        "llm.image_positions": np.array(images),
        "labels": labels,
        "target_rows": rows,
        "generator.cond_mask": (rows >= 0).astype(np.float32)[..., None],
        "generator.t": t.astype(np.float32),
        "generator.noisy": ((1 - mix) * rng.standard_normal(pictures.shape) + mix * pictures).astype(np.float32),
        "pictures": pictures.astype(np.float32),
    }


def skewed(rng, samples=32, tokens=80, most=8):
    illustrated = np.repeat(rng.random(samples // 4) < 0.4, 4)
    counts = np.where(illustrated, rng.integers(most // 2, most + 1, samples), rng.random(samples) < 0.1)
    places = [[b * tokens + 1 + i * (IMAGE_TOKENS + 1) + np.arange(IMAGE_TOKENS) for i in range(n)] for b, n in enumerate(counts)]
    ids = rng.integers(5, VOCABULARY, (samples, tokens))
    return {
        "vision.pixel_values": rng.standard_normal((counts.sum(), 3, 32, 32)).astype(np.float32),
        "llm.input_ids": ids,
        "llm.segment_ids": np.zeros((samples, tokens), np.int64),
        "llm.image_positions": np.array([p for sample in places for p in sample]),
        "labels": np.roll(ids, -1, 1),
    }


def gpt2(rng, samples=4, tokens=256, vocabulary=50257):
    ids = rng.integers(0, vocabulary, (samples, tokens + 1))
    return {"gpt2.input_ids": np.ascontiguousarray(ids[:, :-1]), "labels": np.ascontiguousarray(ids[:, 1:])}


def write(model, path, **sizes):
    save_file({"demo": demo, "gpt2": gpt2, "skewed": skewed}[model](np.random.default_rng(0), **sizes), path)
