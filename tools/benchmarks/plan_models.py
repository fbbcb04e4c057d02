# ===- plan_models.py - the planner's models, from PyTorch ------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Graphs come from models/export/large.py; `dt-opt --emit=plan-model` says what
# the planner sees of each at one size; `plan-model` makes figures of tokens of
# that, which a fourth size has to confirm. mllm-*.json put them together.
# ===-----------------------------------------------------------------------===
"""tools/plan-models: writes the networks of passes/planner/describe/models."""

from __future__ import annotations

import argparse
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ROOT / "build" / "release" / "bin"
MODELS = ROOT / "passes" / "planner" / "describe" / "models"
sys.path.insert(0, str(ROOT / "models"))

from export import large  # noqa: E402

def run(*command):
    result = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{pathlib.Path(command[0]).name}: {result.stderr.strip()}")
    print(result.stderr, end="", file=sys.stderr)


def describe(folder, name, output):
    """One network as figures of tokens."""
    sizes = []
    for tokens in large.GRAPHS[name].sizes:
        graph, options = large.write(folder, name, tokens)
        file = folder / f"{name}_{tokens}.json"
        run(BIN / "dt-opt", graph, *options, "--remarks=/dev/null", "--emit=plan-model", "-o", file)
        sizes.append(f"--at={tokens}:{file}")
    run(BIN / "plan-model", *sizes, "--precision=bf16", f"--cut-at={large.GRAPHS[name].cut_at}", f"--name={name}", "-o", output)
    print(f"{output.relative_to(ROOT)}: {output.stat().st_size:,} bytes", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=pathlib.Path, default=ROOT / "out" / "plan-models")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(large.GRAPHS)}")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in large.GRAPHS:
            parser.error(f"'{name}' is none of {', '.join(large.GRAPHS)}")
    if not MODELS.is_dir():
        parser.error(f"{MODELS} is no folder")
    arguments.keep.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or large.GRAPHS:
        describe(arguments.keep, name, MODELS / f"{name}.json")


if __name__ == "__main__":
    main()
