# ===- generators.py - widely used generators of pictures, made tiny ---------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# The networks of diffusers in the first list of coverage.py (architectures.py).
# ===-----------------------------------------------------------------------===
"""GENERATORS: name -> function that makes a golden.Model."""

from __future__ import annotations

import functools

import torch

from . import extra
from .extra import generator
from .golden import Model
from .wrappers import Pick


class Nested(torch.nn.Module):
    """A network whose keyword arguments lie in dictionaries: `net(..., added_cond_kwargs={"text_embeds": …})`."""

    def __init__(self, net, inputs, group, nested):
        super().__init__()
        self.net, self.inputs, self.group, self.nested = net, inputs, group, nested

    def forward(self, *values):
        own = dict(zip(self.inputs, values))
        own[self.group] = dict(zip(self.nested, values[len(self.inputs) :]))
        return self.net(**own).sample


def diffusion(module, inputs, output_shape, source):
    """A network that predicts the noise in a latent."""
    return Model(
        name="", source=f"diffusers.{source}", module=module, inputs=inputs, outputs=["noise_pred"], dims={k: {0: "batch"} for k, v in inputs.items() if v.dim() > 0},
        loss={"kind": "mse", "output": "noise_pred", "target": "noise"}, targets={"noise": torch.randn(output_shape, generator=generator(14))},
    )  # fmt: skip


def latents(g, **more):
    return {"sample": torch.randn(3, 4, 8, 8, generator=g), "timestep": torch.tensor([7, 503, 88])} | more


def unet(xl=False):
    import diffusers

    g = generator(13)
    settings = {"sample_size": 8, "block_out_channels": (16, 32), "layers_per_block": 1, "cross_attention_dim": 24, "norm_num_groups": 8,
                "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"), "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"), "attention_head_dim": 4}  # fmt: skip
    rows = torch.randn(3, 7, 24, generator=g)
    if not xl:
        net = diffusers.UNet2DConditionModel(**settings)
        return diffusion(Pick(net, ["sample", "timestep", "encoder_hidden_states"], "sample"), latents(g, rows=rows), (3, 4, 8, 8), "UNet2DConditionModel")
    net = diffusers.UNet2DConditionModel(
        **settings, use_linear_projection=True, transformer_layers_per_block=(2, 1), addition_embed_type="text_time", addition_time_embed_dim=8, projection_class_embeddings_input_dim=16 + 6 * 8
    )
    inputs = latents(g, rows=rows, text_embeds=torch.randn(3, 16, generator=g), time_ids=torch.tensor([[64.0, 64, 0, 0, 64, 64]] * 3))
    module = Nested(net, ["sample", "timestep", "encoder_hidden_states"], "added_cond_kwargs", ["text_embeds", "time_ids"])
    return diffusion(module, inputs, (3, 4, 8, 8), "UNet2DConditionModel (text_time)")


def autoencoder():
    import diffusers

    net = diffusers.AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2, block_out_channels=(16, 32), layers_per_block=1, latent_channels=4, norm_num_groups=8, sample_size=16
    )
    picture = torch.randn(3, 3, 16, 16, generator=generator(15))
    return diffusion(Pick(net, ["sample"], "sample"), {"picture": picture}, (3, 3, 16, 16), "AutoencoderKL")


def dit():
    return extra.dit()


def pixart():
    import diffusers

    g = generator(16)
    net = diffusers.PixArtTransformer2DModel(
        num_attention_heads=4, attention_head_dim=8, in_channels=4, out_channels=4, num_layers=2, cross_attention_dim=32, sample_size=8, patch_size=2, caption_channels=24, use_additional_conditions=False
    )
    module = Pick(net, ["hidden_states", "timestep", "encoder_hidden_states"], "sample", added_cond_kwargs={"resolution": None, "aspect_ratio": None})
    return diffusion(module, latents(g, rows=torch.randn(3, 7, 24, generator=g)), (3, 4, 8, 8), "PixArtTransformer2DModel")


def sd3():
    import diffusers

    g = generator(17)
    net = diffusers.SD3Transformer2DModel(
        sample_size=8, patch_size=2, in_channels=4, num_layers=2, attention_head_dim=8, num_attention_heads=4, joint_attention_dim=24, caption_projection_dim=32, pooled_projection_dim=16,
        out_channels=4, pos_embed_max_size=8, qk_norm="rms_norm",
    )  # fmt: skip
    inputs = {"sample": torch.randn(3, 4, 8, 8, generator=g), "rows": torch.randn(3, 7, 24, generator=g), "pooled": torch.randn(3, 16, generator=g), "timestep": torch.tensor([7, 503, 88])}
    return diffusion(Pick(net, ["hidden_states", "encoder_hidden_states", "pooled_projections", "timestep"], "sample"), inputs, (3, 4, 8, 8), "SD3Transformer2DModel")


def flux():
    import diffusers

    g = generator(18)
    net = diffusers.FluxTransformer2DModel(
        patch_size=1, in_channels=16, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2, joint_attention_dim=24, pooled_projection_dim=16, axes_dims_rope=(4, 6, 6)
    )
    inputs = {
        "tokens": torch.randn(3, 16, 16, generator=g), "rows": torch.randn(3, 7, 24, generator=g), "pooled": torch.randn(3, 16, generator=g),
        "timestep": torch.tensor([0.1, 0.5, 0.9]),
    }  # fmt: skip
    places = torch.cat([torch.zeros(16, 1), torch.cartesian_prod(torch.arange(4.0), torch.arange(4.0))], 1)
    names = ["hidden_states", "encoder_hidden_states", "pooled_projections", "timestep"]
    return diffusion(Pick(net, names, "sample", img_ids=places, txt_ids=torch.zeros(7, 3)), inputs, (3, 16, 16), "FluxTransformer2DModel")


GENERATORS = {
    "Stable Diffusion 1.5 UNet": unet,
    "Stable Diffusion XL UNet": functools.partial(unet, xl=True),
    "Stable Diffusion VAE": autoencoder,
    "DiT": dit,
    "PixArt": pixart,
    "Stable Diffusion 3": sd3,
    "FLUX.1": flux,
}
