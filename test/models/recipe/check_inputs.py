# ===- check_inputs.py - what a recipe makes beside what graphs take ---------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# check_inputs.py DT_OPT: one recipe that fits its two small graphs, and each way in
# which it may not: one line that names the key. Exit 77: a Python package is missing.
# ===-----------------------------------------------------------------------===
"""Errors of `data`, `inputs` and `dims` that are known when the graphs are."""

import copy
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    sys.exit(77)

WORDS = [f"w{i}" for i in range(6)]
SPECIAL = ["<pad>", "<bos>", "<image>", "<eos>"]
RECIPE = {
    "modules": {"vision": {"onnx": "vision.onnx"}, "llm": {"onnx": "llm.onnx"}},
    "items": {"image": {"max": 2}},
    "dims": {"batch": "sample", "images": "image", "seq": 12, "patches": 3},
    "connections": {},
    "losses": [
        {"name": "text", "kind": "cross_entropy", "logits": "llm.logits", "labels": "labels"},
        {"name": "noise", "kind": "mse", "output": "vision.out", "target": "noise"},
    ],
    "batch": {"global": 4, "micro": 2},
    "data": {
        "sequence": "seq",
        "tokenizer": {"kind": "words", "vocabulary": WORDS},
        "special": SPECIAL,
        "pictures": {"image": {"size": [8, 8]}},
        "segments": {"pair": {"parts": ["image", "text"], "tokens": ["<bos>", {"token": "<image>", "count": 3, "of": "image"}, {"text": "text", "loss": True}, "<eos>"]}},
    },
    "inputs": {
        "vision.pixels": {"pixels": "image"},
        "vision.time": {"random": "uniform_int", "below": 5, "per": "image"},
        "noise": {"random": "normal", "per": "image", "shape": [3, 8, 8]},
        "llm.ids": {"tokens": "ids"},
        "llm.places": {"index": ["sample", "token"], "of": "image", "width": "patches"},
        "labels": {"tokens": "labels"},
    },
}


