# ===- narrow_gradients.py - gradients that are added up in bf16 ----------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A step of many microbatches with "residual" and "gradients": "bf16". How far a
# parameter's gradient may be from float64's is what PyTorch's is: each microbatch's
# gradient under autocast, with hidden states in bf16 between layers, added to one
# in bf16, in several orders. What products read and the table of tokens must be in
# bf16, and all else in float32: also positions, whose rows are added first.
# ===-----------------------------------------------------------------------===
"""narrow_gradients.py MODEL_FOLDER --dt-opt PATH: exit code 0 if gradients in bf16 are as near to float64 as PyTorch's, 77 without PyTorch."""

import argparse
import copy
import json
import pathlib
import sys
import tempfile
import warnings

import numpy as np
from safetensors.numpy import load_file, save_file

import batches
import train_model

try:
    import torch
    import transformers  # noqa: F401: the networks are its
except ImportError as missing:
    print(f"skipped: needs {missing.name}")
    sys.exit(train_model.SKIPPED)

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "models"))
from export import precision  # noqa: E402
from export.golden import forward  # noqa: E402

SAMPLES = 24
DRAWS = 3
FACTOR = 1.5  # of the largest draw


def loss(model, module, batch, narrow):
    """The sum over the samples' labels."""
    inputs = {name: batch[name] for name in model.inputs}
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=narrow):
        logits = forward(model, module, inputs)[model.loss["logits"]]
    logits = logits if logits.dtype == torch.float64 else logits.float()
    return torch.nn.functional.cross_entropy(logits.flatten(0, -2), batch["labels"].flatten(), ignore_index=model.loss["ignore_index"], reduction="sum")


def gradient(model, module, batch, count, narrow):
    module.zero_grad()
    (loss(model, module, batch, narrow) / count).backward()
    return {name: p.grad.clone() for name, p in module.named_parameters() if p.grad is not None}


def distances(have, exact):
    return {name: float((have[name].double() - want).norm() / want.norm()) for name, want in exact.items()}


def measure(folder, batch):
    """(exact gradients, the largest distance from them of PyTorch's draws) by name of the graph's parameters."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = precision.NETWORKS[str(folder.resolve().relative_to(ROOT / "test/models"))]()
    precision.load(model, folder)
    batch = {name: torch.from_numpy(value) for name, value in batch.items()}
    count = int((batch["labels"] != model.loss["ignore_index"]).sum())
    exact = gradient(model, copy.deepcopy(model.module).double(), batch, count, False)
    precision.narrow_residual(model.module)
    parts = [gradient(model, model.module, {k: v[i : i + 1] for k, v in batch.items()}, count, True) for i in range(SAMPLES)]
    worst = {}
    for seed in range(DRAWS):
        order = np.random.default_rng(seed).permutation(SAMPLES)
        total = {name: torch.zeros_like(g, dtype=torch.bfloat16) for name, g in parts[0].items()}
        for i in order:
            for name, part in parts[i].items():
                total[name] += part.bfloat16()
        for name, distance in distances(total, exact).items():
            worst[name] = max(worst.get(name, 0), distance)
    return exact, worst


def train(folder, batch, stored, dt_opt, work):
    """Gradients of the first step, microbatches of one sample."""
    work.mkdir()
    recipe = train_model.make_recipe(folder, False, 0, False, work)
    entries = json.loads(recipe.read_text()) | {"batch": {"global": SAMPLES, "micro": 1}, "precision": "bf16", "residual": "bf16", "gradients": stored}
    recipe.write_text(json.dumps(entries))
    train_model.make(dt_opt, recipe, work / "program", settings=train_model.QUICK)
    save_file(batch, work / "batch.safetensors")
    train_model.call([work / "program/build/train", "--batch", "batch.safetensors", "--steps", "1", "--save-gradients", "gradients.safetensors"], work)
    return {plain(name.removeprefix("model.")): torch.from_numpy(value) for name, value in load_file(work / "gradients.safetensors").items()}


def plain(name):
    """Without what wraps a network, which not all graphs name."""
    return name.removeprefix("net.")


def is_narrow(values):
    return torch.equal(values, values.bfloat16().float())


def check(folder, dt_opt, work):
    batch = {name: np.ascontiguousarray(value) for name, value in batches.make(folder, SAMPLES).items()}
    exact, worst = measure(folder, batch)
    exact, worst = ({plain(name): value for name, value in values.items()} for values in (exact, worst))
    wide, narrow = (train(folder, batch, stored, dt_opt, work / stored) for stored in ("f32", "bf16"))
    faults, far = [], (0.0, "")
    for name, distance in distances(narrow, {name: exact[name] for name in narrow}).items():
        far = max(far, (distance / worst[name], name))
        if not distance <= FACTOR * worst[name]:
            faults.append(f"gradient of {name}: {distance:.2e} from float64's, PyTorch's {worst[name]:.2e}")
    matrices = {name for name, value in exact.items() if value.dim() == 2 and "wpe" not in name}
    for name in matrices:
        if is_narrow(wide[name]) or not is_narrow(narrow[name]):
            faults.append(f"gradient of {name}: not stored as its recipe says")
    print(f"{folder.name}: {len(narrow)} gradients, {len(matrices)} of matrices; {far[0]:.2f} of PyTorch's distance at most ({far[1]})")
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--dt-opt", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as work:
        faults = check(arguments.model, arguments.dt_opt.resolve(), pathlib.Path(work))
    print(*faults, "ok" if not faults else "DIFFERS", sep="\n")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
