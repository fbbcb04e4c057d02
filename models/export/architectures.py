# ===- architectures.py - widely used networks, made tiny -------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Every entry is the library's own class with its own code paths (gated experts,
# windows, soft caps, relative positions), with two layers and a width of 32 to 64
# and random weights. coverage.py exports, compiles and trains each.
# ===-----------------------------------------------------------------------===
"""FAMILIES: title -> {name: function that makes a golden.Model}."""

from __future__ import annotations

import functools

import torch
import transformers as hf

from . import extra
from .extra import SEQ, VOCABULARY, cross_entropy, generator, tokens
from .generators import GENERATORS
from .golden import Model
from .wrappers import FixedGrid, FixedShapes, Pick

LABELS = 5  # classes of what classifies
TEXT = {"vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 64}
GROUPED = TEXT | {"num_key_value_heads": 2, "head_dim": 8}
# Tokens that a library reserves; the example's tokens begin at 3.
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
VISION = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 32, "patch_size": 8}


# --- language models ---------------------------------------------------------


def decoder(config_class, **settings):
    model = extra.decoder("", config_class(**settings), attention=None)
    # PyTorch's side runs the library's plain loop over experts, also in float64; export() replaces it.
    if getattr(model.module.net.config, "_experts_implementation", None):
        model.module.net.set_experts_implementation("eager")
    if config_class is hf.MambaConfig:  # its scan is a loop over a number of steps
        model.dims, model.bound = {"input_ids": {0: "batch"}}, {}
    return model


def hybrid(layers, **settings):
    """Settings of a model whose layers are of different kinds."""
    return settings | {"layer_types": layers, "num_hidden_layers": len(layers)}


SLIDING = ["sliding_attention", "full_attention"]

DECODERS = {
    "GPT-2": (hf.GPT2Config, {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}),
    "GPT-Neo": (hf.GPTNeoConfig, {"vocab_size": VOCABULARY, "hidden_size": 32, "num_layers": 2, "num_heads": 4, "max_position_embeddings": 64, "window_size": 8, "attention_types": [[["global", "local"], 1]]}),
    "GPT-J": (hf.GPTJConfig, {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "rotary_dim": 4}),
    "GPT-NeoX": (hf.GPTNeoXConfig, TEXT | {"rotary_pct": 0.25}),
    "OPT": (hf.OPTConfig, {"vocab_size": VOCABULARY, "hidden_size": 32, "word_embed_proj_dim": 32, "ffn_dim": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 64}),
    "BLOOM": (hf.BloomConfig, {"vocab_size": VOCABULARY, "hidden_size": 32, "n_layer": 2, "n_head": 4}),
    "Falcon": (hf.FalconConfig, {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}),
    "Llama 3": (hf.LlamaConfig, GROUPED),
    "Llama 4 (text)": (hf.Llama4TextConfig, GROUPED | SPECIAL | {"intermediate_size_mlp": 64, "num_local_experts": 4, "attention_chunk_size": 8, "no_rope_layers": [1, 0]}),
    "Mistral": (hf.MistralConfig, GROUPED | {"sliding_window": 8}),
    "Mixtral": (hf.MixtralConfig, GROUPED | {"num_local_experts": 4, "num_experts_per_tok": 2}),
    "Qwen2": (hf.Qwen2Config, TEXT | {"num_key_value_heads": 1, "tie_word_embeddings": True}),
    "Qwen3": (hf.Qwen3Config, GROUPED),
    "Qwen3-MoE": (hf.Qwen3MoeConfig, GROUPED | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "norm_topk_prob": True}),
    "Gemma": (hf.GemmaConfig, TEXT | {"num_key_value_heads": 1, "head_dim": 8}),
    "Gemma 2": (hf.Gemma2Config, GROUPED | {"sliding_window": 8, "query_pre_attn_scalar": 8}),
    "Gemma 3 (text)": (hf.Gemma3TextConfig, hybrid(SLIDING, **{k: v for k, v in GROUPED.items() if k != "num_hidden_layers"}, sliding_window=8, query_pre_attn_scalar=8)),
    "Phi-2": (hf.PhiConfig, TEXT | {"partial_rotary_factor": 0.5}),
    "Phi-3": (hf.Phi3Config, TEXT | SPECIAL | {"num_key_value_heads": 2}),
    "gpt-oss": (hf.GptOssConfig, hybrid(SLIDING, **{k: v for k, v in GROUPED.items() if k != "num_hidden_layers"}, sliding_window=8, num_local_experts=4, num_experts_per_tok=2)),
    "DeepSeek-V3": (hf.DeepseekV3Config, TEXT | {
        "num_key_value_heads": 4, "moe_intermediate_size": 16, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1,
        "kv_lora_rank": 16, "q_lora_rank": 24, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8, "first_k_dense_replace": 1}),
    "OLMo 2": (hf.Olmo2Config, TEXT | SPECIAL | {"num_key_value_heads": 2}),
    "StarCoder 2": (hf.Starcoder2Config, TEXT | SPECIAL | {"num_key_value_heads": 2, "sliding_window": 8}),
    "Mamba": (hf.MambaConfig, {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8, "time_step_rank": 4}),
}  # fmt: skip


