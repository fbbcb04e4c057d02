# ===- lora.py - adapters train as PyTorch's do ------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A small decoder with weights in both orientations, with and without biases, and
# LoRA written by hand (PEFT's formula) in float64. Programs begin with adapters that are
# not zero, so that every gradient says something from the first step on. Ten steps on
# one rank and under tensor, pipeline and data parallelism with ZeRO must have PyTorch's
# losses within what float32 roundings do to them here, and leave the frozen weights as they are.
# ===-----------------------------------------------------------------------===
"""lora.py --dt-opt PATH: trains adapters under several plans and compares with PyTorch."""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from safetensors.numpy import load_file, save_file
from torch import nn
from torch.nn import functional

import tolerance
from train_model import QUICK, build, emit, prebuilt

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "models"))
from export import export  # noqa: E402

WORDS, WIDTH, HEADS, LENGTH, SAMPLES, STEPS = 97, 64, 4, 16, 8, 10
RANK, ALPHA = 8, 16
PATTERNS = ["*.q.*", "*.v.weight", "*.o.*", "*.down", "head.*"]  # the head is padded where it is cut
BESIDE = "norm.weight"  # trains beside
OPTIMIZER = {"lr": 1e-2, "betas": [0.9, 0.99], "eps": 1e-8, "weight_decay": 0.01}
CLIP = 1.0
PLANS = {
    "one": ("", "f32"),
    "tp2": ("model:tp=2", "f32"),
    "tp2-rows": ("model:tp=2,sequence_parallel=true", "f32"),
    "pp2": ("model:pp=2;microbatches=4", "f32"),
    "dp2-zero": ("model:dp=2,zero=1", "f32"),
    "tp2-dp2-pp2": ("model:tp=2,dp=2,pp=2,zero=1;microbatches=2", "f32"),
    "bf16-one": ("", "bf16"),
    "bf16-tp2-dp2": ("model:tp=2,dp=2,zero=1", "bf16"),
}


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.o = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH)
        self.up = nn.Linear(WIDTH, 2 * WIDTH)
        self.down, self.bias = nn.Parameter(0.1 * torch.randn(2 * WIDTH, WIDTH)), nn.Parameter(torch.zeros(WIDTH))  # [in, out]

    def forward(self, x, beside):
        split = lambda t: t.unflatten(-1, (HEADS, -1)).transpose(1, 2)
        h = self.first(x)
        q, k, v = (split(getattr(self, n)(h) + beside(h, f"{n}")) for n in "qkv")
        h = functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + self.o(h) + beside(h, "o")
        h = functional.gelu(self.up(self.second(x)))
        return x + h @ self.down + self.bias + beside(h, "down")


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Parameter(0.1 * torch.randn(LENGTH, WIDTH))
        self.blocks = nn.ModuleList([Block(), Block()])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
        self.adapters = {}

    def forward(self, ids):
        x = self.embed(ids) + self.places
        for i, block in enumerate(self.blocks):
            x = block(x, lambda h, name: self.beside(h, f"blocks.{i}.{name}"))
        x = self.norm(x)
        return self.head(x) + self.beside(x, "head")

    def beside(self, x, name):
        a, b = (self.adapters.get(f"{name}.lora_{part}.weight") for part in "AB")
        return 0.0 if a is None else ALPHA / RANK * functional.linear(functional.linear(x, a), b)


def make_adapters(net):
    """A as PEFT begins; B not at 0, where A would have no gradient."""
    sizes = {f"blocks.{i}.{name}": (WIDTH, WIDTH) for i in range(len(net.blocks)) for name in "qvo"}
    sizes |= {f"blocks.{i}.down": (2 * WIDTH, WIDTH) for i in range(len(net.blocks))} | {"head": (WIDTH, WORDS)}
    made = {}
    for name, (fan_in, fan_out) in sizes.items():
        made[f"{name}.lora_A.weight"] = nn.init.kaiming_uniform_(torch.empty(RANK, fan_in), a=math.sqrt(5))
        made[f"{name}.lora_B.weight"] = 0.05 * torch.randn(fan_out, RANK)
    return {name: value.numpy() for name, value in made.items()}


def loop(weights, ids, labels, kind):
    """(losses before each step, trained tensors afterwards, the largest logit)."""
    net = Decoder()
    net.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items() if ".lora_" not in name})
    net = net.to(kind).requires_grad_(False)
    net.adapters = {name: torch.from_numpy(value).to(kind).requires_grad_() for name, value in weights.items() if ".lora_" in name}
    trained = net.adapters | {BESIDE: net.norm.weight.requires_grad_()}
    optimizer, losses, terms = torch.optim.AdamW(trained.values(), **OPTIMIZER), [], 0.0
    for _ in range(STEPS):
        optimizer.zero_grad()
        logits = net(torch.from_numpy(ids))
        loss = functional.cross_entropy(logits.flatten(0, 1), torch.from_numpy(labels).flatten())
        losses, terms = [*losses, loss.item()], max(terms, logits.abs().max().item())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained.values(), CLIP)
        optimizer.step()
    return np.array(losses), {name: value.detach().numpy() for name, value in trained.items()}, terms


