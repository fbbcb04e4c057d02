# ===- golden.py - an emitted program against PyTorch's figures ------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A model folder holds what training its graph gives in PyTorch (see
# models/export/README.md for the format). This runs an emitted program on the
# same batch for as many steps and compares three things: the outputs at the
# initial weights, every gradient of the first step, and the loss before each
# step. A table says what was compared; the exit code is the verdict.
# What is beyond float32's limits is compared once more, with what roundings do to
# this model on this machine (tolerance.py: Draws).
# ===-----------------------------------------------------------------------===
"""golden.py MODEL_FOLDER --program EMITTED_FOLDER: compares outputs, gradients and loss curve with PyTorch's."""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from safetensors import deserialize
from safetensors.numpy import load_file, save_file

import tolerance
from tolerance import OTHER

HANGS = 600  # seconds; the slowest takes some ten


KINDS = {"F32": np.float32, "F64": np.float64, "I64": np.int64, "I32": np.int32, "I8": np.int8, "U8": np.uint8, "BOOL": np.bool_, "BF16": np.uint16}


def load_outputs(path):
    """A safetensors file's tensors, bf16 (which NumPy does not have) as float32."""
    tensors = {}
    for name, entry in deserialize(path.read_bytes()):
        value = np.frombuffer(entry["data"], KINDS[entry["dtype"]]).reshape(entry["shape"])
        tensors[name] = (value.astype(np.uint32) << 16).view(np.float32) if entry["dtype"] == "BF16" else value
    return tensors


class Golden:
    """A model folder, with names as the program has them: `module.tensor`; tensors of the loss plain."""

    def __init__(self, folder, frozen):
        self.meta = json.loads((folder / "golden.json").read_text())
        tensors = load_file(folder / "golden.safetensors")
        self.single = len(self.meta["graphs"]) == 1
        self.inputs, self.outputs, self.gradients = {}, {}, {}
        graph_inputs = {self.name(p, i["name"]) for p, g in self.meta["graphs"].items() for i in g["inputs"]}
        gradients = "frozen.grad." if frozen else "grad."
        for key, value in tensors.items():
            if key.startswith("in."):
                name = self.prefixed(key[3:])
                self.inputs[name if name in graph_inputs else key[3:]] = value
            elif key.startswith("out."):
                self.outputs[self.prefixed(key[4:])] = value
            elif key.startswith(gradients):
                self.gradients[self.prefixed(key[len(gradients) :])] = value
        self.curve = tensors["frozen.curve" if frozen else "curve"]
        facts = self.meta["frozen"] if frozen else self.meta
        self.vanishing = {self.prefixed(n) for n in self.meta["fp32_vs_fp64"]["vanishing_grads"]}
        # How far PyTorch's own are from float64, where they have few digits.
        self.inexact = {self.prefixed(n): d for n, d in facts["fp32_vs_fp64"].get("inexact_grads", {}).items()}
        self.vanishing |= {self.prefixed(n) for n in facts["fp32_vs_fp64"]["vanishing_grads"]}

    def name(self, part, tensor):
        return f"model.{tensor}" if self.single else f"{part}.{tensor}"

    def prefixed(self, name):
        return f"model.{name}" if self.single else name


def run(program, golden, threads, folder, draw=None):
    """Trains on the golden batch; returns saved outputs, gradients and losses. `draw`: (precision, seed) of roundings of inputs and weights."""
    inputs, flags = golden.inputs, []
    if draw:
        precision, seed = draw
        inputs, flags = tolerance.perturbed(inputs, precision, seed), ["--init-from", "drawn.safetensors"]
        save_file(tolerance.perturbed(load_file(program / "weights.safetensors"), precision, seed + tolerance.DRAWS), folder / "drawn.safetensors")
    save_file({k: np.ascontiguousarray(v) for k, v in inputs.items()}, folder / "batch.safetensors")
    command = [str(program / "build" / "train"), "--batch", "batch.safetensors", "--steps", str(len(golden.curve))]
    command += ["--save-outputs", "outputs.safetensors", "--save-gradients", "gradients.safetensors", "--metrics", "metrics.jsonl"]
    command += flags
    if threads:
        command += ["--threads", str(threads)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=HANGS)
    if done.returncode != 0:
        sys.exit(f"train ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    (folder / "train.err").write_text(done.stderr)
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines() if line.strip()]
    losses = np.array([r["loss"] for r in records if "loss" in r])
    return load_outputs(folder / "outputs.safetensors"), load_file(folder / "gradients.safetensors"), losses


def compare(name, have, want, measure, limit):
    """One row of the table: (name, difference in units of its limit, remark)."""
    if have is None:
        return (name, float("inf"), "missing")
    if have.shape != want.shape:
        return (name, float("inf"), f"shape {list(have.shape)}, expected {list(want.shape)}")
    have, want = have.astype(np.float64), want.astype(np.float64)
    if not np.all(np.isfinite(have)):
        return (name, float("inf"), "not finite")
    difference = measure(have - want)
    return (name, difference / max(limit, 1e-38), f"{difference:.2e}")


def largest(tensor):
    return float(np.max(np.abs(tensor), initial=0))


