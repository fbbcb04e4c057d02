# ===- check_tolerance.py - limits let rounding pass and errors not ---------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A limit that follows from float32 could still be too wide to find anything. Here
# every model's figures of PyTorch stand for a program's, with rounding (a random
# relative error of a few EPS in every element) and with one small error: a
# gradient, an output or the first loss times 1.0005. What rounding gives must pass
# all comparisons, and every error be found by that of golden.py and of layouts.py.
# ===-----------------------------------------------------------------------===
"""check_tolerance.py MODEL_FOLDER...: exit code 0 when comparisons pass rounding and find errors of 0.05 %."""

import pathlib
import sys

import numpy as np

import golden as goldens
import tolerance

ERROR = 1.0005
FOUND = 4e-4  # of the largest gradient: below that size, rounding may hide the error


LARGE = 1e5  # EPS


def rounded(tensor, random, size=4):
    return (tensor * (1 + size * tolerance.EPS * random.standard_normal(tensor.shape))).astype(np.float32)


def drawn(golden, random, size):
    """Limits of a program that roundings change by so much."""
    nothing = lambda: {"nothing": 1e-9 * random.standard_normal(64)}  # a gradient that is zero in exact arithmetic: another one each time
    draw = lambda: ({k: rounded(v, random, size) for k, v in golden.outputs.items()}, {k: rounded(v, random, size) for k, v in golden.gradients.items()} | nothing(), rounded(golden.curve, random, size).astype(np.float64))
    return goldens.drawn_limits(golden, (golden.outputs, golden.gradients | nothing(), golden.curve.astype(np.float64)), [draw() for _ in range(tolerance.DRAWS)])


def check_golden(golden, random):
    outputs, gradients = ({k: rounded(v, random) for k, v in t.items()} for t in (golden.outputs, golden.gradients))
    losses, limits = rounded(golden.curve, random).astype(np.float64), drawn(golden, random, 4)
    wrong = lambda *have: goldens.fails(goldens.compare_all(golden, *have, limits))
    if wrong(outputs, gradients, losses):
        yield "rounding does not pass"
    for name in sorted(set(gradients) - golden.vanishing):
        if not wrong(outputs, {**gradients, name: gradients[name] * np.float32(ERROR)}, losses):
            yield f"gradient of {name} is off, and nobody sees it"
    for name in outputs:
        if not wrong({**outputs, name: outputs[name] * np.float32(ERROR)}, gradients, losses):
            yield f"output {name} is off, and nobody sees it"
    if not wrong(outputs, gradients, losses * np.where(np.arange(len(losses)) == 0, ERROR, 1)):
        yield "the first loss is off, and nobody sees it"
    # Where roundings do more than float32's limits allow, they pass by what draws do, and by that alone.
    far = {k: rounded(v, random, LARGE) for k, v in gradients.items()}
    if not wrong(outputs, far, losses) or goldens.fails(goldens.compare_all(golden, outputs, far, losses, drawn(golden, random, LARGE))):
        yield "what roundings do to a model that they change much is not its limit"


def check_layouts(golden, random):
    want, curve = golden.gradients, golden.curve.astype(np.float64)
    terms = max((float(np.abs(v).max()) for v in golden.outputs.values()), default=0.0)
    have, losses = {k: rounded(v, random) for k, v in want.items()}, rounded(golden.curve, random).astype(np.float64)
    if tolerance.compare_gradients(have, want)[0] > 1 or tolerance.compare_curves(losses, curve, terms)[0] > 1:
        yield "rounding does not pass"
    largest = max(map(tolerance.norm, want.values()))
    for name, value in want.items():
        if tolerance.norm(value) < FOUND * largest:
            continue
        if tolerance.compare_gradients({**have, name: have[name] * np.float32(ERROR)}, want)[0] <= 1:
            yield f"gradient of {name} is off, and nobody sees it under a layout"
    if tolerance.compare_curves(losses * np.where(np.arange(len(losses)) == 0, ERROR, 1), curve, terms)[0] <= 1:
        yield "the first loss is off, and nobody sees it under a layout"


def main():
    failed = 0
    for folder in map(pathlib.Path, sys.argv[1:]):
        golden, random = goldens.Golden(folder, False), np.random.default_rng(0)
        problems = [*check_golden(golden, random), *check_layouts(golden, random)]
        print(f"{folder.name}: {len(golden.gradients)} gradients, {len(golden.outputs)} outputs: {problems[:4] or 'ok'}")
        failed += bool(problems)
    sys.exit(1 if failed or len(sys.argv) < 2 else 0)


if __name__ == "__main__":
    main()
