# ===- gpu.py - training steps on a GPU beside PyTorch's -------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# In two halves, since compiler and GPU may be on two machines. --pack makes a folder
# with GPT-2 of several sizes and a mixture of experts (experts.py) as CUDA programs,
# and batches; without weights, for the programs draw them. Where the GPU is, the folder's programs and PyTorch take turns
# as in cpu.py; of this project only this folder of scripts is needed there.
# ===-----------------------------------------------------------------------===
"""gpu.py --pack OUT : emits programs and builds them (needs nvcc)    gpu.py OUT : measures them"""

import argparse
import json
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/benchmarks"))

import batches  # noqa: E402
from cpu import HEADER, Emitted, Torch, report, run, take_turns, write_recipe  # noqa: E402

ROUNDS = 2

# Layers, width, vocabulary: GPT-2's, and one that is a multiple of 64, with which all products have aligned rows.
SIZES = {"gpt2-124m": (12, 768, 50257), "gpt2-124m-even": (12, 768, 50304), "gpt2-355m-even": (24, 1024, 50304)}
SAMPLES, TOKENS = 8, 1024
EXPERTS = {"hidden": 1024, "layers": 4, "experts": 16, "chosen": 2, "tokens": TOKENS}
OPTIMIZER = {"kind": "adamw", "lr": 1e-4, "betas": [0.9, 0.95], "weight_decay": 0.01, "clip": 1}


def pack(out, settings):
    out.mkdir(parents=True, exist_ok=True)
    batches.write("gpt2", out / "batch.safetensors", samples=SAMPLES, tokens=TOKENS)
    for name, (layers, width, vocabulary) in SIZES.items():
        run([sys.executable, ROOT / "models/examples/gpt2/write_graph.py", out / name, "--layers", layers, "--width", width, "--vocabulary", vocabulary])
        recipe = out / name / "recipe.json"
        text = json.loads(recipe.read_text())
        text["dims"]["seq"], text["batch"] = TOKENS, {"global": SAMPLES, "micro": SAMPLES}
        recipe.write_text(json.dumps(text))
        for precision in ("f32", "bf16"):
            build(recipe, out / name, precision, settings)
    write_experts(out / "experts", out / "experts.safetensors")
    build(out / "experts/recipe.json", out / "experts", "bf16", settings)


def write_experts(folder, batch):
    import experts
    import numpy as np
    import torch
    from safetensors.numpy import save_file

    folder.mkdir(parents=True, exist_ok=True)
    net = experts.Language(experts.network(argparse.Namespace(**EXPERTS))).eval()
    experts.export(net, (torch.zeros(2, 8, dtype=torch.long),), folder / "model.onnx", weights=False, dynamic_shapes={"input_ids": {0: "batch", 1: "seq"}}, input_names=["input_ids"], output_names=["logits"], check=False)
    recipe = {"modules": {"llm": {"onnx": "model.onnx", "init": [{"pattern": "*", "rule": "normal(0, 0.02)"}]}}, "dims": {"batch": "sample", "seq": TOKENS}, "losses": [{"name": "loss", "kind": "cross_entropy", "logits": "llm.logits", "labels": "labels"}]}
    (folder / "recipe.json").write_text(json.dumps(recipe | {"optimizer": OPTIMIZER, "batch": {"global": SAMPLES, "micro": SAMPLES}, "seed": 0}))
    random = np.random.default_rng(0)
    save_file({name: random.integers(0, experts.VOCABULARY, (SAMPLES, TOKENS)) for name in ("llm.input_ids", "labels")}, batch)


def build(recipe, folder, precision, settings):
    program = folder / precision
    copy = write_recipe(recipe, precision, folder / "recipes" / precision)
    run([ROOT / "build/release/bin/dt-opt", copy, "--emit=cpp", "--target=cuda", "-o", program])
    run(["cmake", "-S", program, "-B", program / "build", "-G", "Ninja", *settings])
    run(["cmake", "--build", program / "build", "--target", "train"])


class Packed(Emitted):
    """A program of the folder."""

    def __init__(self, out, model, precision, batch):
        self.name, self.program, self.batch, self.threads = f"this compiler, {precision}", out / model / precision, batch, os.cpu_count()
        self.train = self.program / "build/train"


def measure(out, model, steps, precision, compiled):
    batch = out / ("experts.safetensors" if model == "experts" else "batch.safetensors")
    where = ["experts", "cuda", "grouped_mm", json.dumps(EXPERTS)] if model == "experts" else ["gpt2", "cuda", *SIZES[model]]
    torch = [Torch(where[0], batch, os.cpu_count(), precision, each, *where[1:]) for each in ([False, True] if compiled else [False])]
    report(model, take_turns(model, [Packed(out, model, precision, batch), *torch], steps, ROUNDS))


def main():
    parser = argparse.ArgumentParser(prog="tools/bench gpu", description=__doc__)
    parser.add_argument("out", type=pathlib.Path, help="folder of programs and batch")
    parser.add_argument("--pack", action="store_true", help="make it")
    parser.add_argument("--cmake", action="append", default=[], metavar="FLAG", help="handed on to CMake")
    parser.add_argument("--steps", type=int, default=40, help="counted steps")
    parser.add_argument("--only", choices=[*SIZES, "experts"])
    parser.add_argument("--precision", choices=["f32", "bf16"], help="both, unless said")
    parser.add_argument("--compile", action="store_true", help="torch.compile, too (it compiles for a minute)")
    options = parser.parse_args()
    if options.pack:
        return pack(options.out.resolve(), options.cmake)
    print(f"{SAMPLES} x {TOKENS} tokens; milliseconds a training step\n\n{HEADER}", flush=True)
    for model in [options.only] if options.only else [*SIZES, "experts"]:
        for precision in ["bf16"] if model == "experts" else [options.precision] if options.precision else ["bf16", "f32"]:
            measure(options.out.resolve(), model, options.steps, precision, options.compile)


if __name__ == "__main__":
    main()
