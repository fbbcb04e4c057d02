# ===- export_checking_test.py - what models/export compares and says -------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Where gradients stop, and what check() and explain() name where numbers differ.
# ===-----------------------------------------------------------------------===
"""export_checking_test.py: tests of models/export."""

import pathlib
import unittest

from export_fixture import FOLDER, Small, exported, marked, written  # first: it skips without PyTorch

import onnx
import torch
from torch import nn

from export import CheckError, ExportError, check, export
from export import architectures, golden, training


class Parts(nn.Module):
    """Two layers, an embedding and a buffer, put together by `compute(self, x)`."""

    def __init__(self, compute):
        super().__init__()
        self.first, self.second, self.table = nn.Linear(4, 4), nn.Linear(4, 4), nn.Embedding(6, 4, padding_idx=1)
        self.register_buffer("mean", torch.ones(4))
        self.compute = compute

    def forward(self, x):
        return self.compute(self, x)


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.view_as(x)

    @staticmethod
    def backward(context, gradient):
        return -gradient


def fixed(proto):
    """Parameters that the file says do not train."""
    return {v.name for v in proto.graph.value_info for p in v.metadata_props if p.key == "requires_grad" and p.value == "False"}


def detached_in_place(m, x):
    y = torch.relu(m.first(x))
    y.detach_()
    return y * m.second(x)


def without_gradient(m, x):
    with torch.no_grad():
        y = torch.relu(m.first(x))
        left, right = y.view(-1, 2, 2)[:, 0], m.first(y).chunk(2, -1)[1]
    return m.second(y) + torch.cat([left, right], -1)


def switched(m, x):
    torch.set_grad_enabled(False)
    y = m.first(x)
    torch.set_grad_enabled(True)
    with torch.no_grad(), torch.enable_grad():
        return m.second(y) + m.first(x)


@torch.no_grad()
def teacher(m, x):
    return nn.functional.layer_norm(m.first(x), (4,))


def inferred(m, x):
    with torch.inference_mode():
        y = m.first(x)
    return m.second(y)


def constants(m, x):
    with torch.no_grad():
        turns = torch.arange(4).float().cos() * m.mean
        turns *= 2
    mask = (x.detach() > 0).float()
    return m.first(x) * mask * turns * m.mean.data * torch.ones(4).detach()


def overwritten(m, x):
    y = m.first(x)
    with torch.no_grad():
        y[:, 0] = 0
    return y


def moving_average(m, x):
    y = m.first(x)
    with torch.no_grad():
        m.mean.mul_(0.9).add_(0.1 * y.mean(0))
    return y + m.mean


def hooked(m, x):
    y = m.first(x)
    y.register_hook(lambda gradient: 2 * gradient)
    return y


