# ===- expert_capacity.py - a capacity of experts, against PyTorch ------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# transformers' Qwen3-MoE, tiny, on samples of one size and on packed ones. The loop in
# float64 has one sample at a time; behind each router it counts, token by token, how
# often an expert was chosen, and sets the shares beyond the capacity to 0. Programs cut
# the batch into microbatches, replicas, stages and tokens, and share out experts. One
# sample has one word only, so that all its tokens choose the same experts. Weights are
# drawn until no choice of the loop is a close one: then what is dropped must be the
# loop's row by row, and the number that programs show is equal. Losses and gradients are
# PyTorch's within what roundings of float32 do to them. Choices are outputs, too, of which
# tools/dt-profile counts rows of experts.
# ===-----------------------------------------------------------------------===
"""expert_capacity.py --dt-opt PATH: trains with a capacity of experts under several plans and compares with PyTorch."""

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
from train_model import QUICK, SKIPPED, make

try:
    import torch
    import transformers as hf
except ImportError:
    print("skipped: expert_capacity: tools/setup --torch installs what this needs")
    sys.exit(SKIPPED)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "models"))
from export import Packed, export  # noqa: E402
from export.wrappers import Pick  # noqa: E402

EXPERTS, EACH, WORDS, SEQ, SAMPLES, STEPS, CAPACITY, IGNORED = 8, 2, 96, 16, 8, 3, 1.25, -100
OPTIMIZER = {"lr": 3e-3, "betas": [0.9, 0.99], "eps": 1e-8, "weight_decay": 0.01}
CLOSE = 1e-4  # probabilities of float32 and float64 differ by far less after a few steps
PLANS = {
    "one": "",
    "dp2": "model:dp=2,zero=1;microbatches=2",
    "tp2-ep2": "model:tp=2,ep=2,sequence_parallel=true",
    "tp2-cp2-ep4": "model:tp=2,cp=2,ep=4",
    "cp2": "model:cp=2,save=none",
    "dp2-ep2": "model:dp=2,ep=2;microbatches=2",
    "tp2-dp2-ep4": "model:tp=2,dp=2,ep=4,sequence_parallel=true",
    "pp2": "model:pp=2;microbatches=4;schedule=zb-h1",
}
PACKED = {"packed": "", "packed-cp2-ep2": "model:cp=2,ep=2;microbatches=2"}
TRAVELS = ["tp2-dp2-ep4"]  # in these, rows travel to the ranks of their experts
DOUBLE = ["tp2-dp2-ep4", "packed"]  # these as CUDA programs, on its double


def network():
    config = hf.Qwen3MoeConfig(
        vocab_size=WORDS, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8, max_position_embeddings=64,
        num_experts=EXPERTS, num_experts_per_tok=EACH, moe_intermediate_size=24, norm_topk_prob=True)
    net = hf.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
    net.set_experts_implementation("eager")  # the library's plain loop, also in float64
    return net.eval()


def routers(net):
    return [layer.mlp.gate for layer in net.model.layers]


class Limit:
    """Behind the routers of a network: the capacity of one sample. Counts what it drops; how close the closest choice was; what each router chose."""

    def __init__(self, net):
        self.dropped, self.closest = 0, math.inf
        self.chosen = {router: [] for router in routers(net)}
        for router in self.chosen:
            router.register_forward_hook(self.apply)

    def apply(self, router, inputs, outputs):
        scores, shares, chosen = outputs
        self.chosen[router].append(chosen.numpy())
        top = scores.detach().softmax(-1).topk(EACH + 1, dim=-1).values
        self.closest = min(self.closest, (top[:, -2] - top[:, -1]).min().item())
        most, taken, keep = math.ceil(CAPACITY * chosen.numel() / EXPERTS), [0] * EXPERTS, torch.ones_like(shares)
        for token, experts in enumerate(chosen.tolist()):
            for place, expert in enumerate(experts):
                taken[expert] += 1
                if taken[expert] > most:
                    keep[token, place] = 0
        self.dropped += int((keep == 0).sum())
        return scores, shares * keep, chosen


