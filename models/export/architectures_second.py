# ===- architectures_second.py - the second list of networks, made tiny -------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A second list in the form of architectures.py, chosen by hand before any of it was
# tried: scans and linear attention, sparse and hashed attention, audio codecs,
# detectors that sample pictures, hierarchical vision, video and fusion encoders.
# ===-----------------------------------------------------------------------===
"""FAMILIES: title -> {name: function that makes a golden.Model}."""

from __future__ import annotations

import functools

import torch
import transformers as hf

from .architectures import GROUPED, LABELS, SLIDING, SPECIAL, TEXT, VISION, classifier, decoder, dense, hybrid, masked, pairs, timm_classifier, translator
from .extra import SEQ, VOCABULARY, cross_entropy, generator, tokens
from .generators_second import GENERATORS, fitted
from .golden import Model
from .wrappers import Pick

# --- language models ---------------------------------------------------------


def fixed_length(config_class, **settings):
    """A language model whose scan or chunks fix the length of a text."""
    model = decoder(config_class, **settings)
    model.dims, model.bound = {"input_ids": {0: "batch"}}, {}
    return model


LAYERS = {k: v for k, v in GROUPED.items() if k != "num_hidden_layers"}
LINEAR = {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2}
DECODERS = {
    "Granite": (decoder, hf.GraniteConfig, TEXT | {"num_key_value_heads": 2, "embedding_multiplier": 3.0, "residual_multiplier": 0.5, "attention_multiplier": 0.25, "logits_scaling": 2.0}),
    "Cohere": (decoder, hf.CohereConfig, TEXT | SPECIAL | {"num_key_value_heads": 2, "use_qk_norm": True}),
    "Cohere 2": (decoder, hf.Cohere2Config, hybrid(SLIDING, **LAYERS, **SPECIAL, sliding_window=8)),
    "GLM-4": (decoder, hf.Glm4Config, GROUPED | SPECIAL),
    "Nemotron": (decoder, hf.NemotronConfig, GROUPED),
    "SmolLM3": (decoder, hf.SmolLM3Config, TEXT | SPECIAL | {"num_key_value_heads": 2, "no_rope_layers": [1, 0]}),
    "OLMoE": (decoder, hf.OlmoeConfig, TEXT | SPECIAL | EXPERTS),
    "ERNIE 4.5": (decoder, hf.Ernie4_5Config, GROUPED),
    "Gemma 3n (text)": (decoder, hf.Gemma3nTextConfig, hybrid([*SLIDING, *SLIDING], **LAYERS, sliding_window=8, vocab_size_per_layer_input=VOCABULARY, hidden_size_per_layer_input=8, altup_num_inputs=2, num_kv_shared_layers=2, laurel_rank=4, activation_sparsity_pattern=[0.95, 0.0, 0.0, 0.0])),
    "MPT": (decoder, hf.MptConfig, {"vocab_size": VOCABULARY, "d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 64}),
    "Persimmon": (decoder, hf.PersimmonConfig, TEXT),
    "LFM2": (decoder, hf.Lfm2Config, hybrid(["conv", "full_attention"], **{k: v for k, v in LAYERS.items() if k != "head_dim"}, block_multiple_of=8)),
    "RecurrentGemma": (fixed_length, hf.RecurrentGemmaConfig, {k: v for k, v in GROUPED.items() if k != "max_position_embeddings"} | {"lru_width": 32, "attention_window_size": 8, "block_types": ["recurrent", "attention"]}),
    "Mamba-2": (fixed_length, hf.Mamba2Config, {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8, "num_heads": 8, "head_dim": 8, "n_groups": 2, "chunk_size": 8}),
    "Bamba": (fixed_length, hf.BambaConfig, TEXT | {"num_key_value_heads": 2, "attn_layer_indices": [1], "mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_chunk_size": 8}),
    "Jamba": (fixed_length, hf.JambaConfig, TEXT | {"num_key_value_heads": 2, "attn_layer_period": 2, "attn_layer_offset": 1, "num_experts": 2, "mamba_d_state": 8, "mamba_dt_rank": 4}),
    "Qwen3-Next": (fixed_length, hf.Qwen3NextConfig, hybrid(["linear_attention", "full_attention"], **LAYERS, **LINEAR, **EXPERTS, moe_intermediate_size=16, shared_expert_intermediate_size=16)),
    "MiniMax": (fixed_length, hf.MiniMaxConfig, hybrid(["linear_attention", "full_attention"], **LAYERS, num_local_experts=4, num_experts_per_tok=2, block_size=8)),
    "RWKV-4": (fixed_length, hf.RwkvConfig, {"rescale_every": 0, "vocab_size": VOCABULARY, "hidden_size": 32, "attention_hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 64, "context_length": 64}),
}  # fmt: skip

WORDS = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
ENCODERS = {
    "MPNet": (hf.MPNetForMaskedLM, lambda: hf.MPNetConfig(**TEXT | WORDS)),
    "Longformer": (hf.LongformerForMaskedLM, lambda: hf.LongformerConfig(**TEXT | WORDS | {"attention_window": 8})),
    "BigBird (original_full)": (hf.BigBirdForMaskedLM, lambda: hf.BigBirdConfig(**TEXT | SPECIAL, attention_type="original_full")),
    "Funnel": (hf.FunnelForMaskedLM, lambda: hf.FunnelConfig(vocab_size=VOCABULARY, block_sizes=[1, 1], num_decoder_layers=1, d_model=32, n_head=4, d_head=8, d_inner=64)),
    "NomicBERT": (hf.NomicBertForMaskedLM, lambda: hf.NomicBertConfig(**TEXT | {"head_dim": 8})),
    "EuroBERT": (hf.EuroBertForMaskedLM, lambda: hf.EuroBertConfig(**GROUPED | SPECIAL)),
}  # fmt: skip


def fixed_text(net_class, config):
    """An encoder whose windows or pooling fix the length of a text."""
    model = masked(net_class, config)
    model.dims, model.bound = {k: {0: "batch"} for k in model.inputs}, {}
    return model


TRANSLATED = {"vocab_size": VOCABULARY, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64}
PROPHET = {"vocab_size": VOCABULARY, "hidden_size": 32, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "num_encoder_layers": 1, "num_decoder_layers": 1, "num_encoder_attention_heads": 4, "num_decoder_attention_heads": 4}
TRANSLATORS = {
    "UMT5": (hf.UMT5ForConditionalGeneration, lambda: hf.UMT5Config(vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_decoder_layers=2, num_heads=4, relative_attention_num_buckets=8, relative_attention_max_distance=16)),
    "Pegasus": (hf.PegasusForConditionalGeneration, lambda: hf.PegasusConfig(**TRANSLATED, max_position_embeddings=64)),
    "M2M-100": (hf.M2M100ForConditionalGeneration, lambda: hf.M2M100Config(**TRANSLATED, max_position_embeddings=64, pad_token_id=1)),
    "ProphetNet": (hf.ProphetNetForConditionalGeneration, lambda: hf.ProphetNetConfig(**PROPHET, max_position_embeddings=64)),
}  # fmt: skip


# --- audio -------------------------------------------------------------------

WAVE = {
    "vocab_size": LABELS, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "conv_dim": [16, 16, 16], "conv_stride": [5, 2, 2],
    "conv_kernel": [10, 3, 3], "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4, "mask_time_prob": 0.0,
}  # fmt: skip


def speech(net, samples=800):
    """A label for every frame of a wave."""
    g = generator(5)
    wave = torch.randn(3, samples, generator=g)
    frames = net.eval()(wave).logits.shape[1]
    return Model(
        name="", source=f"transformers.{type(net).__name__} (a label a frame)", module=Pick(net, ["input_values"], "logits"), inputs={"wave": wave}, outputs=["logits"],
        dims={"wave": {0: "batch"}}, loss=cross_entropy(), targets={"labels": torch.randint(0, LABELS, (3, frames), generator=g)},
    )  # fmt: skip


def wave(samples=640):
    return {"input_values": torch.randn(3, 1, samples, generator=generator(5))}


def moonshine():
    g = generator(4)
    config = hf.MoonshineConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=64, encoder_num_hidden_layers=2, decoder_num_hidden_layers=2, encoder_num_attention_heads=4, decoder_num_attention_heads=4, max_position_embeddings=64
    )
    target = tokens(3, 11, g)
    return Model(
        name="", source="transformers.MoonshineForConditionalGeneration", module=Pick(hf.MoonshineForConditionalGeneration(config), ["input_values", "decoder_input_ids"], "logits", use_cache=False),
        inputs={"wave": torch.randn(3, 4000, generator=g), "decoder_input_ids": target[:, :-1].contiguous()}, outputs=["logits"],
        dims={"wave": {0: "batch"}, "decoder_input_ids": {0: "batch"}}, loss=cross_entropy(), targets={"labels": target[:, 1:].contiguous()},
    )  # fmt: skip


class Codec(torch.nn.Module):
    """Encoder and decoder of an audio codec, without its table of codes."""

    def __init__(self, net):
        super().__init__()
        self.encoder, self.decoder = net.encoder, net.decoder

    def forward(self, input_values):
        return {"wave": self.decoder(self.encoder(input_values))}


def encodec():
    config = hf.EncodecConfig(num_filters=4, hidden_size=16, upsampling_ratios=[4, 2], codebook_size=8, codebook_dim=16, num_lstm_layers=1)
    return fitted(Codec(hf.EncodecModel(config)), wave(64), "wave", "transformers.EncodecModel (encoder, decoder)")


def dac():
    config = hf.DacConfig(encoder_hidden_size=4, downsampling_ratios=[2, 4], decoder_hidden_size=16, n_codebooks=2, codebook_size=8, codebook_dim=4, upsampling_ratios=[4, 2])
    return fitted(hf.DacModel(config), wave(128), "audio_values")


def qwen2_audio():
    config = hf.Qwen2AudioEncoderConfig(num_mel_bins=16, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=64, d_model=32, max_source_positions=24)
    return fitted(hf.Qwen2AudioEncoder(config), {"input_features": torch.randn(3, 16, 48, generator=generator(4))}, "last_hidden_state")


def clap_audio():
    config = hf.ClapAudioConfig(
        window_size=4, num_mel_bins=16, spec_size=64, patch_size=4, patch_stride=[4, 4], num_classes=8, hidden_size=32, projection_dim=16, depths=[1, 1], num_attention_heads=[2, 4],
        enable_fusion=False, patch_embeds_hidden_size=16, flatten_patch_embeds=True, aff_block_r=2,
    )  # fmt: skip
    return fitted(hf.ClapAudioModel(config), {"input_features": torch.randn(3, 1, 256, 16, generator=generator(4))}, "last_hidden_state")


AUDIO = {
    "HuBERT": lambda: speech(hf.HubertForCTC(hf.HubertConfig(**WAVE, num_feat_extract_layers=3))),
    "WavLM": lambda: speech(hf.WavLMForCTC(hf.WavLMConfig(**WAVE, num_feat_extract_layers=3, num_buckets=16, max_bucket_distance=32))),
    "wav2vec 2.0 Conformer": lambda: speech(hf.Wav2Vec2ConformerForCTC(hf.Wav2Vec2ConformerConfig(**WAVE, num_feat_extract_layers=3, conv_depthwise_kernel_size=7))),
    "SEW": lambda: speech(hf.SEWForCTC(hf.SEWConfig(**WAVE, squeeze_factor=2, apply_spec_augment=False))),
    "Moonshine": moonshine,
    "EnCodec": encodec,
    "DAC": dac,
    "Qwen2-Audio (encoder)": qwen2_audio,
    "CLAP (audio)": clap_audio,
}  # fmt: skip


# --- images and video --------------------------------------------------------


def mae():
    g = generator(8)
    net = hf.ViTMAEForPreTraining(hf.ViTMAEConfig(**VISION, decoder_hidden_size=16, decoder_num_hidden_layers=1, decoder_num_attention_heads=2, decoder_intermediate_size=32))
    return fitted(net, {"pixel_values": torch.randn(3, 3, 32, 32, generator=g), "noise": torch.rand(3, 16, generator=g)}, "logits")


def tiny_backbone():
    return hf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], layer_type="basic", out_features=["stage2", "stage3", "stage4"])


DETECTOR = {"d_model": 32, "num_queries": 6, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64}


def deformable_detr():
    config = hf.DeformableDetrConfig(backbone_config=tiny_backbone(), **DETECTOR, num_feature_levels=3, encoder_n_points=2, decoder_n_points=2, num_labels=LABELS)
    return dense(hf.DeformableDetrForObjectDetection(config), ["pred_boxes", "logits"], side=64)


def rt_detr():
    backbone = hf.RTDetrResNetConfig(embedding_size=8, hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], layer_type="basic", out_features=["stage2", "stage3", "stage4"])
    settings = {k: v for k, v in DETECTOR.items() if k not in ("encoder_layers", "encoder_ffn_dim", "encoder_attention_heads")} | {"num_queries": 3}
    config = hf.RTDetrConfig(backbone_config=backbone, **settings, encoder_hidden_dim=32, encoder_in_channels=[8, 16, 16], encoder_ffn_dim=64, encoder_attention_heads=4, decoder_in_channels=[32, 32, 32], decoder_n_points=2, num_labels=LABELS)
    return dense(hf.RTDetrForObjectDetection(config), ["pred_boxes", "logits"], side=64)


