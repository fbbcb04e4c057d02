# ===- programs.py - what --plan=auto plans for programs of large models --------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# programs.py [--devices N] [--cluster NAME]: the table of
# docs/planning-recipes.md, "As programs". Plans for Llama 3 70B
# (test/models/large), with and without the keys that store gradients and the
# residual stream in bf16. Seconds of planning are of dt-opt up to the phase
# modules, import included, without the comparison with other policies.
# ===-----------------------------------------------------------------------===
"""What --plan=auto plans for programs of Llama 3 70B: the table of docs/planning-recipes.md."""

import argparse
import json
import pathlib
import tempfile
import time

from large import compile, unpack

FLAGS = ["--loss=cross_entropy:logits", "--dims=batch=sample,seq=8192", "--precision=bf16", "--init=normal(0,0.02)", "--plan=auto"]
WAYS = [("as it is", []), ("`--residual=bf16 --gradients=bf16`", ["--residual=bf16", "--gradients=bf16"])]


def describe(plan):
    unit = next(iter(plan["units"].values()))
    sizes = [f"{key.upper()} {unit[key]}" for key in ("tp", "pp", "vpp", "cp", "dp", "ep") if unit.get(key, 1) > 1]
    save = unit["save"] if isinstance(unit["save"], str) else " + ".join(unit["save"])
    strips = [f"overlap {unit['overlap']}"] if unit.get("overlap", 1) > 1 else []
    return ", ".join([*sizes, plan["pipelines"][0]["schedule"], f"`save` {save}", *strips])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", default="64")
    parser.add_argument("--cluster", default="h100-80g")
    options = parser.parse_args()
    print("| samples | | step | plan | compiled and refused | planned in |\n| --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        model, out = unpack("llama3_70b", folder), pathlib.Path(folder, "plan.json")
        for samples in (128, 64):
            for name, keys in WAYS:
                command = [model, *FLAGS, f"--batch={samples}", f"--cluster={options.cluster}", f"--devices={options.devices}", *keys]
                begun = time.monotonic()
                compile(*command, "--emit=mlir", "--to=modules", "-o", f"{folder}/plan.mlir")
                seconds = time.monotonic() - begun
                compile(*command, "--emit=plan", "-o", out)
                plan = json.loads(out.read_text())
                refused = plan["predicted"].get("searched", {}).get("refused", 0)
                print(f"| {samples} | {name} | {plan['predicted']['step']:.2f} s | {describe(plan)} | {refused} | {seconds:.1f} s |", flush=True)


if __name__ == "__main__":
    main()
