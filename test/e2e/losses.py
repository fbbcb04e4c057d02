# ===- losses.py - losses that graphs compute, against ONNX Runtime --------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# One small module a loss, all in one program, which is built for the whole batch
# and for microbatches of one sample: conditions, bounds, signs and counts around a
# loss must mean what ONNX Runtime says, however the batch is cut and if it has no
# images. Gradients are compared with differences of ONNX Runtime's losses. What a
# cut batch cannot compute is refused in one line.
# ===-----------------------------------------------------------------------===
"""losses.py --dt-opt DT_OPT: exit code 0 when losses and gradients hold."""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file, save_file

from train_model import QUICK, make

SAMPLES, FEATURES, CLASSES = 4, 3, 5
LIMIT = 1e-4
rng = np.random.default_rng(5)

# What each input is: element type, shape.
INPUTS = {
    "x": (TensorProto.FLOAT, ["batch", FEATURES]),
    "mask": (TensorProto.FLOAT, ["batch", 2]),
    "labels": (TensorProto.INT64, ["batch"]),
    "flag": (TensorProto.FLOAT, []),
    "pixels": (TensorProto.FLOAT, ["images", FEATURES]),
}
CONSTANTS = {
    "zero": np.float32(0), "one": np.float32(1), "half": np.float32(0.5), "ten": np.float32(10), "eps": np.float32(0.25),
    "i0": np.int64(0), "i1": np.int64(1), "ignore": np.int64(-100),
    "axis0": np.array([0], np.int64), "axis1": np.array([1], np.int64),
}
# Every loss begins with h = x w, its squares q [batch, 3], and their sum s.
SQUARES = [("MatMul x w", "h"), ("Mul h h", "q"), ("ReduceSum q keepdims=0", "s"), ("ReduceMean q keepdims=0", "mean")]
# Samples whose mask has a 1, and their squares; WHOLE: counted as integers and as bools.
VALID = [("ReduceMax mask axis1 keepdims=0", "valid"), ("Unsqueeze valid axis1", "v2"), ("Mul q v2", "masked"), ("ReduceSum masked keepdims=0", "ms")]
COUNT = VALID + [("ReduceSum valid keepdims=0", "n")]
WHOLE = VALID + [("Cast valid to=9", "vb"), ("Cast vb to=7", "vi"), ("ReduceSum vi keepdims=0", "ni"), ("Cast vb to=1", "vf"), ("ReduceSum vf keepdims=0", "nf")]
IMAGES = [("MatMul pixels w", "h"), ("Mul h h", "q"), ("ReduceSum q keepdims=0", "s"), ("Shape pixels end=1", "shape"), ("Squeeze shape axis0", "size")]
ENTROPY = [("MatMul x w", "logits"), ("LogSoftmax logits axis=-1", "logs"), ("Equal labels ignore", "hidden"), ("Not hidden", "shown")]
ENTROPY_END = [("Unsqueeze index axis1", "index2"), ("GatherElements logs index2 axis=1", "picked2"), ("Squeeze picked2 axis1", "picked"), ("Cast shown to=1", "ones"),
               ("Mul picked ones", "kept"), ("ReduceSum kept keepdims=0", "total"), ("ReduceSum ones keepdims=0", "n"), ("Neg total", "negative"),
               ("Max n one", "n1"), ("Div negative n1", "loss")]

