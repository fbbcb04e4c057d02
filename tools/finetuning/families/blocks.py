# ===- blocks.py - pictures whose tokens see one another -------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# In Gemma 3 the tokens of a picture see one another, whichever is first, and in
# PaliGemma those of the whole prompt. All else sees what stands before.
# ===-----------------------------------------------------------------------===
"""Gemma3, PaliGemma."""

import numpy as np

from .. import media
from ..encoded import IGNORED, Encoded
from ..errors import Failure
from ..template import text_of
from .tensors import Tensor
from .text import zeros
from .tiles import Tiles


class Blocks(Tiles):
    """arrays() has "blocks" [tokens]: of what block each is; a token that is in none has its own number."""

    SEES_LATER = True
    TOWER = "ProjectedTower"
    cap = None  # of logits

    def tensors(self):
        return super().tensors() | {"llm.blocks": Tensor("blocks", numbers=True)}

    def language(self, net):
        from export.packing import BlockLanguage

        graph = super().language(net)
        names = list(graph.inputs.items())
        graph.module, graph.inputs = BlockLanguage(net, self.cap), dict(names[:3]) | {"blocks": (zeros(1, 6), {1: "seq"})} | dict(names[3:])
        return graph


class Gemma3(Blocks):
    @property
    def places(self):
        return self.config.mm_tokens_per_image

    def arrays(self, ids, labels, items):
        numbers, pictures = np.arange(len(ids)), ids == self.token
        begins = np.flatnonzero(pictures & ~np.concatenate([[False], pictures[:-1]])[: len(ids)])
        for begin in begins:
            rest = np.flatnonzero(~pictures[begin:])
            numbers[begin : begin + (rest[0] if len(rest) else len(ids))] = begin
        return super().arrays(ids, labels, items) | {"blocks": numbers}


class PaliGemma(Blocks):
    PROMPTS = True

    @property
    def cap(self):
        return getattr(self.text, "final_logit_softcapping", None)

    @property
    def places(self):
        height, width = self.patches
        return height * width

    def answer(self, encoder, place, messages):
        """A user's turn, then what is learned; pictures first."""
        if [m["role"] for m in messages] != ["user", "assistant"]:
            raise Failure(f"{place}: this family has one prompt (role user) and its answer (role assistant), not {', '.join(m['role'] for m in messages)}")
        prompt, pictures = messages[0]["content"], media.pictures(place, messages)
        text = encoder.writer.image_token * len(pictures) + text_of(prompt)
        made = encoder.process(place, text, pictures, suffix=[messages[1]["content"]])
        return Encoded(place, np.array(made["input_ids"][0], np.int64), np.array(made["token_type_ids"][0], bool), encoder.read(place, made))

    def arrays(self, ids, labels, items):
        arrays = super().arrays(ids, labels, items)
        prompt = int(np.argmax(labels != IGNORED)) + 1  # a label stands before what is learned
        numbers = np.arange(len(ids))
        numbers[:prompt] = 0
        return arrays | {"blocks": numbers, "positions": arrays["positions"] + 1}
