# ===- parallel.py - programs on two ranks beside their prediction ----------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A small GPT-2 cut three ways, the demo with its encoder on a rank of its own, and
# the demo's encoder and language model on samples with 0 to 8 pictures.
# Every run reports its measured step beside the step that the schedule gives if
# each task takes the processor time it took in that run, on this machine's cores
# (runtime/observe/Report.h): the ratio says what messages, collectives and waiting cost
# beyond what is modelled. Beside it stands one process with as many threads as the
# machine has cores for the two ranks. Runs take turns, so that whatever else the
# machine does meets all of them; a figure is the median over rounds.
# ===-----------------------------------------------------------------------===
"""tools/bench parallel: prints a table, writes out/bench/parallel.json."""

import argparse
import copy
import json
import os
import pathlib
import re
import statistics
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "out/bench/parallel"
sys.path.insert(0, str(ROOT / "tools/benchmarks"))

import batches  # noqa: E402
import models  # noqa: E402
from cpu import run  # noqa: E402

WARMUP = 3  # as in runtime/observe/Report.cpp
GPT2 = {"layers": 4, "width": 256, "vocabulary": 4096}
SAMPLES, TOKENS = 8, 128
SKEWED, SKEWED_TOKENS, PICTURES = 32, 80, 8  # samples, tokens of one, most pictures in one

# name, model, samples of a microbatch, ranks, plan; no plan: one process
CASES = [
    ("gpt2 one process", "gpt2", 8, 1, ""),
    ("gpt2 TP 2", "gpt2", 8, 2, "gpt2:tp=2"),
    ("gpt2 DP 2", "gpt2", 8, 2, "gpt2:dp=2"),
    ("gpt2 PP 2", "gpt2", 1, 2, "gpt2:pp=2;schedule=1f1b"),
    ("demo one process", "demo", 24, 1, ""),
    ("demo encoder|LLM", "demo", 6, 2, "vision:;llm:ranks=1;generator:ranks=1"),
    # Encoder and language model on ranks of their own: microbatches differ in pictures.
    ("skewed apart", "skewed", 2, 2, "vision:;llm:ranks=1"),
    ("skewed apart DP 2", "skewed", 2, 3, "vision:dp=2;llm:ranks=2"),
    # Both on the same two ranks: the replicas of a microbatch differ.
    ("skewed shared", "skewed", 8, 2, "vision:dp=2,ranks=0-1,rows_max.image=48;llm:dp=2,ranks=0-1,rows_max.image=48,rows_max.sample=8"),
]
MODES = ("none", "intra", "inter", "both")


def without_generator(recipe, folder):
    """The demo's encoder and language model in other sizes; pictures in some samples only."""
    if not (folder / "llm.onnx").exists():
        run([sys.executable, ROOT / "tools/benchmarks/skewed_graphs.py", folder])
    for name in ("vision", "llm"):
        recipe["modules"][name]["onnx"] = f"{name}.onnx"
    del recipe["modules"]["generator"], recipe["connections"]["generator.cond"], recipe["data"]
    recipe["losses"] = [loss for loss in recipe["losses"] if loss["name"] == "text"]
    recipe["items"] = {"image": {"of": "sample", "max": PICTURES}}
    recipe["dims"] = {"batch": "sample", "images": "image", "seq": SKEWED_TOKENS}
    recipe["inputs"] = {"llm.image_positions": recipe["inputs"]["llm.image_positions"]}


def prepare(model):
    """The model's folder with recipe and batch."""
    folder = OUT / model
    folder.mkdir(parents=True, exist_ok=True)
    if model == "gpt2":
        recipe = models.gpt2(folder, GPT2, SAMPLES, TOKENS)
        return folder, recipe, SAMPLES
    recipe = models.demo(folder)
    if model == "skewed":
        without_generator(recipe, folder)
        batches.write("skewed", folder / "batch.safetensors", samples=SKEWED, tokens=SKEWED_TOKENS, most=PICTURES)
        return folder, recipe, SKEWED
    batches.write("demo", folder / "batch.safetensors", samples=24)
    return folder, recipe, 24