def masked(net_class, config):
    """An encoder that predicts hidden tokens, with a padding mask."""
    g = generator(2)
    ids = tokens(4, SEQ, g)
    # Padding that sees nothing but padding in its window has outputs that mean nothing, and differ.
    lengths = [20, 18, 17, 19] if net_class is hf.ModernBertForMaskedLM else [20, 13, 17, 9]
    mask = (torch.arange(SEQ) < torch.tensor(lengths)[:, None]).long()
    labels = torch.where((torch.rand(ids.shape, generator=g) < 0.3) & (mask > 0), ids, -100)
    net = net_class(config)
    return Model(
        name="", source=f"transformers.{type(net).__name__}", module=Pick(net, ["input_ids", "attention_mask"], "logits"), inputs={"input_ids": ids, "attention_mask": mask}, outputs=["logits"],
        dims={k: {0: "batch", 1: "seq"} for k in ("input_ids", "attention_mask")}, bound={"seq": SEQ}, loss=cross_entropy(), targets={"labels": labels},
    )  # fmt: skip


ENCODERS = {
    "BERT": (hf.BertForMaskedLM, lambda: hf.BertConfig(**TEXT)),
    "RoBERTa": (hf.RobertaForMaskedLM, lambda: hf.RobertaConfig(**TEXT | {"type_vocab_size": 1, "pad_token_id": 1})),
    "DistilBERT": (hf.DistilBertForMaskedLM, lambda: hf.DistilBertConfig(vocab_size=VOCABULARY, dim=32, hidden_dim=64, n_layers=2, n_heads=4, max_position_embeddings=64)),
    "ALBERT": (hf.AlbertForMaskedLM, lambda: hf.AlbertConfig(**TEXT, embedding_size=16)),
    "ELECTRA": (hf.ElectraForMaskedLM, lambda: hf.ElectraConfig(**TEXT, embedding_size=16)),
    "DeBERTa-v3": (hf.DebertaV2ForMaskedLM, lambda: hf.DebertaV2Config(
        **TEXT, relative_attention=True, position_buckets=8, norm_rel_ebd="layer_norm", share_att_key=True, pos_att_type=["p2c", "c2p"], position_biased_input=False)),
    "ModernBERT": (hf.ModernBertForMaskedLM, lambda: hf.ModernBertConfig(**TEXT | SPECIAL, cls_token_id=1, sep_token_id=2, local_attention=8, layer_types=SLIDING)),
}  # fmt: skip


def translator(net_class, config):
    """Encoder and decoder over tokens."""
    g = generator(3)
    ids, target = tokens(3, 14, g), tokens(3, 11, g)
    net = net_class(config)
    return Model(
        name="", source=f"transformers.{type(net).__name__}", module=Pick(net, ["input_ids", "decoder_input_ids"], "logits", use_cache=False),
        inputs={"input_ids": ids, "decoder_input_ids": target[:, :-1].contiguous()}, outputs=["logits"],
        dims={"input_ids": {0: "batch", 1: "source"}, "decoder_input_ids": {0: "batch", 1: "target"}}, bound={"source": 14, "target": 10},
        loss=cross_entropy(), targets={"labels": target[:, 1:].contiguous()},
    )  # fmt: skip


BART = {"vocab_size": VOCABULARY, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 64}
TRANSLATORS = {
    "T5": (hf.T5ForConditionalGeneration, lambda: hf.T5Config(vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, relative_attention_num_buckets=8, relative_attention_max_distance=16)),
    "BART": (hf.BartForConditionalGeneration, lambda: hf.BartConfig(**BART)),
    "Marian": (hf.MarianMTModel, lambda: hf.MarianConfig(**BART, decoder_vocab_size=VOCABULARY, pad_token_id=0, eos_token_id=2, forced_eos_token_id=2, decoder_start_token_id=0)),
}  # fmt: skip


