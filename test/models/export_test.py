# ===- export_test.py - what export() writes and refuses --------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Files, names, sizes, memory; what cannot be exported says so in one line.
# ===-----------------------------------------------------------------------===
"""export_test.py: tests of models/export."""

import os
import pathlib
import subprocess
import sys
import warnings
import unittest
import unittest.mock

from export_fixture import FOLDER, First, Small, Sum, Sums, exported, marked, written  # first: it skips without PyTorch

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import TensorProto
from torch import nn

from export import CheckError, ExportError, check, export
from export import exporting, writing


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
        self.assertEqual(shapes(First(), dynamic_shapes={"p": dims, "q": dims}, input_names=["p", "q"]), varying)
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

    def test_places_that_are_written_to_stay_different(self):
        class Places(nn.Module):  # as a language model takes pictures' rows; what two rows at one place give is nobody's to say
            def forward(self, ids, rows, places):
                return ids[:, None].repeat(1, 16).float().index_put((places.reshape(-1),), rows)

        inputs = (torch.arange(800), torch.randn(400, 16), torch.randperm(800)[:400])
        for _ in range(3):  # one thread may be faster than another
            written(Places(), inputs, input_names=["ids", "rows", "places"], dynamic_shapes={"ids": {0: "seq"}, "rows": {0: "n"}, "places": {0: "n"}})

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


if __name__ == "__main__":
    unittest.main()
