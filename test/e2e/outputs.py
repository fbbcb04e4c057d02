# ===- outputs.py - dumps of outputs that ranks have parts of, and padded ones ===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A language model whose vocabulary the compiler pads, with its scores as they are
# and with the words on an axis in the middle: --save-outputs has the graph's own
# shapes and the values of ONNX Runtime at the initial weights, whole, in
# microbatches, and where tensor-parallel ranks have a part each. What is in no
# dump the program says.
# ===-----------------------------------------------------------------------===
"""outputs.py --dt-opt DT_OPT [--double DIR]: exit code 0 when all outputs are there and right."""

import argparse
import pathlib
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
from safetensors.numpy import save_file

import golden
import tolerance
from layouts import Failure, Runner, parse_plan

MODELS = pathlib.Path(__file__).parents[1] / "models"
WORDS = 173
CASE = {"model": "gpt2", "samples": 4, "words": WORDS}
SAID = "--save-outputs leaves out"
# name: samples a microbatch, plan, what the graph has in addition, outputs that are left out and why.
CASES = {
    "whole": (None, None, "turned", {}),
    "microbatches": (1, None, "turned", {}),
    "tp2": (None, "model:tp=2", "turned", {}),
    "tp2-dp2-micro": (2, "model:tp=2,dp=2", "turned", {}),
    "no-items": (2, None, "table", {"model.table": "none of its axes counts items"}),
}


def extend(path, more):
    """The graph with one more output: the scores with their last two axes `turned`, or a `table` that has no items."""
    model = onnx.load(path)
    graph, logits = model.graph, model.graph.output[0]
    if more == "turned":
        graph.node.append(helper.make_node("Transpose", [logits.name], ["turned"], name="turned", perm=[0, 2, 1]))
        batch, seq, words = ([d.dim_param or d.dim_value for d in logits.type.tensor_type.shape.dim])
        graph.output.append(helper.make_tensor_value_info("turned", TensorProto.FLOAT, [batch, words, seq]))
    else:
        weight = next(i for i in graph.initializer if i.name.endswith("wpe.weight"))
        graph.node.append(helper.make_node("Neg", [weight.name], ["table"], name="table"))
        graph.output.append(helper.make_tensor_value_info("table", TensorProto.FLOAT, list(weight.dims)))
    onnx.save(model, path)


class Extended(Runner):
    """As Runner, of a graph with one more output."""

    more = None

    def recipe(self, case, micro, folder):
        path = super().recipe(case, micro, folder)
        extend(folder / "model.onnx", self.more)
        return path


def wanted(folder, batch):
    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    values = session.run(names, {i.name: batch[i.name] for i in session.get_inputs()})
    return {f"model.{name}": value for name, value in zip(names, values)}


def check(runner, name, work):
    micro, plan, runner.more, left = CASES[name]
    folder = work / name
    folder.mkdir()
    plan = plan and parse_plan(plan)
    done = runner.compile(CASE, micro, plan, folder, runner.target)
    if done.returncode:
        raise Failure(f"dt-opt ended with {done.returncode}: {done.stderr[-1500:]}")
    runner.build_planned(folder)
    batch = runner.batch(CASE)
    save_file(batch, folder / "batch.safetensors")
    said = runner.run_program(folder, plan["ranks"] if plan else 1, "--steps", "1", "--save-outputs", "outputs.safetensors").stderr
    if said.count(SAID) != len(left):
        raise Failure(f"{len(left)} outputs are to be left out, said is: {said}")
    have, rows = golden.load_outputs(folder / "outputs.safetensors"), []
    for output, want in wanted(folder, batch).items():
        why = [line for line in said.splitlines() if SAID in line and output in line]
        if output in left:
            if output in have or len(why) != 1 or left[output] not in why[0]:
                raise Failure(f"{output} is {'' if output in have else 'not '}there; {SAID}: {why}")
            continue
        limit = tolerance.output_limit(golden.largest(want))
        rows.append(golden.compare(output, have.get(output), want, golden.largest, limit))
    wrong = [row for row in rows if not row[1] <= 1]
    if wrong:
        raise Failure("; ".join(f"{output}: {units:.2g} limits ({remark})" for output, units, remark in wrong))
    if not rows or not any(np.shape(v)[-1] == WORDS for v in have.values() if np.ndim(v)):
        raise Failure(f"no output has {WORDS} scores: {({k: v.shape for k, v in have.items()})}")
    return ", ".join(f"{output} {units:.2g} of its limit" for output, units, _ in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dt-opt", required=True, type=pathlib.Path)
    parser.add_argument("--double", type=pathlib.Path, metavar="DIR", help="programs for CUDA, on a double of it")
    parser.add_argument("--only", nargs="*", default=list(CASES))
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        runner = Extended(options.dt_opt, MODELS, work, double=options.double)
        for case in options.only:
            try:
                print(f"ok   {case}: {check(runner, case, work)}", flush=True)
            except Failure as failure:
                failed += 1
                print(f"BAD  {case}: {failure}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
