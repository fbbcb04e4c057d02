# ===- precision.py - bf16 trains as PyTorch's mixed precision does --------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Compiles model folders with "precision": "bf16", trains the steps of their
# precision.json (models/export/precision.py) on the golden batch, and asks that
#
# - the loss curve is no further from float32's than PyTorch's is under autocast:
#   the root mean square of the difference over all steps, in units of that of the
#   curve, is at most FACTOR times the largest of autocast's draws. A single step
#   says little: two curves cross, and the difference is 0 there. No limit is below
#   FLOOR, for networks that autocast hits by luck;
# - gradients of the first step have float32's direction (a cosine above ALIKE)
#   wherever all of autocast's draws have it, and its length as nearly as autocast
#   or as its own direction: noise has no preferred one, a wrong factor has;
#   where they do not, the cosine is no further from 1 than FACTOR times theirs;
# - the curve is not float32's: something was rounded.
#
# Processors round bf16 products in their own ways (AMX, AVX512-BF16, AVX2). So what
# fails is tried again from weights and inputs that are off by one rounding each: a
# fault is what most of these runs show, too.
#
# --residual: what layers hand on is stored in bf16, too. The figures are then of
# PyTorch's networks whose layers take hidden states in bf16, and are made here.
#
# --precision f32 asks for float32's curve and gradients instead. On a double of CUDA
# nothing of a bf16 program may run without tensor cores: a line would say so.
# ===-----------------------------------------------------------------------===
"""precision.py MODEL_FOLDER... --dt-opt PATH [--precision bf16|tf32|f32]: compares training in bf16 with PyTorch's autocast. --all: every folder with a precision.json."""

import argparse
import json
import pathlib
import sys
import tempfile

import numpy as np

import golden
import tolerance
import train_model

MODELS = pathlib.Path(__file__).resolve().parents[1] / "models"
FACTOR = 1.5
FLOOR = 2.0**-14  # of a curve: a 32nd of one rounding of bf16
ALIKE = 0.999
SHORTEST = 2.0**-9  # of a gradient's length: one rounding of bf16
SAME = 1e-5  # float32 computed in another order, over some twenty steps: no fault; what is further off is measured where the test runs


def measure(folder):
    """What precision.json says, of PyTorch's networks with a residual stream in bf16."""
    try:
        import torch
        import transformers  # noqa: F401: the networks are its
    except ImportError as error:
        print(f"skipped: needs {error.name}")
        sys.exit(train_model.SKIPPED)
    sys.path.insert(0, str(MODELS.parents[1] / "models"))
    from export import precision

    torch.set_num_threads(1)
    return precision.measure(folder, precision.NETWORKS[str(folder.resolve().relative_to(MODELS))], residual=True)


class Facts:
    def __init__(self, folder, residual):
        read = measure(folder) if residual else json.loads((folder / "precision.json").read_text())
        self.float32, self.deviations, self.length = np.array(read["float32"]), read["deviations"], read["length"]
        self.other_direction = read["other_direction"]

    def least_cosine(self, name):
        """What a gradient's cosine must be above."""
        autocast = self.other_direction.get(name, self.other_direction.get(name.removeprefix("model.")))
        return ALIKE if autocast is None else 1 - FACTOR * (1 - autocast)


def write_recipe(model, precision, residual, folder):
    path = train_model.make_recipe(model, False, 0, False, folder)
    recipe = json.loads(path.read_text())
    path.write_text(json.dumps({**recipe, "precision": precision, **({"residual": "bf16"} if residual else {})}))
    return path


def make(model, precision, residual, dt_opt, double, work):
    """The compiled model; `double`: for CUDA, on a double of it."""
    train_model.make(dt_opt, write_recipe(model, precision, residual, work), work / "program", "cuda" if double else "cpu", double)
    return work / "program"


def deviation(have, want):
    return float(np.linalg.norm(have.astype(np.float64) - want) / np.linalg.norm(want))


def check_curve(losses, facts, narrow, same):
    """(line, faults by what they are of)"""
    if len(losses) != len(facts.float32) or not np.isfinite(losses).all():
        return "", {"losses": f"{len(losses)} losses, expected {len(facts.float32)} finite ones: {losses}"}
    off = deviation(losses, facts.float32)
    limit = max(FACTOR * max(facts.deviations), FLOOR) if narrow else same
    line = f"curve off by {off:.2e} (limit {limit:.2e}; autocast {min(facts.deviations):.2e} to {max(facts.deviations):.2e})"
    if not off <= limit:
        steps = ", ".join(f"{have:.5g} for {want:.5g}" for have, want in zip(losses, facts.float32))
        return line, {"curve": f"the curve is off by {off:.2e}, above {limit:.2e}: {steps}"}
    return line, {"curve": "the curve is float32's: nothing was rounded"} if narrow and off < SAME / 10 else {}


