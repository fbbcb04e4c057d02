# ===- planning.py - how large parts are, and who works on them ---------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# The two hang together: a plan has at most as many replicas as a microbatch has
# samples, and a part is smaller the more replicas there are. So a recipe is made
# for as many replicas as there may be, and made again if the plan has fewer.
# ===-----------------------------------------------------------------------===
"""settle(project, options, lengths, edited): writes the recipe and the plan; returns (flags of dt-opt, ranks)."""

import json
import math
import os
import pathlib
import re

from . import program, recipe
from .errors import Failure, say
from .steps import choose_parts, largest_part


def settle(project, options, network, lengths, edited):
    """`lengths`: {Steps: of how many steps parts must have the room}."""
    (project.out / program.LOG).write_text("")
    flags, ranks, replicas = [], 1, 1
    if not options.plan:
        edited or write_recipe(project, options, network, lengths, 1, None)
    else:
        replicas, count = expected(options)
        while True:
            edited or write_recipe(project, options, network, lengths, min(replicas, options.global_batch), count)
            made = program.plan(options, project.out)
            has = made["units"]["llm"].get("dp", 1)
            if edited or has >= min(replicas, options.global_batch):
                break
            replicas = has
        flags, ranks, replicas = [f"--plan={project.out / program.PLAN}"], made["ranks"], has
        if options.ranks and options.ranks != ranks:
            if options.plan != "auto":
                raise Failure(f"--ranks {options.ranks}: the plan has {ranks}")
            say(f"the plan uses {ranks} of {options.ranks} devices")
    if edited:
        say(f"{project.out / recipe.FILE} was edited: it is used as it is")
        check_fits(project.out / recipe.FILE, edited, lengths, replicas)
    return flags, ranks


def expected(options):
    """(replicas that the plan may have, its microbatches if it says them)."""
    if options.plan == "auto":
        return options.ranks or len(os.sched_getaffinity(0)), None
    try:
        made = json.loads(pathlib.Path(options.plan).read_text())
        return int(made["units"]["llm"].get("dp", 1)), made.get("microbatches")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # a text, or what dt-opt says more of
        found = re.search(r"\bdp=(\d+)", options.plan)
        return int(found[1]) if found else 1, None


def write_recipe(project, options, network, lengths, replicas, count):
    longest = max(steps.longest for steps in lengths)
    sums = [steps.sums(step) for steps, length in lengths.items() for step in range(length)]
    micro, tokens = choose_parts(options.global_batch, longest, sums, replicas, count)
    items = {name: largest_items(name, lengths, tokens * replicas) for name in network.family.item_measures}
    text = json.dumps(recipe.recipe(options, network, longest, micro, tokens, items), indent=2) + "\n"
    (project.out / recipe.FILE).write_text(text)
    project.note(recipe=recipe.digest(text))


def largest_items(name, lengths, tokens):
    """(most items of a sample, largest, most of a microbatch of so many tokens) of a kind's measure."""
    found = [(*steps.items(name), steps, length) for steps, length in lengths.items()]
    most, largest, density = (max(values) for values in list(zip(*found))[:3])
    step = max(int(sums[steps.samples(step)].sum()) for *_, sums, steps, length in found for step in range(length))
    return most, largest, min(step, math.floor(density * tokens * (1 + 1e-9)))


def check_fits(where, made, lengths, replicas):
    """Whether all steps fit into the parts of a recipe that was not made for them."""
    size, tokens = made["batch"]["global"], made["batch"]["tokens"]
    longest = made["items"]["sample"]["measures"]["tokens"]["max"]
    count = -(-size // made["batch"].get("micro", size))
    for steps, length in lengths.items():
        if steps.longest > longest:
            raise Failure(f"{where}: a sample has {steps.longest} tokens; items.sample.measures.tokens.max is {longest}")
        for step in range(length):
            needed = largest_part(*steps.sums(step), count, replicas)
            if needed > tokens:
                raise Failure(f"{where}: the samples of step {step} may need parts of {needed} tokens; batch.tokens is {tokens}")
