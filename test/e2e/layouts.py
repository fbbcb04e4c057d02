# ===- layouts.py - every layout trains like one process --------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Each case is a model, a batch and a plan. The program that the compiler makes of
# it runs on its ranks and must give the gradients of the first step and the losses
# of ten steps that the same recipe gives in one process without any cut, and move
# exactly the bytes that the compiler's functions say. Every rank has allocated what
# --emit=memory says, messages included. Plans that cannot work must end in one error. All programs link the runtime of the compiler's build, equal stage
# code comes from the compiler cache, and two cases are under way at once, so that the cores are
# busy while programs start and configure.
# ===-----------------------------------------------------------------------===
"""layouts.py --dt-opt PATH [--only REGEX] [--subset]: trains the models under many plans and compares with one process."""

import argparse
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from safetensors.numpy import load_file, save_file

import batches
import golden
import routers
import tolerance
import words
from layout_cases import CASES
from train_model import QUICK, build, build_for, prebuilt

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS = 10
HANGS = 600  # seconds: what is left after that is a hang; the slowest takes under 20 on a quiet machine


class Failure(Exception):
    pass


def value_of(text):
    if "+" in text:
        return [value_of(part) for part in text.split("+")]
    return text == "true" if text in ("true", "false") else int(text) if text.isdigit() else text


def parse_plan(text):
    """`llm:tp=2,pp=2 vision:dp=3,ranks=0-2 | schedule=1f1b reorder=both` as a plan file's content."""
    units, _, options = text.partition("|")
    plan = {"version": 1, "units": {}}
    end = 0
    for unit in units.split():
        name, _, settings = unit.partition(":")
        entry = {"tp": 1, "cp": 1, "dp": 1, "pp": 1}
        for setting in filter(None, settings.split(",")):
            key, value = setting.split("=")
            entry[key] = value_of(value)
        size = entry["tp"] * entry["cp"] * entry["dp"] * entry["pp"]
        if "ranks" not in entry:
            entry["ranks"] = list(range(end, end + size))
        elif isinstance(entry["ranks"], int):
            entry["ranks"] = [entry["ranks"]]
        else:
            first, last = entry["ranks"].split("-")
            entry["ranks"] = list(range(int(first), int(last) + 1))
        end = max(end, max(entry["ranks"]) + 1)
        plan["units"][name] = entry
    settings = {key: value_of(value) for key, value in (s.split("=") for s in options.split())}
    plan["ranks"] = end
    plan["pipelines"] = [{"units": list(plan["units"]), "schedule": settings.pop("schedule", "1f1b")}]
    plan.update(settings)
    return plan


