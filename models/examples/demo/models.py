# ===- models.py - the demo's encoder, language model and generator --------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Three small networks that train jointly on pictures and their names: a ViT
# whose 2x2 patches become one token of a Llama-style language model, whose
# hidden states condition a diffusion transformer. Only the forward graphs
# matter here: `python models/examples/demo/write_graphs.py` writes them without weights, and
# recipe.json says how weights start.
# ===-----------------------------------------------------------------------===
"""The demo's three modules, in plain PyTorch."""

import math

import torch
import torch.nn.functional as F
from torch import nn

SIZE = 32  # a picture's side, in pixels
PATCH = 8  # a patch's side, in pixels
GRID = SIZE // PATCH
PATCHES = GRID * GRID
IMAGE_TOKENS = PATCHES // 4
POSITIONS = 128  # longest sequence the rotary table covers


def patches(x):
    """[n, 3, SIZE, SIZE] -> [n, PATCHES, 3 * PATCH * PATCH]."""
    x = x.reshape(-1, 3, GRID, PATCH, GRID, PATCH).permute(0, 2, 4, 1, 3, 5)
    return x.reshape(-1, PATCHES, 3 * PATCH * PATCH)


def unpatch(x):
    """The inverse of patches()."""
    x = x.reshape(-1, GRID, GRID, 3, PATCH, PATCH).permute(0, 3, 1, 4, 2, 5)
    return x.reshape(-1, 3, SIZE, SIZE)


def rotate_half(x):
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


class Attention(nn.Module):
    """Self-attention, or cross-attention to `context`."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj = nn.Linear(width, width, bias=False)
        self.v_proj = nn.Linear(width, width, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)

    def split(self, x):
        return x.reshape(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x, context=None, rotary=None, mask=None):
        context = x if context is None else context
        q, k, v = self.split(self.q_proj(x)), self.split(self.k_proj(context)), self.split(self.v_proj(context))
        if rotary is not None:
            cos, sin = rotary
            q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.o_proj(y.transpose(1, 2).reshape(x.shape))


class VisionBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class Encoder(nn.Module):
    """Pictures [images, 3, 32, 32] -> [images, 4, out]: one token for each 2x2 patches."""

    def __init__(self, width=128, layers=3, heads=4, out=192):
        super().__init__()
        self.patch_embed = nn.Linear(3 * PATCH * PATCH, width)
        self.pos_embed = nn.Parameter(torch.randn(PATCHES, width) * 0.02)
        self.layers = nn.ModuleList(VisionBlock(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.proj1 = nn.Linear(4 * width, out)
        self.proj2 = nn.Linear(out, out)

    def forward(self, pixel_values):
        x = self.patch_embed(patches(pixel_values)) + self.pos_embed
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x).reshape(-1, GRID // 2, 2, GRID // 2, 2, x.shape[-1])
        x = x.permute(0, 1, 3, 2, 4, 5).reshape(-1, IMAGE_TOKENS, 4 * x.shape[-1])
        return self.proj2(F.gelu(self.proj1(x)))


class LlamaBlock(nn.Module):
    def __init__(self, width, heads, ffn):
        super().__init__()
        self.norm1 = nn.RMSNorm(width, eps=1e-5)
        self.attn = Attention(width, heads)
        self.norm2 = nn.RMSNorm(width, eps=1e-5)
        self.gate_proj = nn.Linear(width, ffn, bias=False)
        self.up_proj = nn.Linear(width, ffn, bias=False)
        self.down_proj = nn.Linear(ffn, width, bias=False)

    def forward(self, x, rotary, mask):
        x = x + self.attn(self.norm1(x), rotary=rotary, mask=mask)
        h = self.norm2(x)
        return x + self.down_proj(F.silu(self.gate_proj(h)) * self.up_proj(h))


class LanguageModel(nn.Module):
    """Tokens with picture tokens put in their places -> logits and last hidden states.

    segment_ids [batch, seq]: a token sees earlier tokens of its own segment only.
    image_positions [images, 4]: where a picture's tokens stand in the flattened batch * seq.
    """

    def __init__(self, vocab, width=192, layers=4, heads=4, ffn=512):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(LlamaBlock(width, heads, ffn) for _ in range(layers))
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.head = nn.Linear(width, vocab, bias=False)
        half = width // heads // 2
        angles = torch.outer(torch.arange(POSITIONS).float(), 10000 ** (-torch.arange(half) / half))
        angles = torch.cat((angles, angles), -1)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, input_ids, segment_ids, image_embeds, image_positions):
        batch, seq = input_ids.shape
        x = self.embed(input_ids)
        width = x.shape[-1]
        x = x.reshape(-1, width).index_put((image_positions.reshape(-1),), image_embeds.reshape(-1, width)).reshape(batch, seq, width)
        place = torch.arange(seq)
        mask = (segment_ids[:, :, None] == segment_ids[:, None, :]) & (place[:, None] >= place[None, :])
        rotary = self.cos[:seq], self.sin[:seq]
        for layer in self.layers:
            x = layer(x, rotary, mask[:, None])
        x = self.norm(x)
        return self.head(x), x


class DiTBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ada = nn.Linear(width, 6 * width)
        self.attn = Attention(width, heads)
        self.cross = Attention(width, heads)
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, x, context, e):
        shift1, scale1, gate1, shift2, scale2, gate2 = self.ada(e)[:, None].chunk(6, -1)
        x = x + (1 + gate1) * self.attn(plain_norm(x) * (1 + scale1) + shift1)
        x = x + self.cross(plain_norm(x), context)
        h = plain_norm(x) * (1 + scale2) + shift2
        return x + (1 + gate2) * self.fc2(F.gelu(self.fc1(h)))


def plain_norm(x):
    return F.layer_norm(x, (x.shape[-1],))


def time_features(t, width):
    f = torch.exp(-math.log(1e4) * torch.arange(width // 2) / (width // 2))
    z = t[:, None] * 1000 * f
    return torch.cat((z.cos(), z.sin()), -1)


class Generator(nn.Module):
    """A noisy picture, its time and the caption's hidden states -> the clean picture.

    noisy [targets, 3, 32, 32]; t [targets] in 0..1, 0 is noise; cond [targets, places, context];
    cond_mask [targets, places, 1]: 1 where a row is a caption's, 0 where it pads.
    """

    def __init__(self, width=192, layers=4, heads=4, context=192, features=128):
        super().__init__()
        self.features = features
        self.patch_embed = nn.Linear(3 * PATCH * PATCH, width)
        self.pos_embed = nn.Parameter(torch.randn(PATCHES, width) * 0.02)
        self.context_proj = nn.Linear(context, width)
        self.time1 = nn.Linear(features, width)
        self.time2 = nn.Linear(width, width)
        self.pool = nn.Linear(context, width)
        self.layers = nn.ModuleList(DiTBlock(width, heads) for _ in range(layers))
        self.ada = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, 3 * PATCH * PATCH)

    def forward(self, noisy, t, cond, cond_mask):
        pooled = cond.sum(1) / cond_mask.sum(1)
        time = self.time2(F.silu(self.time1(time_features(t, self.features))))
        e = F.silu(time + self.pool(pooled))
        context = self.context_proj(cond)
        h = self.patch_embed(patches(noisy)) + self.pos_embed
        for layer in self.layers:
            h = layer(h, context, e)
        shift, scale = self.ada(e)[:, None].chunk(2, -1)
        return unpatch(self.out(plain_norm(h) * (1 + scale) + shift))
