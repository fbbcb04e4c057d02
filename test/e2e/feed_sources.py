# ===- feed_sources.py - sources of tensors in Python --------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===
"""For feed.py: `"data": {"source": "feed_sources.py:Name"}`."""

import numpy as np


class Rows:
    """Sample i is a function of i; `at`: the number of one that raises."""

    def __init__(self, count=23, at=-1):
        self.count, self.at = count, at

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        if i == self.at:
            raise ValueError("no such file")
        ids = np.random.default_rng(i).integers(0, 50, (1, 32))
        return {"input_ids": ids, "labels": np.where(ids < 25, -100, np.roll(ids, -1, 1))}


def torch_rows():
    """The same as a torch Dataset, whose samples are tuples of tensors."""
    import torch

    rows = [Rows()[i] for i in range(len(Rows()))]
    return torch.utils.data.TensorDataset(*(torch.tensor(np.stack([row[name] for row in rows])) for name in ("input_ids", "labels")))
