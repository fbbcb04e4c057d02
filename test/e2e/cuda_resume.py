# ===- cuda_resume.py - a CUDA program goes on from a checkpoint --------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# On the double of CUDA: a run that saves after half of its steps and one that
# goes on from there give the losses, norms and exported files of a run in one
# go, bit for bit, though the double orders blocks, threads and streams in
# another way in each. A checkpoint that is written while training goes on is the
# one of a run that ends there, also where copies may take a part of the state at
# a time, and where pinned memory has no room for any. With
# no room on the device, or an old driver, one line says so, and what was saved
# stays. What the device decides while the host is ahead: an update that is left
# out because the loss is no number, and one because an index is out of range.
# ===-----------------------------------------------------------------------===
"""cuda_resume.py --dt-opt PATH --double DIR: saves, goes on and exports."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
from safetensors.numpy import save_file

import golden
import train_model

STEPS = 6
LITTLE = 64 << 10  # bytes of pinned memory for copies of the state
PINNED = "9000000"  # bytes: inputs' ring of 8 MiB, and not the state
ROOM = "8000000"  # bytes: the arena and the state, and not cuBLASLt's workspace
MODEL = pathlib.Path(__file__).resolve().parents[1] / "models/gpt2"


def run(work, name, seed, *flags, **environment):
    """(the finished process, losses and norms)"""
    batch = [] if "--batch" in flags else ["--batch", work / "batch.safetensors"]
    command = [work / "program/build/train", *batch, "--threads", 1, "--metrics", work / f"{name}.jsonl", *flags]
    variables = dict(os.environ, DT_CUDA_DOUBLE_SEED=str(seed), **environment)
    done = subprocess.run([str(c) for c in command], cwd=work, capture_output=True, text=True, timeout=golden.HANGS, env=variables)
    file = work / f"{name}.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return done, [(row["step"], row["loss"], row["grad_norm"]) for row in rows if "loss" in row]


def succeeded(work, *arguments):
    done, rows = run(work, *arguments)
    if done.returncode:
        sys.exit(f"{arguments}: ended with {done.returncode}:\n{done.stdout[-1500:]}{done.stderr[-1500:]}")
    return rows


def files(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "lock"}


def most_pinned(done):
    """Bytes, as the double counts them."""
    return int(re.search(r"most pinned bytes (\d+)", done.stderr)[1])


def check_going_on(work):
    """Half of the steps are saved while the others run."""
    state = (work / f"saved/step-{STEPS}/rank-0.safetensors").stat().st_size
    plain, _ = run(work, "plain", 4, "--steps", 1, DT_CUDA_DOUBLE_STATS="1")
    for name, more, environment in (
        ("copied", [], {}),
        ("in blocks", ["--snapshot-memory", LITTLE], {}),
        ("waiting", [], {"DT_CUDA_DOUBLE_PINNED": PINNED}),
    ):
        flags = ["--steps", STEPS, "--checkpoint", work / name, "--save-every", STEPS // 2, *more]
        done, _ = run(work, f"to-{name}", 4, *flags, DT_CUDA_DOUBLE_STATS="1", **environment)
        waits = "training waits while checkpoints are written" in done.stderr
        if done.returncode or waits != bool(environment):
            sys.exit(f"{name}: {done.returncode}, {done.stderr}")
        copies = most_pinned(done) - most_pinned(plain)
        if (name == "copied") != (copies >= 0.99 * state) or (name == "in blocks" and not 0 < copies <= LITTLE):
            sys.exit(f"{name}: {copies} bytes of pinned memory for a state of {state}")
        for step in (STEPS // 2, STEPS):
            if files(work / name / f"step-{step}") != files(work / "saved" / f"step-{step}"):
                sys.exit(f"{name}: the checkpoint of step {step} is not that of a run that ends there")


def check_refused(work):
    """One line, and what was saved stays."""
    saved = files(work / "saved")
    for name, variable, value, line in (
        ("no room", "DT_CUDA_DOUBLE_MEMORY", "1000000", "error: cannot allocate"),
        ("no room for scratch", "DT_CUDA_DOUBLE_MEMORY", ROOM, "error: CUDA: cudaMalloc of scratch: out of memory"),
        ("an old driver", "DT_CUDA_DOUBLE_OLD_DRIVER", "1", "error: no usable GPU: CUDA driver version is insufficient"),
        ("no GPU", "DT_CUDA_DOUBLE_DEVICES", "0", "error: no usable GPU: no CUDA-capable device"),
    ):
        done, _ = run(work, "refused", 1, "--steps", 2 * STEPS, "--checkpoint", work / "saved", "--resume", **{variable: value})
        if done.returncode != 1 or not done.stderr.startswith(line) or done.stderr.count("\n") != 1 or files(work / "saved") != saved:
            sys.exit(f"{name}: {done.returncode}, {done.stderr}")
        print(f"{name}: {done.stderr.strip()}")


def check_left_out(work, inputs):
    """The host has queued the update before it knows."""
    one = succeeded(work, "one", 1, "--steps", 1, "--lr", 1e30, "--export", work / "one")
    three = succeeded(work, "three", 2, "--steps", 3, "--lr", 1e30, "--on-nan", "skip", "--export", work / "three")
    if three[0] != one[0] or [loss for _, loss, _ in three[1:]] != [None, None]:
        sys.exit(f"a learning rate of 1e30: {one}, {three}")
    if files(work / "one") != files(work / "three"):
        sys.exit("an update was not left out")
    labels = np.array(inputs["labels"])
    labels.flat[3] = 1 << 20
    save_file({k: np.ascontiguousarray(v) for k, v in (inputs | {"labels": labels}).items()}, work / "wrong.safetensors")
    done, _ = run(work, "wrong", 1, "--batch", work / "wrong.safetensors", "--steps", 2)
    if done.returncode != 1 or "1048576 is none of the" not in done.stderr or done.stderr.count("error:") != 1:
        sys.exit(f"a label out of range: {done.returncode}, {done.stderr}")


def main():
    arguments = train_model.on_double(__doc__)
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(temporary)
        train_model.make(arguments.dt_opt, MODEL / "recipe.json", work / "program", "cuda", arguments.double)
        inputs = golden.Golden(MODEL, False).inputs
        save_file({k: np.ascontiguousarray(v) for k, v in inputs.items()}, work / "batch.safetensors")
        whole = succeeded(work, "whole", 1, "--steps", STEPS, "--export", work / "whole")
        half = succeeded(work, "half", 2, "--steps", STEPS // 2, "--checkpoint", work / "saved")
        rest = succeeded(work, "rest", 3, "--steps", STEPS, "--checkpoint", work / "saved", "--resume", "--export", work / "rest")
        if len(whole) != STEPS or half + rest != whole:
            sys.exit(f"in one go {whole}\nhalf {half}\nthe rest {rest}")
        check_going_on(work)
        if not files(work / "whole") or files(work / "whole") != files(work / "rest"):
            sys.exit("the exported files differ")
        check_refused(work)
        check_left_out(work, inputs)
        print(f"{STEPS} steps, saved after {STEPS // 2}")


if __name__ == "__main__":
    main()
