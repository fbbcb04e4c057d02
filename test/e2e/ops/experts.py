# ===- experts.py - products of rows by their experts' weights -------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Rows are sorted by expert, multiplied and brought back, with dims of 1 and of 0,
# experts without rows and with all of them.
# ===-----------------------------------------------------------------------===
"""Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception"""

import numpy as np

from shapes import trained_input

BASE = {"t": 3, "k": 2, "e": 4, "i": 3, "o": 5}
# Experts of rows, by their number and that of the experts.
CHOICES = {"mixed": lambda n, e: np.arange(n) * 3 % e, "first": lambda n, e: np.zeros(n), "last": lambda n, e: np.full(n, -1), "few": lambda n, e: np.arange(n) // 2 * 2 % e}


def products(x, w, bias, ids, in_out):
    """Each row by the weight of its expert."""
    if not in_out:
        w = w.swapaxes(1, 2)
    return np.einsum("ri,rio->ro", x, w[ids]) + (0 if bias is None else bias[ids])


def layer(case, name, choice, in_out=False, biased=False, part=None, **sizes):
    """combine(grouped_linear(dispatch(x))); `part`: the first expert of a rank, and how many it has."""
    s = BASE | sizes
    t, k, e, i, o = s.values()
    b = case(f"experts_{name}")
    ragged = t == "rows"
    rows = f"{k}*rows" if ragged else t * k
    if ragged:  # a batch's numbers are below 4
        chosen = b.input("ids", "rows", k, dtype="i64")
        ids = b.op("reshape", [chosen], (rows,), dtype="i64")
        x = trained_input(b, ("rows", i), (i,))
    else:
        numbers = CHOICES[choice](rows, e).astype(np.int64)
        ids = b.constant(numbers)
        x = b.param("x", t, i)
    first, own = part or (0, e)
    w = b.param("w", own, *((i, o) if in_out else (o, i)))
    bias = [b.param("b", own, o)] if biased else []
    begin, take, parts = ([b.constant(np.array(first))], f", take = {own} : i64", ", parts = 2 : i64") if part else ([], "", "")
    order, place, offsets = b.op("route", [ids, *begin], [(rows,), (rows,), (own + 1,)], f"count = {e} : i64{take}", dtype=("i32",) * 3)
    moved = b.op("dispatch", [x, order, place], (rows, i), f"each = {k} : i64{parts}")
    y = b.op("grouped_linear", [moved, w, offsets, *bias], (rows, o), (("in_out" if in_out else "") + parts).removeprefix(", "))
    z = b.op("combine", [y, order, place], (t, o), f"each = {k} : i64{parts}")

    def reference(tensors):
        x, at = tensors["x"] * tensors.get("s", 1), tensors["ids"].reshape(-1) if ragged else numbers
        local = np.where(at < 0, at + e, at) - first
        y = products(x.repeat(k, 0), tensors["w"], tensors.get("b"), local.clip(0, own - 1), in_out) * ((local >= 0) & (local < own))[:, None]
        return y.reshape(len(x), k, o).sum(1)

    b.result(z, reference)
    b.tolerance = 3e-5


def stays(ids, segments, each, e, capacity):
    """Which of a sample's choices [s, r] are within the capacity; a run of equal segments is a sample."""
    kept = np.zeros(ids.shape, bool)
    for s, row in enumerate(ids):
        numbers = np.zeros(len(row)) if segments is None else segments[s].repeat(each)
        cuts = [0, *(np.flatnonzero(np.diff(numbers)) + 1), len(row)]
        for begin, end in zip(cuts, cuts[1:]):
            most = np.ceil(capacity * (end - begin) / e)
            for i in range(begin, end):
                kept[s, i] = np.sum(row[begin:i] == row[i]) < most
    return kept


def limited(case, name, choice="mixed", capacity=1.0, segments=None, ragged=False, samples=2, t=3, k=2, e=4, i=3, o=5):
    """Rows of choices beyond a capacity are of no expert: number e, which has no place."""
    b = case(f"experts_limit_{name}")
    rows, tokens, samples = (f"{t * k}*rows", f"{t}*rows", "rows") if ragged else (samples * t * k, samples * t, samples)
    if ragged:
        ids = b.input("ids", samples, t * k, dtype="i64")
        x = b.op("reshape", [trained_input(b, (samples, t, i), (i,))], (tokens, i))
    else:
        numbers = CHOICES[choice](rows, e).astype(np.int64).reshape(samples, t * k) % e
        ids, x = b.constant(numbers), b.param("x", tokens, i)
    w, bias = b.param("w", e, o, i), b.param("b", e, o)
    apart = [] if segments is None else [b.constant(np.array(segments, np.int64))]
    kept = b.op("limit_choices", [ids, *apart], (samples, t * k), f"count = {e} : i64, capacity = {capacity} : f64", dtype="i1")
    chosen = b.op("where", [kept, ids, b.constant(np.array(e))], (samples, t * k), dtype="i64")
    chosen = b.op("reshape", [chosen], (rows,), dtype="i64")
    order, place, offsets = b.op("route", [chosen, b.constant(np.array(0))], [(rows,), (rows,), (e + 1,)], f"count = {e + 1} : i64, take = {e} : i64", dtype=("i32",) * 3)
    moved = b.op("dispatch", [x, order, place], (rows, i), f"each = {k} : i64, parts = 1 : i64")
    y = b.op("grouped_linear", [moved, w, offsets, bias], (rows, o), "parts = 1 : i64")
    z = b.op("combine", [y, order, place], (tokens, o), f"each = {k} : i64, parts = 1 : i64")

    def reference(tensors):
        at = tensors["ids"] if ragged else numbers
        x = (tensors["x"] * tensors.get("s", 1)).reshape(-1, i)
        kept = stays(at, None if segments is None else np.array(segments), k, e, capacity).reshape(-1, 1)
        y = products(x.repeat(k, 0), tensors["w"], tensors["b"], at.reshape(-1), False) * kept
        return y.reshape(len(x), k, o).sum(1)

    b.result(z, reference)
    b.tolerance = 3e-5


def balance(case, name, t=3, k=2, e=4):
    """Its input as it is. What it gives the bias is no derivative: test routing-bias has that."""
    b = case(f"experts_balance_{name}")
    if t == "rows":
        ids, x = b.input("ids", t, k, dtype="i64"), trained_input(b, (t, k), (k,))
    else:
        ids, x = b.constant(np.arange(t * k).reshape(t, k) % e), b.param("x", t, k)
    y = b.op("balance", [x, b.constant(np.zeros(e, np.float32)), ids], (t, k))
    b.result(y, lambda tensors: tensors["x"] * tensors.get("s", 1))


def experts(case):
    for name, sizes in {"some": {}, "t1": {"t": 1}, "k0": {"k": 0}, "t0": {"t": 0}, "rows": {"t": "rows"}}.items():
        balance(case, name, **sizes)
    for choice in CHOICES:
        limited(case, choice, choice)
        limited(case, f"{choice}_apart", choice, 1.25, [[3, 3, 3, 1, 1, 3, 3]], samples=1, t=7)
    limited(case, "t1", t=1)
    limited(case, "s0", samples=0)
    limited(case, "rows", ragged=True)
    for choice in CHOICES:
        for in_out in (False, True):
            for biased in (False, True):
                layer(case, f"{choice}{'_in_out' if in_out else ''}{'_bias' if biased else ''}", choice, in_out, biased)
    for letter in "tkeio":
        layer(case, f"{letter}1", "mixed", biased=True, **{letter: 1})
        if letter not in "ke":
            layer(case, f"{letter}0", "mixed", biased=True, **{letter: 0})
    for biased in (False, True):
        layer(case, f"rows{'_bias' if biased else ''}", "", biased=biased, t="rows")
    for choice in CHOICES:  # all rows, some and none are of the part
        for part in ((0, 2), (1, 2), (2, 2)):
            layer(case, f"{choice}_part{part[0]}", choice, biased=True, in_out=part[0] == 1, part=part)
    layer(case, "part_many_a_token", "mixed", part=(3, 3), k=20, e=7)
    layer(case, "many_a_token", "mixed", k=20, e=7)  # more than are added without a loop


FAMILIES = {"experts": experts}
