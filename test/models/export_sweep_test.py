# ===- export_sweep_test.py - every argument of PyTorch's functions -----------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Every call of export_cases.py is exported with equal outputs, or refused in one
# line; no argument is dropped in silence. Calls that are exported go together, as
# many outputs of one module: most of an export's time is the exporter's own.
# Needs `tools/setup --torch`.
# ===-----------------------------------------------------------------------===
"""export_sweep_test.py: torch.nn.functional and torch.nn away from their defaults."""

import inspect
import pathlib
import unittest
import warnings

from export_fixture import FOLDER  # first: it skips without PyTorch

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils import _pytree as pytree

import export_cases as cases
from export import ExportError, export

GROUP = 24
# What has no ONNX form: the function or layer -> what the line says.
REFUSED = {
    "ctc_loss": "_ctc_loss", "CTCLoss": "_ctc_loss", "gaussian_nll_loss": "depends on the values", "pdist": "_pdist_forward", "conv_tbc": "conv_tbc",
    "rrelu": "rrelu", "RReLU": "rrelu", "gumbel_softmax": "draws random numbers", "fractional_max_pool2d": "fractional_max_pool2d", "fractional_max_pool3d": "fractional_max_pool3d",
    "native_channel_shuffle": "native_channel_shuffle", "embedding_bag": "has|Loop", "EmbeddingBag": "Loop", "AdaptiveLogSoftmaxWithLoss": "depends on the values", "CrossMapLRN2d": "autograd function",
}
# Calls of others that are refused: (function, keyword or size) -> what the line says.
REFUSED_CALLS = {
    **{(name, "training"): "draws random numbers" for name in ("dropout", "alpha_dropout", "feature_alpha_dropout", "dropout1d", "dropout2d", "dropout3d")},
    **{("embedding", key): f"has {key}" for key in ("max_norm", "scale_grad_by_freq", "sparse")},
    ("scaled_dot_product_attention", "dropout_p"): "draws random numbers",
    **{(f"adaptive_max_pool{n}d", 5): "adaptive_max_pool" for n in (1, 2, 3)},
    **{("adaptive_avg_pool3d", size): "_adaptive_avg_pool3d" for size in (2, 3, 5)},
}
# Arguments that are not tried: what PyTorch has deprecated, or only its warnings use.
UNTRIED = {"size_average", "reduce", "_stacklevel", "options", "max_val", "min_val"}


class Call(nn.Module):
    """A function with fixed arguments; its tensors are the inputs."""

    def __init__(self, function, arguments, keywords):
        super().__init__()
        leaves, self.spec = pytree.tree_flatten((arguments, keywords))
        self.function, self.leaves = function, [None if isinstance(x, torch.Tensor) else x for x in leaves]
        self.places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]
        self.example = tuple(x for x in leaves if isinstance(x, torch.Tensor))

    def forward(self, *inputs):
        leaves = list(self.leaves)
        for place, x in zip(self.places, inputs):
            leaves[place] = x
        arguments, keywords = pytree.tree_unflatten(leaves, self.spec)
        # By name, as layers call it.
        return getattr(F, self.function.__name__, self.function)(*arguments, **keywords)


class Together(nn.Module):
    """Every module on inputs of its own."""

    def __init__(self, modules, counts):
        super().__init__()
        self.parts, self.counts = nn.ModuleList(modules), counts

    def forward(self, *inputs):
        results, at = [], 0
        for module, count in zip(self.parts, self.counts):
            result = module(*(x.clone() for x in inputs[at : at + count]))
            results += [x for x in pytree.tree_leaves(result) if isinstance(x, torch.Tensor)]
            at += count
        return tuple(results)


def expected(name, keys):
    """What the line about a call says; nothing if it is exported."""
    return REFUSED.get(name) or next((line for (function, key), line in REFUSED_CALLS.items() if function == name and key in keys), None)


def everything():
    """(title, module, inputs, what the refusal says)."""
    for function, arguments, keywords in cases.CALLS:
        module = Call(function, arguments, keywords)
        title = f"{function.__name__}({', '.join(f'{k}={v if not isinstance(v, torch.Tensor) else list(v.shape)}' for k, v in keywords.items())})"
        keys = [k for k, v in keywords.items() if v is not False] + [a for a in arguments if isinstance(a, int)]
        yield title, module.eval(), module.example, expected(function.__name__, keys)
    for module, inputs in cases.LAYERS:
        title = str(module).partition("\n")[0]
        line = expected(type(module).__name__, ())
        if getattr(module, "momentum", 0) is None and module.training:
            line = "data-dependent"  # the share of a batch is one over their number, which is a buffer
        if getattr(module, "proj_size", 0):
            line = "ONNX Runtime fails on the graph on the example"  # ONNX's LSTM has no projection
        yield title, module, inputs, line


def written(module, inputs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return export(module, inputs, pathlib.Path(FOLDER.name) / "model.onnx")


class Sweep(unittest.TestCase):
    def test_what_is_exported_is_equal(self):
        taken = [case for case in everything() if case[3] is None]
        self.assertGreater(len(taken), 400)
        for first in range(0, len(taken), GROUP):
            group = taken[first : first + GROUP]
            module = Together([m for _, m, _, _ in group], [len(i) for _, _, i, _ in group])
            try:
                written(module, tuple(x.clone() for _, _, i, _ in group for x in i))
            except ExportError:
                self.one_by_one(group)

    def one_by_one(self, group):
        for title, module, inputs, _ in group:
            with self.subTest(title):
                written(Together([module], [len(inputs)]), tuple(x.clone() for x in inputs))

    def test_what_is_refused_says_so_in_one_line(self):
        seen = set()
        for title, module, inputs, line in everything():
            if line is None or (title.partition("(")[0], line) in seen:
                continue
            seen.add((title.partition("(")[0], line))
            with self.subTest(title), self.assertRaisesRegex(ExportError, line) as caught:
                written(Together([module], [len(inputs)]), tuple(x.clone() for x in inputs))
            self.assertNotIn("\n", str(caught.exception))

    def test_every_argument_is_tried(self):
        tried = {}
        for function, arguments, keywords in cases.CALLS:
            try:
                names = list(inspect.signature(function).parameters)
            except (TypeError, ValueError):
                continue
            tried.setdefault(function, set()).update(keywords, names[: len(arguments)])
        for function, names in tried.items():
            optional = {n for n, p in inspect.signature(function).parameters.items() if p.default is not p.empty and p.kind != p.VAR_KEYWORD}
            with self.subTest(function.__name__):
                self.assertEqual(optional - names - UNTRIED, set())


if __name__ == "__main__":
    unittest.main()
