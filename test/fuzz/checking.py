# ===- checking.py - verdicts on lists of cases -----------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===
"""Checker: cases go through the compiler and a program together; each gets a verdict."""

import copy
import dataclasses
import re

import numpy as np

from builder import session
from case import IMAGES, SAMPLES, sizes
from evaluate import Impossible, Reference, compare_gradients, compare_outputs
from program import Module

ITEMS = {"image": {"max": 3}}
DIMS = {"n": "sample", "m": "image"}


@dataclasses.dataclass
class Verdict:
    kind: str  # ok, refused, failed, impossible
    text: str = ""
    compared: int = 0
    skipped: int = 0
    whole: str = ""  # why it could not be cut, where it was tried

    def signature(self):
        """What stays the same while a case gets smaller."""
        if self.text.startswith("gradient"):
            return self.kind, "gradient", "shape" in self.text
        text = re.sub(r"^with \d+ images, ", "", self.text)
        if text.startswith(("output", "loss")):
            first = text.split(";")[0]
            return self.kind, first.split()[0], "nan" in first, "shape" in first, "missing" in first
        return self.kind, " ".join(re.findall(r"[A-Za-z':.]{3,}", re.sub(r"[vxwgk]\w*\d\w*|\S*/\S*", "", text))[:8])


def as_module(case):
    reference = session(case.reference(case.outputs))
    values = reference.run(None, {k: v for k, v in case.feed(sizes(0)).items() if k in {i.name for i in reference.get_inputs()}})
    types = {name: (str(v.dtype), v.ndim) for name, v in zip(case.outputs, values)}
    return Module(case.name, case.model(types), case.loss, {d: DIMS[d] for d in sorted(case.symbols())})


def batches_for(cases):
    """Tensors of each batch: every program runs all of them."""
    batches = []
    for k, owners in enumerate(IMAGES):
        batch = {f"{c.name}.{name}": value for c in cases for name, value in c.feed(sizes(k), k).items()}
        batch["item_of.image"] = np.array(owners, np.int64)
        batches.append(batch)
    return batches


def compare(reference, runs):
    """The verdict on what a program gave for each batch."""
    case, verdict = reference.case, Verdict("ok")
    for k, (outputs, gradients, loss) in enumerate(runs):
        if k > 0 and "m" not in case.symbols():
            break
        wanted = reference.run(k)
        if wanted is None:  # of nothing the runtime makes what it likes
            continue
        precise = reference.run_double(reference.double_feed(k))
        failures, compared, skipped = compare_outputs(case, wanted, precise, {**outputs, "@loss": loss})
        if failures and has_mean_of_nothing(reference):  # of which only the mean itself is excused
            failures, skipped = [f for f in failures if "is nan" not in f], skipped + 1
        if not failures:
            more = compare_gradients(reference, k, gradients)
            failures, compared, skipped = failures + more[0], compared + more[1], skipped + more[2]
        verdict.compared += compared
        verdict.skipped += skipped
        if failures:
            where = f"with {len(IMAGES[k])} images, " if "m" in case.symbols() else ""
            return Verdict("failed", where + "; ".join(failures[:3]) if k else "; ".join(failures[:3]))
    return verdict


def has_numbers(reference):
    """Whether ONNX Runtime's loss is known to be a number for every batch."""
    wanted = [reference.run(k) for k in range(len(IMAGES))]
    return all(w is not None and np.isfinite(w["@loss"]).all() for w in wanted)


def has_only_numbers(reference):
    """Whether all that the graph makes are numbers: 0 times what is none is none, so a slope of 0 does not stop it."""
    return all(np.isfinite(v).all() for k in range(len(IMAGES)) for v in reference.values(k).values() if v.dtype.kind == "f")


def has_mean_of_nothing(reference):
    """Whether a loss ignores all of its labels in some batch: PyTorch says not a number, ONNX Runtime 0."""
    means = [n for n in reference.case.nodes if n.op in ("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss") and n.attributes.get("reduction", "mean") == "mean"]
    for k in range(len(IMAGES)) if means else ():
        known = {**reference.feed(k), **reference.case.constants, **reference.values(k)}
        if any((known[n.inputs[1]] == n.attributes.get("ignore_index")).all() for n in means):
            return True
    return False


def judge(reference, runs):
    if not isinstance(runs, str):
        return compare(reference, runs)
    if re.search(r"ends with 1: error: step 1: loss '[^']*' is -?(nan|inf)$", runs) and (not has_numbers(reference) or has_mean_of_nothing(reference)):
        return Verdict("ok", compared=1)  # both say so
    if re.search(r"ends with 1: error: step 1: the gradient norm is -?(nan|inf)$", runs) and not has_only_numbers(reference):
        return Verdict("ok", skipped=1)
    if "there are no rows of" in runs and any(reference.run(k) is None for k in range(len(IMAGES))):  # ONNX Runtime refuses that batch too
        return Verdict("ok", skipped=1)
    return Verdict("failed", runs)


class Checker:
    def __init__(self, suite):
        self.suite = suite

    def check(self, cases):
        """A verdict for each case; names must differ."""
        verdicts, ready, whole = {}, {}, {}
        for case in cases:
            try:
                ready[case.name] = (Reference(case), as_module(case))
            except Impossible as error:
                verdicts[case.name] = Verdict("impossible", str(error))
            except Exception as error:  # a case made smaller need not be a graph any more
                verdicts[case.name] = Verdict("impossible", f"{type(error).__name__}: {str(error)[:200]}")
        left = [ready[c.name][0].case for c in cases if c.name in ready]
        for micro in sorted({c.micro for c in left if c.micro != SAMPLES}):
            cut = [c for c in left if c.micro == micro]
            done = self.check_group(cut, micro, ready)
            for case in cut:
                verdict = done[case.name]
                if verdict.kind == "refused":  # whole it may still be one
                    whole[case.name] = verdict.text
                    case = copy.copy(case)
                    case.micro = SAMPLES
                    left.append(case)
                else:
                    verdicts[case.name] = verdict
        uncut = [c for c in left if c.micro == SAMPLES]
        verdicts.update(self.check_group(uncut, SAMPLES, ready))
        for name, why in whole.items():
            verdicts[name].whole = why
        return [verdicts[c.name] for c in cases]

    def check_group(self, cases, micro, ready):
        modules = [ready[c.name][1] for c in cases]
        verdicts, good = {}, []
        for case, verdict in zip(cases, self.suite.check_all(modules, micro, SAMPLES, ITEMS)):
            if verdict is None:
                good.append(case)
            else:
                verdicts[case.name] = Verdict("refused" if verdict[0] == "refused" else "failed", verdict[1])
        # A run ends with the first loss that is no number, so those where ONNX Runtime has none are programs of their own.
        together = [c for c in good if has_numbers(ready[c.name][0])]
        for group in filter(None, [together, *([c] for c in good if c not in together)]):
            results = self.suite.run([ready[c.name][1] for c in group], micro, SAMPLES, ITEMS, batches_for(group))
            for case, runs in zip(group, results):
                verdicts[case.name] = judge(ready[case.name][0], runs)
        return verdicts
