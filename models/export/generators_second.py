# ===- generators_second.py - generators of pictures, films and sound --------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# The networks of diffusers in the second list of coverage.py (architectures_second.py).
# ===-----------------------------------------------------------------------===
"""GENERATORS: name -> function that makes a golden.Model."""

from __future__ import annotations

import torch

from .extra import generator
from .generators import diffusion, latents
from .golden import Model
from .wrappers import Pick


def fitted(net, inputs, output, source=None, names=None, varies="batch", **fixed):
    """A network whose output is fitted to a target of the shape that it has; inputs named `names` in the call."""
    module = Pick(net, names or list(inputs), output, **fixed)
    with torch.no_grad():
        given = module.eval()(*inputs.values())[0]
    return Model(
        name="", source=source or f"transformers.{type(net).__name__}", module=module, inputs=inputs, outputs=[output], dims={k: {0: varies} for k, v in inputs.items() if v.dim() > 0},
        loss={"kind": "mse", "output": output, "target": "target"}, targets={"target": torch.randn(given.shape, generator=generator(8))},
    )  # fmt: skip


# --- image and video generators ----------------------------------------------


def noise(net, inputs, shape=(3, 4, 8, 8), names=None, **fixed):
    return diffusion(Pick(net, names or list(inputs), "sample", **fixed), inputs, shape, type(net).__name__)


def conditioned(g, shape=(3, 4, 8, 8), rows=(3, 7, 24), steps=(7, 503, 88)):
    return {"hidden_states": torch.randn(*shape, generator=g), "encoder_hidden_states": torch.randn(*rows, generator=g), "timestep": torch.tensor(steps)}


def clip(frames=2):
    """A short film's latent, the words for it and their mask."""
    g = generator(20)
    return conditioned(g, (3, 4, frames, 8, 8))


def sana():
    import diffusers

    net = diffusers.SanaTransformer2DModel(in_channels=4, out_channels=4, num_attention_heads=4, attention_head_dim=8, num_layers=2, num_cross_attention_heads=4, cross_attention_head_dim=8, cross_attention_dim=32, caption_channels=24, sample_size=8)
    return noise(net, conditioned(generator(20)))


def aura_flow():
    import diffusers

    net = diffusers.AuraFlowTransformer2DModel(sample_size=8, patch_size=2, num_mmdit_layers=1, num_single_dit_layers=1, attention_head_dim=8, num_attention_heads=4, joint_attention_dim=24, caption_projection_dim=32, pos_embed_max_size=16)
    return noise(net, conditioned(generator(20), steps=(0.1, 0.5, 0.9)))


def hunyuan_dit():
    import diffusers

    g = generator(20)
    net = diffusers.HunyuanDiT2DModel(num_attention_heads=4, attention_head_dim=8, in_channels=4, patch_size=2, sample_size=8, hidden_size=32, num_layers=2, cross_attention_dim=24, cross_attention_dim_t5=24, pooled_projection_dim=24, text_len=4, text_len_t5=4, use_style_cond_and_image_meta_size=False)
    inputs = {"hidden_states": torch.randn(3, 4, 8, 8, generator=g), "timestep": torch.tensor([7.0, 503, 88]), "encoder_hidden_states": torch.randn(3, 4, 24, generator=g),
              "text_embedding_mask": torch.ones(3, 4), "encoder_hidden_states_t5": torch.randn(3, 4, 24, generator=g), "text_embedding_mask_t5": torch.ones(3, 4)}  # fmt: skip
    rotation = tuple(torch.randn(16, 8, generator=g) for _ in range(2))
    return noise(net, inputs, (3, 8, 8, 8), image_rotary_emb=rotation)


def cog_video():
    import diffusers

    g = generator(20)
    net = diffusers.CogVideoXTransformer3DModel(num_attention_heads=4, attention_head_dim=8, in_channels=4, out_channels=4, time_embed_dim=8, text_embed_dim=24, num_layers=2, sample_width=8, sample_height=8, sample_frames=5, max_text_seq_length=7)
    return noise(net, conditioned(g, (3, 2, 4, 8, 8)), (3, 2, 4, 8, 8))


def wan():
    import diffusers

    net = diffusers.WanTransformer3DModel(num_attention_heads=4, attention_head_dim=12, in_channels=4, out_channels=4, text_dim=24, freq_dim=16, ffn_dim=32, num_layers=2, rope_max_seq_len=16)
    return noise(net, clip(), (3, 4, 2, 8, 8))


def ltx():
    import diffusers

    g = generator(20)
    net = diffusers.LTXVideoTransformer3DModel(in_channels=4, out_channels=4, num_attention_heads=4, attention_head_dim=8, cross_attention_dim=32, num_layers=2, caption_channels=24)
    inputs = conditioned(g, (3, 32, 4)) | {"encoder_attention_mask": torch.ones(3, 7)}
    return noise(net, inputs, (3, 32, 4), num_frames=2, height=4, width=4)


