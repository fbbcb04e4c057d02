# ===- fuzz_layouts.py - random plans for every model -----------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# The matrix of layout_cases.py is what somebody thought of. This draws models,
# batches, frozen parts and plans at random, half of which cannot work: each must
# end in one clear error, or train like one process, move the bytes that the
# manifest says and allocate those that the compiler says (layouts.py). A case depends on the seed and its number only.
# ===-----------------------------------------------------------------------===
"""fuzz_layouts.py --dt-opt PATH [--seed N] [--first N] [--count N] [--folder DIR] [--models REGEX] [--sub P] [--compile-only]"""

import argparse
import copy
import json
import math
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np

from layouts import HANGS, Failure, Runner, check_memory, check_traffic, compare

MODELS = pathlib.Path(__file__).parents[1] / "models"
SCHEDULES = "1f1b gpipe accumulate interleaved zb-h1 zb-h2 zb zb-1p zb-2p zb-v dualpipe-v phased nested distmm-pipe".split()
FIXED = {"llava": 3, "llava_gather": 3}  # graphs with a fixed number of pictures
MIXED = ("convnet_train",)  # has BatchNormalization in training form
EXPERTS = ("deepseek_v3", "gpt_oss", "qwen3_moe")
MOST_RANKS = 8


def models(folder):
    """Models below a folder that have what models/export's golden.py writes."""
    return sorted(str(f.parent.relative_to(folder)) for f in folder.glob("**/recipe.json") if (f.parent / "golden.safetensors").exists())


