# ===- encoded.py - a sample as tokens -------------------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# What encoder and families make of a record; they know it, it knows neither.
# ===-----------------------------------------------------------------------===
"""Encoded: tokens, what of them is learned, and a sample's items."""

from dataclasses import dataclass, field

import numpy as np

IGNORED = -100  # a label that nothing is learned from


@dataclass
class Encoded:
    place: str
    ids: np.ndarray
    learned: np.ndarray  # whether a token is a prediction's target
    items: dict = field(default_factory=dict)  # what the family has read of pictures

    def measures(self, family):
        """`learned`: the first token has nothing before it. "KIND.MEASURE": of each of the sample's items."""
        return {"tokens": len(self.ids), "learned": int(self.learned[1:].sum())} | {name: self.items[name] for name in family.item_measures}

    def arrays(self, family):
        return family.arrays(self.ids, self.labels(), self.items)

    def labels(self):
        """A label stands at the token that predicts it."""
        labels = np.full(len(self.ids), IGNORED, np.int64)
        labels[:-1][self.learned[1:]] = self.ids[1:][self.learned[1:]]
        return labels
