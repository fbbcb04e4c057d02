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

from . import optimizers
from .errors import Failure, one_line
from .dataset import loss_names, parse
from .encoded import IGNORED

FILE = "recipe.json"
MULTIPLE = 128


def recipe(options, network, longest, micro, tokens, items):
    """`longest` sample; parts of `tokens`; `items` {"kind.measure": (most of a sample, largest, most of a part)}."""
    modules = {}
    for name in network.graphs:
        modules[name] = {"onnx": f"{name}.onnx", "init": [{"pattern": "*", "rule": "zeros"}]}  # each weight comes from the folder
        for key, patterns in (("trainable", options.train), ("freeze", options.freeze)):
            if patterns:
                modules[name][key] = network.matching(name, patterns)
        if options.lora:
            modules[name] |= _adapters(options, network.matching(name, options.lora))
    made = network.family.recipe()
    return {
        "modules": modules,
        "items": {"sample": {"measures": {"tokens": {"max": longest} | _rounding(options)}}} | _items(items),
        **made,
        "losses": [_loss("text"), *(_loss(name) | {"weight": 0, "where": "sources", "is": number} for number, name in losses_by_source(options, network).items())],
        "optimizer": optimizers.entry(options),
        "batch": {"global": options.global_batch, "micro": micro, "tokens": tokens},
        "precision": options.precision,
        "seed": 0,
    }


def _loss(name):
    return {"name": name, "kind": "cross_entropy", "logits": "llm.logits", "labels": "labels", "ignore_index": IGNORED}


def losses_by_source(options, network):
    """{number of a source: the name of its loss}, which is shown and trains nothing; of one source none."""
    texts = [parse(text)[0] for text in options.data]
    first = {texts.index(text): text for text in texts}
    return dict(zip(first, loss_names(list(first.values()), {"text", *network.graphs})))


def _adapters(options, patterns):
    """Of a module with such weights; of one without them nothing trains but what --train names."""
    if not patterns:
        return {} if options.train else {"trainable": []}
    return {"lora": {"pattern": patterns, "rank": options.rank} | ({} if options.alpha is None else {"alpha": options.alpha})}


def lora_of(out):
    """The recipe's `lora`, of whichever module; None: there is none."""
    modules = json.loads((out / FILE).read_text())["modules"].values()
    return next((m["lora"] for m in modules if m.get("lora")), None)


def _rounding(options):
    """A GPU's graphs are recorded for each number of rows."""
    return {"multiple": MULTIPLE} if options.target == "cuda" else {}


def _items(items):
    made = {}
    for name, (most, largest, part) in items.items():
        kind, measure = name.split(".")
        made.setdefault(kind, {"of": "sample", "max": max(most, 1), "measures": {}})["measures"][measure] = {"max": max(largest, 1), "part": max(part, largest, 1)}
    return made


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
