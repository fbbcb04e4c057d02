# ===- gpu.py - training steps on a GPU beside PyTorch's -------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# In two halves, since compiler and GPU may be on two machines. --pack makes a folder
# with GPT-2 of several sizes as CUDA programs, and a batch; without weights, for the
# programs draw them. Where the GPU is, the folder's programs and PyTorch take turns
# as in cpu.py; nothing of this project is needed there but this folder of scripts.
# ===-----------------------------------------------------------------------===
"""gpu.py --pack OUT : emits programs and builds them (needs nvcc)    gpu.py OUT : measures them"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/benchmarks"))

from cpu import WARMUP, run, write_recipe  # noqa: E402

ROUNDS = 2

# Layers, width, vocabulary: GPT-2's, and one that is a multiple of 64, with which all products have aligned rows.
SIZES = {"gpt2-124m": (12, 768, 50257), "gpt2-124m-even": (12, 768, 50304), "gpt2-355m-even": (24, 1024, 50304)}
SAMPLES, TOKENS = 8, 1024


def pack(out, settings):
    import batches

    out.mkdir(parents=True, exist_ok=True)
    batches.write("gpt2", out / "batch.safetensors", samples=SAMPLES, tokens=TOKENS)
    for name, (layers, width, vocabulary) in SIZES.items():
        run([sys.executable, ROOT / "models/examples/gpt2/write_graph.py", out / name, "--layers", layers, "--width", width, "--vocabulary", vocabulary])
        recipe = out / name / "recipe.json"
        text = json.loads(recipe.read_text())
        text["dims"]["seq"], text["batch"] = TOKENS, {"global": SAMPLES, "micro": SAMPLES}
        recipe.write_text(json.dumps(text))
        for precision in ("f32", "bf16"):
            program = out / name / precision
            copy = write_recipe(recipe, precision, out / name / "recipes" / precision)
            run([ROOT / "build/release/bin/dt-opt", copy, "--emit=cpp", "--target=cuda", "-o", program])
            run(["cmake", "-S", program, "-B", program / "build", "-G", "Ninja", *settings])
            run(["cmake", "--build", program / "build", "--target", "train"])


class Emitted:
    """A program; every turn is a run of its own."""

    def __init__(self, out, model, precision):
        self.name, self.folder, self.batch = f"this compiler, {precision}", out / model / precision, out / "batch.safetensors"

    def turn(self, steps):
        metrics = self.folder / "metrics.jsonl"
        metrics.unlink(missing_ok=True)
        run([self.folder / "build/train", "--program", self.folder, "--batch", self.batch, "--steps", steps + WARMUP, "--metrics", metrics])
        return [json.loads(line)["seconds"] for line in metrics.read_text().splitlines()][WARMUP:]

    def close(self):
        pass


class Torch:
    """PyTorch in a process of its own, which steps when asked to."""

    def __init__(self, out, model, precision, mode):
        self.name = ("torch.compile" if mode == "compile" else "PyTorch eager") + (", autocast" if precision == "bf16" else ", f32")
        command = [sys.executable, ROOT / "tools/benchmarks/torch_step.py", "gpt2", out / "batch.safetensors", os.cpu_count(), mode, precision, "cuda", *SIZES[model]]
        self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def turn(self, steps):
        self.process.stdin.write(f"{steps + WARMUP}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended with code {self.process.wait()}")
        return json.loads(line)[WARMUP:]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure(out, model, steps, precisions, modes):
    for precision in precisions:
        contestants = [Emitted(out, model, precision), *(Torch(out, model, precision, mode) for mode in modes)]
        times = {c.name: [] for c in contestants}
        for _ in range(ROUNDS):
            for c in list(contestants):
                try:
                    times[c.name] += c.turn(-(-steps // ROUNDS))
                except RuntimeError as error:
                    print(f"{model}: left out, {error}", file=sys.stderr)
                    contestants.remove(c)
        for c in contestants:
            c.close()
        own = next(iter(times.values()))
        for name, t in times.items():
            if t:
                low, middle, high = statistics.quantiles(t, n=4)
                print(f"{model:15} {name:23} {1e3 * middle:9.2f} {1e3 * low:9.2f} {1e3 * high:9.2f} {len(t):6} {middle / statistics.median(own) if own else 0:8.2f}x", flush=True)


def main():
    parser = argparse.ArgumentParser(prog="tools/bench gpu", description=__doc__)
    parser.add_argument("out", type=pathlib.Path, help="folder of programs and batch")
    parser.add_argument("--pack", action="store_true", help="make it")
    parser.add_argument("--cmake", action="append", default=[], metavar="FLAG", help="handed on to CMake")
    parser.add_argument("--steps", type=int, default=40, help="counted steps")
    parser.add_argument("--only", choices=SIZES)
    parser.add_argument("--precision", choices=["f32", "bf16"], help="both, unless said")
    parser.add_argument("--compile", action="store_true", help="torch.compile, too (it compiles for a minute)")
    options = parser.parse_args()
    if options.pack:
        return pack(options.out.resolve(), options.cmake)
    print(f"{SAMPLES} x {TOKENS} tokens; milliseconds a training step\n\n{'model':15} {'program':23} {'median':>9} {'quartile':>9} {'quartile':>9} {'steps':>6} {'to ours':>9}", flush=True)
    for model in [options.only] if options.only else SIZES:
        measure(options.out.resolve(), model, options.steps, [options.precision] if options.precision else ["bf16", "f32"], ["eager", *(["compile"] if options.compile else [])])


if __name__ == "__main__":
    main()
