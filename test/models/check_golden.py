#===- check_golden.py - Imported graphs compute what PyTorch computed ---------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# check_golden.py DT_IMPORT FOLDER...: imports each graph of a folder, once with
# its sizes left open and once with all bound, runs the IR on the golden inputs
# and compares every output; the parameters must be those that train. A folder
# with large.json: the graphs without weights import and count their parameters.
# Exit 77: a Python package is missing.
#===----------------------------------------------------------------------===
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    from onnx import numpy_helper
    from safetensors.numpy import load_file
except ImportError:
    sys.exit(77)

from interpret import Interpreter

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import tolerance  # noqa: E402

TOLERANCE = tolerance.OTHER * tolerance.EPS  # two implementations in float32; what passes it is compared with draws


def bindings(path, inputs):
    """--dim arguments that bind every plain symbolic dim to its golden size."""
    arguments = []
    for i in onnx.load(path, load_external_data=False).graph.input:
        for d, n in zip(i.type.tensor_type.shape.dim, inputs[i.name].shape if i.name in inputs else ()):
            if d.dim_param.isidentifier():
                arguments += ["--dim", f"{d.dim_param}={n}"]
    return arguments


def check_graph(tool, folder, part, golden, tensors, several, bound):
    graph = golden["graphs"][part]
    path = folder / graph["file"]
    prefix = f"{part}." if several else ""
    inputs = {}
    for name in [i["name"] if isinstance(i, dict) else i for i in graph["inputs"]]:
        key = f"in.{prefix}{name}"
        # An input without a tensor takes another part's output.
        inputs[name] = tensors[key] if key in tensors else tensors[f"out.{golden['connections'][f'{part}.{name}']}"]
    dims = bindings(path, inputs) if bound else []
    done = subprocess.run([tool, "--generic", *dims, str(path)], capture_output=True, text=True)
    if done.returncode:
        return f"{path}: {done.stderr.strip()}"
    weights = {i.name: numpy_helper.to_array(i) for i in onnx.load(path).graph.initializer}
    interpreter = Interpreter(done.stdout, weights)
    trainable = {o.attrs["sym_name"].strip('"') for o in interpreter.module.blocks[0].ops if o.name == "nn.parameter" and "trainable" in o.attrs}
    wanted = {n[len(prefix):] for n in golden["trainable"] if n.startswith(prefix)}
    frozen = {n[len(prefix):] for n in golden.get("not_trainable", []) + golden.get("without_gradient", []) if n.startswith(prefix)}
    if trainable - frozen != wanted - frozen:
        return f"{path}: trains {sorted(trainable ^ wanted)[:4]} differently"
    outputs = interpreter.run(inputs)
    for name, value in outputs.items():
        key = f"out.{prefix}{name}"
        if key not in tensors:
            continue
        error = distance(value, tensors[key])
        if not error < TOLERANCE and not error < tolerance.FACTOR * max(distance(d[name], value) for d in draws(done.stdout, weights, inputs)):
            return f"{path}: output {name} is off by {error:.2g}"
    return None


def distance(have, want):
    return np.abs(have.astype(np.float64) - want).max() / max(1e-6, np.abs(want).max())


def draws(text, weights, inputs):
    """Outputs for weights and inputs that are off by one rounding each: what roundings do to this graph here."""
    for seed in range(tolerance.DRAWS):
        drawn = (tolerance.perturbed(values, "f32", seed + i * tolerance.DRAWS) for i, values in enumerate((weights, inputs)))
        yield Interpreter(text, next(drawn)).run(next(drawn))


def check_large(tool, folder):
    """Graphs of full size, kept compressed: (name, problem) each."""
    for name, entry in json.loads((folder / "large.json").read_text()).items():
        if "n_params" not in entry:
            continue
        with tempfile.TemporaryDirectory() as temporary:
            path = folder / entry["file"]
            if not path.exists():
                path = pathlib.Path(temporary) / entry["file"]
                path.write_bytes(gzip.decompress((folder / f"{entry['file']}.gz").read_bytes()))
            done = subprocess.run([tool, "--summary", str(path)], capture_output=True, text=True)
        wanted = f"trainable {entry['n_params']} frozen 0 "
        yield name, None if done.stdout.startswith(wanted) else f"{done.stdout}{done.stderr}, not {wanted}"


def main():
    tool, *folders = sys.argv[1:]
    failed = 0
    for folder in map(pathlib.Path, folders):
        if (folder / "large.json").exists():
            for name, problem in check_large(tool, folder):
                print(f"{name}: {problem or 'ok'}")
                failed += problem is not None
            continue
        golden = json.loads((folder / "golden.json").read_text())
        tensors = load_file(folder / "golden.safetensors")
        for part in golden["graphs"]:
            for bound in (False, True):
                try:
                    problem = check_graph(tool, folder, part, golden, tensors, len(golden["graphs"]) > 1, bound)
                except Exception as e:  # one broken graph must not hide the others
                    problem = f"{type(e).__name__}: {e}"
                print(f"{folder.name}/{part}{' bound' if bound else ''}: {problem or 'ok'}")
                failed += problem is not None
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
