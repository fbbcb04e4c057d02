# ===- routers.py - mixtures of experts with favourites -----------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
# ===-----------------------------------------------------------------------===
"""favour: a graph whose routers choose the first experts for every token."""

import onnx
from onnx import numpy_helper

BIASES = ("e_score_correction_bias", "router.bias")


def favour(path, experts):
    """Biases of scores in a graph's file, by so much that no score is larger; they choose, and where the shares come from biased scores have them equal for all tokens."""
    model = onnx.load(path)
    biases = [tensor for tensor in model.graph.initializer if tensor.name.endswith(BIASES)]
    assert biases, f"{path} has no router with a bias"
    for tensor in biases:
        values = numpy_helper.to_array(tensor).copy()
        values[:experts] += 10
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    onnx.save(model, path)