class Runner:
    def __init__(self, dt_opt, models, work, precision="f32", double=None, narrow=()):
        self.dt_opt, self.models, self.work, self.precision, self.double, self.narrow = dt_opt.resolve(), models, work, precision, double, narrow
        self.target = "cuda" if double else "cpu"
        self.references, self.lock = {}, threading.Lock()
        self.runtime = prebuilt(dt_opt)

    def recipe(self, case, micro, folder):
        source = self.models / case["model"]
        recipe = json.loads((source / case.get("recipe", "recipe.json")).read_text())
        for module in recipe["modules"].values():
            shutil.copy(source / module["onnx"], folder / module["onnx"])
            if "words" in case:
                words.shorten(folder / module["onnx"], case["words"], case.get("padded", True))
            if "favours" in case:
                routers.favour(folder / module["onnx"], case["favours"])
        recipe["batch"] = {"global": case["samples"]} | ({"micro": micro} if micro else {})
        recipe = batches.adapt(recipe, case["model"])
        recipe["optimizer"]["clip"] = 1.0
        for key, value in case.get("patch", {}).items():
            recipe["modules"][next(iter(recipe["modules"]))][key] = value
        recipe |= {"precision": self.precision, **dict.fromkeys(self.narrow, "bf16")}
        (folder / "recipe.json").write_text(json.dumps(recipe))
        return folder / "recipe.json"

    def choose_plan(self, case, folder):
        """What the planner says for two cores, its costs from measurements if the case wants them."""
        command = [self.dt_opt, self.recipe(case, case["micro"], folder), "--plan=auto", f"--cluster={ROOT / 'passes/planner/hardware/clusters/cpu-2.json'}"]
        if case.get("profile"):
            profile = [ROOT / "tools/dt-profile", folder / "recipe.json", "-o", folder / "profile.json", "--rows", f"1,{case['micro']}", "--dt-opt", self.dt_opt]
            profile += ["--runtime", self.runtime]
            done = subprocess.run([str(c) for c in profile], capture_output=True, text=True, timeout=HANGS)
            if done.returncode:
                raise Failure(f"dt-profile: {done.stderr[-1500:]}")
            command += [f"--profile={folder / 'profile.json'}"]
        done = subprocess.run([str(c) for c in command + ["--emit=plan", "-o", folder / "chosen.json"]], capture_output=True, text=True, timeout=HANGS)
        if done.returncode:
            raise Failure(f"--plan=auto: {done.stderr[-1500:]}")
        plan = json.loads((folder / "chosen.json").read_text())
        if not plan["predicted"]["step"] > 0 or plan["predicted"]["costs"] != ("profile" if case.get("profile") else "model"):
            raise Failure(f"--plan=auto predicts {plan['predicted']}")
        return plan

    def compile(self, case, micro, plan, folder, target="cpu"):
        recipe = self.recipe(case, micro, folder)
        command = [self.dt_opt, recipe, "--emit=cpp", f"--target={target}", "-o", folder / "program"]
        if plan:
            (folder / "plan.json").write_text(json.dumps(plan))
            command += [f"--plan={folder / 'plan.json'}"]
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=HANGS)
        padded = "is padded from" in done.stderr
        if "words" in case and done.returncode == 0 and padded != case.get("padded", True):
            raise Failure(f"the vocabulary is {'' if padded else 'not '}padded")
        return done

    def check_said(self, case, plan, folder):
        """A recipe that says the size that the plan chose is the same program, to the byte; what is trained is the one of the recipe that does not."""
        said = folder / "said"
        said.mkdir()
        done = self.compile(case, case["samples"] // plan["microbatches"], plan, said, self.target)
        if done.returncode:
            raise Failure(f"with the plan's size of a microbatch in the recipe: {done.stderr[-800:]}")
        files = lambda root: {path.relative_to(root): path.read_bytes() for path in sorted((root / "program").rglob("*")) if path.is_file()}
        have, want = files(folder), files(said)
        if have != want:
            raise Failure(f"differ by who says the size of a microbatch: {[str(f) for f in sorted(have.keys() | want.keys()) if have.get(f) != want.get(f)]}")

    def predicted(self, folder):
        """What dt-opt says about the memory of the ranks."""
        command = [self.dt_opt, folder / "recipe.json", f"--plan={folder / 'plan.json'}", "--emit=memory", "-o", folder / "predicted.json"]
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=HANGS)
        if done.returncode:
            raise Failure(f"--emit=memory: {done.stderr[-800:]}")
        return json.loads((folder / "predicted.json").read_text())

    def build(self, folder):
        build(folder / "program", os.environ.get("CCACHE_DIR"), self.runtime, QUICK)

    def build_planned(self, folder):
        """What a plan was given for: references are the CPU's."""
        if self.double:
            build_for(self.dt_opt, "cuda", self.double, folder / "program", os.environ.get("CCACHE_DIR"))
        else:
            self.build(folder)

    def batch(self, case):
        batch = batches.make(self.models / case["model"], case["samples"])
        return {name: words.shortened(values, case) for name, values in batch.items()}

    def run_program(self, folder, ranks, *flags):
        """A built program on what stands in `batch.safetensors`."""
        command = [folder / "program/build/train", "--batch", "batch.safetensors", "--threads", "1", *flags]
        if ranks > 1:
            command += ["--ranks", str(ranks)]
        try:
            done = subprocess.run([str(c) for c in command], cwd=folder, capture_output=True, text=True, timeout=HANGS)
        except subprocess.TimeoutExpired:
            raise Failure("hangs")
        if done.returncode:
            raise Failure(f"train ended with {done.returncode}: {done.stdout[-500:]}{done.stderr[-1500:]}")
        return done

    def train(self, case, folder, ranks, flags=(), batch=None):
        save_file(batch or self.batch(case), folder / "batch.safetensors")
        traffic = ["--traffic", "traffic.json"] if ranks > 1 else []
        self.run_program(folder, ranks, "--steps", str(STEPS), "--save-gradients", "gradients.safetensors", "--metrics", "metrics.jsonl", "--report", "report.json", *traffic, *flags)
        losses = [json.loads(line)["loss"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
        return load_file(folder / "gradients.safetensors"), np.array(losses)

    def reference(self, case):
        key = json.dumps([case.get(part) for part in ("model", "samples", "recipe", "patch", "words", "favours")])
        with self.lock:
            own = self.references.setdefault(key, [threading.Lock(), None])
        with own[0]:
            own[1] = own[1] or self.make_reference(case, key)
        return own[1]

    def make_reference(self, case, key):
        folder = self.work / ("reference-" + hashlib.md5(key.encode()).hexdigest()[:8])
        folder.mkdir()
        done = self.compile(dict(case, padded=False), case["samples"], None, folder)
        if done.returncode:
            raise Failure(f"the reference does not compile: {done.stderr[-1500:]}")
        self.build(folder)
        gradients, losses = self.train(case, folder, 1, ("--save-outputs", "outputs.safetensors"))
        recipe = json.loads((folder / "recipe.json").read_text())
        terms = tolerance.terms_of_losses(recipe, golden.load_outputs(folder / "outputs.safetensors"))
        return Reference(self, case, folder, gradients, losses, terms)

    def run(self, case):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.work))
        plan = self.choose_plan(case, folder) if case["plan"] == "auto" else parse_plan(case["plan"])
        done = self.compile(case, case["micro"], plan, folder, self.target)
        if "refused" in case:
            errors = [line for line in done.stderr.splitlines() if "error:" in line]
            if done.returncode == 0 or len(errors) != 1 or not re.search(case["refused"], errors[0]):
                raise Failure(f"expected one error matching '{case['refused']}', got {done.returncode}: {done.stderr[-800:]}")
            return "refused: " + errors[0].split("error: ")[-1][:90]
        if done.returncode:
            raise Failure(f"dt-opt ended with {done.returncode}: {done.stderr[-1500:]}")
        if not case["micro"]:
            self.check_said(case, plan, folder)
        self.build_planned(folder)
        gradients, losses = self.train(case, folder, plan["ranks"], ("--trace", "trace.json") if case.get("overlap") else ())
        verdict = compare(gradients, losses, self.reference(case), "bf16" if "bf16" in (self.precision, plan.get("gradient_sums")) else "f32")
        if plan["ranks"] > 1:
            check_traffic(json.loads((folder / "traffic.json").read_text()))
            if case.get("overlap"):
                check_overlap(json.loads((folder / "trace.json").read_text()))
        check_memory(json.loads((folder / "report.json").read_text()), self.predicted(folder))
        shutil.rmtree(folder)
        return verdict


