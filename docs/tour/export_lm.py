"""A small language model over bytes, exported for training: the model of docs/tour.md. Run from the repository's root; writes lm.onnx."""
import sys

import torch
from torch import nn

sys.path.insert(0, "models")
from export import check, export


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        a = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class LM(nn.Module):
    def __init__(self, tokens=259, length=64, width=128, layers=2, heads=4):
        super().__init__()
        self.embed, self.place = nn.Embedding(tokens, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, tokens, bias=False)

    def forward(self, ids):
        x = self.embed(ids) + self.place.weight[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


torch.manual_seed(0)
model, ids = LM(), torch.randint(0, 259, (2, 64))
proto = export(model, (ids,), "lm.onnx", dynamic_shapes={"ids": {0: "batch"}}, input_names=["ids"], output_names=["logits"])
check(model, proto, (torch.randint(0, 259, (3, 64)),))
