# ===- optimizers.py - Adafactor and Muon train as PyTorch's do --------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# The decoder of lora.py, all of which trains, by torch.optim.Adafactor, and by
# torch.optim.Muon of weights of products with torch.optim.AdamW of all else. Ten
# steps on one rank and under tensor, pipeline and data parallelism with ZeRO must have
# the losses, weights and state of PyTorch in float64 within what roundings do to PyTorch's own loop
# in float32 here. Muon's iterations are in bf16, so its loop in float64 has them in float64, and
# that in float32 shows what bf16 does. A loop with one setting changed must be outside of the limits.
# Runs go on under another plan; traffic and memory are those that the compiler expects.
# ===-----------------------------------------------------------------------===
"""optimizers.py --dt-opt PATH: trains with optimizers of matrices under several plans and compares with PyTorch."""

import argparse
import json
import math
import os
import pathlib
import sys
import tempfile
from unittest import mock

import numpy as np
from safetensors.numpy import load_file, save_file

import tolerance
from layouts import check_memory, check_traffic
from lora import LENGTH, WORDS, Decoder, expect, export, functional, run, torch  # which skips where there is no PyTorch
from train_model import QUICK, SKIPPED, build_for, emit

from finetune_optimizers import orthogonal

SAMPLES, STEPS, STOPPED = 8, 10, 4
CLIP = 1.0
BY_ELEMENT = "blocks.1.up.weight"  # a weight of a product that the recipe gives to AdamW
ADAFACTOR = {"lr": 0.02, "weight_decay": 0.1, "beta2_decay": -0.7, "eps": [1e-7, 2e-3], "d": 1.5}
MUON = {"lr": 0.02, "weight_decay": 0.1, "momentum": 0.9, "adjust_lr": "match_rms_adamw", "ns_steps": 4}
ADAMW = {"betas": [0.9, 0.99], "eps": 1e-8}
FACTOR = 0.5  # of AdamW's rate
PLANS = {
    "one": ("", "f32"),
    "dp2": ("model:dp=2", "f32"),
    "dp2-zero": ("model:dp=2,zero=1", "f32"),
    "tp2": ("model:tp=2", "f32"),
    "cp2-dp2": ("model:cp=2,dp=2,zero=1", "f32"),
    "tp2-dp2-pp2": ("model:tp=2,dp=2,pp=2,zero=1;microbatches=2", "f32"),
    "bf16-tp2-dp2": ("model:tp=2,dp=2,zero=1", "bf16"),
}
GOES_ON = {"tp2": "dp2-zero", "dp2-zero": "tp2-dp2-pp2", "cp2-dp2": "dp2-zero", "one": "cp2-dp2"}  # after STOPPED steps


def is_matrix(name):
    """To Muon: the weights of products, in both orientations, but the head."""
    return name.startswith("blocks.") and (name.endswith(("q.weight", "k.weight", "v.weight", "o.weight", "up.weight")) or name.endswith("down")) and name != BY_ELEMENT


class Adafactor:
    name, recipe, other = "adafactor", {"kind": "adafactor", **ADAFACTOR}, {"beta2_decay": -0.8}

    @staticmethod
    def make(parameters, **changes):
        return [torch.optim.Adafactor(parameters.values(), **(ADAFACTOR | changes))]

    @staticmethod
    def state(parameters, optimizers):
        """By the names of checkpoints, in their shapes."""
        made = {}
        for name, value in parameters.items():
            state = optimizers[0].state[value]
            for key in ("row_var", "col_var", "variance"):
                if key in state:
                    made[f"{key}.model.{name}"] = state[key].squeeze({"row_var": -1, "col_var": -2}[key]) if key != "variance" else state[key]
        return made


class Muon:
    name, other = "muon", {"nesterov": False}
    recipe = {"kind": "muon", **MUON, "adamw_lr_factor": FACTOR, "adamw": [f"model.{BY_ELEMENT}"], **ADAMW}

    @staticmethod
    def make(parameters, **changes):
        settings = MUON | changes
        matrices = [v for n, v in parameters.items() if is_matrix(n)]
        others = [v for n, v in parameters.items() if not is_matrix(n)]
        rate = settings.pop("adjust_lr")
        return [torch.optim.Muon(matrices, **settings, adjust_lr_fn=rate), torch.optim.AdamW(others, **ADAMW, lr=settings["lr"] * FACTOR, weight_decay=settings["weight_decay"])]

    @staticmethod
    def state(parameters, optimizers):
        made = {}
        for name, value in parameters.items():
            for key, tensor in optimizers[not is_matrix(name)].state[value].items():
                if key != "step":
                    made[f"{key}.model.{name}"] = tensor
        return made