def value(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def graph(nodes, inputs, outputs, weights):
    names = [numpy_helper.from_array(np.full(shape, 0.1, np.float32), name) for name, shape in weights.items()]
    return helper.make_model(helper.make_graph(nodes, "g", inputs, [helper.make_empty_tensor_value_info(o) for o in outputs], names), opset_imports=[helper.make_opsetid("", 20)])


def write_graphs(folder):
    """Pictures times a number by time; ids to logits, with the places of images unused but for their number."""
    axes = numpy_helper.from_array(np.array([2, 3]), "axes")
    vision = graph(
        [helper.make_node("Gather", ["steps", "time"], ["step"]), helper.make_node("Unsqueeze", ["step", "axes"], ["wide"]), helper.make_node("Mul", ["pixels", "wide"], ["out"])],
        [value("pixels", ["images", 3, 8, 8]), value("time", ["images"], TensorProto.INT64)], ["out"], {"steps": (5, 3)})
    vision.graph.initializer.append(axes)
    llm = graph(
        [helper.make_node("Gather", ["table", "ids"], ["rows"]), helper.make_node("MatMul", ["rows", "head"], ["plain"]), helper.make_node("Cast", ["places"], ["floats"], to=1),
         helper.make_node("ReduceSum", ["floats"], ["sum"], keepdims=0), helper.make_node("Mul", ["sum", "zero"], ["nothing"]), helper.make_node("Add", ["plain", "nothing"], ["logits"])],
        [value("ids", ["batch", "seq"], TensorProto.INT64), value("places", ["images", "patches"], TensorProto.INT64)], ["logits"], {"table": (10, 4), "head": (4, 10), "zero": (1,)})
    # Both in one: the rows of pictures, three of each, in order where ids are those of "<image>".
    vlm = graph(
        [helper.make_node("Reshape", ["pixels", "rows_of"], ["patches"]), helper.make_node("MatMul", ["patches", "patch"], ["rows"]), helper.make_node("Concat", ["val_1", "rows"], ["padded"], axis=0),
         helper.make_node("Equal", ["ids", "image"], ["there"]), helper.make_node("Cast", ["there"], ["ones"], to=7), helper.make_node("Reshape", ["ones", "all"], ["flat"]),
         helper.make_node("CumSum", ["flat", "first"], ["count"]), helper.make_node("Gather", ["padded", "count"], ["taken"]), helper.make_node("Gather", ["table", "ids"], ["text"]),
         helper.make_node("Shape", ["text"], ["sizes"]), helper.make_node("Reshape", ["taken", "sizes"], ["placed"]), helper.make_node("Unsqueeze", ["there", "last"], ["mask"]),
         helper.make_node("Where", ["mask", "placed", "text"], ["both"]), helper.make_node("MatMul", ["both", "head"], ["logits"])],
        [value("ids", ["batch", "seq"], TensorProto.INT64), value("pixels", ["images", 3, 8, 8])], ["logits"], {"table": (10, 4), "patch": (64, 4), "head": (4, 10)})
    for name, number in {"rows_of": [-1, 64], "all": [-1], "first": 0, "image": SPECIAL.index("<image>"), "last": [-1]}.items():
        vlm.graph.initializer.append(numpy_helper.from_array(np.array(number), name))
    vlm.graph.initializer.append(numpy_helper.from_array(np.zeros((1, 4), np.float32), "val_1"))
    onnx.save(vlm, folder / "vlm.onnx")
    onnx.save(vision, folder / "vision.onnx")
    onnx.save(llm, folder / "llm.onnx")


def changed(path, to):
    recipe = copy.deepcopy(RECIPE)
    at = recipe
    for key in path[:-1]:
        at = at[key]
    if to is None:
        del at[path[-1]]
    else:
        at[path[-1]] = to
    return recipe


def in_one_graph(*count, parts=("image", "text"), item="image"):
    """The same of one graph that reads both; `count`: tokens of the template's places."""
    places = [{"token": "<image>", "count": n} for n in count]
    return RECIPE | {
        "modules": {"vlm": {"onnx": "vlm.onnx"}},
        "items": {"image": {"max": 2}} if item == "image" else {},
        "dims": {"batch": "sample", "images": item, "seq": 12},
        "losses": [{"name": "text", "kind": "cross_entropy", "logits": "vlm.logits", "labels": "labels"}],
        "data": RECIPE["data"] | {"segments": {"pair": {"parts": list(parts), "tokens": [*places, {"text": "text", "loss": True}]}}},
        "inputs": {"vlm.ids": {"tokens": "ids"}, "vlm.pixels": {"pixels": "image"}, "labels": {"tokens": "labels"}},
    }


def with_texts(recipe, places):
    """And segments without a picture, that have places nevertheless."""
    words = {"parts": ["text"], "tokens": [{"token": "<image>", "count": places}] * (places > 0) + [{"text": "text", "loss": True}]}
    recipe["data"]["segments"]["words"] = words
    return recipe


PLACES = 'data.segments.pair.tokens: error: makes {} "<image>" of {}, but module \'vlm\' puts the rows of pictures there, 3 of each; expected {}'
# Of whole recipes: what the line says; None: there is none.
WHOLE = [
    (in_one_graph(3), None),
    (in_one_graph(2, 1), None),
    (in_one_graph(3, 3, parts=("image", "image", "text")), None),
    (in_one_graph(3, item="sample"), None),
    (in_one_graph(4), PLACES.format(4, "1 picture", 3)),
    (in_one_graph(2, item="sample"), PLACES.format(2, "1 picture", 3)),
    (in_one_graph(3, parts=("image", "image", "text")), PLACES.format(3, "2 pictures", 6)),
    (with_texts(in_one_graph(3), 1), PLACES.format(1, "0 pictures", 0).replace("pair", "words")),
    (with_texts(in_one_graph(3), 0), None),
]
CASES = [
    (("inputs", "vision.time"), {"random": "uniform", "per": "image"}, "inputs.vision.time: error: makes floats, but 'time' of module 'vision' is of"),
    (("inputs", "vision.time"), {"random": "uniform_int", "below": 6, "per": "image"}, "inputs.vision.time: error: may be any of 6 numbers, but goes to the 5 rows of a table"),
    (("inputs", "vision.time"), {"random": "uniform_int", "below": 5, "per": "sample"}, "inputs.vision.time: error: makes [sample], but 'time' of module 'vision' is [image]"),
    (("data", "pictures", "image", "size"), [12, 12], "inputs.vision.pixels: error: makes [image, 3, 12, 12], but 'pixels' of module 'vision' is [image, 3, 8, 8]"),
    (("data", "tokenizer", "vocabulary"), WORDS + ["more"], "inputs.llm.ids: error: may be any of 11 tokens, but goes to the 10 rows of a table"),
    (("inputs", "noise", "shape"), [3, 8, 4], "inputs.noise: error: makes [image, 3, 8, 4], but 'noise' of module 'vision' is [image, 3, 8, 8]"),
    (("inputs", "noise", "shape"), [3, 8], "inputs.noise: error: makes [image, 3, 8], but 'noise' of module 'vision' is [image, 3, 8, 8]"),
    (("inputs", "llm.places", "width"), 4, "inputs.llm.places: error: makes [image, 4], but 'places' of module 'llm' is [image, 3]"),
    (("losses", 0, "logits"), "vision.out", "inputs.labels: error: makes [sample, 12], but 'labels' of module 'vision' is [image, 3, 8]"),
    (("inputs", "llm.idz"), {"tokens": "ids"}, "inputs.llm.idz: error: no module takes it; their inputs are vision.pixels, vision.time, vision.noise, llm.ids, llm.places, llm.labels; did you mean 'llm.ids'?"),
    (("inputs", "llm.ids"), None, "inputs: error: module 'llm' takes 'ids', which is neither connected nor described; expected the key 'llm.ids'"),
    (("dims", "batchs"), "sample", "dims.batchs: error: no graph has an input with this dim; did you mean 'batch'?"),
    (("inputs", "labels", "ignore"), 5, 'inputs.labels: error: marks what is no target by 5 ("ignore"), but the loss leaves out -100 ("ignore_index"); expected one number in both'),
    (("losses", 0, "ignore_index"), -1, 'inputs.labels: error: marks what is no target by -100 ("ignore"), but the loss leaves out -1'),
    (("data", "segments", "pair", "tokens"), ["<bos>", {"token": "<image>", "count": 3, "of": "image"}, {"text": "text"}], "inputs.labels: error: no token of its segments is a target"),
    (("tie",), {"llm.head": "llm.table"}, "tie.llm.head: error: is a 'tensor<4x10xf32>', but 'llm.table' a 'tensor<10x4xf32>'; expected one shape and type"),
    (("inputs", "llm.ids"), {"tokens": "labels"}, 'inputs.llm.ids: error: holds -100 where nothing is a target, but goes to rows of a table; expected {"tokens": "ids"}'),
    (("data", "segments", "pair", "tokens"), ["<bos>", {"token": "<image>", "count": 3}, {"text": "text", "loss": True}], 'data.segments.pair.tokens: no token is "of" the part "image", so an index input of it would hold padding only'),
    (("connections", "llm.ids"), "vision.out", "inputs.llm.ids: error: is connected (connections.llm.ids) and described here too; expected one of them"),
    (("inputs", "labels", "shift"), 0, "inputs.labels: warning: each label is the token at its own place, and the graph does not shift them"),
    (("data", "segments", "pair", "tokens"), ["<bos>", {"token": "<image>", "count": 3, "of": "image"}, {"token": "<eos>", "loss": True}], "data.segments.pair.tokens: warning: no token takes the text of part 1: it is left out"),
    (("data", "segments", "pair", "tokens", 1, "count"), 2, "data.segments.pair.tokens: warning: 2 positions are of one \"image\", but inputs.llm.places has a width of 3: the rest is its \"pad\", -1, which the graph takes for a position"),
    (("modules", "llm", "init"), [{"pattern": "*", "rule": "zeros"}], "modules.llm.init[0]: warning: does nothing: what '*' matches has a value in the file"),
    (("modules", "llm", "init"), [{"pattern": "table", "rule": "normal(0, -1)", "replace": True}], "modules.llm.init[0]: error: parameter 'table': init rule 'normal(0, -1)' has a negative std"),
    (("modules", "llm", "experts"), {"capacity": 0.9}, "modules.llm.experts.capacity: expected a number of at least 1.0, not 0.9"),
    (("modules", "llm", "experts"), {"capacity": "1.25"}, 'modules.llm.experts.capacity: expected a number of at least 1.0, not the string "1.25"'),
    (("modules", "llm", "experts"), {"factor": 1.25}, "modules.llm.experts: unknown key 'factor' (keys here: capacity, choices)"),
    (("losses", 0), {"kind": "max_load", "logits": "llm.logits", "experts_per_token": 2}, 'losses[0]: error: a max_load trains nothing, expected "weight": 0'),
    (("losses", 0), {"kind": "load_balance", "logits": "llm.logits", "experts_per_token": 200}, 'losses[0]: error: "experts_per_token" is 200; expected 1 to the router\'s '),
    (("losses", 0, "where"), "labels", 'losses[0]: "where" names an input and "is" a number: expected both or neither'),
    (("losses", 0, "weight"), -1, "losses[0].weight: expected a number of at least 0.0, not -1"),
    (("inputs", "labels"), None, "losses[0].labels: error: 'labels' is an input of module 'llm' that inputs does not describe; expected the key 'labels' or 'llm.labels' there"),
    (("inputs",), {k if k != "labels" else "label": v for k, v in RECIPE["inputs"].items()}, "losses[0].labels: error: 'labels' is an input of module 'llm' that inputs does not describe; expected the key 'labels' or 'llm.labels' there; did you mean 'label'?"),
    (("losses", 0, "labels"), "llm.lables", "losses[0].labels: error: module 'llm' has no input 'lables'; its inputs are ids, places; a name without a module makes an input of the loss"),
    (("losses", 0, "labels"), "lm.labels", "losses[0].labels: error: there is no module 'lm'; did you mean 'llm'?"),
    (("losses", 1, "target"), "llm.ids", "losses[1].target: error: is of module 'llm', but the loss of module 'vision'; expected an input of 'vision', or a name without a module"),
    (("data", "labels"), 10, 'data.labels: error: no entry of inputs takes the classes of samples; expected one with {"label": "sample"}, or no data.labels'),
    (("optimizer",), {"no_decay": ["llm.heed"]}, "optimizer.no_decay[0]: error: no parameter \"module.name\" matches 'llm.heed'; the nearest are 'llm.head', "),
    (("optimizer",), {"groups": [{"match": "llm.heed", "lr_factor": 2}]}, "optimizer.groups[0].match: error: no parameter \"module.name\" matches 'llm.heed'; the nearest are 'llm.head', "),
    (("optimizer",), {"routing_bias": [{"match": "llm.heed"}]}, "optimizer.routing_bias[0].match: error: no parameter \"module.name\" matches 'llm.heed'; the nearest are 'llm.head', "),
    (("optimizer",), {"routing_bias": ["llm.head"]}, "optimizer.routing_bias[0]: expected an object"),
    (("optimizer",), {"routing_bias": [{"match": "llm.head", "rate": -1}]}, "optimizer.routing_bias[0].rate: expected "),
    (("optimizer",), {"routing_bias": [{"match": "llm.head", "ratio": 1}]}, "optimizer.routing_bias[0]: unknown key 'ratio' (keys here: match, rate)"),
    (("optimizer",), {"schedule": "cosin"}, "optimizer.schedule: 'cosin' is not one of constant, linear, cosine; did you mean 'cosine'?"),
    (("optimizer",), {"kind": "muon", "adamw": ["llm.heed"]}, "optimizer.adamw[0]: error: no parameter \"module.name\" matches 'llm.heed'; the nearest are 'llm.head', "),
    (("optimizer",), {"kind": "muon", "ns_steps": 2.5}, "optimizer.ns_steps: expected an integer from 1 to 99"),
    (("optimizer",), {"kind": "muon", "adjust_lr": "spectral"}, "optimizer.adjust_lr: 'spectral' is not one of original, match_rms_adamw, spectral_unclamped"),
    (("optimizer",), {"kind": "muon", "ns_coefficients": [1, 2]}, "optimizer.ns_coefficients: expected 3 numbers"),
    (("optimizer",), {"kind": "adafactor", "adamw": ["llm.head"]}, "optimizer: unknown key 'adamw' (keys here: kind, "),
    (("optimizer",), {"final": 0.1}, 'optimizer.final: goes with "schedule": "linear" or "cosine"'),
    (("optimizer",), {"warmup": 11, "steps": 10}, "optimizer.warmup: expected at most optimizer.steps, 10"),
    (("modules", "llm", "dims"), {"sek": 12}, "modules.llm.dims.sek: error: no input of 'llm.onnx' has this dim; did you mean 'seq'?"),
]


def run(dt_opt, recipe, folder):
    (folder / "recipe.json").write_text(json.dumps(recipe))
    return subprocess.run([dt_opt, folder / "recipe.json", "-o", folder / "out.mlir", "--remarks", folder / "remarks"], capture_output=True, text=True, timeout=120)


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        write_graphs(folder)
        fixed = copy.deepcopy(RECIPE)  # a name for the length of texts, where graphs have the number
        fixed["dims"]["words"], fixed["data"]["sequence"] = 12, "words"
        unreached = copy.deepcopy(RECIPE)
        del unreached["losses"][0], unreached["inputs"]["labels"]
        frozen = copy.deepcopy(unreached)
        frozen["modules"]["llm"]["freeze"] = ["*"]
        weightless = copy.deepcopy(RECIPE)
        for loss in weightless["losses"]:
            loss["weight"] = 0
        exported_so = copy.deepcopy(RECIPE)
        exported_so["dims"]["batch"], exported_so["batch"]["micro"] = 6, 4
        special = [(RECIPE, None), (fixed, None), (unreached, "modules.llm: error: no loss depends on this module"), (frozen, None), (weightless, "losses: every weight is 0"),
                   (exported_so, "inputs.llm.ids: error: makes a row a sample, 4 in a batch, but 'ids' of module 'llm' always has 6")]
        for recipe, expected in special + WHOLE + [(changed(path, to), text) for path, to, text in CASES]:
            done = run(sys.argv[1], recipe, folder)
            lines = done.stderr.splitlines()
            if expected is None:
                good = done.returncode == 0 and not lines
            else:
                good = done.returncode == int(" warning: " not in expected) and len(lines) == 1 and expected in lines[0]
            if not good:
                failed += 1
                print(f"expected {expected}, ended with {done.returncode}: {done.stderr}")
    print(f"{len(special) + len(WHOLE) + len(CASES)} recipes, {failed} wrong")
    sys.exit(1 if failed else 0)


main()
