# ===- router_losses.py - auxiliary losses of routers against PyTorch --------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Two layers of experts written by hand, whose scores are outputs. Load balance is
# transformers' function, over the whole batch in one process and in float64;
# programs cut the batch into microbatches, replicas and stages, and experts over
# ranks, and must have PyTorch's gradients and losses within what float32 roundings
# do to them. So must a run that goes on with its experts on other ranks.
# ===-----------------------------------------------------------------------===
"""router_losses.py --dt-opt PATH: trains with losses of routers under several plans and compares with PyTorch."""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from safetensors.numpy import load_file, save_file

import tolerance
from train_model import QUICK, SKIPPED, build, emit, prebuilt

try:
    import torch
    from torch import nn
    from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func
except ImportError:
    print("skipped: router_losses: tools/setup --torch installs what this needs")
    sys.exit(SKIPPED)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "models"))
from export import export  # noqa: E402

WIDTH, INNER, ROWS, EXPERTS, EACH, SAMPLES, STEPS = 16, 12, 8, 4, 2, 8, 5
OPTIMIZER = {"lr": 1e-2, "betas": [0.9, 0.99], "eps": 1e-8, "weight_decay": 0.01}
WEIGHTS = {"balance.0": 0.3, "balance.1": 0.2, "z": 0.05}
STOPPED = 2  # steps under one plan, before another one goes on
PLANS = {
    "one": "",
    "microbatches": "model:;microbatches=4",
    "dp2": "model:dp=2;microbatches=2",
    "ep2-dp2": "model:tp=2,ep=2,dp=2,zero=1;microbatches=2",
    "ep4": "model:tp=4,ep=4,sequence_parallel=true",
    "cp2-ep2": "model:cp=2,ep=2",
    "tp2-pp2": "model:tp=2,pp=2;microbatches=4",
}
GOES_ON = [("ep2-dp2", "one"), ("one", "ep4")]


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.up = nn.Parameter(torch.randn(EXPERTS, INNER, WIDTH) / WIDTH**0.5)
        self.down = nn.Parameter(torch.randn(EXPERTS, WIDTH, INNER) / INNER**0.5)

    def forward(self, x):
        scores = self.router(x)
        shares, ids = scores.softmax(-1).topk(EACH, dim=-1)
        ids, rows = ids.reshape(-1), x.reshape(-1, WIDTH).repeat_interleave(EACH, 0).unsqueeze(-1)
        y = torch.bmm(self.down[ids], nn.functional.silu(torch.bmm(self.up[ids], rows))).squeeze(-1) * shares.reshape(-1, 1)
        return x + y.reshape(*x.shape[:-1], EACH, WIDTH).sum(-2), scores


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Layer(), Layer()])
        self.head = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        x, first = self.layers[0](x)
        x, second = self.layers[1](x)
        return self.head(x), first, second


def loop(weights, batch, kind):
    """(gradients of the first step, losses before each step, the largest output)."""
    net = Net().to(kind)
    net.load_state_dict({name: torch.from_numpy(value).to(kind) for name, value in weights.items()})
    x, target = (torch.from_numpy(batch[name]).to(kind) for name in ("model.x", "target"))
    optimizer, gradients, losses, terms = torch.optim.AdamW(net.parameters(), **OPTIMIZER), None, [], 0.0
    for _ in range(STEPS):
        optimizer.zero_grad()
        y, *scores = net(x)
        loss = nn.functional.mse_loss(y, target)
        for i, one in enumerate(scores):
            loss = loss + WEIGHTS[f"balance.{i}"] * load_balancing_loss_func((one.flatten(0, 1),), EXPERTS, EACH)
        loss = loss + WEIGHTS["z"] * scores[1].logsumexp(-1).square().mean()
        losses, terms = [*losses, loss.item()], max(terms, *(v.abs().max().item() for v in (y, *scores)))
        loss.backward()
        if gradients is None:
            gradients = {name: p.grad.numpy().copy() for name, p in net.named_parameters()}
        optimizer.step()
    return gradients, np.array(losses), terms


def make_recipe(work):
    losses = [{"name": "mse", "kind": "mse", "output": "model.y"}, {"name": "z", "kind": "router_z", "logits": "model.scores1", "weight": WEIGHTS["z"]}]
    losses += [{"name": f"balance{i}", "kind": "load_balance", "logits": f"model.scores{i}", "experts_per_token": EACH, "weight": WEIGHTS[f"balance.{i}"]} for i in range(2)]
    losses += [{"name": "shown", "kind": "load_balance", "logits": "model.scores0", "experts_per_token": EACH, "weight": 0}]
    recipe = {"modules": {"model": {"onnx": "model.onnx"}}, "dims": {"batch": "sample"}, "losses": losses, "optimizer": {"kind": "adamw", **OPTIMIZER}, "batch": {"global": SAMPLES}}
    (work / "recipe.json").write_text(json.dumps(recipe))


