# ===- context.py - scratch of attention over ranks that share tokens -----------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
# ===-----------------------------------------------------------------------===
"""Scratch of a Llama 7B layer's functions under context parallelism, by how queries come by keys: a table of docs/context.md."""

import re
import tempfile

from large import compile, unpack

TOKENS = 131072
WAYS = ("gather", "heads", "ring")


def scratch_of(model, ranks, way):
    """MB of a layer's forward and backward."""
    flags = ["--loss=cross_entropy:logits", f"--dims=batch=sample,seq={TOKENS}", "--precision=bf16", "--init=normal(0,0.02)", "--batch=1", "--target=cuda", "--emit=mlir", "--to=lower"]
    text = compile(model, *flags, f"--plan=llama3_7b:cp={ranks},context={way},save=none")
    found = dict(re.findall(r"rt\.func private @layers\.(fwd|bwd)\(.*scratch_bytes = (\d+)", text))
    return [f"{int(found[key]) / 1e6:,.0f}" for key in ("fwd", "bwd")]


def main():
    print("| `cp` | forward: gather | heads | ring | backward: gather | heads | ring |\n| --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        model = unpack("llama3_7b", folder)
        for ranks in (2, 4, 8, 16, 32):
            forward, backward = zip(*(scratch_of(model, ranks, way) for way in WAYS))
            print(f"| {' | '.join([str(ranks), *forward, *backward])} |", flush=True)


main()
