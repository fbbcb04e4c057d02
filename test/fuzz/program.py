# ===- program.py - many graphs in one program ------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Each graph is a module of one recipe with a loss of its own, so graphs do not
# meet, but dt-opt, the C++ compiler, the linker and the program run once for all
# of them. Every graph goes through dt-opt alone first: what it refuses or breaks
# on stays out. All generated files are one translation unit without optimisation:
# 20 ms a graph. What ends badly together is halved until the graph is found.
# ===-----------------------------------------------------------------------===
"""Suite: compiles and runs lists of modules and gives their values back."""

import json
import os
import pathlib
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
from safetensors.numpy import load_file, save_file

HERE = pathlib.Path(__file__).resolve().parent
# Not the user's fault, whatever the exit code is.
INTERNAL = re.compile(r"Stack dump|PLEASE submit|Assertion|LLVM ERROR|failed to legalize|'(nn|rt|emitc|arith|math|scf|memref|func|sched|builtin)\.[\w.]+' op |emitc|does not dominate|unverified|Unhandled|bad_alloc|std::")
# Memory holds large numbers where nothing has been written.
POISON = {"MALLOC_PERTURB_": "128", "MALLOC_MMAP_THRESHOLD_": "1073741824", "MALLOC_TOP_PAD_": "67108864"}


class Module:
    """One graph as a module: `name`, the ONNX model, the recipe's loss (names of tensors without the module's) and further recipe keys."""

    def __init__(self, name, model, loss, dims):
        self.name, self.model, self.loss, self.dims = name, model, loss, dims

    def entry(self):
        """The recipe's loss; names of graph outputs get the module's in front."""
        entry = {"name": f"{self.name}_loss", **{k: v for k, v in self.loss.items() if k != "classes"}}
        for key in ("output", "logits", "labels", "target"):
            if key in entry:
                entry[key] = f"{self.name}.{entry[key]}"
        return entry


