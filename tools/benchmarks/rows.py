# ===- rows.py - what ranks that share out experts send -------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# rows.py GRAPH: of Qwen3-30B-A3B as models/export/large.py writes it. Bytes are those
# of the collectives over ranks that share out experts in the forward function of a
# layer, as the shard phase leaves it, with samples of 512 tokens, one a replica.
# ===-----------------------------------------------------------------------===
"""MB that a rank sends in a layer's forward, tokens gathered or rows that travel: a table of docs/expert-parallelism.md."""

import json
import math
import pathlib
import re
import sys
import tempfile

from large import compile

TOKENS = 512
BITS = {"bf16": 16, "f32": 32, "i64": 64, "i32": 32, "i1": 8}
PLANS = [("dp=8,ep=8", 8), ("dp=16,ep=16", 16), ("dp=64,ep=64", 64), ("tp=8,dp=8,ep=64", 8)]
TENSOR = r"tensor<([\dx?]+)x([a-z]\w*)(?:, #nn\.dims<(.*?)>)?>"
COLLECTIVE = re.compile(rf"dist\.(?:all_gather|reduce_scatter|all_to_all)\b.* over (\d+) stride (\d+) : {TENSOR} to {TENSOR}$")


def count(shape, dims):
    """Elements of a tensor of one sample a rank: its symbolic dims are multiples of `batch`."""
    symbols = [math.prod(int(n) for n in re.findall(r"\d+", dim)) for dim in (dims or "").split(",") if dim.strip()]
    return math.prod(symbols.pop(0) if part == "?" else int(part) for part in shape.split("x"))


def sent(text, ranks):
    """Bytes of a layer's collectives over that many ranks, of the farthest ones: of `tp` none is counted."""
    body = text[text.index("func.func private @layers.fwd") :]
    body = body[: body.index("func.func", 10)]
    found = [m for line in body.splitlines() if (m := COLLECTIVE.search(line.strip())) and int(m[1]) == ranks]
    farthest = max(int(m[2]) for m in found)
    whole = sum(max(count(m[3], m[5]), count(m[6], m[8])) * BITS[m[4]] / 8 for m in found if int(m[2]) == farthest)
    return whole * (ranks - 1) / ranks


def main():
    graph = pathlib.Path(sys.argv[1]).resolve()
    print("| plan | gathered | c = 1 | c = 1.25 | c = 2 |\n| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        recipe = pathlib.Path(folder, "recipe.json")
        for plan, ranks in PLANS:
            cells = []
            for capacity in (None, 1, 1.25, 2):
                module = {"onnx": str(graph), "init": [{"pattern": "*", "rule": "normal(0,0.02)"}]} | ({"experts": {"capacity": capacity}} if capacity else {})
                batch = int(re.search(r"dp=(\d+)", plan)[1])
                losses = [{"name": "loss", "kind": "cross_entropy", "logits": "llm.logits", "labels": "labels"}]
                recipe.write_text(json.dumps({"modules": {"llm": module}, "dims": {"batch": "sample", "seq": TOKENS}, "losses": losses, "optimizer": {"kind": "adamw", "lr": 1e-4}, "batch": {"global": batch, "micro": batch}, "precision": "bf16"}))
                text = compile(recipe, f"--plan=llm:{plan}", "--emit=mlir", "--to=shard")
                cells.append(f"{sent(text, ranks) / 1e6:.1f}")
            print(f"| `{plan}` | {' | '.join(cells)} |", flush=True)


main()