# name: nodes that end in `loss`; whether a batch that is cut can have it.
LOSSES = {
    "mean": (SQUARES + [("Identity mean", "loss")], True),
    "negated": (SQUARES + [("Neg mean", "loss")], True),
    "scaled": (SQUARES + [("Mul mean half", "loss")], True),
    "flagged": (SQUARES + [("Greater flag zero", "c"), ("Where c mean zero", "loss")], True),
    "flagged_not": (SQUARES + [("Greater flag zero", "c"), ("Where c zero mean", "loss")], True),
    "by_flag": (SQUARES + [("Add flag one", "f1"), ("Div mean f1", "loss")], True),
    "bounded": (SQUARES + COUNT + [("Max n one", "n1"), ("Div ms n1", "loss")], True),
    "bounded_unmasked": (SQUARES + COUNT + [("Max n one", "n1"), ("Div s n1", "loss")], True),
    "clipped": (SQUARES + [("ReduceMean mask axis1 keepdims=0", "per"), ("ReduceSum per keepdims=0", "n"), ("Clip n one", "n1"), ("Div s n1", "loss")], True),
    "clipped_at_ten": (SQUARES + COUNT + [("Clip n ten", "n1"), ("Div s n1", "loss")], True),
    "plus": (SQUARES + COUNT + [("Add n eps", "n1"), ("Div s n1", "loss")], True),
    "plus_bound_scaled": (SQUARES + COUNT + [("Add n eps", "n1"), ("Max n1 ten", "n2"), ("Mul n2 half", "n3"), ("Div s n3", "loss")], True),
    "none_is_one": (SQUARES + WHOLE + [("Equal ni i0", "c"), ("Where c i1 ni", "n0"), ("Cast n0 to=1", "n1"), ("Div ms n1", "loss")], True),
    "none_is_zero": (SQUARES + WHOLE + [("Greater nf zero", "c"), ("Div ms nf", "d"), ("Where c d zero", "loss")], True),
    "none_by_integers": (SQUARES + WHOLE + [("Greater ni i0", "c"), ("Cast ni to=1", "nc"), ("Div ms nc", "d"), ("Where c d zero", "loss")], True),
    "at_most": (SQUARES + COUNT + [("Greater n ten", "c"), ("Where c ten n", "n1"), ("Max n1 one", "n2"), ("Div s n2", "loss")], False),
    "many_only": (SQUARES + WHOLE + [("Greater nf one", "c"), ("Max nf one", "n1"), ("Div ms n1", "d"), ("Where c d zero", "loss")], False),
    "added": (SQUARES + [("Add mean flag", "loss")], False),
    "root": (SQUARES + [("Sqrt s", "loss")], False),
    "images": (IMAGES + [("Max size i1", "n"), ("Cast n to=1", "nf"), ("Div s nf", "loss")], True),
    "images_float": (IMAGES + [("Cast size to=1", "nf"), ("Max nf one", "n1"), ("Div s n1", "loss")], True),
    "images_plus": (IMAGES + [("Cast size to=1", "nf"), ("Add nf one", "n1"), ("Div s n1", "loss")], True),
    "images_none": (IMAGES + [("Equal size i0", "c"), ("Where c i1 size", "n0"), ("Cast n0 to=1", "n1"), ("Div s n1", "loss")], True),
    "images_sum": (IMAGES + [("Identity s", "loss")], True),
    "entropy_max": (ENTROPY + [("Max labels i0", "index")] + ENTROPY_END, True),
    "entropy_where": (ENTROPY + [("Where shown labels i0", "index")] + ENTROPY_END, True),
    "entropy_other": (ENTROPY + [("Less labels i1", "c"), ("Where c i0 i1", "index")] + ENTROPY_END, True),
    "entropy_below": (ENTROPY + [("Less labels i1", "c"), ("Max labels i0", "up"), ("Where c up i0", "index")] + ENTROPY_END, True),
}


def node(text, output, number):
    op, *words = text.split()
    attributes = {k: int(v) for k, v in (w.split("=") for w in words if "=" in w)}
    inputs = [w for w in words if "=" not in w]
    return helper.make_node(op, inputs, [output], name=f"n{number}_{op}", **attributes)