def swin_backbone():
    return hf.SwinConfig(image_size=64, patch_size=4, embed_dim=8, depths=[1, 1, 1, 1], num_heads=[1, 2, 2, 4], window_size=2, out_features=["stage1", "stage2", "stage3", "stage4"])


def mask2former():
    config = hf.Mask2FormerConfig(
        backbone_config=swin_backbone(), feature_size=32, mask_feature_size=32, hidden_dim=32, encoder_feedforward_dim=32, encoder_layers=1, decoder_layers=3, num_attention_heads=4, dim_feedforward=32, num_queries=5, num_labels=LABELS
    )
    return dense(hf.Mask2FormerModel(config), ["transformer_decoder_last_hidden_state"], side=64)


def maskformer():
    decoder_config = hf.DetrConfig(d_model=32, encoder_layers=1, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=32, decoder_ffn_dim=32, num_queries=5)
    config = hf.MaskFormerConfig(backbone_config=swin_backbone(), decoder_config=decoder_config, fpn_feature_size=32, mask_feature_size=32, num_labels=LABELS)
    return dense(hf.MaskFormerModel(config), ["transformer_decoder_last_hidden_state", "pixel_decoder_last_hidden_state"], side=64)


def dpt():
    layers = {k: v for k, v in VISION.items() if k != "num_hidden_layers"}
    config = hf.DPTConfig(**layers, num_hidden_layers=4, backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[8, 8, 16, 16], fusion_hidden_size=16, use_auxiliary_head=False)
    return dense(hf.DPTForDepthEstimation(config), ["predicted_depth"])


