# ===- optimizers.py - what a recipe says of the optimizer ---------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# What each optimizer has besides what all have, and what it begins with where the
# command line says nothing: values for weights that are trained already.
# ===-----------------------------------------------------------------------===
"""OPTIMIZERS; settle(options): fills in the defaults; entry(options): the recipe's `optimizer`."""

from dataclasses import dataclass, field

from .errors import Failure


@dataclass(frozen=True)
class Optimizer:
    lr: float
    flags: tuple = ()  # settings that the command line may change
    settings: dict = field(default_factory=dict)  # others than the recipe's defaults


OPTIMIZERS = {
    "adamw": Optimizer(1e-5, ("betas",)),
    "lion": Optimizer(2e-6, ("betas",)),  # each element moves by the rate, whatever its gradient
    "adafactor": Optimizer(1e-3),  # the rate is a part of a parameter's size
    "muon": Optimizer(1e-5, ("betas", "momentum"), {"adjust_lr": "match_rms_adamw"}),  # so AdamW's rates serve
    "sgd": Optimizer(1e-3, ("momentum",), {"momentum": 0.9}),
}
SETTINGS = ("betas", "momentum")
OF_ALL = ("lr", "weight_decay", "clip", "warmup", "schedule")


def settle(options):
    chosen = OPTIMIZERS[options.optimizer]
    for name in SETTINGS:
        if getattr(options, name) is not None and name not in chosen.flags:
            having = [other for other, has in OPTIMIZERS.items() if name in has.flags]
            raise Failure(f"--{name} goes with --optimizer {' or '.join(having)}; {options.optimizer} has none")
    if options.momentum is not None and options.momentum >= 1 and options.optimizer != "sgd":
        raise Failure(f"--momentum {options.momentum:g}: that of {options.optimizer} is below 1")
    if options.lr is None:
        options.lr = chosen.lr


def entry(options):
    given = {name: getattr(options, name) for name in SETTINGS if getattr(options, name) is not None}
    return {"kind": options.optimizer} | {key: getattr(options, key) for key in OF_ALL} | OPTIMIZERS[options.optimizer].settings | given


def kind(recipe):
    """Of a recipe that a user may have edited; of what is none the compiler says so."""
    found = recipe.get("optimizer", {})
    return found.get("kind", "adamw") if isinstance(found, dict) else "adamw"
