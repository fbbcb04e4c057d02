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

import safetensors.numpy

from .metrics import Metrics

CHECKPOINT, EXPORT, VALIDATION = "checkpoint", "onnx", "validation"


def checkpoints(out):
    """Steps of what there is to go on with."""
    found = (re.fullmatch(r"step-(\d+)", path.name) for path in (out / CHECKPOINT).glob("step-*"))
    return sorted(int(match[1]) for match in found if match)


def write_validation(out, steps):
    """The batches of --validate."""
    folder = out / VALIDATION
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.safetensors"):
        old.unlink()
    for step in range(steps.epoch):
        safetensors.numpy.save_file(steps.tensors(step), folder / f"batch-{step:06}.safetensors")


def feed(path, steps, first, length):
    """Until the run has what it asked for."""
    try:
        with open(path, "wb") as pipe:
            for step in range(first, length):
                pipe.write(safetensors.numpy.save(steps.tensors(step), {"step": str(step)}))
    except BrokenPipeError:
        pass  # it has ended, and says why


def command(options, out, pipe, ranks, steps, length, folder, validates):
    made = [out / "program/build/train", "--batch", pipe, "--steps", length, "--checkpoint", out / CHECKPOINT, "--save-every", options.save_every]
    made += ["--metrics", out / "program/metrics.jsonl", "--export", out / EXPORT]
    made += ["--ranks", ranks] if ranks > 1 else []
    made += ["--threads", options.threads] if options.threads else []
    made += ["--resume"] if options.resume else ["--init-from", folder.source.absolute()]
    made += ["--validate", out / VALIDATION / "*.safetensors", "--validate-every", options.validate_every or steps.epoch] if validates else []
    return [str(word) for word in made]


def train(options, out, ranks, steps, length, folder, validates):
    first = min(checkpoints(out), default=0) if options.resume else 0
    metrics = Metrics(out / "program/metrics.jsonl", out / "metrics.jsonl", steps)
    with tempfile.TemporaryDirectory() as work:  # not every file system has pipes
        pipe = pathlib.Path(work) / "batches"
        os.mkfifo(pipe)
        # Ctrl-C reaches the program, too, which saves and ends; a handler of ours is none of its own.
        signal.signal(signal.SIGINT, lambda *_: None)
        process = subprocess.Popen(command(options, out, pipe, ranks, steps, length, folder, validates))
        signal.signal(signal.SIGTERM, lambda *_: process.send_signal(signal.SIGTERM))
        threading.Thread(target=feed, args=(pipe, steps, first, length), daemon=True).start()
        while True:
            try:
                code = process.wait(timeout=1)
                break
            except subprocess.TimeoutExpired:
                metrics.follow()
    metrics.end()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    return code
