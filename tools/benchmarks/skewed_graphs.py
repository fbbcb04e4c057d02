# ===- skewed_graphs.py - graphs for the measurement of reordering ----------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# The demo's encoder and language model in sizes at which a step's pictures cost
# about as much as its text, so that who waits for whom depends on the order.
# ===-----------------------------------------------------------------------===
"""skewed_graphs.py FOLDER: writes vision.onnx and llm.onnx without weights."""

import pathlib
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "models/examples/demo"), str(ROOT / "models")]

import models  # noqa: E402
from export import export  # noqa: E402

VOCABULARY, WIDTH, TOKENS = 129, 256, 24


def main(folder):
    torch.manual_seed(0)
    images = torch.randn(3, 3, models.SIZE, models.SIZE)
    embeds = torch.randn(3, models.IMAGE_TOKENS, WIDTH)
    places = torch.arange(3 * models.IMAGE_TOKENS).reshape(3, -1)
    ids, segments = torch.randint(0, VOCABULARY, (2, TOKENS)), torch.zeros(2, TOKENS, dtype=torch.int64)
    encoder = models.Encoder(width=384, layers=3, heads=6, out=WIDTH)
    dims = {"pixel_values": {0: "images"}}
    export(encoder, (images,), folder / "vision.onnx", weights=False, dynamic_shapes=dims, input_names=list(dims), output_names=["image_embeds"])
    llm = models.LanguageModel(VOCABULARY, width=WIDTH, layers=3, heads=4, ffn=704)
    text = {0: "batch", 1: "seq"}
    dims = {"input_ids": text, "segment_ids": text, "image_embeds": {0: "images"}, "image_positions": {0: "images"}}
    inputs = (ids, segments, embeds, places)
    export(llm, inputs, folder / "llm.onnx", weights=False, dynamic_shapes=dims, input_names=list(dims), output_names=["logits", "last_hidden_state"])


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