class Gradients(unittest.TestCase):
    """What autograd does beside the forward pass."""

    def stops(self, compute, count, without=()):
        module, inputs = Parts(compute).eval(), (torch.randn(3, 4),)
        proto = exported(module, inputs)
        self.assertEqual(len(marked(proto)), count)
        self.assertEqual(fixed(proto), set(without))
        check(module, proto, (torch.randn(5, 4),))
        return proto

    def refused(self, compute, pattern, change=None, inputs=None):
        module = Parts(compute).eval()
        if change:
            change(module)
        with self.assertRaisesRegex(ExportError, pattern) as caught:
            exported(module, inputs or (torch.randn(3, 4),))
        self.assertNotIn("\n", str(caught.exception))

    def test_detach(self):
        first, second = {"first.weight", "first.bias"}, {"second.weight"}
        self.assertEqual(marked(self.stops(lambda m, x: m.first(x).detach() * m.second(x), 1, first)), ["linear"])
        self.stops(lambda m, x: torch.detach(m.first(x)) + m.first(x), 1)
        self.stops(detached_in_place, 1, first)
        self.stops(lambda m, x: m.first(x) * m.second.weight.data.sum(), 1, second)
        self.assertEqual(self.stops(lambda m, x: m.first(x).detach(), 1, first).graph.node[-1].output[0], "y")

    def test_regions_without_gradient(self):
        first = {"first.weight", "first.bias"}
        self.stops(without_gradient, 3, first)
        self.stops(switched, 1)
        self.stops(lambda m, x: m.second(teacher(m, x)), 1, first)
        self.stops(inferred, 1, first)

    def test_constants_and_masks_have_no_marks(self):
        self.stops(constants, 0)

    def test_what_is_frozen_has_no_marks(self):
        module = Parts(lambda m, ids: m.second(m.table(ids)) + m.first.weight.detach().sum()).eval()
        module.table.weight.requires_grad = module.first.weight.requires_grad = False
        self.assertEqual(marked(exported(module, (torch.tensor([1, 2, 3]),))), [])

    def test_padding_rows(self):
        module, inputs = Parts(lambda m, ids: m.second(m.table(ids))).eval(), (torch.tensor([[1, 2], [3, 1]]),)
        proto = exported(module, inputs)
        where = next(n for n in proto.graph.node if n.op_type == "Where")
        (rows,) = marked(proto)
        self.assertEqual(where.input[2], rows)
        self.assertEqual(next(n.op_type for n in proto.graph.node if n.output[0] == rows), "Gather")
        check(module, proto, inputs)

    def test_models(self):
        for name, count in (("Llama 3", 0), ("BERT", 1), ("RoBERTa", 2)):
            with self.subTest(name):
                model = architectures.make(name)
                inputs = tuple(model.inputs.values())
                proto = export(model.module.eval(), inputs, pathlib.Path(FOLDER.name) / "model.onnx", dynamic_shapes=model.dims, input_names=list(model.inputs), output_names=model.outputs)
                self.assertEqual(len(marked(proto)), count)
                self.assertEqual(fixed(proto), set())
                check(model.module, proto, inputs)

    def test_gradients_that_code_defines_are_refused(self):
        plain, end = (lambda m, x: m.first(x)), "the gradient that it defines has no ONNX form$"
        self.refused(lambda m, x: Reversed.apply(m.first(x)), rf"^forward calls the autograd function 'Reversed' \(export_checking_test.py:\d+\): {end}")
        self.refused(hooked, rf"^forward registers a backward hook \(export_checking_test.py:\d+\): {end}")
        self.refused(plain, f"^parameter 'first.weight' has a backward hook: {end}", lambda m: m.first.weight.register_hook(lambda g: 2 * g))
        self.refused(plain, f"^module 'second' has a backward hook: {end}", lambda m: m.second.register_full_backward_hook(lambda *_: None))

    def test_embeddings_with_gradients_of_their_own_are_refused(self):
        for setting in ({"sparse": True}, {"scale_grad_by_freq": True}, {"max_norm": 1.0}):
            with self.subTest(setting):
                change = lambda m: setattr(m, "table", nn.Embedding(6, 4, **setting))  # noqa: B023, E731
                self.refused(lambda m, ids: m.table(ids), f"^the embedding 'table.weight' has {next(iter(setting))} ", change, (torch.tensor([1, 2, 3]),))

    def test_changes_in_place_are_refused(self):
        self.refused(overwritten, r"^forward changes a value in place without gradients.*\(export_checking_test.py:\d+\)")
        self.refused(lambda m, x: (m.first.weight.data.clamp_(0), m.first(x))[1], r"^forward changes '\.data' of a tensor \(export_checking_test.py:\d+\)")

    def test_checkpointing(self):
        for reentrant in (True, False):
            self.stops(lambda m, x: torch.utils.checkpoint.checkpoint(m.first, x, use_reentrant=reentrant), 0)  # noqa: B023

    def test_buffers_that_change(self):
        class Normalized(Small):
            def __init__(self):
                super().__init__()
                self.norm = nn.BatchNorm1d(8)

        for module, names in ((Parts(moving_average).eval(), "1 buffers \\('mean'\\)"), (Normalized().train(), "3 buffers \\('norm.running_mean', .*\\)")):
            with self.assertWarnsRegex(UserWarning, f"^forward changes {names}: training leaves them as they are in the file$"):
                proto = exported(module, (torch.randn(3, 4),))
            check(module, proto, (torch.randn(5, 4),))