def exact_limits(golden):
    """{kind: {name: limit}} of float32 programs with other formulas."""
    # PyTorch's figures say which gradients are zero in exact arithmetic: only those are what is left of larger terms.
    terms = max((tolerance.norm(g) for g in golden.gradients.values()), default=0.0)
    gradients = {n: tolerance.gradient_limit(tolerance.norm(g), terms if n in golden.vanishing else 0, OTHER) for n, g in golden.gradients.items()}
    gradients = {n: max(limit, tolerance.BOTH_OFF * golden.inexact.get(n, 0)) for n, limit in gradients.items()}
    terms = max(map(largest, golden.outputs.values()), default=0.0)
    return {
        "outputs": {n: tolerance.output_limit(largest(want)) for n, want in golden.outputs.items()},
        "gradients": gradients,
        "curve": {f"step {i}": tolerance.loss_limit(float(want), terms, i, OTHER) for i, want in enumerate(golden.curve)},
    }


def drawn_limits(golden, plain, draws):
    """The same, of what roundings do to a program: `plain` and `draws` are what run() gives."""
    measured = tolerance.Draws(plain[1], plain[2], [d[1:] for d in draws])
    outputs = {n: max(largest(own_output(d[0], n).astype(np.float64) - own_output(plain[0], n)) for d in draws) for n in golden.outputs if own_output(plain[0], n) is not None}
    return {
        "outputs": {n: tolerance.FACTOR * apart for n, apart in outputs.items()},
        "gradients": {n: measured.gradient_limit(n, want) for n, want in golden.gradients.items() if n in plain[1]},
        "curve": {f"step {i}": measured.loss_limit(i) for i in range(len(plain[2]))},
    }


def own_output(outputs, name):
    """A graph's own loss may have been split into terms: then only the whole is there, under its plain name."""
    return outputs.get(name, outputs.get(name.split(".", 1)[1]))


def compare_all(golden, outputs, gradients, losses, drawn=None):
    """Rows of the table by kind. `drawn`: limits that count where they are wider than float32's."""
    limits = exact_limits(golden)
    for kind, wider in (drawn or {}).items():
        limits[kind] = {n: max(limit, wider.get(n, 0)) for n, limit in limits[kind].items()}
    curve = {f"step {i}": want.reshape(1) for i, want in enumerate(golden.curve)}
    have = {
        "outputs": {n: own_output(outputs, n) for n in golden.outputs},
        "gradients": gradients,
        "curve": {f"step {i}": losses[i : i + 1] for i in range(len(losses))},
    }
    want = {"outputs": (golden.outputs, largest), "gradients": (golden.gradients, tolerance.norm), "curve": (curve, largest)}
    rows = {kind: [compare(n, have[kind].get(n), value, measure, limits[kind][n]) for n, value in sorted(values.items())] for kind, (values, measure) in want.items()}
    for name in sorted(set(gradients) - set(golden.gradients)):
        if np.any(gradients[name]):
            rows["gradients"].append((name, float("inf"), "PyTorch has no gradient here"))
    return rows


def fails(rows):
    return any(not r[1] <= 1 for entries in rows.values() for r in entries)


def compare_program(program, golden, threads, folder):
    """Rows; draws are run only where float32's limits are passed."""
    plain = run(program, golden, threads, folder)
    rows = compare_all(golden, *plain)
    if not fails(rows) or not all(np.isfinite(plain[2])):
        return rows
    draws = [run(program, golden, threads, folder, ("f32", seed)) for seed in range(tolerance.DRAWS)]
    return compare_all(golden, *plain, drawn_limits(golden, plain, draws))


def report(title, rows, show):
    failed = False
    print(f"{title}\n{'':2}{'what':10} {'compared':>8} {'failed':>6} {'of limit':>9}  worst at")
    for kind, entries in rows.items():
        entries.sort(key=lambda r: r[1], reverse=True)
        bad = [r for r in entries if not r[1] <= 1]
        failed |= bool(bad) or not entries
        worst = entries[0] if entries else ("nothing to compare", float("inf"), "")
        print(f"  {kind:10} {len(entries):8} {len(bad):6} {worst[1]:9.4f}  {worst[0]} ({worst[2]})")
        for name, units, remark in (bad[:show] if bad else []):
            print(f"      {units:9.2e} limits  {name}  {remark}")
        if len(bad) > show:
            print(f"      and {len(bad) - show} more")
    print("ok" if not failed else "DIFFERS")
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--program", type=pathlib.Path, required=True)
    parser.add_argument("--frozen", action="store_true", help="compare with the figures of the partly frozen model")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--show", type=int, default=12, help="how many failing tensors to list")
    arguments = parser.parse_args()
    golden = Golden(arguments.model, arguments.frozen)
    with tempfile.TemporaryDirectory() as folder:
        rows = compare_program(arguments.program.resolve(), golden, arguments.threads, pathlib.Path(folder))
    title = arguments.model.name + (" (frozen)" if arguments.frozen else "")
    sys.exit(1 if report(title, rows, arguments.show) else 0)


if __name__ == "__main__":
    main()