# --- audio -------------------------------------------------------------------


def whisper():
    g = generator(4)
    config = hf.WhisperConfig(
        vocab_size=VOCABULARY, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64,
        decoder_ffn_dim=64, num_mel_bins=16, max_source_positions=24, max_target_positions=32, decoder_start_token_id=1, suppress_tokens=None, begin_suppress_tokens=None, **SPECIAL,
    )  # fmt: skip
    target = tokens(3, 11, g)
    return Model(
        name="", source="transformers.WhisperForConditionalGeneration",
        module=Pick(hf.WhisperForConditionalGeneration(config), ["input_features", "decoder_input_ids"], "logits", use_cache=False),
        inputs={"mel": torch.randn(3, 16, 48, generator=g), "decoder_input_ids": target[:, :-1].contiguous()}, outputs=["logits"],
        dims={"mel": {0: "batch"}, "decoder_input_ids": {0: "batch", 1: "target"}}, bound={"target": 10},
        loss=cross_entropy(), targets={"labels": target[:, 1:].contiguous()},
    )  # fmt: skip


def wav2vec2():
    g = generator(5)
    config = hf.Wav2Vec2Config(
        vocab_size=LABELS, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, conv_dim=[16, 16, 16], conv_stride=[5, 2, 2],
        conv_kernel=[10, 3, 3], num_feat_extract_layers=3, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, mask_time_prob=0.0,
    )  # fmt: skip
    net = hf.Wav2Vec2ForCTC(config)
    wave = torch.randn(3, 800, generator=g)
    frames = net(wave).logits.shape[1]
    return Model(
        name="", source="transformers.Wav2Vec2ForCTC (a label a frame)", module=Pick(net, ["input_values"], "logits"), inputs={"wave": wave}, outputs=["logits"],
        dims={"wave": {0: "batch"}}, loss=cross_entropy(), targets={"labels": torch.randint(0, LABELS, (3, frames), generator=g)},
    )  # fmt: skip


def spectrogram_transformer():
    g = generator(6)
    config = hf.ASTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, patch_size=8, frequency_stride=6, time_stride=6, max_length=48, num_mel_bins=16, num_labels=LABELS)
    return Model(
        name="", source="transformers.ASTForAudioClassification", module=Pick(hf.ASTForAudioClassification(config), ["input_values"], "logits"),
        inputs={"spectrogram": torch.randn(3, 48, 16, generator=g)}, outputs=["logits"], dims={"spectrogram": {0: "batch"}}, loss=cross_entropy(),
        targets={"labels": torch.randint(0, LABELS, (3,), generator=g)},
    )  # fmt: skip


AUDIO = {"Whisper": whisper, "wav2vec 2.0": wav2vec2, "Audio Spectrogram Transformer": spectrogram_transformer}


# --- images ------------------------------------------------------------------


def classifier(net_class, config, side=32):
    return extra.classifier("", net_class(config), side=side)


def dense(net, output, side=32, source=None):
    """A network that gives numbers for places of a picture, fitted to a target of the shape that it gives."""
    g = generator(8)
    picture = torch.randn(3, 3, side, side, generator=g)
    module = Pick(net, ["pixel_values"], *output)
    with torch.no_grad():
        given = module.eval()(picture)
    return Model(
        name="", source=source or f"transformers.{type(net).__name__}", module=module, inputs={"pixel_values": picture}, outputs=list(output),
        dims={"pixel_values": {0: "batch"}}, loss={"kind": "mse", "output": output[0], "target": "target"}, targets={"target": torch.randn(given[0].shape, generator=g)},
    )  # fmt: skip


def segformer():
    config = hf.SegformerConfig(num_encoder_blocks=2, depths=[1, 1], sr_ratios=[2, 1], hidden_sizes=[16, 32], patch_sizes=[7, 3], strides=[4, 2], num_attention_heads=[2, 4], mlp_ratios=[2, 2], decoder_hidden_size=32, num_labels=LABELS)
    return dense(hf.SegformerForSemanticSegmentation(config), ["logits"])


def depth_anything():
    backbone = hf.Dinov2Config(image_size=28, patch_size=7, hidden_size=32, num_hidden_layers=4, num_attention_heads=4, mlp_ratio=2, out_indices=[1, 2, 3, 4], reshape_hidden_states=False)
    config = hf.DepthAnythingConfig(backbone_config=backbone, patch_size=7, reassemble_hidden_size=32, reassemble_factors=[4, 2, 1, 0.5], neck_hidden_sizes=[8, 8, 16, 16], fusion_hidden_size=16, head_hidden_size=8)
    return dense(hf.DepthAnythingForDepthEstimation(config), ["predicted_depth"], side=28)


