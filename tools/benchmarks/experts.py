# ===- experts.py - a mixture of experts beside all experts on every token ----===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# One network of the library (Qwen3-MoE), as the exporter writes it and with every
# expert computed for every token, as programs on the CPU; beside them PyTorch's
# eager step, with each of the library's implementations that runs on a CPU. All
# take turns (cpu.py).
# ===-----------------------------------------------------------------------===
"""tools/bench experts: prints a table, writes out/bench/experts.json."""

import argparse
import json
import os
import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "out/bench/experts"
sys.path[:0] = [str(ROOT / "tools/benchmarks"), str(ROOT / "models")]

from cpu import HEADER, Emitted, Torch, report, run, take_turns  # noqa: E402
from experts_network import VOCABULARY, network  # noqa: E402
from export import adapting, export  # noqa: E402

class Language(torch.nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, input_ids):
        return self.net(input_ids=input_ids, use_cache=False).logits


def every_expert(self, hidden_states, top_k_index, top_k_weights):
    """Each expert on every token [tokens, hidden], times its share, 0 where it was not chosen."""
    shares = (F.one_hot(top_k_index, self.num_experts).to(top_k_weights.dtype) * top_k_weights[..., None]).sum(1)
    x = hidden_states[None].expand(self.num_experts, -1, -1)
    inner = self._apply_gate(torch.matmul(x, self.gate_up_proj.transpose(1, 2)))
    return (torch.matmul(inner, self.down_proj.transpose(1, 2)) * shares.t()[..., None]).sum(0)


class Program(Emitted):
    def __init__(self, name, dense, options, batch):
        folder = OUT / name.replace(" ", "-").replace(",", "")
        folder.mkdir(parents=True, exist_ok=True)
        self.name, self.program, self.batch, self.threads = name, folder / "program", batch, options.threads
        implementation = "every_expert" if dense else "batched_mm"
        original = adapting._experts
        adapting._experts = lambda models, stack: [adapting._set(stack, m.config, "_experts_implementation_internal", implementation) for m in models]
        try:
            export(Language(network(options)).eval(), (torch.zeros(2, 8, dtype=torch.long),), folder / "model.onnx", dynamic_shapes={"input_ids": {0: "batch", 1: "seq"}}, input_names=["input_ids"], output_names=["logits"], check=False)
        finally:
            adapting._experts = original
        recipe = {"modules": {"llm": {"onnx": "model.onnx"}}, "dims": {"batch": "sample", "seq": options.tokens}, "losses": [{"name": "loss", "kind": "cross_entropy", "logits": "llm.logits", "labels": "labels"}], "precision": options.precision}
        recipe |= {"optimizer": {"kind": "adamw", "lr": 1e-4, "betas": [0.9, 0.95], "weight_decay": 0.01, "clip": 1}, "batch": {"global": options.samples, "micro": options.samples}, "seed": 0}
        (folder / "recipe.json").write_text(json.dumps(recipe))
        run([ROOT / "build/release/bin/dt-opt", folder / "recipe.json", "--emit=cpp", "--target=cpu", "-o", self.program])
        runtime = ROOT / "build/release/runtime/dt_runtime.cmake"
        run(["cmake", "-S", self.program, "-B", folder / "build", "-G", "Ninja", f"-DDT_RUNTIME_LIBRARY={runtime if runtime.exists() else ''}"])
        run(["cmake", "--build", folder / "build", "--target", "train"])
        self.train = folder / "build/train"


def main():
    parser = argparse.ArgumentParser(prog="tools/bench experts")
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--experts", type=int, default=8)
    parser.add_argument("--chosen", type=int, default=2, help="experts of a token")
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=512, help="of a sample")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--steps", type=int, default=12, help="counted steps")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
    options = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    if (ROOT / "build/release/runtime/dt_runtime.cmake").exists():
        os.environ["CXX"] = "clang++-22"
    from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

    ALL_EXPERTS_FUNCTIONS.register("every_expert", every_expert)
    random, batch = np.random.default_rng(0), OUT / "batch.safetensors"
    shape = (options.samples, options.tokens)
    save_file({name: random.integers(0, VOCABULARY, shape) for name in ("llm.input_ids", "labels")}, batch)
    sizes = [json.dumps({key: value for key, value in vars(options).items() if key in ("hidden", "layers", "experts", "chosen", "tokens")})]
    contestants = [Program("own experts", False, options, batch), Program("every expert", True, options, batch)]
    contestants += [Torch("experts", batch, options.threads, options.precision, False, "cpu", implementation, *sizes) for implementation in ("eager", "grouped_mm")]
    for contestant, implementation in zip(contestants[2:], ("eager", "grouped_mm")):
        contestant.name = f"PyTorch, {implementation}"
    print(f"{options.samples * options.tokens} tokens, hidden {options.hidden}, {options.layers} layers, {options.chosen} of {options.experts} experts, {options.precision}, {options.threads} threads, load average {os.getloadavg()[0]:.1f}")
    print(HEADER)
    figures = report("experts", take_turns("experts", contestants, options.steps, options.rounds))
    (ROOT / "out/bench/experts.json").write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
