# ===- stages.py - what stages of packed rows allocate --------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
# ===-----------------------------------------------------------------------===
"""Bytes of the fullest ranks of a small vision-language model on packed rows, by plan: a table of docs/parallel.md. stages.py [DT_OPT]: of another compiler."""

import json
import pathlib
import sys
import tempfile

import large

GRAPHS = large.ROOT / "test/models/sizes/vlm"
TOKENS, PICTURES, MERGED = 4096, 8, 256  # of a sample, which a microbatch is; merged rows of a picture
UNITS = {"vision": "cp=2,pp=2", "llm": "{},pp=2"}
LAYOUTS = ("cp=2", "tp=2,sequence_parallel=true", "tp=2,cp=2,sequence_parallel=true")


def recipe():
    items = {
        "sample": {"measures": {"tokens": {"max": TOKENS}}},
        "image": {"of": "sample", "max": PICTURES, "measures": {"merged": {"max": MERGED}}},
    }
    return {
        "modules": {name: {"onnx": str(GRAPHS / f"{name}.onnx")} for name in UNITS},
        "items": items,
        "dims": {"seq": "sample.tokens", "merged": "image.merged"},
        "inputs": {"llm.image_rows": {"index": ["sample", "token"], "of": "image"}},
        "connections": {"llm.image_embeds": "vision.image_embeds"},
        "losses": [{"name": "text", "kind": "cross_entropy", "logits": "llm.logits", "labels": "labels", "ignore_index": -100, "weight": 1}],
        "optimizer": {"kind": "adamw"},
        "batch": {"global": 16, "micro": 1},
    }


def allocated(folder, layout):
    """MB of arena, scratch and messages over NCCL: of the fullest rank of each unit."""
    (folder / "recipe.json").write_text(json.dumps(recipe()))
    plan = ";".join(f"{name}:{text.format(layout)}" for name, text in UNITS.items())
    large.compile(folder / "recipe.json", "--target=cuda", f"--plan={plan}", "--emit=memory", "-o", folder / "memory.json")
    most = dict.fromkeys(UNITS, 0)
    for rank in json.loads((folder / "memory.json").read_text())["ranks"]:
        unit = next(iter(rank["modules"])).split(".")[0]
        bytes = sum(module["arena"] for module in rank["modules"].values()) + rank["scratch"] + rank["messages"]["nccl"]["device"]
        most[unit] = max(most[unit], bytes)
    return [f"{most[unit] / 1e6:.1f}" for unit in UNITS]


def main():
    if len(sys.argv) > 1:
        large.DT_OPT = pathlib.Path(sys.argv[1])
    print(f"| language model | {' | '.join(UNITS)} |\n| --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for layout in LAYOUTS:
            print(f"| {' | '.join([f'`{layout}`', *allocated(pathlib.Path(folder), layout)])} |", flush=True)


main()
