# ===- tolerance.py - how far float32 programs may be apart -----------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Limits follow from the type, and from what roundings do to the model on the machine that runs the test,
# not from what another machine gave. A float32 operation
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
"""loss_limit, gradient_limit, output_limit, compare_curves, CurveDraws, Draws: shared by all tests that compare programs."""

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


def compare_curves(have, want, terms, draws=None):
    """(worst difference in units of its limit, its step); `draws`: CurveDraws of what is wanted."""
    drawn = lambda step: draws.loss_limit(step) if draws else 0.0
    units = [abs(a - b) / max(loss_limit(b, terms, step), drawn(step)) for step, (a, b) in enumerate(zip(have, want))]
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


# ===-----------------------------------------------------------------------===
# How far apart two programs may be that differ by roundings is a property of the model, of the point that it is at, and in bf16 of the processor (AMX rounds otherwise than
# AVX512-BF16). So it is measured where the test runs: a program is run again from weights and inputs that are off by one rounding each, several times.
# ===-----------------------------------------------------------------------===

HALF = {"f32": 2.0**-24, "bf16": 2.0**-9}  # of an element's last place
DRAWS = 4
FACTOR = 4  # of the largest draw: the other program's roundings are a draw of their own, and those of a group's sums and of messages come on top
NO_DIGITS = 0.5  # of a gradient: a draw that is further off has nothing in common with it
TOGETHER = 0.05  # of a loss: where draws are further apart, a curve says nothing any more


def perturbed(tensors, precision, seed):
    """Float tensors whose elements are off by up to half a last place, which float32 itself rounds to one or to none."""
    random = np.random.default_rng(seed)
    change = lambda v: np.asarray(v.astype(np.float64) * (1 + HALF[precision] * random.uniform(-1, 1, v.shape)), v.dtype) if v.dtype.kind == "f" else v
    return {name: change(value) for name, value in sorted(tensors.items())}


class CurveDraws:
    """What roundings do to a program's losses: those of draws, [losses]."""

    def __init__(self, losses, draws):
        apart = np.max([np.abs(np.array(d) - losses) for d in draws], axis=0)
        self.apart = np.maximum.accumulate(apart)  # curves cross
        together = self.apart <= TOGETHER * np.abs(losses)
        self.steps = len(losses) if together.all() else int(np.argmin(together))

    def loss_limit(self, step):
        return FACTOR * self.apart[step] if step < self.steps else np.inf


class Draws(CurveDraws):
    """What roundings do to a program: its gradients and losses, and those of draws, [(gradients, losses)]."""

    def __init__(self, gradients, losses, draws):
        super().__init__(losses, [l for _, l in draws])
        self.off = {name: max(norm(g[name].astype(np.float64) - value) for g, _ in draws) for name, value in gradients.items()}
        relative = [norm(g[name].astype(np.float64) - value) / norm(value) for name, value in gradients.items() if np.any(value) for g, _ in draws]
        # A tensor of one element may be hit by luck; all tensors together are not. What is zero in exact arithmetic (an attention's key bias) is all rounding, and says nothing of others.
        relative = [r for r in relative if r < NO_DIGITS]
        self.typical = float(np.sqrt(np.mean(np.square(relative)))) if relative else 0.0

    def gradient_limit(self, name, value):
        return FACTOR * max(self.off[name], self.typical * norm(value))


def compare_drawn(gradients, losses, want_gradients, want_losses, terms, draws):
    """(worst gradient in units of its limit, its name, worst loss in units of its limit, its step) of two programs; what float32 rounds is allowed in any case."""
    largest = max(norm(g) for g in want_gradients.values())
    units = {}
    for name, want in want_gradients.items():
        limit = max(gradient_limit(norm(want), largest), draws.gradient_limit(name, want))
        units[name] = norm(gradients[name].astype(np.float64) - want) / limit
    name = max(units, key=lambda n: np.inf if np.isnan(units[n]) else units[n])
    return units[name], name, *compare_curves(losses, want_losses, terms, draws)
