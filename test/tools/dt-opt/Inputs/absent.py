# absent.py FOLDER: graphs some values of which lie in files that do not exist.
"""Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception"""

import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(0)


def elsewhere(value, name, location):
    """A tensor whose elements lie in a file that nobody writes."""
    tensor = numpy_helper.from_array(value, name)
    size = len(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, text in (("location", location), ("offset", "0"), ("length", str(size))):
        tensor.external_data.add(key=key, value=text)
    return tensor


def weight(name):
    return RNG.standard_normal((8, 8)).astype(np.float32), name


def save(name, initializers, nodes=(), left_out=None, weights=("a", "b", "c", "d")):
    """y = x a b c d, with `nodes` before."""
    names = ["x" if not nodes else nodes[-1].output[0], *(f"h{i}" for i in range(len(weights) - 1)), "y"]
    chain = [helper.make_node("MatMul", [names[i], w], [names[i + 1]], name=f"times_{w}") for i, w in enumerate(weights)]
    value = lambda n: helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", 8])
    graph = helper.make_graph([*nodes, *chain], "g", [value("x")], [value("y")], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    if left_out:
        model.metadata_props.add(key="distrain.left_out", value=left_out)
    with open(os.path.join(sys.argv[1], name), "wb") as file:
        file.write(model.SerializeToString())


all_absent = [elsewhere(*weight(n), "w.bin") for n in "abcd"]
save("lost.onnx", all_absent)
save("meant.onnx", all_absent, left_out="w.bin")
# What is said to be left out is another file.
save("other.onnx", [elsewhere(*weight("a"), "w.bin"), *(elsewhere(*weight(n), "more.bin") for n in "bcd")], left_out="w.bin")
inside = [numpy_helper.from_array(*weight(n)) for n in "abcd"]
table = [helper.make_node("Gather", ["x", "table"], ["picked"], axis=1, name="pick")]
save("table.onnx", [*inside, elsewhere(np.arange(8), "table", "t.bin")], table, left_out="t.bin")
save("unread.onnx", [*inside, elsewhere(np.arange(8), "table", "t.bin")])
constant = [helper.make_node("Constant", [], ["shift"], name="shift", value=elsewhere(weight("")[0][:1], "", "k.bin")), helper.make_node("Add", ["x", "shift"], ["moved"], name="move")]
save("constant.onnx", inside, constant)
branch = lambda: helper.make_graph([helper.make_node("MatMul", ["x", "e"], ["out"], name="inner")], "b", [], [helper.make_empty_tensor_value_info("out")], [elsewhere(*weight("e"), "branch.bin")])
choice = [helper.make_node("If", ["yes"], ["chosen"], name="choice", then_branch=branch(), else_branch=branch())]
save("branch.onnx", [*inside, numpy_helper.from_array(np.array(True), "yes")], choice)
taken = [helper.make_node("If", ["yes"], ["chosen"], name="choice", then_branch=helper.make_graph(constant[:1], "b", [], [helper.make_empty_tensor_value_info("shift")]), else_branch=branch())]
save("attribute.onnx", [*inside, numpy_helper.from_array(np.array(True), "yes")], taken)
