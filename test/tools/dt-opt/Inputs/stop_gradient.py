"""stop_gradient.py FILE: y = w x + stop(w x), with the mark of models/export on an Identity."""

import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

stop = helper.make_node("Identity", ["h"], ["s"], name="stop")
entry = stop.metadata_props.add()
entry.key, entry.value = "distrain.stop_gradient", "1"
plain = helper.make_node("Identity", ["h"], ["p"], name="plain")
nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), stop, plain, helper.make_node("Mul", ["p", "s"], ["y"])]
weight = numpy_helper.from_array(np.full((3, 3), 0.5, np.float32), "w")
x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy")
save(helper.make_model(helper.make_graph(nodes, "g", [x], [y], [weight]), opset_imports=[helper.make_opsetid("", 20)], ir_version=10), sys.argv[1])