def detr():
    backbone = hf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", out_features=["stage2"])
    config = hf.DetrConfig(backbone_config=backbone, num_queries=6, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, num_labels=LABELS)
    return dense(hf.DetrForObjectDetection(config), ["pred_boxes", "logits"])


IMAGES = {
    "ViT": lambda: classifier(hf.ViTForImageClassification, hf.ViTConfig(**VISION, num_labels=LABELS)),
    "BEiT": lambda: classifier(hf.BeitForImageClassification, hf.BeitConfig(**VISION, num_labels=LABELS, use_relative_position_bias=True, drop_path_rate=0.0)),
    "Swin": lambda: classifier(hf.SwinForImageClassification, hf.SwinConfig(image_size=32, patch_size=4, embed_dim=16, depths=[2, 1], num_heads=[2, 4], window_size=4, num_labels=LABELS)),
    "DINOv2": lambda: classifier(hf.Dinov2ForImageClassification, hf.Dinov2Config(image_size=28, patch_size=7, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, mlp_ratio=2, num_labels=LABELS), side=28),
    "DINOv3": lambda: dense(hf.DINOv3ViTModel(hf.DINOv3ViTConfig(**VISION, num_register_tokens=2)), ["last_hidden_state"]),
    "ResNet": lambda: classifier(hf.ResNetForImageClassification, hf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 2], num_labels=LABELS)),
    "ConvNeXt": lambda: classifier(hf.ConvNextForImageClassification, hf.ConvNextConfig(hidden_sizes=[8, 16], depths=[1, 2], num_stages=2, patch_size=4, num_labels=LABELS)),
    "SegFormer": segformer,
    "Depth Anything": depth_anything,
    "DETR": detr,
}  # fmt: skip


# --- images and text ---------------------------------------------------------


def pairs(net_class, config, loss, text_length=16, side=32):
    """Two towers and the similarity of every image to every text."""
    g = generator(9)
    net = net_class(config)
    return Model(
        name="", source=f"transformers.{type(net).__name__}", module=Pick(net, ["input_ids", "pixel_values"], "logits_per_image"),
        inputs={"input_ids": tokens(4, text_length, g), "pixel_values": torch.randn(4, 3, side, side, generator=g)}, outputs=["logits_per_image"],
        dims={"input_ids": {0: "batch"}, "pixel_values": {0: "batch"}}, loss={"kind": loss, "logits": "logits_per_image"},
    )  # fmt: skip


def siglip2():
    g = generator(10)
    text = TEXT | {"max_position_embeddings": 16, "projection_size": 32}
    vision = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "patch_size": 4, "num_patches": 16}
    net = hf.Siglip2Model(hf.Siglip2Config(text_config=text, vision_config=vision))
    # NaFlex: pictures of 2 x 6, 3 x 4, 3 x 3 and 4 x 3 patches in room for 12.
    return Model(
        name="", source="transformers.Siglip2Model in FixedShapes", module=FixedShapes(net, [(2, 6), (3, 4), (3, 3), (4, 3)], room=12),
        inputs={"input_ids": tokens(4, 16, g), "pixel_values": torch.randn(4, 12, 48, generator=g), "shape": torch.tensor([0, 1, 2, 3])},
        outputs=["logits_per_image"], dims={k: {0: "batch"} for k in ("input_ids", "pixel_values", "shape")}, loss={"kind": "sigmoid_contrastive", "logits": "logits_per_image"},
    )  # fmt: skip


def conversation(net, image_token, image_tokens, images, **fixed):
    """A language model that reads pictures: each text has one picture's tokens, then words."""
    g = generator(11)
    batch = len(images)
    ids = tokens(batch, SEQ + 1, g)
    ids[:, 2 : 2 + image_tokens] = image_token
    labels = ids[:, 1:].clone()
    labels[labels == image_token] = -100
    return Model(
        name="", source=f"transformers.{type(net).__name__}", module=Pick(net, ["input_ids", "pixel_values"], "logits", use_cache=False, **fixed),
        inputs={"input_ids": ids[:, :-1].contiguous(), "pixel_values": images}, outputs=["logits"],
        dims={"input_ids": {0: "batch", 1: "seq"}, "pixel_values": {0: "batch"}}, bound={"seq": SEQ}, loss=cross_entropy(), targets={"labels": labels},
    )  # fmt: skip


