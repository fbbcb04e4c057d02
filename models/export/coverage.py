# ===- coverage.py - which architectures train -------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Every network of architectures.py and architectures_second.py goes the whole way, in a process of its own:
# exported, compared with PyTorch in ONNX Runtime, compiled, built, trained for ten
# steps, and its outputs, gradients and losses compared with PyTorch's at the
# tolerances of the tests (test/e2e/golden.py). What came out is kept a file a
# network, so that a run that was stopped goes on; docs/coverage.md is made of them.
# ===-----------------------------------------------------------------------===
"""python -m export.coverage --dt-opt PATH [NAME...]: trains tiny forms of widely used networks, and writes docs/coverage.md."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import pathlib
import shutil
import signal
import sys
import time
import warnings

import numpy as np
import torch

from . import architectures_second, golden
from .architectures import FAMILIES, file_name, make
from .training import compiled_and_trained

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs" / "coverage.md"
# Titles of the second list may be those of the first.
FURTHER = {f"{title}, further": family for title, family in architectures_second.FAMILIES.items()}
EVERY = FAMILIES | FURTHER
# What a result that is not "trains" ends at, in the order in which a network meets them.
STAGES = {
    "export": "PyTorch's exporter, or what models/export asks of a graph",
    "check": "The graph gives other numbers than PyTorch in ONNX Runtime",
    "compile": "The compiler",
    "build": "Building the program",
    "train": "Training, or its comparison with PyTorch",
    "time": "Not done within the time limit",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="architectures (default: all)")
    parser.add_argument("--dt-opt", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "out" / "coverage", help="results and programs (default: out/coverage)")
    parser.add_argument("--again", action="store_true", help="also what has a result")
    parser.add_argument("--failed", action="store_true", help="also what has a result other than that it trains")
    parser.add_argument("--limit", type=int, default=900, help="seconds for one network")
    arguments = parser.parse_args()
    names = [name for family in EVERY.values() for name in family]
    unknown = sorted(set(arguments.names) - set(names))
    if unknown:
        parser.error(f"unknown architecture '{unknown[0]}'; known: {', '.join(names)}")
    if not arguments.dt_opt.exists():
        parser.error(f"no such file: {arguments.dt_opt}")
    arguments.work.mkdir(parents=True, exist_ok=True)
    results = {}
    for number, name in enumerate(names, 1):
        file = arguments.work / f"{file_name(name)}.json"
        old = json.loads(file.read_text()) if file.exists() else None
        wanted = old is None or arguments.again or (arguments.failed and old["result"] != "trains")
        if wanted and (not arguments.names or name in arguments.names):
            old = in_process(name, arguments, file)
            print(f"[{number}/{len(names)}] {name}: {old['result']} ({old['seconds']} s) {old['reason']}", flush=True)
        if old:
            results[name] = old
    trained = sum(r["result"] == "trains" for r in results.values())
    print(f"{trained} of {len(results)} train")
    if len(results) == len(names):
        TABLE.write_text(table(results))
        print(f"wrote {TABLE.relative_to(ROOT)}")
    else:
        print(f"{len(names) - len(results)} have not run: {TABLE.relative_to(ROOT)} is as it was")


def in_process(name, arguments, file):
    """The result of one network, from a process that may not take longer than the limit."""
    file.unlink(missing_ok=True)
    begin = time.monotonic()
    # Forked: the libraries take longer to load than most networks to train.
    process = multiprocessing.get_context("fork").Process(target=run_one, args=(name, arguments.work.resolve(), arguments.dt_opt.resolve()))
    process.start()
    try:
        process.join(arguments.limit)
    except KeyboardInterrupt:
        os.killpg(process.pid, signal.SIGKILL)
        sys.exit("stopped; the same command goes on from here")
    if process.is_alive():
        os.killpg(process.pid, signal.SIGKILL)
        process.join()
        result = {"result": "time", "reason": f"more than {arguments.limit} s"}
    else:
        result = json.loads(file.read_text()) if file.exists() else {"result": "export", "reason": f"the process ended with {process.exitcode}"}
    result |= {"seconds": round(time.monotonic() - begin)}
    file.write_text(json.dumps(result, indent=1) + "\n")
    return result


# --- one network --------------------------------------------------------------


def run_one(name, work, dt_opt):
    """Writes the result of one network; everything it makes is in work/<its file name>."""
    os.setsid()  # what it starts ends with it
    warnings.simplefilter("ignore")
    sys.stdout = open(os.devnull, "w")
    torch.set_num_threads(1)
    folder, file = work / file_name(name), work / f"{file_name(name)}.json"
    shutil.rmtree(folder, ignore_errors=True)
    facts = {"source": "", "parameters": 0, "result": "trains", "reason": ""}
    try:
        model = make(name, EVERY)
        facts |= {"source": model.source, "parameters": sum(p.numel() for p in model.module.parameters())}
        golden.write(model, work)
    except AssertionError as e:
        facts |= {"result": "check", "reason": first_line(e)}
    except Exception as e:  # of PyTorch's exporter there are many kinds
        facts |= {"result": "export", "reason": first_line(e)}
    else:
        nearby = lambda: (np.array(golden.curve(model, golden.rounded(model.module, seed)), np.float32) for seed in range(8))
        facts |= dict(zip(("result", "reason"), compiled_and_trained(folder, dt_opt, nearby)))
    file.write_text(json.dumps(facts, indent=1) + "\n")


def first_line(error):
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


# --- the table ----------------------------------------------------------------


def versions():
    from importlib.metadata import version

    return ", ".join(f"{package} {version(package).split('+')[0]}" for package in ("torch", "transformers", "diffusers", "timm"))


def table(results):
    counted = lambda families: (len(names := [n for family in families.values() for n in family]), sum(results[n]["result"] == "trains" for n in names))
    (first, first_trained), (further, further_trained) = counted(FAMILIES), counted(FURTHER)
    lines = [
        "# Architectures",
        "",
        "Which published networks train here as they do in PyTorch? For anyone who has one of them, or a similar one. Written by `models/export/coverage.py`.",
        "",
        f"**{first_trained} of {first} networks of a first list train, {further_trained} of {further} of a second.** Both lists were chosen by hand before any network was tried. *Trains* means: outputs, every gradient of the first step and the loss before each of ten steps are PyTorch's, within the",
        "tolerances of `test/e2e`. Other sizes of these networks, and other ways to call them, were not tried.",
        "",
        f"The {len(results)} networks are widely used ones of transformers, diffusers and timm ({versions()}). Each is the library's own class, made tiny: about two layers and a width of 32 to 64 (a few of timm's have sizes of their own), with",
        "random weights. It is exported with `models/export`, compiled, and trained with AdamW in float32 in one process. Some need special inputs or settings (`models/export/architectures.py`, `architectures_second.py`, `generators_second.py`):",
        "kinds of tokens (PaliGemma), padding that its window reaches over (ModernBERT), train mode (LeViT, EfficientFormer), full attention (BigBird), no scaling for half precision (RWKV), so few queries that no two have nearly the same score (RT-DETR).",
        "",
        "    cd models && ../.venv/bin/python -m export.coverage --dt-opt ../build/release/bin/dt-opt      # goes on where it was stopped; out/coverage has the results",
    ]
    for title, family in EVERY.items():
        lines += ["", f"## {title}", "", "| architecture | class | parameters | result |", "| --- | --- | --- | --- |"]
        for name in family:
            r = results[name]
            said = "trains" + (f" ({r['reason']})" if r["reason"] else "") if r["result"] == "trains" else "does not: see below"
            lines.append(f"| {name} | {r.get('source', '')} | {r.get('parameters', 0):,} | {said} |")
    failed = {stage: [n for n, r in results.items() if r["result"] == stage] for stage in STAGES}
    if any(failed.values()):
        lines += ["", "## What does not train, and why"]
    for stage, title in STAGES.items():
        if failed[stage]:
            lines += ["", f"{title}:", ""] + [f"- {name}: {results[name]['reason']}" for name in failed[stage]]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
