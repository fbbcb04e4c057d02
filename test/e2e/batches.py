# ===- batches.py - batches larger than the goldens' ------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A model cut over ranks needs more samples than a golden has. These batches have
# the same tensors; samples with no image, and runs of them, are on purpose.
# ===-----------------------------------------------------------------------===
"""Random batches for the models of test/models, by name, with any number of samples."""

import numpy as np
from safetensors.numpy import load_file

IMAGES = [1, 0, 3, 2, 0, 0, 0, 0, 1, 3, 0, 2]  # a sample; four in a row have none
TOKENS = 56  # a sample of mllm, enough for three images
IMAGE_TOKENS = 16


def indices(golden, samples, random):
    """Drawn anew, but those that every row of the golden has as often: they stand for something, such as places of a picture's rows."""
    rows = golden[np.arange(samples) % len(golden)]
    marks = [v for v in np.unique(golden) if golden.ndim == 2 and np.ptp((golden == v).sum(axis=1)) == 0]
    others = np.setdiff1d(np.arange(golden.max() + 1), marks)
    fresh = random.choice(others, rows.shape) if len(others) else rows
    return np.where(np.isin(rows, marks), rows, fresh).astype(golden.dtype)


def tiled(folder, samples, random):
    """The golden's tensors with fresh values: indices() and noise of the same spread."""
    golden = {k[3:]: v for k, v in load_file(folder / "golden.safetensors").items() if k.startswith("in.")}
    batch = {}
    for name, value in golden.items():
        shape = (samples,) + value.shape[1:]
        if value.dtype.kind == "i":
            batch[name] = indices(value, samples, random)
        else:
            batch[name] = (random.standard_normal(shape) * value.std()).astype(value.dtype)
    tokens = batch.get("decoder_input_ids", batch.get("input_ids"))
    if "labels" in batch and tokens is not None and tokens.shape == batch["labels"].shape:
        batch["labels"] = np.roll(tokens, -1, axis=1)
        batch["labels"][:, -1] = -100
        batch["labels"][0, : batch["labels"].shape[1] // 2] = -100  # denominators differ between parts
    return batch


def mllm(samples, random):
    counts = [IMAGES[i % len(IMAGES)] for i in range(samples)]
    ids = random.integers(0, 200, (samples, TOKENS)).astype(np.int64)
    labels = np.where(random.random(ids.shape) < 0.5, np.roll(ids, -1, axis=1), -100)
    positions = []
    for sample, count in enumerate(counts):
        for image in range(count):
            first = 2 + image * (IMAGE_TOKENS + 1)
            ids[sample, first : first + IMAGE_TOKENS] = 255
            labels[sample, first - 1 : first + IMAGE_TOKENS - 1] = -100
            positions.append(sample * TOKENS + first + np.arange(IMAGE_TOKENS))
    noise = random.standard_normal((2, samples, 4, 8, 8)).astype(np.float32)
    return {
        "llm.input_ids": ids,
        "labels": labels,
        "llm.image_positions": np.array(positions, np.int64).reshape(-1, IMAGE_TOKENS),
        "vision.pixel_values": random.standard_normal((sum(counts), 3, 32, 32)).astype(np.float32),
        "generator.timestep": random.integers(0, 1000, samples).astype(np.int64),
        "generator.noisy_latents": noise[0],
        "noise": noise[1],
    }


def make(folder, samples, seed=0):
    random = np.random.default_rng(seed)
    return mllm(samples, random) if folder.name == "mllm" else tiled(folder, samples, random)


def adapt(recipe, name):
    """What a recipe must say for these batches."""
    if name == "mllm":
        recipe["items"]["image"]["max"] = 3
        recipe["dims"]["seq"] = TOKENS
    return recipe
