#!/usr/bin/env python3
"""docs/recipe.schema.json says what the reader reads: every recipe of the project agrees with the schema, and every object of a recipe has the same keys in
both. The reader names the keys that it knows when it finds another one, so each kind of object is given one.

    check_schema.py DT_OPT SOURCE_DIRECTORY
"""
import copy
import json
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import jsonschema
except ImportError:
    print("skipped: needs the Python package jsonschema (tools/setup installs it)")
    sys.exit(77)

dt_opt, source = sys.argv[1], pathlib.Path(sys.argv[2])
schema = json.load(open(source / "docs/recipe.schema.json"))
failures = []

# Together these hold each kind of object that a recipe may hold.
EXAMPLES = [{
    "modules": {"m": {"onnx": "m.onnx", "init": [{"pattern": "*", "rule": "zeros"}], "dims": {"n": 3}, "lora": {"pattern": ["*"], "rank": 4, "alpha": 8}, "experts": {"capacity": 1.5, "choices": True}}, "k": {"onnx": "k.onnx"}},
    "items": {"image": {"max": 3}},
    "dims": {"batch": "sample", "images": "image", "seq": 8},
    "connections": {"m.a": {"from": "k.b", "gather": "rows"}},
    "tie": {"m.w": "k.w"},
    "losses": [{"name": "a", "kind": "cross_entropy", "logits": "m.x"}, {"name": "b", "kind": "mse", "output": "m.y"},
               {"name": "c", "kind": "clip_contrastive", "logits": "m.z"}, {"name": "d", "kind": "sigmoid_contrastive", "logits": "m.z"},
               {"name": "e", "kind": "graph_output", "output": "m.l"}, {"name": "f", "kind": "load_balance", "logits": "m.r", "experts_per_token": 2},
               {"name": "g", "kind": "router_z", "logits": "m.r"}, {"name": "h", "kind": "max_load", "logits": "m.r", "experts_per_token": 2, "weight": 0}],
    "optimizer": {"kind": "adamw"},
    "batch": {"global": 2, "micro": 1},
    "batch_norm": "local",
    "seed": 1,
    "precision": {"default": "bf16", "m": "f32"}, "residual": {"k": "bf16"},
    "data": {
        "sequence": "seq", "tokenizer": {"kind": "bytes"}, "special": ["<pad>", "<image>"], "limits": {"pixels": 100},
        "pictures": {"image": {"size": [4, 4], "mean": [0.5, 0.5, 0.5]}}, "labels": 10,
        "segments": {"s": {"parts": ["image", "text"], "tokens": ["<pad>", {"token": "<image>", "count": 2, "of": "image"}, "text"]}}},
    "inputs": {
        "ids": {"tokens": "ids"}, "labels": {"tokens": "labels"}, "segment": {"tokens": "segment"}, "position": {"tokens": "position"},
        "mask": {"tokens": "mask"}, "pixels": {"pixels": "image"}, "class": {"label": "sample"},
        "rows": {"index": ["sample", "token"], "of": "image", "width": 2}, "rows_mask": {"mask": "rows", "trailing": 1}, "of": {"item_of": "image"},
        "u": {"random": "uniform", "per": "image"}, "n": {"random": "normal", "per": "image", "shape": [3, 4, 4]},
        "i": {"random": "uniform_int", "below": 1000, "per": "image"}, "one": {"value": 1, "per": "sample", "shape": [1]},
        "flow": {"noised": "pixels", "noise": "n", "time": "u", "schedule": "flow"},
        "ddpm": {"noised": "pixels", "noise": "n", "time": "i", "schedule": "ddpm"}},
}, {
    "modules": {"m": {"onnx": "m.onnx"}},
    "losses": [{"kind": "mse", "output": "m.y"}],
    "optimizer": {"kind": "sgd"},
    "precision": "bf16", "residual": "bf16", "gradients": {"m": "bf16"},
    "dims": {"batch": "sample"},
    "data": {"sequence": 4, "tokenizer": {"kind": "words", "vocabulary": ["cat"]}, "special": ["<pad>"], "segments": {"s": {"parts": ["text"], "tokens": ["text"]}}},
}, {
    "modules": {"m": {"onnx": "m.onnx"}},
    "items": {"image": {"max": 3, "measures": {"patches": {"max": 8, "part": 64}}}, "sample": {"measures": {"tokens": {"max": 9, "multiple": 2}}}},
    "dims": {"rows": "image.patches", "seq": "sample.tokens"},
    "losses": [{"kind": "mse", "output": "m.y"}],
    "optimizer": {"kind": "lion", "routing_bias": [{"match": "m.*.bias", "rate": 0.01}]}, "ema": {"decay": 0.999},
    "batch": {"global": 2, "tokens": 64},
}, {
    "modules": {"m": {"onnx": "m.onnx"}},
    "losses": [{"kind": "mse", "output": "m.y"}],
    "optimizer": {"kind": "adafactor", "lr": 0.01, "beta2_decay": -0.8, "eps": [1e-7, 1e-3], "d": 2, "weight_decay": 0.1},
    "batch": {"global": 2},
}, {
    "modules": {"m": {"onnx": "m.onnx"}},
    "losses": [{"kind": "mse", "output": "m.y"}],
    "optimizer": {"kind": "muon", "momentum": 0.9, "nesterov": 0, "ns_steps": 4, "ns_coefficients": [2, -1.5, 0.5], "adjust_lr": "match_rms_adamw", "adamw": ["m.*"], "adamw_lr_factor": 0.1, "betas": [0.9, 0.95], "eps": 1e-10},
    "batch": {"global": 2},
}, {
    "modules": {"m": {"onnx": "m.onnx"}},
    "items": {"sample": {"measures": {"tokens": {"max": 9}}}},
    "dims": {"seq": "sample.tokens"},
    "losses": [{"kind": "mse", "output": "m.y"}],
    "batch": {"tokens": 64, "parts": 2, "samples": 8},
}, {
    "modules": {"m": {"onnx": "m.onnx"}},
    "losses": [{"kind": "mse", "output": "m.y"}],
    "items": {"image": {"max": 3, "measures": {"merged": {"max": 9}}}, "sample": {"measures": {"tokens": {"max": 64}}}},
    "dims": {"merged": "image.merged", "seq": "sample.tokens"},
    "data": {
        "sequence": "seq", "tokenizer": {"kind": "bytes"}, "special": ["<pad>", "<image>"], "pictures": {"image": {"patches": {"size": 4, "merge": 2}}},
        "segments": {"s": {"parts": ["image", "text"], "tokens": [{"token": "<image>", "count": "merged", "of": "image"}, "text"]}}},
    "inputs": {
        "ids": {"tokens": "ids"}, "segment": {"tokens": "segment"}, "position": {"tokens": "position", "pictures": "image"}, "pixels": {"pixels": "image"},
        "places": {"patches": "image", "gives": "places"}, "windows": {"patches": "image", "gives": "windows", "squares": 2}, "rows": {"index": ["sample", "token"], "of": "image"}},
}, {
    "modules": {"m": {"onnx": "m.onnx"}},
    "losses": [{"kind": "mse", "output": "m.y"}],
    "data": {"source": ["a.py:B=0.5", "c:D"], "axes": {"x": 1}, "names": ["x", "y"], "numbers": ["z"]},
}]