def loop(weights, samples, kind):
    """(gradients of the first step, losses before each step, rows dropped in each, choices of the first step, the largest output, the closest choice)."""
    net = network().to(kind)
    net.load_state_dict({name: torch.from_numpy(value).to(kind) for name, value in weights.items()})
    limit, optimizer = Limit(net), torch.optim.AdamW(net.parameters(), **OPTIMIZER)
    learned = sum(int((labels != IGNORED).sum()) for _, labels in samples)
    gradients, losses, dropped, terms = None, [], [], 0.0
    for _ in range(STEPS):
        optimizer.zero_grad()
        limit.dropped, total = 0, 0.0
        for ids, labels in samples:
            logits = net(input_ids=torch.from_numpy(ids)[None], use_cache=False).logits[0]
            loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels), ignore_index=IGNORED, reduction="sum") / learned
            loss.backward()
            total, terms = total + loss.item(), max(terms, logits.abs().max().item())
        losses, dropped = [*losses, total], [*dropped, limit.dropped]
        gradients = gradients or {f"model.net.{name}": p.grad.numpy().copy() for name, p in net.named_parameters()}
        optimizer.step()
    chosen = [np.concatenate(all_steps[: len(samples)]) for all_steps in limit.chosen.values()]
    return gradients, np.array(losses), dropped, chosen, terms, limit.closest


def draw_samples(lengths, random):
    samples = [(random.integers(3, WORDS, n), random.integers(3, WORDS, n)) for n in lengths]
    samples[0][0][:] = samples[0][0][0]  # one word only: all tokens choose the same experts
    samples[1][1][: lengths[1] // 2] = IGNORED
    return samples


def draw(samples):
    """A network of which no choice is a close one, and what it gives."""
    for seed in range(100):
        torch.manual_seed(seed)
        net = network()
        with torch.no_grad():
            for router in routers(net):
                router.weight *= 20  # as far apart as those of a trained one
        weights = {name: value.numpy().copy() for name, value in net.state_dict().items()}
        want = loop(weights, samples, torch.float64)
        if want[-1] > CLOSE:
            return net, weights, want
    sys.exit("all weights that were drawn have close choices")


def write(work, net, samples, packed):
    """Graph, recipe and batch."""
    recipe = {
        "modules": {"model": {"onnx": "model.onnx", "experts": {"capacity": CAPACITY, "choices": True}}},
        "losses": [{"name": "text", "kind": "cross_entropy", "logits": "model.logits", "labels": "labels", "ignore_index": IGNORED}],
        "optimizer": {"kind": "adamw", **OPTIMIZER},
        "batch": {"global": SAMPLES},
    }
    ids, labels = zip(*samples)
    if packed:
        lengths = [len(x) for x in ids]
        recipe |= {"items": {"sample": {"measures": {"tokens": {"max": max(lengths)}}}}, "dims": {"seq": "sample.tokens"}}
        recipe["batch"]["tokens"] = sum(lengths)
        places, numbers = (np.concatenate(v)[None] for v in ([np.arange(n) for n in lengths], [np.full(n, i) for i, n in enumerate(lengths)]))
        batch = {"input_ids": np.concatenate(ids)[None], "position_ids": places, "segments": numbers}
        wrapped, names = Packed(net), ["input_ids", "position_ids", "segments"]
        shown, dims = tuple(torch.from_numpy(batch[name]) for name in names), {1: "seq"}
        batch = {f"model.{name}": value for name, value in batch.items()} | {"labels": np.concatenate(labels)[None], "offsets.sample.tokens": np.cumsum([0, *lengths])}
    else:
        recipe["dims"] = {"batch": "sample"}
        batch = {"model.input_ids": np.stack(ids), "labels": np.stack(labels)}
        wrapped, names = Pick(net, ["input_ids"], "logits", use_cache=False), ["input_ids"]
        shown, dims = (torch.from_numpy(batch["model.input_ids"][:3]),), {0: "batch"}
    export(wrapped.eval(), shown, work / "model.onnx", dynamic_shapes={name: dims for name in names}, input_names=names, output_names=["logits"])
    save_file({name: np.ascontiguousarray(value) for name, value in batch.items()}, work / "batch.safetensors")
    (work / "recipe.json").write_text(json.dumps(recipe))


def run(command, cwd):
    done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True, timeout=600)
    if done.returncode:
        sys.exit(f"{command[0]} ended with {done.returncode}:\n{done.stdout[-1000:]}{done.stderr[-2000:]}")


