# ===- source.py - samples, by number -----------------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# What steps are packed from: len(source), source.measures(i), which costs
# nothing, source[i], the arrays of a sample, and source.fingerprint(), of all of
# them. This one makes the tokens of all samples at the start and keeps them;
# pictures are read again when a step needs them.
# ===-----------------------------------------------------------------------===
"""Chats: a file of conversations and texts. read(): such a source, checked."""

import hashlib
import time

import numpy as np

from . import records
from .errors import Failure, say

SILENT = 10  # seconds without a line


class Chats:
    """samples  [(record, Encoded)]; of items, only measures."""

    def __init__(self, samples, encoder):
        self.samples, self.encoder = samples, encoder

    @property
    def family(self):
        return self.encoder.family

    def __len__(self):
        return len(self.samples)

    def measures(self, i):
        """`learned`: the first token has nothing before it. "KIND.MEASURE": of each of the sample's items."""
        made = self.samples[i][1]
        return {"tokens": len(made.ids), "learned": int(made.learned[1:].sum())} | made.items

    def place(self, i):
        """Where the sample stands in its file."""
        return self.samples[i][1].place

    def __getitem__(self, i):
        record, made = self.samples[i]
        if not any(len(v) for v in made.items.values()):
            return self.family.arrays(made.ids, made.labels(), self.family.read(None))
        again = self.encoder.encode(made.place, record)
        if not np.array_equal(again.ids, made.ids):
            raise Failure(f"{made.place}: its pictures are other ones than at the start")
        return self.family.arrays(again.ids, again.labels(), again.items)

    def fingerprint(self):
        """Of all that training sees but for the pixels."""
        hashed = hashlib.sha256()
        for _, made in self.samples:
            for part in (np.int64(len(made.ids)), made.ids, made.learned, *made.items.values()):
                hashed.update(part.tobytes())
        return hashed.hexdigest()


def measured(made, family):
    """Without what is made again."""
    made.items = {name: made.items[name] for kind, measures in family.KINDS.items() for name in (f"{kind}.{m}" for m in measures)}
    return made


def read(path, encoder, most):
    """A source of the file's samples of at most so many tokens."""
    lines, samples, said = records.read(path), [], time.monotonic()
    for place, record in lines:
        samples.append((record, measured(encoder.encode(place, record), encoder.family)))
        if time.monotonic() - said > SILENT:
            said = time.monotonic()
            say(f"{path}: tokens of {len(samples)} of {len(lines)} samples")
    long = [made for _, made in samples if len(made.ids) > most]
    if long and len(long) == len(samples):
        shortest = min(long, key=lambda made: len(made.ids))
        raise Failure(f"{path}: all samples are longer than {most} tokens; the shortest, {shortest.place}, has {len(shortest.ids)}")
    if long:
        say(f"{len(long)} of {len(samples)} samples of {path} are longer than {most} tokens and left out (first {long[0].place}, {len(long[0].ids)} tokens)")
    return Chats([s for s in samples if len(s[1].ids) <= most], encoder)
