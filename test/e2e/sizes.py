# ===- sizes.py - texts and pictures of unequal size, under many plans ------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# The networks of models/export/sizes.py train on steps without a row of padding,
# whole and cut into microbatches, replicas, slices and stages. Gradients and
# outputs of the first step and the losses of ten are those that PyTorch has for
# each sample and each picture alone, as near as PyTorch's own float32 is (figures
# of float64, limits of draws: tolerance.py). Figures are kept in test/models/sizes;
# with --fresh PyTorch makes them here, of other samples.
# ===-----------------------------------------------------------------------===
"""sizes.py --dt-opt PATH [--static] [--fresh SEED] [--slow] [--networks A,B] [--only REGEX] [--precision bf16]: trains on items of unequal size and compares with PyTorch."""

import argparse
import json
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np
from safetensors.numpy import load_file, save_file

import fuzz_layouts
import golden
import layouts
import sizes_batch
import tolerance
import train_model
from layouts import Failure

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEPT = ROOT / "test/models/sizes"
STATIC, CASES = [], []
TOWERS = ("vlm", "reordered", "qwen2_vl", "qwen3_vl", "naflex", "pooled")  # networks with pictures


def case(name, network, micro, plan, to=CASES, **more):
    to.append(dict(name=f"{network}-{name}", model=network, micro=micro, plan=plan, **more))


# Sizes are numbers: a step is one call of a module.
for network in ("packed", "windowed", "places", "library"):
    case("one", network, None, "llm:", STATIC)
    case("tp2", network, None, "llm:tp=2,sequence_parallel=true", STATIC)
    case("pp2", network, None, "llm:pp=2", STATIC)
for network in TOWERS:
    case("one", network, None, "vision: llm:ranks=0", STATIC)
    case("apart", network, None, "vision:tp=2 llm:pp=2", STATIC)

# What lets items see one another, or puts a picture's rows elsewhere, is found.
case("one-text", "packed", None, "llm:", STATIC, planted=("llm.segments", np.zeros_like))
case("one-text", "windowed", None, "llm:", STATIC, planted=("llm.segments", np.zeros_like))
case("one-picture", "vlm", None, "vision: llm:ranks=0", STATIC, planted=("vision.segments", np.zeros_like))
case("one-picture", "qwen3_vl", None, "vision: llm:ranks=0", STATIC, planted=("vision.segments", np.zeros_like))
case("one-picture", "naflex", None, "vision: llm:ranks=0", STATIC, planted=("vision.segments", np.zeros_like))
case("other-pictures", "pooled", None, "vision: llm:ranks=0", STATIC, planted=("vision.pictures", lambda numbers: np.roll(numbers, 1)))
case("one-window", "vlm", None, "vision: llm:ranks=0", STATIC, planted=("vision.windows", np.zeros_like))
case("other-places", "vlm", None, "vision: llm:ranks=0", STATIC, planted=("llm.image_rows", lambda rows: np.roll(rows, 1)))

# Sizes are what items have; the subset is twenty-two plans.
for network in ("packed", "windowed", "qwen3", "places", "library"):
    subset = network == "packed"
    case("one", network, 8, "llm:")
    case("tp2-pp2", network, 8, "llm:tp=2,pp=2")
    case("micro", network, 3, "llm:", subset=subset)
    case("tp2", network, 4, "llm:tp=2,sequence_parallel=true", subset=subset)
    case("dp3", network, 8, "llm:dp=3,zero=1", subset=subset)
    case("pp2-zb", network, 1, "llm:pp=2 | schedule=zb-h1", subset=subset)
    case("interleaved", network, 2, "llm:pp=2,vpp=2 | schedule=interleaved", subset=subset)
    case("dp2-pp2", network, 3, "llm:dp=2,pp=2", subset=subset)
    case("dp2-sub2", network, 8, "llm:dp=2,sub=2,save=none | reorder=both", subset=subset)
    case("tokens", network, 4, "llm:dp=2", tokens=64)
    case("parts", network, 9, "llm:dp=3,pp=2 | reorder=both", parts={"tokens": 64, "parts": 6, "samples": 9}, subset=subset)
