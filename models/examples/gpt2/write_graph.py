# ===- write_graph.py - writes GPT-2's graph -------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# GPT-2 with 124 million parameters as transformers has it, for benchmarks:
# `tools/bench cpu` runs this after `tools/setup --torch`. The graph (1.4 MB)
# has no weights; recipe.json says how they start, and sets batch and sequence.
# Smaller models of the same kind: --layers, --width, --vocabulary.
# ===-----------------------------------------------------------------------===
"""python models/examples/gpt2/write_graph.py FOLDER: writes FOLDER/model.onnx and a copy of recipe.json."""

import argparse
import pathlib
import shutil
import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from export import export  # noqa: E402
from export.exporting import op_counts, parameter_count  # noqa: E402


class Logits(torch.nn.Module):
    """The library's model without its other outputs; its own names stay below `net`."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, input_ids):
        return self.net(input_ids=input_ids, use_cache=False).logits


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768, help="a multiple of 64, the width of a head")
    parser.add_argument("--vocabulary", type=int, default=50257)
    options = parser.parse_args()
    folder = options.folder
    config = GPT2Config(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, n_layer=options.layers, n_embd=options.width, n_head=options.width // 64, vocab_size=options.vocabulary)
    with torch.device("meta"):
        net = GPT2LMHeadModel(config).eval()
    ids = torch.zeros((2, 24), dtype=torch.int64, device="meta")
    proto = export(Logits(net), (ids,), folder / "model.onnx", weights=False, dynamic_shapes={"input_ids": {0: "batch", 1: "seq"}},
                   input_names=["input_ids"], output_names=["logits"])
    size = (folder / "model.onnx").stat().st_size
    print(f"gpt2: {parameter_count(proto):,} parameters, {len(proto.graph.node)} nodes, {size:,} bytes")
    print("  ", op_counts(proto))
    shutil.copy(HERE / "recipe.json", folder)


if __name__ == "__main__":
    main()