WORDS = VOCABULARY + 2  # two more for pictures
IMAGE = VOCABULARY


def llava():
    vision = hf.CLIPVisionConfig(**VISION)
    net = hf.LlavaForConditionalGeneration(hf.LlavaConfig(vision_config=vision, text_config=hf.LlamaConfig(**GROUPED | {"vocab_size": WORDS}), image_token_index=IMAGE, image_seq_length=16))
    return conversation(net, IMAGE, 16, torch.randn(3, 3, 32, 32, generator=generator(12)))


def paligemma():
    vision = hf.SiglipVisionConfig(**VISION, projection_dim=32)
    text = hf.GemmaConfig(**TEXT | {"vocab_size": WORDS, "num_key_value_heads": 1, "head_dim": 8})
    net = hf.PaliGemmaForConditionalGeneration(hf.PaliGemmaConfig(vision_config=vision, text_config=text, image_token_index=IMAGE, projection_dim=32, hidden_size=32))
    model = conversation(net, IMAGE, 16, torch.randn(3, 3, 32, 32, generator=generator(12)))
    # Which tokens all see (the picture and what is before it) and which only see what is before them.
    model.module.inputs = ["input_ids", "pixel_values", "token_type_ids"]
    model.inputs["token_type_ids"] = (torch.arange(SEQ) >= 18).long().repeat(3, 1)
    model.dims["token_type_ids"] = {0: "batch", 1: "seq"}
    return model


def smolvlm():
    vision = {k: v for k, v in VISION.items()}
    text = hf.LlamaConfig(**GROUPED | {"vocab_size": WORDS, "pad_token_id": 0})
    net = hf.SmolVLMForConditionalGeneration(hf.SmolVLMConfig(vision_config=vision, text_config=text.to_dict(), image_token_id=IMAGE, scale_factor=2))
    return conversation(net, IMAGE, 4, torch.randn(3, 1, 3, 32, 32, generator=generator(12)))


def gemma3():
    text = GROUPED | {"vocab_size": WORDS, "sliding_window": 8, "query_pre_attn_scalar": 8, "layer_types": SLIDING}
    net = hf.Gemma3ForConditionalGeneration(hf.Gemma3Config(text_config=text, vision_config=dict(VISION), mm_tokens_per_image=4, image_token_index=IMAGE, boi_token_index=1, eoi_token_index=2))
    return conversation(net, IMAGE, 4, torch.randn(3, 3, 32, 32, generator=generator(12)))


def qwen2_vl():
    """The whole model in FixedGrid: each text has one picture of 4 x 4 patches, which the tower merges to 2 x 2."""
    text = TEXT | {"vocab_size": WORDS, "num_key_value_heads": 2, "rope_parameters": {"rope_type": "default", "mrope_section": [2, 1, 1], "rope_theta": 10000.0}}
    vision = {"depth": 2, "embed_dim": 32, "hidden_size": 32, "num_heads": 4, "mlp_ratio": 2, "patch_size": 4, "temporal_patch_size": 2, "spatial_merge_size": 2}
    net = hf.Qwen2VLForConditionalGeneration(hf.Qwen2VLConfig(text_config=text, vision_config=vision, image_token_id=IMAGE, video_token_id=IMAGE + 1, vision_start_token_id=1, vision_end_token_id=2))
    return fixed_grid(net)


def qwen2_5_vl():
    text = TEXT | {"vocab_size": WORDS, "num_key_value_heads": 2, "rope_parameters": {"rope_type": "default", "mrope_section": [2, 1, 1], "rope_theta": 10000.0}}
    vision = {"depth": 2, "hidden_size": 32, "out_hidden_size": 32, "intermediate_size": 64, "num_heads": 4, "patch_size": 4, "temporal_patch_size": 2, "spatial_merge_size": 2, "window_size": 8, "fullatt_block_indexes": [1]}
    net = hf.Qwen2_5_VLForConditionalGeneration(hf.Qwen2_5_VLConfig(text_config=text, vision_config=vision, image_token_id=IMAGE, video_token_id=IMAGE + 1, vision_start_token_id=1, vision_end_token_id=2))
    return fixed_grid(net)


