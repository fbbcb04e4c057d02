# ===- extra.py - further networks for the tests ----------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Networks of families that the compiler's passes were not written against:
# convolution nets with pooling, encoder-decoders with relative positions, audio
# encoders, windowed attention, other decoders. `python -m export.extra` in
# models/ writes them into test/models/extra; names select some.
# ===-----------------------------------------------------------------------===
"""python -m export.extra [NAME...]: writes test/models/extra."""

from __future__ import annotations

import pathlib
import sys

import torch
import torch.nn.functional as F
import transformers as hf
from torch import nn

from .golden import Model, write
from .wrappers import Pick

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "test" / "models" / "extra"
VOCABULARY, SEQ = 96, 20


def generator(seed):
    return torch.Generator().manual_seed(seed)


def cross_entropy(logits="logits"):
    return {"kind": "cross_entropy", "logits": logits, "labels": "labels", "ignore_index": -100}


def tokens(batch, seq, generator):
    return torch.randint(3, VOCABULARY, (batch, seq), generator=generator)


def decoder(name, config, **facts):
    """A causal language model of the library."""
    g = generator(1)
    net = hf.AutoModelForCausalLM.from_config(config, attn_implementation=facts.pop("attention", "sdpa"))
    if getattr(config, "_experts_implementation", None):
        net.set_experts_implementation("eager")  # the library's plain loop, also in float64
    ids = tokens(3, SEQ + 1, g)
    labels = ids[:, 1:].clone()
    labels[0, :5] = -100
    return Model(
        name=name,
        source=f"transformers.{type(net).__name__}",
        module=Pick(net, ["input_ids"], "logits", use_cache=False),
        inputs={"input_ids": ids[:, :-1].contiguous()},
        outputs=["logits"],
        dims={"input_ids": {0: "batch", 1: "seq"}},
        bound={"seq": SEQ},
        loss=cross_entropy(),
        targets={"labels": labels},
        **facts,
    )


SMALL = {"vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 64}


def mistral():
    return decoder("mistral", hf.MistralConfig(**SMALL, num_key_value_heads=2, head_dim=8, sliding_window=8), notes=["attention within a sliding window of 8"])


def packed():
    """Documents stand one after another in a row, positions start again with each."""
    model = decoder("packed", hf.MistralConfig(**SMALL, num_key_value_heads=2, head_dim=8, sliding_window=6), notes=["rows of several documents (position_ids), attention within each and a sliding window of 6"])
    lengths = [[20], [7, 1, 12], [1, 3, 4, 4, 8]]
    model.inputs["position_ids"] = torch.stack([torch.cat([torch.arange(n) for n in row]) for row in lengths])
    model.dims["position_ids"] = {0: "batch", 1: "seq"}
    model.module.inputs = list(model.inputs)
    return model


def qwen2():
    return decoder("qwen2", hf.Qwen2Config(**SMALL, num_key_value_heads=1, tie_word_embeddings=True))


def gemma():
    return decoder("gemma", hf.GemmaConfig(**SMALL, num_key_value_heads=1, head_dim=8), notes=["norms scale by 1 + weight; embeddings times sqrt(hidden); tanh GELU"])


def phi():
    return decoder("phi", hf.PhiConfig(**SMALL, partial_rotary_factor=0.5), notes=["half of each head rotates; attention and MLP side by side"])


def gpt_neox():
    return decoder("gpt_neox", hf.GPTNeoXConfig(**SMALL, rotary_pct=0.25), attention="eager", notes=["attention not through scaled_dot_product_attention"])


def opset23_llama():
    config = hf.LlamaConfig(**SMALL, num_key_value_heads=2)
    return decoder("llama_opset23", config, opset=23, notes=["opset 23, in which the exporter writes the Attention operator"])


EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 24}


def qwen3_moe():
    return decoder("qwen3_moe", hf.Qwen3MoeConfig(**SMALL | EXPERTS, num_key_value_heads=2, head_dim=8, norm_topk_prob=True), notes=["each token goes through 2 of 8 experts"])


def gpt_oss():
    config = hf.GptOssConfig(**SMALL, num_key_value_heads=2, head_dim=8, sliding_window=8, num_local_experts=4, num_experts_per_tok=2)
    return decoder("gpt_oss", config, attention="eager", notes=["experts have biases, and weights the other way round; attention sinks"])


