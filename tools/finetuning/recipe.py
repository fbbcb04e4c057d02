# ===- recipe.py - what the compiler is told ----------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# The recipe is the user's to edit: what this has written is known by its hash,
# and a recipe that is another one stays and is used (docs/recipe.md).
# ===-----------------------------------------------------------------------===
"""recipe(...): as an object; kept(project): one that was edited, or None."""

import hashlib
import json

from .errors import Failure, one_line
from .network import PREFIX
from .source import IGNORED

FILE = "recipe.json"


def recipe(options, longest, micro, tokens):
    module = {"onnx": "llm.onnx", "init": [{"pattern": "*", "rule": "zeros"}]}  # each weight comes from the folder
    for key, patterns in (("trainable", options.train), ("freeze", options.freeze)):
        if patterns:
            module[key] = [PREFIX + p for p in patterns]
    if options.lora:
        module["lora"] = {"pattern": [PREFIX + p for p in options.lora], "rank": options.rank} | ({} if options.alpha is None else {"alpha": options.alpha})
    return {
        "modules": {"llm": module},
        "items": {"sample": {"measures": {"tokens": {"max": longest}}}},
        "dims": {"seq": "sample.tokens"},
        "losses": [{"name": "text", "kind": "cross_entropy", "logits": "llm.logits", "labels": "labels", "ignore_index": IGNORED}],
        "optimizer": {"kind": "adamw", "lr": options.lr, "weight_decay": options.weight_decay, "clip": options.clip, "warmup": options.warmup, "schedule": options.schedule},
        "batch": {"global": options.global_batch, "micro": micro, "tokens": tokens},
        "precision": options.precision,
        "seed": 0,
    }


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


def kept(project):
    path = project.out / FILE
    if not path.is_file():
        return None
    text = path.read_text()
    if digest(text) == project.notes.get("recipe"):
        return None
    try:
        made = json.loads(text)
        sizes = made["batch"]["global"], made["batch"]["tokens"], made["items"]["sample"]["measures"]["tokens"]["max"]
    except (ValueError, KeyError, TypeError) as e:
        raise Failure(f"{path}: not as it was written, and no recipe of this tool: {one_line(e)}") from None
    if not all(isinstance(n, int) and n > 0 for n in sizes):
        raise Failure(f"{path}: batch.global, batch.tokens and the measure's max are whole numbers")
    return made
