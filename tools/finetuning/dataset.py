# ===- dataset.py - samples that are made when they are needed -----------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# What steps are packed from. All that decides which samples a step has is in the
# indices; a sample that comes later, from whichever process, is compared with them.
# ===-----------------------------------------------------------------------===
"""Dataset: samples of one or several data files, by number. Reading: opens them and has their indices made."""

import json
import re
from fractions import Fraction
from pathlib import Path

import numpy as np

from . import index
from .errors import Failure, say
from .maker import Maker, Ref
from .sources import open_source
from .sources.digests import of_parts

WEIGHT = re.compile(r"(.+)=(\d+(?:\.\d+)?)", re.S)


def parse(text):
    """(what to open, its weight or None) of `FILE` or `FILE=WEIGHT`."""
    found = WEIGHT.fullmatch(text)
    if not found or Path(text).exists():
        return text, None
    weight = Fraction(found[2])
    if not weight:
        raise Failure(f"--data {text}: a weight is more than 0")
    return found[1], weight


def loss_names(texts, taken):
    """A name for the loss of each of several sources, of letters, digits and `_`; of one source none. `taken` by others."""
    names = []
    for text in texts if len(texts) > 1 else ():
        stem = re.sub(r"\W", "_", Path(text.partition("?")[0].rpartition(":")[2]).stem, flags=re.A) or "source"
        stem = f"_{stem}" if stem[0].isdigit() else stem
        tried = (stem if n == 1 else f"{stem}_{n}" for n in range(1, len(texts) + len(taken) + 2))
        names.append(next(name for name in tried if name not in names and name not in taken))
    return names


class Reading:
    """`texts`: of all sources of the run, so that producers know them by number."""

    def __init__(self, texts, encoder, folder, skip_broken):
        self.sources = [open_source(text) for text in texts]
        self.maker = Maker(self.sources, encoder)
        self.digests = [source.digest() for source in self.sources]
        self.encoder_digest, self.folder, self.skip_broken, self.made = encoder.digest(), folder, skip_broken, []
        self.broken = Broken(folder, skip_broken)

    def dataset(self, first, weights, most, producers):
        """Of the sources from number `first` on, as many as there are weights; of samples of at most so many tokens."""
        parts = []
        for k in range(first, first + len(weights)):
            builder = index.Builder(self.sources[k], k, index.key(self.digests[k], self.encoder_digest), self.folder, producers, self.skip_broken)
            made = builder.index()
            self.made.append((builder, made))
            parts.append((k, made, self._kept(k, made, most)))
        weighted = [w or Fraction(1) for w in weights] if any(weights) else None
        return Dataset(self, parts, weighted)

    def keep(self):
        """Into OUT, once the run has begun."""
        for builder, made in self.made:
            builder.keep(made)

    def close(self):
        for source in self.sources:
            source.close()

    def _kept(self, k, made, most):
        """Rows of the index that are samples."""
        source, tokens = self.sources[k], made.measures.get("tokens", np.zeros(len(made), np.int64))
        whole = np.ones(len(made), bool)
        if made.broken:
            first = made.broken[min(made.broken)]
            if not self.skip_broken or len(made.broken) == len(made):
                raise Failure(first)
            whole[list(made.broken)] = False
            say(f"{len(made.broken)} of {len(made)} samples of {source.text} are broken and left out (first {first})")
        if wrong := np.flatnonzero(whole & (made.measures["learned"] < 1)).tolist():
            raise Failure(f"{source.place(made.numbers[wrong[0]])}: none of its {tokens[wrong[0]]} tokens is learned")
        long = np.flatnonzero(whole & (tokens > most))
        if len(long) == whole.sum():
            shortest = long[tokens[long].argmin()]
            raise Failure(f"{source.text}: all samples are longer than {most} tokens; the shortest, {source.place(made.numbers[shortest])}, has {tokens[shortest]}")
        if len(long):
            say(f"{len(long)} of {len(made)} samples of {source.text} are longer than {most} tokens and left out (first {source.place(made.numbers[long[0]])}, {tokens[long[0]]} tokens)")
        return np.flatnonzero(whole & (tokens <= most))


