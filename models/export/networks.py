# ===- networks.py - the first networks of test/models ------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Their graphs and figures are checked in. Here is what they were exported from, so
# that PyTorch can say more about them; weights are those of the graphs. Those of
# test/models/extra stand in extra.py.
# ===-----------------------------------------------------------------------===
"""NETWORKS: folder below test/models -> a function that makes the golden.Model of it, without weights."""

from __future__ import annotations

import torch
import transformers as hf
from torch import nn

from . import extra
from .golden import Model
from .wrappers import Pick

CLIP_VISION = {"image_size": 32, "patch_size": 8, "hidden_size": 48, "intermediate_size": 96, "num_attention_heads": 4}
LLAMA = {"vocab_size": 256, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2}
CLASSES = {"kind": "cross_entropy", "logits": "logits", "labels": "labels", "ignore_index": -100}


def network(name, module, inputs, outputs, loss):
    """Inputs and targets are the figures' own: read when the weights are."""
    return Model(name=name, source="", module=module, inputs=dict.fromkeys(inputs), outputs=outputs, dims={}, loss=loss)


def clip():
    tower = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    text = {**tower, "vocab_size": 256, "max_position_embeddings": 32, "bos_token_id": 0, "eos_token_id": 2}
    net = hf.CLIPModel(hf.CLIPConfig(text_config=text, vision_config={**tower, "image_size": 32, "patch_size": 8}, projection_dim=32))
    outputs = ["logits_per_image", "logits_per_text", "image_embeds", "text_embeds"]
    return network("clip", Pick(net, ["input_ids", "pixel_values"], *outputs), ["input_ids", "pixel_values"], outputs, {"kind": "clip_contrastive", "logits": "logits_per_image"})


def gpt2():
    config = hf.GPT2Config(vocab_size=256, n_embd=64, n_layer=2, n_head=4, n_positions=64, attn_pdrop=0, embd_pdrop=0, resid_pdrop=0)
    return network("gpt2", Pick(hf.GPT2LMHeadModel(config), ["input_ids"], "logits", use_cache=False), ["input_ids"], ["logits"], CLASSES)


def llama(name="llama", layers=4):
    net = hf.LlamaForCausalLM(hf.LlamaConfig(**LLAMA, num_hidden_layers=layers))
    return network(name, Pick(net, ["input_ids"], "logits", use_cache=False), ["input_ids"], ["logits"], CLASSES)


def llava(name="llava"):
    vision = hf.CLIPVisionConfig(**CLIP_VISION, num_hidden_layers=3)
    config = hf.LlavaConfig(vision_config=vision, text_config=hf.LlamaConfig(**LLAMA, num_hidden_layers=2), image_token_index=255, vision_feature_layer=-2)
    net = hf.LlavaForConditionalGeneration(config)
    return network(name, Pick(net, ["input_ids", "pixel_values"], "logits", use_cache=False), ["input_ids", "pixel_values"], ["logits"], CLASSES)


class Vision(nn.Module):
    def __init__(self):
        super().__init__()
        self.vision_tower = hf.CLIPVisionModel(hf.CLIPVisionConfig(**CLIP_VISION, num_hidden_layers=2))
        self.projector = nn.Sequential(nn.Linear(48, 64), nn.GELU(), nn.Linear(64, 64))

    def forward(self, pixels):
        return self.projector(self.vision_tower(pixels).last_hidden_state[:, 1:])


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.language_model = hf.LlamaForCausalLM(hf.LlamaConfig(**LLAMA, num_hidden_layers=3))

    def forward(self, ids, image_embeds, places):
        embeds = self.language_model.get_input_embeddings()(ids)
        rows = embeds.reshape(-1, embeds.shape[-1]).index_put((places.reshape(-1),), image_embeds.reshape(-1, embeds.shape[-1]).to(embeds.dtype))
        out = self.language_model(inputs_embeds=rows.view_as(embeds), output_hidden_states=True, use_cache=False)
        return out.logits, out.hidden_states[-1]


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.projector = nn.Linear(64, 32)
        self.unet = denoiser((16, 32))

    def forward(self, latents, timestep, hidden):
        return self.unet(latents, timestep, self.projector(hidden)).sample


class Multimodal(nn.Module):
    def __init__(self):
        super().__init__()
        self.vision, self.llm, self.generator = Vision(), Language(), Generator()

    def forward(self, pixels, ids, places, latents, timestep):
        logits, hidden = self.llm(ids, self.vision(pixels), places)
        return logits, self.generator(latents, timestep, hidden)


def mllm():
    inputs = ["vision.pixel_values", "llm.input_ids", "llm.image_positions", "generator.noisy_latents", "generator.timestep"]
    terms = [{**CLASSES, "logits": "llm.logits"}, {"kind": "mse", "output": "generator.noise_pred", "target": "noise"}]
    return network("mllm", Multimodal(), inputs, ["llm.logits", "generator.noise_pred"], {"kind": "sum", "terms": terms})


def denoiser(channels):
    from diffusers import UNet2DConditionModel

    return UNet2DConditionModel(
        sample_size=8, in_channels=4, out_channels=4, block_out_channels=channels, layers_per_block=1, attention_head_dim=(2, 4), cross_attention_dim=32, norm_num_groups=8,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"), use_linear_projection=True,
    )


def unet():
    inputs = ["sample", "timestep", "encoder_hidden_states"]
    return network("unet", Pick(denoiser((32, 64)), inputs, "sample"), inputs, ["noise_pred"], {"kind": "mse", "output": "noise_pred", "target": "target"})


def vit():
    config = hf.ViTConfig(image_size=32, patch_size=8, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, num_labels=10)
    return network("vit", Pick(hf.ViTForImageClassification(config), ["pixel_values"], "logits"), ["pixel_values"], ["logits"], CLASSES)


NETWORKS = {
    "clip": clip,
    "gpt2": gpt2,
    "llama": llama,
    # Their graphs compute the loss too, in two ways: the same number.
    "llama_loss": lambda: llama("llama_loss", 2),
    "llama_loss_gather": lambda: llama("llama_loss_gather", 2),
    "llava": llava,
    "llava_gather": lambda: llava("llava_gather"),
    "mllm": mllm,
    "unet": unet,
    "vit": vit,
}
NETWORKS |= {f"extra/{'llama_opset23' if make is extra.opset23_llama else make.__name__}": make for make in extra.MODELS}
