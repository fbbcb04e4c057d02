# ===- index.py - what is known of all samples before any is made --------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Parts and steps follow from measures, so these must be known of all samples; to
# make a sample only to measure it is work that is done once. An index is of one
# data file and one tokenizer, and knows nothing of flags: which samples are too
# long is asked of it. It is made in parts, each a file, so that a run that ends
# meanwhile is gone on with.
# ===-----------------------------------------------------------------------===
"""Index: arrays, a row a sample; load(folder, key), build(...)."""

import json
import shutil
import time
from dataclasses import dataclass

import numpy as np
import safetensors
import safetensors.numpy

from .errors import Failure, say
from .maker import Ref
from .sources.digests import of_parts

FOLDER, VERSION = "index", "1"
PART = 256  # samples of which a part has the measures
KEPT_AFTER = 10  # seconds of work that are worth a file, and without a line


@dataclass
class Index:
    wheres: np.ndarray
    numbers: np.ndarray
    checksums: np.ndarray  # of the arrays; -1: they were not made
    measures: dict  # name -> array, or list of arrays (of a sample's items)
    broken: dict  # row -> why

    def __len__(self):
        return len(self.wheres)

    def row(self, i):
        return {name: values[i].tolist() if isinstance(values, list) else int(values[i]) for name, values in self.measures.items()}


def key(source_digest, encoder_digest):
    """Of the libraries, too: what they make may change."""
    import tokenizers
    import transformers

    return of_parts(VERSION, source_digest, encoder_digest, tokenizers.__version__, transformers.__version__)[:32]


def scanned(source):
    wheres, numbers = source.scan()
    if not len(wheres):
        raise Failure(f"{source.text}: there is no sample")
    return Index(wheres, numbers, np.full(len(wheres), -1), {}, {})


def collect(wheres, numbers, made):
    """An index of samples of which so much is known, [Made]."""
    broken = {i: one.broken for i, one in enumerate(made) if one.broken}
    whole = [one.measures for one in made if not one.broken]
    names = sorted(set().union(*whole)) if whole else []
    measures = {}
    for name in names:
        values = [one.measures.get(name, 0) for one in made]
        nested = any(np.ndim(v) for v in values)
        measures[name] = [np.atleast_1d(np.asarray(v, np.int64)) for v in values] if nested else np.array(values, np.int64)
    return Index(wheres, numbers, np.array([one.checksum for one in made], np.int64), measures, broken)


def join(parts):
    """Indices one behind another as one."""
    measures, broken, first = {}, {}, 0
    for name in sorted(set().union(*(p.measures for p in parts))):
        columns = [p.measures.get(name, np.zeros(len(p), np.int64)) for p in parts]
        if any(isinstance(c, list) for c in columns):
            measures[name] = [np.atleast_1d(v) for c in columns for v in c]
        else:
            measures[name] = np.concatenate(columns)
    for part in parts:
        broken |= {first + i: reason for i, reason in part.broken.items()}
        first += len(part)
    return Index(*(np.concatenate([getattr(p, n) for p in parts]) for n in ("wheres", "numbers", "checksums")), measures, broken)


def save(index, path):
    tensors = {"wheres": index.wheres, "numbers": index.numbers, "checksums": index.checksums}
    for name, values in index.measures.items():
        if isinstance(values, list):
            tensors[f"counts.{name}"] = np.array([len(v) for v in values], np.int64)
            values = np.concatenate([np.zeros(0, np.int64), *values])
        tensors[f"measures.{name}"] = values
    path.parent.mkdir(parents=True, exist_ok=True)
    made = path.with_name(f".{path.name}.tmp")
    safetensors.numpy.save_file({k: np.ascontiguousarray(v) for k, v in tensors.items()}, made, {"broken": json.dumps(index.broken), "checksum": content(tensors)})
    made.rename(path)


def content(tensors):
    return of_parts(*(part for name in sorted(tensors) for part in (name, np.ascontiguousarray(tensors[name]).tobytes())))


def load(path):
    """None if it is not there or damaged: then it is made again."""
    try:
        with safetensors.safe_open(path, "numpy") as file:
            notes, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}
        if notes["checksum"] != content(tensors):
            return None
        measures = {name.removeprefix("measures."): values for name, values in tensors.items() if name.startswith("measures.")}
        for name in measures:
            if (counts := tensors.get(f"counts.{name}")) is not None:
                measures[name] = np.split(measures[name], np.cumsum(counts)[:-1])
        return Index(tensors["wheres"], tensors["numbers"], tensors["checksums"], measures, {int(i): why for i, why in json.loads(notes["broken"]).items()})
    except (OSError, safetensors.SafetensorError, KeyError, ValueError, TypeError):
        return None


class Builder:
    """Of the source with number `k`; `folder`: where it is kept, or None."""

    def __init__(self, source, k, name, folder, producers, skip_broken):
        self.source, self.k, self.producers, self.skip_broken = source, k, producers, skip_broken
        self.path = folder / f"{name}.safetensors" if folder else None
        self.parts = folder / f"{name}.parts" if folder else None

    def index(self):
        known = load(self.path) if self.path else None
        return known or self._build()

    def _build(self):
        bare = scanned(self.source)
        measures = self.source.all_measures(bare.wheres)
        if measures is not None:
            bare.measures = {k: np.asarray(v, np.int64) for k, v in measures.items()}
            return bare
        return self._measure(bare)

    def _measure(self, bare):
        found, began, said = {}, time.monotonic(), time.monotonic()
        cuts = range(0, len(bare), PART)
        for cut in cuts if self.parts and self.parts.is_dir() else ():
            part = load(self._file(cut))
            if part is not None and np.array_equal(part.wheres, bare.wheres[cut : cut + PART]):
                found[cut] = part
        if found:
            say(f"{self.source.text}: goes on with an index of {sum(map(len, found.values()))} of {len(bare)} samples")
        unsaved, missing = [], [cut for cut in cuts if cut not in found]
        for cut, made in self.producers.stream(missing, lambda cut: self._refs(bare, cut), "measure"):
            part = collect(bare.wheres[cut : cut + PART], bare.numbers[cut : cut + PART], made)
            if part.broken and not self.skip_broken:
                raise Failure(part.broken[min(part.broken)])
            found[cut] = part
            unsaved.append(cut)
            if self.parts and (self.parts.is_dir() or time.monotonic() - began > KEPT_AFTER):
                for each in unsaved:
                    save(found[each], self._file(each))
                unsaved = []
            if time.monotonic() - said > KEPT_AFTER:
                said = time.monotonic()
                say(f"{self.source.text}: measured {sum(map(len, found.values()))} of {len(bare)} samples")
        return join([found[cut] for cut in cuts])

    def keep(self, index):
        """When the run begins: what is wrong with data is said before a file is written."""
        if not self.path.is_file():
            save(index, self.path)
        shutil.rmtree(self.parts, ignore_errors=True)

    def _file(self, cut):
        return self.parts / f"{cut // PART:08}.safetensors"

    def _refs(self, bare, cut):
        rows = slice(cut, cut + PART)
        return [Ref(self.k, int(w), int(n)) for w, n in zip(bare.wheres[rows], bare.numbers[rows])]
