# ===- write_graphs.py - writes the demo's three graphs --------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Run after `tools/setup --torch` when models.py has changed. The graphs are
# checked against PyTorch with weights first and then written without.
# ===-----------------------------------------------------------------------===
"""python models/examples/demo/write_graphs.py: writes vision.onnx, llm.onnx and generator.onnx beside itself."""

import pathlib
import sys
import tempfile

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

import models  # noqa: E402
from export import check, export  # noqa: E402
from export.exporting import op_counts, parameter_count  # noqa: E402

VOCABULARY = 129  # the words of the 119 names, and <pad> <bos> <img> <eos> <gen>
PLACES = 5  # conditioning rows an item in the example; the dim stays open


def random(module):
    """Moves every parameter off zero and one: a check at zeros would see nothing."""
    with torch.no_grad():
        for p in module.parameters():
            p += 0.05 * torch.randn(p.shape)
    return module.eval()


def examples(n):
    """Inputs of the three graphs, for n samples."""
    seq = 20 + n
    ids = torch.randint(0, VOCABULARY, (n, seq))
    segments = torch.sort(torch.randint(0, 3, (n, seq)), 1).values
    images, targets = n + 1, n + 2
    places = torch.randperm(n * seq)[: images * models.IMAGE_TOKENS].reshape(images, -1)
    mask = (torch.arange(PLACES) < torch.randint(1, PLACES + 1, (targets, 1))).float()[..., None]
    return {
        "vision": (torch.randn(images, 3, models.SIZE, models.SIZE),),
        "llm": (ids, segments, torch.randn(images, models.IMAGE_TOKENS, 192), places),
        "generator": (torch.randn(targets, 3, models.SIZE, models.SIZE), torch.rand(targets), torch.randn(targets, PLACES, 192) * mask, mask),
    }


GRAPHS = {
    "vision": (models.Encoder, (), {"pixel_values": {0: "images"}}, ["image_embeds"]),
    "llm": (
        models.LanguageModel,
        (VOCABULARY,),
        {"input_ids": {0: "batch", 1: "seq"}, "segment_ids": {0: "batch", 1: "seq"}, "image_embeds": {0: "images"}, "image_positions": {0: "images"}},
        ["logits", "last_hidden_state"],
    ),
    "generator": (
        models.Generator,
        (),
        {"noisy": {0: "targets"}, "t": {0: "targets"}, "cond": {0: "targets", 1: "places"}, "cond_mask": {0: "targets", 1: "places"}},
        ["clean"],
    ),
}


def main():
    torch.manual_seed(0)
    traced, tried = examples(3), examples(5)
    for name, (cls, arguments, dims, outputs) in GRAPHS.items():
        module = random(cls(*arguments))
        options = {"dynamic_shapes": dims, "input_names": list(dims), "output_names": outputs}
        with tempfile.TemporaryDirectory() as folder:
            proto = export(module, traced[name], f"{folder}/{name}.onnx", **options)
            difference = check(module, proto, tried[name])
        proto = export(module, traced[name], HERE / f"{name}.onnx", weights=False, **options)
        size = (HERE / f"{name}.onnx").stat().st_size
        print(f"{name}: {parameter_count(proto):,} parameters, {len(proto.graph.node)} nodes, {size:,} bytes, from PyTorch {max(difference.values()):.1e}")
        print("  ", op_counts(proto))


if __name__ == "__main__":
    main()
