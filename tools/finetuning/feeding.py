# ===- feeding.py - a program on samples of a recipe's source ------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# The program says in data.json which sources it has. Samples are made here or by
# producers, as those of tools/finetune are, and go to the program as batches.
# ===-----------------------------------------------------------------------===
"""tools/feed (docs/feed.md)."""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
from fractions import Fraction

from . import processes
from .arguments import whole
from .dataset import parse
from .errors import Failure
from .joining import Joiner
from .maker import Arrays, Ref
from .order import Order
from .producers import Alone, Pool
from .sources import open_source
from .training import Feeder, saved_steps


class Samples:
    """Steps of `size` samples of several sources."""

    def __init__(self, maker, weights, size, options, joiner):
        self.maker, self.size, self.joiner = maker, size, joiner
        self.scans = [source.scan() for source in maker.sources]
        self.ends = [0]
        for source, (wheres, _) in zip(maker.sources, self.scans):
            if not len(wheres):
                raise Failure(f"{source.text}: has no samples")
            self.ends.append(self.ends[-1] + len(wheres))
        self.order = Order([len(wheres) for wheres, _ in self.scans], weights, options.order, options.data_seed)

    def refs(self, step):
        return [self._ref(self.order.at(place)) for place in range(step * self.size, (step + 1) * self.size)]

    def _ref(self, i):
        source = next(k for k, end in enumerate(self.ends[1:]) if i < end)
        wheres, numbers = self.scans[source]
        return Ref(source, int(wheres[i - self.ends[source]]), int(numbers[i - self.ends[source]]))

    def batches(self, steps, producers):
        for step, made in producers.stream(steps, self.refs):
            for one in made:
                if one.broken:
                    raise Failure(one.broken)
            yield step, self.joiner.join([(self.maker.place(ref), one.arrays) for ref, one in zip(self.refs(step), made)])


def make_parser():
    parser = argparse.ArgumentParser(prog="feed", description="Trains a program on the samples of its recipe's data.source (docs/feed.md). Flags that are not named here are the program's.", allow_abbrev=False)
    add = parser.add_argument
    add("program", type=pathlib.Path, metavar="PROGRAM", help="what dt-opt --emit=exe wrote")
    add("--source", action="append", metavar="file.py:Name[=WEIGHT]", help="in place of the recipe's; may be repeated")
    add("--producers", type=whole(0), default=0, metavar="N", help="processes that make samples (0: this one)")
    add("--producer-timeout", type=whole(1), default=60, metavar="S", help="seconds that a producer may take for a sample (60)")
    add("--order", choices=("file", "shuffle"), default="shuffle")
    add("--data-seed", type=whole(0), default=0, metavar="N", help="of the order (0)")
    add("--steps", type=whole(1), required=True, metavar="N", help="of the whole run")
    add("--checkpoint", type=pathlib.Path, metavar="DIR")
    add("--resume", action="store_true")
    return parser


def read_sections(program):
    path = program / "data.json"
    try:
        sections = json.loads(path.read_text())
        sections["data"]["source"], sections["batch"]["global"]
    except OSError as e:
        raise Failure(f"{path}: {e.strerror}: expected a program of dt-opt --emit=exe") from None
    except (ValueError, KeyError, TypeError):
        raise Failure(f'{path}: no "data.source" and "batch.global": the recipe names no source in Python') from None
    if not (program / "build/train").is_file():
        raise Failure(f"{program}/build/train is not there: build the program (dt-opt --emit=exe does)")
    return sections


def run(options, flags):
    sections = read_sections(options.program)
    named = [parse(text) for text in options.source or sections["data"]["source"]]
    texts, weights = [text for text, _ in named], [weight for _, weight in named]
    names = sections["data"].get("names")
    maker = Arrays([open_source(text) for text in texts], names)
    samples = Samples(maker, [w or Fraction(1) for w in weights] if any(weights) else None, sections["batch"]["global"], options, Joiner(sections))
    spec = {"arrays": True, "names": names, "sources": texts}
    local = [processes.Local(i + 1, spec) for i in range(options.producers)]
    pool = Pool(local, options.producer_timeout, maker.place) if local else Alone(maker)
    try:
        return train(options, flags, samples, pool)
    finally:
        pool.close()


def train(options, flags, samples, pool):
    saved = saved_steps(options.checkpoint) if options.checkpoint and options.resume else []
    if options.resume and not saved:
        raise Failure("--resume: there is no checkpoint" + (f" in {options.checkpoint}" if options.checkpoint else " without --checkpoint DIR"))
    with tempfile.TemporaryDirectory() as work:
        pipe = pathlib.Path(work) / "batches"
        os.mkfifo(pipe)
        command = [options.program / "build/train", "--batch", pipe, "--steps", options.steps, *(["--checkpoint", options.checkpoint] if options.checkpoint else []), *(["--resume"] if options.resume else []), *flags]
        signal.signal(signal.SIGINT, lambda *_: None)  # it reaches the program, too, which saves and ends
        process = subprocess.Popen([str(word) for word in command])
        signal.signal(signal.SIGTERM, lambda *_: process.send_signal(signal.SIGTERM))
        feeder = Feeder(pipe, samples, pool, min(saved, default=0), options.steps, process)
        feeder.start()
        code = process.wait()
    if feeder.failure:
        raise feeder.failure
    return code if code >= 0 else 128 - code


def main():
    options, flags = make_parser().parse_known_args()
    try:
        if wrong := [flag for flag in flags if flag.partition("=")[0] in ("--batch", "--data")]:
            raise Failure(f"{wrong[0]}: batches come from the recipe's source")
        return run(options, flags)
    except (Failure, OSError) as failure:
        print(f"feed: error: {failure}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
