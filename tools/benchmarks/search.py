# ===- search.py - what a search finds, case by case --------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# search.py [--dt-sim BINARY] [--base BINARY] [--policy NAME] [--only REGEX]:
# plans of one policy for models, clusters and data of many kinds. With --base,
# beside those of another dt-sim: a change of the search moves single cases of
# uneven data by some percent either way, so it is judged by all of them.
# ===-----------------------------------------------------------------------===
"""What a search finds, case by case, beside what another dt-sim finds."""

import argparse
import dataclasses
import math
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


@dataclasses.dataclass(frozen=True)
class Case:
    kind: str
    model: str
    devices: int  # 0: all of the cluster's
    data: str
    batch: int
    cluster: str = "a800-80g"
    seed: int = 1
    frozen: str = ""

    def __str__(self):
        devices = f" {self.devices}" if self.devices else ""
        return f"{self.model} on{devices} {self.cluster}, {self.data}, batch {self.batch}, seed {self.seed}" + (f", frozen {self.frozen}" if self.frozen else "")

    def flags(self):
        flags = ["--cluster", self.cluster, "--model", self.model, "--data", self.data, "--batch", str(self.batch), "--seed", str(self.seed)]
        flags += ["--devices", str(self.devices)] if self.devices else []
        return flags + (["--frozen", self.frozen] if self.frozen else [])


def list_cases():
    even = [("mllm-9b", 96, b) for b in (128, 432, 480, 1920, 3072)] + [("mllm-15b", 96, 64), ("mllm-72b", 96, 40)]
    even += [("mllm-9b", 1296, 1920), ("mllm-15b", 1296, 1920), ("mllm-72b", 648, 1920), ("mllm-72b", 1172, 1920)]
    even += [("mllm-72b", 1296, b) for b in (1024, 1152, 1920, 4096, 4608)]
    cases = [Case("packed", model, devices, "packed", batch) for model, devices, batch in even]
    cases += [Case("packed", "mllm-72b", 512, "packed", 512, "h100-80g", 3), Case("packed", "llama3_70b", 64, "packed", 64, "h100-80g")]
    cases += [Case("packed", "mllm-72b", 96, "packed", 40, frozen=frozen) for frozen in ("encoder,llm,generator", "encoder,llm", "llm,generator", "encoder,generator")]
    cases += [Case("documents", "mllm-9b", 96, "documents", b) for b in (288, 1152)]
    for seed in range(1, 4):
        cases += [Case("documents", "mllm-72b", devices, "documents", batch, seed=seed) for devices, batch in ((1296, 1152), (1296, 3840), (648, 1920))]
        cases += [Case("documents", "mllm-15b", 1296, "documents", 2560, seed=seed), Case("documents", "mllm-9b", 96, "documents", 512, seed=seed)]
    cases += [Case("documents", "mllm-15b", 512, "documents", 1024, "h100-80g"), Case("documents", "mllm-9b", 256, "documents", 512, "h200-141g", 2)]
    cases += [Case("documents", "mllm-15b", 48, "documents", 128, "h100-80g", 4), Case("documents", "mllm-72b", 2048, "documents", 2048, "h100-80g", 5)]
    mixed = [("mllm-9b", "packed", 512, "a100-l40s"), ("mllm-15b", "packed", 512, "h100-h20"), ("mllm-9b", "packed", 1024, "a800-l40s"), ("mllm-72b", "packed", 256, "h100-h20")]
    mixed += [("mllm-9b", "documents", 512, "h100-h20"), ("mllm-15b", "documents", 256, "a100-l40s"), ("llama3_13b", "packed", 256, "h100-h20"), ("mllm-15b", "documents", 1920, "a800-l40s")]
    return cases + [Case("mixed", model, 0, data, batch, cluster) for model, data, batch, cluster in mixed]


def plan(binary, policy, case):
    """Seconds of the step, and of planning it."""
    done = subprocess.run([binary, "--policy", policy, *case.flags()], capture_output=True, text=True)
    found = re.search(r" ([0-9.]+) s  ceiling .* planned in ([0-9.]+) s", done.stdout)
    if done.returncode or not found:
        sys.exit(f"{case}: {done.stderr.strip() or done.stdout.strip()}")
    return float(found[1]), float(found[2])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dt-sim", default=str(ROOT / "build/release/bin/dt-sim"))
    parser.add_argument("--base", help="another dt-sim, to compare with")
    parser.add_argument("--policy", default="joint")
    parser.add_argument("--only", default="", help="cases that this regular expression is found in")
    options = parser.parse_args()
    ratios, seconds = {}, 0
    for case in (c for c in list_cases() if re.search(options.only, f"{c.kind} {c}")):
        step, own = plan(options.dt_sim, options.policy, case)
        seconds += own
        line = f"{str(case):82} {step:9.3f} s  planned in {own:5.2f} s"
        if options.base:
            before, other = plan(options.base, options.policy, case)
            ratios.setdefault(case.kind, []).append(math.log(step / before))
            line += f"  base {before:9.3f} s  {100 * (step / before - 1):+5.1f} %  planned in {other:5.2f} s"
        print(line, flush=True)
    for kind, logs in ratios.items():
        print(f"{kind:9} {len(logs):3} cases: {100 * math.expm1(sum(logs) / len(logs)):+.2f} % on average, {100 * math.expm1(min(logs)):+.1f} to {100 * math.expm1(max(logs)):+.1f} %")
    print(f"planned in {seconds:.1f} s together")


main()
