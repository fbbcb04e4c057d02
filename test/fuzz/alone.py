# ===- alone.py - a graph on one sample at a time ---------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Items of unequal size stand one behind another along an axis. Where they do not
# see one another, the rows that a graph gives for a sample alone are those that
# it gives among others: then they must be at their places however a batch is cut.
# ===-----------------------------------------------------------------------===
"""outputs(): results of a case, worked out for each sample alone and put at their places."""

import numpy as np

import steps
from builder import infer
from case import Dim


def feed_of(case, feed, sizes, sample):
    """(inputs of one sample, its sizes, the items of each symbol)."""
    alone, items = steps.of_sample(sizes, sample)
    made = dict(feed)
    for name, given in case.inputs.items():
        value = feed[name]
        for axis, dim in enumerate(given.dims):
            if dim.symbol:
                value = value.take(steps.rows_of(sizes, dim, items[dim.symbol]), axis)
        into = {"own": given.into, "places": Dim(0, "t", 1), "owner": Dim(0, "n", 1)}.get(given.kind)
        if into is not None:
            before = steps.rows_of(sizes, into, items[into.symbol])
            value = np.searchsorted(before, value)
        made[name] = value.astype(feed[name].dtype)
    return made, alone, items


def dims_of(case, session, names, parameters):
    """Of each result its dims, from sizes of which each has one symbol larger."""
    grown = steps.grown(case.sizes(0))
    runs = []
    for sizes in grown:
        feed = {**case.feed(sizes), **parameters}
        runs.append(session.run(names, {i.name: feed[i.name] for i in session.get_inputs()}))
    return {name: infer([r[k].shape for r in runs], grown) for k, name in enumerate(names)}


def outputs(case, session, feed, sizes, names, shapes):
    """Of those that have one axis of items' rows, and that can be worked out so."""
    if any(d.symbol and d.offset for i in case.inputs.values() for d in i.dims):
        return {}
    known = {i.name for i in session.get_inputs()}
    try:
        dims = dims_of(case, session, names, {k: v for k, v in feed.items() if k not in case.inputs})
        wanted = {k: d for k, d in dims.items() if sum(bool(e.symbol) for e in d) == 1 and not any(e.symbol and e.offset for e in d)}
        made = {}
        for sample in range(sizes["n"]):
            own, alone, items = feed_of(case, feed, sizes, sample)
            for name, value in zip(wanted, session.run(list(wanted), {k: v for k, v in own.items() if k in known}) if wanted else ()):
                axis = next(a for a, d in enumerate(wanted[name]) if d.symbol)
                if value.shape[axis] != wanted[name][axis].at(alone):
                    return {}
                whole = np.moveaxis(made.setdefault(name, np.zeros(shapes[name], value.dtype)), axis, 0)
                whole[steps.rows_of(sizes, wanted[name][axis], items[wanted[name][axis].symbol])] = np.moveaxis(value, axis, 0)
        return made
    except Exception:  # the runtime has no types for what it raises: one sample may be too little
        return {}