class Reference:
    """One process: its gradients, its losses, how large its logits are, and what roundings do to it."""

    def __init__(self, runner, case, folder, gradients, losses, terms):
        self.runner, self.case, self.folder, self.gradients, self.losses, self.terms = runner, case, folder, gradients, losses, terms
        self.drawn, self.lock = {}, threading.Lock()

    def draws(self, precision):
        with self.lock:
            if precision not in self.drawn:
                self.drawn[precision] = tolerance.Draws(self.gradients, self.losses, [self.draw(precision, seed) for seed in range(tolerance.DRAWS)])
            return self.drawn[precision]

    def draw(self, precision, seed):
        weights = load_file(self.folder / "program/weights.safetensors")
        save_file(tolerance.perturbed(weights, precision, seed), self.folder / "drawn.safetensors")
        batch = tolerance.perturbed(self.runner.batch(self.case), precision, seed + tolerance.DRAWS)
        return self.runner.train(self.case, self.folder, 1, ("--init-from", "drawn.safetensors"), batch)


def compare(gradients, losses, reference, precision="f32"):
    """Against the reference's."""
    want_gradients, want_losses = reference.gradients, reference.losses
    if set(gradients) != set(want_gradients):
        raise Failure(f"gradients of other parameters: {sorted(set(gradients) ^ set(want_gradients))[:4]}")
    for name, want in want_gradients.items():
        if gradients[name].shape != want.shape:
            raise Failure(f"gradient of {name} has shape {gradients[name].shape}, expected {want.shape}")
    if len(losses) != len(want_losses):
        raise Failure(f"{len(losses)} steps instead of {len(want_losses)}")
    draws = reference.draws(precision)
    gradient, where, curve, step = tolerance.compare_drawn(gradients, losses, want_gradients, want_losses, reference.terms, draws)
    if not gradient <= 1:
        raise Failure(f"gradient of {where} differs by {gradient:.1f} limits")
    if not curve <= 1:
        raise Failure(f"loss of step {step} differs by {curve:.1f} limits (terms up to {reference.terms:.3g}): {losses} against {want_losses}")
    return f"of the limits: gradients {gradient:.2f} curve {curve:.2f}, of {draws.steps} steps"


