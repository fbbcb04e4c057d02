# ===- precision.py - how far bf16 is from float32 in PyTorch -------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A program that multiplies in bf16 trains another curve than one in float32. How
# far they may be apart is what PyTorch's own mixed precision says: each network
# of test/models is trained in float32 and under autocast(bfloat16), from the
# weights of its graph and from some that are moved by a rounding of bf16. One run
# under autocast is one draw of its rounding noise; the largest of several is
# what a test compares with (test/e2e/precision.py). Losses are computed in float32,
# as under CUDA's autocast. `python -m export.precision` in models/ writes
# test/models/*/precision.json; names of folders select some. With --work DIR the
# names are those of architectures.py: their graphs and figures are written there.
# ===-----------------------------------------------------------------------===
"""python -m export.precision [FOLDER...]: writes test/models/*/precision.json. --work DIR NAME...: the same of architectures (models/export/architectures.py), into DIR."""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import pathlib
import warnings

import numpy as np
import onnx
import torch
from safetensors.numpy import load_file

from . import architectures, golden
from .golden import forward, loss_of
from .networks import NETWORKS

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "test" / "models"
STEPS = 20
DRAWS = 5
ROUNDING = 2.0**-9  # of bf16, relative
ALIKE = 0.999  # cosine of gradients that have one direction


def load(model, folder):
    """Gives `model` the weights of its graphs and the figures' batch; both must be those that the figures are of."""
    recipe = json.loads((folder / "recipe.json").read_text())
    values = {}
    for name, entry in recipe["modules"].items():
        prefix = "" if len(recipe["modules"]) == 1 else f"{name}."
        for tensor in onnx.load(folder / entry["onnx"]).graph.initializer:
            values[prefix + tensor.name] = torch.from_numpy(np.array(onnx.numpy_helper.to_array(tensor), np.float32))
    with torch.no_grad():
        for name, tensor in (*model.module.named_parameters(), *model.module.named_buffers()):
            key = name if name in values else name.removeprefix("net.")
            if key in values:
                tensor.copy_(values[key])
            elif tensor.requires_grad:
                tensor.requires_grad_(False)  # in no graph: nothing uses it
    figures = load_file(folder / "golden.safetensors")
    given = {k.removeprefix("in."): torch.from_numpy(v) for k, v in figures.items() if k.startswith("in.")}
    model.inputs = {name: given[name] for name in model.inputs}
    model.targets = {k: v for k, v in given.items() if k not in model.inputs}
    model.module.train(model.training)
    return figures, recipe["optimizer"]


def total(spec, outputs, targets):
    if spec["kind"] == "sum":
        return sum(total(term, outputs, targets) for term in spec["terms"])
    return loss_of(spec, outputs, targets)


def narrow_residual(module):
    """Layers of lists take hidden states in bf16. So, under autocast, what they add to them and give is bf16."""

    def narrow(layer, positional, named):
        if positional:
            return (positional[0].bfloat16(), *positional[1:]), named
        return positional, {**named, "hidden_states": named["hidden_states"].bfloat16()}

    for layers in module.modules():
        if isinstance(layers, torch.nn.ModuleList):
            for layer in layers:
                layer.register_forward_pre_hook(narrow, with_kwargs=True)


def loss(model, module, narrow):
    with torch.autocast("cpu", dtype=torch.bfloat16) if narrow else contextlib.nullcontext():
        outputs = forward(model, module, model.inputs)
    return total(model.loss, {k: v.float() for k, v in outputs.items()}, {**model.inputs, **model.targets})


def train(model, start, settings, narrow, residual=False, steps=STEPS):
    """Losses before each step on one batch, and the gradients of the first. `narrow`: under autocast; `residual`: with hidden states in bf16, too."""
    module = copy.deepcopy(start)
    if residual:
        narrow_residual(module)
    trained = [p for p in module.parameters() if p.requires_grad]
    chosen = {k: v for k, v in settings.items() if k != "kind"}
    assert settings["kind"] == "adamw" and set(chosen) <= {"lr", "betas", "eps", "weight_decay"}, settings
    optimizer = torch.optim.AdamW(trained, **chosen)
    losses, gradients = [], {}
    for _ in range(steps):
        value = loss(model, module, narrow)
        optimizer.zero_grad()
        value.backward()
        gradients = gradients or {n: p.grad.double().clone() for n, p in module.named_parameters() if p.grad is not None}
        optimizer.step()
        losses.append(value.item())
    return losses, gradients


def moved(module, draw):
    """A copy whose weights are moved by about a rounding of bf16; the weights themselves for the first draw."""
    module = copy.deepcopy(module)
    generator = torch.Generator().manual_seed(draw)
    with torch.no_grad():
        for p in module.parameters() if draw else ():
            p *= 1 + ROUNDING * torch.randn(p.shape, generator=generator)
    return module


def deviation(have, want):
    """Root mean square of the difference of two curves, in units of that of the second."""
    have, want = np.array(have, np.float64), np.array(want, np.float64)
    return float(np.linalg.norm(have - want) / np.linalg.norm(want))


def cosine(a, b):
    return float((a * b).sum() / (a.norm() * b.norm()).clamp(min=1e-300))


def measure(folder, make, residual=False):
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make()
    figures, settings = load(model, folder)
    curves, deviations, worst, lengths = [], [], {}, {}
    for draw in range(DRAWS):
        start = moved(model.module, draw)
        wide, wide_gradients = train(model, start, settings, narrow=False)
        narrow, narrow_gradients = train(model, start, settings, narrow=True, residual=residual)
        curves = curves or [wide, narrow]
        deviations.append(deviation(narrow, wide))
        for key, gradient in wide_gradients.items():
            worst[key] = min(worst.get(key, 1.0), cosine(narrow_gradients[key], gradient))
            lengths[key] = max(lengths.get(key, 0.0), abs(float(narrow_gradients[key].norm() / gradient.norm().clamp(min=1e-300)) - 1))
    known = figures["curve"]
    assert deviation(curves[0][: len(known)], known) < 1e-4, f"{folder.name}: not the network of the graph: {curves[0]}, not {known}"
    key = lambda n: n if f"grad.{n}" in figures else n.removeprefix("net.")
    return {
        "made": f"torch {torch.__version__.split('+')[0]}, CPU",
        "float32": curves[0],
        "autocast": curves[1],
        "deviations": [float(f"{d:.4g}") for d in deviations],
        "gradients": len(worst),
        "length": float(f"{max(lengths[n] for n, c in worst.items() if c > ALIKE):.4g}"),
        "other_direction": {key(n): round(c, 5) for n, c in sorted(worst.items()) if not c > ALIKE},
    }


def networks(arguments):
    """Folder and maker of each network; graphs and figures of architectures are written first."""
    for name in arguments.names or ([] if arguments.work else NETWORKS):
        if not arguments.work:
            yield FOLDER / name, NETWORKS[name]
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = architectures.make(name)
            golden.write(model, arguments.work)
        yield arguments.work / model.name, lambda: architectures.make(name)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--work", type=pathlib.Path)
    torch.set_num_threads(1)  # the same sums every time
    for folder, make in networks(parser.parse_args()):
        facts = measure(folder, make)
        (folder / "precision.json").write_text(json.dumps(facts, indent=1) + "\n")
        worst = max(facts["deviations"])
        print(f"{folder.name:20} curve off by {facts['deviations'][0]:.1e} to {worst:.1e}; {len(facts['other_direction'])} of {facts['gradients']} gradients below {ALIKE}, lengths of the others off by up to {facts['length']:.1e}", flush=True)


if __name__ == "__main__":
    main()
