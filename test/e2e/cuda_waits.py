# ===- cuda_waits.py - what a step of a CUDA program waits for ----------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# The double of CUDA counts what a run has done (DT_CUDA_DOUBLE_STATS). Runs of
# none, one and two steps differ by a step: on each rank it may wait for the
# device once, to read its numbers back, allocates and frees nothing, loads no
# kernel, makes no plan of a library and leaves the default stream alone. A
# checkpoint between two steps changes nothing of that. From the third step on,
# tasks are CUDA graphs: a step has few launches then, and a run gives the same
# losses, norms and files as one without graphs, bit for bit.
# ===-----------------------------------------------------------------------===
"""cuda_waits.py --dt-opt PATH --double DIR: host waits, allocations and uses of the default stream of a step."""

import collections
import dataclasses
import itertools
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


@dataclasses.dataclass
class Variant:
    model: str
    micro: int = 0  # samples a microbatch; 0: all
    changes: dict = dataclasses.field(default_factory=dict)  # of the recipe
    ranks: int = 1
    plan: str = ""
    steps: tuple = (0, 1, 2)  # of the runs that are compared
    flags: tuple = ()
    launches: int = 0  # of the last step of all ranks, at most; and runs without graphs are compared
    communicators: int = 0  # of all ranks


VARIANTS = {
    "whole": Variant("gpt2"),
    "microbatches": Variant("gpt2", 1, steps=(0, 1, 2, 3), launches=42),
    "clipped": Variant("gpt2", 2, {"optimizer": {"kind": "adamw", "clip": 0.5}}),
    # Scratch that grows with a part, and parts of two sizes.
    "narrow": Variant("vit", 3, {"precision": "bf16"}, steps=(0, 1, 2, 3), launches=26),
    # Samples with unequal numbers of images, each alone in its part.
    "ragged": Variant("mllm", 1),
    # One checkpoint more between two steps, whose copies the next step's update waits for.
    "saved": Variant("gpt2", steps=(6, 10), flags=("--checkpoint", "saved", "--save-every", 4)),
    # Over NCCL. Blocks for packed columns and scratch are made before the first step, too.
    # Without the look at replicas when the run ends, which copies each parameter and waits for it.
    "cut": Variant("gpt2", 2, ranks=2, plan="model:tp=2", steps=(0, 1, 2, 3), flags=("--check-replicas", 0), launches=124, communicators=4),
    # Messages over NCCL: their connections are made before the first step. Two directions, a tied tensor, a step's numbers.
    "stages": Variant("gpt2", 2, ranks=2, plan="model:pp=2", flags=("--check-replicas", 0), communicators=8),
}


def run(program, variant, steps, graphs="on", most=1000):
    """What all ranks of a run of so many steps have done, by name; losses, norms and files; warnings. `most`: graphs that there can be."""
    folder = program.parent / f"{steps}-{graphs}-{most}"
    folder.mkdir()
    command = [program / "build/train", "--batch", program.parent / "batch.safetensors", "--threads", 1, "--steps", steps, "--metrics", "metrics.jsonl", "--export", "trained", *variant.flags]
    if variant.ranks > 1:
        command += ["--ranks", variant.ranks]
    environment = dict(os.environ, DT_CUDA_DOUBLE_STATS="1", DT_FABRIC="nccl" if variant.ranks > 1 else "host", DT_CUDA_GRAPHS=graphs, DT_CUDA_DOUBLE_GRAPHS=str(most))
    done = subprocess.run([str(c) for c in command], cwd=folder, capture_output=True, text=True, timeout=golden.HANGS, env=environment)
    lines = re.findall("^CUDA double: (.*)$", done.stderr, re.M)
    if done.returncode or len(lines) != variant.ranks:
        sys.exit(f"{program.parent.name}, {steps} steps: ended with {done.returncode}:\n{done.stdout[-1500:]}{done.stderr[-1500:]}")
    sums = collections.Counter()
    for line in lines:
        sums.update({name: int(number) for name, number in re.findall(r"(\D+?) (\d+)(?:, )?", line)})
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    files = {path.name: path.read_bytes() for path in (folder / "trained").rglob("*") if path.is_file()}
    results = [(row["loss"], row["grad_norm"]) for row in rows if "loss" in row], files
    return sums, results, re.findall("^warning: .*$", done.stderr, re.M)


def more(after, before):
    found = {what: after[what] - before[what] for what in after}
    return found | {"launches": sum(found[what] for what in ("kernels", "copies", "products", "graphs"))}


