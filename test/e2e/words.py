# ===- words.py - language models with fewer words ----------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# The compiler pads vocabularies that are no multiple of what products like. What
# it must not pad has an output that needs the scores as they are.
# ===-----------------------------------------------------------------------===
"""shorten, shortened: a graph and a batch with fewer words."""

import numpy as np
import onnx
from onnx import helper, numpy_helper


TABLES = ("wte.weight", "embed_tokens.weight", "lm_head.weight")


def shorten(path, words, padded):
    """The first `words` of the graph's; unless `padded`, the compiler must leave their number alone."""
    model = onnx.load(path)
    graph = model.graph
    weights = {tensor.name for tensor in graph.initializer}
    for tensor in graph.initializer:
        if tensor.name.endswith(TABLES):
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor)[:words], tensor.name))
    for value in list(graph.value_info):
        if value.name not in weights:
            graph.value_info.remove(value)  # follows from the weights'
        elif value.name.endswith(TABLES):
            value.type.tensor_type.shape.dim[0].dim_value = words
    logits = graph.output[0]
    logits.type.tensor_type.shape.dim[-1].dim_value = words
    if not padded:
        graph.node.append(helper.make_node("Softmax", [logits.name], ["shares"], name="shares", axis=-1))
        graph.output.append(helper.make_tensor_value_info("shares", 1, None))
        graph.output[-1].type.tensor_type.shape.CopyFrom(logits.type.tensor_type.shape)
    onnx.save(model, path)


def shortened(values, case):
    """Words and labels of a batch; labels below 0 are ignored."""
    return np.where(values < 0, values, values % case["words"]) if "words" in case and values.dtype.kind == "i" else values
