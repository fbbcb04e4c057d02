# ===- experts_network.py - the mixture of experts that is measured -----------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A file of its own: where PyTorch is measured on a GPU there may be no exporter.
# ===-----------------------------------------------------------------------===
"""network(sizes): the library's Qwen3-MoE with weights drawn from a fixed seed."""

import torch
import transformers as hf

VOCABULARY = 512


def network(options):
    torch.manual_seed(0)
    width = options.hidden
    sizes = {"hidden_size": width, "intermediate_size": 2 * width, "moe_intermediate_size": 2 * width, "num_hidden_layers": options.layers, "num_attention_heads": width // 64, "num_key_value_heads": width // 64, "head_dim": 64}
    routing = {"num_experts": options.experts, "num_experts_per_tok": options.chosen, "norm_topk_prob": True}
    return hf.Qwen3MoeForCausalLM(hf.Qwen3MoeConfig(vocab_size=VOCABULARY, **sizes, **routing, max_position_embeddings=options.tokens))
