# ===- cpu.py - training steps on the CPU beside PyTorch's -----------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# The demo's step and GPT-2's, as emitted programs and in PyTorch (eager and
# torch.compile): the same batch, optimizer, clipping and threads. The
# programs take turns in short runs, so that whatever else the machine does
# meets all of them; a figure is the median over all steps but each run's
# first ones. PyTorch's processes (torch_step.py) stay alive and sleep while it
# is not their turn.
# ===-----------------------------------------------------------------------===
"""tools/bench cpu: prints a table, writes out/bench/cpu.json."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "out/bench"
sys.path.insert(0, str(ROOT / "tools/benchmarks"))

import batches  # noqa: E402

WARMUP = 3  # steps of a run that do not count: primitives are made, memory is touched for the first time
ROUNDS = 4
HEADER = f"{'model':15} {'':23} {'median':>9} {'quarter':>9} {'3/4':>9} {'steps':>6} {'to ours':>9}"


def write_recipe(path, precision, folder):
    """A copy of the recipe in another folder, with a precision."""
    recipe = json.loads(path.read_text())
    recipe["precision"] = precision
    named = [(module, "onnx") for module in recipe["modules"].values()]
    if tokenizer := recipe.get("data", {}).get("tokenizer"):
        named.append((tokenizer, "vocabulary"))
    for entry, key in named:
        if key in entry:
            entry[key] = str(path.parent / entry[key])
    folder.mkdir(parents=True, exist_ok=True)
    copy = folder / "recipe.json"
    copy.write_text(json.dumps(recipe))
    return copy


class Emitted:
    """An emitted program; every turn is a run of its own."""

    def __init__(self, model, batch, threads, precision):
        self.name = f"this compiler, {precision}"
        folder = OUT / model / precision
        self.program, self.batch, self.threads = folder / "program", batch, threads
        recipe = {"demo": ROOT / "models/examples/demo/recipe.json", "gpt2": OUT / "gpt2/recipe.json"}[model]
        if model == "gpt2" and not (OUT / "gpt2/model.onnx").exists():
            run([sys.executable, ROOT / "models/examples/gpt2/write_graph.py", OUT / "gpt2"])
        recipe = write_recipe(recipe, precision, folder)
        run([ROOT / "build/release/bin/dt-opt", recipe, "--emit=cpp", "--target=cpu", "-o", self.program])
        run(["cmake", "-S", self.program, "-B", folder / "build", "-G", "Ninja"])
        run(["cmake", "--build", folder / "build", "--target", "train"])
        self.train = folder / "build/train"

    def turn(self, steps):
        with tempfile.TemporaryDirectory() as folder:
            metrics = pathlib.Path(folder) / "metrics.jsonl"
            run([self.train, "--program", self.program, "--batch", self.batch, "--steps", steps + WARMUP, "--threads", self.threads, "--metrics", metrics])
            rows = [json.loads(line) for line in metrics.read_text().splitlines()]
        return [row["seconds"] for row in rows[WARMUP:]]

    def close(self):
        pass


class Torch:
    """PyTorch in a process of its own, which steps when asked to. `where`: what torch_step.py takes besides."""

    def __init__(self, model, batch, threads, precision, compiled, *where):
        self.name = ("torch.compile" if compiled else "PyTorch eager") + (", autocast" if precision == "bf16" else "")
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
        arguments = [sys.executable, ROOT / "tools/benchmarks/torch_step.py", model, batch, threads, "compile" if compiled else "eager", precision, *where]
        self.process = subprocess.Popen([str(a) for a in arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

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


def run(command):
    result = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if result.returncode:
        raise RuntimeError(f"{' '.join(str(c) for c in command)}\n{result.stdout}")


def measure(model, steps, threads, precision, compiled):
    """Seconds of every counted step, by contestant; bf16 meets our own float32 too."""
    OUT.joinpath(model).mkdir(parents=True, exist_ok=True)
    batch = OUT / model / "batch.safetensors"
    batches.write(model, batch)
    print(f"{model}: building the program", file=sys.stderr)
    contestants = [Emitted(model, batch, threads, each) for each in dict.fromkeys([precision, "f32"])]
    contestants += [Torch(model, batch, threads, precision, each) for each in ([False, True] if compiled else [False])]
    return take_turns(model, contestants, steps, ROUNDS)


def take_turns(model, contestants, steps, rounds):
    """Seconds of every counted step, by contestant. The first are programs, which must run."""
    times = {c.name: [] for c in contestants}
    for turn in range(rounds):
        for c in list(contestants):
            print(f"{model}: round {turn + 1} of {rounds}, {c.name}", file=sys.stderr)
            try:
                times[c.name] += c.turn(-(-steps // rounds))
            except RuntimeError as error:
                if not isinstance(c, Torch):
                    raise
                print(f"{model}: left out, {error}", file=sys.stderr)  # say, no compiler that inductor can use
                contestants.remove(c)
    for c in contestants:
        c.close()
    return {name: t for name, t in times.items() if t}


def report(model, times):
    own = statistics.median(next(iter(times.values())))
    for name, t in times.items():
        low, middle, high = statistics.quantiles(t, n=4)
        print(f"{model:15} {name:23} {1e3 * middle:9.2f} {1e3 * low:9.2f} {1e3 * high:9.2f} {len(t):6} {middle / own:8.2f}x", flush=True)
    return {name: {"median_ms": 1e3 * statistics.median(t), "steps": len(t), "ratio": statistics.median(t) / own} for name, t in times.items()}


def main():
    parser = argparse.ArgumentParser(prog="tools/bench cpu")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--steps", type=int, help="counted steps (default: 120 of the demo, 20 of GPT-2)")
    parser.add_argument("--only", choices=["demo", "gpt2"])
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32", help="bf16: beside PyTorch's autocast and our own float32")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out (it compiles for minutes)")
    parser.add_argument("--json", type=pathlib.Path, default=OUT / "cpu.json")
    options = parser.parse_args()
    models = [options.only] if options.only else ["demo", "gpt2"]
    print(f"{options.threads} threads, {options.precision}; milliseconds a training step\n")
    busy = os.getloadavg()[0]
    if busy > options.threads + 0.5:
        # Threads that wait for one another suffer most from others: neither the times nor their ratio mean much then.
        print(f"warning: the machine is busy (load average {busy:.1f}); figures may be too high", file=sys.stderr)
    results = {"threads": options.threads, "precision": options.precision}
    for model in models:
        times = measure(model, options.steps or {"demo": 120, "gpt2": 20}[model], options.threads, options.precision, not options.no_compile)
        if model == models[0]:
            print(HEADER)
        results[model] = report(model, times)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