def levit():
    config = hf.LevitConfig(image_size=128, hidden_sizes=[16, 24, 32], num_attention_heads=[2, 3, 4], depths=[1, 1, 1], key_dim=[8, 8, 8], num_labels=LABELS)
    model = classifier(hf.LevitForImageClassification, config, side=128)
    model.training = True  # in evaluation it keeps its tables of biases from one call to the next
    return model


def video(net, output, frames=4, side=32):
    return fitted(net, {"pixel_values": torch.randn(2, frames, 3, side, side, generator=generator(8))}, output)


def vjepa2():
    config = hf.VJEPA2Config(patch_size=8, crop_size=32, frames_per_clip=4, hidden_size=48, num_attention_heads=2, num_hidden_layers=2, mlp_ratio=2.0, pred_hidden_size=48, pred_num_attention_heads=2, pred_num_hidden_layers=1)
    return fitted(hf.VJEPA2Model(config), {"pixel_values_videos": torch.randn(2, 4, 3, 32, 32, generator=generator(8))}, "last_hidden_state", skip_predictor=True)


def efficientformer():
    model = timm_classifier("efficientformer_l1", side=224, embed_dims=(8, 16, 16, 32), depths=(1, 1, 1, 2), num_vit=1)
    model.training = True  # as for LeViT
    return model