for network in ("vlm", "reordered"):
    subset = network == "vlm"
    case("one", network, 8, "vision: llm:ranks=0")
    case("micro", network, 3, "vision: llm:ranks=0")
    case("dp3-dp2", network, 8, "vision:dp=3 llm:dp=2", subset=subset)
    case("colocated", network, 4, "vision:dp=2 llm:dp=2,ranks=0-1 | reorder=both", subset=subset)
    case("tp2-tp2", network, 4, "vision:tp=2 llm:tp=2,dp=2", subset=subset)
    case("span-pp2", network, 2, "vision:span=2 llm:pp=2", subset=subset)
    case("sub2-zb", network, 4, "vision:sub=2 llm:pp=2 | schedule=zb-h1", subset=subset)
    case("parts", network, 9, "vision:dp=3 llm:dp=2,sub=2", parts={"tokens": 100, "parts": 8, "samples": 9})
    case("interleaved", network, 2, "vision: llm:pp=2,vpp=2 | schedule=interleaved", subset=subset)
for network in ("qwen2_vl", "qwen3_vl", "naflex", "pooled"):
    subset = network == "qwen3_vl"
    case("one", network, 8, "vision: llm:ranks=0")
    case("tp2-tp2", network, 4, "vision:tp=2 llm:tp=2")
    case("apart-dp2", network, 3, "vision: llm:dp=2 | reorder=both")
    case("span-pp2", network, 2, "vision:span=2 llm:pp=2", subset=subset)


# Rows of a part are rounded up to a multiple: those behind the last text are nobody's. Ranks share them out, between layers and inside, for which plans round them up, too.
for network in ("packed", "windowed", "qwen3"):
    subset = network == "packed"
    case("rounded", network, 3, "llm:", multiple=16)
    case("rounded-dp2-pp2", network, 3, "llm:dp=2,pp=2 | reorder=both", multiple=8, subset=subset)
    case("rounded-sp", network, 4, "llm:tp=2,sequence_parallel=true", multiple=7, subset=subset)
    case("cp2", network, 4, "llm:cp=2", subset=subset)
    case("cp4", network, 8, "llm:cp=4", multiple=32)
    case("cp2-tp2-pp2", network, 3, "llm:cp=2,tp=2,pp=2,sequence_parallel=true", subset=subset)
    case("cp2-dp2-parts", network, 9, "llm:cp=2,dp=2 | reorder=both", parts={"tokens": 64, "parts": 6, "samples": 9})
    # Stages hand on what a rank has: in slices, beside replicas, to another rank and, where a V turns, to itself.
    case("cut-dp2-sub2-zb", network, 4, "llm:cp=2,pp=2,dp=2,sub=2,zero=1 | schedule=zb-h1", subset=subset)
    case("cut-interleaved", network, 2, "llm:cp=2,pp=2,vpp=2 | schedule=interleaved")
    case("cut-v", network, 1, "llm:tp=2,pp=2,vpp=2,sequence_parallel=true | schedule=zb-v")
    case("cut-ring-parts", network, 9, "llm:cp=2,pp=2,context=ring,save=none | reorder=both", parts={"tokens": 64, "parts": 6, "samples": 9})
for network in TOWERS:
    subset = network == "qwen3_vl"
    case("cp2", network, 4, "vision:cp=2 llm:cp=2", subset=subset)
    case("rounded-tp2-pp2", network, 3, "vision: llm:tp=2,pp=2,sequence_parallel=true", multiple=16)
    case("cp2-sub2", network, 4, "vision:cp=2,dp=2,sub=2 llm:cp=2,dp=2,sub=2 | reorder=both")
    # Parts without a picture, or with one, are cut between stages, too.
    case("cut-dp2", network, 2, "vision:cp=2,pp=2,dp=2,sub=2 llm:tp=2,pp=2,sequence_parallel=true | schedule=zb", subset=subset)
    case("cut-span", network, 1, "vision:cp=2,pp=2,span=3 llm:tp=2,cp=2,pp=2,sequence_parallel=true,zero=1")


def at(place, value):
    """A tensor with another element."""

    def change(tensor):
        tensor = tensor.copy()
        tensor[place] = value
        return tensor

    return change


