# ===- indices.py - indices from data, and tables that are too short --------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A small language model whose ids and labels come from a --batch file. Values in
# range train as NumPy says; one value out of range, below 0 too, ends the run with one
# line that names input, sample, value and the number of rows or classes, on one rank
# and on several, and where a cut table is padded. A dim that may be larger than a table of positions, and a vocabulary that
# is, are refused when the recipe is compiled.
# ===-----------------------------------------------------------------------===
"""indices.py --dt-opt PATH: exit code 0 when all that is out of range is refused."""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import save_file

from layouts import parse_plan
from train_model import QUICK, make

ROWS, WIDTH, LENGTH, SAMPLES = 120, 8, 6, 4
FAILURES = []


def expect(condition, what, done=None):
    if not condition:
        FAILURES.append(what)
        print(f"FAILED: {what}" + (f"\n  ended with {done.returncode}: {done.stdout[-300:]}{done.stderr[-1200:]}" if done else ""))


def save(path, nodes, inputs, outputs, constants):
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_empty_tensor_value_info(o) for o in outputs], [numpy_helper.from_array(v, k) for k, v in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)


def tables(rows=ROWS):
    random = np.random.default_rng(0)
    return {"embed": random.standard_normal((rows, WIDTH)).astype(np.float32), "head": random.standard_normal((WIDTH, rows)).astype(np.float32)}


def language_model(folder, rows=ROWS, own_loss=False):
    """logits = tanh(embed[ids]) head. `own_loss`: the graph looks up the labels' log-probabilities itself."""
    nodes = [helper.make_node("Gather", ["embed", "ids"], ["e"], name="lookup"), helper.make_node("Tanh", ["e"], ["t"]), helper.make_node("MatMul", ["t", "head"], ["logits"])]
    constants, inputs = tables(rows), ["ids"]
    losses = [{"name": "text", "kind": "cross_entropy", "logits": "lm.logits", "labels": "labels"}]
    if own_loss:
        nodes += [helper.make_node("LogSoftmax", ["logits"], ["logs"], axis=-1), helper.make_node("Unsqueeze", ["labels", "last"], ["column"]), helper.make_node("GatherElements", ["logs", "column"], ["own"], axis=-1, name="pick"),
                  helper.make_node("ReduceMean", ["own"], ["mean"], keepdims=0), helper.make_node("Neg", ["mean"], ["loss"])]
        constants["last"], inputs = np.array([-1]), ["ids", "labels"]
        losses = [{"name": "text", "kind": "graph_output", "output": "lm.loss"}]
    save(folder / "lm.onnx", nodes, [helper.make_tensor_value_info(i, TensorProto.INT64, ["batch", LENGTH]) for i in inputs], ["loss" if own_loss else "logits"], constants)
    recipe = {
        "modules": {"lm": {"onnx": "lm.onnx"}},
        "dims": {"batch": "sample"},
        "losses": losses,
        "batch": {"global": SAMPLES, "micro": 2},
        "optimizer": {"kind": "sgd", "lr": 0.1},
    }
    (folder / "recipe.json").write_text(json.dumps(recipe))
    return folder / "recipe.json"


def compile_program(options, recipe, out, plan=None):
    path = recipe.parent / "plan.json"
    if plan:
        path.write_text(json.dumps(parse_plan(plan)))
    make(options.dt_opt, recipe, out, flags=[f"--plan={path}"] if plan else [], settings=QUICK)
    return out / "build/train"


def batch(change=None, rows=ROWS, ignored=True):
    """In range; `change`: (tensor, sample, place, value)."""
    random = np.random.default_rng(1)
    tensors = {"lm.ids": random.integers(0, rows, (SAMPLES, LENGTH)), "labels": random.integers(0, rows, (SAMPLES, LENGTH))}
    tensors["lm.ids"][0, 0], tensors["lm.ids"][0, 1] = 0, rows - 1
    if ignored:
        tensors["labels"][1, 2:] = -100
    if change:
        name, sample, place, value = change
        tensors[name][sample, place] = value
    return tensors


def loss_of(tensors, rows=ROWS):
    values = {k: v.astype(np.float64) for k, v in tables(rows).items()}
    logits = np.tanh(values["embed"][tensors["lm.ids"]]) @ values["head"]
    top = logits.max(-1, keepdims=True)
    scores = logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))
    counts = tensors["labels"] != -100
    picked = np.take_along_axis(scores, np.where(counts, tensors["labels"], 0)[..., None], -1)[..., 0]
    return -(picked * counts).sum() / counts.sum()


