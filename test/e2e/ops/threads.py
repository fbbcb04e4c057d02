# ===- threads.py - sizes at which a GPU's threads share work ---------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Large enough that loops are cut into parts, that a lane has several elements and
# packs of them, and that squares of a transpose are not whole
# (docs/cuda-kernels.md). Nothing here is more than a CPU does anyway.
# ===-----------------------------------------------------------------------===
"""Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception"""

import numpy as np

from products import ints
from shapes import softmax


def threads(case):
    for name, shape, axes in [("all_in_parts", (80, 75), (0, 1)), ("all_in_packs", (80, 76), (0, 1)), ("columns_in_parts", (200, 3), (0,)), ("block_a_row", (2, 1030), (1,))]:
        b = case(name)
        out = tuple(d for a, d in enumerate(shape) if a not in axes)
        y = b.op("reduce", [b.param("x", *shape)], out, f"kind = 0 : i32, axes = {ints(axes)}")
        b.result(y, lambda t, axes=axes: t["x"].sum(axes))
    for shape in [(36, 70), (8, 9), (3, 36, 40)]:
        b = case(f"squares_{'x'.join(map(str, shape))}")
        order = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
        y = b.op("transpose", [b.param("x", *shape)], tuple(shape[i] for i in order), f"permutation = {ints(order)}")
        b.result(y, lambda t, order=order: t["x"].transpose(order))
    for width in (36, 300, 510):  # whole packs of four, and of two
        b = case(f"softmax_{width}")
        y = b.op("softmax", [b.param("x", 3, width)], (3, width), "axis = 1 : i64")
        b.result(y, lambda t: softmax(t["x"], 1))
        b = case(f"layer_norm_{width}")
        operands = [b.param("x", 3, width), b.param("scale", width), b.param("bias", width)]
        y = b.op("layer_norm", operands, (3, width), "eps = 0.01 : f64, axes = 1 : i64", segments=[1, 1, 1])
        b.result(y, lambda t: (t["x"] - t["x"].mean(1, keepdims=True)) / np.sqrt(t["x"].var(1, keepdims=True) + 0.01) * t["scale"] + t["bias"])
    # An index that most rows have, ones that come once, and one that counts from the end.
    index = np.array([4] * 40 + [1, 7, 1, 0, -1, 8, 4, 4, 2] * 3, np.int64)
    for width in (40, 5):
        b = case(f"gather_{width}")
        y = b.op("gather", [b.param("x", 9, width), b.constant(index)], (len(index), width), "axis = 0 : i64")
        b.result(y, lambda t: t["x"][index])
    # What a block keeps in registers and in shared memory: of three values a row all, with packs; of a row that is wider than registers all.
    for name, width in [("layer_norm", 12288), ("softmax", 16388)]:
        b = case(f"{name}_{width}")
        x = b.param("x", 2, width, rule="normal(0,0.01)")
        if name == "layer_norm":
            y = b.op(name, [x, b.param("scale", width), b.param("bias", width)], (2, width), "eps = 0.01 : f64, axes = 1 : i64", segments=[1, 1, 1])
            b.result(y, lambda t: (t["x"] - t["x"].mean(1, keepdims=True)) / np.sqrt(t["x"].var(1, keepdims=True) + 0.01) * t["scale"] + t["bias"])
            continue
        y = b.op(name, [x], (2, width), "axis = 1 : i64")
        b.result(y, lambda t: softmax(t["x"], 1))
    for width in (32772, 32771):  # more than a block's lanes keep, with packs of four and without
        b = case(f"cross_entropy_{width}")
        labels = np.array([width - 1, 5], np.int64)
        x = b.op("reshape", [b.param("x", 2 * width)], (2, width))  # logits that are weights would be padded
        y = b.op("cross_entropy", [x, b.constant(labels)], (2,), "")
        b.result(y, lambda t, labels=labels: -np.log(softmax(t["x"].reshape(2, -1), 1))[np.arange(2), labels])


def threads_of_columns(case):
    """So many rows that sums of columns have packs; a family of its own, as the double copies what a kernel may not write. Small numbers: sums round, steps do not shrink."""
    b = case("columns_in_packs")
    b.result(b.op("reduce", [b.param("x", 17000, 64, rule="normal(0,0.01)")], (64,), f"kind = 0 : i32, axes = {ints([0])}"), lambda t: t["x"].sum(0))


FAMILIES = {"threads": threads, "threads_of_columns": threads_of_columns}