# Tensor, how it is changed (None: left out), what the one line of the error says.
BAD = [
    ("offsets.image.merged", None, "'offsets.image.merged' is missing"),
    ("offsets.sample.tokens", None, "'offsets.sample.tokens' is missing"),
    ("item_of.image", None, "'item_of.image'"),  # an index says nothing of a picture without rows
    ("offsets.image.merged", at(0, 1), "'offsets.image.merged', element 0"),
    ("offsets.image.merged", at(2, 0), "'offsets.image.merged', element 2"),
    ("offsets.image.merged", lambda v: v[:-1], "'offsets.image.merged' has"),
    ("offsets.image.merged", lambda v: v.astype(np.float32), "'offsets.image.merged' should be integers"),
    ("offsets.image.merged", lambda v: v.astype(np.int32), None),
    ("offsets.sample.tokens", lambda v: np.where(np.arange(len(v)) > 0, v[-1], 0), "sample 0 has .* tokens; .* at most"),
    ("vision.pixel_values", lambda v: v[: -sizes_batch.ROWS], "'vision.pixel_values' has"),
    ("vision.pixel_values", lambda v: v[:-1], "'vision.pixel_values'"),
    ("llm.input_ids", lambda v: v[:, :-1], "'llm.input_ids' has"),
    ("llm.image_rows", at(0, 10**6), "'llm.image_rows', element"),
    ("llm.image_rows", lambda v: np.roll(v, 1), "'llm.image_rows'"),  # into another sample
]
case("bad", "vlm", 4, "vision: llm:ranks=0", bad=BAD)


class Draws:
    """What roundings do to PyTorch's run, as tolerance.Draws has measured it when the figures were made."""

    loss_limit, gradient_limit = tolerance.CurveDraws.loss_limit, tolerance.Draws.gradient_limit

    def __init__(self, facts, curve):
        self.off, self.typical = facts["gradients"]["off"], facts["gradients"]["typical"]
        self.apart, self.steps = facts["losses"][curve]["apart"], facts["losses"][curve]["steps"]


class Figures:
    """A folder that models/export/sizes.py wrote, in the form of layouts.Reference."""

    def __init__(self, folder, static):
        self.facts = json.loads((folder / "figures.json").read_text())
        self.graphs, self.sizes, self.terms = self.facts["graphs"], sizes_batch.Sizes(**self.facts["sizes"]), self.facts["terms"]
        self.rows = self.facts.get("rows", ["image_embeds"])
        self.steps = [load_file(folder / f"step-{i}.safetensors") for i in range(self.facts["steps"])]
        # A network of one shape trains on the step that has it.
        self.steps, self.curve = (self.steps[:1], "first") if static else (self.steps, "all")
        self.gradients, self.outputs = load_file(folder / "gradients.safetensors"), load_file(folder / "outputs.safetensors")
        self.losses = load_file(folder / "losses.safetensors")[self.curve]

    def draws(self, _):
        return Draws(self.facts, self.curve)

    def check_outputs(self, outputs):
        """Each item's rows are at its place in the batch. Returns the worst difference in units of its limit."""
        worst = 0.0
        for name, want in self.outputs.items():
            have = outputs.get(name)
            if have is None or have.shape != want.shape:
                raise Failure(f"output {name}: {'missing' if have is None else f'shape {have.shape}, expected {want.shape}'}")
            limit = max(tolerance.FACTOR * self.facts["outputs"][name], tolerance.output_limit(float(np.abs(want).max(initial=0)), tolerance.ORDER))
            off = np.abs(have.astype(np.float64) - want)
            if not off.max(initial=0) <= limit:
                rows = np.flatnonzero(~(off.reshape(-1, want.shape[-1]).max(1) <= limit))
                raise Failure(f"output {name} differs by {off.max() / limit:.1f} limits, in {len(rows)} of {off.size // want.shape[-1]} rows, row {rows[0]} first")
            worst = max(worst, off.max(initial=0) / limit)
        return worst


