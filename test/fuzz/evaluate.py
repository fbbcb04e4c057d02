# ===- evaluate.py - what a graph should give -------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Forward values come from ONNX Runtime. Slopes come from the same graph in double
# precision (ONNX Runtime, or ONNX's reference where the runtime has no such
# kernel), by differences on both sides of the point: where they disagree there is
# a kink, and nothing is compared. The gap between the two precisions says how well
# a graph is conditioned, and so how much rounding may show.
# ===-----------------------------------------------------------------------===
"""Reference values and directional differences of a case."""

import math
import os
import warnings
import zlib

import numpy as np
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

import alone
from builder import session
from steps import BATCHES, SAMPLES

STEP = 1e-6
DIRECTIONS = 2
FORWARD = 5e-5  # of the largest element
GRADIENT = 5e-4
NOISE = 2e-5  # of the largest gradient in the graph: what cancels
CONDITION = 30  # times what ONNX Runtime's own rounding does
DEADLY = ("Einsum",)  # ONNX Runtime divides by a size of 0
NOISY = ("Erf", "Gelu")  # ONNX Runtime and ONNX's reference work these out in single precision, whatever the type


class Erf(OpRun):
    def _run(self, x):
        return (np.vectorize(math.erf, otypes=["d"])(x).astype(x.dtype),)


class Gelu(OpRun):
    def _run(self, x, approximate="none"):
        if approximate == "tanh":
            return ((0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))).astype(x.dtype),)
        return (0.5 * x * (1 + Erf._run(self, x / math.sqrt(2))[0]),)


def exactly(model):
    return ReferenceEvaluator(model, new_ops=[Erf, Gelu])


def far_from_one(logits, axis):
    """How far from 1 the largest probability of logits is at least: what is left for the other classes."""
    if not logits.size:
        return 1.0
    p = np.exp(logits.astype(np.float64) - logits.max(axis, keepdims=True))
    left = np.sort(p, axis).take(range(p.shape[axis] - 1), axis).sum(axis) / p.sum(axis)
    return left[left > 0].min(initial=1)


class Impossible(Exception):
    """The reference cannot run the case."""


def survives(function):
    """Whether a process that calls the function ends on its own."""
    child = os.fork()
    if child == 0:
        try:
            function()
        finally:
            os._exit(0)
    return os.WIFEXITED(os.waitpid(child, 0)[1])