def train(program, flags, folder, ranks):
    metrics = folder / "metrics.jsonl"
    metrics.unlink(missing_ok=True)
    command = [program, "--steps", 1, "--threads", 1, "--metrics", metrics, *flags] + (["--ranks", ranks] if ranks > 1 else [])
    done = subprocess.run([str(c) for c in command], cwd=folder, capture_output=True, text=True, timeout=120)
    return done, [json.loads(line)["loss"] for line in metrics.read_text().splitlines()] if metrics.exists() else []


def refused(what, done, losses, *parts):
    lines = [line for line in done.stderr.splitlines() if "error: " in line]
    expect(done.returncode not in (0, None) and done.returncode > 0, f"{what}: must end with a code above 0", done)
    expect(len(lines) == 1 and all(p in lines[0] for p in parts), f"{what}: one line with {parts}", done)
    expect(not losses, f"{what}: no step is done", done)


def check_batches(program, folder, ranks, rows=ROWS, own_loss=False):
    """Of labels that the graph looks up itself none is ignored."""
    right = batch(rows=rows, ignored=not own_loss)
    good, what = folder / "good.safetensors", f"{ranks} ranks, {rows} rows"
    save_file(right, good)
    done, losses = train(program, ["--batch", good], folder, ranks)
    expected = loss_of(right, rows)
    expect(done.returncode == 0 and len(losses) == 1 and abs(losses[0] / expected - 1) < 1e-5, f"{what}: values in range give {losses}, expected {expected}", done)
    of_ids = f"{rows} rows of 'embed' (0 to {rows - 1})"
    of_labels = f"{rows} elements of" if own_loss else f"{rows} classes of cross_entropy (0 to {rows - 1}, or -100)"
    for name, sample, place, value, count in [
        ("lm.ids", 2, 3, rows, of_ids),
        ("lm.ids", 0, 5, -1, of_ids),
        ("lm.ids", 1, 4, -100, of_ids),
        ("lm.ids", 0, 5, -rows - 1, of_ids),
        ("lm.ids", 3, 0, 1 << 40, of_ids),
        ("labels", 1, 0, -1, of_labels),
        ("labels", 3, 5, rows, of_labels),
        *([("labels", 3, 5, -100, of_labels)] if own_loss else []),
    ]:
        bad = folder / "bad.safetensors"
        save_file(batch((name, sample, place, value), rows, not own_loss), bad)
        done, losses = train(program, ["--batch", bad], folder, ranks)
        refused(f"{what}, {name} = {value}", done, losses, name.split(".")[-1], f"sample {sample}: {value} is none of", count)


def check_vocabulary(options, recipe):
    """Text as bytes after one special token."""
    longer = json.loads(recipe.read_text())
    longer["data"] = {"sequence": LENGTH, "tokenizer": {"kind": "bytes"}, "special": ["<pad>"], "segments": {"plain": {"parts": ["text"], "tokens": [{"text": "text", "loss": True}]}}}
    longer["inputs"] = {"lm.ids": {"tokens": "ids"}, "labels": {"tokens": "labels"}}
    path = recipe.parent / "bytes.json"
    path.write_text(json.dumps(longer))
    done = subprocess.run([str(options.dt_opt), str(path), "--emit=cpp", "-o", str(recipe.parent / "none")], capture_output=True, text=True, timeout=120)
    refused("a vocabulary of bytes", done, [], "bytes.json: inputs.lm.ids", "257 tokens", "120 rows")


def positions(folder, form, most):
    """The first n rows of a table of 16, n being the tokens of a microbatch."""
    constants = {"pos": np.ones((16, 4), np.float32), "zero": np.array(0), "one": np.array(1), "first": np.array([0])}
    nodes = [helper.make_node("Shape", ["x"], ["shape"], end=1)]
    if form == "Gather":
        nodes += [helper.make_node("Squeeze", ["shape"], ["n"]), helper.make_node("Range", ["zero", "n", "one"], ["i"]), helper.make_node("Gather", ["pos", "i"], ["p"], name="positions")]
    else:
        nodes += [helper.make_node("Slice", ["pos", "first", "shape"], ["p"], name="positions")]
    nodes += [helper.make_node("Add", ["x", "p"], ["s"]), helper.make_node("Mul", ["s", "s"], ["q"]), helper.make_node("ReduceSum", ["q"], ["loss"], keepdims=0)]
    save(folder / "pos.onnx", nodes, [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["tokens", 4])], ["loss"], constants)
    recipe = {
        "modules": {"m": {"onnx": "pos.onnx"}},
        "items": {"token": {"of": "sample", "max": most}},
        "dims": {"tokens": "token"},
        "losses": [{"name": "l", "kind": "graph_output", "output": "m.loss", "weight": 1}],
        "batch": {"global": 1, "micro": 1},
    }
    (folder / "pos.json").write_text(json.dumps(recipe))
    return folder / "pos.json"


