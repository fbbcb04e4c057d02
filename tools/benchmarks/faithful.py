# ===- faithful.py - layouts of two models beside their prediction ----------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Each layout is trained on its ranks. Tasks of even steps give their median thread
# processor times; from these the planner's simulator (dt-opt --emit=timeline
# --times) and the program's own (train --report) say how long a step should be on
# this machine's cores; the walls of odd steps say how long it is. Right before,
# the model's layers are measured by themselves (dt-profile), and what that profile
# says of each task stands beside what the task took. At the end the planner
# chooses a layout by a profile and predicts its step. Nothing is fitted: all
# figures of a line are of one run, the profile's of the minute before it.
# ===-----------------------------------------------------------------------===
"""tools/bench faithful: prints a table, writes out/bench/faithful.json."""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "out/bench/faithful"
sys.path.insert(0, str(ROOT / "tools/benchmarks"))

import batches  # noqa: E402
import models  # noqa: E402
from cpu import run  # noqa: E402

WARMUP = 3  # as in runtime/observe/Report.cpp
GPT2 = {"layers": 6, "width": 256, "vocabulary": 4096}
TOKENS = 128
SAMPLES = {"gpt2": 8, "demo": 24}
ROWS = {"gpt2": "1,2,4", "demo": "2,3,6"}  # samples of the profile's parts
CLUSTER = ROOT / "passes/planner/hardware/clusters/cpu-2.json"

# name, model, samples of a microbatch, units, schedule. `cuts`: layers before each
# stage but the first. AUTO: the planner's choice.
AUTO = "auto"
CASES = [
    ("gpt2 one rank", "gpt2", 2, {"gpt2": {}}, "accumulate"),
    ("gpt2 TP 2", "gpt2", 4, {"gpt2": {"tp": 2}}, "1f1b"),
    ("gpt2 DP 2", "gpt2", 4, {"gpt2": {"dp": 2}}, "1f1b"),
    ("gpt2 DP 2 ZeRO", "gpt2", 4, {"gpt2": {"dp": 2, "zero": 1}}, "1f1b"),
    ("gpt2 PP 2 1F1B", "gpt2", 1, {"gpt2": {"pp": 2, "cuts": [4]}}, "1f1b"),
    ("gpt2 PP 2 ZB-H1", "gpt2", 1, {"gpt2": {"pp": 2, "cuts": [4]}}, "zb-h1"),
    ("gpt2 PP 2 VPP 2", "gpt2", 1, {"gpt2": {"pp": 2, "vpp": 2, "cuts": [3, 5, 6]}}, "interleaved"),
    ("gpt2 PP 4", "gpt2", 1, {"gpt2": {"pp": 4, "cuts": [3, 5, 6]}}, "1f1b"),
    ("gpt2 PP 2 DP 2 ZeRO", "gpt2", 2, {"gpt2": {"pp": 2, "dp": 2, "zero": 1, "cuts": [4]}}, "1f1b"),
    ("gpt2 TP 2 PP 2 DP 2", "gpt2", 2, {"gpt2": {"tp": 2, "pp": 2, "dp": 2, "cuts": [4]}}, "1f1b"),
    ("gpt2 TP 2 PP 3 DP 2", "gpt2", 2, {"gpt2": {"tp": 2, "pp": 3, "dp": 2, "cuts": [3, 5]}}, "1f1b"),
    ("mllm one rank", "demo", 6, {"vision": {"ranks": [0]}, "llm": {"ranks": [0]}, "generator": {"ranks": [0]}}, "accumulate"),
    ("mllm encoder|LLM", "demo", 6, {"vision": {"ranks": [0]}, "llm": {"ranks": [1]}, "generator": {"ranks": [1]}}, "1f1b"),
    ("mllm colocated DP 2", "demo", 6, {u: {"dp": 2, "ranks": [0, 1]} for u in ("vision", "llm", "generator")}, "phased"),
    ("mllm three ranks", "demo", 3, {"vision": {}, "llm": {}, "generator": {}}, "1f1b"),
    ("mllm LLM PP 2 ZB-H1", "demo", 3, {"vision": {}, "llm": {"pp": 2, "cuts": [2]}, "generator": {}}, "zb-h1"),
    ("mllm 12 ranks", "demo", 6, {"vision": {"dp": 3, "rows_max": {"image": 6}}, "llm": {"tp": 2, "dp": 2, "pp": 2, "cuts": [2]}, "generator": {}}, "1f1b"),
    ("gpt2 planner's choice", "gpt2", 4, AUTO, ""),
    ("mllm planner's choice", "demo", 6, AUTO, ""),
]