def fixed_grid(net):
    module = FixedGrid(net, (1, 4, 4))
    model = conversation(net, IMAGE, module.image_tokens, torch.randn(3, 16, 96, generator=generator(12)))
    model.module, model.source = module, model.source + " in FixedGrid"
    model.inputs["position_ids"] = module.positions(model.inputs["input_ids"])
    model.dims["position_ids"] = {0: "batch", 2: "seq"}
    return model


CLIP_VISION = VISION | {"projection_dim": 32}
LLAMA4_VISION = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128, "image_size": 28, "patch_size": 7, "vision_output_dim": 32, "projector_input_dim": 32, "projector_output_dim": 32}
IMAGES_AND_TEXT = {
    "CLIP": lambda: pairs(hf.CLIPModel, hf.CLIPConfig(text_config=TEXT | SPECIAL, vision_config=CLIP_VISION, projection_dim=32), "clip_contrastive"),
    "SigLIP": lambda: pairs(hf.SiglipModel, hf.SiglipConfig(text_config=TEXT | {"max_position_embeddings": 16, "projection_size": 32}, vision_config=VISION), "sigmoid_contrastive"),
    "SigLIP 2": siglip2,
    "LLaVA": llava,
    "PaliGemma": paligemma,
    "SmolVLM": smolvlm,
    "Gemma 3": gemma3,
    "Llama 4 (vision)": lambda: dense(hf.Llama4VisionModel(hf.Llama4VisionConfig(**LLAMA4_VISION)), ["last_hidden_state"], side=28),
    "Qwen2-VL": qwen2_vl,
    "Qwen2.5-VL": qwen2_5_vl,
}  # fmt: skip


# --- timm --------------------------------------------------------------------


def timm_classifier(name, side=32, **settings):
    import timm

    g = generator(19)
    # Some registered names fix their sizes: there the class is called itself.
    net = timm.create_model(name, num_classes=LABELS, **settings) if timm.is_model(name) else getattr(timm.models, name)(num_classes=LABELS, **settings)
    return Model(
        name="", source=f"timm {name}", module=net, inputs={"image": torch.randn(4, 3, side, side, generator=g)}, outputs=["logits"], dims={"image": {0: "batch"}},
        loss=cross_entropy(), targets={"labels": torch.randint(0, LABELS, (4,), generator=g)},
    )  # fmt: skip


TRANSFORMER = {"embed_dim": 32, "depth": 2, "num_heads": 4, "img_size": 32, "patch_size": 8}
TIMM = {
    "timm ViT": lambda: timm_classifier("vit_base_patch16_224", **TRANSFORMER),
    "timm DeiT III": lambda: timm_classifier("deit3_small_patch16_224", **TRANSFORMER),
    "timm EVA-02": lambda: timm_classifier("eva02_tiny_patch14_224", **TRANSFORMER),
    "timm ResNet": lambda: timm_classifier("resnet50", layers=[1, 1, 1, 1], channels=[8, 16, 16, 32]),
    "timm EfficientNet": lambda: timm_classifier("test_efficientnet"),
    "timm MobileNetV3": lambda: timm_classifier("mobilenetv3_small_050"),
    "timm RegNetY": lambda: timm_classifier("regnety_002"),
    "timm ConvNeXt V2": lambda: timm_classifier("convnextv2_atto", depths=(1, 1, 1, 1), dims=(8, 16, 16, 32)),
    "timm MLP-Mixer": lambda: timm_classifier("MlpMixer", img_size=32, patch_size=8, embed_dim=32, num_blocks=2),
    "timm DenseNet": lambda: timm_classifier("densenet121", block_config=(1, 1, 1, 1), growth_rate=8),
}  # fmt: skip


FAMILIES = {
    "Language models": {name: functools.partial(decoder, config, **settings) for name, (config, settings) in DECODERS.items()},
    "Text encoders": {name: (lambda net=net, config=config: masked(net, config())) for name, (net, config) in ENCODERS.items()},
    "Encoder and decoder": {name: (lambda net=net, config=config: translator(net, config())) for name, (net, config) in TRANSLATORS.items()},
    "Audio": AUDIO,
    "Images": IMAGES,
    "Images and text": IMAGES_AND_TEXT,
    "Image generators (diffusers)": GENERATORS,
    "Images (timm)": TIMM,
}


def make(name, families=None):
    """The golden.Model of that architecture, with a file name for `name`."""
    for family in (families or FAMILIES).values():
        if name in family:
            torch.manual_seed(0)
            model = family[name]()
            model.name = file_name(name)
            return model
    raise KeyError(name)


def file_name(name):
    return "".join(c if c.isalnum() else "_" for c in name.lower())