def check_tables(options, folder):
    for form in ("Gather", "Slice"):
        for most in (16, 17, 40):
            done = subprocess.run([str(options.dt_opt), str(positions(folder, form, most)), "--emit=cpp", "-o", str(folder / "none")], capture_output=True, text=True, timeout=120)
            if most == 16:
                expect(done.returncode == 0, f"{form}: a bound of 16 for 16 rows", done)
                continue
            lines = [line for line in done.stderr.splitlines() if "error: " in line]
            wanted = ("pos.json", "dim 'tokens'", f"up to {most}", "at most 16", "node 'positions'", "of 16 rows")
            expect(done.returncode == 1 and len(lines) == 1 and all(w in lines[0] for w in wanted), f"{form}: a bound of {most} for 16 rows: one line with {wanted}", done)


NOTHING = {
    # Rows of pixels [images, 4] that are there only if an image is.
    "wrap": ([("Pad", ["pixels", "pads"], {"mode": "wrap"})], 2),
    "edge": ([("Pad", ["pixels", "pads"], {"mode": "edge"})], 2),
    "gather": ([("Gather", ["pixels", "first_two"], {})], 2),
    "slice": ([("Gather", ["pixels", "zero"], {})], 1),
}


def check_nothing(options, folder):
    """Rows of an axis without any: one line, or what the graph says of no rows, but no stray memory and no signal."""
    constants = {"pads": np.array([1, 0, 1, 0]), "first_two": np.array([0, 1]), "zero": np.array(0), "w": np.ones(4, np.float32)}
    for name, (steps, needed) in NOTHING.items():
        nodes = [helper.make_node(op, inputs, ["rows"], name="rows_of", **attributes) for op, inputs, attributes in steps]
        nodes += [helper.make_node("Mul", ["rows", "w"], ["q"]), helper.make_node("ReduceSum", ["q"], ["loss"], keepdims=0)]
        save(folder / "none.onnx", nodes, [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["images", 4])], ["loss"], constants)
        recipe = {
            "modules": {"m": {"onnx": "none.onnx"}},
            "items": {"image": {"of": "sample", "max": 3}},
            "dims": {"images": "image"},
            "losses": [{"name": "l", "kind": "graph_output", "output": "m.loss", "weight": 1}],
            "batch": {"global": 1, "micro": 1},
        }
        (folder / "none.json").write_text(json.dumps(recipe))
        program = compile_program(options, folder / "none.json", folder / f"none-{name}")
        for images in (needed, needed - 1, 0):
            path = folder / "images.safetensors"
            save_file({"m.pixels": np.ones((images, 4), np.float32), "item_of.image": np.zeros(images, np.int64)}, path)
            done, losses = train(program, ["--batch", path], folder, 1)
            if images >= (needed if name in ("gather", "slice") else 1):
                rows = images + 2 if name in ("wrap", "edge") else needed
                expect(done.returncode == 0 and losses == [4 * rows], f"{name} of {images} rows gives {losses}, expected {4 * rows}", done)
            else:
                refused(f"{name} of {images} rows", done, losses, "there are no rows of gather" if images == 0 else "none of the 1 rows of gather")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dt-opt", type=pathlib.Path, required=True)
    options = parser.parse_args()
    options.dt_opt = options.dt_opt.resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        check_tables(options, folder)
        check_nothing(options, folder)
        recipe = language_model(folder)
        for name, plan in (("replicas", "lm:dp=2"), ("stages", "lm:pp=2"), ("cut", "lm:tp=2")):
            check_batches(compile_program(options, recipe, folder / name, plan), folder, 2)
        check_batches(compile_program(options, recipe, folder / "one"), folder, 1)
        check_vocabulary(options, recipe)
        padded = language_model(folder, ROWS + 1)
        check_batches(compile_program(options, padded, folder / "padded", "lm:tp=2"), folder, 2, ROWS + 1)
        own = language_model(folder, own_loss=True)
        for name, plan, ranks in (("own", None, 1), ("own-cut", "lm:tp=2", 2)):
            check_batches(compile_program(options, own, folder / name, plan), folder, ranks, own_loss=True)
    print(f"{len(FAILURES)} failures")
    return 1 if FAILURES else 0


if __name__ == "__main__":
    sys.exit(main())
