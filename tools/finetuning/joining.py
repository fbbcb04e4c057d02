# ===- joining.py - a step's tensors from arrays of samples --------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A sample's arrays are those of a batch of this sample alone. To join them is to
# put them one behind another, and to count on where they count samples or rows.
# ===-----------------------------------------------------------------------===
"""Joiner(sections): join([(place, arrays)]) -> tensors of a batch, as docs/data.md has them."""

import numpy as np

from .errors import Failure

OFFSETS, ITEM_OF = "offsets.", "item_of."


class Joiner:
    """`sections`: data.json of a program."""

    def __init__(self, sections):
        data = sections["data"]
        self.axes, self.numbers, self.inputs = data.get("axes", {}), set(data.get("numbers", ())), sections.get("inputs", {})

    def declared(self, name):
        """What the recipe's `inputs` says of a tensor; names may have their module or not."""
        last = name.rpartition(".")[2]
        return self.inputs.get(name) or next((entry for key, entry in self.inputs.items() if key.rpartition(".")[2] == last), {})

    def join(self, samples):
        first_place, first = samples[0]
        for place, arrays in samples:
            if arrays.keys() != first.keys():
                raise Failure(f"{place}: has {', '.join(sorted(arrays))}; {first_place} has {', '.join(sorted(first))}")
        rows = {name.removeprefix(OFFSETS): [int(arrays[name][-1]) for _, arrays in samples] for name in first if name.startswith(OFFSETS)}
        return {name: self._joined(name, samples, rows) for name in first}

    def _joined(self, name, samples, rows):
        arrays = [arrays[name] for _, arrays in samples]
        if name.startswith(OFFSETS):
            ends = np.cumsum([0, *(int(a[-1]) for a in arrays)])
            return np.concatenate([np.zeros(1, np.int64), *(a[1:] + end for a, end in zip(arrays, ends))]).astype(np.int64)
        if name.startswith(ITEM_OF):
            return np.concatenate([a + i for i, a in enumerate(arrays)])
        axis = self.axes.get(name, 0)
        for (place, _), array in zip(samples, arrays):
            if array.dtype != arrays[0].dtype or array.ndim <= axis or _beside(array, axis) != _beside(arrays[0], axis):
                raise Failure(f"{place}: {name} is {array.dtype} {list(array.shape)}, beside {arrays[0].dtype} {list(arrays[0].shape)} of {samples[0][0]}; joined along axis {axis}")
        return np.ascontiguousarray(np.concatenate(self._shifted(name, arrays, rows, samples[0][0]), axis))

    def _shifted(self, name, arrays, rows, place):
        declared = self.declared(name)
        if "index" in declared or "rebase" in declared:
            measure, scale = declared.get("rebase", "sample.tokens"), declared.get("rows", 1) if "rebase" in declared else 1
            if measure not in rows:
                raise Failure(f"{place}: {name} points into rows of {measure}, so {OFFSETS}{measure} is needed beside it")
            begins = np.cumsum([0, *rows[measure]]) * scale
            return [np.where(a < 0, a, a + begin).astype(a.dtype) for a, begin in zip(arrays, begins)]
        if "item_of" in declared:
            return [a + i for i, a in enumerate(arrays)]
        if name in self.numbers:
            begins = np.cumsum([0, *(int(a.max(initial=-1)) + 1 for a in arrays)])
            return [(a + begin).astype(a.dtype) for a, begin in zip(arrays, begins)]
        return arrays


def _beside(array, axis):
    return array.shape[:axis] + array.shape[axis + 1 :]
