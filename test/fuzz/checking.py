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

import alone
from builder import session
from case import can_be_edge
from evaluate import Impossible, Reference, compare_gradients, compare_outputs
from program import Module, Setting
from steps import BATCHES, DIMS, ITEMS, SAMPLES, UNEQUAL_ITEMS, begins


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
    reference = session(case.reference([*case.outputs, *([case.edge] if case.edge else [])]))
    names = [o.name for o in reference.get_outputs()]
    values = reference.run(None, {k: v for k, v in case.feed(case.sizes(0)).items() if k in {i.name for i in reference.get_inputs()}})
    types = {name: (str(v.dtype), v.ndim) for name, v in zip(names, values)}
    dims = {d: DIMS[d] for d in sorted(case.symbols())}
    if not case.edge:
        return Module(case.name, {case.name: case.model(types)}, case.loss, dims, case.entries())
    if not can_be_edge(case, case.edge):
        raise ValueError("more than one value between the modules")
    first = case.name + "a"
    models = dict(zip((first, case.name), case.models(types, alone.dims_of(case, reference, [case.edge], {})[case.edge])))
    return Module(case.name, models, case.loss, dims, case.entries(), {f"{case.name}.{case.edge}": f"{first}.{case.edge}"})


def setting_of(case):
    return Setting(case.micro, SAMPLES, UNEQUAL_ITEMS if case.unequal else ITEMS, case.plan)


def batches_for(cases):
    """Tensors of each batch: every program runs all of them."""
    batches = []
    for k in range(BATCHES):
        sizes = cases[0].sizes(k)
        batch = {f"{of}{name}": value for c in cases for name, value in c.feed(sizes, k).items() for of in (f"{c.name}.", f"{c.name}_", f"{c.name}a.")[: 2 + bool(c.edge)]}
        batch["item_of.image"] = np.array(sizes["owners"], np.int64)
        if cases[0].unequal:
            batch |= {f"offsets.{DIMS[symbol]}": begins(sizes, symbol) for symbol in "tr"}
        batches.append(batch)
    return batches


def compare(reference, case, runs):
    """The verdict on what a program gave for each batch. `case`: as it was run."""
    verdict = Verdict("ok")
    for k, (outputs, gradients, loss) in enumerate(runs):
        if k > 0 and not case.symbols() & set("mtr"):
            break
        wanted = reference.run(k)
        if wanted is None:  # of nothing the runtime makes what it likes
            continue
        precise = reference.run_double(reference.double_feed(k))
        failures, compared, skipped = compare_outputs(case, wanted, precise, {**outputs, "@loss": loss}, reference.apart(k))
        if failures and has_mean_of_nothing(reference):  # of which only the mean itself is excused
            failures, skipped = [f for f in failures if "is nan" not in f], skipped + 1
        if not failures:
            more = compare_gradients(reference, k, gradients)
            failures, compared, skipped = failures + more[0], compared + more[1], skipped + more[2]
        verdict.compared += compared
        verdict.skipped += skipped
        if failures:
            where = f"with {case.sizes(k)['m']} images, " if case.symbols() & set("mtr") else ""
            return Verdict("failed", where + "; ".join(failures[:3]) if k else "; ".join(failures[:3]))
    return verdict


def has_numbers(reference):
    """Whether ONNX Runtime's loss is known to be a number for every batch."""
    wanted = [reference.run(k) for k in range(BATCHES)]
    return all(w is not None and np.isfinite(w["@loss"]).all() for w in wanted)


def has_only_numbers(reference):
    """Whether all that the graph makes are numbers: 0 times what is none is none, so a slope of 0 does not stop it."""
    return all(np.isfinite(v).all() for k in range(BATCHES) for v in reference.values(k).values() if v.dtype.kind == "f")


def has_mean_of_nothing(reference):
    """Whether a loss ignores all of its labels in some batch: PyTorch says not a number, ONNX Runtime 0."""
    means = [n for n in reference.case.nodes if n.op in ("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss") and n.attributes.get("reduction", "mean") == "mean"]
    for k in range(BATCHES) if means else ():
        known = {**reference.feed(k), **reference.case.constants, **reference.values(k)}
        if any((known[n.inputs[1]] == n.attributes.get("ignore_index")).all() for n in means):
            return True
    return False


def judge(reference, case, runs):
    if not isinstance(runs, str):
        return compare(reference, case, runs)
    if re.search(r"ends with 1: error: step 1: loss '[^']*' is -?(nan|inf)$", runs) and (not has_numbers(reference) or has_mean_of_nothing(reference)):
        return Verdict("ok", compared=1)  # both say so
    if re.search(r"ends with 1: error: step 1: the gradient norm is -?(nan|inf)$", runs) and not has_only_numbers(reference):
        return Verdict("ok", skipped=1)
    if "there are no rows of" in runs and any(reference.run(k) is None for k in range(BATCHES)):  # ONNX Runtime refuses that batch too
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
        while left:
            groups = {}
            for case in left:
                groups.setdefault((case.unequal, case.plan, case.micro), []).append(case)
            left = []
            for group in groups.values():
                for name, verdict in self.check_group(group, ready).items():
                    case = next(c for c in group if c.name == name)
                    simpler = self.simpler(case)
                    if verdict.kind == "refused" and simpler:
                        whole.setdefault(name, verdict.text)
                        left.append(simpler)
                    else:
                        verdicts[name] = verdict
        for name, why in whole.items():
            verdicts[name].whole = why
        return [verdicts[c.name] for c in cases]

    @staticmethod
    def simpler(case):
        """What may still be possible where a case is refused: without a plan, then whole."""
        if not case.plan and case.micro == SAMPLES:
            return None
        case = copy.copy(case)
        case.micro = case.micro if case.plan else SAMPLES
        case.plan = ""
        return case

    def check_group(self, cases, ready):
        setting = setting_of(cases[0])
        modules = [ready[c.name][1] for c in cases]
        verdicts, good = {}, []
        for case, verdict in zip(cases, self.suite.check_all(modules, setting)):
            if verdict is None:
                good.append(case)
            else:
                verdicts[case.name] = Verdict("refused" if verdict[0] == "refused" else "failed", verdict[1])
        # A run ends with the first loss that is no number, so those where ONNX Runtime has none are programs of their own.
        together = [c for c in good if has_numbers(ready[c.name][0])]
        for group in filter(None, [together, *([c] for c in good if c not in together)]):
            results = self.suite.run([ready[c.name][1] for c in group], setting, batches_for(group))
            for case, runs in zip(group, results):
                verdicts[case.name] = judge(ready[case.name][0], case, runs)
        return verdicts