def valid(value, part):
    return jsonschema.Draft202012Validator({**part, "$defs": schema["$defs"]}).is_valid(value)


def resolve(part, value):
    """The subschema without $ref and oneOf that `value` agrees with."""
    while True:
        if "$ref" in part:
            part = schema["$defs"][part["$ref"].rsplit("/", 1)[1]]
        elif "oneOf" in part and "properties" not in part:
            part = next(choice for choice in part["oneOf"] if valid(value, choice))
        else:
            return part


def objects(value, part, path=()):
    """Paths of the objects with a fixed set of keys, and these keys."""
    part = resolve(part, value)
    if isinstance(value, dict):
        if isinstance(part.get("additionalProperties"), dict):
            for key, entry in value.items():
                yield from objects(entry, part["additionalProperties"], path + (key,))
        else:
            yield path, set(part["properties"])
            for key, entry in value.items():
                yield from objects(entry, part["properties"][key], path + (key,))
    elif isinstance(value, list) and "items" in part:
        for i, entry in enumerate(value):
            yield from objects(entry, part["items"], path + (i,))


def read(recipe):
    """What the compiler says about a recipe."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(recipe, file)
        file.flush()
        return subprocess.run([dt_opt, file.name], capture_output=True, text=True, timeout=600).stderr


def check_keys(example):
    for path, keys in objects(example, schema):
        recipe = copy.deepcopy(example)
        place = recipe
        for step in path:
            place = place[step]
        place["surplus"] = 1
        error = read(recipe)
        known = re.search(r"unknown key ['\"]surplus['\"].*?(?:keys here: |expected )([a-z0-9_, ]+)", error)
        where = ".".join(map(str, path)) or "the top"
        if not known:
            failures.append(f"{where}: the reader takes the key 'surplus', or says something else: {error.strip()}")
        elif set(known[1].strip().split(", ")) != keys:
            failures.append(f"{where}: the reader knows {known[1]}; the schema {', '.join(sorted(keys))}")
        if valid(recipe, schema):
            failures.append(f"{where}: the schema takes the key 'surplus'")


for example in EXAMPLES:
    if not valid(example, schema):
        failures.append(f"an example disagrees with the schema: {jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(schema).iter_errors(example)).message}")
    else:
        check_keys(example)

recipes = sorted(path for folder in ("docs", "models", "test/models") for path in source.glob(folder + "/**/recipe*.json") if path.name != "recipe.schema.json")
for path in recipes:
    for error in jsonschema.Draft202012Validator(schema).iter_errors(json.load(open(path))):
        failures.append(f"{path.relative_to(source)}: {'.'.join(map(str, error.absolute_path))}: {error.message}")
assert len(recipes) > 20, "the project's recipes were not found"

# What the schema's keys are good for: each is described or named in the pages.
PAGES = ("recipe", "data-recipe", "data-pictures", "feed")
page = "".join((source / f"docs/{name}.md").read_text() for name in PAGES)
for example in EXAMPLES:
    for path, keys in objects(example, schema):
        failures += [f"none of the pages {', '.join(PAGES)} mentions the key {key}" for key in sorted(keys) if not re.search(rf"[`\"]{key}[`\"]", page)]

print("\n".join(dict.fromkeys(failures)) or f"{len(recipes)} recipes agree; schema and reader have the same keys")
sys.exit(bool(failures))