class Reference:
    """Runs a case with its trained constants as inputs; `batch` says which sizes and values."""

    def __init__(self, case):
        self.case = case
        self.outputs = list(dict.fromkeys(case.outputs)) + ["@loss"]
        self.parameters = {k: case.constants[k] for k in case.trained()}
        try:
            self.single = session(case.reference(self.outputs, trained_inputs=True))
        except Exception as error:  # the runtime has no types for what it raises
            raise Impossible(str(error)[:300]) from None
        self.names = {i.name for i in self.single.get_inputs()}
        self.double = None  # False: there is none
        self.alone = {}
        if any(n.op in DEADLY for n in case.nodes) and not survives(lambda: [self.run(k) for k in range(BATCHES)]):
            raise Impossible("ONNX Runtime dies")

    def feed(self, batch):
        return {**self.case.feed(self.case.sizes(batch), batch), **self.parameters}

    def run(self, batch):
        """Results in single precision; None where the runtime refuses these sizes."""
        feed = {k: v for k, v in self.feed(batch).items() if k in self.names}
        if any(n.op == "BatchNormalization" for n in self.case.nodes):  # a second run begins with the first one's statistics
            self.single = session(self.case.reference(self.outputs, trained_inputs=True))
        try:
            results = dict(zip(self.outputs, self.single.run(None, feed)))
        except Exception:
            return None
        results["@loss"] = results["@loss"].reshape(())
        return results

    def doubles(self):
        """Functions from a feed to results in double precision, the fastest first."""
        model = self.case.reference(self.outputs, double=True, trained_inputs=True)
        for make in (exactly,) if any(n.op in NOISY for n in self.case.nodes) else (session, exactly):
            try:
                evaluator = make(model)
            except Exception:  # no such kernel
                continue
            yield lambda feed, evaluator=evaluator: evaluator.run(None, {k: v for k, v in feed.items() if k in self.names})

    def choose_double(self):
        """The first that gives what single precision gives: ONNX's reference is wrong in places."""
        wanted, feed = self.run(0), self.double_feed(0)
        for function in self.doubles():
            try:
                with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
                    results = dict(zip(self.outputs, function(feed)))
            except Exception:
                continue
            if wanted is None or all(alike(np.asarray(results[k]), np.asarray(wanted[k])) for k in self.outputs):
                return function
        return None

    def run_double(self, feed):
        if self.double is None:
            self.double = self.choose_double() or False
        if not self.double:
            return None
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
                return dict(zip(self.outputs, self.double(feed)))
        except Exception:
            return None

    def apart(self, batch):
        """Outputs that are rows of items, worked out for each sample alone; None where nothing is known about rows."""
        if not self.case.unequal:
            return None
        wanted, sizes = self.run(batch), self.case.sizes(batch)
        if batch not in self.alone:
            self.alone[batch] = {} if wanted is None else alone.outputs(self.case, self.single, self.feed(batch), sizes, self.outputs[:-1], {k: v.shape for k, v in wanted.items()})
        return {k: v for k, v in self.alone[batch].items() if alike(v, np.asarray(wanted[k]))}

    def values(self, batch):
        """Every value of the graph, by name."""
        names = [o for n in self.case.nodes for o in n.outputs if o]
        run = session(self.case.reference(names))
        feed = self.case.feed(self.case.sizes(batch), batch)
        return dict(zip(names, run.run(None, {i.name: feed[i.name] for i in run.get_inputs()})))

    def saturation(self, batch):
        """The relative error of slopes that are worked out from results close to 1, as 1 - y * y is."""
        room = 1.0
        values = {**self.case.constants, **self.feed(batch), **self.values(batch)}
        for node in self.case.nodes:
            if node.op in ("Tanh", "Sigmoid", "Softmax"):
                far = 1 - np.abs(values[node.outputs[0]])
                room = min(room, far[far > 0].min(initial=1))
            elif node.op == "SoftmaxCrossEntropyLoss":
                room = min(room, far_from_one(values[node.inputs[0]], 1))
        if self.case.loss["kind"] == "cross_entropy":
            room = min(room, far_from_one(values[self.case.loss["logits"]], -1))
        return 3e-7 / room

    def double_feed(self, batch):
        return {k: v.astype(np.float64) if v.dtype == np.float32 else v for k, v in self.feed(batch).items()}

    def loss(self, feed):
        result = self.run_double(feed)
        return None if result is None else float(np.asarray(result["@loss"]).reshape(()))

    def slopes(self, feed, name, direction, at=None):
        """On both sides of the point; None where a side has no value."""
        middle = self.loss(feed) if at is None else at
        sides = []
        for sign in (1, -1):
            moved = self.loss({**feed, name: feed[name] + sign * STEP * direction})
            if moved is None or middle is None or not np.isfinite(moved) or not np.isfinite(middle):
                return None
            sides.append(sign * (moved - middle) / STEP)
        return sides


def alike(precise, single):
    """Whether two precisions tell the same."""
    if precise.shape != single.shape:
        return False
    with np.errstate(all="ignore"):
        return np.allclose(precise, single, rtol=1e-3, atol=1e-3 * max(np.abs(single[np.isfinite(single)]).max(initial=0), 1e-2), equal_nan=True)


