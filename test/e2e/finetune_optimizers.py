# ===- finetune_optimizers.py - PyTorch's optimizers for finetune.py -----------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# What tools/finetune --optimizer says, as a plain loop has it: torch.optim's where
# PyTorch has the optimizer, else its paper's formula. A rate is as large as moves the
# losses of ten steps well above what is rounded. Muon's iterations are in bf16, so a
# loop in float64 has exact ones.
# ===-----------------------------------------------------------------------===
"""OPTIMIZERS: by name, the rate of the tests and make(parameters, decay)."""

import contextlib
from dataclasses import dataclass
from unittest import mock

import torch


class Lion(torch.optim.Optimizer):
    """Chen et al., Symbolic Discovery of Optimization Algorithms, 2023, algorithm 2."""

    def __init__(self, parameters, lr, weight_decay, betas=(0.9, 0.99)):
        super().__init__(parameters, {"lr": lr, "weight_decay": weight_decay, "betas": betas})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                mean = self.state[p].setdefault("mean", torch.zeros_like(p))
                toward = mean.lerp(p.grad, 1 - group["betas"][0]).sign()
                p.sub_(group["lr"] * (toward + group["weight_decay"] * p))
                mean.lerp_(p.grad, 1 - group["betas"][1])


def orthogonal(gradient, coefficients, steps, eps):
    """torch.optim.Muon's iterations without bf16."""
    a, b, c = coefficients
    x = gradient.T if gradient.size(0) > gradient.size(1) else gradient
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if gradient.size(0) > gradient.size(1) else x


@dataclass
class Optimizer:
    lr: float
    rule: object

    def make(self, parameters, decay):
        """`parameters` by name; what there is to step."""
        return [self.rule(parameters.values(), lr=self.lr, weight_decay=decay)]

    def exact(self, _):
        """Around a step."""
        return contextlib.nullcontext()


class Muon(Optimizer):
    """Of weights of products but the head; AdamW of all else."""

    def make(self, parameters, decay):
        is_matrix = lambda name: parameters[name].ndim == 2 and not any(part in name for part in ("embed", "lm_head"))
        matrices, others = ([p for n, p in parameters.items() if is_matrix(n) == wanted] for wanted in (True, False))
        return [torch.optim.Muon(matrices, lr=self.lr, weight_decay=decay, adjust_lr_fn="match_rms_adamw"), torch.optim.AdamW(others, lr=self.lr, weight_decay=decay)]

    def exact(self, wanted):
        return mock.patch("torch.optim._muon._zeropower_via_newtonschulz", orthogonal) if wanted else contextlib.nullcontext()


OPTIMIZERS = {
    "adamw": Optimizer(2e-3, torch.optim.AdamW),
    "lion": Optimizer(1e-3, Lion),
    "adafactor": Optimizer(2e-2, torch.optim.Adafactor),
    "muon": Muon(2e-3, None),
    "sgd": Optimizer(5e-2, lambda parameters, **settings: torch.optim.SGD(parameters, momentum=0.9, **settings)),
}