def check_traffic(traffic):
    """Bytes handed to sends and collectives against those that follow from the manifest."""
    for edge in traffic["edges"]:
        if edge["bytes"] != edge["expected"]:
            raise Failure(f"{edge['direction']} of {edge['edge']}: {edge['bytes']} bytes sent, {edge['expected']} expected")
    for entry in traffic["collectives"]:
        if entry["bytes"] != entry["expected"]:
            raise Failure(f"{entry['name']} ({entry['axis']}): {entry['bytes']} bytes given, {entry['expected']} expected")


def check_overlap(trace):
    """Every rank begins to sum gradients in every step before its last backward ends."""
    sums, backwards = {}, {}
    for event in trace["traceEvents"]:
        key = (event["tid"], event.get("args", {}).get("step"))
        if event["ph"] == "b":
            sums[key] = min(sums.get(key, event["ts"]), event["ts"])
        elif event["ph"] == "X" and " backward " in event["name"] and not event["name"].startswith("wait"):
            backwards[key] = max(backwards.get(key, 0), event["ts"] + event["dur"])
    if not sums or set(sums) != set(backwards):
        raise Failure(f"sums of gradients in {sorted(sums)}, backwards in {sorted(backwards)}")
    for key, begin in sums.items():
        if begin >= backwards[key]:
            raise Failure(f"rank {key[0]} sums gradients of step {key[1]} after the last backward only")


def check_memory(report, predicted):
    """Bytes that every rank has allocated against the compiler's."""
    if len(report["memory"]) != len(predicted["ranks"]):
        raise Failure(f"memory of {len(report['memory'])} ranks, predicted of {len(predicted['ranks'])}")
    for rank, (have, want) in enumerate(zip(report["memory"], predicted["ranks"])):
        messages = {key: have["messages"][key] for key in ("device", "host")}
        if have["scratch"] != want["scratch"] or have.get("modules", {}) != want["modules"] or messages != want["messages"][have["messages"]["over"]]:
            raise Failure(f"rank {rank} has allocated {have}, predicted {want}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dt-opt", type=pathlib.Path, required=True)
    parser.add_argument("--only", default="", help="cases whose name matches")
    parser.add_argument("--precision", default="f32", choices=["f32", "bf16"], help="of all modules; bf16 beside bf16 in one process")
    parser.add_argument("--narrow", nargs="+", default=[], choices=["residual", "gradients"], help="what else is stored in bf16")
    parser.add_argument("--double", type=pathlib.Path, metavar="DIR", help="programs for CUDA, on a double of it; one process runs on the CPU")
    parser.add_argument("--subset", action="store_true", help="a quarter of them, every kind once")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--jobs", type=int, default=2, help="cases under way at once")
    parser.add_argument("--work", type=pathlib.Path, help="keep failed programs here")
    arguments = parser.parse_args()
    cases = [c for c in CASES if re.search(arguments.only, c["name"]) and (not arguments.subset or c.get("subset"))]
    if arguments.list:
        return print("\n".join(c["name"] for c in cases))
    models = pathlib.Path(__file__).parents[1] / "models"
    work = arguments.work or pathlib.Path(tempfile.mkdtemp())
    work.mkdir(parents=True, exist_ok=True)
    runner, begin = Runner(arguments.dt_opt, models, work, arguments.precision, arguments.double, arguments.narrow), time.time()

    def attempt(case):
        start = time.time()
        try:
            verdict = "ok      " + runner.run(case)
        except (Failure, subprocess.TimeoutExpired, SystemExit) as failure:  # the last: of the build
            verdict = f"FAILED  {failure}"
        print(f"{case['name']:44} {time.time() - start:5.1f} s  {verdict}", flush=True)
        return verdict.startswith("FAILED")

    with ThreadPoolExecutor(arguments.jobs) as pool:
        failed = sum(pool.map(attempt, cases))
    print(f"{len(cases)} layouts, {failed} failed, {time.time() - begin:.0f} s")
    if not arguments.work:
        shutil.rmtree(work)
    sys.exit(1 if failed or not cases else 0)


if __name__ == "__main__":
    main()
