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

import dataclasses
import json
import math
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
    """One graph as a module, or as two with a connection: `name`, ONNX models by module, the recipe's loss and inputs (names of tensors without the module's), dims, connections."""

    def __init__(self, name, models, loss, dims, inputs=None, connections=None):
        self.name, self.models, self.loss, self.dims, self.inputs, self.connections = name, models, loss, dims, inputs or {}, connections or {}

    def described(self):
        """The recipe's `inputs`."""
        taken = {f"{part}.{i.name}" for part, model in self.models.items() for i in model.graph.input}
        return {f"{part}.{name}": entry for part in self.models for name, entry in self.inputs.items() if f"{part}.{name}" in taken}

    def entry(self):
        """The recipe's loss; names get the module's in front, with a dot where they are of its graph."""
        entry = {"name": f"{self.name}_loss", **{k: v for k, v in self.loss.items() if k != "classes"}}
        graph = self.models[self.name].graph
        known = {value.name for values in (graph.input, graph.output) for value in values}
        for key in ("output", "logits", "labels", "target"):
            if key in entry:
                entry[key] = f"{self.name}{'.' if entry[key] in known else '_'}{entry[key]}"
        return entry


@dataclasses.dataclass(frozen=True)
class Setting:
    """What modules of one program share: samples of a step and of a microbatch, the recipe's items, and a plan ("dp=2,sub=2"; one rank if empty)."""

    micro: int
    samples: int
    items: dict
    plan: str = ""

    def keys(self):
        """What the plan says: numbers, bools and words."""
        said = dict(s.split("=") for s in self.plan.split(",") if s)
        return {key: int(value) if value.isdigit() else value == "true" if value in ("true", "false") else value for key, value in said.items()}

    def unit(self):
        return {key: value for key, value in self.keys().items() if key != "reorder"}

    def ranks(self):
        return math.prod(self.unit().get(key, 1) for key in ("tp", "dp", "pp"))

    def used_items(self, dims):
        """Kinds and measures that a dim is of."""
        made = {}
        for kind, entry in self.items.items():
            measures = {m: bounds for m, bounds in entry.get("measures", {}).items() if f"{kind}.{m}" in dims}
            rest = {key: value for key, value in entry.items() if key != "measures"}
            if measures or (kind in dims and rest):
                made[kind] = rest | ({"measures": measures} if measures else {})
        return made


