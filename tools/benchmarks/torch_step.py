# ===- torch_step.py - PyTorch's training step, on request -----------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# For every number n read, runs n training steps on one batch and prints their
# times as a JSON list. The step is what the recipe says, written as one writes
# it in PyTorch: fused AdamW, clipping by the global norm,
# scaled_dot_product_attention.
# ===-----------------------------------------------------------------------===
"""python torch_step.py demo|gpt2|experts BATCH.safetensors THREADS eager|compile f32|bf16 [cpu|cuda [LAYERS WIDTH VOCABULARY | IMPLEMENTATION SIZES]]"""

import json
import pathlib
import sys
import time

import torch
import torch.nn.functional as F
from safetensors.torch import load_file

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Demo(torch.nn.Module):
    """The demo's three modules and its loss."""

    def __init__(self):
        super().__init__()
        sys.path.insert(0, str(ROOT / "models/examples/demo"))
        import models

        self.vision, self.llm, self.generator = models.Encoder(), models.LanguageModel(129), models.Generator()

    def forward(self, batch):
        images = self.vision(batch["vision.pixel_values"]).float()  # put among float32 rows under autocast
        logits, hidden = self.llm(batch["llm.input_ids"], batch["llm.segment_ids"], images, batch["llm.image_positions"])
        mask = batch["generator.cond_mask"]
        condition = hidden.reshape(-1, hidden.shape[-1])[batch["target_rows"].clamp_min(0)] * mask
        clean = self.generator(batch["generator.noisy"], batch["generator.t"], condition, mask)
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), batch["labels"].reshape(-1)) + F.mse_loss(clean, batch["pictures"])


class Gpt2(torch.nn.Module):
    """GPT-2 as transformers has it."""

    def __init__(self, layers=12, width=768, vocabulary=50257):
        super().__init__()
        from transformers import GPT2Config, GPT2LMHeadModel

        self.net = GPT2LMHeadModel(GPT2Config(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, n_layer=int(layers), n_embd=int(width), n_head=int(width) // 64, vocab_size=int(vocabulary)))

    def forward(self, batch):
        logits = self.net(input_ids=batch["gpt2.input_ids"], use_cache=False).logits
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), batch["labels"].view(-1))


class Experts(torch.nn.Module):
    """Qwen3-MoE with one of the library's implementations; `sizes`: JSON (experts.py)."""

    def __init__(self, implementation, sizes):
        super().__init__()
        import argparse

        from experts_network import network

        self.net = network(argparse.Namespace(**json.loads(sizes)))
        self.net.set_experts_implementation(implementation)

    def forward(self, batch):
        logits = self.net(input_ids=batch["llm.input_ids"], use_cache=False).logits
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), batch["labels"].view(-1))


def main(model, path, threads, mode, precision, device="cpu", *sizes):
    torch.set_num_threads(int(threads))
    torch.manual_seed(0)
    net = {"demo": Demo, "gpt2": Gpt2, "experts": Experts}[model](*sizes).train().to(device)
    batch = load_file(path, device)
    lr = {"demo": 1e-3, "gpt2": 3e-4, "experts": 1e-4}[model]
    optimizer = torch.optim.AdamW(net.parameters(), lr=lr, betas=(0.9, 0.95), weight_decay=0.01, fused=True)
    loss_of = torch.compile(net) if mode == "compile" else net
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            begin = time.perf_counter()
            with torch.autocast(device, torch.bfloat16, enabled=precision == "bf16"):
                loss = loss_of(batch)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            if device == "cuda":
                torch.cuda.synchronize()
            times.append(time.perf_counter() - begin)
        print(json.dumps(times), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