def close(got, wanted, precise):
    """None if two results agree; "skip" where single and double precision differ too much to tell; else how they differ."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    if got.shape != wanted.shape:
        return f"shape {list(got.shape)}, expected {list(wanted.shape)}"
    if wanted.dtype.kind in "bi":
        if np.array_equal(got.astype(wanted.dtype), wanted):
            return None
        if precise is not None and not np.array_equal(precise, wanted):
            return "skip"
        return text(got, wanted)
    if got.dtype.kind != "f":
        return f"type {got.dtype}, expected {wanted.dtype}"
    want = wanted.astype(np.float64)
    finite = np.isfinite(want)
    if not np.array_equal(finite, np.isfinite(got)) or not np.array_equal(np.isnan(want), np.isnan(got)):
        return "skip" if precise is not None and not np.array_equal(finite, np.isfinite(precise)) else text(got, wanted)
    scale = max(np.abs(want[finite]).max(initial=0), 0.1)
    rounding = 0.0
    if precise is not None and precise.shape == want.shape:
        rounding = np.abs(want[finite] - precise[finite]).max(initial=0)
        rounding = 0.0 if not np.isfinite(rounding) else rounding
    if np.abs(got[finite] - want[finite]).max(initial=0) <= FORWARD * scale + CONDITION * min(rounding, 1e-3 * scale):
        return None
    return "skip" if rounding > 1e-3 * scale else text(got, wanted)


def text(got, wanted):
    difference = np.argwhere(~np.isclose(got, wanted, rtol=1e-4, atol=1e-5, equal_nan=True))
    where = tuple(int(i) for i in difference[0]) if len(difference) else ()
    return f"{got[where] if got.size else got}, expected {wanted[where] if wanted.size else wanted} at {list(where)} ({len(difference)} of {got.size} differ)"


def compare_outputs(case, wanted, precise, got, apart=None):
    """got: results of the program by name; the loss as "@loss"; apart: those of samples alone. (failures, number compared, number skipped)"""
    failures, compared, skipped = [], 0, 0
    # What combines the rows of a part is not one tensor of several parts; what a loss depends on is.
    cut = case.micro != SAMPLES or case.plan
    names = [*(apart or ()), "@loss"] if cut else dict.fromkeys(case.outputs + ["@loss"])
    wanted = {**wanted, **(apart or {})}
    for name in names:
        if name == "@loss" and not np.isfinite(wanted[name]).all():
            skipped += 1  # a mean of nothing: 0 here, not a number there
            continue
        if name not in got:
            # Of nothing, nothing is written, nor what may combine rows.
            if name != "@loss" and wanted[name].size and not cut:
                failures.append(f"output {name} is missing")
            continue
        verdict = close(got[name], wanted[name], None if precise is None else np.asarray(precise[name]).reshape(wanted[name].shape) if name == "@loss" else np.asarray(precise[name]))
        compared += 1
        if verdict == "skip":
            skipped += 1
        elif verdict:
            failures.append(f"{'loss' if name == '@loss' else 'output ' + name} is {verdict}")
    return failures, compared, skipped


def directions(case, name, shape):
    random = np.random.default_rng(zlib.crc32(f"{case.seed_name or case.name}.{name}".encode()))
    for _ in range(DIRECTIONS):
        yield random.standard_normal(shape)


def compare_gradients(reference, batch, gradients):
    """Like compare_outputs; gradients by parameter name, one that is missing is zero."""
    case, feed = reference.case, reference.double_feed(batch)
    failures, compared, skipped = [], 0, 0
    middle = reference.loss(feed)
    if middle is None or not np.isfinite(middle):
        return failures, compared, 1
    largest = max([np.linalg.norm(g) for g in gradients.values() if np.isfinite(g).all()], default=0.0)
    for name in case.trained():
        shape = case.constants[name].shape
        gradient = np.asarray(gradients.get(name, np.zeros(shape)), np.float64)
        if gradient.shape != shape:
            failures.append(f"gradient of {name} has shape {list(gradient.shape)}, expected {list(shape)}")
            continue
        for direction in directions(case, name, shape):
            sides = reference.slopes(feed, name, direction, middle)
            compared += 1
            if sides is None or abs(sides[0] - sides[1]) > 1e-3 * max(map(abs, sides)) + 1e-4:
                skipped += 1
                continue
            slope, along = sum(sides) / 2, float((gradient * direction).sum())
            size = float(np.sqrt(((gradient * direction) ** 2).sum()))
            limit = GRADIENT * max(size, abs(slope)) + NOISE * max(largest, abs(middle), 0.1)
            if abs(along - slope) <= limit:
                continue
            if not np.isfinite(along) and not all(np.isfinite(v).all() for v in reference.values(batch).values()):
                skipped += 1  # zero times infinity
                continue
            limit += reference.saturation(batch) * max(abs(slope), size)
            if np.isfinite(along) and abs(along - slope) <= limit + shaken(reference, feed, name, direction, slope):
                skipped += 1
                continue
            failures.append(f"gradient of {name} along a direction is {along:.6g}, by differences {slope:.6g}")
            break
    return failures, compared, skipped


def shaken(reference, feed, name, direction, slope):
    """How much a slope changes when all values are rounded to single precision a few times over."""
    random, most = np.random.default_rng(1), 0.0
    for _ in range(3):
        moved = {k: v * (1 + 1e-6 * random.standard_normal(v.shape)) if v.dtype == np.float64 else v for k, v in feed.items()}
        sides = reference.slopes(moved, name, direction)
        if sides is None:
            return np.inf
        most = max(most, abs(sides[0] - slope), abs(sides[1] - slope))
    return 10 * most