class Program:
    runtime = None  # the build folder of the first one for two ranks, whose runtime the others link

    def __init__(self, dt_opt, name, model, micro, ranks, plan):
        self.name, self.ranks, self.flags, self.model = name, ranks, [], model
        folder, recipe, samples = prepare(model)
        recipe["batch"] = {"global": samples, "micro": micro}
        self.batch = folder / "batch.safetensors"
        out = folder / name.replace(" ", "-").replace("|", "-")
        path = folder / f"recipe-{out.name}.json"
        path.write_text(json.dumps(recipe))
        run([dt_opt, path, "--emit=cpp", "-o", out, *([f"--plan={plan}"] if plan else [])])
        # Said always: a folder of an earlier run remembers what it had.
        shared = Program.runtime / "runtime/dt_runtime.cmake" if Program.runtime else ""
        run(["cmake", "-S", out, "-B", out / "build", "-G", "Ninja", f"-DDT_RUNTIME_LIBRARY={shared}"])
        run(["cmake", "--build", out / "build", "--target", "train"])
        Program.runtime = Program.runtime or (out / "build" if plan else None)
        self.train = out / "build/train"
        self.reports = []

    def reordered(self, mode):
        """The same program with this --reorder."""
        other = copy.copy(self)
        other.name, other.flags, other.reports = f"{self.name} {mode}", ["--reorder", mode], []
        return other

    def turn(self, steps):
        with tempfile.TemporaryDirectory() as folder:
            report = pathlib.Path(folder) / "report.json"
            ranks = ["--ranks", self.ranks, "--threads", 1] if self.ranks > 1 else ["--threads", 2]
            run([self.train, "--batch", self.batch, "--steps", steps + WARMUP, "--report", report, *ranks, *self.flags])
            self.reports.append(json.loads(report.read_text()))

    def median(self, value):
        return statistics.median(value(r) for r in self.reports)


def main():
    parser = argparse.ArgumentParser(prog="tools/bench parallel")
    parser.add_argument("--steps", type=int, default=48, help="counted steps of a run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="programs whose name matches")
    parser.add_argument("--dt-opt", type=pathlib.Path, default=ROOT / "build/release/bin/dt-opt")
    parser.add_argument("--json", type=pathlib.Path, default=ROOT / "out/bench/parallel.json")
    options = parser.parse_args()
    programs = []
    for case in sorted(CASES, key=lambda c: not c[4]):
        if re.search(options.only, case[0]):
            print(f"building {case[0]}", file=sys.stderr)
            programs.append(Program(options.dt_opt.resolve(), *case))
    programs.sort(key=lambda p: [c[0] for c in CASES].index(p.name))
    programs = [v for p in programs for v in ([p.reordered(mode) for mode in MODES] if p.model == "skewed" else [p])]
    load = []
    for turn in range(options.rounds):
        for program in programs:
            load.append(os.getloadavg()[0])
            print(f"round {turn + 1} of {options.rounds}, {program.name} (load average {load[-1]:.1f})", file=sys.stderr)
            program.turn(options.steps // 3 if program.model == "skewed" else options.steps)
    cores = len(os.sched_getaffinity(0))
    print(f"{cores} cores, load average {min(load):.1f} to {max(load):.1f}, {options.rounds} runs of {options.steps} steps, medians\n")
    print(f"{'':22} {'step':>9} {'simulated':>10} {'ratio':>6} {'bubble':>7} {'simulated':>10} {'to one process':>15}")
    results, single = {"cores": cores, "load": load, "steps": options.steps, "rounds": options.rounds}, {}
    for program in programs:
        row = {
            "step_ms": 1e3 * program.median(lambda r: r["step_seconds"]),
            "simulated_ms": 1e3 * program.median(lambda r: r["simulated_seconds"]),
            "ratio": program.median(lambda r: r["step_seconds"] / r["simulated_seconds"]),
            "bubble": program.median(lambda r: r["bubble"]),
            "simulated_bubble": program.median(lambda r: r["simulated_bubble"]),
        }
        model = program.name.split()[0]
        text = f"{program.name:22} {row['step_ms']:6.1f} ms "
        if program.ranks == 1:
            single[model] = row["step_ms"]
            results[program.name] = {"step_ms": row["step_ms"]}
            print(text)
            continue
        if model in single:
            row["to_one_process"] = row["step_ms"] / single[model]
        results[program.name] = row
        print(text + f"{row['simulated_ms']:7.1f} ms {row['ratio']:6.2f} {row['bubble']:7.1%} {row['simulated_bubble']:10.1%} " + (f"{row['to_one_process']:14.2f}x" if model in single else ""))
    report_reordering(programs, results)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(results, indent=1) + "\n")


def report_reordering(programs, results):
    """What reordering gains on skewed data: measured, simulated with the tasks of the run in the given order, and at most."""
    named = {p.name: p for p in programs}
    bases = [case[0] for case in CASES if case[1] == "skewed" and f"{case[0]} none" in named]
    if bases:
        print(f"\n{'reordering':22} {'measured':>9} {'simulated':>10} {'at most':>8}")
    for name in bases:
        plain = named[f"{name} none"].median(lambda r: r["step_seconds"])
        for mode in MODES[1:]:
            run = named[f"{name} {mode}"]
            row = {
                "measured": plain / run.median(lambda r: r["step_seconds"]),
                "simulated": run.median(lambda r: r["reorder"]["plain_seconds"] / r["reorder"]["seconds"]),
                "ceiling": run.median(lambda r: r["reorder"]["plain_seconds"] / r["reorder"]["bound_seconds"]),
            }
            results[run.name]["reordering"] = row
            print(f"{run.name:22} {row['measured']:8.2f}x {row['simulated']:9.2f}x {row['ceiling']:7.2f}x")


if __name__ == "__main__":
    main()