class Fuzzer(Runner):
    """A runner whose recipes have what a case drew besides the batch."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.units = {}

    def recipe(self, case, micro, folder):
        path = super().recipe(case, micro, folder)
        recipe = json.loads(path.read_text())
        for name, value in case["draw"].items():
            if name == "freeze":
                for module in recipe["modules"].values():
                    module["freeze"] = value
            else:
                recipe[name] = value
        path.write_text(json.dumps(recipe))
        return path

    def reference(self, case):
        marked = dict(case, recipe=case.get("recipe", "recipe.json"))
        key = dict(model=case["model"], samples=case["samples"], patch=case.get("patch", {}), draw=case["draw"])
        marked["patch"] = dict(key["patch"], **({} if "freeze" not in case["draw"] else {"freeze": case["draw"]["freeze"]}))
        if case["draw"].get("batch_norm"):  # statistics are those of a microbatch
            return None
        return super().reference(marked)

    def names(self, case):
        """The plan's units of a case's recipe."""
        key = json.dumps([case["model"], case.get("recipe"), case.get("patch")])
        if key not in self.units:
            folder = pathlib.Path(tempfile.mkdtemp(dir=self.work))
            recipe = self.recipe(dict(case, draw={}), case["samples"], folder)
            subprocess.run([self.dt_opt, recipe, "--emit=plan", "-o", folder / "plan.json"], capture_output=True, timeout=HANGS)
            plan = json.loads((folder / "plan.json").read_text())
            self.units[key] = list(plan["units"])
            shutil.rmtree(folder)
        return self.units[key]

    def pieces(self, case, unit, folder):
        """What the stages of a unit are made of, from the error that lists it."""
        plan = {"version": 1, "ranks": 1, "units": {u: {"ranks": [0], **({"stages": [["?"]]} if u == unit else {})} for u in case["names"]}}
        done = self.compile(case, case["micro"], plan, folder)
        shutil.rmtree(folder / "program", ignore_errors=True)
        found = re.search(r"pieces: (.*)\)", done.stderr)
        return re.findall(r"[\w.]+", found.group(1)) if found else []


def draw_unit(random_, sub):
    unit = {}
    for key, choices in (("tp", [1, 1, 1, 2, 2, 3, 4]), ("cp", [1, 1, 1, 1, 2, 2, 3, 4]), ("dp", [1, 1, 1, 2, 2, 3]), ("pp", [1, 1, 2, 2, 3, 4])):
        value = random_.choice(choices)
        if value != 1 and size(unit) * value <= MOST_RANKS:
            unit[key] = value
    if "cp" in unit and random_.random() < 0.75:
        unit["context"] = random_.choice(["gather", "heads", "ring"])
    if random_.random() < 0.2 and "pp" in unit:
        unit["vpp"] = random_.choice([2, 2, 3])
    if random_.random() < 0.3:
        unit["zero"] = 1
    if random_.random() < 0.3:
        unit["save"] = random_.choice(["vjp", "all", "none"])
    if random_.random() < 0.4 and "tp" in unit:
        unit["sequence_parallel"] = True
    if "tp" in unit and random_.random() < 0.4:
        unit["overlap"] = random_.choice([2, 3, 100])
    if random_.random() < 0.1:
        unit["run_ahead"] = random_.choice([1, 2])
    if random_.random() < sub:
        unit["sub"] = random_.choice([2, 2, 3, 4])
    if random_.random() < 0.1:
        unit["rows_max"] = {"sample": random_.choice([1, 2, 3, 100])}
    return unit


def size(unit):
    return math.prod(unit.get(k, 1) for k in ("tp", "cp", "dp", "pp"))


def place(random_, units):
    """Ranks in order, on top of one another, overlapping or in any order; their number."""
    how, end = random_.choice(["order", "order", "colocated", "overlap", "shuffled"]), 0
    for unit in units.values():
        begin = {"order": end, "shuffled": end, "colocated": 0, "overlap": max(0, end - random_.randint(0, 2))}[how]
        if begin + size(unit) > MOST_RANKS:
            begin = 0
        unit["ranks"] = list(range(begin, begin + size(unit)))
        end = max(end, begin + size(unit))
    if how == "shuffled":
        order = random_.sample(range(end), end)
        for unit in units.values():
            unit["ranks"] = [order[r] for r in unit["ranks"]]
    return end


def draw_plan(random_, names, sub):
    units = {name: draw_unit(random_, sub) for name in names}
    plan = {"version": 1, "ranks": place(random_, units), "units": units}
    schedule = random_.choice(SCHEDULES)
    if schedule in ("interleaved", "zb-v", "dualpipe-v") and random_.random() < 0.7:
        for unit in units.values():
            if unit.get("pp", 1) > 1:
                unit["vpp"] = 2
    if random_.random() < 0.75:
        plan["pipelines"] = [{"units": names, "schedule": schedule}]
    if random_.random() < 0.5:
        plan["receive_depth"] = random_.choice([1, 2, 3])
    if random_.random() < 0.5:
        plan["reorder"] = random_.choice(["none", "intra", "inter", "both"])
    if random_.random() < 0.3:
        plan["bucket_bytes"] = random_.choice([4096, 65536, 1])
    if random_.random() < 0.05:
        plan["memory"] = random_.choice([100000, 1000000, 4000000])
    if random_.random() < 0.2:  # of the first unit, or of all
        span = random_.choice([2, 2, 3])
        for name in names if random_.random() < 0.3 else names[:1]:
            units[name]["span"] = span
    return plan


def draw_freeze(random_, runner, model):
    from safetensors import safe_open

    with safe_open(runner.models / model / "golden.safetensors", "np") as golden:
        parameters = sorted(k[5:] for k in golden.keys() if k.startswith("grad."))
    if not parameters:
        return []
    chosen = random_.choice(parameters).split(".")
    prefix = ".".join(chosen[: random_.randint(1, len(chosen))])
    pattern = prefix if prefix in parameters else prefix + ".*"
    kept = [p for p in parameters if not (p == prefix or p.startswith(prefix + "."))]
    return [pattern] if kept else []


def draw_case(random_, runner, choices, sub):
    model = random_.choice(choices)
    name = pathlib.PurePath(model).name
    samples = FIXED.get(name) or random_.choice([4, 6, 7, 8, 9, 12])
    micro = samples if name in FIXED else random_.choice([m for m in (1, 2, 3, 4, 5, 6, samples) if m <= samples])
    case = dict(model=model, samples=samples, micro=micro, draw={})
    if name != "mllm" and random_.random() < 0.5:
        case["patch"] = {"split": "auto"}
    if name == "mllm" and random_.random() < 0.3:
        case["recipe"] = "recipe-frozen.json"
    elif name != "mllm" and random_.random() < 0.2:
        freeze = draw_freeze(random_, runner, model)
        if freeze:
            case["draw"]["freeze"] = freeze
    if name in MIXED and random_.random() < 0.7:
        case["draw"]["batch_norm"] = "local"
    case["names"] = runner.names(case)
    case["plan"] = draw_plan(random_, case["names"], sub)
    if random_.random() < 0.25:
        draw_stages(random_, runner, case)
    if name in EXPERTS:
        for unit in case["plan"]["units"].values():
            tp, cp, dp = (unit.get(key, 1) for key in ("tp", "cp", "dp"))
            if tp * cp * dp > 1 and random_.random() < 0.6:
                unit["ep"] = random_.choice([2, tp, 2 * tp, tp * cp, tp * cp * dp])
    return case


def draw_stages(random_, runner, case):
    """Explicit stages for one unit, cut at random between its pieces."""
    name = random_.choice(case["names"])
    unit = case["plan"]["units"][name]
    folder = pathlib.Path(tempfile.mkdtemp(dir=runner.work))
    pieces = runner.pieces(case, name, folder)
    shutil.rmtree(folder)
    stages = unit.get("pp", 1) * unit.get("vpp", 1)
    if 1 < stages <= len(pieces):
        cuts = [0, *sorted(random_.sample(range(1, len(pieces)), stages - 1)), len(pieces)]
        unit["stages"] = [pieces[a:b] for a, b in zip(cuts, cuts[1:])]


def check_refusal(done):
    text = done.stderr
    errors = [line for line in text.splitlines() if "error:" in line]
    if done.returncode not in (1, 2) or len(errors) != 1 or re.search("Stack dump|PLEASE submit|Assertion|LLVM ERROR", text):
        raise Failure(f"{len(errors)} errors, exit code {done.returncode}: {text[:200]} … {text[-1500:]}")
    return "refused: " + errors[0].split("error: ")[-1][:200]


def try_case(runner, case, compile_only):
    folder = pathlib.Path(tempfile.mkdtemp(dir=runner.work))
    done = runner.compile(case, case["micro"], case["plan"], folder, runner.target)
    if done.returncode:
        verdict = check_refusal(done)
    elif compile_only:
        verdict = "compiles"
    else:
        runner.build_planned(folder)
        gradients, losses = runner.train(case, folder, case["plan"]["ranks"])
        reference = runner.reference(case)
        if reference:
            verdict = compare(gradients, losses, reference)
        elif not np.all(np.isfinite(losses)):
            raise Failure(f"losses {losses}")
        else:
            verdict = "trains"
        if case["plan"]["ranks"] > 1:
            check_traffic(json.loads((folder / "traffic.json").read_text()))
        check_memory(json.loads((folder / "report.json").read_text()), runner.predicted(folder))
    if runner.runtime != folder / "program/build":  # others link it
        shutil.rmtree(folder)
    return verdict


def show(case):
    parts = [f"{case['model']} {case['micro']}/{case['samples']}"]
    parts += [f"{k}={json.dumps(case[k])}" for k in ("recipe", "patch", "draw") if case.get(k)]
    return " ".join(parts) + " plan " + json.dumps(case["plan"])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dt-opt", type=pathlib.Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--folder", type=pathlib.Path, default=MODELS, help="where the models are (each with recipe.json and golden.safetensors)")
    parser.add_argument("--sub", type=float, default=0.25, help="how often a unit works in pieces")
    parser.add_argument("--models", default="", help="those whose name matches")
    parser.add_argument("--double", type=pathlib.Path, metavar="DIR", help="programs for CUDA, on a double of it")
    parser.add_argument("--compile-only", action="store_true")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no case after this time")
    parser.add_argument("--work", type=pathlib.Path, help="keep failed programs here")
    arguments = parser.parse_args()
    choices = [m for m in models(arguments.folder) if re.search(arguments.models, m)]
    work = arguments.work or pathlib.Path(tempfile.mkdtemp())
    work.mkdir(parents=True, exist_ok=True)
    runner, begin, tried, failed, refused = Fuzzer(arguments.dt_opt, arguments.folder, work, "f32", arguments.double), time.time(), 0, 0, 0
    for index in range(arguments.first, arguments.first + arguments.count):
        if time.time() - begin > arguments.seconds:
            break
        start, tried = time.time(), tried + 1
        case = draw_case(random.Random(f"{arguments.seed}:{index}"), runner, choices, arguments.sub)
        try:
            verdict = try_case(runner, copy.deepcopy(case), arguments.compile_only)
            refused += verdict.startswith("refused")
        except (Failure, subprocess.TimeoutExpired, SystemExit) as failure:
            verdict, failed = f"FAILED {failure}", failed + 1
        print(f"{index:5} {time.time() - start:5.1f} s  {show(case)}\n      {verdict}", flush=True)
    print(f"{tried} layouts, {refused} refused, {failed} failed, {time.time() - begin:.0f} s")
    if not arguments.work:
        shutil.rmtree(work)
    sys.exit(1 if failed or refused == tried else 0)  # what is refused shows little


if __name__ == "__main__":
    main()
