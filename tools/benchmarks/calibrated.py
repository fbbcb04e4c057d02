# ===- calibrated.py - steps planned with a calibrated cluster ----------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# tools/calibrate measures this machine. Then the planner prices given layouts of two
# models with that cluster file alone (dt-sim --plan), and each is trained on its
# ranks. Nothing of a run goes into its prediction.
# ===-----------------------------------------------------------------------===
"""tools/bench calibrated: prints a table, writes out/bench/calibrated.json."""

import argparse
import json
import os
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import faithful  # noqa: E402
from cpu import run  # noqa: E402

ROOT, OUT = faithful.ROOT, faithful.ROOT / "out/bench/calibrated"
NAMES = ["gpt2 TP 2", "gpt2 DP 2", "gpt2 PP 2 1F1B", "gpt2 PP 2 VPP 2", "mllm colocated DP 2", "mllm encoder|LLM"]
# Items of a kind of a sample, as batches.py makes them.
DATA = {
    "gpt2": {"kinds": [], "samples": [{"tokens": 1, "items": []}]},
    "demo": {"kinds": ["image", "target"], "samples": [{"tokens": 1, "items": [[1] * n, [1, 1]]} for n in (1, 2)]},
}


def predict(program, model, samples, micro, options):
    """Seconds of the layout's step, by the cluster file."""
    description, data = OUT / f"{model}-model.json", OUT / f"{model}-data.json"
    if not description.exists():
        run([program.dt_opt, program.profile.recipe, "--emit=plan-model", "-o", description])
        data.write_text(json.dumps(DATA[model]))
    plan, priced = OUT / "plan.json", OUT / "priced.json"
    plan.write_text(json.dumps({**program.plan, "microbatches": samples // micro}))
    run([options.dt_sim, f"--model={description}", f"--cluster={options.cluster}", f"--data={data}", "--batch", samples, f"--plan={plan}", f"--plan-out={priced}"])
    return json.loads(priced.read_text())["predicted"]["step"]


def train(program, steps):
    """Seconds of a step by the clock, and as its tasks' processor times make it: on a shared machine the second says more."""
    report = program.out / "report.json"
    ranks = ["--ranks", program.plan["ranks"]] if program.plan["ranks"] > 1 else []
    run([program.train, "--program", program.out, "--batch", program.batch, "--steps", steps + faithful.WARMUP, "--report", report, "--threads", 1, *ranks])
    result = json.loads(report.read_text())
    return result["step_seconds"], result["simulated_seconds"]


def main():
    parser = argparse.ArgumentParser(prog="tools/bench calibrated")
    parser.add_argument("--steps", type=int, default=40, help="counted steps of a run")
    parser.add_argument("--only", default="", help="layouts whose name has this")
    parser.add_argument("--again", action="store_true", help="train the programs that are there already")
    parser.add_argument("--cluster", type=pathlib.Path, help="a cluster file of tools/calibrate; default: measured first")
    parser.add_argument("--predict", action="store_true", help="train nothing")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin", help="dt-opt and dt-sim")
    options = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    dt_opt, options.dt_sim = options.bin.resolve() / "dt-opt", options.bin.resolve() / "dt-sim"
    if not options.cluster:
        options.cluster = OUT / "cluster.json"
        run([ROOT / "tools/calibrate", "-o", options.cluster, "--types", "f32"])
    built = options.bin.resolve().parent
    if (built / "runtime/dt_runtime.cmake").exists():  # programs link the compiler's own runtime, made by its compiler
        faithful.Program.runtime = built
        os.environ["CXX"] = "clang++-22"
    cases = [case for case in faithful.CASES if case[0] in NAMES and options.only in case[0]]
    profiles, rows = {}, {}
    print(f"{len(os.sched_getaffinity(0))} cores, load average {os.getloadavg()[0]:.1f}\n{'':24}{'predicted':>10} {'measured':>17} {'of processor times':>20}")
    for case in cases:
        name, model, micro = case[:3]
        profile = profiles.setdefault(model, None) or faithful.Profile(dt_opt, model)
        profiles[model] = profile
        program = faithful.Program(dt_opt, profile, *case, options.again)
        row = {"predicted_ms": 1e3 * predict(program, model, faithful.SAMPLES[model], micro, options)}
        if not options.predict:
            row["measured_ms"], row["processor_ms"] = (1e3 * seconds for seconds in train(program, options.steps))
            row["error"], row["processor_error"] = (row["predicted_ms"] / row[key] - 1 for key in ("measured_ms", "processor_ms"))
        rows[name] = row
        measured = "" if options.predict else f"  {row['measured_ms']:7.1f} ms {row['error']:+7.1%}  {row['processor_ms']:7.1f} ms {row['processor_error']:+7.1%}"
        print(f"{name:24}{row['predicted_ms']:7.1f} ms{measured}", flush=True)
    if not options.predict and rows:
        for key, what in (("error", "steps"), ("processor_error", "processor times")):
            errors = [abs(row[key]) for row in rows.values()]
            print(f"{what}: mean error {statistics.mean(errors):.1%}, worst {max(errors):.1%}")
        (ROOT / "out/bench/calibrated.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
