# ===- cuda_waits.py - what a step of a CUDA program waits for ----------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# The double of CUDA counts what a run has done (DT_CUDA_DOUBLE_STATS). Runs of
# none, one and two steps differ by a step: it may wait for the device once, to
# read its numbers back, allocates nothing and leaves the default stream alone.
# ===-----------------------------------------------------------------------===
"""cuda_waits.py --dt-opt PATH --double DIR: host waits, allocations and uses of the default stream of a step."""

import argparse
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

MODELS = pathlib.Path(__file__).resolve().parents[1] / "models"
WANTED = {"host waits": 1, "allocations": 0, "uses of the default stream": 0}
# Model, samples a microbatch (0: all), changes of the recipe. The last has scratch that grows with a part, and parts of two sizes.
VARIANTS = {
    "whole": ("gpt2", 0, {}),
    "microbatches": ("gpt2", 1, {}),
    "clipped": ("gpt2", 2, {"optimizer": {"kind": "adamw", "clip": 0.5}}),
    "narrow": ("vit", 3, {"precision": "bf16"}),
}


def counts(program, steps):
    """What a run of so many steps has done, by name."""
    metrics = program.parent / f"{steps}.jsonl"
    command = [program / "build/train", "--batch", program.parent / "batch.safetensors", "--threads", 1, "--steps", steps, "--metrics", metrics]
    done = subprocess.run(
        [str(c) for c in command], cwd=program.parent, capture_output=True, text=True, timeout=golden.HANGS, env=dict(os.environ, DT_CUDA_DOUBLE_STATS="1")
    )
    line = re.search("^CUDA double: (.*)$", done.stderr, re.M)
    if done.returncode or not line:
        sys.exit(f"{program.parent.name}, {steps} steps: ended with {done.returncode}:\n{done.stdout[-1500:]}{done.stderr[-1500:]}")
    return {name: int(number) for name, number in re.findall(r"(\D+?) (\d+)(?:, )?", line[1])}


def emit(arguments, folder, model, micro, changes):
    """The variant's program, built, with its batch."""
    folder.mkdir()
    recipe = train_model.make_recipe(MODELS / model, False, micro, 0, folder)
    recipe.write_text(json.dumps(json.loads(recipe.read_text()) | changes))
    save_file({k: np.ascontiguousarray(v) for k, v in golden.Golden(MODELS / model, False).inputs.items()}, folder / "batch.safetensors")
    done = train_model.emit(arguments.dt_opt.resolve(), recipe, folder / "program", "cuda")
    if done.returncode:
        sys.exit(done.stderr)
    train_model.build_for(arguments.dt_opt, "cuda", arguments.double, folder / "program", os.environ.get("CCACHE_DIR"))
    return folder / "program"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dt-opt", required=True, type=pathlib.Path)
    parser.add_argument("--double", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    wrong = []
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(temporary)
        for name, variant in VARIANTS.items():
            program = emit(arguments, work / name, *variant)
            runs = [counts(program, steps) for steps in (0, 1, 2)]
            for step, (before, after) in enumerate(zip(runs, runs[1:]), 1):
                found = {what: after[what] - before[what] for what in after}
                print(f"{name}, step {step}:", ", ".join(f"{what} {number}" for what, number in found.items()))
                wrong += [f"{name}, step {step}: {what} {found[what]}, wanted {number}" for what, number in WANTED.items() if found[what] != number]
    sys.exit("\n".join(wrong) or 0)


if __name__ == "__main__":
    main()
