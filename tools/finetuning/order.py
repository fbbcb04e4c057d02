# ===- order.py - which sample stands where in the stream ----------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A run sees an endless stream of samples; steps cut it. What stands at a place is
# a function of numbers of samples, weights, order and seed, and costs the same at
# any place, so nothing has to be kept to go on.
# ===-----------------------------------------------------------------------===
"""Order: at(place) of one data file, of several, or of a mixture with weights."""

import math
from fractions import Fraction

import numpy as np

from .errors import Failure

PERIOD = 10_000  # places after which a mixture repeats its turns


class Order:
    """Samples are numbered over all files. Without weights an epoch has each of them once; with weights each file has epochs of its own."""

    def __init__(self, counts, weights=None, order="file", seed=0):
        self.order, self.seed = order, seed
        self.counts = counts if weights else [sum(counts)]
        self.base = [0, *np.cumsum(self.counts[:-1]).tolist()]
        self.turns, self.before, self.share = deal(weights if weights else [Fraction(1)])
        self._known = [(-1, None)] * len(self.counts)

    def at(self, place):
        cycle, turn = divmod(place, len(self.turns))
        k = self.turns[turn]
        epoch, i = divmod(cycle * self.share[k] + self.before[turn], self.counts[k])
        return self.base[k] + (i if self.order == "file" else int(self._permutation(k, epoch)[i]))

    def _permutation(self, k, epoch):
        known, order = self._known[k]  # two threads ask
        if known != epoch:
            key = (self.seed, epoch) if len(self.counts) == 1 else (self.seed, epoch, k)
            order = np.random.default_rng(key).permutation(self.counts[k])
            self._known[k] = epoch, order
        return order


def deal(weights):
    """(whose turn it is, how many turns it had before in this period, turns of each in a period): turns of each are as even as they can be."""
    whole = math.lcm(*(w.denominator for w in weights))
    share = [int(w * whole) for w in weights]
    share = [s // math.gcd(*share) for s in share]
    if sum(share) > PERIOD:
        raise Failure(f"--data: weights {', '.join(str(float(w)) for w in weights)} repeat after {sum(share)} samples; at most {PERIOD} (fewer digits)")
    turns, before, had, owed = [], [], [0] * len(share), [0] * len(share)
    for _ in range(sum(share)):
        owed = [o + s for o, s in zip(owed, share)]
        k = owed.index(max(owed))
        owed[k] -= sum(share)
        turns.append(k)
        before.append(had[k])
        had[k] += 1
    return turns, before, share
