# ===- blocks.py - pictures whose tokens see one another -------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# In Gemma 3 the tokens of a picture see one another, whichever is first, and in
# PaliGemma those of the whole prompt. All else sees what stands before.
# ===-----------------------------------------------------------------------===
"""Gemma3, PaliGemma."""

import numpy as np

from .tensors import Tensor
from .text import zeros
from .tiles import Tiles


class Blocks(Tiles):
    def blocks(self, ids, items):
        """[tokens]: of what block each is; a token that is in none has its own number."""
        raise NotImplementedError

    def arrays(self, ids, labels, items):
        return super().arrays(ids, labels, items) | {"blocks": self.blocks(ids, items)}

    def tensors(self):
        return super().tensors() | {"llm.blocks": Tensor("blocks", numbers=True)}

    def language(self, net):
        from export.packing import BlockLanguage

        graph = super().language(net)
        names = list(graph.inputs.items())
        graph.module, graph.inputs = BlockLanguage(net), dict(names[:3]) | {"blocks": (zeros(1, 6), {1: "seq"})} | dict(names[3:])
        return graph

    def tower(self, model):
        from export.tiling import ProjectedTower

        return ProjectedTower(model)


class Gemma3(Blocks):
    @property
    def places(self):
        return self.config.mm_tokens_per_image

    def blocks(self, ids, items):
        numbers, pictures = np.arange(len(ids)), ids == self.token
        begins = np.flatnonzero(pictures & ~np.concatenate([[False], pictures[:-1]])[: len(ids)])
        for begin in begins:
            rest = np.flatnonzero(~pictures[begin:])
            numbers[begin : begin + (rest[0] if len(rest) else len(ids))] = begin
        return numbers