def deepseek_v3():
    latent = {"q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8}
    routing = {"n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 3, "n_group": 4, "topk_group": 2, "moe_intermediate_size": 24, "first_k_dense_replace": 1}
    return decoder("deepseek_v3", hf.DeepseekV3Config(**SMALL, num_key_value_heads=4, **latent, **routing), notes=["experts chosen within groups by sigmoids, one of them shared; latent attention"])


def llama_bf16():
    config = hf.LlamaConfig(**SMALL, num_key_value_heads=2, hidden_act="gelu_pytorch_tanh")
    return decoder("llama_bf16", config, kind=torch.bfloat16, notes=["the graph is in bfloat16; figures are those of the module in float32, with the weights of the file"])


def bert():
    g = generator(2)
    net = hf.BertForMaskedLM(hf.BertConfig(**SMALL, hidden_dropout_prob=0, attention_probs_dropout_prob=0, type_vocab_size=2))
    ids = tokens(4, SEQ, g)
    mask = (torch.arange(SEQ) < torch.tensor([[20], [13], [17], [9]])).long()
    labels = torch.where((torch.rand(ids.shape, generator=g) < 0.3) & (mask > 0), ids, -100)
    return Model(
        name="bert",
        source="transformers.BertForMaskedLM",
        module=Pick(net, ["input_ids", "attention_mask"], "logits"),
        inputs={"input_ids": ids, "attention_mask": mask},
        outputs=["logits"],
        dims={k: {0: "batch", 1: "seq"} for k in ("input_ids", "attention_mask")},
        bound={"seq": SEQ},
        loss=cross_entropy(),
        targets={"labels": labels},
        notes=["padding mask as an input; the output layer is tied to the embedding"],
    )


def t5():
    g = generator(3)
    config = hf.T5Config(
        vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_decoder_layers=1, num_heads=4, dropout_rate=0, relative_attention_num_buckets=8,
        relative_attention_max_distance=16, attn_implementation="eager", feed_forward_proj="gated-gelu", tie_word_embeddings=False,
    )
    net = hf.T5ForConditionalGeneration(config)
    ids, target = tokens(3, 14, g), tokens(3, 11, g)
    return Model(
        name="t5",
        source="transformers.T5ForConditionalGeneration",
        module=Pick(net, ["input_ids", "decoder_input_ids"], "logits", use_cache=False),
        inputs={"input_ids": ids, "decoder_input_ids": target[:, :-1].contiguous()},
        outputs=["logits"],
        dims={"input_ids": {0: "batch", 1: "source"}, "decoder_input_ids": {0: "batch", 1: "target"}},
        bound={"source": 14, "target": 10},
        loss=cross_entropy(),
        targets={"labels": target[:, 1:].contiguous()},
        notes=["encoder and decoder, relative position bias in buckets, cross attention"],
    )


class Whisper(nn.Module):
    """An audio encoder: two strided Conv1d, then attention over time; frames are classified."""

    def __init__(self):
        super().__init__()
        config = hf.WhisperConfig(
            d_model=32, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=64, decoder_layers=1, decoder_attention_heads=4, decoder_ffn_dim=64,
            num_mel_bins=16, max_source_positions=24, vocab_size=VOCABULARY, dropout=0, pad_token_id=0,
        )
        self.encoder = hf.WhisperModel(config).encoder
        self.head = nn.Linear(32, VOCABULARY)

    def forward(self, mel):
        return self.head(self.encoder(mel)[0])


def whisper():
    g = generator(4)
    return Model(
        name="whisper",
        source="transformers.WhisperModel.encoder and a Linear",
        module=Whisper(),
        inputs={"mel": torch.randn(3, 16, 48, generator=g)},
        outputs=["logits"],
        dims={"mel": {0: "batch"}},
        loss=cross_entropy(),
        targets={"labels": torch.randint(0, VOCABULARY, (3, 24), generator=g)},
    )


def siglip():
    g = generator(5)
    text = {**SMALL, "num_hidden_layers": 1, "max_position_embeddings": 16, "projection_size": 32}
    vision = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 16, "patch_size": 4}
    net = hf.SiglipModel(hf.SiglipConfig(text_config=text, vision_config=vision))
    return Model(
        name="siglip",
        source="transformers.SiglipModel",
        module=Pick(net, ["input_ids", "pixel_values"], "logits_per_image", "image_embeds", "text_embeds"),
        inputs={"input_ids": tokens(4, 16, g), "pixel_values": torch.randn(4, 3, 16, 16, generator=g)},
        outputs=["logits_per_image", "image_embeds", "text_embeds"],
        dims={"input_ids": {0: "batch"}, "pixel_values": {0: "batch"}},
        loss={"kind": "sigmoid_contrastive", "logits": "logits_per_image"},
        notes=["attention pooling head; loss: -log sigmoid of +logit for own pairs, -logit for the others, summed over a row, mean over rows"],
    )


class ConvNet(nn.Module):
    """Convolutions of every kind: strided, depthwise, dilated, grouped, transposed; BatchNorm, GroupNorm; max and average pooling."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 12, 5, stride=2, padding=2, bias=False), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.depthwise = nn.Conv2d(12, 12, 3, padding=1, groups=12, bias=False)
        self.pointwise = nn.Conv2d(12, 24, 1)
        self.norm1 = nn.BatchNorm2d(24)
        self.dilated = nn.Conv2d(24, 24, 3, padding=2, dilation=2, groups=4)
        self.norm2 = nn.GroupNorm(6, 24)
        self.pool = nn.AvgPool2d(2)
        self.up = nn.ConvTranspose2d(24, 12, 3, stride=2, padding=1, output_padding=1)
        self.up2 = nn.ConvTranspose2d(12, 8, 2, stride=2)
        self.gate = nn.Linear(24, 24)
        self.out = nn.Conv2d(8, 3, 3, padding=1, padding_mode="zeros")

    def forward(self, x):
        x = self.stem(x)
        x = F.leaky_relu(self.norm1(self.pointwise(self.depthwise(x))), 0.1)
        y = F.hardswish(self.norm2(self.dilated(x)))
        x = x + y * torch.sigmoid(self.gate(F.adaptive_avg_pool2d(y, 1).flatten(1)))[..., None, None]
        x = F.elu(self.up(self.pool(x)))
        x = F.interpolate(F.softplus(self.up2(x)), scale_factor=2, mode="nearest")
        return torch.tanh(self.out(x))


def convnet(name="convnet", **facts):
    g = generator(6)
    return Model(
        name=name,
        source="models/export/extra.py ConvNet",
        module=ConvNet(),
        inputs={"image": torch.randn(3, 3, 32, 32, generator=g)},
        outputs=["picture"],
        dims={"image": {0: "batch"}},
        loss={"kind": "mse", "output": "picture", "target": "target"},
        targets={"target": torch.rand(3, 3, 32, 32, generator=g)},
        **facts,
    )


def convnet_train():
    return convnet("convnet_train", training=True, notes=["BatchNorm in training form: statistics of the batch"])


def classifier(name, net, side=32, **facts):
    g = generator(7)
    return Model(
        name=name,
        source=f"transformers.{type(net).__name__}",
        module=Pick(net, ["pixel_values"], "logits"),
        inputs={"pixel_values": torch.randn(4, 3, side, side, generator=g)},
        outputs=["logits"],
        dims={"pixel_values": {0: "batch"}},
        loss=cross_entropy(),
        targets={"labels": torch.randint(0, 5, (4,), generator=g)},
        **facts,
    )


def resnet():
    config = hf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 2], layer_type="basic", num_labels=5)
    return classifier("resnet", hf.ResNetForImageClassification(config), notes=["BatchNorm with fixed statistics"])


def convnext():
    config = hf.ConvNextConfig(hidden_sizes=[8, 16], depths=[1, 2], num_stages=2, patch_size=4, num_labels=5, drop_path_rate=0.0)
    return classifier("convnext", hf.ConvNextForImageClassification(config), notes=["depthwise 7x7, LayerNorm over channels, layer scale"])


def swin():
    config = hf.SwinConfig(attn_implementation="eager", image_size=32, patch_size=4, embed_dim=16, depths=[2, 1], num_heads=[2, 4], window_size=4, num_labels=5, drop_path_rate=0.0)
    return classifier("swin", hf.SwinForImageClassification(config), notes=["windowed attention, shifted by rolling; relative position bias by a table"])


def dinov2(name="dinov2", **facts):
    config = hf.Dinov2Config(image_size=28, patch_size=7, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, mlp_ratio=2, num_labels=5, use_swiglu_ffn=True)
    facts.setdefault("notes", ["layer scale, SwiGLU with one fused input projection"])
    return classifier(name, hf.Dinov2ForImageClassification(config), side=28, **facts)


def dinov2_fp16():
    return dinov2("dinov2_fp16", kind=torch.float16, notes=["the graph is in float16, its input too; figures are those of the module in float32, with the weights of the file"])


def dit():
    from diffusers import DiTTransformer2DModel

    g = generator(8)
    net = DiTTransformer2DModel(
        num_attention_heads=4, attention_head_dim=8, in_channels=4, out_channels=4, num_layers=2, sample_size=8, patch_size=2, num_embeds_ada_norm=10
    )
    return Model(
        name="dit",
        source="diffusers.DiTTransformer2DModel",
        module=Pick(net, ["hidden_states", "timestep", "class_labels"], "sample"),
        inputs={"sample": torch.randn(3, 4, 8, 8, generator=g), "timestep": torch.tensor([7, 503, 88]), "class_labels": torch.tensor([1, 4, 9])},
        outputs=["noise_pred"],
        dims={k: {0: "batch"} for k in ("sample", "timestep", "class_labels")},
        loss={"kind": "mse", "output": "noise_pred", "target": "noise"},
        targets={"noise": torch.randn(3, 4, 8, 8, generator=g)},
        notes=["adaptive LayerNorm from time and class"],
    )


MODELS = [mistral, packed, qwen2, gemma, phi, gpt_neox, qwen3_moe, gpt_oss, deepseek_v3, opset23_llama, llama_bf16, bert, t5, whisper, siglip, convnet, convnet_train, resnet, convnext, swin, dinov2, dinov2_fp16, dit]


def main():
    chosen = sys.argv[1:]
    for make in MODELS:
        torch.manual_seed(0)
        if chosen and make.__name__ not in chosen:
            continue
        print(write(make(), FOLDER), flush=True)


if __name__ == "__main__":
    main()
