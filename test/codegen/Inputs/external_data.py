"""A graph whose values are all in another file: a weight, a table, a node's constant and one of a branch; and what is left of it in an emitted directory."""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WEIGHT = 300 * 300 * 4


def constant(name, value):
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value, name))


def graph():
    rng = np.random.default_rng(0)
    branch = lambda name, value: helper.make_graph([constant(name, np.full((1, 300), value, np.float32))], name, [], [helper.make_empty_tensor_value_info(name)])
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Gather", ["product", "table"], ["picked"], axis=1),
        constant("shift", rng.standard_normal(300).astype(np.float32)),
        helper.make_node("Add", ["picked", "shift"], ["shifted"]),
        helper.make_node("If", ["yes"], ["more"], then_branch=branch("then", 1), else_branch=branch("else", 2)),
        helper.make_node("Add", ["shifted", "more"], ["y"]),
    ]
    initializers = [numpy_helper.from_array(value, name) for name, value in (
        ("w", rng.standard_normal((300, 300)).astype(np.float32)), ("table", rng.permutation(300).astype(np.int64)), ("yes", np.array(True)), ("unread", np.arange(7, dtype=np.int64)))]
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 300])
    return helper.make_model(helper.make_graph(nodes, "g", [value("x")], [value("y")], initializers), opset_imports=[helper.make_opsetid("", 18)])


def make(folder):
    save = lambda name, model, **how: onnx.save(model, os.path.join(folder, name), **how)
    save("plain.onnx", graph())
    save("model.onnx", graph(), save_as_external_data=True, location="model.onnx.data", size_threshold=0, convert_attribute=True)


def tensors(model):
    """By name, those of attributes and branches too."""
    def of(graph):
        yield from graph.initializer
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    yield attribute.t
                if attribute.HasField("g"):
                    yield from of(attribute.g)
    return {tensor.name: tensor for tensor in of(model.graph)}


def check(folder, emitted):
    assert sorted(os.listdir(emitted)) == ["model.onnx", "model.onnx.constants"], os.listdir(emitted)
    assert os.path.getsize(os.path.join(emitted, "model.onnx.constants")) < WEIGHT
    before, after = (tensors(onnx.load(os.path.join(place, "model.onnx"), load_external_data=False)) for place in (folder, emitted))
    assert before["then"].data_location == TensorProto.EXTERNAL and before["w"] == after["w"]
    wanted = tensors(graph())
    assert after.keys() == wanted.keys()
    for name in after.keys() - {"w"}:
        np.testing.assert_array_equal(numpy_helper.to_array(after[name], emitted), numpy_helper.to_array(wanted[name]), name)


{"make": make, "check": check}[sys.argv[1]](*sys.argv[2:])