STAGES = {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 8, 16, 16]}
SWIN2 = {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [2, 1], "num_heads": [2, 4], "window_size": 4, "num_labels": LABELS}
CVT = {"embed_dim": [8, 16, 32], "num_heads": [1, 2, 4], "depth": [1, 2, 3], "mlp_ratio": [2.0, 2.0, 2.0], "drop_path_rate": [0.0, 0.0, 0.0], "num_labels": LABELS}
SAM = {"hidden_size": 32, "output_channels": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 32, "patch_size": 4, "window_size": 3, "global_attn_indexes": [1], "mlp_dim": 64}
IMAGES = {
    "ViT-MAE": mae,
    "Swin V2": lambda: classifier(hf.Swinv2ForImageClassification, hf.Swinv2Config(**SWIN2)),
    "CvT": lambda: classifier(hf.CvtForImageClassification, hf.CvtConfig(**CVT)),
    "PVT v2": lambda: classifier(hf.PvtV2ForImageClassification, hf.PvtV2Config(image_size=64, **STAGES, num_attention_heads=[1, 2, 2, 4], mlp_ratios=[2, 2, 2, 2], num_labels=LABELS), side=64),
    "LeViT": levit,
    "MobileViT": lambda: classifier(hf.MobileViTForImageClassification, hf.MobileViTConfig(image_size=64, hidden_sizes=[16, 24, 32], neck_hidden_sizes=[4, 8, 8, 16, 16, 16, 32], num_attention_heads=2, num_labels=LABELS), side=64),
    "PoolFormer": lambda: classifier(hf.PoolFormerForImageClassification, hf.PoolFormerConfig(**STAGES, num_labels=LABELS), side=64),
    "Hiera": lambda: classifier(hf.HieraForImageClassification, hf.HieraConfig(image_size=[32, 32], patch_size=[3, 3], patch_stride=[2, 2], patch_padding=[1, 1], embed_dim=8, depths=[1, 1, 1], num_heads=[1, 2, 4], num_query_pool=2, masked_unit_size=[4, 4], masked_unit_attention=[True, True, False], num_labels=LABELS)),
    "SAM (image encoder)": lambda: dense(hf.SamVisionModel(hf.SamVisionConfig(**SAM)), ["last_hidden_state"]),
    "DPT": dpt,
    "MaskFormer": maskformer,
    "Mask2Former": mask2former,
    "Deformable DETR": deformable_detr,
    "RT-DETR": rt_detr,
    "VideoMAE": lambda: video(hf.VideoMAEModel(hf.VideoMAEConfig(**VISION, num_frames=4)), "last_hidden_state"),
    "TimeSformer": lambda: video(hf.TimesformerModel(hf.TimesformerConfig(**VISION, num_frames=4)), "last_hidden_state"),
    "ViViT": lambda: video(hf.VivitModel(hf.VivitConfig(**{k: v for k, v in VISION.items() if k != "patch_size"}, num_frames=4, tubelet_size=[2, 8, 8])), "last_hidden_state"),
    "V-JEPA 2": vjepa2,
    "timm MaxViT": lambda: timm_classifier("maxvit_tiny_rw_224", side=64, img_size=64, embed_dim=(32, 32, 32, 32), depths=(1, 1, 1, 1), stem_width=8),
    "timm CoAtNet": lambda: timm_classifier("coatnet_nano_rw_224", side=64, img_size=64, embed_dim=(32, 32, 32, 32), depths=(1, 1, 1, 1), stem_width=(8, 8)),
    "timm EfficientFormer": efficientformer,
}  # fmt: skip


