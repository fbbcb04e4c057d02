# ===- cuda_stall.py - steps of a device that take longer than --stall --------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# On the double of CUDA. A step of which the host has queued all, and which takes
# several times as long as --stall, is no hang: on one rank, and on two over
# either fabric.
# ===-----------------------------------------------------------------------===
"""cuda_stall.py --dt-opt PATH --double DIR: healthy steps that are longer than --stall."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from safetensors.numpy import load_file, save_file

import golden
import train_model
from cuda_waits import Variant, emit

STALL = 1  # second
LONGER = 3  # a step takes so many of these, or more


def train(program, steps, ranks, fabric, *flags):
    work = program.parent
    command = [program / "build/train", "--batch", work / "batch.safetensors", "--threads", 1, "--steps", steps, "--metrics", work / "metrics.jsonl", *flags]
    command += ["--ranks", ranks] if ranks > 1 else []
    variables = dict(os.environ, DT_FABRIC=fabric, DT_CUDA_DOUBLE_SHARED=str(work))
    return subprocess.run([str(c) for c in command], cwd=work, capture_output=True, text=True, env=variables, timeout=golden.HANGS)


def make(arguments, folder, samples, ranks):
    """A program whose step has so many microbatches, of a sample a rank."""
    changes = {"batch": {"global": samples, "micro": ranks}}
    program = emit(arguments, folder, Variant("gpt2", ranks, changes, ranks, f"model:dp={ranks}" if ranks > 1 else ""))
    batch = load_file(folder / "batch.safetensors")
    save_file({name: np.resize(values, (samples, *values.shape[1:])) for name, values in batch.items()}, folder / "batch.safetensors")
    return program


def check_healthy(arguments, work, ranks, fabric):
    """With as many microbatches as it takes."""
    samples = 32
    while True:
        program = make(arguments, work / f"{ranks}-{fabric}-{samples}", samples, ranks)
        done = train(program, 2, ranks, fabric)
        if done.returncode:
            sys.exit(f"{ranks} ranks over {fabric}: {done.returncode}: {done.stderr}")
        last = json.loads((program.parent / "metrics.jsonl").read_text().splitlines()[-1])
        seconds = samples / last["samples_per_second"]
        if seconds >= LONGER * STALL:
            break
        samples = ranks * int(samples * max(2, 1.5 * LONGER * STALL / seconds) / ranks)
    done = train(program, 2, ranks, fabric, "--stall", STALL)
    if done.returncode or done.stderr:
        sys.exit(f"{ranks} ranks over {fabric}, steps of {seconds:.1f} s, --stall {STALL}: {done.returncode}: {done.stderr}")
    print(f"{ranks} ranks over {fabric}: steps of {seconds:.1f} s, --stall {STALL}", flush=True)


def main():
    arguments = train_model.on_double(__doc__)
    with tempfile.TemporaryDirectory() as temporary:
        for ranks, fabric in ((1, "nccl"), (2, "nccl"), (2, "host")):
            check_healthy(arguments, pathlib.Path(temporary), ranks, fabric)


if __name__ == "__main__":
    main()