def check_gradients(gradients, figures, facts, narrow, same):
    """(line, faults by names of parameters); gradients that are zero in exact arithmetic have no direction."""
    worst, off, faults = (1.0, ""), (0.0, ""), {}
    length = max(FACTOR * facts.length, SHORTEST) if narrow else same
    for name, want in sorted(figures.gradients.items()):
        if name in figures.vanishing or not np.any(want):
            continue
        if name not in gradients or gradients[name].shape != want.shape:
            faults[name] = f"gradient of {name}: missing, or of another shape"
            continue
        have, want = gradients[name].astype(np.float64).ravel(), want.astype(np.float64).ravel()
        sizes = np.linalg.norm(have), np.linalg.norm(want)
        cosine, difference = have @ want / max(sizes[0] * sizes[1], 1e-300), abs(sizes[0] / sizes[1] - 1)
        turn = float(np.sqrt(max(1 - cosine**2, 0)))
        least = facts.least_cosine(name) if narrow else 1 - same
        worst = min(worst, (cosine, name))
        off = max(off, (difference, name)) if least >= ALIKE else off
        if not cosine > least:
            faults[name] = f"gradient of {name}: cosine {cosine:.6f}, above {least:.6f} expected"
        elif least >= ALIKE and not difference < max(length, turn if narrow else 0):
            faults[name] = f"gradient of {name}: {sizes[0] / sizes[1]:.5f} times as long, expected 1 within {length:.1e} or its turn by {turn:.1e}"
    return f"{len(figures.gradients)} gradients, least cosine {worst[0]:.6f} ({worst[1]}), length off by {off[0]:.1e} ({off[1]}; limit {length:.1e})", faults


def moved(plain, drawn, figures):
    """How far one rounding of float32 may move a program, as SAME: of its losses, and of lengths of gradients that do not vanish. Of results of golden.run()."""
    curve = max(deviation(np.array(losses), np.array(plain[2])) for _, _, losses in drawn)
    lengths = [abs(np.linalg.norm(gradients[name]) / size - 1) for _, gradients, _ in drawn for name, values in plain[1].items() if name not in figures.vanishing and (size := np.linalg.norm(values)) > 0]
    return tolerance.FACTOR * max(curve, *lengths)


def check(model, arguments):
    facts, figures, narrow = Facts(model, arguments.residual), golden.Golden(model, False), arguments.precision != "f32"
    figures.curve = facts.float32  # as many steps

    def run(draw=None):
        return golden.run(program, figures, arguments.threads, work, draw)

    def judge(results, same=SAME):
        """(lines, faults) of a run."""
        _, gradients, losses = results
        (curve, wrong), (direction, turned) = check_curve(losses, facts, narrow, same), check_gradients(gradients, figures, facts, narrow, same)
        return f"{curve}\n  {direction}", {**wrong, **turned}

    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(temporary)
        program = make(model, arguments.precision, arguments.residual, arguments.dt_opt.resolve(), arguments.double, work)
        plain = run()
        slow = [line for line in (work / "train.err").read_text().splitlines() if "not on tensor cores" in line] if narrow else []
        lines, faults = judge(plain)
        drawn = [run((arguments.precision, seed)) for seed in range(tolerance.DRAWS)] if faults else []
        if drawn and not narrow:
            lines, faults = judge(plain, max(SAME, moved(plain, drawn, figures)))
        again = [judge(results)[1] for results in drawn if narrow]
    print(f"{model.name}: {lines}", flush=True)
    stays = {name: 2 * sum(name in drawn for drawn in again) >= len(again) for name in faults}
    for name, fault in faults.items():
        print(f"  {fault}{'' if stays[name] else ' (most draws of one rounding have not: no fault)'}", flush=True)
    for line in slow:
        print(f"  {line}", flush=True)
    return not slow and not any(stays.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", type=pathlib.Path, nargs="*")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--dt-opt", required=True, type=pathlib.Path)
    parser.add_argument("--precision", default="bf16", choices=["bf16", "tf32", "f32"])
    parser.add_argument("--residual", action="store_true", help="with \"residual\": \"bf16\"; needs PyTorch")
    parser.add_argument("--double", type=pathlib.Path, help="for CUDA, on this double of it")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    models = sorted(p.parent for p in MODELS.glob("**/precision.json")) if arguments.all else arguments.models
    if not models:
        parser.error("no model folder given")
    bad = [m.name for m in models if not check(m, arguments)]
    print("ok" if not bad else f"DIFFERS: {', '.join(bad)}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
