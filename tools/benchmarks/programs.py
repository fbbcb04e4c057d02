# ===- programs.py - what --plan=auto plans for programs of large models --------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# programs.py [--many] [--devices N] [--cluster NAME]: the tables of
# docs/planning-recipes.md, "As programs". Plans for Llama 3 70B
# (test/models/large), with and without the keys that store gradients and the
# residual stream in bf16; `--many`: on 1,296 devices, and for a multimodal
# model of 72B. Seconds of planning are of dt-opt up to the phase modules,
# import included, without the comparison with other policies.
# ===-----------------------------------------------------------------------===
"""What --plan=auto plans for programs of Llama 3 70B and of a multimodal model: tables of docs/planning-recipes.md."""

import argparse
import json
import pathlib
import tempfile
import time

import multimodal
from large import compile, unpack

LLAMA = ["--loss=cross_entropy:logits", "--dims=batch=sample,seq=8192", "--precision=bf16", "--init=normal(0,0.02)"]
NARROW = ["--residual=bf16", "--gradients=bf16"]


def describe_unit(unit):
    sizes = [f"{key.upper()} {unit[key]}" for key in ("tp", "pp", "vpp", "cp", "dp", "ep") if unit.get(key, 1) > 1]
    save = unit["save"] if isinstance(unit["save"], str) else " + ".join(unit["save"])
    strips = [f"overlap {unit['overlap']}"] if unit.get("overlap", 1) > 1 else []
    return ", ".join([*sizes, f"`save` {save}", *strips])


def describe(plan):
    units = plan["units"]
    named = [f"{name}: {describe_unit(unit)}" if len(units) > 1 else describe_unit(unit) for name, unit in units.items()]
    return "; ".join([*named, plan["pipelines"][0]["schedule"]])


def list_cases(folder, many):
    """Samples, what it is, and its arguments."""
    llama = unpack("llama3_70b", folder)
    if many:
        yield 1920, "Llama 3 70B", [llama, *LLAMA, "--batch=1920"]
        yield 1920, "ViT-Huge, Llama 3 70B, SD 2.1", [multimodal.write(folder, 1920)]
        return
    for samples in (128, 64):
        for name, keys in (("as it is", []), ("`--residual=bf16 --gradients=bf16`", NARROW)):
            yield samples, name, [llama, *LLAMA, f"--batch={samples}", *keys]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--many", action="store_true")
    parser.add_argument("--devices")
    parser.add_argument("--cluster", default="h100-80g")
    options = parser.parse_args()
    devices = options.devices or ("1296" if options.many else "64")
    print("| samples | | step | plan | compiled and refused | planned in |\n| --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, "plan.json")
        for samples, name, case in list_cases(folder, options.many):
            command = [*case, "--plan=auto", f"--cluster={options.cluster}", f"--devices={devices}"]
            begun = time.monotonic()
            compile(*command, "--emit=mlir", "--to=modules", "-o", f"{folder}/plan.mlir")
            seconds = time.monotonic() - begun
            compile(*command, "--emit=plan", "-o", out)
            plan = json.loads(out.read_text())
            refused = plan["predicted"].get("searched", {}).get("refused", 0)
            print(f"| {samples:,} | {name} | {plan['predicted']['step']:.2f} s | {describe(plan)} | {refused} | {seconds:.1f} s |", flush=True)


if __name__ == "__main__":
    main()
