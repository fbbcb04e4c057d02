# ===- export_fixture.py - what tests of models/export share ----------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A test that includes this is skipped where `tools/setup --torch` has not been run.
# ===-----------------------------------------------------------------------===
"""Small modules, exported into a folder of their own."""

import pathlib
import sys
import tempfile

try:
    import torch
    import transformers  # noqa: F401
except ImportError:
    print("skipped: tools/setup --torch installs what this needs")
    sys.exit(77)

from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "models"))
from export import export  # noqa: E402

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


class First(Sum):
    def forward(self, a, *more):
        return super().forward(a, sum(more))


def close(test, a, b, tolerance=2e-6):
    test.assertEqual(a.shape, b.shape)
    test.assertLess(float((a - b).detach().abs().max()), tolerance * max(1.0, float(b.detach().abs().max())))


def marked(proto):
    """Inputs of the nodes where the gradient stops."""
    nodes = [n for n in proto.graph.node if any(p.key == "distrain.stop_gradient" and p.value == "1" for p in n.metadata_props)]
    assert all(n.op_type == "Identity" and not n.domain for n in nodes)
    assert {o.domain for o in proto.opset_import} == {""}
    return [n.input[0] for n in nodes]
