# ===- words.py - language models with other words ----------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# The compiler pads vocabularies that are no multiple of what products like. What
# it must not pad has an output that needs the scores as they are.
# ===-----------------------------------------------------------------------===
"""resize, shorten, shortened: a graph with another number of words, a file and a batch with fewer."""

import numpy as np
import onnx
from onnx import helper, numpy_helper


TABLES = ("wte.weight", "embed_tokens.weight", "lm_head.weight")


def resize(model, words):
    """The graph with so many words, the first of its own."""
    graph = model.graph
    weights = {tensor.name for tensor in graph.initializer}
    for tensor in graph.initializer:
        if tensor.name.endswith(TABLES):
            values = numpy_helper.to_array(tensor)
            table = np.zeros((words, *values.shape[1:]), values.dtype)
            table[: len(values)] = values[:words]
            tensor.CopyFrom(numpy_helper.from_array(table, tensor.name))
    for value in list(graph.value_info):
        if value.name not in weights:
            graph.value_info.remove(value)  # follows from the weights'
        elif value.name.endswith(TABLES):
            value.type.tensor_type.shape.dim[0].dim_value = words
    graph.output[0].type.tensor_type.shape.dim[-1].dim_value = words


def shorten(path, words, padded):
    """The same in its file; unless `padded`, the compiler must leave the number of words alone."""
    model = onnx.load(path)
    resize(model, words)
    graph, logits = model.graph, model.graph.output[0]
    if not padded:
        graph.node.append(helper.make_node("Softmax", [logits.name], ["shares"], name="shares", axis=-1))
        graph.output.append(helper.make_tensor_value_info("shares", 1, None))
        graph.output[-1].type.tensor_type.shape.CopyFrom(logits.type.tensor_type.shape)
    onnx.save(model, path)


def shortened(values, case):
    """Words and labels of a batch; labels below 0 are ignored."""
    return np.where(values < 0, values, values % case["words"]) if "words" in case and values.dtype.kind == "i" else values