def check_graphs(name, program, variant, runs):
    """What is wrong beside runs without graphs."""
    before, steps = variant.steps[-2:]
    without = {n: run(program, variant, n, "off") for n in (before, steps)}
    plain, found = (more(r[steps][0], r[before][0])["launches"] for r in (without, runs))
    print(f"{name}: {found} launches a step, {plain} without graphs")
    if found > variant.launches or plain <= variant.launches:
        yield f"{name}: {found} launches a step, at most {variant.launches} wanted; {plain} without graphs"
    # No room for more: those that there are do their part.
    few = run(program, variant, steps, most=2)
    line = r"warning: rank \d: module 'model': a task is queued kernel by kernel, as it cannot be recorded: CUDA: cudaGraphInstantiate: out of memory"
    if not few[2] or not all(re.match(line, warning) for warning in few[2]) or runs[steps][2] or without[steps][2]:
        yield f"{name}: warnings {few[2]}, {runs[steps][2]} and {without[steps][2]}"
    for how, (_, results, _) in {"no": without[steps], "two": few}.items():
        if len(results[0]) != steps or not results[1] or results != runs[steps][1]:
            yield f"{name}: with {how} graphs {results[0]}, with all {runs[steps][1][0]}, or other files"


def check_nccl(name, variant, counts, planned):
    """Communicators are those that something uses and --emit=memory says, and no call of NCCL's makes a thread for which the host looks again and again."""
    found = {what: counts[what] for what in ("communicators", "threads of NCCL", "looks for NCCL")}
    print(f"{name}: {found}, {counts['calls of NCCL']} calls")
    wanted = {"communicators": variant.communicators, "threads of NCCL": 0, "looks for NCCL": 0}
    if planned != variant.communicators:
        yield f"{name}: --emit=memory has {planned} communicators, wanted {variant.communicators}"
    if found != wanted or (variant.communicators and not counts["calls of NCCL"]):
        yield f"{name}: {found} in {counts['calls of NCCL']} calls of NCCL, wanted {wanted}"


def count_planned(arguments, work, variant):
    """Communicators of all ranks, by the compiler."""
    plan = [f"--plan={variant.plan}"] if variant.plan else []
    train_model.call([arguments.dt_opt.resolve(), work / "recipe.json", "--target=cuda", "--emit=memory", *plan, "-o", work / "memory.json"], work)
    return sum(rank["libraries"]["communicators"] for rank in json.loads((work / "memory.json").read_text())["ranks"])


def emit(arguments, folder, variant):
    """The variant's program, built, with its batch."""
    folder.mkdir()
    model = MODELS / variant.model
    recipe = train_model.make_recipe(model, False, variant.micro, 0, folder)
    recipe.write_text(json.dumps(json.loads(recipe.read_text()) | variant.changes))
    save_file({k: np.ascontiguousarray(v) for k, v in golden.Golden(model, False).inputs.items()}, folder / "batch.safetensors")
    plan = [f"--plan={variant.plan}"] if variant.plan else []
    train_model.make(arguments.dt_opt, recipe, folder / "program", "cuda", arguments.double, plan)
    return folder / "program"


# Of Cuda.h: the line by which a rehearsal loads kernels.
LOADS = "    return load(name, kernel);\n"


def check_planted(program, variant):
    """Generated code that loads no kernels in a rehearsal is seen to load them in a step."""
    header = program / "runtime/device/cuda/Cuda.h"
    text = header.read_text()
    if text.count(LOADS) != 1:
        return [f"{header} has not one line '{LOADS.strip()}'"]
    header.write_text(text.replace(LOADS, "    return;\n"))
    train_model.call(["cmake", "--build", program / "build", "--clean-first"], program)
    loads = more(*(run(program, variant, n, "planted")[0] for n in (1, 0)))["loads"]
    print(f"without that line: {loads} loads in the first step")
    return [] if loads else ["no load was seen in a step where there must be some"]


def main():
    arguments = train_model.on_double(__doc__)
    wrong = []
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(temporary)
        for name, variant in VARIANTS.items():
            program = emit(arguments, work / name, variant)
            runs = {steps: run(program, variant, steps) for steps in variant.steps}
            for before, after in itertools.pairwise(variant.steps):
                found = more(runs[after][0], runs[before][0])
                print(f"{name}, {after} steps beside {before}:", ", ".join(f"{what} {number}" for what, number in found.items()))
                wanted = {"host waits": (after - before) * variant.ranks, "allocations": 0, "frees": 0, "loads": 0, "plans": 0, "waits for other hosts": 0, "uses of the default stream": 0}
                wrong += [f"{name}, {after} steps beside {before}: {what} {found[what]}, wanted {number}" for what, number in wanted.items() if found[what] != number]
            wrong += check_nccl(name, variant, runs[variant.steps[-1]][0], count_planned(arguments, work / name, variant))
            if variant.launches:
                wrong += check_graphs(name, program, variant, runs)
            if name == "whole":
                wrong += check_planted(program, variant)
    sys.exit("\n".join(wrong) or 0)


if __name__ == "__main__":
    main()
