# ===- export_test.py - models/export against the libraries ------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# What is put in place of a library's code while a module is traced, and the
# wrappers around its models, give what the library gives; what cannot be exported
# says so in one line; check() names what differs. Needs `tools/setup --torch`.
# ===-----------------------------------------------------------------------===
"""export_test.py: tests of models/export."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import warnings

try:
    import torch
    import transformers as hf
except ImportError:
    print("skipped: tools/setup --torch installs what this needs")
    sys.exit(77)

import numpy as np
import onnx
import torch.nn.functional as F
from onnx import TensorProto
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "models"))
from export import CheckError, ExportError, FixedGrid, FixedShapes, check, export  # noqa: E402
from export import adapting, architectures, exporting, golden, training, writing  # noqa: E402

FOLDER = tempfile.TemporaryDirectory()


def exported(module, inputs, **settings):
    names = [f"x{i}" for i in range(len(inputs))]
    dims = {name: {0: "batch"} for name in names}
    return export(module, inputs, pathlib.Path(FOLDER.name) / "model.onnx", dynamic_shapes=dims, input_names=names, output_names=["y"], **settings)


class Small(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.first, self.drop, self.norm, self.second = nn.Linear(4, 8), nn.Dropout(dropout), nn.LayerNorm(8), nn.Linear(8, 3)

    def forward(self, x):
        return self.second(self.norm(self.drop(torch.relu(self.first(x)))))


def written(module, inputs, **settings):
    return export(module, inputs, pathlib.Path(FOLDER.name) / "model.onnx", **settings)


class Sum(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, a, b):
        return self.linear(a + b)


class Sums(Sum):
    def forward(self, *inputs):
        return super().forward(*inputs)


class Exporting(unittest.TestCase):
    def test_dropout_is_left_out_with_a_warning(self):
        module = Small(dropout=0.5).train()
        with self.assertWarnsRegex(UserWarning, "dropout is left out of the graph: 1 .*'drop'"):
            proto = exported(module, (torch.randn(3, 4),))
        self.assertTrue(module.drop.training)
        self.assertNotIn("Dropout", {n.op_type for n in proto.graph.node})
        check(module, proto, (torch.randn(5, 4),))

    def test_a_module_without_dropout_warns_of_nothing(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            exported(Small().train(), (torch.randn(3, 4),))

    def test_weights_that_are_left_out_are_said_to_be(self):
        said = lambda proto: {p.key: p.value for p in proto.metadata_props}.get("distrain.left_out")
        proto = exported(Small(), (torch.randn(3, 4),), weights=False)
        locations = {e.value for t in proto.graph.initializer for e in t.external_data if e.key == "location"}
        self.assertEqual(locations, {said(proto)})
        self.assertIsNone(said(exported(Small(), (torch.randn(3, 4),))))

    def test_weights_that_no_file_of_one_message_holds_lie_beside_it(self):
        module = Small()
        with unittest.mock.patch.object(writing, "MOST_IN_FILE", 64):
            exported(module, (torch.randn(3, 4),))
        path = pathlib.Path(FOLDER.name) / "model.onnx"
        self.assertEqual({e.value for t in onnx.load(path, load_external_data=False).graph.initializer for e in t.external_data if e.key == "location"}, {"model.onnx.data"})
        onnx.checker.check_model(path)
        check(module, onnx.load(path), (torch.randn(5, 4),))

    def test_a_parameter_may_be_one_number_or_lie_in_any_order(self):
        class Scaled(Small):
            def __init__(self):
                super().__init__()
                self.scale = nn.Parameter(torch.tensor(2.0))
                self.turned = nn.Parameter(torch.randn(3, 5).T)

            def forward(self, x):
                return F.linear(super().forward(x) * self.scale, self.turned)

        module = Scaled()
        check(module, exported(module, (torch.randn(3, 4),)), (torch.randn(5, 4),))

    def test_the_file_is_the_graph_that_is_returned(self):
        proto = exported(Small(), (torch.randn(3, 4),))
        self.assertEqual(onnx.load(pathlib.Path(FOLDER.name) / "model.onnx"), proto)

    def test_exporting_copies_weights_once(self):
        code = """
