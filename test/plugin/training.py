# ===- training.py - programs with what a plugin has ---------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A model with the operator of docs/plugin-template, once forwards and once
# backwards, trains with its loss as NumPy says: on one rank, cut over ranks by the
# operator's sharding rule, in stages by its schedule, as its policy plans, in
# microbatches, and by its optimizer. Without the plugin the node is refused.
# ===-----------------------------------------------------------------------===
"""What check.py trains."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import save_file

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from train_model import QUICK, build  # noqa: E402

INSTALLED = "// The installed file.\n"
SAMPLES, TOKENS, IN, WIDTH, OUT, STEPS, RATE = 4, 6, 5, 16, 3, 3, 0.05
RATE_OF_SIGNS, MOMENTUM = 0.01, 0.8
# By name: flags, ranks.
PLANS = {
    "one rank": ([], 1),
    "optimizer": ([], 1),
    "tensor parallel": (["--plan=m:tp=2,dp=2"], 4),
    "schedule": (["--plan=m:pp=2;schedule=example-flush"], 2),
    "policy": (["--plan=auto", "--cluster=cpu-2", "--policy=example-equal-replicas"], 2),
}


def initial():
    random = np.random.default_rng(0)
    draw = lambda *shape: random.standard_normal(shape).astype(np.float32) * 0.3
    return {"w1": draw(IN, WIDTH), "forget": random.uniform(0.2, 0.9, WIDTH).astype(np.float32), "recall": random.uniform(0.2, 0.9, WIDTH).astype(np.float32), "w2": draw(WIDTH, OUT)}


def batch():
    random = np.random.default_rng(1)
    return {"x": random.standard_normal((SAMPLES, TOKENS, IN)).astype(np.float32), "target": 2 * random.standard_normal((SAMPLES, TOKENS, OUT)).astype(np.float32)}


def scan(x, decay, reverse):
    y, state = np.zeros_like(x), np.zeros_like(x[:, 0])
    for t in range(x.shape[1])[:: -1 if reverse else 1]:
        y[:, t] = state = decay * state + x[:, t]
    return y


def scan_gradient(dy, y, decay, reverse):
    """By the chain rule, a token at a time."""
    order = list(range(dy.shape[1]))[:: -1 if reverse else 1]
    dx, d_decay, d_state = np.zeros_like(dy), np.zeros_like(decay), np.zeros_like(dy[:, 0])
    for place in reversed(range(len(order))):
        d_state = d_state + dy[:, order[place]]
        dx[:, order[place]] = d_state
        if place:
            d_decay += (d_state * y[:, order[place - 1]]).sum(0)
        d_state = decay * d_state
    return dx, d_decay


def expected(signs):
    w, data, losses = {k: v.astype(np.float64) for k, v in initial().items()}, batch(), []
    mean = {k: np.zeros_like(v) for k, v in w.items()}
    for _ in range(STEPS):
        h = data["x"] @ w["w1"]
        a = scan(h, w["forget"], False)
        b = scan(a, w["recall"], True)
        error = b @ w["w2"] - data["target"]
        cut = np.minimum(abs(error), 1)
        losses.append((error**2).mean() + (cut * (abs(error) - cut / 2)).mean())
        d_out = (2 * error + np.clip(error, -1, 1)) / error.size
        d_a, d_recall = scan_gradient(d_out @ w["w2"].T, b, w["recall"], True)
        d_h, d_forget = scan_gradient(d_a, a, w["forget"], False)
        gradients = {"w1": np.einsum("bti,btc->ic", data["x"], d_h), "forget": d_forget, "recall": d_recall, "w2": np.einsum("btc,bto->co", b, d_out)}
        mean = {k: MOMENTUM * v + (1 - MOMENTUM) * gradients[k] for k, v in mean.items()}
        w = {k: v - (RATE_OF_SIGNS * np.sign(mean[k]) if signs else RATE * gradients[k]) for k, v in w.items()}
    return losses


def save_model(folder):
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["h"]),
        helper.make_node("Scan", ["h", "forget"], ["a"], domain="example"),
        helper.make_node("Scan", ["a", "recall"], ["b"], domain="example", reverse=1),
        helper.make_node("MatMul", ["b", "w2"], ["y"]),
    ]
    weights = [numpy_helper.from_array(v, k) for k, v in initial().items()]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", TOKENS, IN])], [helper.make_empty_tensor_value_info("y")], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("example", 1)], ir_version=10), folder / "m.onnx")
    recipe = {
        "modules": {"m": {"onnx": "m.onnx"}},
        "dims": {"batch": "sample"},
        "losses": [{"name": name, "kind": kind, "output": "m.y", "target": "target"} for name, kind in (("fit", "mse"), ("smooth", "smooth_l1"))],
        "batch": {"global": SAMPLES, "micro": 2},
        "optimizer": {"kind": "sgd", "lr": RATE},
    }
    (folder / "recipe.json").write_text(json.dumps(recipe))
    recipe["optimizer"] = {"kind": "signum", "lr": RATE_OF_SIGNS, "momentum": MOMENTUM}
    (folder / "signs.json").write_text(json.dumps(recipe))


def run(*command, cwd=None):
    return subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True, timeout=300)


def check_cut(dt_opt, folder, flags):
    """That every rank has a share of the operator."""
    cut = run(dt_opt, folder / "recipe.json", *flags, "--emit=mlir", "--to=shard").stdout
    local = f"x{TOKENS}x{WIDTH // 2}xf32"
    if not any("example.scan" in line and local in line for line in cut.splitlines()):
        sys.exit(f"no rank has {local} of the operator")


def check_plan(dt_opt, plugin, runtime, folder, name, flags, ranks):
    out = folder / name.replace(" ", "-")
    signs = name == "optimizer"
    flags = [f"--load-plugin={plugin}", *flags]
    done = run(dt_opt, folder / ("signs.json" if signs else "recipe.json"), *flags, "--emit=cpp", "-o", out)
    if done.returncode:
        sys.exit(f"{name}: dt-opt ended with {done.returncode}: {done.stderr[-2000:]}")
    if not (out / "runtime/Program.h").read_text().endswith(INSTALLED):
        sys.exit(f"{name}: the runtime is not the installed one")
    if ("struct Signum" in (out / "runtime/PluginOptimizers.h").read_text()) != signs:
        sys.exit(f"{name}: its runtime has {'no' if signs else 'an'} optimizer of the plugin")
    if name == "tensor parallel":
        check_cut(dt_opt, folder, flags)
    # A program with an optimizer of its own compiles its own runtime.
    build(out, os.environ.get("CCACHE_DIR"), runtime, ["-DDT_OPTIMISE=-O0", "-DDT_SHARDS=OFF", "-DDT_MPI=OFF"] if signs else QUICK)
    metrics = out / "metrics.jsonl"
    done = run(out / "build/train", "--batch", folder / "batch.safetensors", "--steps", STEPS, "--threads", 1, "--metrics", metrics, *(["--ranks", ranks] if ranks > 1 else []), cwd=folder)
    if done.returncode:
        sys.exit(f"{name}: train ended with {done.returncode}: {done.stderr[-2000:]}")
    losses = [json.loads(line)["loss"] for line in metrics.read_text().splitlines()]
    wanted = expected(signs)
    if len(losses) != STEPS or not np.allclose(losses, wanted, rtol=1e-5):
        sys.exit(f"{name}: losses {losses}, expected {wanted}")
    print(f"{name}: {losses}")


def train(dt_opt, plugin, runtime):
    """`dt_opt` is installed; `runtime`: prebuilt.cmake of a build, so that programs need not compile their own."""
    with open(dt_opt.parents[1] / "share/distrain/runtime/Program.h", "a") as header:
        header.write(INSTALLED)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        save_model(folder)
        save_file(batch(), folder / "batch.safetensors")
        for file, error in (("recipe.json", "'smooth_l1' is not one of"), ("m.onnx", "operators of domain 'example' are not handled")):
            done = run(dt_opt, folder / file)
            if done.returncode != 1 or error not in done.stderr:
                sys.exit(f"{file} without the plugin: {done.returncode}, {done.stderr[-500:]}")
        for name, (flags, ranks) in PLANS.items():
            check_plan(dt_opt, plugin, runtime, folder, name, flags, ranks)