# --- images and text ---------------------------------------------------------


def picture_and_words(net, output, names=("input_ids", "pixel_values"), side=32, more=(), **fixed):
    g = generator(9)
    inputs = {"input_ids": tokens(3, 16, g), "pixel_values": torch.randn(3, 3, side, side, generator=g)} | dict(more)
    return fitted(net, {n: inputs[n] for n in (*names, *dict(more))}, output, **fixed)


def q_former():
    g = generator(9)
    config = hf.Blip2QFormerConfig(**TEXT, encoder_hidden_size=24, cross_attention_frequency=2)
    inputs = {"query_embeds": torch.randn(3, 5, 32, generator=g), "encoder_hidden_states": torch.randn(3, 9, 24, generator=g)}
    return fitted(hf.Blip2QFormerModel(config), inputs, "last_hidden_state")


def blip():
    text = TEXT | {"encoder_hidden_size": 32, "projection_dim": 32, "bos_token_id": 1, "sep_token_id": 2}
    net = hf.BlipForConditionalGeneration(hf.BlipConfig(text_config=text, vision_config=VISION, projection_dim=32, image_text_hidden_size=32))
    return picture_and_words(net, "logits", ("pixel_values", "input_ids"))


def florence2():
    text = hf.BartConfig(**TRANSLATED, max_position_embeddings=64)
    vision = {"depths": [1, 1], "patch_size": [7, 3], "patch_stride": [4, 2], "patch_padding": [3, 1], "patch_prenorm": [False, True], "embed_dim": [16, 32], "num_heads": [2, 4], "num_groups": [2, 4], "window_size": 4, "drop_path_rate": 0.0, "projection_dim": 32}
    net = hf.Florence2ForConditionalGeneration(hf.Florence2Config(text_config=text.to_dict(), vision_config=vision, image_token_id=VOCABULARY - 1))
    return fitted(net.model.vision_tower, {"hidden_states": torch.randn(3, 3, 32, 32, generator=generator(9))}, "last_hidden_state", "transformers.Florence2VisionBackbone")


