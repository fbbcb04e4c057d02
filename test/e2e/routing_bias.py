# ===- routing_bias.py - biases that even out experts' loads, against PyTorch -===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Two layers of attention and experts written by hand. Each router adds a bias to
# its scores to choose, and takes shares of the scores without it, as DeepSeek-V3
# does; after a step the bias moves by a rate against the sign of how often each
# expert was chosen in the global batch. The loop in float64 (biases in float32)
# sees the whole batch; programs cut it into microbatches, replicas and tokens, and
# share out experts. Weights are drawn until no choice of the loop is a close one.
# Then all choices are the loop's, so loads and biases must be equal bit by bit.
# ===-----------------------------------------------------------------------===
"""routing_bias.py --dt-opt PATH: trains routers with biases under several plans and compares with PyTorch."""

import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from safetensors.numpy import load_file, save_file

import tolerance
from train_model import QUICK, SKIPPED, emit, make

try:
    import torch
    from torch import nn
except ImportError:
    print("skipped: routing_bias: tools/setup --torch installs what this needs")
    sys.exit(SKIPPED)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "models"))
from export import export  # noqa: E402

from optimizers import read_checkpoint  # noqa: E402

WIDTH, HEADS, INNER, ROWS, EXPERTS, EACH, SAMPLES, STEPS = 16, 2, 12, 8, 4, 2, 8, 5
OPTIMIZER = {"lr": 1e-2, "betas": [0.9, 0.99], "eps": 1e-8, "weight_decay": 0.1}
CLIP, RATE = 0.2, 0.03
CLOSE = 3e-4  # float32 and float64 differ by far less after a few steps
STOPPED = 2  # steps under one plan, before another one goes on
PLANS = {
    "one": "",
    "dp2": "model:dp=2,zero=1;microbatches=2",
    "tp2": "model:tp=2,sequence_parallel=true",
    "ep2": "model:tp=2,ep=2,save=none;microbatches=2",
    "cp2-ep2-dp2": "model:cp=2,ep=2,dp=2,zero=1;microbatches=2",
    "tp2-dp2-ep4": "model:tp=2,dp=2,ep=4,zero=1;microbatches=2",
    "pp2": "model:pp=2;microbatches=4;schedule=zb-h1",
}
DOUBLE = ["one", "dp2"]  # these also as CUDA programs, on its double
GOES_ON = [("cp2-ep2-dp2", "ep2"), ("one", "tp2-dp2-ep4")]


class Layer(nn.Module):
    def __init__(self, fresh):
        """`fresh`: the bias is a buffer of zeros, as a new network of transformers has it."""
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        if fresh:
            self.register_buffer("bias", torch.zeros(EXPERTS))
        else:
            self.bias = nn.Parameter(torch.randn(EXPERTS) / 10, requires_grad=False)
        self.up = nn.Parameter(torch.randn(EXPERTS, INNER, WIDTH) / WIDTH**0.5)
        self.down = nn.Parameter(torch.randn(EXPERTS, WIDTH, INNER) / INNER**0.5)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        x = x + self.out(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        scores = self.router(x).sigmoid()
        choice = scores + self.bias
        ids = choice.topk(EACH, dim=-1).indices
        self.chosen, self.choice = ids, choice
        shares = scores.gather(-1, ids)
        shares = shares / shares.sum(-1, keepdim=True)
        ids, rows = ids.reshape(-1), x.reshape(-1, WIDTH).repeat_interleave(EACH, 0).unsqueeze(-1)
        y = torch.bmm(self.down[ids], nn.functional.silu(torch.bmm(self.up[ids], rows))).squeeze(-1) * shares.reshape(-1, 1)
        return x + y.reshape(*x.shape[:-1], EACH, WIDTH).sum(-2)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Layer(fresh) for fresh in (True, False)])
        self.head = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x), *(layer.choice.detach() for layer in self.layers)


def count(layer):
    """How far the experts' loads are from even ones, in whole numbers."""
    loads = torch.bincount(layer.chosen.reshape(-1), minlength=EXPERTS).numpy()
    return (EXPERTS * loads - loads.sum()).astype(np.float32)


