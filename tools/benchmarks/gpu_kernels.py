# ===- gpu_kernels.py - packed attention and experts on a GPU ----------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# What the runtime computes by kernels of its own in bf16, beside PyTorch's: causal
# attention over documents that stand one behind another (varlen_attn), also as
# cuDNN computes it with a number for each query and key; and products of experts
# (_grouped_mm). In two halves as gpu.py.
# ===-----------------------------------------------------------------------===
"""gpu_kernels.py --pack OUT : builds what measures (needs nvcc)    gpu_kernels.py OUT : measures, as TFLOP/s of what is not hidden"""

import argparse
import inspect
import json
import os
import pathlib
import random
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOKENS, HEADS = 8192, 16
HIDDEN, INNER = 2048, 1024


def documents(mean, rng):
    """Lengths around `mean`, of TOKENS tokens together."""
    lengths = []
    while sum(lengths) < TOKENS:
        lengths.append(min(max(1, round(rng.expovariate(1 / mean))), TOKENS - sum(lengths)))
    return lengths


def shapes():
    rng = random.Random(0)
    for mean, width, keys in [(256, 128, 16), (1024, 128, 16), (1024, 64, 16), (1024, 128, 4), (10**9, 128, 16)]:
        lengths = documents(mean, rng)
        for kind in ("packed", "packed_back"):
            yield {"kind": kind, "type": "bf16", "documents": lengths, "heads": HEADS, "keys": keys, "width": width}
    for experts, tokens in [(8, 16384), (64, 16384), (128, 65536)]:
        cuts = sorted(rng.randrange(tokens + 1) for _ in range(experts - 1))
        rows = [end - begin for begin, end in zip([0, *cuts], [*cuts, tokens])]
        for kind in ("experts", "experts_weight"):
            yield {"kind": kind, "type": "bf16", "rows": rows, "columns": INNER, "depth": HIDDEN}


def flops(shape):
    if shape["kind"].startswith("experts"):
        return 2 * sum(shape["rows"]) * shape["columns"] * shape["depth"]
    seen = sum(n * (n + 1) // 2 for n in shape["documents"])
    return (4 if shape["kind"] == "packed" else 10) * seen * shape["heads"] * shape["width"]


def describe(shape):
    if shape["kind"].startswith("experts"):
        return f"{len(shape['rows'])} experts, {sum(shape['rows'])} rows, {shape['depth']} x {shape['columns']}" + (", gradient of weights" if "weight" in shape["kind"] else "")
    return f"{len(shape['documents'])} documents, {shape['heads']} heads on {shape['keys']}, {shape['width']} wide" + (", gradients" if "back" in shape["kind"] else "")


def torch_call(shape):
    """A function that queues it; None if this PyTorch has none."""
    import torch
    from torch.nn.attention.varlen import varlen_attn

    def draw(*sizes):
        return torch.rand(*sizes, device="cuda").mul_(2).sub_(1).bfloat16()

    if shape["kind"].startswith("experts"):
        offsets = torch.tensor(shape["rows"]).cumsum(0).int().cuda()
        rows, columns, depth = sum(shape["rows"]), shape["columns"], shape["depth"]
        a = draw(rows, depth)
        if shape["kind"] == "experts":
            weight = draw(len(shape["rows"]), columns, depth)
            return lambda: torch._grouped_mm(a, weight.transpose(1, 2), offs=offsets)
        gradient = draw(rows, columns)
        return lambda: torch._grouped_mm(a.t(), gradient, offs=offsets)
    q, k, v = (draw(TOKENS, n, shape["width"]).requires_grad_() for n in (shape["heads"], shape["keys"], shape["keys"]))
    ends = torch.tensor([0, *shape["documents"]]).cumsum(0).int().cuda()
    longest = max(shape["documents"])
    known = inspect.signature(varlen_attn).parameters  # versions differ
    settings = {"window_size": (-1, 0)} if "window_size" in known else {"is_causal": True}
    settings |= {"scale": 0.1} if "scale" in known else {}
    settings |= {"enable_gqa": True} if "enable_gqa" in known and shape["heads"] != shape["keys"] else {}

    def forward():
        return varlen_attn(q, k, v, ends, ends, longest, longest, **settings)

    if shape["kind"] == "packed":
        return forward
    output = forward()
    gradient = draw(*output.shape)
    return lambda: torch.autograd.grad(output, (q, k, v), gradient, retain_graph=True)


def torch_seconds(shape):
    import torch

    try:
        call = torch_call(shape)
        for _ in range(5):
            call()
        torch.cuda.synchronize()
    except (RuntimeError, ValueError, ImportError) as error:
        print(f"PyTorch: {describe(shape)}: {str(error).splitlines()[0]}")
        return None
    times = []
    for _ in range(20):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(5):
            call()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 5e3)
    return sorted(times)[len(times) // 2]


def own_seconds(out, wanted, **environment):
    (out / "shapes.json").write_text(json.dumps(wanted))
    subprocess.run([str(out / "build/measure"), "1", str(out / "shapes.json"), str(out / "seconds.json")], check=True, env=os.environ | environment)
    return json.loads((out / "seconds.json").read_text())["seconds"]


def measure(out):
    wanted = list(shapes())
    ours = own_seconds(out, wanted)
    attention = [shape for shape in wanted if shape["kind"].startswith("packed")]
    numbers = own_seconds(out, attention, DT_TENSOR_ATTENTION="off")
    theirs = [torch_seconds(shape) for shape in wanted]
    print("bf16, TFLOP/s of what is not hidden (ms)\n\n| | this runtime | cuDNN with a number for each query and key | PyTorch |\n| --- | --- | --- | --- |")
    for shape, own, number, other in zip(wanted, ours, numbers + [None] * len(wanted), theirs):
        texts = [f"{flops(shape) / s / 1e12:.0f} ({s * 1e3:.3f})" if s else "" for s in (own, number, other)]
        print(f"| {describe(shape)} | {' | '.join(texts)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(prog="tools/bench gpu-kernels", description=__doc__)
    parser.add_argument("out", type=pathlib.Path, help="folder of what measures")
    parser.add_argument("--pack", action="store_true", help="make it")
    parser.add_argument("--cmake", action="append", default=[], metavar="FLAG", help="handed on to CMake")
    options = parser.parse_args()
    out = options.out.resolve()
    if not options.pack:
        return measure(out)
    out.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cmake", "-S", ROOT / "tools/calibration", "-B", out / "build", "-G", "Ninja", "-DDT_RUNTIME_TARGET=cuda", *options.cmake], check=True)
    subprocess.run(["cmake", "--build", out / "build", "--target", "measure"], check=True)


if __name__ == "__main__":
    sys.exit(main())