class Broken:
    """Samples that nobody had made before the run, and that cannot be made. What was left out once stays so: OUT/index/broken.json."""

    def __init__(self, folder, skips):
        self.path, self.skips = folder / "broken.json" if folder else None, skips
        self.known = {}
        if self.path and self.path.is_file():
            try:
                self.known = dict(json.loads(self.path.read_text()))
            except (ValueError, TypeError):
                raise Failure(f"{self.path}: not as this tool writes it") from None

    def add(self, key, reason):
        if key not in self.known:
            self.known[key] = reason
            made = self.path.with_name(f".{self.path.name}.tmp")
            made.write_text(json.dumps(self.known, indent=1) + "\n")
            made.rename(self.path)


class Dataset:
    def __init__(self, reading, parts, weights):
        self.reading, self.maker, self.parts, self.weights, self.broken = reading, reading.maker, parts, weights, reading.broken
        self.counts = [len(rows) for _, _, rows in parts]
        self.ends = np.cumsum(self.counts)

    @property
    def family(self):
        return self.maker.encoder.family

    def __len__(self):
        return int(self.ends[-1])

    def _find(self, i):
        """(number of the source, its index, row there)."""
        part = int(np.searchsorted(self.ends, i, side="right"))
        k, made, rows = self.parts[part]
        return k, made, int(rows[i - (self.ends[part] - self.counts[part])])

    def ref(self, i):
        k, made, row = self._find(i)
        return Ref(k, int(made.wheres[row]), int(made.numbers[row]))

    def number(self, i):
        """Of its source among all of the run's that are not the same."""
        texts = [source.text for source in self.reading.sources]
        return texts.index(texts[self._find(i)[0]])

    def measures(self, i):
        _, made, row = self._find(i)
        return self._measures(made, row)

    def _measures(self, made, row):
        """What an index does not say of a sample's items (of a file of tokens): that there are none."""
        return dict.fromkeys(self.family.item_measures, []) | made.row(row)

    def tokens(self):
        return np.concatenate([made.measures["tokens"][rows] for _, made, rows in self.parts])

    def place(self, i):
        return self.maker.place(self.ref(i))

    def is_left_out(self, i):
        return bool(self.broken.known) and self._key(i) in self.broken.known

    def _key(self, i):
        ref = self.ref(i)
        return f"{self.reading.digests[ref.source][:16]} {ref.number}"

    def __getitem__(self, i):
        return self.take(i, self.maker.make(self.ref(i)))

    def take(self, i, made):
        """The arrays of what has come as sample i, or None if it is left out."""
        _, known, row = self._find(i)
        if made.broken:
            if known.checksums[row] < 0 and self.broken.skips and self.broken.path:
                self.broken.add(self._key(i), made.broken)
                return None
            raise Failure(made.broken)
        said = self._measures(known, row)
        if wrong := [name for name, value in made.measures.items() if not np.array_equal(said.get(name, 0), value)]:
            raise Failure(f"{self.place(i)}: has {made.measures[wrong[0]]} {wrong[0]} and was measured as {said.get(wrong[0], 0)}")
        if known.checksums[row] >= 0 and known.checksums[row] != made.checksum:
            raise Failure(f"{self.place(i)}: is not what it was when it was indexed: its file has changed, or its source gives another sample each time")
        return made.arrays

    def fingerprint(self):
        """Of all that decides which samples there are, and of what is known of them."""
        parts = [self.reading.encoder_digest, json.dumps([str(w) for w in self.weights or ()])]
        for k, made, rows in self.parts:
            parts += [self.reading.digests[k], made.checksums[rows].tobytes()]
            for name, values in sorted(made.measures.items()):
                parts += [name, json.dumps([values[row].tolist() for row in rows]) if isinstance(values, list) else values[rows].tobytes()]
        return of_parts(*parts)
