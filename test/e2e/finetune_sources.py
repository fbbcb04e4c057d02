# ===- finetune_sources.py - sources in Python, good and bad -------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===
"""For finetune_producers.py: `--data finetune_sources.py:Name?{…}`."""

import os
import signal
import time

import numpy as np


class Lengths:
    """Samples of tokens; `at`: the number of one that is bad, `how` it is so; `known`: measures without making a sample."""

    def __init__(self, count=40, at=-1, how=None, known=False, seconds=0.0):
        self.count, self.at, self.how, self.seconds = count, at, how, seconds
        if known:
            self.measures = lambda i: {"tokens": self.length(i), "learned": self.length(i) - 1}

    def __len__(self):
        return self.count

    def length(self, i):
        return 5 + i * 7 % 23

    def __getitem__(self, i):
        time.sleep(self.seconds)
        if i == self.at:
            if self.how == "raises":
                raise ValueError("no such picture\nat all")
            if self.how == "hangs":
                time.sleep(1000)
            if self.how == "dies":
                os.kill(os.getpid(), signal.SIGSEGV)
            if self.how == "other":
                return [1, 2, 3]
            if self.how == "floats":
                return {"input_ids": np.ones(4)}
            if self.how == "late":
                return {"input_ids": np.ones(3, np.int64)}
            if self.how == "drawn":
                return {"input_ids": np.frombuffer(os.urandom(self.length(i)), np.uint8) % 100}
        return {"input_ids": np.random.default_rng(i).integers(0, 200, self.length(i))}


class Nothing:
    def __init__(self):
        raise RuntimeError("no data\ntoday")


LIST = [{"text": "the quick fox"}, {"text": "why"}]