def loop(kind, weights, ids, labels, dtype, narrow=False, **changes):
    """(losses before each step, weights and state afterwards, the largest logit). `narrow`: products in bf16."""
    net = Decoder()
    net.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    net = net.to(dtype)
    trained = dict(net.named_parameters())
    optimizers, losses, terms = kind.make(trained, **changes), [], 0.0
    exact = mock.patch("torch.optim._muon._zeropower_via_newtonschulz", orthogonal) if dtype == torch.float64 else mock.MagicMock()
    with exact:
        for _ in range(STEPS):
            net.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
                logits = net(torch.from_numpy(ids)).to(dtype)
            loss = functional.cross_entropy(logits.flatten(0, 1), torch.from_numpy(labels).flatten())
            losses, terms = [*losses, loss.item()], max(terms, logits.abs().max().item())
            loss.backward()
            torch.nn.utils.clip_grad_norm_(trained.values(), CLIP)
            for optimizer in optimizers:
                optimizer.step()
    tensors = {f"model.{name}": value.detach() for name, value in trained.items()} | kind.state(trained, optimizers)
    return np.array(losses), {name: value.numpy() for name, value in tensors.items()}, terms


class Program:
    def __init__(self, dt_opt, work, kind, name, plan, precision, double):
        self.work, self.double, self.out, self.dt_opt = work, double, work / f"{kind.name}-{name}", dt_opt
        sizes = plan.split(";")[0].split(":")[-1].split(",")
        self.ranks = math.prod(int(size.split("=")[1]) for size in sizes if size[:2] in ("tp", "cp", "dp", "pp"))
        self.recipe, self.flags = work / f"{kind.name}-{precision}.json", [f"--plan={plan}"] if plan else []
        recipe = {
            "modules": {"model": {"onnx": "model.onnx"}},
            "dims": {"batch": "sample"},
            "losses": [{"kind": "cross_entropy", "logits": "model.logits"}],
            "optimizer": {"clip": CLIP, **kind.recipe},
            "batch": {"global": SAMPLES},
            "precision": precision,
        }
        self.recipe.write_text(json.dumps(recipe))
        target = "cuda" if double else "cpu"
        done = emit(dt_opt, self.recipe, self.out, target, *self.flags)
        expect(done.returncode == 0, f"{name}: {done.stderr[-2000:]}")
        build_for(dt_opt, target, double, self.out, os.environ.get("CCACHE_DIR"), QUICK)

    def train(self, steps, folder, *flags):
        """(losses of the steps that it makes, tensors of its last checkpoint)."""
        (self.out / "metrics.jsonl").unlink(missing_ok=True)
        command = [self.out / "build/train", "--batch", self.work / "batch.safetensors", "--threads", 1, "--steps", steps, "--metrics", self.out / "metrics.jsonl"]
        command += ["--checkpoint", folder, "--traffic", self.out / "traffic.json", "--report", self.out / "report.json", *(["--ranks", self.ranks] if self.ranks > 1 else [])]
        run([*command, *(flags or ["--init-from", self.work / "base.safetensors"])], self.out)
        losses = [json.loads(line)["loss"] for line in (self.out / "metrics.jsonl").read_text().splitlines()]
        return np.array(losses), read_checkpoint(folder / f"step-{steps}")

    def check_figures(self):
        """Bytes sent and allocated are those that the compiler expects."""
        if self.ranks > 1:
            check_traffic(json.loads((self.out / "traffic.json").read_text()))
        if self.double:
            return
        run([self.dt_opt, self.recipe, *self.flags, "--emit=memory", "-o", self.out / "predicted.json"], self.out)
        check_memory(json.loads((self.out / "report.json").read_text()), json.loads((self.out / "predicted.json").read_text()))


