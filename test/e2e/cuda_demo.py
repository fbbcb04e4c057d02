# ===- cuda_demo.py - the demonstration's program on the double of CUDA --------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# The demonstration's three modules, a rank each, with its data: pictures, packed
# sequences, random draws. Beside what demo_smoke.py built for the CPU: losses and
# norms step by step, and what the exported graphs have learned.
# ===-----------------------------------------------------------------------===
"""cuda_demo.py DEMO_OUT --dt-opt PATH --double DIR: DEMO_OUT is the folder that demo_smoke.py left."""

import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx

import golden
import train_model

STEPS = 3
DEMO = pathlib.Path(__file__).resolve().parents[2] / "models/examples/demo"


def run(command, out, folder, *flags):
    """(losses and norms, exported weights by graph and name)"""
    command = [command, "--data", out / "data/emoji.tar", "--threads", 1, "--ranks", 3, "--metrics", f"{folder}.jsonl", "--export", folder, *flags]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=golden.HANGS)
    if done.returncode:
        sys.exit(f"{folder.name}: ended with {done.returncode}:\n{done.stdout[-1500:]}{done.stderr[-1500:]}")
    rows = [json.loads(line) for line in pathlib.Path(f"{folder}.jsonl").read_text().splitlines()]
    graphs = {path.stem: onnx.load(path).graph for path in sorted(folder.glob("*.onnx"))}
    weights = {(name, t.name): onnx.numpy_helper.to_array(t) for name, graph in graphs.items() for t in graph.initializer}
    return np.array([[row[k] for k in ("loss", "loss.text", "loss.picture", "grad_norm")] for row in rows]), weights


def main():
    arguments = train_model.on_double(__doc__, "out")
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(temporary)
        train_model.make(arguments.dt_opt, DEMO / "recipe.json", work / "program", "cuda", arguments.double, [f"--plan={DEMO / 'plan.json'}"])
        cpu = [arguments.out / "build/demo", arguments.out, work / "cpu", "--pairs", arguments.out / "data/pairs.tar"]
        wanted, learned = run(*cpu, "--steps", STEPS)
        start = run(*cpu[:2], work / "start", *cpu[3:], "--steps", 1, "--lr", 0)[1]
        found, got = run(work / "program/build/train", arguments.out, work / "double", "--steps", STEPS)
    if len(wanted) != STEPS or not np.allclose(found, wanted, rtol=1e-4):
        sys.exit(f"losses and norms are\n{found}\nand not\n{wanted}")
    norms = {}
    for (graph, name), value in learned.items():
        of = norms.setdefault(graph, np.zeros(2))
        of += [np.square(a.astype(np.float64)).sum() for a in (got[graph, name] - value, value - start[graph, name])] if value.dtype == np.float32 else 0
    for graph, (off, change) in norms.items():
        print(f"{graph}: {np.sqrt(off / change):.1e} of what {STEPS} steps change")
        if not change or off > 1e-4 * change:
            sys.exit(f"{graph}: exported weights are off by {np.sqrt(off)}, {STEPS} steps change them by {np.sqrt(change)}")


if __name__ == "__main__":
    main()
