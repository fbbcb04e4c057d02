# ===- golden.py - what training an exported graph gives in PyTorch --------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# The compiler's tests compare with PyTorch without having PyTorch: a model's
# outputs, gradients and first losses are computed here once and checked in. The
# same figures in float64 tell which gradients are zero in exact arithmetic,
# where float32 has only rounding noise.
# ===-----------------------------------------------------------------------===
"""Writes a model folder: graph, golden.safetensors, golden.json and recipe.json."""

from __future__ import annotations

import copy
import json
import pathlib
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from safetensors.numpy import save_file

from .checking import check
from .exporting import export, op_counts, parameter_count
from .widening import wide_module

STEPS = 10
ADAMW = {"lr": 0.001, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.01}
# A gradient whose float64 norm is below this share of the largest one is zero in exact arithmetic.
VANISHING = 1e-10
# A gradient of which float32 and float64 differ by more than this has few digits: how far PyTorch's own is off says what can be asked.
INEXACT = 4e-5


@dataclass
class Model:
    """One network, a batch for it and its loss."""

    name: str
    source: str
    module: torch.nn.Module
    inputs: dict  # graph input -> tensor, in the order of forward()
    outputs: list  # names of what forward() returns
    dims: dict  # graph input -> {axis: dim name}
    loss: dict  # as in golden.json; names of outputs and of `targets`
    targets: dict = field(default_factory=dict)  # tensors of the loss that the graph does not take
    bound: dict = field(default_factory=dict)  # dim name -> number, in the recipe; other dims count samples
    opset: int = 20
    training: bool = False  # BatchNorm uses the batch's statistics
    kind: torch.dtype = torch.float32  # of the graph's parameters and float inputs; figures are those of float32
    notes: list = field(default_factory=list)