def model(name, nodes):
    made = [node(text, output, i) for i, (text, output) in enumerate(nodes)]
    used = {i for n in made for i in n.input}
    width = CLASSES if "labels" in used else FEATURES
    weight = np.linspace(-1, 1, FEATURES * width).reshape(FEATURES, width).astype(np.float32) + np.float32(0.03 * (sum(map(ord, name)) % 7))
    inputs = [helper.make_tensor_value_info(k, *v) for k, v in INPUTS.items() if k in used]
    # An initializer would be trained: numbers are nodes.
    made = [helper.make_node("Constant", [], [k], name=f"c_{k}", value=numpy_helper.from_array(np.asarray(v), k)) for k, v in CONSTANTS.items() if k in used] + made
    constants = [numpy_helper.from_array(weight, "w")]
    graph = helper.make_graph(made, name, inputs, [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def batches():
    x = rng.standard_normal((SAMPLES, FEATURES)).astype(np.float32)
    some = {"x": x, "mask": np.array([[1, 0], [0, 0], [1, 1], [0, 0]], np.float32), "labels": np.array([1, -100, 4, 0], np.int64), "flag": np.array(1, np.float32),
            "pixels": rng.standard_normal((5, FEATURES)).astype(np.float32), "item_of.image": np.array([0, 0, 2, 2, 2], np.int64)}
    nothing = dict(some, mask=np.zeros((SAMPLES, 2), np.float32), labels=np.full(SAMPLES, -100, np.int64), flag=np.array(-0.5, np.float32),
                   pixels=np.zeros((0, FEATURES), np.float32), **{"item_of.image": np.zeros(0, np.int64)})
    one = dict(some, mask=np.array([[0, 0], [0, 0], [0, 1], [0, 0]], np.float32), flag=np.array(0.25, np.float32), pixels=some["pixels"][:1], **{"item_of.image": np.array([3], np.int64)})
    return {"some": some, "nothing": nothing, "one": one}


class Reference:
    """ONNX Runtime's loss of a model, and differences of it along the weight."""

    def __init__(self, proto):
        self.proto = proto
        self.weight = numpy_helper.to_array(next(i for i in proto.graph.initializer if i.name == "w"))

    def loss(self, batch, weight=None):
        proto = onnx.ModelProto()
        proto.CopyFrom(self.proto)
        value = next(i for i in proto.graph.initializer if i.name == "w")
        if weight is not None:
            value.CopyFrom(numpy_helper.from_array(weight.astype(np.float32), "w"))
        session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
        return float(session.run(None, {i.name: batch[i.name] for i in session.get_inputs()})[0])

    def slope(self, batch, direction, step=1e-2):
        return (self.loss(batch, self.weight + step * direction) - self.loss(batch, self.weight - step * direction)) / (2 * step)


def write(names, folder, micro):
    recipe = {"modules": {}, "items": {"image": {"max": 5}}, "dims": {}, "losses": [],
              "optimizer": {"kind": "sgd", "lr": 0.0}, "batch": {"global": SAMPLES, "micro": micro}}
    for name in names:
        graph = model(name, LOSSES[name][0])
        onnx.save(graph, folder / f"{name}.onnx")
        counted = {d.dim_param for i in graph.graph.input for d in i.type.tensor_type.shape.dim if d.dim_param}
        recipe["dims"].update({d: {"batch": "sample", "images": "image"}[d] for d in sorted(counted)})
        recipe["modules"][name] = {"onnx": f"{name}.onnx"}
        recipe["losses"].append({"name": f"of_{name}", "kind": "graph_output", "output": f"{name}.loss"})
    (folder / f"micro{micro}.json").write_text(json.dumps(recipe))
    return folder / f"micro{micro}.json"


def check_refused(dt_opt, folder, name):
    done = subprocess.run([dt_opt, write([name], folder, 1), "--emit=mlir", "--to=modules"], capture_output=True, text=True, timeout=120)
    errors = [line for line in done.stderr.splitlines() if "error:" in line]
    good = done.returncode != 0 and len(errors) == 1 and "cannot be cut" in errors[0]
    print(f"{'ok  ' if good else 'BAD '} {name} cut: {errors[0] if errors else 'accepted'}")
    return good


def check(name, batch, label, losses, gradients):
    reference = Reference(model(name, LOSSES[name][0]))
    want, have = reference.loss(batch), losses.get(f"loss.of_{name}", np.nan)
    want = 0.0 if np.isnan(want) else want  # a loss of nothing is 0
    direction = rng.standard_normal(reference.weight.shape).astype(np.float32)
    slope = reference.slope(batch, direction)
    slope = 0.0 if np.isnan(slope) else slope
    gradient = gradients.get(f"{name}.w")
    found = float((gradient * direction).sum()) if gradient is not None else np.nan
    scale = max(abs(want), 1.0)
    good = abs(have - want) <= LIMIT * scale and abs(found - slope) <= 2e-2 * max(abs(slope), 0.1 * scale)
    print(f"{'ok  ' if good else 'BAD '} {label:16} {name:18} loss {float(have):10.5f} of {want:10.5f}, slope {found:10.5f} of {slope:10.5f}")
    return good


def run(options, folder, micro):
    names = [n for n, (_, cut) in LOSSES.items() if (cut or micro == SAMPLES) and not (options.only and n not in options.only)]
    out = folder / f"program{micro}"
    make(options.dt_opt, write(names, folder, micro), out, settings=QUICK)
    good = True
    for label, batch in batches().items():
        save_file({k: np.array(v, order="C") for k, v in batch.items()}, folder / "batch.safetensors")
        command = [out / "build" / "train", "--batch", "batch.safetensors", "--steps", "1", "--save-outputs", "o.safetensors", "--save-gradients", "g.safetensors"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
        if done.returncode:
            print(f"BAD  {label} micro {micro}: train ended with {done.returncode}: {done.stderr[-1000:]}")
            good = False
            continue
        losses, gradients = load_file(folder / "o.safetensors"), load_file(folder / "g.safetensors")
        good &= all([check(name, batch, f"{label}, micro {micro}", losses, gradients) for name in names])
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dt-opt", required=True, type=pathlib.Path)
    parser.add_argument("--only", nargs="*", help="names of losses")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        refused = [check_refused(options.dt_opt, folder, n) for n, (_, cut) in LOSSES.items() if not cut and not (options.only and n not in options.only)]
        whole, cut = run(options, folder, SAMPLES), run(options, folder, 1)
    return 0 if all(refused) and whole and cut else 1


if __name__ == "__main__":
    sys.exit(main())
