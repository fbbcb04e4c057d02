# ===- source.py - samples, by number -----------------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# What steps are packed from: len(source), source.measures(i), which costs
# nothing, source[i], the arrays of a sample. This one keeps tokens; dataset.py has
# the one that makes samples when they are needed.
# ===-----------------------------------------------------------------------===
"""Chats: conversations and texts as tokens; Encoder: makes these of records."""

import numpy as np

from . import records
from .errors import Failure, say
from .sources.digests import of_parts
from .template import Template

IGNORED = -100


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

    def tokens(self):
        return np.array([len(ids) for _, ids, _ in self.samples], np.int64)

    def is_left_out(self, i):
        return False

    def place(self, i):
        """Where the sample stands in its file."""
        return self.samples[i][0]

    def __getitem__(self, i):
        """A label stands at the token that predicts it."""
        _, ids, learned = self.samples[i]
        labels = np.full(len(ids), IGNORED, np.int64)
        labels[:-1][learned[1:]] = ids[1:][learned[1:]]
        return {"input_ids": ids, "labels": labels}


class Encoder:
    """Records as tokens of a network with so many `rows` of them; a tokenizer needs a template for conversations only."""

    def __init__(self, tokenizer, where, rows, tell=say):
        self.tokenizer, self.where, self.rows, self.tell, self.template = tokenizer, where, rows, tell, None

    def digest(self):
        """Of what makes tokens of a record."""
        tokenizer = self.tokenizer
        template = getattr(tokenizer, "chat_template", None)
        return of_parts(tokenizer.backend_tokenizer.to_str(), str(template), str(tokenizer.special_tokens_map), str(tokenizer.eos_token_id), str(self.rows))

    def encode(self, place, record):
        text = records.text_of(place, record)
        if text is None:
            is_first, self.template = self.template is None, self.template or Template(self.tokenizer, self.where)
            ids, learned = self.template.encode(place, records.messages_of(place, record))
            if is_first:
                self.tell(self.template.explain(place, ids, learned))
        else:
            ids = self.tokenizer(text)["input_ids"]
            end = self.tokenizer.eos_token_id
            ids = np.array(ids if end is None or ids[-1:] == [end] else [*ids, end], np.int64)
            learned = np.ones(len(ids), bool)
        return self.check(place, ids, learned)

    def check(self, place, ids, learned):
        return check_tokens(place, ids, learned, self.rows, self.where)


def check_tokens(place, ids, learned, rows, where):
    """A sample, if it is one for a network with so many rows."""
    if ids.max(initial=-1) >= rows or ids.min(initial=0) < 0:  # a tokenizer of another model
        raise Failure(f"{place}: the tokenizer gives token {ids.max() if ids.min() >= 0 else ids.min()}; the network of {where} has {rows}")
    if not learned[1:].any():
        raise Failure(f"{place}: none of its {len(ids)} tokens is learned")
    return place, ids, learned
