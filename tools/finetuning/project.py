# ===- project.py - the folder OUT, from run to run ---------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# What a run leaves for the next one: which data and order it had, so that nobody
# goes on with others, and what this tool wrote, so that it knows what was edited.
# ===-----------------------------------------------------------------------===
"""Project: OUT, its notes, and who may work in it."""

import contextlib
import fcntl
import json

from .errors import Failure
from .training import CHECKPOINT, checkpoints

NOTES, LOCK = "run.json", "lock"
UNSAID = {"optimizer": "adamw"}  # of runs that began before it was noted
BEFORE = {"index", "token"}  # of a run that has not begun: samples are measured first, dt-serve may make the token


class Project:
    """Changes nothing before begin()."""

    def __init__(self, out, resume):
        self.out, self.resume, self.notes = out, resume, {}
        there = out.exists()
        if there and (not out.is_dir() or ({p.name for p in out.iterdir()} - BEFORE and not (out / NOTES).is_file())):
            raise Failure(f"{out} is there and no folder of this tool")
        if (out / NOTES).is_file():
            try:
                self.notes = dict(json.loads((out / NOTES).read_text()))
            except (ValueError, TypeError):
                raise Failure(f"{out / NOTES}: not as this tool writes it") from None
        began = checkpoints(out)
        if resume and not began:
            raise Failure(f"--resume: {out} has no checkpoint")
        if began and not resume:
            raise Failure(f"{out} has a run of {began[-1]} steps: --resume goes on with it (or remove {out / CHECKPOINT})")

    def check(self, run):
        """`run`: what a step's samples follow from."""
        for key, value in run.items() if self.resume else ():
            if (noted := self.notes.get(key, UNSAID.get(key))) != value:
                said = {"data": "the samples are not those"}.get(key, f"{key.replace('_', ' ')} {value} is not {noted}, that")
                raise Failure(f"--resume: {said} of the run in {self.out}")

    @contextlib.contextmanager
    def begin(self):
        """As long as it lasts nobody else does."""
        self.out.mkdir(parents=True, exist_ok=True)
        with (self.out / LOCK).open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise Failure(f"another run is at work in {self.out}") from None
            self.note()
            yield

    def note(self, **more):
        self.notes |= more
        (self.out / NOTES).write_text(json.dumps(self.notes, indent=1) + "\n")
