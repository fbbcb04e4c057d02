# ===- finite.py - operators in forms whose gradients are finite -------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# PyTorch's exporter writes these as formulas that divide by 0 in a branch which
# is not taken: their values are right, the gradient of the formula is no number.
# While a module is traced they are the same functions in a form without that.
# ===-----------------------------------------------------------------------===
"""FINITE: what stands for which of PyTorch's functions."""

from __future__ import annotations

import math

import torch


def atan2(y, x, *, out=None):
    """The angle by the smaller quotient: no division by 0 is behind its gradient."""
    y, x = torch.broadcast_tensors(y, x)
    steep, nothing = y.abs() > x.abs(), (y == 0) & (x == 0)
    below = torch.where(steep, y, x)
    angle = torch.atan(torch.where(steep, x, y) / torch.where(nothing, torch.ones_like(below), below))
    half = torch.where(y < 0, -math.pi, math.pi)
    angle = torch.where(steep, half / 2 - angle, torch.where(x < 0, half, 0.0) + angle)
    return torch.where(nothing, torch.zeros_like(angle), angle)


def sinc(x, *, out=None):
    whole = x == 0
    angle = math.pi * torch.where(whole, torch.ones_like(x), x)
    return torch.where(whole, torch.ones_like(x), torch.sin(angle) / angle)


def xlogy(x, y, *, out=None):
    x = x if isinstance(x, torch.Tensor) else torch.full_like(y, x)
    y = y if isinstance(y, torch.Tensor) else torch.full_like(x, y)
    return x * torch.log(torch.where((x == 0) & (y <= 0), torch.ones_like(y), y))


FINITE = dict.fromkeys((torch.atan2, torch.arctan2, torch.Tensor.atan2, torch.Tensor.arctan2), atan2)
FINITE |= dict.fromkeys((torch.sinc, torch.special.sinc, torch.Tensor.sinc), sinc)
FINITE |= dict.fromkeys((torch.xlogy, torch.special.xlogy, torch.Tensor.xlogy), xlogy)
