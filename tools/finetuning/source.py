# ===- source.py - samples, by number -----------------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# What steps are packed from: len(source), source.measures(i), which costs
# nothing, source[i], the arrays of a sample. This one keeps samples; dataset.py has
# the one that makes them when they are needed.
# ===-----------------------------------------------------------------------===
"""Chats: samples that an encoder has made."""

import numpy as np


class Chats:
    """samples  [Encoded]."""

    def __init__(self, samples, family):
        self.samples, self.family = samples, family

    def __len__(self):
        return len(self.samples)

    def measures(self, i):
        return self.samples[i].measures(self.family)

    def tokens(self):
        return np.array([len(s.ids) for s in self.samples], np.int64)

    def is_left_out(self, i):
        return False

    def place(self, i):
        """Where the sample stands in its file."""
        return self.samples[i].place

    def __getitem__(self, i):
        return self.samples[i].arrays(self.family)
