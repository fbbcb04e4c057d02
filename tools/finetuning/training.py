# ===- training.py - the program, and who feeds it ----------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# The program reads a safetensors file a step from a pipe. A thread writes them,
# from a step that every checkpoint is at or behind: a file says of which step it
# is, and the program drops those that it has had (docs/data.md).
# ===-----------------------------------------------------------------------===
"""train(options, out, ranks, steps, length): runs the program to the end; returns its exit code."""

import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import time

import safetensors.numpy

from .errors import Failure
from .metrics import Metrics

CHECKPOINT, EXPORT, VALIDATION = "checkpoint", "onnx", "validation"


def saved_steps(folder):
    """Of the checkpoints in a folder, ascending."""
    found = (re.fullmatch(r"step-(\d+)", path.name) for path in folder.glob("step-*"))
    return sorted(int(match[1]) for match in found if match)


def checkpoints(out):
    """Steps of what there is to go on with."""
    return saved_steps(out / CHECKPOINT)


def write_validation(out, steps, producers):
    """The batches of --validate."""
    folder = out / VALIDATION
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.safetensors"):
        old.unlink()
    for step, tensors in steps.batches(range(steps.epoch), producers):
        safetensors.numpy.save_file(tensors, folder / f"batch-{step:06}.safetensors")


class Feeder(threading.Thread):
    """Writes batches until the run has what it asked for. Of a batch that cannot be made the reason is kept, and the program is asked to end."""

    def __init__(self, path, steps, producers, first, length, process):
        super().__init__(daemon=True)
        self.path, self.batches, self.process, self.failure = path, steps.batches(range(first, length), producers), process, None

    def run(self):
        try:
            with open(self.path, "wb") as pipe:
                try:
                    for step, tensors in self.batches:
                        pipe.write(safetensors.numpy.save(tensors, {"step": str(step)}))
                except BrokenPipeError:
                    raise
                except (Failure, OSError) as failure:
                    self.failure = failure
                    self.process.send_signal(signal.SIGTERM)
                    while self.process.poll() is None:  # the end of the pipe would be an error of its own
                        time.sleep(0.1)
        except BrokenPipeError:
            pass  # it has ended, and says why


def command(options, out, pipe, ranks, steps, length, source, validates):
    made = [out / "program/build/train", "--batch", pipe, "--steps", length, "--checkpoint", out / CHECKPOINT, "--save-every", options.save_every]
    made += ["--metrics", out / "program/metrics.jsonl", "--export", out / EXPORT]
    made += ["--ranks", ranks] if ranks > 1 else []
    made += ["--threads", options.threads] if options.threads else []
    made += ["--resume"] if options.resume else ["--init-from", source.absolute()]
    made += ["--validate", out / VALIDATION / "*.safetensors", "--validate-every", options.validate_every or steps.epoch] if validates else []
    return [str(word) for word in made]


def train(options, out, ranks, steps, length, source, validates, producers):
    first = min(checkpoints(out), default=0) if options.resume else 0
    metrics = Metrics(out / "program/metrics.jsonl", out / "metrics.jsonl", steps)
    with tempfile.TemporaryDirectory() as work:  # not every file system has pipes
        pipe = pathlib.Path(work) / "batches"
        os.mkfifo(pipe)
        # Ctrl-C reaches the program, too, which saves and ends; a handler of ours is none of its own.
        signal.signal(signal.SIGINT, lambda *_: None)
        process = subprocess.Popen(command(options, out, pipe, ranks, steps, length, source, validates))
        signal.signal(signal.SIGTERM, lambda *_: process.send_signal(signal.SIGTERM))
        feeder = Feeder(pipe, steps, producers, first, length, process)
        feeder.start()
        while True:
            try:
                code = process.wait(timeout=1)
                break
            except subprocess.TimeoutExpired:
                metrics.follow()
    metrics.end()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if feeder.failure:
        raise feeder.failure
    return code