class Suite:
    def __init__(self, dt_opt, runtime, work, compiler, optimise="-O0"):
        self.dt_opt, self.work = pathlib.Path(dt_opt).resolve(), pathlib.Path(work).resolve()
        self.runtime, self.compiler, self.optimise = pathlib.Path(runtime).resolve(), compiler, optimise
        self.work.mkdir(parents=True, exist_ok=True)
        self.configured = False

    # -- compiling -------------------------------------------------------------

    def recipe(self, modules, micro, samples, items, folder):
        folder.mkdir(parents=True, exist_ok=True)
        dims = {d: k for m in modules for d, k in m.dims.items()}
        for m in modules:
            onnx.save(m.model, folder / f"{m.name}.onnx")
        recipe = {
            "modules": {m.name: {"onnx": f"{m.name}.onnx"} for m in modules},
            "losses": [m.entry() for m in modules],
            "optimizer": {"kind": "sgd", "lr": 0.125},
            "batch": {"global": samples, "micro": micro},
            "seed": 7,
        }
        if dims:
            recipe["dims"] = dims
        if items and set(items) & set(dims.values()):
            recipe["items"] = items
        path = folder / "recipe.json"
        path.write_text(json.dumps(recipe))
        return path

    def dt_opt_on(self, recipe, *flags):
        """None, or (kind, text): refused in one line, or broken."""
        command = [self.dt_opt, recipe, *flags]
        try:
            done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired:
            return "broken", "dt-opt does not end within 120 s"
        if done.returncode == 0:
            return None
        errors = [line for line in done.stderr.splitlines() if "error:" in line]
        if done.returncode not in (1, 2) or len(errors) != 1 or INTERNAL.search(done.stderr):
            return "broken", f"dt-opt ends with {done.returncode}: {done.stderr.strip()[-1500:]}"
        return "refused", errors[0].split("error: ", 1)[1]

    def check_alone(self, module, micro, samples, items):
        folder = self.work / "alone" / module.name
        return self.dt_opt_on(self.recipe([module], micro, samples, items, folder), "--emit=mlir", "--to=lower", "-o", "/dev/null")

    def check_all(self, modules, micro, samples, items):
        """What dt-opt says of each module alone."""
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(lambda m: self.check_alone(m, micro, samples, items), modules))

    def build(self, out):
        """None, or what the compiler says."""
        sources = sorted(p.name for p in out.glob("*.cpp"))
        (out / "all.cc").write_text("".join(f'#include "{s}"\n' for s in sources))
        here = self.work / "build"
        link = self.work / "program"
        if out != link:
            link.unlink(missing_ok=True)
            link.symlink_to(out)
        if not self.configured:
            configure = ["cmake", "-S", HERE / "program", "-B", here, "-G", "Ninja", f"-DDT_RUNTIME_LIBRARY={self.runtime}", f"-DPROGRAM={link}", f"-DDT_OPTIMISE={self.optimise}"]
            configure += [f"-DCMAKE_CXX_COMPILER={self.compiler}"] if self.compiler else []
            done = subprocess.run([str(c) for c in configure], capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(f"cmake: {done.stdout[-2000:]}{done.stderr[-2000:]}")
            self.configured = True
        (here / "train").unlink(missing_ok=True)
        done = subprocess.run(["cmake", "--build", here], capture_output=True, text=True)
        if done.returncode == 0:
            return None
        lines = [line for line in done.stdout.splitlines() if "error:" in line or "undefined symbol" in line]
        return "C++: " + "; ".join(lines[:3] or [done.stdout[-800:]])

    # -- running ---------------------------------------------------------------

    def train(self, out, batch, folder):
        """(outputs, gradients, losses), or what went wrong."""
        folder.mkdir(parents=True, exist_ok=True)
        save_file({k: np.asarray(v, order="C") for k, v in batch.items()} or {"unused": np.zeros(1, np.float32)}, folder / "batch.safetensors")
        files = {k: folder / f"{k}.safetensors" for k in ("outputs", "gradients")}
        metrics = folder / "metrics.jsonl"
        for path in [*files.values(), metrics]:
            path.unlink(missing_ok=True)
        command = [self.work / "build/train", "--program", out, "--batch", folder / "batch.safetensors", "--steps", "1", "--threads", "1", "--save-outputs", files["outputs"]]
        command += ["--save-gradients", files["gradients"], "--metrics", metrics]
        try:
            done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=120, env={**os.environ, **POISON})
        except subprocess.TimeoutExpired:
            return "the program does not end within 120 s"
        if done.returncode or not metrics.exists():
            return f"the program ends with {done.returncode}: {(done.stderr or done.stdout).strip()[-600:]}"
        record = json.loads(metrics.read_text().splitlines()[0])
        return load_file(files["outputs"]), load_file(files["gradients"]), record

    def run(self, modules, micro, samples, items, batches):
        """For each module a list of (outputs, gradients, loss) a batch, or text: what failed. `batches`: dicts of tensors by full name."""
        if not modules:
            return []
        folder = self.work / "together"
        shutil.rmtree(folder, ignore_errors=True)
        out = folder / "program"
        verdict = self.dt_opt_on(self.recipe(modules, micro, samples, items, folder), "--emit=cpp", "-o", out)
        problem = f"{verdict[0]}: {verdict[1]}" if verdict else self.build(out)
        results = []
        for k, batch in enumerate([] if problem else batches):
            names = {m.name for m in modules}
            own = {name: value for name, value in batch.items() if name.split(".")[0] in names or name.startswith("item_of.")}
            results.append(self.train(out, own, folder / f"batch{k}"))
            if isinstance(results[-1], str):
                problem = results[-1]
                break
        if problem and len(modules) > 1:
            half = len(modules) // 2
            return self.run(modules[:half], micro, samples, items, batches) + self.run(modules[half:], micro, samples, items, batches)
        if problem:
            return [problem]
        weights = weights_of(out)
        return [[pick(m, weights, *r) for r in results] for m in modules]


def weights_of(out):
    """The weight of each term: a loss that is split has several."""
    rows = re.findall(r'{\.name = "([^"]+)", \.weight = \(?(-?[\d.e+-]+)f?\)?,', (out / "program.cpp").read_text())
    return {name: float(weight) for name, weight in rows}


def pick(module, weights, outputs, gradients, record):
    """One module's part of a program's results."""
    prefix, loss = module.name + ".", module.name + "_loss"
    own = lambda table: {k.removeprefix(prefix): v for k, v in table.items() if k.startswith(prefix)}
    terms = [name for name in weights if name == loss or name.startswith(loss + ".")]
    return own(outputs), own(gradients), np.float32(sum(weights[t] * finite(record[f"loss.{t}"]) for t in terms))


def finite(value):
    """JSON has no number for what is not finite."""
    return float("nan") if value is None else value