def read_checkpoint(folder):
    """Whole tensors by name, from the pieces of all ranks."""
    tensors = {}
    for path in sorted(folder.glob("rank-*.safetensors")):
        with open(path, "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        notes = json.loads(header.get("__metadata__", {}).get("pieces", "{}"))
        for key, value in load_file(path).items():
            if key not in notes:
                tensors[key] = value
                continue
            note = notes[key]
            whole = tensors.setdefault(note["tensor"], np.full(note["whole"], np.nan, np.float32))
            places = np.full(note["padded"], -1)
            places[tuple(slice(n) for n in note["whole"])] = np.arange(whole.size).reshape(whole.shape)
            for dim, chunk, over, place in note["cuts"]:
                split = places.reshape(*places.shape[:dim], -1, over, chunk, *places.shape[dim + 1 :])
                places = np.take(split, place, axis=dim + 1).reshape(*places.shape[:dim], -1, *places.shape[dim + 1 :])
            where = places.reshape(-1)[slice(*note["flat"])]
            whole.reshape(-1)[where[where >= 0]] = value[where >= 0]
    return tensors


def worst_of(have, want, drawn):
    """(difference in units of its limit, its tensor)."""
    expect(set(have) == set(want), f"tensors: {sorted(set(have) ^ set(want))}")
    units = {}
    for name, value in want.items():
        expect(have[name].shape == value.shape, f"{name}: {have[name].shape}, expected {value.shape}")
        limit = tolerance.FACTOR * max(tolerance.norm(d[name].astype(np.float64) - value) for d in drawn)
        units[name] = tolerance.norm(have[name].astype(np.float64) - value) / limit
    worst = max(units, key=units.get)
    return units[worst], worst


def check(dt_opt, work, kind, base, ids, labels, plans, double):
    want, tensors, terms = loop(kind, base, ids, labels, torch.float64)
    drawn = {p: [loop(kind, tolerance.perturbed(base, p, seed), ids, labels, torch.float32, p == "bf16") for seed in range(tolerance.DRAWS)] for p in ("f32", "bf16")}

    def judge(name, precision, losses, have, first=0):
        draws = drawn[precision]
        curve, where = tolerance.compare_curves([*want[:first], *losses], want, terms, tolerance.CurveDraws(want, [d[0] for d in draws]))
        off, tensor = worst_of(have, tensors, [d[1] for d in draws])
        print(f"{kind.name}, {name}: of the limits: losses {curve:.2f}, tensors {off:.2f} ({tensor}); losses at most {np.max(np.abs(losses / want[first:] - 1)):.1e} from PyTorch's", flush=True)
        return curve <= 1 and off <= 1 and len(losses) == STEPS - first

    changed = loop(kind, base, ids, labels, torch.float32, **kind.other)
    expect(not judge(f"PyTorch with {kind.other}", "f32", *changed[:2]), "the limits let another setting pass")
    programs = {}
    for name, (plan, precision) in PLANS.items():
        if plans and name not in plans:
            continue
        program = programs[name] = Program(dt_opt, work, kind, name, plan, precision, double)
        losses, have = program.train(STEPS, program.out / "run")
        expect(judge(name, precision, losses, have), f"{kind.name}, {name}: losses {losses.tolist()}, expected {want.tolist()}")
        program.check_figures()
    for one, other in GOES_ON.items():
        if one in programs and other in programs:
            folder = work / f"{kind.name}-{one}-{other}"
            programs[one].train(STOPPED, folder)
            losses, have = programs[other].train(STEPS, folder, "--resume")
            expect(judge(f"{one}, then {other}", "f32", losses, have, STOPPED), f"{kind.name}: {one}, then {other}: losses {losses.tolist()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dt-opt", required=True, type=pathlib.Path)
    parser.add_argument("--kind", choices=["adafactor", "muon"], help="one of them")
    parser.add_argument("--plans", default="", help="some of them, with commas")
    parser.add_argument("--double", type=pathlib.Path, metavar="DIR", help="programs for CUDA, on a double of it")
    arguments = parser.parse_args()
    if not hasattr(torch.optim, "Muon"):
        print("skipped: optimizers: this PyTorch has no torch.optim.Muon")
        sys.exit(SKIPPED)
    torch.set_num_threads(1)
    torch.manual_seed(5)
    random = np.random.default_rng(5)
    net = Decoder().eval()
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        export(net, (torch.zeros(2, LENGTH, dtype=torch.long),), work / "model.onnx", dynamic_shapes={"ids": {0: "batch"}}, input_names=["ids"], output_names=["logits"])
        base = {name: value.numpy() for name, value in net.state_dict().items()}
        ids, labels = random.integers(0, WORDS, (2, SAMPLES, LENGTH))
        save_file(base, work / "base.safetensors")
        save_file({"model.ids": ids, "labels": labels}, work / "batch.safetensors")
        for kind in (Adafactor, Muon):
            if arguments.kind in (None, kind.name):
                check(arguments.dt_opt.resolve(), work, kind, base, ids, labels, list(filter(None, arguments.plans.split(","))), arguments.double)


if __name__ == "__main__":
    main()