def mochi():
    import diffusers

    net = diffusers.MochiTransformer3DModel(num_attention_heads=4, attention_head_dim=8, num_layers=2, pooled_projection_dim=16, in_channels=4, text_embed_dim=24, time_embed_dim=8, max_sequence_length=7)
    return noise(net, clip() | {"encoder_attention_mask": torch.ones(3, 7)}, (3, 4, 2, 8, 8))


def qwen_image():
    import diffusers

    g = generator(20)
    net = diffusers.QwenImageTransformer2DModel(patch_size=2, in_channels=16, out_channels=4, num_layers=2, attention_head_dim=16, num_attention_heads=2, joint_attention_dim=24, axes_dims_rope=(4, 6, 6))
    return noise(net, conditioned(g, (3, 16, 16), steps=(0.1, 0.5, 0.9)), (3, 16, 16), img_shapes=[[(1, 4, 4)]] * 3)


def control_net():
    import diffusers

    g = generator(20)
    net = diffusers.ControlNetModel(down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), block_out_channels=(16, 32), layers_per_block=1, norm_num_groups=8, cross_attention_dim=24, attention_head_dim=4, conditioning_embedding_out_channels=(8, 8))
    inputs = latents(g, encoder_hidden_states=torch.randn(3, 7, 24, generator=g), controlnet_cond=torch.randn(3, 3, 16, 16, generator=g))
    return fitted(net, inputs, "mid_block_res_sample", "diffusers.ControlNetModel")


def vq():
    import diffusers

    net = diffusers.VQModel(block_out_channels=(16, 32), down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2, norm_num_groups=8, num_vq_embeddings=16)
    return noise(net, {"sample": torch.randn(3, 3, 16, 16, generator=generator(15))}, (3, 3, 16, 16))


def deep_compression():
    import diffusers

    blocks = {"encoder_block_types": ("ResBlock", "EfficientViTBlock"), "decoder_block_types": ("ResBlock", "EfficientViTBlock"), "encoder_block_out_channels": (8, 16), "decoder_block_out_channels": (8, 16)}
    net = diffusers.AutoencoderDC(latent_channels=4, attention_head_dim=8, **blocks, encoder_layers_per_block=(1, 1), decoder_layers_per_block=(1, 1), encoder_qkv_multiscales=((), (5,)), decoder_qkv_multiscales=((), (5,)))
    return noise(net, {"sample": torch.randn(3, 3, 16, 16, generator=generator(15))}, (3, 3, 16, 16))


def kandinsky3():
    import diffusers

    g = generator(20)
    net = diffusers.Kandinsky3UNet(time_embedding_dim=16, groups=4, attention_head_dim=8, layers_per_block=2, block_out_channels=(16, 16), cross_attention_dim=32, encoder_hid_dim=24)
    return noise(net, latents(g, encoder_hidden_states=torch.randn(3, 7, 24, generator=g), encoder_attention_mask=torch.ones(3, 7)))


def video_unet():
    import diffusers

    g = generator(20)
    net = diffusers.UNetSpatioTemporalConditionModel(
        sample_size=8, in_channels=4, out_channels=4, down_block_types=("CrossAttnDownBlockSpatioTemporal", "DownBlockSpatioTemporal"), up_block_types=("UpBlockSpatioTemporal", "CrossAttnUpBlockSpatioTemporal"),
        block_out_channels=(32, 64), addition_time_embed_dim=8, projection_class_embeddings_input_dim=24, layers_per_block=1, cross_attention_dim=24, num_attention_heads=(2, 4), num_frames=2,
    )  # fmt: skip
    inputs = {"sample": torch.randn(3, 2, 4, 8, 8, generator=g), "timestep": torch.tensor([7, 503, 88]), "encoder_hidden_states": torch.randn(3, 1, 24, generator=g), "added_time_ids": torch.tensor([[6.0, 127, 0]] * 3)}
    return noise(net, inputs, (3, 2, 4, 8, 8))


def stable_audio():
    import diffusers

    g = generator(20)
    net = diffusers.StableAudioDiTModel(sample_size=8, in_channels=4, num_layers=2, attention_head_dim=8, num_attention_heads=4, num_key_value_attention_heads=2, out_channels=4, cross_attention_dim=24, time_proj_dim=16, global_states_input_dim=16, cross_attention_input_dim=24)
    inputs = conditioned(g, (3, 4, 8), steps=(0.1, 0.5, 0.9)) | {"global_hidden_states": torch.randn(3, 1, 16, generator=g)}
    return noise(net, inputs, (3, 4, 8), rotary_embedding=tuple(torch.randn(9, 4, generator=g) for _ in range(2)))


GENERATORS = {
    "HunyuanDiT": hunyuan_dit,
    "Sana": sana,
    "AuraFlow": aura_flow,
    "Qwen-Image": qwen_image,
    "CogVideoX": cog_video,
    "LTX-Video": ltx,
    "Wan": wan,
    "Mochi": mochi,
    "ControlNet": control_net,
    "VQ-VAE": vq,
    "DC-AE": deep_compression,
    "Kandinsky 3 UNet": kandinsky3,
    "Stable Video Diffusion UNet": video_unet,
    "Stable Audio": stable_audio,
}
