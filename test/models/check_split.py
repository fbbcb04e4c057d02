#===- check_split.py - Split backward functions compute what whole ones do ----===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# check_split.py DT_OPT [--quick] FOLDER...: differentiates each folder's program with
# gradients of all inputs (if there are none, modules are cut into two stages),
# splits the backward functions of its modules, on one rank and cut over two,
# runs both halves in double precision on the golden inputs, and compares every
# gradient with the whole function's: bit for bit on one rank. Products must not
# be computed twice. Exit 77: a Python package is missing.
#===----------------------------------------------------------------------===
import pathlib
import re
import sys

from check_shard import Case, compare, load_file, run, with_attributes
from gradients import Gradients

import json

DIFFERENTIATE = ["--dist-mark-wanted", "--cse", "--nn-differentiate", "--canonicalize", "--cse"]
PRODUCTS = ("nn.linear", "nn.matmul", "nn.conv", "nn.attention")


def wanting_all(text):
    """Every input of @forward that may have a gradient wants one."""
    def mark(match):
        return re.sub(r"(tensor<[^{}]*f32[^{}]*>) \{nn\.name = (\"[^\"]*\")\}", r"\1 {nn.name = \2, nn.wants_grad}", match.group(0))
    return re.sub(r"func\.func @forward\(.*?\) ->", mark, text)


def products(m, function):
    """Products of a function and of what it calls."""
    found = 0
    for op in m.functions[function].blocks[0].ops:
        found += op.name.startswith(PRODUCTS)
        if op.name == "func.call":
            found += products(m, op.attrs["callee"].lstrip("@").strip('"'))
    return found


def exactly(wanted, found):
    if wanted.keys() != found.keys():
        return f"other results: {sorted(wanted.keys() ^ found.keys())[:3]}"
    other = [name for name, value in wanted.items() if not (value == found[name]).all()]
    return f"{len(other)} differ, the first is {other[0]}" if other else None


def prepare(tool, folder, tp):
    """The differentiated program, to be cut over tp ranks."""
    recipe = str(folder / "recipe.json")
    marked = wanting_all(run(tool, recipe, "--dt-import", "--dt-modules", "--dt-outline", "--dist-mark-wanted"))
    if "nn.wants_grad" in marked:
        return with_attributes(run(tool, "-", *DIFFERENTIATE[1:], stdin=marked), f"split_backward, tp = {tp} : i64")
    units = ";".join(f"{name}:pp=2,tp={tp}" for name in json.loads((folder / "recipe.json").read_text())["modules"])
    return run(tool, recipe, "--dt-import", f"--dist-apply-plan=plan={units};schedule=zb-h1", "--dt-modules", "--dt-outline", "--dt-stages", *DIFFERENTIATE)


def check_folder(tool, folder, ranks):
    golden = json.loads((folder / "golden.json").read_text())
    tensors = load_file(folder / "golden.safetensors")
    text = prepare(tool, folder, 1)
    whole = run(tool, "-", "--mlir-print-op-generic", stdin=text)
    modules = re.findall(r"^  dist\.module @(\S+)", text, flags=re.M)
    for tp in ranks:
        split = run(tool, "-", "--dt-shard", "--mlir-print-op-generic", stdin=prepare(tool, folder, tp))
        for module in modules:
            try:
                case = Case(module, golden, tensors)
                case.prepare(Gradients(whole, module, {}, {}))
                before, wanted = case.execute(whole, 1)
                m, found = case.execute(split, tp)
                problem = exactly(wanted, found) if tp == 1 else compare(wanted, found)
                halves = [n for n in ("forward.bwd.input", "forward.bwd.weight") if n in m.functions]
                note = "ok (" + ", ".join(f"{products(m, n)} products in {n.split('.')[-1]}" for n in halves)
                note += f", {products(before, 'forward.bwd')} in the whole)" if "forward.bwd" in before.functions else "nothing to split)"
                if "forward.bwd" in m.functions:
                    problem = "still has forward.bwd"
                elif tp == 1 and halves and sum(products(m, n) for n in halves) != products(before, "forward.bwd"):
                    problem = "computes a product twice"
            except Exception as e:  # one broken module must not hide the others
                problem = f"{type(e).__name__}: {e}"
            print(f"{folder.name}/{module} tp {tp}: {problem or note}", flush=True)
            yield problem is None


def main():
    tool, *folders = sys.argv[1:]
    quick = "--quick" in folders
    ok = [o for folder in folders if folder != "--quick" for o in check_folder(tool, pathlib.Path(folder), [1] if quick else [1, 2])]
    return 0 if all(ok) else 1


if __name__ == "__main__":
    sys.exit(main())
