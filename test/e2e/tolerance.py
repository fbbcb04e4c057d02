# ===- tolerance.py - how far float32 programs may be apart -----------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Limits follow from the type, not from what one machine gave. A float32 operation
# is off by up to EPS / 2 of its result. Two programs that compute one formula in
# another order (ranks, microbatches, threads, width of vectors) differ by a
# multiple of EPS *at the size of what they add*, which may be far above the sum:
#
# - a loss is log-sum-exp minus logit, or prediction minus target. Near 0 it is the
#   difference of `terms` as large as the logits, and keeps their rounding;
# - a gradient that cancels is a sum of terms as large as other gradients. Errors
#   of its elements are independent, so that in the L2 norm they are one EPS of
#   the norm of the terms;
# - each step adds such an error to the parameters, so that after k steps losses
#   are k + 1 times as far apart as at the first.
# ===-----------------------------------------------------------------------===
"""loss_limit, gradient_limit, output_limit, compare_curves: shared by all tests that compare programs."""

import numpy as np

EPS = float(np.finfo(np.float32).eps)
ORDER = 96  # roundings one after another on the way through a model: the same formulas in another order
OTHER = 1024  # other formulas too: another library's exp, statistics of norms, fused attention
BOTH_OFF = 3  # two float32 programs of which one is known to be off by so much: the other may be by as much, or twice
CANCELLED = 8  # roundings of each term that a loss subtracts: a product's, an exp's, a sum's


def loss_limit(want, terms, step, roundings=ORDER):
    """Largest absolute difference of losses at a step (from 0) whose logits or predictions are as large as `terms`."""
    return (step + 1) * EPS * (roundings * abs(want) + CANCELLED * terms)


def gradient_limit(size, terms, roundings=ORDER):
    """Largest L2 norm of a difference of gradients: `size` the gradient's norm, `terms` that of what may cancel in it."""
    return EPS * (roundings * size + terms)


def output_limit(largest, roundings=OTHER):
    """Largest difference of an element of a tensor whose largest is given."""
    return EPS * roundings * largest


def norm(tensor):
    return float(np.linalg.norm(tensor.astype(np.float64)))


def terms_of_losses(recipe, outputs):
    """The largest element of what the recipe's losses read, of saved outputs by name (`module.tensor`, or as a cut module calls it)."""
    names = [loss[key].split(".", 1)[1] for loss in recipe["losses"] for key in ("logits", "output") if key in loss]
    read = [v for k, v in outputs.items() if any(k == n or k.endswith("." + n) for n in names)]
    read = read or [v for v in outputs.values() if v.dtype.kind == "f"]
    return max((float(np.abs(v).max(initial=0)) for v in read), default=0.0)


def compare_curves(have, want, terms, roundings=ORDER):
    """(worst difference in units of its limit, its step)"""
    units = [abs(a - b) / loss_limit(b, terms, step, roundings) for step, (a, b) in enumerate(zip(have, want))]
    worst = max(range(len(units)), key=lambda i: np.inf if np.isnan(units[i]) else units[i])
    return units[worst], worst


def compare_gradients(have, want, roundings=ORDER):
    """(worst difference in units of its limit, its name); all gradients of a model are there, so the largest bounds what cancels."""
    terms = max(norm(g) for g in want.values())
    worst, where = 0.0, ""
    for name, value in want.items():
        units = norm(have[name].astype(np.float64) - value) / gradient_limit(norm(value), terms, roundings)
        if not units <= worst:
            worst, where = units, name
    return worst, where


# Programs that multiply in bf16 round a row's numbers alike whatever part it is in; sums inside a tensor-parallel group and messages round once more.
NARROW = 2.0**-8
NARROW_GRADIENT = 16  # of its norm; cancelled ones: a quarter of NARROW of the largest
NARROW_LOSS = 1 / 2  # a mean over rows, whose errors are independent


def compare_narrow_gradients(have, want):
    """As compare_gradients, of two programs in bf16."""
    terms = max(norm(g) for g in want.values())
    units = {name: norm(have[name].astype(np.float64) - value) / (NARROW * (NARROW_GRADIENT * norm(value) + terms / 4)) for name, value in want.items()}
    where = max(units, key=lambda name: np.inf if np.isnan(units[name]) else units[name])
    return units[where], where


def compare_narrow_curves(have, want):
    """As compare_curves, of two programs in bf16."""
    units = [abs(a - b) / ((step + 1) * NARROW * NARROW_LOSS * abs(b)) for step, (a, b) in enumerate(zip(have, want))]
    worst = max(range(len(units)), key=lambda i: np.inf if np.isnan(units[i]) else units[i])
    return units[worst], worst