def bridge_tower():
    text = {"vocab_size": VOCABULARY, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "max_position_embeddings": 64}
    vision = {"hidden_size": 64, "num_hidden_layers": 2, "patch_size": 8, "image_size": 32}
    net = hf.BridgeTowerModel(hf.BridgeTowerConfig(text_config=text, vision_config=vision, hidden_size=64, num_hidden_layers=2, num_attention_heads=4))
    return picture_and_words(net, "text_features", more={"attention_mask": torch.ones(3, 16, dtype=torch.int64)})


def vilt():
    net = hf.ViltModel(hf.ViltConfig(**TEXT | VISION))
    return picture_and_words(net, "last_hidden_state", more={"attention_mask": torch.ones(3, 16, dtype=torch.int64)})


def align():
    text = hf.AlignTextConfig(**TEXT).to_dict()
    vision = {"image_size": 64, "width_coefficient": 0.25, "depth_coefficient": 0.3, "depth_divisor": 8, "kernel_sizes": [3, 5], "in_channels": [32, 16], "out_channels": [16, 24], "strides": [1, 2], "num_block_repeats": [1, 1], "expand_ratios": [1, 6], "depthwise_padding": [], "hidden_dim": 32}
    return pairs(hf.AlignModel, hf.AlignConfig(text_config=text, vision_config=vision, projection_dim=8), "clip_contrastive", side=64)


def group_vit():
    vision = VISION | {"depths": [1, 1], "num_group_tokens": [4, 0], "num_output_groups": [4, 4], "image_size": 64}
    config = hf.GroupViTConfig(text_config=TEXT | {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}, vision_config=vision, projection_dim=16, projection_intermediate_dim=32)
    return fitted(hf.GroupViTModel(config).vision_model, {"pixel_values": torch.randn(3, 3, 64, 64, generator=generator(9))}, "pooler_output")


