# ===- own_batches.py - a batch a step, of one's own ------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A program on two ranks trains on six batches from files, from files in another
# way to name them, and from a pipe: the same losses, to the bit, also when the
# run is stopped in the middle and resumed. A pipe that ends too early is an
# error, after the state is saved.
# ===-----------------------------------------------------------------------===
"""own_batches.py --dt-opt PATH: trains on files and pipes of batches, and resumes."""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading

from safetensors.numpy import save, save_file

import batches
from layouts import HANGS, Runner, parse_plan

CASE = {"model": "gpt2", "samples": 4}
STEPS, FIRST = 6, 2


def train(folder, *flags, pipe=None, code=0):
    """Losses of all steps that the metrics have; `pipe`: what is written into it."""
    command = [folder / "program/build/train", "--ranks", 2, "--threads", 1, "--metrics", "metrics.jsonl", "--checkpoint", "run", *flags]
    if pipe is not None:
        writer = threading.Thread(target=write, args=(folder / "pipe", pipe))
        writer.start()
    done = subprocess.run([str(c) for c in command], cwd=folder, capture_output=True, text=True, timeout=HANGS)
    if pipe is not None:
        writer.join()
    if done.returncode != code:
        sys.exit(f"{flags} ended with {done.returncode}:\n{done.stdout[-1500:]}{done.stderr[-1500:]}")
    return [json.loads(line)["loss"] for line in (folder / "metrics.jsonl").read_text().splitlines()], done


def write(path, contents):
    """As a producer does, that a run may leave."""
    try:
        with open(path, "wb") as pipe:
            for content in contents:
                pipe.write(content)
    except BrokenPipeError:
        pass


def expect(have, want, what):
    if have != want:
        sys.exit(f"{what}: {have}, expected {want}")


def check_received(data, made):
    """The second rank is sent its half of the rows, and the first one sends no other."""
    half = sum(value.nbytes for batch in made for value in batch.values()) // 2
    expect([data["bytes"], data["received"]], [half, [0, half]], "bytes of a pipe's batches")


def new(folder):
    shutil.rmtree(folder / "run", ignore_errors=True)


def check(folder, made):
    names = [f"batch-{i}.safetensors" for i in range(STEPS)]
    for name, batch in zip(names, made):
        save_file(batch, folder / name)
    want, _ = train(folder, "--batch", "batch-*.safetensors", "--steps", STEPS)
    expect(len(set(want)), STEPS, "different losses")
    new(folder)
    have, _ = train(folder, "--batch", names[0], *(flag for name in names[1:] for flag in ("--batch", name)), "--steps", STEPS)
    expect(have, want, "batches by name")
    new(folder)
    train(folder, "--batch", "batch-*.safetensors", "--steps", FIRST)
    have, _ = train(folder, "--batch", "batch-*.safetensors", "--steps", STEPS, "--resume")
    expect(have, want, "resumed")
    _, done = train(folder, "--batch", "batch-[0-4].safetensors", "--steps", STEPS + 1, "--resume", code=1)
    if "--new-data" not in done.stderr:
        sys.exit(f"other files are resumed with: {done.stderr}")

    os.mkfifo(folder / "pipe")
    plain = [save(batch) for batch in made]
    new(folder)
    have, _ = train(folder, "--batch", "pipe", "--steps", STEPS, "--traffic", "traffic.json", pipe=plain)
    expect(have, want, "through a pipe")
    check_received(json.loads((folder / "traffic.json").read_text())["data"], made)
    new(folder)
    train(folder, "--batch", "pipe", "--steps", FIRST, pipe=plain)
    have, _ = train(folder, "--batch", "pipe", "--steps", STEPS, "--resume", pipe=plain)
    expect(have, want, "resumed from a pipe's begin")
    new(folder)
    train(folder, "--batch", "pipe", "--steps", FIRST, pipe=plain)
    have, _ = train(folder, "--batch", "pipe", "--steps", STEPS, "--resume", pipe=[save(made[i], {"step": f"{i}"}) for i in range(FIRST, STEPS)])
    expect(have, want, "resumed from a pipe that says its steps")
    new(folder)
    have, done = train(folder, "--batch", "pipe", "--steps", STEPS, pipe=plain[:FIRST], code=1)
    expect(have, want[:FIRST], "a pipe that ends")
    expect(done.stderr, f"error: pipe: ended after {FIRST} batches, before the one of step {FIRST}; the state is saved in run/step-{FIRST}\n", "a pipe that ends")
    have, _ = train(folder, "--batch", "pipe", "--steps", STEPS, "--resume", pipe=plain)
    expect(have, want, "resumed after a pipe's end")
    _, done = train(folder, "--batch", "-", "--steps", 1, code=1)
    if "standard input is one process's" not in done.stderr:
        sys.exit(f"two ranks read standard input: {done.stderr}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dt-opt", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        runner = Runner(arguments.dt_opt, pathlib.Path(__file__).resolve().parents[1] / "models", pathlib.Path(work))
        folder = pathlib.Path(work) / "program"
        folder.mkdir()
        done = runner.compile(CASE, 2, parse_plan("model:dp=2"), folder)
        if done.returncode:
            sys.exit(done.stderr)
        runner.build(folder)
        check(folder, [batches.make(runner.models / CASE["model"], CASE["samples"], seed) for seed in range(STEPS)])
    print("ok")


if __name__ == "__main__":
    main()
