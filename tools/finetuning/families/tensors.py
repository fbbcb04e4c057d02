# ===- tensors.py - from samples to the tensors of a step ----------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# One item's rows stand behind another's, no row is padding (docs/sizes.md). What
# counts places among rows, or numbers items, counts them in the whole step.
# ===-----------------------------------------------------------------------===
"""Tensor: what an input of a step is made of; pack: the tensors of a step."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Tensor:
    """Arrays of samples, one behind another along the axis where `shape` has a 0."""

    key: str  # of a sample's arrays
    shape: tuple = (1, 0)
    kind: type = np.int64
    numbers: bool = False  # of what rows are of, from 0 in each sample
    into: str = ""  # "sample.tokens": places among these rows of the sample
    rows: int = 1  # for each 1 of `into`

    def join(self, samples, firsts):
        """`firsts` {measure: of each sample, where its rows begin}."""
        parts, following = [np.zeros(self.shape, self.kind)], 0
        for i, sample in enumerate(samples):
            array = sample[self.key].reshape([n or -1 for n in self.shape] if sample[self.key].size else self.shape)
            if self.numbers:
                array, following = array + following, following + int(array.max(initial=-1)) + 1
            elif self.into:
                array = array + firsts[self.into][i] * self.rows
            parts.append(array.astype(self.kind, copy=False))
        return np.ascontiguousarray(np.concatenate(parts, self.shape.index(0)))


def sums(lengths):
    return np.cumsum([0, *lengths], dtype=np.int64)


def pack(tensors, kinds, samples, size):
    """Tensors of a step of `size` samples; where there are fewer, the others have no token.

    tensors  {input: Tensor}
    kinds    {kind of items: its measures}; a sample has an array "kind.measure" of its items'
    """
    made, firsts = {}, {"sample.tokens": sums(len(s["input_ids"]) for s in samples)}
    made["offsets.sample.tokens"] = np.concatenate([firsts["sample.tokens"], np.full(size - len(samples), firsts["sample.tokens"][-1])])
    for kind, measures in kinds.items():
        for measure in measures:
            name = f"{kind}.{measure}"
            values = [s[name] for s in samples]
            firsts[name] = sums(int(v.sum()) for v in values)
            made[f"offsets.{name}"] = sums(np.concatenate([np.zeros(0, np.int64), *values]))
        made[f"item_of.{kind}"] = np.repeat(np.arange(len(samples)), [len(v) for v in values])
    return made | {name: tensor.join(samples, firsts) for name, tensor in tensors.items()}