import sys
import torch
from export import export

def status(key):
    return int(next(line for line in open("/proc/self/status") if line.startswith(key)).split()[1])

def exported(size):
    module = torch.nn.Sequential(*(torch.nn.Linear(size, size) for _ in range(24)))
    open("/proc/self/clear_refs", "w").write("5")  # the peak is now's
    before = status("VmRSS")
    export(module, (torch.randn(2, size),), sys.argv[1])
    return sum(p.nbytes for p in module.parameters()) / 1024, status("VmHWM") - before

exported(8)  # what the exporter itself needs
weights, taken = exported(1024)
print(f"{taken / weights:.2f} times the weights")
sys.exit(taken > 1.75 * weights)
"""
        path = pathlib.Path(FOLDER.name) / "large.onnx"
        subprocess.run([sys.executable, "-c", code, path], env={**os.environ, "PYTHONPATH": str(pathlib.Path(exporting.__file__).parents[1])}, check=True)

    def test_what_draws_random_numbers_is_refused(self):
        class Functional(Small):
            def forward(self, x):
                return nn.functional.dropout(super().forward(x), 0.3, self.training)

        class Noise(Small):
            def forward(self, x):
                return super().forward(x) + torch.randn_like(x[:, :3])

        self.refused(Functional().train(), (torch.randn(3, 4),), r"node '.*' \(Dropout\) draws random numbers: call module.eval\(\)")
        self.refused(Noise().eval(), (torch.randn(3, 4),), r"\(RandomNormalLike\) draws random numbers")

    def test_squeeze_of_an_axis_that_is_not_one(self):
        class Idle(Small):
            def forward(self, x):
                return super().forward(x).squeeze(1)

        module, inputs = Idle().eval(), (torch.randn(3, 4),)
        check(module, exported(module, inputs), inputs)

    def refused(self, module, inputs, pattern):
        with self.assertRaisesRegex(ExportError, pattern) as caught:
            exported(module, inputs)
        self.assertNotIn("\n", str(caught.exception))

    def refused_request(self, pattern, module=None, **settings):
        module, x = module or Sum().eval(), torch.randn(3, 4)
        with self.assertRaisesRegex(ExportError, pattern) as caught:
            written(module, (x, x), **settings)
        self.assertNotIn("\n", str(caught.exception))

    def test_keys_of_dynamic_shapes(self):
        def shapes(module, **settings):
            proto = written(module, (torch.randn(3, 4), torch.randn(3, 4)), **settings)
            return [[d.dim_param or d.dim_value for d in i.type.tensor_type.shape.dim] for i in proto.graph.input]

        dims, varying = {0: "batch"}, [["batch", 4], ["batch", 4]]
        self.assertEqual(shapes(Sum(), dynamic_shapes={"p": dims, "q": dims}, input_names=["p", "q"]), varying)
        self.assertEqual(shapes(Sums(), dynamic_shapes={"p": dims, "q": dims}, input_names=["p", "q"]), varying)
        self.assertEqual(shapes(Sum(), dynamic_shapes={"a": dims, "b": dims}), varying)
        self.assertEqual(shapes(Sums(), dynamic_shapes={"inputs": (dims, dims)}), varying)
        self.assertEqual(shapes(Sum(), dynamic_shapes={}, input_names=["p", "q"]), [[3, 4], [3, 4]])

    def test_a_key_of_dynamic_shapes_that_names_no_input_is_refused(self):
        dims, names = {0: "batch"}, ["p", "q"]
        known = r"^dynamic_shapes has the key '{}', which names no input: keys are the names in input_names \('p', 'q'\){}$"
        self.refused_request(known.format("b", "; forward's 'b' is 'q' there"), dynamic_shapes={"p": dims, "b": dims}, input_names=names)
        self.refused_request(known.format("z", ""), dynamic_shapes={"p": dims, "q": dims, "z": dims}, input_names=names)
        self.refused_request(known.format("inputs", "; forward's 'inputs' is 'p', 'q' there"), Sums().eval(), dynamic_shapes={"inputs": dims}, input_names=names)
        self.refused_request(r"the key 'p', which is no parameter of forward: .* forward's parameters \('a', 'b'\)$", dynamic_shapes={"a": dims, "p": dims})

    def test_names_of_inputs_and_outputs(self):
        proto = written(Sum(), (torch.randn(3, 4), torch.randn(3, 4)), input_names=["p", "q"], output_names=["y"])
        self.assertEqual(([i.name for i in proto.graph.input], [o.name for o in proto.graph.output]), (["p", "q"], ["y"]))
        self.refused_request("^input_names has 'p' twice", input_names=["p", "p"])
        self.refused_request("^output_names has 'y' twice", output_names=["y", "y"])
        self.refused_request(r"^input_names has more names \(3\) than there are example inputs \(2\)$", input_names=["p", "q", "r"])
        self.refused_request(r"^output_names has more names \(2\) than the module has outputs \(1\)$", output_names=["y", "z"])
        self.refused_request("^'q' is in input_names and in output_names", input_names=["p", "q"], output_names=["q"])

    def test_an_axis_that_an_input_does_not_have_is_refused(self):
        wrong = r"^dynamic_shapes has the axis {} for input '{}', whose example has 2 axes, counted from 0$"
        self.refused_request(wrong.format(2, "q"), dynamic_shapes={"q": {0: "batch", 2: "seq"}}, input_names=["p", "q"])
        self.refused_request(wrong.format(-1, "a"), dynamic_shapes={"a": {-1: "batch"}})
        self.refused_request(wrong.format(5, "b"), dynamic_shapes=({0: "batch"}, {5: "batch"}))
        self.refused_request(wrong.format("'0'", "p"), dynamic_shapes={"p": {"0": "batch"}}, input_names=["p", "q"])

    def test_an_expression_as_a_dim(self):
        module, dims = Small().eval(), {"x": {0: 3 * torch.export.Dim("n")}}
        proto = written(module, (torch.randn(6, 4),), input_names=["x"], dynamic_shapes=dims)
        self.assertEqual(proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param, "3*n")
        check(module, proto, (torch.randn(9, 4),))

    def test_a_name_that_a_weight_has_is_refused(self):
        class Bias(nn.Module):
            def __init__(self):
                super().__init__()
                self.b, self.unused = nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(4))

            def forward(self, a, b):
                return a * b + self.b

        taken = "^{} 'b' is named like the module's parameter or buffer 'b', which keeps its name: give another in {}_names$"
        self.refused_request(taken.format("input", "input"), Bias())
        self.refused_request(taken.format("input", "input"), Bias(), input_names=["a", "b"])
        self.refused_request(taken.format("output", "output"), Bias(), input_names=["p", "q"], output_names=["b"])
        proto = written(Bias(), (torch.randn(3, 4), torch.randn(3, 4)), input_names=["unused", "q"])
        self.assertEqual([t.name for t in proto.graph.initializer], ["b"])

    def test_weights_have_names_that_pytorch_gives_to_values(self):
        class Product(nn.Module):
            def __init__(self):
                super().__init__()
                self.matmul, self.exp = nn.Parameter(torch.ones(4, 3)), nn.Parameter(torch.ones(4))

            def forward(self, x):
                return (x.exp() * self.exp) @ self.matmul

        module, inputs = Product(), (torch.randn(3, 4),)
        for settings in ({}, {"output_names": ["exp_1"]}):
            proto = written(module, inputs, **settings)
            self.assertEqual({t.name for t in proto.graph.initializer}, {"matmul", "exp"})
            check(module, proto, inputs)

    def test_outputs_that_are_other_values(self):
        class Several(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = nn.Embedding(6, 4)

            def forward(self, ids):
                rows = self.table(ids)
                return rows, rows, rows.detach(), self.table.weight, ids

        module, inputs, names = Several(), (torch.tensor([1, 2, 3]),), ["first", "second", "stopped", "whole", "same"]
        proto = written(module, inputs, input_names=["ids"], output_names=names, dynamic_shapes={"ids": {0: "batch"}})
        self.assertEqual([o.name for o in proto.graph.output], names)
        self.assertEqual(([i.name for i in proto.graph.input], [t.name for t in proto.graph.initializer]), (["ids"], ["table.weight"]))
        self.assertEqual(len(marked(proto)), 1)
        check(module, proto, (torch.tensor([4, 0, 1, 5]),))

    def test_outputs_that_are_no_list_of_tensors_are_refused(self):
        class Returns(Small):
            def __init__(self, pack):
                super().__init__()
                self.pack = pack

            def forward(self, x):
                return self.pack(super().forward(x))

        end = r": an output is a tensor or a tuple of tensors \(Pick takes fields of a result\)$"
        for pack, kind in ((lambda y: {"y": y}, "dict"), (lambda y: (y, (y, y)), "tuple in a tuple"), (lambda y: (y, 3), "int in a tuple"), (lambda y: [y, None], "NoneType in a list")):
            with self.subTest(kind):
                self.refused(Returns(pack).eval(), (torch.randn(3, 4),), f"^forward returns a value of type {kind}{end}")

    def test_recurrent_layers(self):
        class Last(nn.Module):
            def __init__(self, layer):
                super().__init__()
                self.layer = layer(4, 3, batch_first=True)

            def forward(self, x):
                return self.layer(x)[0]

        for layer in (nn.LSTM, nn.GRU, nn.RNN):
            with self.subTest(layer):
                module = Last(layer)
                check(module, exported(module, (torch.randn(2, 5, 4),)), (torch.randn(3, 5, 4),))

    def test_a_name_that_the_exporter_needs_is_refused(self):
        class Code(nn.Module):
            def __init__(self):
                super().__init__()
                self.code = nn.Parameter(torch.ones(4, 3))

            def forward(self, x):
                return x @ self.code

        self.refused(Code(), (torch.randn(3, 4),), "Code cannot be exported: .*'code' already exists.* give the parameter or module another")

    def test_float64_is_refused(self):
        module = Small().eval().double()
        self.refused(module, (torch.randn(3, 4, dtype=torch.float64),), r"^parameter 'first.weight' is float64, .*: call module.float\(\)$")
        inputs = (torch.randn(3, 4),)
        check(module.float(), exported(module.float(), inputs), inputs)

    def test_16_bits(self):
        for kind, element in ((torch.float16, TensorProto.FLOAT16), (torch.bfloat16, TensorProto.BFLOAT16)):
            with self.subTest(kind):
                module, inputs = Small().eval().to(kind), (torch.randn(3, 4).to(kind),)
                proto = exported(module, inputs)
                self.assertEqual({t.data_type for t in proto.graph.initializer} | {proto.graph.input[0].type.tensor_type.elem_type}, {element})
                self.assertLess(check(module, proto, inputs)["perturbed"], 1e-6)
                proto.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.zeros(proto.graph.initializer[0].dims, np.float32), proto.graph.initializer[0].name))
                with self.assertRaises(CheckError):
                    check(module, proto, inputs)

    def test_operators_without_a_16_bit_form(self):
        class Softplus(Small):
            def forward(self, x):
                return F.softplus(F.hardswish(super().forward(x)))

        module, inputs = Softplus().eval().bfloat16(), (torch.randn(3, 4).bfloat16(),)
        check(module, exported(module, inputs), inputs)

    def test_small_numbers_are_kept(self):
        class Small(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(4, 4)

            def forward(self, x):
                x = torch.relu(self.linear(x)) * 0.0
                return (x + 0.0) / (x.sum(-1, keepdim=True) + 1e-9) + 1.000001 * (x - 1e-10)

        module = Small().eval()
        proto = exported(module, (torch.randn(3, 4),))
        check(module, proto, (torch.randn(5, 4),))
        kinds = [n.op_type for n in proto.graph.node]
        # 1e-9 and the sum; 0.0 and 1.000001; 1e-10.
        self.assertEqual({"Add": 2, "Mul": 2, "Sub": 1}, {k: kinds.count(k) for k in ("Add", "Mul", "Sub")})

    def test_chunks_of_a_dim_that_varies(self):
        class Chunks(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(4, 4)

            def forward(self, x):
                first, second, third = torch.cat([x, self.linear(x), x * x], 1).chunk(3, 1)
                return first - second * third

        module = Chunks().eval()
        x = torch.randn(3, 5, 4)
        proto = written(module, (x,), dynamic_shapes={"x": {0: "batch", 1: "seq"}}, input_names=["x"], output_names=["y"])
        self.assertNotIn("SplitToSequence", {n.op_type for n in proto.graph.node})
        check(module, proto, (torch.randn(2, 7, 4),))

    def test_dims_of_one_name_are_equal(self):
        class Joined(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(4, 4)

            def forward(self, x, y):
                return self.linear(x)[:, None] + y.reshape(x.shape[0], -1, 4)

        module = Joined().eval()
        proto = exported(module, (torch.randn(3, 4), torch.randn(3, 2, 2)))
        check(module, proto, (torch.randn(5, 4), torch.randn(5, 2, 2)))
        self.assertEqual([d.dim_param or d.dim_value for d in proto.graph.output[0].type.tensor_type.shape.dim], ["batch", 1, 4])

    def test_dims_of_one_name_with_examples_of_two_sizes_are_refused(self):
        with self.assertRaisesRegex(ExportError, "the dim 'batch' for input 'x1', whose example has size 4 there, and for 'x0', which has 3: a name stands for one size"):
            exported(Sum(), (torch.randn(3, 4), torch.randn(4, 4)))

    def test_what_several_modules_share_is_marked(self):
        shared, own = nn.Linear(4, 4), nn.Linear(4, 4)
        proto = exported(nn.Sequential(shared, own, shared).eval(), (torch.randn(3, 4),))
        marked = {v.name for v in proto.graph.value_info for p in v.metadata_props if p.key == "distrain.shared"}
        self.assertEqual(marked, {"0.weight", "0.bias"})

    def test_branches_on_data_are_refused_in_one_line(self):
        class Branch(Small):
            def forward(self, x):
                return super().forward(x) if x.sum() > 0 else x

        self.refused(Branch().eval(), (torch.randn(3, 4),), r"Branch cannot be exported at export_test.py:\d+: .*depends on the values")

    def test_complex_numbers_are_refused_in_one_line(self):
        class Complex(Small):
            def forward(self, x):
                return torch.linalg.eigvals(super().forward(x)[:, :, None] * torch.ones(3)).real

        self.refused(Complex().eval(), (torch.randn(3, 4),), "Complex cannot be exported")

    def test_another_result_than_the_modules_is_refused(self):
        class Traced(Small):
            def forward(self, x):
                return super().forward(x) * (2 if torch.compiler.is_exporting() else 1)

        class Hidden(Small):
            def forward(self, x):
                y = super().forward(x)
                return torch.where((x == 0).all(-1, keepdim=True) & (not torch.compiler.is_exporting()), 7.0, y)

        end = r".*the code takes another way when it is traced.*\(check=False writes it nevertheless\)$"
        for kind, where in ((Traced, "on the example"), (Hidden, "on a draw with whole rows masked, 0 or at a bound")):
            module, inputs = kind().eval(), (torch.randn(4, 4),)
            self.refused(module, inputs, f"^output 'y' of the graph differs from the module's {where}: at .*, in PyTorch .* elements differ{end}")
            exported(module, inputs, check=False)

    def test_the_operator_that_differs_is_named(self):
        def wrong(x):
            from onnxscript import opset18

            return opset18.Mul(opset18.Tanh(x), opset18.Tanh(x))

        class Bent(Small):
            def forward(self, x):
                return torch.tanh(super().forward(x)) + 1

        with unittest.mock.patch.dict(exporting.TRANSLATIONS, {torch.ops.aten.tanh.default: wrong}):
            self.refused(Bent().eval(), (torch.randn(3, 4),), r"The first operator whose result differs is aten.tanh \(export_test.py:\d+\)")

    def test_two_clamps_of_one_tensor(self):
        class Clamps(Small):
            def forward(self, x):
                y = super().forward(x)
                return y.clamp(min=-0.5) * y.clamp(min=-0.2, max=0.3) + y.clamp(max=0.1) - y.clamp(min=torch.tensor(0.1))

        class Chains(Small):
            def forward(self, x):
                y = super().forward(x)
                return y.clamp(min=-1).clamp(max=1) * y.clamp(max=0.5).clamp(min=-0.5) + y.clamp(max=0.3).clamp(min=-0.2)

        for module in (Clamps(), Chains()):
            onnx.checker.check_model(exported(module.eval(), (torch.randn(3, 4),)), full_check=True)

    def test_a_loop_over_a_dim_is_refused_in_one_line(self):
        class Loop(Small):
            def forward(self, x):
                return torch.stack([super(Loop, self).forward(row) for row in x])

        self.refused(Loop().eval(), (torch.randn(3, 4),), "Loop cannot be exported.*static shape of 3.*a loop or a list over the dim")


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


def marked(proto):
    """Inputs of the nodes where the gradient stops."""
    nodes = [n for n in proto.graph.node if any(p.key == "distrain.stop_gradient" and p.value == "1" for p in n.metadata_props)]
    assert all(n.op_type == "Identity" and not n.domain for n in nodes)
    assert {o.domain for o in proto.opset_import} == {""}
    return [n.input[0] for n in nodes]


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
        self.refused(lambda m, x: Reversed.apply(m.first(x)), rf"^forward calls the autograd function 'Reversed' \(export_test.py:\d+\): {end}")
        self.refused(hooked, rf"^forward registers a backward hook \(export_test.py:\d+\): {end}")
        self.refused(plain, f"^parameter 'first.weight' has a backward hook: {end}", lambda m: m.first.weight.register_hook(lambda g: 2 * g))
        self.refused(plain, f"^module 'second' has a backward hook: {end}", lambda m: m.second.register_full_backward_hook(lambda *_: None))

    def test_embeddings_with_gradients_of_their_own_are_refused(self):
        for setting in ({"sparse": True}, {"scale_grad_by_freq": True}, {"max_norm": 1.0}):
            with self.subTest(setting):
                change = lambda m: setattr(m, "table", nn.Embedding(6, 4, **setting))  # noqa: B023, E731
                self.refused(lambda m, ids: m.table(ids), f"^the embedding 'table.weight' has {next(iter(setting))} ", change, (torch.tensor([1, 2, 3]),))

    def test_changes_in_place_are_refused(self):
        self.refused(overwritten, r"^forward changes a value in place without gradients.*\(export_test.py:\d+\)")
        self.refused(lambda m, x: (m.first.weight.data.clamp_(0), m.first(x))[1], r"^forward changes '\.data' of a tensor \(export_test.py:\d+\)")

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


def close(test, a, b, tolerance=2e-6):
    test.assertEqual(a.shape, b.shape)
    test.assertLess(float((a - b).detach().abs().max()), tolerance * max(1.0, float(b.detach().abs().max())))


class Replaced(unittest.TestCase):
    """What stands in for a library's code gives its numbers and gradients."""

    def test_experts(self):
        for name in ("Mixtral", "Qwen3-MoE", "gpt-oss", "DeepSeek-V3"):
            with self.subTest(name):
                model = architectures.make(name)
                module = golden.scatter_weights(model.module.eval())
                ids = model.inputs["input_ids"]
                want, config = module(ids)[0], module.net.config
                grads = torch.autograd.grad(want.square().mean(), list(module.parameters()), allow_unused=True)
                before = config._experts_implementation
                with adapting.traceable(module), torch.enable_grad():
                    self.assertEqual(config._experts_implementation, "all_experts")
                    have = module(ids)[0]
                    mine = torch.autograd.grad(have.square().mean(), list(module.parameters()), allow_unused=True)
                self.assertEqual(config._experts_implementation, before)
                close(self, have, want)
                for a, b in zip(mine, grads):
                    self.assertEqual(a is None, b is None)
                    if b is not None:
                        close(self, a, b, 2e-5)

    def test_whole_models(self):
        for name in ("Llama 4 (text)", "LLaVA", "SmolVLM", "Gemma 3"):
            with self.subTest(name):
                model = architectures.make(name)
                module = golden.scatter_weights(model.module.eval())
                want = module(*model.inputs.values())[0]
                with adapting.traceable(module):
                    have = module(*model.inputs.values())[0]
                close(self, have, want)
                close(self, module(*model.inputs.values())[0], want, 0.0 + 1e-12)

    def test_numbers_of_models(self):
        from export import architectures_second

        model = architectures.make("Gemma 3n (text)", architectures_second.FAMILIES)
        module = golden.scatter_weights(model.module.eval())
        want = module(*model.inputs.values())[0]
        with adapting.traceable(module):
            close(self, module(*model.inputs.values())[0], want)

    def test_views_of_complex_numbers(self):
        turns = torch.polar(torch.ones(6, 6), torch.randn(6, 6))
        for have, want in zip(adapting._pieces(turns, 4, 1), turns.split(4, 1), strict=True):
            self.assertTrue(torch.equal(have, want))
        for dim in (0, 1, -1):
            self.assertTrue(torch.equal(adapting._unsqueezed(turns, dim), turns.unsqueeze(dim)))
        self.assertTrue(torch.equal(adapting._expanded(turns[:1], 3, 2, -1), turns[:1].expand(3, 2, -1)))

        class Turned(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear, self.turns = nn.Linear(6, 6), turns

            def forward(self, x):
                x = torch.view_as_complex(self.linear(x).unflatten(-1, (3, 2)))
                a, b = self.turns.split([2, 4], 1)
                return torch.view_as_real(x * a[:4, :1].expand(4, 3) * b[1:5, :3].unsqueeze(0)).flatten(-2)

        module = Turned().eval()
        check(module, exported(module, (torch.randn(3, 4, 6),)), (torch.randn(5, 4, 6),))

    def test_len(self):
        class Rows(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(4, 4)

            def forward(self, x):
                return self.linear(x).reshape(len(x), len([1, 2]), 2)

        module = Rows().eval()
        check(module, exported(module, (torch.randn(3, 4),)), (torch.randn(5, 4),))
        self.assertNotIn("len", globals())

    def test_isin(self):
        x = torch.randint(0, 9, (4, 7))
        for test in (torch.tensor([3, 5, 3]), torch.tensor([]), torch.arange(6).reshape(2, 3)):
            self.assertTrue(torch.equal(adapting._is_in(x, test), torch.isin(x, test)))
            self.assertTrue(torch.equal(adapting._is_in(x, test, invert=True), torch.isin(x, test, invert=True)))

        class Known(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(7, 3)

            def forward(self, ids):
                return self.linear(torch.isin(ids, torch.tensor([1, 5])).float())

        module = Known().eval()
        check(module, exported(module, (x,)), (torch.randint(0, 9, (5, 7)),))

    def test_masked_scatter(self):
        x, source, mask = torch.randn(3, 5, 4), torch.randn(6, 4), torch.rand(3, 5) < 0.4
        element = torch.rand(3, 5, 4) < 0.3
        for where, rows in ((mask[..., None], torch.randn(15, 4)), (mask[..., None].expand(3, 5, 4), torch.randn(15, 4)), (element, torch.randn(60))):
            close(self, adapting._masked_scatter(x, where, rows), x.masked_scatter(where, rows), 1e-12)


class Wrappers(unittest.TestCase):
    def test_fixed_grid_is_the_library(self):
        for name in ("Qwen2-VL", "Qwen2.5-VL"):
            with self.subTest(name):
                model = architectures.make(name)
                module = golden.scatter_weights(model.module.eval())
                ids, pixels = model.inputs["input_ids"], model.inputs["pixel_values"]
                grids = module.grid.expand(len(pixels), 3)
                kind = (ids == module.net.config.image_token_id).int()
                want = module.net(input_ids=ids, pixel_values=pixels.flatten(0, 1), image_grid_thw=grids, mm_token_type_ids=kind, use_cache=False).logits
                close(self, module(*model.inputs.values()), want)

    def test_fixed_grid_of_a_tower_with_several_windows_and_frames(self):
        vision = {"depth": 2, "hidden_size": 32, "out_hidden_size": 24, "intermediate_size": 64, "num_heads": 4, "patch_size": 4, "temporal_patch_size": 2, "spatial_merge_size": 2, "window_size": 16, "fullatt_block_indexes": [1]}
        tower = golden.scatter_weights(hf.models.qwen2_5_vl.modeling_qwen2_5_vl.Qwen2_5_VisionTransformerPretrainedModel(hf.models.qwen2_5_vl.configuration_qwen2_5_vl.Qwen2_5_VLVisionConfig(**vision)).eval())
        for grid in ((1, 8, 8), (2, 4, 8), (3, 8, 4)):
            with self.subTest(grid):
                module = FixedGrid(tower, grid)
                pixels = torch.randn(2, module.patches, 96)
                want = tower(pixels.flatten(0, 1), grid_thw=module.grid.expand(2, 3)).pooler_output
                have = module(pixels)
                close(self, have.flatten(0, 1), want)
                check(module.eval(), exported(module, (pixels,)), (pixels,))

    def test_fixed_grid_refuses(self):
        net = architectures.make("Qwen2.5-VL").module.net
        with self.assertRaisesRegex(ValueError, "a grid of 3 x 4 patches does not divide into the tower's 2 x 2"):
            FixedGrid(net, (1, 3, 4))
        net.model.visual.window_size = 16
        with self.assertRaisesRegex(ValueError, "a grid of 4 x 6 patches does not divide into windows of 16 pixels"):
            FixedGrid(net, (1, 4, 6))
        with self.assertRaisesRegex(ValueError, "Linear has no vision tower"):
            FixedGrid(nn.Linear(2, 2), (1, 4, 4))

    def test_fixed_shapes_is_the_library(self):
        model = architectures.make("SigLIP 2")
        module = golden.scatter_weights(model.module.eval())
        ids, pixels, shape = model.inputs.values()
        sizes = torch.tensor([(2, 6), (3, 4), (3, 3), (4, 3)])[shape]
        want = module.net(input_ids=ids, pixel_values=pixels, pixel_attention_mask=module.mask[shape], spatial_shapes=sizes).logits_per_image
        close(self, module(ids, pixels, shape), want)
        with self.assertRaisesRegex(ValueError, "more than 12 patches"):
            FixedShapes(module.net, [(4, 4)], room=12)


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