class Checking(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.module, self.inputs = Small().eval(), (torch.randn(3, 4),)
        self.proto = exported(self.module, self.inputs)

    def replace(self, name, change):
        for t in self.proto.graph.initializer:
            if t.name == name:
                t.CopyFrom(onnx.numpy_helper.from_array(change(onnx.numpy_helper.to_array(t)), name))

    def test_equal(self):
        self.assertLess(max(check(self.module, self.proto, self.inputs).values()), 1e-4)

    def test_sizes_that_vary(self):
        check(self.module, self.proto, (torch.randn(5, 4),))

    def test_a_size_that_the_graph_has_fixed_is_named(self):
        fixed = written(self.module, self.inputs, input_names=["x"])
        self.refused(fixed, (torch.randn(5, 4),), "^input 'x' has size 5 on axis 0, which the graph has fixed at 3: dynamic_shapes of export names the dims that may change$")
        self.refused(self.proto, (torch.randn(3, 6),), "^input 'x0' has size 6 on axis 1, which the graph has fixed at 4: dynamic_shapes")
        self.refused(self.proto, (torch.randn(2, 3, 4),), "^input 'x0' has 3 axes, in the graph 2$")

    def refused(self, proto, inputs, pattern):
        with self.assertRaisesRegex(CheckError, pattern) as caught:
            check(self.module, proto, inputs)
        self.assertNotIn("\n", str(caught.exception))

    def test_the_first_module_that_differs_is_named(self):
        next(n for n in self.proto.graph.node if n.op_type == "LayerNormalization").attribute.append(onnx.helper.make_attribute("epsilon", 0.5))
        for n in self.proto.graph.node:
            if n.op_type == "LayerNormalization":
                kept = [a for a in n.attribute if a.name != "epsilon"] + [onnx.helper.make_attribute("epsilon", 0.5)]
                del n.attribute[:]
                n.attribute.extend(kept)
        with self.assertRaisesRegex(CheckError, r"output 'y' differs from PyTorch: at \[\d, \d\] it is .*first module whose result differs is 'norm' \(LayerNorm\)"):
            check(self.module, self.proto, self.inputs)

    def test_a_folded_weight_is_found(self):
        for t in self.proto.graph.initializer:
            if t.name == "first.bias":
                t.name = "folded"
        for n in self.proto.graph.node:
            for i, name in enumerate(n.input):
                if name == "first.bias":
                    n.input[i] = "folded"
        with self.assertRaisesRegex(CheckError, "after moving the parameters they are not: a use of a weight became a constant.*'first'"):
            check(self.module, self.proto, self.inputs)

    def test_nan(self):
        self.replace("second.bias", lambda v: v * float("nan"))
        with self.assertRaisesRegex(CheckError, "Only one of them has NaN"):
            check(self.module, self.proto, self.inputs)


class Explaining(unittest.TestCase):
    """What training.explain says of figures that are PyTorch's own, changed."""

    @classmethod
    def setUpClass(cls):
        model = architectures.make("ALBERT")
        cls.folder = pathlib.Path(FOLDER.name) / model.name
        golden.write(model, FOLDER.name)
        cls.expected = training.figures.Golden(cls.folder, frozen=False)

    def explained(self, outputs=None, gradients=None, losses=None):
        expected = self.expected
        return training.explain(self.folder, expected, expected.outputs | (outputs or {}), expected.gradients | (gradients or {}), expected.curve if losses is None else losses)

    def test_equal(self):
        self.assertEqual(self.explained(), "")

    def test_output(self):
        self.assertRegex(self.explained({"model.logits": self.expected.outputs["model.logits"] + 0.01}), r"output 'model\.logits' differs by 1\.00e-02")

    def test_the_gradient_nearest_to_the_loss(self):
        early = "model.net.albert.encoder.embedding_hidden_mapping_in.weight"
        late = "model.net.predictions.dense.weight"
        noise = {n: self.expected.gradients[n] + 0.01 for n in (early, late)}
        self.assertRegex(self.explained(gradients=noise), r"the gradient of 'model\.net\.predictions\.dense\.weight' differs by .*; 2 of \d+ gradients differ, none of the \d+ nearer")

    def test_a_factor(self):
        name = "model.net.predictions.dense.weight"
        self.assertRegex(self.explained(gradients={name: 2 * self.expected.gradients[name]}), "it is 2 times PyTorch's")

    def test_some_rows(self):
        name = "model.net.albert.embeddings.word_embeddings.weight"
        wrong = self.expected.gradients[name].copy()
        wrong[7] += 0.01
        self.assertRegex(self.explained(gradients={name: wrong}), r"only in 1 of 96 rows \(row 7 first\)")

    def test_the_curve(self):
        losses = self.expected.curve.copy()
        losses[3:] += 0.1
        self.assertRegex(self.explained(losses=losses), "the loss before step 3 differs by 1.00e-01, though the first step's gradients are equal")


if __name__ == "__main__":
    unittest.main()