class Runner(layouts.Runner):
    def __init__(self, dt_opt, folder, work, static, double, precision="f32"):
        super().__init__(dt_opt, folder, work, precision, double)
        self.static, self.figures = static, {}

    def kept(self, case):
        with self.lock:
            if case["model"] not in self.figures:
                self.figures[case["model"]] = Figures(self.models / case["model"], self.static)
            return self.figures[case["model"]]

    def reference(self, case):
        """PyTorch's figures, which are float32's; of other precisions the program of one process."""
        return self.kept(case) if self.precision == "f32" else super().reference({"model": case["model"], "samples": self.kept(case).sizes.samples})

    def make_reference(self, case, key):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.work))
        done = self.compile(case, case["samples"], None, folder)
        if done.returncode:
            raise Failure(f"the reference does not compile: {done.stderr[-1500:]}")
        self.build(folder)
        return layouts.Reference(self, case, folder, *self.train(case, folder, 1), self.kept(case).terms)

    def batch(self, _):
        """Steps are the figures' own: of a draw only weights are others."""
        return {}

    def recipe(self, case, micro, folder):
        figures = self.kept(case)
        for file in figures.graphs.values():
            shutil.copy(self.models / case["model"] / file, folder / file)
        # Of numbers the batch is one sample.
        batch = {"global": 1} if self.static else case.get("parts") or {"global": figures.sizes.samples, "micro": micro} | ({"tokens": case["tokens"]} if "tokens" in case else {})
        made = sizes_batch.recipe(figures.graphs, figures.steps[0], figures.sizes, batch, figures.steps[0] if self.static else None, figures.rows)
        if "multiple" in case:
            made["items"]["sample"]["measures"]["tokens"]["multiple"] = case["multiple"]
        made["precision"] = self.precision
        (folder / "recipe.json").write_text(json.dumps(made, indent=1))
        return folder / "recipe.json"

    def train(self, case, folder, ranks, flags=(), batch=None):
        figures, files = self.kept(case), ["batch.safetensors"]
        files += [f"step-{i}.safetensors" for i in range(1, len(figures.steps))]
        for file, step in zip(files, figures.steps):
            step = {n: v for n, v in step.items() if not (self.static and n.startswith(("offsets.", "item_of.")))}
            if "planted" in case:
                name, change = case["planted"]
                step[name] = change(step[name])
            save_file(step, folder / file)
        more = [flag for file in files[1:] for flag in ("--batch", file)] + (["--traffic", "traffic.json"] if ranks > 1 else [])
        more += ["--save-gradients", "gradients.safetensors", "--save-outputs", "outputs.safetensors", "--metrics", "metrics.jsonl", "--report", "report.json"]
        self.run_program(folder, ranks, "--steps", str(len(figures.losses)), *more, *flags)
        if self.precision == "f32":
            case["outputs"] = figures.check_outputs(golden.load_outputs(folder / "outputs.safetensors"))
        losses = [json.loads(line)["loss"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
        return load_file(folder / "gradients.safetensors"), np.array(losses)

    def run_bad(self, case):
        """Batches that are wrong in one way end in one line that names it."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.work))
        done = self.compile(case, case["micro"], layouts.parse_plan(case["plan"]), folder)
        if done.returncode:
            raise Failure(f"dt-opt ended with {done.returncode}: {done.stderr[-1500:]}")
        self.build(folder)
        for name, change, said in case["bad"]:
            step = dict(self.kept(case).steps[0])
            value = step.pop(name)
            save_file(step | ({} if change is None else {name: np.ascontiguousarray(change(value))}), folder / "batch.safetensors")
            command = [folder / "program/build/train", "--batch", "batch.safetensors", "--steps", "1", "--threads", "1"]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=layouts.HANGS)
            lines = done.stderr.splitlines()
            if done.returncode != (said is not None) or len(lines) != (said is not None) or (said and not re.search(said, lines[0])):
                raise Failure(f"with another {name}: ended with {done.returncode}, expected {said!r}: {done.stderr[-500:]}")
        shutil.rmtree(folder)
        return f"{len(case['bad'])} batches"

    def run(self, case):
        if "bad" in case:
            return self.run_bad(case)
        if "drawn" in case:
            return self.run_drawn(case)
        if "planted" not in case:
            return super().run(case) + (f", outputs {case['outputs']:.2f}" if "outputs" in case else "")
        try:
            super().run(case)
        except Failure as failure:
            if "differs by" in str(failure):
                return f"found: {failure}"
            raise
        raise Failure(f"another {case['planted'][0]} changes nothing")

    def run_drawn(self, case):
        try:
            return fuzz_layouts.try_case(self, case, compile_only=False)
        except Failure as failure:
            # Parts may be too few for the tokens of a step: no packing of so few texts fills nine tenths of them.
            if "the program was compiled for at most" not in str(failure) or "tokens" not in case:
                raise
            tokens = max(int(step["offsets.sample.tokens"][-1]) for step in self.kept(case).steps)
            parts = -(-self.kept(case).sizes.samples // case["micro"]) * case["plan"]["units"]["llm"].get("dp", 1)
            if tokens <= 0.9 * parts * case["tokens"]:
                raise
            return f"does not fit: {tokens} tokens into {parts} parts of {case['tokens']}"

    def check_said(self, *_):
        """Networks of one shape have no microbatches."""


def draw_case(number, networks, seed):
    """A plan at random: it trains as PyTorch does, or ends in one error."""
    random_ = random.Random(f"{seed}:{number}")
    network = random_.choice(networks)
    names = ["vision", "llm"] if network in TOWERS else ["llm"]
    made = {"name": f"{number}-{network}", "model": network, "micro": random_.choice([1, 2, 3, 5, 8]), "plan": fuzz_layouts.draw_plan(random_, names, 0.25), "drawn": True}
    if random_.random() < 0.4:
        made["tokens"] = random_.choice([48, 64, 96, 200])
    if random_.random() < 0.4:
        made["multiple"] = random_.choice([4, 6, 8, 16, 24])
    return made


def make_figures(arguments, work):
    """The folder of figures; None where PyTorch is missing."""
    if arguments.fresh is None:
        return KEPT
    try:
        import torch, transformers  # noqa: E401, F401
    except ImportError:
        return None
    command = [sys.executable, "-m", "export.sizes", work / "figures", *arguments.networks, "--seed", str(arguments.fresh)]
    subprocess.run([*command, *(["--slow"] if arguments.slow else [])], cwd=ROOT / "models", check=True)
    return work / "figures"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dt-opt", required=True, type=pathlib.Path)
    parser.add_argument("--static", action="store_true", help="dims are the numbers of the first step")
    parser.add_argument("--fresh", type=int, metavar="SEED", help="let PyTorch make samples, graphs and figures first")
    parser.add_argument("--slow", action="store_true", help="with --fresh: pictures of up to 1,024 patches, texts of up to 400 tokens")
    parser.add_argument("--networks", type=lambda text: text.split(","), help="by default those that are kept")
    parser.add_argument("--only", default="", help="cases whose name matches")
    parser.add_argument("--subset", action="store_true", help="twenty-two plans, every kind once")
    parser.add_argument("--double", type=pathlib.Path, metavar="DIR", help="programs for CUDA, on a double of it")
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32", help="bf16: compared with one process, not with PyTorch")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--work", type=pathlib.Path, help="keep failed programs here")
    parser.add_argument("--draw", type=int, metavar="N", help="N plans at random instead")
    parser.add_argument("--seed", type=int, default=0, help="of --draw")
    parser.add_argument("--first", type=int, default=0, help="number of the first plan of --draw")
    arguments = parser.parse_args()
    arguments.networks = arguments.networks or sorted(path.name for path in KEPT.iterdir() if path.is_dir())
    cases = [c for c in (STATIC if arguments.static else CASES) if c["model"] in arguments.networks and re.search(arguments.only, c["name"]) and (c.get("subset") or not arguments.subset)]
    if arguments.draw:
        cases = [draw_case(arguments.first + i, arguments.networks, arguments.seed) for i in range(arguments.draw)]
    if arguments.list:
        return print("\n".join(f"{c['name']:24} {c['plan']}" for c in cases))
    with tempfile.TemporaryDirectory() as temporary:
        work = arguments.work or pathlib.Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        figures = make_figures(arguments, work)
        if figures is None:
            print("skipped: tools/setup --torch installs what this needs")
            return train_model.SKIPPED
        runner, failed = Runner(arguments.dt_opt, figures, work, arguments.static, arguments.double, arguments.precision), 0
        for c in cases:
            start = time.time()
            try:
                verdict = "ok      " + runner.run(c)
            except (Failure, subprocess.TimeoutExpired, SystemExit) as failure:  # the last: of the build
                verdict, failed = f"FAILED  {failure}", failed + 1
            print(f"{c['name']:24} {time.time() - start:5.1f} s  {verdict}", flush=True)
    print(f"{len(cases)} cases, {failed} failed")
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