def owl_vit():
    config = hf.OwlViTConfig(text_config=TEXT | SPECIAL, vision_config=VISION, projection_dim=32)
    return picture_and_words(hf.OwlViTForObjectDetection(config), "pred_boxes")


def grounding_dino():
    text = TEXT | {"type_vocab_size": 2}
    settings = {k: v for k, v in DETECTOR.items()}
    config = hf.GroundingDinoConfig(backbone_config=swin_backbone(), text_config=text, **settings, num_feature_levels=4, encoder_n_points=2, decoder_n_points=2, max_text_len=16)
    return picture_and_words(hf.GroundingDinoModel(config), "last_hidden_state", ("pixel_values", "input_ids"), side=64)


def perceiver():
    config = hf.PerceiverConfig(num_latents=6, d_latents=16, d_model=32, num_self_attends_per_block=2, num_self_attention_heads=2, num_cross_attention_heads=2, vocab_size=VOCABULARY, max_position_embeddings=SEQ)
    return fixed_text_of(hf.PerceiverForMaskedLM(config))


def fixed_text_of(net):
    g = generator(2)
    ids = tokens(4, SEQ, g)
    return Model(
        name="", source=f"transformers.{type(net).__name__}", module=Pick(net, ["inputs"], "logits"), inputs={"input_ids": ids}, outputs=["logits"],
        dims={"input_ids": {0: "batch"}}, loss=cross_entropy(), targets={"labels": ids},
    )  # fmt: skip


def mllama():
    rope = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "original_max_position_embeddings": 32, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    settings = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 64, "max_position_embeddings": 64, "cross_attention_layers": [1]}
    g = generator(9)
    inputs = {"input_ids": tokens(3, 16, g), "cross_attention_states": torch.randn(3, 9, 32, generator=g)}
    return fitted(hf.MllamaForCausalLM(hf.MllamaTextConfig(**settings, **SPECIAL, rope_parameters=rope)), inputs, "logits", use_cache=False)


IMAGES_AND_TEXT = {
    "BLIP": blip,
    "BLIP-2 (Q-Former)": q_former,
    "Florence-2 (DaViT)": florence2,
    "ALIGN": align,
    "Chinese-CLIP": lambda: pairs(hf.ChineseCLIPModel, hf.ChineseCLIPConfig(text_config=TEXT, vision_config=VISION | {"projection_dim": 32}, projection_dim=32), "clip_contrastive"),
    "AltCLIP": lambda: pairs(hf.AltCLIPModel, hf.AltCLIPConfig(text_config=TEXT | {"project_dim": 32, "pad_token_id": 1}, vision_config=VISION | {"projection_dim": 32}, projection_dim=32), "clip_contrastive"),
    "GroupViT (vision)": group_vit,
    "BridgeTower": bridge_tower,
    "ViLT": vilt,
    "OWL-ViT": owl_vit,
    "Grounding DINO": grounding_dino,
    "Perceiver": perceiver,
    "Llama 3.2 Vision (text)": mllama,
    "InternVL (vision)": lambda: dense(hf.InternVLVisionModel(hf.InternVLVisionConfig(**VISION | {"image_size": [32, 32], "patch_size": [8, 8]}, use_qk_norm=True)), ["last_hidden_state"]),
}  # fmt: skip


FIXED_TEXT = {"Longformer", "Funnel"}
FAMILIES = {
    "Language models": {name: functools.partial(make, config, **settings) for name, (make, config, settings) in DECODERS.items()},
    "Text encoders": {name: (lambda net=net, config=config, make=fixed_text if name in FIXED_TEXT else masked: make(net, config())) for name, (net, config) in ENCODERS.items()},
    "Encoder and decoder": {name: (lambda net=net, config=config: translator(net, config())) for name, (net, config) in TRANSLATORS.items()},
    "Audio": AUDIO,
    "Images and video": IMAGES,
    "Images and text": IMAGES_AND_TEXT,
    "Generators (diffusers)": GENERATORS,
}