def loss_of(spec, outputs, targets):
    """The scalar loss that `spec` describes."""
    kind = spec["kind"]
    if kind == "cross_entropy":
        logits = outputs[spec["logits"]]
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets[spec["labels"]].reshape(-1), ignore_index=spec["ignore_index"])
    if kind == "mse":
        return F.mse_loss(outputs[spec["output"]], targets[spec["target"]].to(outputs[spec["output"]].dtype))
    logits = outputs[spec["logits"]]
    if kind == "clip_contrastive":
        own = torch.arange(len(logits))
        return (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2
    if kind == "sigmoid_contrastive":
        signs = 2 * torch.eye(len(logits), dtype=logits.dtype) - 1
        return -F.logsigmoid(signs * logits).sum(-1).mean()
    raise ValueError(f"loss kind '{kind}'")


def scatter_weights(module, seed=0):
    """Moves every parameter off its initial value: zeros and ones hide errors."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in module.parameters():
            noise = torch.randn(p.shape, generator=generator)
            p += noise * (0.1 if p.dim() < 2 else 0.3 * p.std().clamp(min=0.05))
        for name, b in module.named_buffers():
            if name.endswith("running_mean"):
                b += 0.2 * torch.randn(b.shape, generator=generator)
            elif name.endswith("running_var"):
                b *= 0.5 + torch.rand(b.shape, generator=generator)
    return module


def forward(model, module, inputs):
    values = module(*inputs.values())
    return dict(zip(model.outputs, values if isinstance(values, (tuple, list)) else (values,)))


def gradients(model, module, double=False):
    module = copy.deepcopy(module)
    inputs = model.inputs
    if double:
        module = module.double()
        inputs = {k: v.double() if v.is_floating_point() else v for k, v in inputs.items()}
    outputs = forward(model, module, inputs)
    loss = loss_of(model.loss, outputs, {**inputs, **model.targets})
    loss.backward()
    return outputs, loss, {n: p.grad for n, p in module.named_parameters() if p.grad is not None}


def curve(model, module):
    """The loss before each of STEPS AdamW steps on the same batch."""
    module = copy.deepcopy(module)
    optimizer = torch.optim.AdamW(module.parameters(), lr=ADAMW["lr"], betas=ADAMW["betas"], eps=ADAMW["eps"], weight_decay=ADAMW["weight_decay"])
    losses = []
    for _ in range(STEPS):
        loss = loss_of(model.loss, forward(model, module, model.inputs), {**model.inputs, **model.targets})
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def rounded(module, seed):
    """A copy whose weights are moved by about one rounding of float32."""
    module = copy.deepcopy(module)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in module.parameters():
            p *= 1 + torch.finfo(torch.float32).eps * torch.randn(p.shape, generator=generator)
    return module


def write(model, folder):
    """Writes `model` into folder/model.name; returns a line about it."""
    folder = pathlib.Path(folder) / model.name
    folder.mkdir(parents=True, exist_ok=True)
    module = scatter_weights(model.module.train(model.training))
    module = module if model.kind == torch.float32 else module.to(model.kind)
    examples = tuple(v.to(model.kind) if v.is_floating_point() else v for v in model.inputs.values())
    proto = export(module, examples, folder / "model.onnx", dynamic_shapes=model.dims, input_names=list(model.inputs), output_names=model.outputs, opset=model.opset)
    match = check(module, proto, examples)
    module = wide_module(module)
    outputs, loss, grads = gradients(model, module)
    _, loss64, grads64 = gradients(model, module, double=True)
    losses = curve(model, module)

    top = max(float(g.norm()) for g in grads64.values())
    vanishing = sorted(n for n, g in grads64.items() if float(g.norm()) < VANISHING * top)
    errors = {n: float((grads[n].double() - g).norm() / g.norm()) for n, g in grads64.items() if n not in vanishing}
    worst = max(errors, key=errors.get)
    inexact = {n: float((grads[n].double() - g).norm()) for n, g in grads64.items() if n in vanishing or errors[n] > INEXACT}
    held = {t.name for t in proto.graph.initializer}
    assert set(grads) <= held, f"trains but is not in the graph: {sorted(set(grads) - held)}"

    tensors = {f"in.{k}": v for k, v in {**model.inputs, **model.targets}.items()}
    tensors |= {f"out.{k}": v for k, v in outputs.items()} | {f"grad.{k}": v for k, v in grads.items()}
    tensors |= {"loss": loss, "curve": torch.tensor(losses)}
    save_file({k: v.detach().contiguous().numpy() for k, v in tensors.items()}, folder / "golden.safetensors")

    facts = {
        "name": model.name,
        "source": model.source,
        "opset": {"ai.onnx": model.opset},
        "exporter": f"torch {torch.__version__.split('+')[0]}, models/export",
        "loss": model.loss,
        "loss_value": loss.item(),
        "curve": losses,
        "optimizer": {"kind": "AdamW", **ADAMW, "steps": STEPS},
        "n_params": parameter_count(proto),
        "trainable": sorted(grads),
        "without_gradient": sorted(n for n, _ in module.named_parameters() if n not in grads),
        "graphs": {"model": _graph_facts(proto, match)},
        "fp32_vs_fp64": {
            "loss_rel": abs(loss.item() - loss64.item()) / abs(loss64.item()),
            "worst_grad_rel_l2": errors[worst],
            "worst_grad": worst,
            "vanishing_grads": vanishing,
            "inexact_grads": inexact,
        },
        "notes": model.notes,
    }
    (folder / "golden.json").write_text(json.dumps(facts, indent=1) + "\n")
    (folder / "recipe.json").write_text(recipe_text(model))
    size = sum(f.stat().st_size for f in folder.iterdir())
    return f"{model.name:18} {facts['n_params']:8,} parameters {len(proto.graph.node):5} nodes {size:9,} bytes, fp32 to fp64 {errors[worst]:.1e}, loss {losses[0]:.3f} -> {losses[-1]:.3f}"


def _graph_facts(proto, match):
    def describe(v):
        t = v.type.tensor_type
        return {"name": v.name, "dtype": {1: "float", 7: "int64", 9: "bool", 10: "float16", 16: "bfloat16"}[t.elem_type], "shape": [d.dim_param or d.dim_value for d in t.shape.dim]}

    return {
        "file": "model.onnx",
        "inputs": [describe(v) for v in proto.graph.input],
        "outputs": [describe(v) for v in proto.graph.output],
        "nodes": len(proto.graph.node),
        "ops": op_counts(proto),
        "match": match,
    }


def recipe_text(model):
    """A recipe that trains the one graph on whole golden batches."""
    names = {d for axes in model.dims.values() for d in axes.values()}
    loss = {"name": "loss"} | {k: f"model.{v}" if k in ("logits", "output") else v for k, v in model.loss.items()} | {"weight": 1}
    batch = len(next(iter(model.inputs.values())))
    parts = [
        '  "modules": {"model": {"onnx": "model.onnx"}}',
        f'  "dims": {json.dumps({d: model.bound.get(d, "sample") for d in sorted(names)})}',
        f'  "losses": [\n    {json.dumps(loss)}\n  ]',
        f'  "optimizer": {json.dumps({"kind": "adamw", **ADAMW})}',
        f'  "batch": {json.dumps({"global": batch, "micro": batch})}',
        '  "seed": 0',
    ]
    return "{\n" + ",\n".join(parts) + "\n}\n"
