# ===- gpu_pack.py - programs and golden values that travel ------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# What tools/gpu-check checks where neither the compiler nor NumPy is. The limits
# of golden.py and precision.py are computed here, so that there only differences
# are.
# ===-----------------------------------------------------------------------===
"""Makes the packs of tools/gpu-check."""

import itertools
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np
from safetensors.numpy import save_file

import golden
import precision
import train_model

MOST = 64 << 20  # bytes: what can be carried


def exact_limits(figures):
    """Of a program in float32: (outputs, gradients, curve)."""
    limits = golden.exact_limits(figures)
    outputs = {name: {"largest": max(limit, 1e-38)} for name, limit in limits["outputs"].items()}
    gradients = {name: {"norm": max(limit, 1e-38)} for name, limit in limits["gradients"].items()}
    return outputs, gradients, {"want": [float(x) for x in figures.curve], "limits": list(limits["curve"].values())}


def narrow_limits(figures, facts):
    """Of a program in bf16, beside PyTorch's autocast."""
    gradients = {}
    for name, want in figures.gradients.items():
        if name in figures.vanishing or not np.any(want):
            continue
        least = facts.least_cosine(name)
        gradients[name] = {"cosine": least, **({"length": max(precision.FACTOR * facts.length, precision.SHORTEST)} if least >= precision.ALIKE else {})}
    limit = max(precision.FACTOR * max(facts.deviations), precision.FLOOR)
    return {}, gradients, {"want": [float(x) for x in facts.float32], "limits": [limit], "least": precision.SAME / 10}


def write_plan(recipe, ranks, path):
    """Every module cut over all ranks by tensor parallelism."""
    modules = json.loads(recipe.read_text())["modules"]
    units = {name: {"tp": ranks, "dp": 1, "pp": 1, "ranks": list(range(ranks))} for name in modules}
    path.write_text(json.dumps({"version": 1, "ranks": ranks, "units": units, "pipelines": [{"units": list(units), "schedule": "1f1b"}]}))
    return path


def pack_case(folder, model, kind, ranks, dt_opt):
    figures = golden.Golden(model, False)
    narrow = kind == "bf16"
    outputs, gradients, curve = narrow_limits(figures, precision.Facts(model)) if narrow else exact_limits(figures)
    if ranks > 1:
        outputs = {}  # those that are cut over ranks are not saved
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as temporary:
        recipe = precision.write_recipe(model, kind, pathlib.Path(temporary))
        plan = [f"--plan={write_plan(recipe, ranks, recipe.with_name('plan.json'))}"] if ranks > 1 else []
        done = train_model.emit(dt_opt, recipe, folder / "program", "cuda", *plan)
        if not done.returncode:
            command = [dt_opt, recipe, *plan, "--target=cuda", "--emit=memory", "-o", folder / "memory.json"]
            done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=600)
    if done.returncode:
        sys.exit(f"dt-opt ended with {done.returncode}: {done.stderr[-1500:]}")
    whole = lambda tensors: {name: np.ascontiguousarray(value) for name, value in tensors.items()}
    save_file(whole(figures.inputs), folder / "batch.safetensors")
    wanted = {f"outputs.{name}": figures.outputs[name] for name in outputs} | {f"gradients.{name}": figures.gradients[name] for name in gradients}
    save_file(whole({name: value.astype(np.float32) for name, value in wanted.items()}), folder / "want.safetensors")
    case = {"model": model.name, "precision": kind, "outputs": outputs, "gradients": gradients, "curve": curve}
    (folder / "case.json").write_text(json.dumps(case, indent=1))


def pack(out, models, kinds, ranks, dt_opt):
    out.mkdir(parents=True)
    for model, kind, number in itertools.product(models, kinds, ranks):
        if kind == "f32" or (model / "precision.json").exists():
            pack_case(out / (f"{model.name}-{kind}" + (f"-{number}-ranks" if number > 1 else "")), model, kind, number, dt_opt)
    shutil.copy(pathlib.Path(__file__).parents[2] / "tools/gpu-check", out)
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    print(f"{out}: {len(list(out.glob('*/case.json')))} programs, {size / 2**20:.1f} MiB")
    if size > MOST:
        sys.exit(f"error: {out}: more than {MOST >> 20} MiB: leave models out")