def run(command, cwd):
    done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True, timeout=600)
    if done.returncode:
        sys.exit(f"{command[0]} ended with {done.returncode}:\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
    return done.stdout + done.stderr


def expect(good, what):
    if not good:
        sys.exit(what)


def make_recipe(work, precision):
    recipe = {
        "modules": {"model": {"onnx": "model.onnx", "lora": {"pattern": PATTERNS, "rank": RANK, "alpha": ALPHA}, "trainable": [BESIDE]}},
        "dims": {"batch": "sample"},
        "losses": [{"kind": "cross_entropy", "logits": "model.logits"}],
        "optimizer": {"kind": "adamw", "clip": CLIP, **OPTIMIZER},
        "batch": {"global": SAMPLES},
        "precision": precision,
    }
    (work / "recipe.json").write_text(json.dumps(recipe))


def train(dt_opt, work, name, plan):
    """(losses, what is exported) of a program; checks what no plan may change."""
    ranks = math.prod(int(part.split("=")[1]) for part in plan.split(";")[0].split(":")[-1].split(",") if part[:2] in ("tp", "dp", "pp"))
    out = work / name
    done = emit(dt_opt, work / "recipe.json", out, "cpu", *([f"--plan={plan}"] if plan else []))
    expect(done.returncode == 0, f"{name}: {done.stderr[-2000:]}")
    build(out, os.environ.get("CCACHE_DIR"), prebuilt(dt_opt), QUICK)
    launch = ["--ranks", ranks] if ranks > 1 else []
    command = [out / "build/train", "--batch", work / "batch.safetensors", "--threads", 1, "--steps", STEPS, "--metrics", out / "metrics.jsonl", "--export", out / "export"]
    said = run([*command, "--init-from", work / "base.safetensors", "--init-from", work / "adapter.safetensors", *launch], out)
    expect("parameters from base.safetensors" in said.replace(str(work) + "/", ""), f"{name}: {said}")
    losses = [json.loads(line)["loss"] for line in (out / "metrics.jsonl").read_text().splitlines()]
    graph = onnx.load(out / "export/model.onnx").graph
    return np.array(losses), {t.name: numpy_helper.to_array(t) for t in graph.initializer}, load_file(out / "export/adapters.safetensors")


def check(dt_opt, work):
    torch.manual_seed(5)
    random = np.random.default_rng(5)
    net = Decoder().eval()
    export(net, (torch.zeros(2, LENGTH, dtype=torch.long),), work / "model.onnx", dynamic_shapes={"ids": {0: "batch"}}, input_names=["ids"], output_names=["logits"])
    base = {name: value.numpy() for name, value in net.state_dict().items()}
    adapters = make_adapters(net)
    ids, labels = random.integers(0, WORDS, (2, SAMPLES, LENGTH))
    save_file(base, work / "base.safetensors")
    # As PEFT's files have them.
    save_file({f"base_model.model.{name}": value for name, value in adapters.items()}, work / "adapter.safetensors")
    save_file({"model.ids": ids, "labels": labels}, work / "batch.safetensors")

    weights = base | adapters
    want, trained, terms = loop(weights, ids, labels, torch.float64)
    drawn = {p: [loop(tolerance.perturbed(weights, p, seed), ids, labels, torch.float32) for seed in range(tolerance.DRAWS)] for p in ("f32", "bf16")}
    for name, (plan, precision) in PLANS.items():
        make_recipe(work, precision)
        losses, graph, made = train(dt_opt, work, name, plan)
        draws = tolerance.CurveDraws(want, [losses for losses, _, _ in drawn[precision]])
        worst, where = tolerance.compare_curves(losses, want, terms, draws)
        expect(worst <= 1, f"{name}: losses {losses.tolist()}, expected {want.tolist()}: step {where} is {worst:.1f} limits off")
        changed = sorted(n for n in base if not is_kept(graph[n], base[n], precision))
        expect(changed == [BESIDE], f"{name}: {changed} have changed")
        expect(set(made) == {f"model.{n}" for n in adapters}, f"{name}: adapters are {sorted(made)}")
        apart = 0.0
        for n, value in trained.items():
            limit = tolerance.FACTOR * max(tolerance.norm(t[n].astype(np.float64) - value) for _, t, _ in drawn[precision])
            apart = max(apart, tolerance.norm((made[f"model.{n}"] if n != BESIDE else graph[n]).astype(np.float64) - value) / limit)
        expect(apart <= 1, f"{name}: trained weights are {apart:.1f} limits off")
        far = np.max(np.abs(losses - want) / want)
        print(f"{name}: losses {worst:.2f} of their limits, at most {far:.1e} from PyTorch's; weights {apart:.2f}", flush=True)


def is_kept(have, before, precision):
    """A frozen weight that products read in bf16 is stored so."""
    narrow = torch.from_numpy(before.copy()).bfloat16().float().numpy()
    return np.array_equal(have, before) or (precision == "bf16" and np.array_equal(have, narrow))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dt-opt", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as work:
        check(arguments.dt_opt.resolve(), pathlib.Path(work))


if __name__ == "__main__":
    main()
