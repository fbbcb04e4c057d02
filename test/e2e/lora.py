# ===- lora.py - adapters train as PyTorch's do ------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A small decoder with weights in both orientations, with and without biases, and
# LoRA written by hand (PEFT's formula) in float64. Programs begin with adapters that are
# not zero, so that every gradient says something from the first step on. Ten steps on
# one rank and under tensor, pipeline and data parallelism with ZeRO must have PyTorch's
# losses within what float32 roundings do to them here, and leave the frozen weights as they are.
# So must averages of what trains (EMA), and a run that goes on under another plan.
# ===-----------------------------------------------------------------------===
"""lora.py --dt-opt PATH: trains adapters under several plans and compares with PyTorch."""

import argparse
import contextlib
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper
from safetensors.numpy import load_file, save_file

import tolerance
from train_model import QUICK, SKIPPED, build, emit, prebuilt

try:
    import torch
    from torch import nn
    from torch.nn import functional
except ImportError:
    print("skipped: lora: tools/setup --torch installs what this needs")
    sys.exit(SKIPPED)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "models"))
from export import export  # noqa: E402

WORDS, WIDTH, HEADS, LENGTH, SAMPLES, STEPS = 97, 64, 4, 16, 8, 10
RANK, ALPHA = 8, 16
PATTERNS = ["*.q.*", "*.v.weight", "*.o.*", "*.down", "head.*"]  # the head is padded where it is cut
BESIDE = "norm.weight"  # trains beside
OPTIMIZER = {"lr": 1e-2, "betas": [0.9, 0.99], "eps": 1e-8, "weight_decay": 0.01}
CLIP, DECAY = 1.0, 0.8
STOPPED = 4  # steps under one plan, before another one goes on
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


def loop(weights, ids, labels, kind, narrow=False):
    """(losses before each step, trained tensors afterwards, their averages, the largest logit). `narrow`: under autocast."""
    net = Decoder()
    net.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items() if ".lora_" not in name})
    net = net.to(kind).requires_grad_(False)
    net.adapters = {name: torch.from_numpy(value).to(kind).requires_grad_() for name, value in weights.items() if ".lora_" in name}
    trained = net.adapters | {BESIDE: net.norm.weight.requires_grad_()}
    averages = {name: value.detach().clone() for name, value in trained.items()}
    optimizer, losses, terms = torch.optim.AdamW(trained.values(), **OPTIMIZER), [], 0.0
    for _ in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16) if narrow else contextlib.nullcontext():
            logits = net(torch.from_numpy(ids)).to(kind)
        loss = functional.cross_entropy(logits.flatten(0, 1), torch.from_numpy(labels).flatten())
        losses, terms = [*losses, loss.item()], max(terms, logits.abs().max().item())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained.values(), CLIP)
        optimizer.step()
        for name, value in trained.items():
            averages[name] += (1 - DECAY) * (value.detach() - averages[name])
    return np.array(losses), {name: value.detach().numpy() for name, value in trained.items()}, {name: value.numpy() for name, value in averages.items()}, terms


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
        "ema": {"decay": DECAY},
    }
    (work / "recipe.json").write_text(json.dumps(recipe))


class Program:
    def __init__(self, dt_opt, work, name, plan, precision):
        self.work, self.name, self.precision, self.out = work, name, precision, work / name
        sizes = plan.split(";")[0].split(":")[-1].split(",")
        self.ranks = math.prod(int(size.split("=")[1]) for size in sizes if size[:2] in ("tp", "dp", "pp"))
        make_recipe(work, precision)
        done = emit(dt_opt, work / "recipe.json", self.out, "cpu", *([f"--plan={plan}"] if plan else []))
        expect(done.returncode == 0, f"{name}: {done.stderr[-2000:]}")
        build(self.out, os.environ.get("CCACHE_DIR"), prebuilt(dt_opt), QUICK)

    def train(self, steps, *flags):
        """Losses of the steps that it makes."""
        (self.out / "metrics.jsonl").unlink(missing_ok=True)
        command = [self.out / "build/train", "--batch", self.work / "batch.safetensors", "--threads", 1, "--steps", steps, "--metrics", self.out / "metrics.jsonl"]
        if "--resume" not in flags:
            command += ["--init-from", self.work / "base.safetensors", "--init-from", self.work / "adapter.safetensors"]
        command += ["--export", self.out / "export", "--export-ema", self.out / "averages", *(["--ranks", self.ranks] if self.ranks > 1 else [])]
        run([*command, *flags], self.out)
        return np.array([json.loads(line)["loss"] for line in (self.out / "metrics.jsonl").read_text().splitlines()])

    def exported(self, folder, base, adapters):
        """What trains, by the network's names; nothing else has changed."""
        graph = {t.name: numpy_helper.to_array(t) for t in onnx.load(self.out / folder / "model.onnx").graph.initializer}
        changed = sorted(n for n in base if not is_kept(graph[n], base[n], self.precision))
        expect(changed == [BESIDE], f"{self.name}: {changed} have changed")
        made = load_file(self.out / folder / "adapters.safetensors")
        expect(set(made) == {f"model.{n}" for n in adapters}, f"{self.name}: adapters are {sorted(made)}")
        return {n.removeprefix("model."): value for n, value in made.items()} | {BESIDE: graph[BESIDE]}


def compare(name, have, want, drawn):
    """The worst difference of tensors in units of its limit."""
    worst = 0.0
    for n, value in want.items():
        limit = tolerance.FACTOR * max(tolerance.norm(d[n].astype(np.float64) - value) for d in drawn)
        worst = max(worst, tolerance.norm(have[n].astype(np.float64) - value) / limit)
    expect(worst <= 1, f"{name}: {worst:.1f} limits off")
    return worst


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
    want, trained, averages, terms = loop(weights, ids, labels, torch.float64)
    drawn = {p: [loop(tolerance.perturbed(weights, p, seed), ids, labels, torch.float32, p == "bf16") for seed in range(tolerance.DRAWS)] for p in ("f32", "bf16")}
    programs = {}

    def judge(name, program, losses, first):
        draws = drawn[program.precision]
        curves = tolerance.CurveDraws(want, [d[0] for d in draws])
        curve, where = tolerance.compare_curves([*want[:first], *losses], want, terms, curves)
        expect(len(losses) == STEPS - first and curve <= 1, f"{name}: losses {losses.tolist()}, expected {want.tolist()}: step {where} is {curve:.1f} limits off")
        weight = compare(f"{name}: trained weights", program.exported("export", base, adapters), trained, [d[1] for d in draws])
        average = compare(f"{name}: averages", program.exported("averages", base, adapters), averages, [d[2] for d in draws])
        print(f"{name}: of the limits: losses {curve:.2f} weights {weight:.2f} averages {average:.2f}; losses at most {np.max(np.abs(losses / want[first:] - 1)):.1e} from PyTorch's", flush=True)

    for name, (plan, precision) in PLANS.items():
        program = programs[name] = Program(dt_opt, work, name, plan, precision)
        judge(name, program, program.train(STEPS), 0)
    programs["tp2"].train(STOPPED, "--checkpoint", work / "run")
    judge("tp2, then tp2-dp2-pp2", programs["tp2-dp2-pp2"], programs["tp2-dp2-pp2"].train(STEPS, "--checkpoint", work / "run", "--resume"), STOPPED)


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