def run(command, cwd):
    done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True, timeout=600)
    if done.returncode:
        sys.exit(f"{command[0]} ended with {done.returncode}:\n{done.stdout[-1000:]}{done.stderr[-2000:]}")


class Program:
    def __init__(self, dt_opt, work, name, plan):
        self.work, self.out = work, work / name
        self.ranks = math.prod(int(s.split("=")[1]) for s in plan.split(";")[0].split(":")[-1].split(",") if s[:2] in ("tp", "cp", "dp", "pp"))
        done = emit(dt_opt, work / "recipe.json", self.out, "cpu", *([f"--plan={plan}"] if plan else []))
        if done.returncode:
            sys.exit(f"{name}: {done.stderr[-2000:]}")
        build(self.out, os.environ.get("CCACHE_DIR"), prebuilt(dt_opt), QUICK)

    def train(self, steps, *flags):
        """Losses of the steps that it makes."""
        (self.out / "metrics.jsonl").unlink(missing_ok=True)
        command = [self.out / "build/train", "--batch", self.work / "batch.safetensors", "--threads", 1, "--steps", steps, "--metrics", self.out / "metrics.jsonl"]
        run([*command, *(["--ranks", self.ranks] if self.ranks > 1 else []), *flags], self.out)
        lines = [json.loads(line) for line in (self.out / "metrics.jsonl").read_text().splitlines()]
        for line in lines:  # one trains, the other is only shown
            if line["loss.shown"] != line["loss.balance0"]:
                sys.exit(f"{self.out.name}: a loss of weight 0 is {line['loss.shown']}, the same with a weight {line['loss.balance0']}")
        return np.array([line["loss"] for line in lines])

    def gradients(self):
        return {key.removeprefix("model."): value for key, value in load_file(self.out / "gradients.safetensors").items()}


def check(dt_opt, work):
    torch.manual_seed(3)
    net = Net().eval()
    names = ["y", "scores0", "scores1"]
    export(net, (torch.randn(2, ROWS, WIDTH),), work / "model.onnx", dynamic_shapes={"x": {0: "batch"}}, input_names=["x"], output_names=names)
    make_recipe(work)
    random = np.random.default_rng(3)
    batch = {name: random.standard_normal((SAMPLES, ROWS, WIDTH)).astype(np.float32) for name in ("model.x", "target")}
    save_file(batch, work / "batch.safetensors")
    weights = {name: value.numpy() for name, value in net.state_dict().items()}
    want_gradients, want_losses, terms = loop(weights, batch, torch.float64)
    drawn = [loop(tolerance.perturbed(weights, "f32", seed), tolerance.perturbed(batch, "f32", seed), torch.float32)[:2] for seed in range(tolerance.DRAWS)]
    draws = tolerance.Draws(want_gradients, want_losses, drawn)
    programs = {name: Program(dt_opt, work, name, plan) for name, plan in PLANS.items()}
    for name, program in programs.items():
        losses = program.train(STEPS, "--save-gradients", program.out / "gradients.safetensors")
        judge(name, tolerance.compare_drawn(program.gradients(), losses, want_gradients, want_losses, terms, draws), losses, want_losses)
    for first, then in GOES_ON:
        checkpoint = work / f"{first}-{then}"
        programs[first].train(STOPPED, "--checkpoint", checkpoint)
        losses = programs[then].train(STEPS, "--checkpoint", checkpoint, "--resume")
        if len(losses) != STEPS - STOPPED:
            sys.exit(f"{first}, then {then}: made {len(losses)} steps")
        curve = tolerance.compare_curves([*want_losses[:STOPPED], *losses], want_losses, terms, draws)
        judge(f"{first}, then {then}", (0.0, "", *curve), losses, want_losses[STOPPED:])


def judge(name, units, losses, want):
    gradient, where, curve, step = units
    print(f"{name}: of the limits: gradients {gradient:.2f} ({where}) losses {curve:.2f} (step {step})", flush=True)
    if not max(gradient, curve) <= 1:
        sys.exit(f"{name}: losses {losses.tolist()}, expected {want.tolist()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dt-opt", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as work:
        check(arguments.dt_opt.resolve(), pathlib.Path(work))


if __name__ == "__main__":
    main()
