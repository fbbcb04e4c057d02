# ===- parallel.py - programs on two ranks beside their prediction ----------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A small GPT-2 cut three ways and the demo with its encoder on a rank of its own.
# Every run reports its measured step beside the step that the schedule gives if
# each task takes the processor time it took in that run, on this machine's cores
# (runtime/Report.h): the ratio says what messages, collectives and waiting cost
# beyond what is modelled. Beside it stands one process with as many threads as the
# machine has cores for the two ranks. Runs take turns, so that whatever else the
# machine does meets all of them; a figure is the median over rounds.
# ===-----------------------------------------------------------------------===
"""tools/bench parallel: prints a table, writes out/bench/parallel.json."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "out/bench/parallel"
sys.path.insert(0, str(ROOT / "tools/benchmarks"))

import batches  # noqa: E402
from cpu import run  # noqa: E402

WARMUP = 3  # as in runtime/Report.cpp
GPT2 = {"layers": 4, "width": 256, "vocabulary": 4096}
SAMPLES, TOKENS = 8, 128

# name, model, samples of a microbatch, plan; no plan: one process
CASES = [
    ("gpt2 one process", "gpt2", 8, ""),
    ("gpt2 TP 2", "gpt2", 8, "gpt2:tp=2"),
    ("gpt2 DP 2", "gpt2", 8, "gpt2:dp=2"),
    ("gpt2 PP 2", "gpt2", 1, "gpt2:pp=2;schedule=1f1b"),
    ("demo one process", "demo", 24, ""),
    ("demo encoder|LLM", "demo", 6, "vision:;llm:ranks=1;generator:ranks=1"),
    ("skewed as it comes", "skewed", 6, "vision:dp=2,ranks=0-1,rows_max.image=18;llm:dp=2,ranks=0-1;generator:dp=2,ranks=0-1"),
    ("skewed reordered", "skewed", 6, "vision:dp=2,ranks=0-1,rows_max.image=18;llm:dp=2,ranks=0-1;generator:dp=2,ranks=0-1;reorder=both"),
]


def prepare(model):
    """The model's folder with recipe and batch."""
    folder = OUT / model
    folder.mkdir(parents=True, exist_ok=True)
    if model == "gpt2":
        sizes = [text for key, value in GPT2.items() for text in (f"--{key}", value)]
        if not (folder / "model.onnx").exists():
            run([sys.executable, ROOT / "models/gpt2/write_graph.py", folder, *sizes])
        recipe = json.loads((ROOT / "models/gpt2/recipe.json").read_text())
        recipe["dims"]["seq"] = TOKENS
        batches.write("gpt2", folder / "batch.safetensors", samples=SAMPLES, tokens=TOKENS, vocabulary=GPT2["vocabulary"])
        return folder, recipe, SAMPLES
    recipe = json.loads((ROOT / "models/demo/recipe.json").read_text())
    for module in recipe["modules"].values():
        module["onnx"] = str(ROOT / "models/demo" / module["onnx"])
    batches.write("demo", folder / "batch.safetensors", samples=24, skewed=model == "skewed")
    return folder, recipe, 24


class Program:
    def __init__(self, dt_opt, name, model, micro, plan):
        self.name, self.ranks = name, 2 if plan else 1
        folder, recipe, samples = prepare(model)
        recipe["batch"] = {"global": samples, "micro": micro}
        self.batch = folder / "batch.safetensors"
        out = folder / name.replace(" ", "-").replace("|", "-")
        path = folder / f"recipe-{out.name}.json"
        path.write_text(json.dumps(recipe))
        run([dt_opt, path, "--emit=cpp", "-o", out, *([f"--plan={plan}"] if plan else [])])
        run(["cmake", "-S", out, "-B", out / "build", "-G", "Ninja"])
        run(["cmake", "--build", out / "build", "--target", "train"])
        self.train = out / "build/train"
        self.reports = []

    def turn(self, steps):
        with tempfile.TemporaryDirectory() as folder:
            report = pathlib.Path(folder) / "report.json"
            ranks = ["--ranks", 2, "--threads", 1] if self.ranks > 1 else ["--threads", 2]
            run([self.train, "--batch", self.batch, "--steps", steps + WARMUP, "--report", report, *ranks])
            self.reports.append(json.loads(report.read_text()))

    def median(self, value):
        return statistics.median(value(r) for r in self.reports)


def main():
    parser = argparse.ArgumentParser(prog="tools/bench parallel")
    parser.add_argument("--steps", type=int, default=48, help="counted steps of a run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="programs whose name has this")
    parser.add_argument("--dt-opt", type=pathlib.Path, default=ROOT / "build/release/bin/dt-opt")
    parser.add_argument("--json", type=pathlib.Path, default=ROOT / "out/bench/parallel.json")
    options = parser.parse_args()
    programs = []
    for case in CASES:
        if options.only in case[0]:
            print(f"building {case[0]}", file=sys.stderr)
            programs.append(Program(options.dt_opt.resolve(), *case))
    load = []
    for turn in range(options.rounds):
        for program in programs:
            load.append(os.getloadavg()[0])
            print(f"round {turn + 1} of {options.rounds}, {program.name} (load average {load[-1]:.1f})", file=sys.stderr)
            program.turn(options.steps)
    cores = len(os.sched_getaffinity(0))
    print(f"{cores} cores, load average {min(load):.1f} to {max(load):.1f}, {options.rounds} runs of {options.steps} steps, medians\n")
    print(f"{'':20} {'step':>9} {'simulated':>10} {'ratio':>6} {'bubble':>7} {'simulated':>10} {'to one process':>15}")
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
        text = f"{program.name:20} {row['step_ms']:6.1f} ms "
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
    """What reordering gains on skewed data: measured, simulated from the run's tasks, and at most."""
    named = {p.name: p for p in programs}
    if not {"skewed as it comes", "skewed reordered"} <= set(named):
        return
    plain, best = named["skewed as it comes"], named["skewed reordered"]
    measured = plain.median(lambda r: r["step_seconds"]) / best.median(lambda r: r["step_seconds"])
    simulated = best.median(lambda r: r["reorder"]["plain_seconds"] / r["reorder"]["seconds"])
    ceiling = best.median(lambda r: r["reorder"]["plain_seconds"] / r["reorder"]["bound_seconds"])
    results["reordering"] = {"measured": measured, "simulated": simulated, "ceiling": ceiling}
    print(f"\nreordering on skewed data: {measured:.2f}x measured, {simulated:.2f}x simulated from the run's tasks, at most {ceiling:.2f}x")


if __name__ == "__main__":
    main()