class Suite:
    def __init__(self, dt_opt, runtime, work, compiler, optimise="-O0"):
        self.dt_opt, self.work = pathlib.Path(dt_opt).resolve(), pathlib.Path(work).resolve()
        self.runtime, self.compiler, self.optimise = pathlib.Path(runtime).resolve(), compiler, optimise
        self.work.mkdir(parents=True, exist_ok=True)
        self.configured = False

    # -- compiling -------------------------------------------------------------

    @staticmethod
    def recipe(modules, setting, folder):
        folder.mkdir(parents=True, exist_ok=True)
        dims = {d: k for m in modules for d, k in m.dims.items()}
        for m in modules:
            for name, model in m.models.items():
                onnx.save(model, folder / f"{name}.onnx")
        recipe = {
            "modules": {name: {"onnx": f"{name}.onnx"} for m in modules for name in m.models},
            "losses": [m.entry() for m in modules],
            "optimizer": {"kind": "sgd", "lr": 0.125},
            "batch": {"global": setting.samples, "micro": setting.micro},
            "seed": 7,
        }
        if dims:
            recipe["dims"] = dims
        if items := setting.used_items(set(dims.values())):
            recipe["items"] = items
        for key, entries in (("inputs", [m.described() for m in modules]), ("connections", [m.connections for m in modules])):
            if any(entries):
                recipe[key] = {name: entry for e in entries for name, entry in e.items()}
        if setting.plan:
            ranks = list(range(setting.ranks()))
            plan = {"version": 1, "ranks": len(ranks), "units": {name: setting.unit() | {"ranks": ranks} for m in modules for name in m.models}}
            plan |= {key: value for key, value in setting.keys().items() if key == "reorder"}
            (folder / "plan.json").write_text(json.dumps(plan))
        path = folder / "recipe.json"
        path.write_text(json.dumps(recipe))
        return path

    def dt_opt_on(self, recipe, setting, *flags):
        """None, or (kind, text): refused in one line, or broken."""
        command = [self.dt_opt, recipe, *flags, *([f"--plan={recipe.parent / 'plan.json'}"] if setting.plan else [])]
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

    def check_alone(self, module, setting):
        folder = self.work / "alone" / module.name
        return self.dt_opt_on(self.recipe([module], setting, folder), setting, "--emit=mlir", "--to=lower", "-o", "/dev/null")

    def check_all(self, modules, setting):
        """What dt-opt says of each module alone."""
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(lambda m: self.check_alone(m, setting), modules))

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

    def train(self, out, batch, folder, ranks):
        """(outputs, gradients, losses), or what went wrong."""
        folder.mkdir(parents=True, exist_ok=True)
        save_file({k: np.asarray(v, order="C") for k, v in batch.items()} or {"unused": np.zeros(1, np.float32)}, folder / "batch.safetensors")
        files = {k: folder / f"{k}.safetensors" for k in ("outputs", "gradients")}
        metrics = folder / "metrics.jsonl"
        for path in [*files.values(), metrics]:
            path.unlink(missing_ok=True)
        command = [self.work / "build/train", "--program", out, "--batch", folder / "batch.safetensors", "--steps", "1", "--threads", "1", "--save-outputs", files["outputs"]]
        command += ["--save-gradients", files["gradients"], "--metrics", metrics, *(["--ranks", ranks] if ranks > 1 else [])]
        try:
            done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=120, env={**os.environ, **POISON})
        except subprocess.TimeoutExpired:
            return "the program does not end within 120 s"
        if done.returncode or not metrics.exists():
            said = "\n".join(line for line in done.stderr.splitlines() if not line.startswith("warning: ")) or done.stdout
            return f"the program ends with {done.returncode}: {said.strip()[-600:]}"
        record = json.loads(metrics.read_text().splitlines()[0])
        return load_file(files["outputs"]), load_file(files["gradients"]), record

    def run(self, modules, setting, batches):
        """For each module a list of (outputs, gradients, loss) a batch, or text: what failed. `batches`: dicts of tensors by full name."""
        if not modules:
            return []
        folder = self.work / "together"
        shutil.rmtree(folder, ignore_errors=True)
        out = folder / "program"
        verdict = self.dt_opt_on(self.recipe(modules, setting, folder), setting, "--emit=cpp", "-o", out)
        problem = f"{verdict[0]}: {verdict[1]}" if verdict else self.build(out)
        results = []
        for k, batch in enumerate([] if problem else batches):
            names = {name for m in modules for name in m.models}
            own = {name: value for name, value in batch.items() if re.split(r"[.]|_x", name)[0] in names or name.startswith(("item_of.", "offsets."))}
            results.append(self.train(out, own, folder / f"batch{k}", setting.ranks()))
            if isinstance(results[-1], str):
                problem = results[-1]
                break
        if problem and len(modules) > 1:
            half = len(modules) // 2
            return self.run(modules[:half], setting, batches) + self.run(modules[half:], setting, batches)
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
    loss = module.name + "_loss"
    own = lambda table: {k.split(".", 1)[1]: v for k, v in table.items() if k.split(".")[0] in module.models}
    terms = [name for name in weights if name == loss or name.startswith(loss + ".")]
    return own(outputs), own(gradients), np.float32(sum(weights[t] * finite(record[f"loss.{t}"]) for t in terms))


def finite(value):
    """JSON has no number for what is not finite."""
    return float("nan") if value is None else value
