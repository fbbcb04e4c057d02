# ===- checksum.py - what checksums over TCP cost ---------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A small GPT-2 on two ranks over TCP that exchange gradients, activations or halves
# of every layer. Runs with DT_CHECKSUM on and off take turns, so that whatever else
# the machine does meets both; figures are medians over rounds, with the spread.
# ===-----------------------------------------------------------------------===
"""tools/bench checksum: prints a table, writes out/bench/checksum.json."""

import argparse
import json
import os
import pathlib
import re
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/benchmarks"))

from parallel import CASES, Program  # noqa: E402

SETTINGS = ("on", "off")


def main():
    parser = argparse.ArgumentParser(prog="tools/bench checksum")
    parser.add_argument("--steps", type=int, default=48, help="counted steps of a run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="programs whose name matches")
    parser.add_argument("--dt-opt", type=pathlib.Path, default=ROOT / "build/release/bin/dt-opt")
    parser.add_argument("--json", type=pathlib.Path, default=ROOT / "out/bench/checksum.json")
    options = parser.parse_args()
    Program.runtime = options.dt_opt.resolve().parents[1]  # the compiler's build has one, made by its compiler
    os.environ["CXX"] = re.search("CMAKE_CXX_COMPILER:[A-Z]*=(.*)", (Program.runtime / "CMakeCache.txt").read_text())[1]
    programs = []
    for case in CASES:
        if case[1] == "gpt2" and case[4] and re.search(options.only, case[0]):
            print(f"building {case[0]}", file=sys.stderr)
            programs.append(Program(options.dt_opt.resolve(), *case))
    os.environ["DT_COMM"] = "tcp"
    load = []
    for turn in range(options.rounds):
        for program in programs:
            for setting in SETTINGS if turn % 2 else SETTINGS[::-1]:
                load.append(os.getloadavg()[0])
                print(f"round {turn + 1} of {options.rounds}, {program.name}, DT_CHECKSUM={setting} (load average {load[-1]:.1f})", file=sys.stderr)
                os.environ["DT_CHECKSUM"] = setting
                program.turn(options.steps)
                program.reports[-1]["checksum"] = setting
    print(f"load average {min(load):.1f} to {max(load):.1f}, {options.rounds} runs of {options.steps} steps, medians (least to most)\n")
    results = {"load": load, "steps": options.steps, "rounds": options.rounds}
    for program in programs:
        row, text = {}, f"{program.name:12}"
        for setting in SETTINGS:
            times = [1e3 * r["step_seconds"] for r in program.reports if r["checksum"] == setting]
            row[setting] = {"step_ms": statistics.median(times), "least": min(times), "most": max(times)}
            text += f"  {setting} {row[setting]['step_ms']:6.1f} ms ({min(times):.1f} to {max(times):.1f})"
        row["cost"] = row["on"]["step_ms"] / row["off"]["step_ms"] - 1
        results[program.name] = row
        print(text + f"  cost {row['cost']:+.1%}")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
