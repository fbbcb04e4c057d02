# ===- sources/tokens.py - tokens that somebody has made -----------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Files are mapped, never read whole. A sample is a document, and all of it is
# learned; how long it is stands in the file's index.
# ===-----------------------------------------------------------------------===
"""Numpy: .npy of tokens; Megatron: .bin and .idx, as Megatron-LM's IndexedDataset writes them."""

import pathlib
import struct

import numpy as np

from . import Source, digests
from ..errors import Failure, one_line

MAGIC = b"MMIDIDX\x00\x00"
KINDS = {1: np.uint8, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64, 8: np.uint16}


class Documents(Source):
    """`tokens`: one behind another; `bounds`: where documents begin and end, one more than there are documents."""

    def _take(self, tokens, bounds, paths):
        wrong = np.any(np.diff(bounds) < 0) or (len(bounds) and (bounds[0] < 0 or bounds[-1] > len(tokens)))
        if wrong or not len(bounds):
            raise Failure(f"{self.text}: its documents do not lie one behind another within its {len(tokens)} tokens")
        self.tokens, self.bounds, self.paths = tokens, bounds, paths

    def digest(self):
        return digests.of_files(self.paths)

    def scan(self):
        count = len(self.bounds) - 1
        return np.arange(count), np.arange(count)

    def record(self, where):
        return {"input_ids": np.asarray(self.tokens[self.bounds[where] : self.bounds[where + 1]])}

    def all_measures(self, wheres):
        """The first token has nothing before it."""
        tokens = np.diff(self.bounds)[wheres]
        return {"tokens": tokens, "learned": np.maximum(tokens - 1, 0)}

    def place(self, number):
        return f"{self.text}: document {number}"


class Numpy(Documents):
    """[documents, tokens], or [tokens] with FILE.offsets.npy beside it."""

    def __init__(self, text):
        super().__init__(text)
        tokens, paths = self._map(text), [text]
        if tokens.ndim == 2:
            bounds, tokens = np.arange(tokens.shape[0] + 1) * tokens.shape[1], tokens.reshape(-1)
        elif tokens.ndim == 1:
            offsets = str(pathlib.Path(text).with_suffix(".offsets.npy"))
            if not pathlib.Path(offsets).is_file():
                raise Failure(f"{text}: has tokens one behind another, and where documents begin and end is in no {offsets}")
            bounds, paths = np.asarray(self._map(offsets), np.int64), [text, offsets]
            if bounds.ndim != 1:
                raise Failure(f"{offsets}: has {bounds.ndim} dims, not 1")
        else:
            raise Failure(f"{text}: has {tokens.ndim} dims, neither 1 nor 2")
        self._take(tokens, bounds, paths)

    def _map(self, path):
        try:
            mapped = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as e:
            raise Failure(f"{path}: no array of NumPy: {one_line(e)}") from None
        if not np.issubdtype(mapped.dtype, np.integer):
            raise Failure(f"{path}: is of type {mapped.dtype}; tokens are whole numbers")
        return mapped


class Megatron(Documents):
    def __init__(self, text):
        super().__init__(text)
        data, index = (pathlib.Path(text).with_suffix(s) for s in (".bin", ".idx"))
        for path in (data, index):
            if not path.is_file():
                raise Failure(f"{path}: there is no such file")
        raw = np.memmap(index, np.uint8, "r") if index.stat().st_size else np.zeros(0, np.uint8)
        if raw[:9].tobytes() != MAGIC or len(raw) < 34:
            raise Failure(f"{index}: no index of Megatron's")
        version, kind, sequences, documents = struct.unpack("<QBQQ", raw[9:34].tobytes())
        if version != 1 or kind not in KINDS:
            raise Failure(f"{index}: version {version} with tokens of type {kind}; known: version 1, types {', '.join(map(str, KINDS))}")
        if len(raw) < 34 + 12 * sequences + 8 * documents:
            raise Failure(f"{index}: is shorter than its {sequences} sequences and {documents} documents need")
        lengths = raw[34 : 34 + 4 * sequences].view("<i4")
        pointers = raw[34 + 4 * sequences : 34 + 12 * sequences].view("<i8")
        firsts = raw[34 + 12 * sequences : 34 + 12 * sequences + 8 * documents].view("<i8")
        tokens = np.memmap(data, np.dtype(KINDS[kind]).newbyteorder("<"), "r") if data.stat().st_size else np.zeros(0, KINDS[kind])
        ends = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        if np.any(pointers != ends[:-1] * tokens.itemsize):
            raise Failure(f"{index}: its sequences do not lie one behind another in {data}")
        if np.any((firsts < 0) | (firsts > sequences)):
            raise Failure(f"{index}: its documents have sequences that are not there")
        self._take(tokens, ends[firsts], [data, index])