def move(layer):
    """The update of DeepSeek-V3 (arXiv 2412.19437, section 2.1.2), in float32."""
    moved = layer.bias.detach().numpy().astype(np.float32) - np.float32(RATE) * np.sign(count(layer))
    layer.bias.data = torch.from_numpy(moved).to(layer.bias.dtype)


def closest(layer):
    """How far the last chosen score is from the first that was not."""
    top = layer.choice.detach().topk(EACH + 1, dim=-1).values
    return (top[..., -2] - top[..., -1]).min().item()


def loop(weights, batch, kind):
    """(losses before each step, weights afterwards, loads of each, the largest output, the closest choice)."""
    net = Net().to(kind)
    net.load_state_dict({name: torch.from_numpy(value).to(kind) for name, value in weights.items()})
    x, target = (torch.from_numpy(batch[name]).to(kind) for name in ("model.x", "target"))
    trained = [p for p in net.parameters() if p.requires_grad]
    optimizer, losses, loads, terms, close = torch.optim.AdamW(trained, **OPTIMIZER), [], [], 0.0, math.inf
    for _ in range(STEPS):
        optimizer.zero_grad()
        y = net(x)[0]
        loss = nn.functional.mse_loss(y, target)
        losses, terms = [*losses, loss.item()], max(terms, y.abs().max().item())
        close = min(close, *(closest(layer) for layer in net.layers))
        loads.append({f"layers.{i}.bias": count(layer) for i, layer in enumerate(net.layers)})
        loss.backward()
        nn.utils.clip_grad_norm_(trained, CLIP)
        optimizer.step()
        for layer in net.layers:
            move(layer)
    return np.array(losses), {name: value.detach().numpy().copy() for name, value in net.state_dict().items()}, loads, terms, close


def draw(batch):
    """Weights of which no choice is a close one."""
    for seed in range(100):
        torch.manual_seed(seed)
        net = Net().eval()
        weights = {name: value.numpy().copy() for name, value in net.state_dict().items()}
        want = loop(weights, batch, torch.float64)
        if want[-1] > CLOSE:
            return net, weights, want
    sys.exit("all weights that were drawn have close choices")


def run(command, cwd):
    done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True, timeout=600)
    if done.returncode:
        sys.exit(f"{command[0]} ended with {done.returncode}:\n{done.stdout[-1000:]}{done.stderr[-2000:]}")


class Program:
    def __init__(self, dt_opt, work, name, plan, double):
        self.work, self.out = work, work / name
        self.ranks = math.prod(int(s.split("=")[1]) for s in plan.split(";")[0].split(":")[-1].split(",") if s[:2] in ("tp", "cp", "dp", "pp"))
        make(dt_opt, work / "recipe.json", self.out, "cuda" if double else "cpu", double, [f"--plan={plan}"] if plan else [], QUICK)

    def train(self, steps, folder, *flags):
        """Metrics of the steps that it makes, tensors of its last checkpoint."""
        (self.out / "metrics.jsonl").unlink(missing_ok=True)
        command = [self.out / "build/train", "--batch", self.work / "batch.safetensors", "--threads", 1, "--steps", steps, "--metrics", self.out / "metrics.jsonl", "--checkpoint", folder]
        run([*command, *(["--ranks", self.ranks] if self.ranks > 1 else []), *flags], self.out)
        lines = [json.loads(line) for line in (self.out / "metrics.jsonl").read_text().splitlines()]
        return lines, read_checkpoint(folder / f"step-{steps}")


def judge(name, lines, tensors, want, draws, first=0):
    want_losses, want_tensors, loads, terms, _ = want
    losses = np.array([line["loss"] for line in lines])
    curve, step = tolerance.compare_curves([*want_losses[:first], *losses], want_losses, terms, draws)
    biases = [key for key in want_tensors if key.startswith("layers.") and key.endswith(".bias")]
    wrong = [key for key in biases if not np.array_equal(tensors[f"model.{key}"], want_tensors[key])]
    kept = [key for key in tensors if key.startswith("exp_avg") and key.endswith("layers.0.bias")]
    print(f"{name}: losses {curve:.2f} of the limit (step {step}), biases equal: {len(biases) - len(wrong)} of {len(biases)}", flush=True)
    for line, of_step in zip(lines, loads[first:]):
        for i, above in enumerate(of_step.values()):  # E * load - all choices
            most, all_choices = line[f"loss.load{i}"], SAMPLES * ROWS * EACH
            if abs(most - (1 + above.max() / all_choices)) > 8 * tolerance.EPS * most:
                sys.exit(f"{name}: the largest load of layer {i} is {most} of the mean, expected {1 + above.max() / all_choices}")
    for key in wrong:
        print(f"{key}: {tensors[f'model.{key}'].tolist()}, expected {want_tensors[key].tolist()}")
    if not curve <= 1 or wrong or kept or len(losses) != STEPS - first:
        sys.exit(f"{name}: losses {losses.tolist()}, expected {want_losses.tolist()}; state of biases: {kept}")


