# ===- steps.py - which samples a step has, and its tensors -------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A function of the data, the order, the seed and the step, so that a run that is
# resumed needs nothing but the step's number. Epochs follow one another without
# a gap. Texts stand one behind another, no row is padding (docs/sizes.md).
# ===-----------------------------------------------------------------------===
"""Steps: the samples of each step, and their tensors."""

import numpy as np

from .errors import Failure
from .families.tensors import pack
from .order import Order


class Steps:
    """Steps of `size` samples; of a source that is seen `once`, the last one may have fewer. `by_source`: each token comes with the number of its source."""

    def __init__(self, source, size, order="file", seed=0, once=False, by_source=False):
        self.source, self.size, self.once, self.by_source = source, size, once, by_source
        self.order = Order(getattr(source, "counts", [len(source)]), getattr(source, "weights", None), order, seed)
        self.tokens = source.tokens()
        self.longest = int(self.tokens.max())

    def samples(self, step):
        """Numbers of the samples of a step, from 0."""
        first = step * self.size
        end = min(first + self.size, len(self.source)) if self.once else first + self.size
        return [self.order.at(place) for place in range(first, end)]

    @property
    def epoch(self):
        """Steps that an epoch has, the last one perhaps with samples of the next."""
        return -(-len(self.source) // self.size)

    def figures(self, step):
        """What is said of a step beside its loss."""
        samples = self.samples(step)
        whole = [i for i in samples if not self.source.is_left_out(i)]
        measures = [self.source.measures(i) for i in whole]
        figures = {"learned_tokens": sum(m["learned"] for m in measures), "tokens": sum(m["tokens"] for m in measures)}
        return figures | ({"left_out": len(samples) - len(whole)} if len(whole) < len(samples) else {})

    def sums(self, step):
        """Tokens of a step, and of its longest sample."""
        tokens = self.tokens[self.samples(step)]
        return int(tokens.sum()), int(tokens.max())

    def tensors(self, step):
        return self.tensors_of(step, [self.source[i] for i in self.samples(step)])

    def tensors_of(self, step, arrays):
        """Of a step whose samples have such arrays, None where one is left out."""
        whole = [(i, one) for i, one in zip(self.samples(step), arrays) if one is not None]
        if not whole:
            raise Failure(f"step {step + 1}: all of its {len(arrays)} samples are broken")
        family = self.source.family
        made = pack(family.tensors(), family.KINDS, [one for _, one in whole], self.size)
        if self.by_source:
            numbers, lengths = zip(*((self.source.number(i), len(one["labels"])) for i, one in whole))
            made["sources"] = np.repeat(numbers, lengths)[None].astype(np.int64)
        return made

    def items(self, name):
        """Of a kind's measure, "image.merged": (most items of a sample, the largest, most of a sample for each of its tokens, the sum over all of each sample)."""
        values = [np.asarray(self.source.measures(i)[name]) for i in range(len(self.source))]
        sums = np.array([int(v.sum()) for v in values], np.int64)
        return max(map(len, values)), max(int(v.max(initial=0)) for v in values), float(np.max(sums / self.tokens)), sums

    def batches(self, steps, producers):
        """(step, its tensors) of each, whoever makes the samples."""
        source = self.source
        for step, made in producers.stream(steps, lambda step: [source.ref(i) for i in self.samples(step)]):
            arrays = [None if source.is_left_out(i) else source.take(i, one) for i, one in zip(self.samples(step), made)]
            yield step, self.tensors_of(step, arrays)


# --- how large parts are ------------------------------------------------------------

PART = 2048  # tokens that a part may have by default, if no two samples have more


def largest_part(step_tokens, longest, count, replicas=1):
    """Tokens that no part of a step needs to exceed if its samples are put into `count` microbatches, and those of each into replicas, largest samples first (runtime/reorder/Partition.h)."""
    most = step_tokens
    for groups in (count, replicas):
        if groups > 1:
            bound = -(-most // groups) + longest
            most = min(most, bound + bound // 1024 + 1)  # loads are compared in 1/2^20 of the bound
    return most


def choose_parts(size, longest, sums, replicas=1, count=None):
    """(micro, tokens) of steps of `size` samples that have (all tokens, those of the longest sample): the fewest microbatches whose parts are small. Replicas have a sample each at least."""
    wanted, tried, sums = max(PART, 2 * longest), 0, sorted(set(sums))
    for micro in [-(-size // count)] if count else range(size, replicas - 1, -1):
        made = -(-size // micro)
        if made == tried:
            continue
        tried = made
        tokens = max([longest, *(largest_part(*pair, made, replicas) for pair in sums)])
        if tokens <= wanted:
            break
    return micro, tokens
