# ===- models.py - the models that are measured ------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Folder and recipe of the two models that parallel.py and faithful.py train: a
# small GPT-2, and the demo's networks.
# ===-----------------------------------------------------------------------===
"""gpt2(folder, …), demo(folder): write what is missing there, return the recipe."""

import json
import pathlib
import sys

import batches
from cpu import run

ROOT = pathlib.Path(__file__).resolve().parents[2]


def gpt2(folder, sizes, samples, tokens):
    """`sizes`: options of models/examples/gpt2/write_graph.py, with "vocabulary"."""
    options = [text for key, value in sizes.items() for text in (f"--{key}", value)]
    if not (folder / "model.onnx").exists():
        run([sys.executable, ROOT / "models/examples/gpt2/write_graph.py", folder, *options])
    recipe = json.loads((ROOT / "models/examples/gpt2/recipe.json").read_text())
    recipe["dims"]["seq"] = tokens
    batches.write("gpt2", folder / "batch.safetensors", samples=samples, tokens=tokens, vocabulary=sizes["vocabulary"])
    return recipe


def demo(folder):
    """Without a batch."""
    recipe = json.loads((ROOT / "models/examples/demo/recipe.json").read_text())
    for module in recipe["modules"].values():
        module["onnx"] = str(ROOT / "models/examples/demo" / module["onnx"])
    (folder / "emoji.vocabulary").write_bytes((ROOT / "models/examples/demo/emoji.vocabulary").read_bytes())
    return recipe