def compare_loads(name, path, want):
    """The first step's, as gradients."""
    have = load_file(path)
    for key, loads in want.items():
        if not np.array_equal(have[f"model.{key}"], loads):
            sys.exit(f"{name}: loads of {key} {have[f'model.{key}'].tolist()}, expected {loads.tolist()}")


def refused(dt_opt, work):
    """A pattern that matches no parameter, and one of a parameter that chooses nothing."""
    recipe = json.loads((work / "recipe.json").read_text())
    for match, said in (("model.layers.*.biases", "optimizer.routing_bias[0].match"), ("model.head.bias", "even out experts' loads")):
        recipe["optimizer"]["routing_bias"][0]["match"] = match
        (work / "wrong.json").write_text(json.dumps(recipe))
        done = emit(dt_opt, work / "wrong.json", work / "wrong", "cpu")
        if not done.returncode or said not in done.stderr:
            sys.exit(f"{match}: expected an error about {said}, not {done.stderr[-1000:]}")


def check(dt_opt, work, double):
    random = np.random.default_rng(3)
    batch = {name: random.standard_normal((SAMPLES, ROWS, WIDTH)).astype(np.float32) for name in ("model.x", "target")}
    save_file(batch, work / "batch.safetensors")
    net, weights, want = draw(batch)
    for key, loads in want[2][0].items():
        if not loads.any() or np.array_equal(want[1][key], weights[key]):
            sys.exit(f"{key} does not move: the test shows nothing")
    export(net, (torch.randn(2, ROWS, WIDTH),), work / "model.onnx", dynamic_shapes={"x": {0: "batch"}}, input_names=["x"], output_names=["y", *(f"choice{i}" for i in range(2))])
    losses = [{"name": "mse", "kind": "mse", "output": "model.y"}]
    losses += [{"name": f"load{i}", "kind": "max_load", "logits": f"model.choice{i}", "experts_per_token": EACH, "weight": 0} for i in range(2)]
    optimizer = {"kind": "adamw", **OPTIMIZER, "clip": CLIP, "routing_bias": [{"match": "model.layers.*.bias", "rate": RATE}]}
    recipe = {"modules": {"model": {"onnx": "model.onnx"}}, "dims": {"batch": "sample"}, "losses": losses, "optimizer": optimizer, "batch": {"global": SAMPLES}}
    (work / "recipe.json").write_text(json.dumps(recipe))
    refused(dt_opt, work)
    drawn = [loop(tolerance.perturbed(weights, "f32", seed), tolerance.perturbed(batch, "f32", seed), torch.float32)[0] for seed in range(tolerance.DRAWS)]
    draws = tolerance.CurveDraws(want[0], drawn)
    programs = {name: Program(dt_opt, work, name, PLANS[name], double) for name in (DOUBLE if double else PLANS)}
    for name, program in programs.items():
        gradients = program.out / "gradients.safetensors"
        judge(name, *program.train(STEPS, program.out / "run", "--save-gradients", gradients), want, draws)
        compare_loads(name, gradients, want[2][0])
    for first, then in [] if double else GOES_ON:
        folder = work / f"{first}-{then}"
        programs[first].train(STOPPED, folder)
        judge(f"{first}, then {then}", *programs[then].train(STEPS, folder, "--resume"), want, draws, STOPPED)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dt-opt", required=True, type=pathlib.Path)
    parser.add_argument("--double", type=pathlib.Path, help="compile for CUDA, which this folder stands in for")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as work:
        check(arguments.dt_opt.resolve(), pathlib.Path(work), arguments.double)


if __name__ == "__main__":
    main()
