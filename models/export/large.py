# ===- large.py - full-size networks without weights ------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# What DistTrain trains (arXiv 2408.04275, section 7): ViT-Huge, a Llama-3-like
# backbone of 7, 13 or 70 billion parameters and the UNet of Stable Diffusion
# 2.1, with projectors between them. No weight is ever made: modules live on the
# meta device, and the compiler needs shapes only to describe them.
# ===-----------------------------------------------------------------------===
"""python -m export.large FOLDER [NAME...]: writes graphs without weights and how the compiler reads them."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import nn

from .exporting import export

PATCH = 16
# Images are merged two by two patches before the backbone sees them.
MERGE = 2
LLAMA = {
    "7b": {"hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32},
    "13b": {"hidden_size": 5120, "intermediate_size": 13824, "num_hidden_layers": 40, "num_attention_heads": 40, "num_key_value_heads": 40},
    "70b": {"hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8},
}
CONTEXT = 77  # rows of the backbone that condition an image
CONDITION = 1024  # numbers of each, as Stable Diffusion 2.1 takes them


class Encoder(nn.Module):
    """ViT-Huge with a projector: four neighbouring patches become one token."""

    def __init__(self, side, width):
        super().__init__()
        import transformers as hf

        config = hf.ViTConfig(
            hidden_size=1280, intermediate_size=5120, num_hidden_layers=32, num_attention_heads=16, image_size=side * PATCH, patch_size=PATCH,
            hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, attn_implementation="sdpa",
        )  # fmt: skip
        self.side = side
        self.vit = hf.ViTModel(config, add_pooling_layer=False)
        merged = MERGE * MERGE * config.hidden_size
        self.projector = nn.Sequential(nn.Linear(merged, width), nn.GELU(), nn.Linear(width, width))

    def forward(self, pixel_values):
        x = self.vit(pixel_values).last_hidden_state[:, 1:]
        s = self.side // MERGE
        x = x.reshape(-1, s, MERGE, s, MERGE, x.shape[-1]).permute(0, 1, 3, 2, 4, 5)
        return self.projector(x.reshape(-1, s * s, MERGE * MERGE * x.shape[-1]))


class Backbone(nn.Module):
    def __init__(self, size):
        super().__init__()
        import transformers as hf

        config = hf.LlamaConfig(vocab_size=128256, max_position_embeddings=8192, rope_theta=500000.0, tie_word_embeddings=False, attn_implementation="sdpa", **LLAMA[size])
        self.net = hf.LlamaForCausalLM(config)
        with torch.device("cpu"):
            rotary = hf.models.llama.modeling_llama.LlamaRotaryEmbedding(config)
        self.values = {"net.model.rotary_emb.inv_freq": rotary.inv_freq}

    def forward(self, input_ids):
        return self.net(input_ids=input_ids, use_cache=False).logits


class Experts(Backbone):
    """Qwen3-30B-A3B: 8 of 128 experts."""

    def __init__(self):
        nn.Module.__init__(self)
        import transformers as hf

        sizes = {"hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128}
        routing = {"num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768, "norm_topk_prob": True}
        config = hf.Qwen3MoeConfig(vocab_size=151936, max_position_embeddings=8192, rope_theta=1000000.0, attn_implementation="sdpa", **sizes, **routing)
        self.net = hf.Qwen3MoeForCausalLM(config)
        with torch.device("cpu"):
            rotary = hf.models.qwen3_moe.modeling_qwen3_moe.Qwen3MoeRotaryEmbedding(config)
        self.values = {"net.model.rotary_emb.inv_freq": rotary.inv_freq}


class Generator(nn.Module):
    """The UNet of Stable Diffusion 2.1 behind a projector; being trained, it has gradients go to what conditions the image."""

    def __init__(self, side):
        super().__init__()
        from diffusers import UNet2DConditionModel

        self.projector = nn.Linear(CONDITION, CONDITION)
        self.unet = UNet2DConditionModel(
            sample_size=side, in_channels=4, out_channels=4, block_out_channels=(320, 640, 1280, 1280), layers_per_block=2,
            attention_head_dim=[5, 10, 20, 20], cross_attention_dim=CONDITION, use_linear_projection=True,
        )  # fmt: skip

    def forward(self, latents, timestep, rows):
        return self.unet(latents, timestep, self.projector(rows)).sample


@dataclass
class Graph:
    """How one network is exported, and at which tokens of an item it is described."""

    make: Callable  # tokens -> (module, example inputs)
    output: str
    loss: str
    sizes: list  # three would do, more confirm what those say
    cut_at: int = 0  # the size for which layers are cut over ranks; 0: the largest
    dims: dict = field(default_factory=dict)  # beside the batch: input -> {axis: name}; the one graph then serves all sizes


def encoder(width):
    def make(tokens):
        side = int(tokens**0.5)
        return Encoder(side, width), {"pixel_values": torch.zeros(2, 3, side * PATCH, side * PATCH)}

    return Graph(make, "embeds", "mse", [256, 1024, 2304, 4096])


def backbone(make_backbone):
    def make(tokens):
        return make_backbone(), {"input_ids": torch.zeros(2, 32, dtype=torch.long)}

    # Shorter tables of angles would be constants, which is another program.
    return Graph(make, "logits", "cross_entropy", [2048, 4096, 6144, 8192], dims={"input_ids": {1: "seq"}})


def generator():
    def make(tokens):
        side = int(tokens**0.5)
        inputs = {"latents": torch.zeros(2, 4, side, side), "timestep": torch.zeros(2, dtype=torch.long)}
        return Generator(side), inputs | {"rows": torch.zeros(2, CONTEXT, CONDITION)}

    # The compiler cuts layers otherwise at other sizes: those around the largest image are cut alike.
    return Graph(make, "noise", "mse", [4096, 9216, 14400, 16384, 18496, 20736, 25600, 36864], cut_at=16384)


GRAPHS = {f"llama3_{size}": backbone(partial(Backbone, size)) for size in LLAMA} | {"qwen3_30b_a3b": backbone(Experts)}
GRAPHS |= {f"vit_huge_{config['hidden_size']}": encoder(config["hidden_size"]) for config in LLAMA.values()}
GRAPHS["sd21_unet"] = generator()


def write(folder, name, tokens):
    """One graph, if it is not there yet; returns its file and what `dt-opt` is told about it."""
    graph = GRAPHS[name]
    path = pathlib.Path(folder) / (f"{name}.onnx" if graph.dims else f"{name}_{tokens}.onnx")
    if not path.exists():
        with torch.device("meta"):
            module, inputs = graph.make(tokens)
        dims = {k: {0: "batch"} | graph.dims.get(k, {}) for k in inputs}
        buffers = getattr(module, "values", None)
        export(module.eval(), tuple(inputs.values()), path, dynamic_shapes=dims, input_names=list(inputs), output_names=[graph.output], weights=False, buffers=buffers)
    bound = "".join(f",{name}={tokens}" for axes in graph.dims.values() for name in axes.values())
    return path, [f"--loss={graph.loss}:{graph.output}", f"--dims=batch=sample{bound}", "--init=normal(0, 0.02)"]


def main():
    for name in sys.argv[2:] or GRAPHS:
        for tokens in GRAPHS[name].sizes:
            path, options = write(sys.argv[1], name, tokens)
            print(path, *options, flush=True)


if __name__ == "__main__":
    main()
