# ===- steps.py - how large the items of a step are -------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A program runs a few steps. Of equal items a step says only how many there are.
# Of items of unequal size (docs/sizes.md) each sample has tokens and each image
# has rows, drawn from 0, 1, the bound and anything between: `t` and `r` are the
# sums. Values that point to items, or say which rows are one item's, follow.
# ===-----------------------------------------------------------------------===
"""equal(), unequal(seed), grown(step): sizes of steps; numbers(): values that depend on them; of_sample(): one sample's part of a step."""

import random

import numpy as np

SAMPLES = 4  # a step's; what n is when a graph runs whole
IMAGES = ([0, 0, 2, 3, 3], [], [1])  # the sample of each image, in the batches that a program runs
BATCHES = len(IMAGES)
MOST_IMAGES, MOST_ROWS, MOST_TOKENS = 3, 3, 11  # of a sample, of an image, of a sample

ITEMS = {"image": {"max": MOST_IMAGES}}
UNEQUAL_ITEMS = {
    "image": {"max": MOST_IMAGES, "measures": {"rows": {"max": MOST_ROWS}}},
    "sample": {"measures": {"tokens": {"max": MOST_TOKENS}}},
}
DIMS = {"n": "sample", "m": "image", "t": "sample.tokens", "r": "image.rows"}
OWNERS = {"n": "sample", "t": "sample", "m": "image", "r": "image"}  # the kind of item that a symbol is of


def equal():
    return [{"n": SAMPLES, "m": len(owners), "owners": owners} for owners in IMAGES]


def step(tokens, owners, rows):
    return {"n": len(tokens), "m": len(owners), "t": sum(tokens), "r": sum(rows), "tokens": tokens, "owners": owners, "rows": rows}


def unequal(seed):
    """Of the first step no symbol is 0; the others lack images, rows or tokens."""
    source = random.Random(f"sizes:{seed}")
    made = []
    while len(made) < BATCHES:
        kind = len(made)
        counts = [source.choice([0, 1, 2, MOST_IMAGES]) if kind != 1 else 0 for _ in range(SAMPLES)]
        owners = [s for s, count in enumerate(counts) for _ in range(count)]
        if kind == 0 and source.random() < 0.3:  # a file need not have them in the order of samples
            source.shuffle(owners)
        rows = [source.choice([0, 1, MOST_ROWS, source.randint(0, MOST_ROWS)]) for _ in owners]
        tokens = []
        for s in range(SAMPLES):
            placed = sum(r for r, owner in zip(rows, owners) if owner == s)  # a sample's rows have places among its tokens
            tokens.append(max(placed, source.choice([0, 1, MOST_TOKENS, source.randint(0, MOST_TOKENS)] if kind < 2 else [0, 0, 1])))
        if kind > 0 or (len(set(counts)) > 1 and 0 in counts and sum(rows) > 2 and sum(tokens) > 4):
            made.append(step(tokens, owners, rows))
    return made


def grown(first):
    """Steps from which sizes are worked out: the first one, and one more for each symbol, where only that is larger."""
    if "t" not in first:
        return [first, {**first, "n": first["n"] + 3}, {**first, "m": first["m"] + 3}]
    tokens, owners, rows = list(first["tokens"]), list(first["owners"]), list(first["rows"])
    more_tokens, more_rows = [tokens[0] + 4, *tokens[1:]], [rows[0] + 3, *rows[1:]]
    return [first, step(tokens + [0, 0, 0], owners, rows), step(tokens, owners + [3, 3, 3], rows + [0, 0, 0]), step(more_tokens, owners, rows), step(tokens, owners, more_rows)]


# --- values that depend on the items ----------------------------------------------


def measure(values, symbol):
    """Of each item, how much it adds to the symbol."""
    return {"n": [1] * values["n"], "m": [1] * values["m"], "t": values.get("tokens"), "r": values.get("rows")}[symbol]


def begins(values, symbol, scale=1):
    return scale * np.concatenate([[0], np.cumsum(measure(values, symbol), dtype=np.int64)]).astype(np.int64)


def segments(values, dim, source):
    """A number for each row, another one for each item, at times several in one item."""
    made = [np.zeros(0, np.int64)]
    for i, size in enumerate(measure(values, dim.symbol)):
        made.append(7 * i - 5 + (source.random(dim.scale * size) < 0.3).cumsum().clip(max=6))
    return np.concatenate(made)


def own(values, dim, into, source):
    """For each row one of the rows of the same item."""
    at, made = begins(values, into.symbol, into.scale), [np.zeros(0, np.int64)]
    for i, size in enumerate(measure(values, dim.symbol)):
        made.append(source.integers(at[i], max(at[i + 1], at[i] + 1), dim.scale * size))
    return np.concatenate(made)


def places(values, source):
    """For each row of an image a place of its own among its sample's tokens."""
    at = begins(values, "t")
    free = [list(at[s] + source.permutation(size)) for s, size in enumerate(values["tokens"])]
    taken = [[free[owner].pop() if free[owner] else min(at[owner], values["t"] - 1) for _ in range(size)] for owner, size in zip(values["owners"], values["rows"])]
    return np.concatenate([np.zeros(0, np.int64), *(np.sort(np.array(t, np.int64)) for t in taken)])


def numbers(given, values, dims, source):
    """The values of an input that points to items; its last axis with a symbol is what they stand along."""
    dim = next(d for d in dims if d.symbol)
    if given.kind == "segments":
        made = segments(values, dim, source)
    elif given.kind == "own":
        made = own(values, dim, given.into, source)
    elif given.kind == "places":
        made = places(values, source)
    else:  # the sample of each image
        made = np.array(values["owners"], np.int64)
    return made.reshape([d.at(values) for d in dims])


# --- one sample of a step ---------------------------------------------------------


def of_sample(values, sample):
    """(sizes of that sample alone, for each symbol the places of its rows' items)."""
    images = [i for i, owner in enumerate(values["owners"]) if owner == sample]
    alone = step([values["tokens"][sample]], [0] * len(images), [values["rows"][i] for i in images])
    return alone, {"n": [sample], "t": [sample], "m": images, "r": images}


def rows_of(values, dim, items):
    """Places of the rows of items along an axis of this size."""
    at = begins(values, dim.symbol, dim.scale)
    return np.concatenate([np.zeros(0, np.int64), *(np.arange(at[i], at[i + 1]) for i in items)]).astype(np.int64)
