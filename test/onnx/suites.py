# ===- suites.py - ONNX's backend tests as data -----------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===
"""Tests of the `onnx` package: a model, inputs, expected outputs and tolerances."""

import dataclasses
import pathlib
import re

import numpy as np
import onnx
from onnx import numpy_helper, version_converter
from onnx.backend.test.case.node import collect_testcases
from onnx.backend.test.runner import Runner

DATA = pathlib.Path(onnx.__file__).parent / "backend/test/data"
SUITES = ("node", "pytorch-converted", "pytorch-operator", "light")
# What ONNX's reference computes otherwise than ONNX Runtime and PyTorch do, whose results are taken here.
DISPUTED = {
    f"resize_downsample_scales_{mode}_align_corners": "a length that the scale makes 2.4 or 3.2 is 2 or 3, as for ONNX Runtime and PyTorch" for mode in ("linear", "cubic")
}
OLDEST = 13  # operator set that the importer reads; older files are converted


@dataclasses.dataclass
class Test:
    suite: str
    name: str
    op: str  # row of the table
    model: onnx.ModelProto
    inputs: list
    outputs: list
    rtol: float = 1e-3
    atol: float = 1e-7


def operators(graph):
    """Names of all operators, those of subgraphs too."""
    found = []
    for node in graph.node:
        found.append(node.op_type if not node.domain or node.domain == "ai.onnx" else f"{node.domain}.{node.op_type}")
        for attribute in node.attribute:
            for inner in [attribute.g, *attribute.graphs]:
                found += operators(inner)
    return found


def node_tests():
    cases = [c for c in collect_testcases() if c.data_sets]
    single = {c.name: c.model.graph.node[0].op_type for c in cases if len(c.model.graph.node) == 1}
    for c in cases:
        base = re.sub(r"(_ver\d+)?_expanded.*", "", c.name)
        op = single.get(c.name) if c.name in single and "_expanded" not in c.name else single.get(base) or c.model.graph.node[-1].op_type
        inputs, outputs = c.data_sets[0]
        yield Test("node", c.name.removeprefix("test_"), op, c.model, list(inputs), list(outputs), c.rtol, c.atol)


def raised(model):
    """The model in an operator set that is read; as it is where ONNX cannot convert it."""
    if max((o.version for o in model.opset_import if not o.domain), default=OLDEST) >= OLDEST:
        return model
    try:
        return version_converter.convert_version(model, 18)
    except Exception:  # the converter raises what it likes
        return model


def load(path):
    tensor = onnx.TensorProto()
    tensor.ParseFromString(path.read_bytes())
    return numpy_helper.to_array(tensor)


def numbered(folder, kind):
    return [load(p) for p in sorted(folder.glob(f"{kind}_*.pb"), key=lambda p: int(p.stem.split("_")[1]))]


def folder_tests(suite):
    for folder in sorted(p for p in (DATA / suite).glob("test_*") if (p / "model.onnx").exists()):
        model = onnx.load(folder / "model.onnx")
        data = folder / "test_data_set_0"
        name = folder.name.removeprefix("test_")
        yield Test(suite, name, re.sub(r"^operator_|_.*", "", name), raised(model), numbered(data, "input"), numbered(data, "output"))


def light_tests():
    """Whole networks with made up weights; their inputs are made as ONNX's runner makes them."""
    for path in sorted((DATA / "light").glob("light_*.onnx")):
        model = onnx.load(path)
        initialised = {i.name for i in model.graph.initializer}
        inputs = [Runner.generate_dummy_data(i) for i in model.graph.input if i.name not in initialised]
        outputs = [load(p) for p in sorted(path.parent.glob(f"{path.stem}_output_*.pb"))]
        yield Test("light", path.stem.removeprefix("light_"), path.stem.removeprefix("light_"), raised(model), inputs, outputs)


def tests(suite):
    return list(node_tests() if suite == "node" else light_tests() if suite == "light" else folder_tests(suite))


def is_tensor(value):
    return isinstance(value, np.ndarray) or np.isscalar(value)
