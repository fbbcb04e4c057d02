# ===- maker.py - a sample from its record -------------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# The same in the process that feeds the program, in a producer beside it and in
# one on another machine: (source, where) is all that a sample follows from.
# ===-----------------------------------------------------------------------===
"""Maker: make(ref), measure(ref); Ref: which sample; Made: what came of it."""

import contextlib
import functools
import zlib
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from . import families
from .encoded import Encoded
from .encoder import Encoder, check
from .errors import Failure, one_line
from .folder import Folder


class Ref(NamedTuple):
    source: int  # of the run's sources
    where: int  # for the source
    number: int  # for whoever reads an error


@dataclass
class Made:
    measures: dict = field(default_factory=dict)
    checksum: int = -1  # of the arrays; -1: they were not made
    arrays: dict | None = None
    broken: str | None = None  # why there is no sample

    @property
    def bytes(self):
        return sum(a.nbytes for a in self.arrays.values()) if self.arrays else 0


def make_encoder(path, tell):
    """Of a folder that needs no weights."""
    return Encoder(families.of(Folder(path, weights=False)), tell)


class TextAlone(families.Text):
    """What tokens need of a family without items; its folder need not be opened."""

    def __init__(self):
        pass


class LazyEncoder:
    """In a process that makes samples: the libraries take seconds, and records of tokens need none of them. `opening()`: a context of that. `vocabulary`: of a network that sees texts alone, else None."""

    def __init__(self, path, vocabulary, tell):
        self.path, self.vocabulary, self.tell, self.opening = path, vocabulary, tell, contextlib.nullcontext

    @functools.cached_property
    def encoder(self):
        with self.opening():
            return make_encoder(self.path, self.tell)

    @functools.cached_property
    def family(self):
        return self.encoder.family if self.vocabulary is None else TextAlone()

    def encode(self, place, record):
        return self.encoder.encode(place, record)

    def take(self, place, ids, learned):
        if self.vocabulary is None:
            return self.encoder.take(place, ids, learned)
        check(place, ids, learned, self.vocabulary, self.path)
        return Encoded(place, ids, learned)


def checksum(arrays):
    """Of names, types, shapes and values."""
    crc = 0
    for name, array in sorted(arrays.items()):
        crc = zlib.crc32(f"{name} {array.dtype.str} {array.shape}".encode(), crc)
        crc = zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8), crc)
    return crc


class Maker:
    def __init__(self, sources, encoder):
        self.sources, self.encoder = sources, encoder

    def place(self, ref):
        return self.sources[ref.source].place(ref.number)

    def make(self, ref):
        return self._try(ref, self._make)

    def measure(self, ref):
        """Without arrays; of a source that knows no measures the sample is made, so that it is known to be whole."""

        def measure(ref):
            known = self.sources[ref.source].measures(ref.where)
            if known is not None:
                return Made({k: v for k, v in known.items()})
            made = self._make(ref)
            return Made(made.measures, made.checksum)

        return self._try(ref, measure)

    def _try(self, ref, what):
        place = self.place(ref)
        try:
            return what(ref)
        except Failure as failure:
            text = str(failure)
            return Made(broken=text if text.startswith(place) else f"{place}: {text}")
        except MemoryError:  # says nothing of the sample
            raise
        except Exception as e:  # of the user's
            return Made(broken=f"{place}: {type(e).__name__}: {one_line(e)}")

    def _make(self, ref):
        record = self.sources[ref.source].record(ref.where)
        if not isinstance(record, dict):
            raise Failure(f"the source gives {one_line(type(record).__name__)}, no record (an object with `messages`, `text` or `input_ids`)")
        place = self.place(ref)
        encoded = self._tokens(place, record) if "input_ids" in record else self.encoder.encode(place, record)
        arrays = encoded.arrays(self.encoder.family)
        return Made(encoded.measures(self.encoder.family), checksum(arrays), arrays)

    def _tokens(self, place, record):
        """A record that somebody has tokenized; `labels` as Hugging Face's: the token itself, or -100."""
        ids = integers(record, "input_ids")
        labels = integers(record, "labels") if record.get("labels") is not None else ids
        kept = integers(record, "attention_mask") if record.get("attention_mask") is not None else np.ones_like(ids)
        for name, values in (("labels", labels), ("attention_mask", kept)):
            if len(values) != len(ids):
                raise Failure(f"has {len(ids)} input_ids and {len(values)} {name}")
        ids, labels = ids[kept != 0], labels[kept != 0]
        learned = labels != -100
        if wrong := np.flatnonzero(learned & (labels != ids)).tolist():
            raise Failure(f"labels[{wrong[0]}] is {labels[wrong[0]]}, neither -100 nor the token there ({ids[wrong[0]]})")
        return self.encoder.take(place, ids, learned)


class Arrays(Maker):
    """Of sources that give a sample's tensors themselves, by name, or in the order of `names` (a recipe's data.source)."""

    def __init__(self, sources, names):
        super().__init__(sources, SimpleNamespace(opening=contextlib.nullcontext))
        self.names = names

    def _make(self, ref):
        record = self.sources[ref.source].record(ref.where)
        if self.names and isinstance(record, (list, tuple)):
            if len(record) != len(self.names):
                raise Failure(f"the source gives {len(record)} values for the {len(self.names)} names {', '.join(self.names)}")
            record = dict(zip(self.names, record))
        if not isinstance(record, dict) or not record:
            raise Failure(f"the source gives {one_line(type(record).__name__)}, no object of arrays by name (or data.names for values without)")
        arrays = {name: np.asarray(value) for name, value in record.items()}
        if wrong := [name for name, array in arrays.items() if array.dtype.kind not in "biuf" or not array.ndim]:
            raise Failure(f"{wrong[0]} is of type {arrays[wrong[0]].dtype} and has {arrays[wrong[0]].ndim} dims; an array of numbers is needed")
        return Made({}, checksum(arrays), arrays)


def integers(record, name):
    try:
        values = np.asarray(record[name])
    except Exception as e:  # a list of lists of many lengths, a tensor of a device
        raise Failure(f"{name}: {one_line(e)}") from None
    if values.ndim != 1 or not (np.issubdtype(values.dtype, np.integer) or not values.size):
        raise Failure(f"{name} is of type {values.dtype} and has {values.ndim} dims; a list of whole numbers is needed")
    return values.astype(np.int64)