def train(dt_opt, work, name, plan, double):
    """Metrics of the steps, gradients and outputs of the first."""
    out, gradients, outputs = work / name, work / f"{name}.safetensors", work / f"{name}-outputs.safetensors"
    make(dt_opt, work / "recipe.json", out, "cuda" if double else "cpu", double, [f"--plan={plan}"] if plan else [], QUICK)
    ranks = math.prod(int(s.split("=")[1]) for s in plan.split(";")[0].split(":")[-1].split(",") if s[:2] in ("tp", "cp", "dp", "pp"))
    command = [out / "build/train", "--batch", work / "batch.safetensors", "--threads", 1, "--steps", STEPS, "--metrics", out / "metrics.jsonl", "--save-gradients", gradients, "--save-outputs", outputs]
    run([*command, *(["--ranks", ranks] if ranks > 1 else [])], out)
    if name in TRAVELS and "AllToAll" not in "".join(path.read_text() for path in out.glob("*.c*")):
        sys.exit(f"{name}: no rows travel")
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()], load_file(gradients), load_file(outputs)


def judge(name, lines, gradients, outputs, want, draws):
    want_gradients, want_losses, dropped, chosen, terms, _ = want
    losses = [line["loss"] for line in lines]
    gradient, where, curve, step = tolerance.compare_drawn(gradients, losses, want_gradients, want_losses, terms, draws)
    shown = [line["loss.model.dropped"] for line in lines]
    print(f"{name}: of the limits: gradients {gradient:.2f} ({where}) losses {curve:.2f} (step {step}), dropped {shown}", flush=True)
    if shown != dropped or not max(gradient, curve) <= 1:
        sys.exit(f"{name}: losses {losses}, expected {want_losses.tolist()}; dropped {shown}, expected {dropped}")
    for layer, ids in enumerate(chosen):
        have = outputs[f"model.choices.{layer}.of.{EXPERTS}"]
        if not np.array_equal(have.reshape(ids.shape), ids):
            sys.exit(f"{name}: layer {layer} chose {have.tolist()}, expected {ids.tolist()}")


def profile(dt_opt, work, name, chosen):
    """Rows of experts for the planner."""
    made, tool = work / "profile.json", pathlib.Path(__file__).resolve().parents[2] / "tools/dt-profile"
    run([sys.executable, tool, "--routing", work / f"{name}-outputs.safetensors", "-o", made], work)
    counts = [np.bincount(ids.reshape(-1), minlength=EXPERTS).tolist() for ids in chosen]
    if json.loads(made.read_text()) != {"version": 1, "routing": {"model": counts}}:
        sys.exit(f"dt-profile made {made.read_text()}, expected {counts}")
    refused = subprocess.run([sys.executable, tool, "--routing", work / "batch.safetensors", "-o", work / "none.json"], capture_output=True, text=True)
    if refused.returncode != 1 or "batch.safetensors: no output MODULE.choices.LAYER.of.EXPERTS" not in refused.stderr:
        sys.exit(f"dt-profile of a batch: {refused.stderr}")
    run([dt_opt, work / "recipe.json", f"--profile={made}", "--plan=auto", "--cluster=h100-80g", "--devices=2", "--emit=plan", "-o", work / "plan"], work)


def check(dt_opt, work, lengths, plans, double, packed):
    work.mkdir()
    samples = draw_samples(lengths, np.random.default_rng(5))
    net, weights, want = draw(samples)
    most = math.ceil(CAPACITY * EACH * lengths[0] / EXPERTS)
    if not all(n >= 2 * EACH * (lengths[0] - most) for n in want[2][:1]):
        sys.exit(f"{want[2]} rows are dropped: the test shows little")
    write(work, net, samples, packed)
    drawn = [loop(tolerance.perturbed(weights, "f32", seed), samples, torch.float32)[:2] for seed in range(tolerance.DRAWS)]
    draws = tolerance.Draws(want[0], want[1], drawn)
    for name, plan in plans.items():
        if not double or name in DOUBLE:
            judge(name, *train(dt_opt, work, name, plan, double), want, draws)
    if not double and not packed:
        profile(dt_opt, work, next(iter(plans)), want[3])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dt-opt", required=True, type=pathlib.Path)
    parser.add_argument("--double", type=pathlib.Path, help="compile for CUDA, which this folder stands in for")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as work:
        check(arguments.dt_opt.resolve(), pathlib.Path(work) / "fixed", [SEQ] * SAMPLES, PLANS, arguments.double, False)
        check(arguments.dt_opt.resolve(), pathlib.Path(work) / "packed", [SEQ, 9, 1, 14, 2, SEQ, 5, 11], PACKED, arguments.double, True)


if __name__ == "__main__":
    main()