def prepare(model):
    """The model's folder, with its recipe and a batch."""
    folder = OUT / model
    folder.mkdir(parents=True, exist_ok=True)
    if model == "gpt2":
        recipe = models.gpt2(folder, GPT2, SAMPLES[model], TOKENS)
        return folder, recipe
    recipe = models.demo(folder)
    batches.write("demo", folder / "batch.safetensors", samples=SAMPLES[model])
    return folder, recipe


class Profile:
    """A model's layers, measured by themselves; measured again in seconds."""

    def __init__(self, dt_opt, model):
        self.dt_opt, self.model = dt_opt, model
        self.folder, recipe = prepare(model)
        self.recipe, self.file = self.folder / "recipe.json", self.folder / "profile.json"
        self.recipe.write_text(json.dumps(recipe))
        plan = self.folder / "layers.json"
        run([dt_opt, self.recipe, "--plan=auto", "--policy=layers", "--emit=plan", "-o", plan])
        self.layers = {name: self.layers_of(unit) for name, unit in json.loads(plan.read_text())["units"].items()}

    @staticmethod
    def layers_of(unit):
        """(kind, its pieces) by layer. Layers of one stage are alike."""
        kinds = unit["predicted"]["layers"]
        stages = unit.get("stages", [[None]])
        return [(kind, stage[i * len(stage) // len(own) : (i + 1) * len(stage) // len(own)]) for own, stage in zip(kinds, stages) for i, kind in enumerate(own)]

    def measure(self, degrees):
        tp = ",".join(map(str, sorted(degrees)))
        runtime = ["--runtime", Program.runtime / "runtime/prebuilt.cmake"] if Program.runtime else []
        run([ROOT / "tools/dt-profile", self.recipe, "-o", self.file, "--tp", tp, "--rows", ROWS[self.model], "--keep", self.folder / "layers", "--dt-opt", self.dt_opt, *runtime])
        self.points = json.loads(self.file.read_text())["modules"]

    def seconds(self, unit, kind, tp, items, task):
        """At measured sizes exactly, linear between and beyond them."""
        points = [p for p in self.points[unit][kind] if p["tp"] == tp]
        for point in points:
            if point["rows"] == items:
                return point[task]
        if len(points) == 1:
            return points[0][task] * items / points[0]["rows"]
        low, high = next(((a, b) for a, b in zip(points, points[1:]) if items < b["rows"]), points[-2:])
        return max(0, low[task] + (high[task] - low[task]) * (items - low["rows"]) / (high["rows"] - low["rows"]))


class Program:
    runtime = None  # the build folder of the first one on several ranks, whose runtime the others link

    def __init__(self, dt_opt, profile, name, model, micro, units, schedule, again):
        self.name, self.profile, self.dt_opt = name, profile, dt_opt
        folder = profile.folder
        self.out = folder / re.sub(r"[^a-z0-9]+", "-", name.lower())
        self.batch, self.plan_file = folder / "batch.safetensors", folder / f"plan-{self.out.name}.json"
        self.recipe = folder / f"recipe-{self.out.name}.json"
        self.train = self.out / "build/train"
        if again and self.train.exists():
            self.plan = json.loads(self.plan_file.read_text())
            if (self.out / "build/runtime/libdt_runtime.a").exists() and self.plan["ranks"] > 1:
                Program.runtime = Program.runtime or self.out / "build"
            return
        recipe = json.loads(profile.recipe.read_text())
        recipe["batch"] = {"global": SAMPLES[model], "micro": micro}
        self.recipe.write_text(json.dumps(recipe))
        if units == AUTO:
            profile.measure([1, 2])
            run([dt_opt, self.recipe, "--plan=auto", f"--cluster={CLUSTER}", f"--profile={profile.file}", "--emit=plan", "-o", self.plan_file])
            self.plan = json.loads(self.plan_file.read_text())
        else:
            self.plan = self.make_plan(units, schedule)
            self.plan_file.write_text(json.dumps(self.plan, indent=1))
        run([dt_opt, self.recipe, "--emit=cpp", "-o", self.out, f"--plan={self.plan_file}"])
        several = self.plan["ranks"] > 1
        # Said always: a folder of an earlier run remembers what it had.
        shared = Program.runtime / "runtime/dt_runtime.cmake" if Program.runtime and several else ""
        run(["cmake", "-S", self.out, "-B", self.out / "build", "-G", "Ninja", f"-DDT_RUNTIME_LIBRARY={shared}"])
        run(["cmake", "--build", self.out / "build", "--target", "train"])
        if several and not Program.runtime:
            Program.runtime = self.out / "build"

    def make_plan(self, units, schedule):
        plan = {"version": 1, "units": {}, "pipelines": [{"units": list(units), "schedule": schedule}]}
        end = 0
        for name, given in units.items():
            unit = {"tp": 1, "dp": 1, "pp": 1, "vpp": 1, **given}
            layers, cuts = self.profile.layers[name], [0, *unit.pop("cuts", []), len(self.profile.layers[name])]
            if len(cuts) > 2:
                unit["stages"] = [[piece for _, pieces in layers[a:b] for piece in pieces] for a, b in zip(cuts, cuts[1:])]
            unit.setdefault("ranks", list(range(end, end + unit["tp"] * unit["dp"] * unit["pp"])))
            unit["predicted"] = {"layers": [[kind for kind, _ in layers[a:b]] for a, b in zip(cuts, cuts[1:])]}
            end = max(end, unit["ranks"][-1] + 1)
            plan["units"][name] = unit
        return {**plan, "ranks": end}

    def run(self, steps):
        self.profile.measure({unit["tp"] for unit in self.plan["units"].values()})
        report = self.out / "report.json"
        ranks = ["--ranks", self.plan["ranks"]] if self.plan["ranks"] > 1 else []
        load = os.getloadavg()[0]
        run([self.train, "--program", self.out, "--batch", self.batch, "--steps", steps + WARMUP, "--report", report, "--threads", 1, *ranks])
        r = json.loads(report.read_text())
        line = subprocess.run([self.dt_opt, self.recipe, f"--plan={self.plan_file}", "--emit=timeline", f"--times={report}", f"--remarks={self.out / 'remarks'}"], capture_output=True, text=True, check=True).stdout
        engine = float(re.search(r"simulated ([0-9.]+) ms", line)[1])
        row = {"ranks": self.plan["ranks"], "load": load, "step_ms": 1e3 * r["step_seconds"], "engine_ms": engine, "report_ms": 1e3 * r["simulated_seconds"]}
        row["engine_error"], row["report_error"] = (row[key] / row["step_ms"] - 1 for key in ("engine_ms", "report_ms"))
        errors = self.profile_errors(r["tasks"])
        row["profile_mean_error"], row["profile_bias"] = statistics.mean(map(abs, errors)), statistics.mean(errors)
        row["shortest_task_ms"] = 1e3 * min(t["seconds"] for t in r["tasks"])
        row["arena"] = self.arenas(r)
        if "step" in self.plan.get("predicted", {}):
            row["planner_ms"] = 1e3 * self.plan["predicted"]["step"]
        return row

    def profile_errors(self, tasks):
        """Of forwards and backwards, both halves of a backward together: what the profile says over what was measured, less 1."""
        measured = {}
        for task in tasks:
            key = (task["rank"], task["stage"], "forward" if task["task"] == "F" else "backward", task["microbatch"], task["items"])
            measured[key] = measured.get(key, 0) + task["seconds"]
        errors = []
        for (rank, stage, kind, _, items), seconds in measured.items():
            unit, _, number = stage.partition(".")
            plan = self.plan["units"][unit]
            layers = plan["predicted"]["layers"][int(number or 0)]
            predicted = sum(self.profile.seconds(unit, layer, plan["tp"], items, kind) for layer in layers)
            if seconds > 0 and items > 0:
                errors.append(predicted / seconds - 1)
        return errors

    def arenas(self, report):
        """Bytes of rank 0: as predicted, as allocated."""
        predicted = self.out / "memory.json"
        run([self.dt_opt, self.recipe, f"--plan={self.plan_file}", "--emit=memory", "-o", predicted])
        return json.loads(predicted.read_text())["arena_bytes"], report["memory"][0]["scratch"] + sum(m["arena"] for m in report["memory"][0]["modules"].values())


def summarize(rows):
    """Mean and worst error of those layouts that the issue's limits are about."""
    out = {}
    for label, low, high in (("1-2 ranks", 1, 2), ("3-12 ranks", 3, 12)):
        for key in ("engine_error", "report_error"):
            errors = [abs(row[key]) for row in rows.values() if low <= row["ranks"] <= high]
            if errors:
                out[f"{label}, {key[:6]}"] = (statistics.mean(errors), max(errors))
    out["profile, all"] = (statistics.mean(row["profile_mean_error"] for row in rows.values()), max(row["profile_mean_error"] for row in rows.values()))
    return out


def main():
    parser = argparse.ArgumentParser(prog="tools/bench faithful")
    parser.add_argument("--steps", type=int, default=40, help="counted steps of a run")
    parser.add_argument("--only", default="", help="programs whose name has this")
    parser.add_argument("--again", action="store_true", help="measure the programs that are there already")
    parser.add_argument("--dt-opt", type=pathlib.Path, default=ROOT / "build/release/bin/dt-opt")
    parser.add_argument("--json", type=pathlib.Path, default=ROOT / "out/bench/faithful.json")
    options = parser.parse_args()
    dt_opt, programs, profiles = options.dt_opt.resolve(), [], {}
    for case in CASES:
        if options.only not in case[0]:
            continue
        print(f"building {case[0]}", file=sys.stderr)
        if case[1] not in profiles:
            profiles[case[1]] = Profile(dt_opt, case[1])
            profiles[case[1]].measure([1, 2])
        programs.append(Program(dt_opt, profiles[case[1]], *case, options.again))
    cores = len(os.sched_getaffinity(0))
    print(f"{cores} cores, load average before {os.getloadavg()[0]:.1f}, {options.steps} steps a run: even ones give times of tasks, odd ones the step\n")
    print(f"{'':24}{'ranks':>5} {'step':>9} {'planner engine':>16} {'--report':>16} {'profile of tasks':>17} {'arena':>6} {'load':>5}")
    rows = {}
    for program in programs:
        row = rows[program.name] = program.run(options.steps)
        arena = "equal" if row["arena"][0] == row["arena"][1] else "OTHER"
        predicted = f"  predicted by the planner {row['planner_ms']:.1f} ms ({row['planner_ms'] / row['step_ms'] - 1:+.1%})" if "planner_ms" in row else ""
        print(
            f"{program.name:24}{row['ranks']:5} {row['step_ms']:6.1f} ms {row['engine_ms']:7.1f} {row['engine_error']:+7.1%} {row['report_ms']:8.1f} {row['report_error']:+7.1%}"
            f" {row['profile_mean_error']:7.1%} ({row['profile_bias']:+6.1%}) {arena:>6} {row['load']:5.1f}{predicted}",
            flush=True,
        )
    print()
    for label, (mean, worst) in summarize(rows).items():
        print(f"{label:24} mean error {mean:6.1%}, worst {worst:6.1%}")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({"cores": cores, "steps": options.steps, "layouts": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
