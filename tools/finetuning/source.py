# ===- source.py - samples, by number -----------------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# What steps are packed from: len(source), source.measures(i), which costs
# nothing, source[i], the arrays of a sample, and source.fingerprint(), of all of
# them. This one makes the tokens of all samples at the start and keeps them.
# ===-----------------------------------------------------------------------===
"""Chats: a file of conversations and texts as tokens. read(): such a source, checked."""

import hashlib
import time

import numpy as np

from . import records
from .errors import Failure, say
from .template import Template

IGNORED = -100
SILENT = 10  # seconds without a line


class Chats:
    """Tokens of samples, [(place, ids, learned)]."""

    def __init__(self, samples):
        self.samples = samples

    def __len__(self):
        return len(self.samples)

    def measures(self, i):
        """`learned`: the first token has nothing before it."""
        _, ids, learned = self.samples[i]
        return {"tokens": len(ids), "learned": int(learned[1:].sum())}

    def place(self, i):
        """Where the sample stands in its file."""
        return self.samples[i][0]

    def __getitem__(self, i):
        """A label stands at the token that predicts it."""
        _, ids, learned = self.samples[i]
        labels = np.full(len(ids), IGNORED, np.int64)
        labels[:-1][learned[1:]] = ids[1:][learned[1:]]
        return {"input_ids": ids, "labels": labels}

    def fingerprint(self):
        """Of all that training sees."""
        hashed = hashlib.sha256()
        for _, ids, learned in self.samples:
            for part in (np.int64(len(ids)), ids, learned):
                hashed.update(part.tobytes())
        return hashed.hexdigest()


class Encoder:
    """Records as tokens of a network with so many `rows` of them; a tokenizer needs a template for conversations only."""

    def __init__(self, tokenizer, where, rows):
        self.tokenizer, self.where, self.rows, self.template = tokenizer, where, rows, None

    def encode(self, place, record):
        text = records.text_of(place, record)
        if text is None:
            is_first, self.template = self.template is None, self.template or Template(self.tokenizer, self.where)
            ids, learned = self.template.encode(place, records.messages_of(place, record))
            if is_first:
                say(self.template.explain(place, ids, learned))
        else:
            ids = self.tokenizer(text)["input_ids"]
            end = self.tokenizer.eos_token_id
            ids = np.array(ids if end is None or ids[-1:] == [end] else [*ids, end], np.int64)
            learned = np.ones(len(ids), bool)
        if ids.max(initial=-1) >= self.rows:  # a tokenizer of another model
            raise Failure(f"{place}: the tokenizer gives token {ids.max()}; the network of {self.where} has {self.rows}")
        if not learned[1:].any():
            raise Failure(f"{place}: none of its {len(ids)} tokens is learned")
        return place, ids, learned


def read(path, encoder, most):
    """A source of the file's samples of at most so many tokens."""
    lines, samples, said = records.read(path), [], time.monotonic()
    for place, record in lines:
        samples.append(encoder.encode(place, record))
        if time.monotonic() - said > SILENT:
            said = time.monotonic()
            say(f"{path}: tokens of {len(samples)} of {len(lines)} samples")
    long = [s for s in samples if len(s[1]) > most]
    if long and len(long) == len(samples):
        raise Failure(f"{path}: all samples are longer than {most} tokens; the shortest, {min(samples, key=lambda s: len(s[1]))[0]}, has {min(len(s[1]) for s in samples)}")
    if long:
        say(f"{len(long)} of {len(samples)} samples of {path} are longer than {most} tokens and left out (first {long[0][0]}, {len(long[0][1])} tokens)")
    return Chats([s for s in samples if len(s[1]) <= most])
