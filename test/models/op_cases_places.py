# ===- op_cases_places.py - what moves elements ----------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Shapes, slices, indices, the largest elements, masks that are known.
# ===-----------------------------------------------------------------------===
import numpy as np
from onnx import numpy_helper

from op_case import I64, case, f, graph, ints, rng


def shapes():
    x = f(2, 3, 4)
    graph("Shape", [("Shape", ["x"], ["y"], {})], {"x": x})
    graph("Shape-part", [("Shape", ["x"], ["y"], {"start": -2, "end": 3})], {"x": x})
    graph("Size", [("Size", ["x"], ["y"], {})], {"x": x})
    for name, shape, zero in [("minus", [4, -1], 0), ("copy", [0, -1], 0), ("plain", [2, 12], 0), ("allowzero", [-1, 12], 1)]:
        case(f"Reshape-{name}", "Reshape", {"x": x}, {"s": ints(*shape)}, {"allowzero": zero}, open_dims=name in ("copy", "allowzero"))
    for axis in (0, 1, 3, -1):
        case(f"Flatten{axis}", "Flatten", {"x": x}, None, {"axis": axis})
    case("Squeeze", "Squeeze", {"x": f(2, 1, 3, 1)}, {"a": ints(1, -1)})
    case("Squeeze-all", "Squeeze", {"x": f(2, 1, 3, 1)})
    case("Unsqueeze", "Unsqueeze", {"x": x}, {"a": ints(0, -1)})
    case("Transpose", "Transpose", {"x": x}, None, {"perm": [2, 0, 1]})
    case("Transpose-default", "Transpose", {"x": x})
    case("Expand", "Expand", {"x": f(3, 1)}, {"s": ints(2, 1, 4)}, open_dims=False)
    case("Concat", "Concat", {"x": x, "y0": f(2, 2, 4)}, None, {"axis": 1})
    case("Tile", "Tile", {"x": x}, {"r": ints(1, 2, 3)})
    case("Tile-first", "Tile", {"x": f(2, 1)}, {"r": ints(2, 4)})
    case("DepthToSpace", "DepthToSpace", {"x": f(2, 8, 2, 3)}, None, {"blocksize": 2})
    case("DepthToSpace-CRD", "DepthToSpace", {"x": f(2, 8, 2, 3)}, None, {"blocksize": 2, "mode": "CRD"})
    case("SpaceToDepth", "SpaceToDepth", {"x": f(2, 2, 4, 6)}, None, {"blocksize": 2})
    for k in (None, -1, 1):
        for upper in (0, 1):
            case(f"Trilu-{k}-{upper}", "Trilu", {"x": f(2, 3, 4)}, {} if k is None else {"k": np.int64(k)}, {"upper": upper})
    case("EyeLike", "EyeLike", {"x": f(3, 4)}, None, {"k": 1}, open_dims=False)
    for name, attr in [("float", {"value_float": 2.5}), ("floats", {"value_floats": [1.0, 2.0]}), ("int", {"value_int": 3}), ("ints", {"value_ints": [3, 5]}),
                       ("tensor", {"value": numpy_helper.from_array(np.array([[1, 4], [2, 8]], np.float32))})]:
        graph(f"Constant-{name}", [("Constant", [], ["c"], attr), ("Cast", ["c"], ["d"], {"to": 1}), ("Add", ["x", "d"], ["y"], {})], {"x": f(2, 2)}, open_dims=False)
    graph("ConstantOfShape", [("Shape", ["x"], ["s"], {}), ("ConstantOfShape", ["s"], ["c"], {"value": numpy_helper.from_array(np.array([3.5], np.float32))}),
                              ("Add", ["x", "c"], ["y"], {})], {"x": x})
    graph("Range", [("Shape", ["x"], ["s"], {"end": 1}), ("Squeeze", ["s"], ["n"], {}), ("Range", ["zero", "n", "one"], ["r"], {}),
                    ("Cast", ["r"], ["rf"], {"to": 1}), ("Mul", ["x", "rf"], ["y"], {})], {"x": f(5)}, {"zero": np.int64(0), "one": np.int64(1)})
    graph("Range-down", [("Range", ["a", "b", "c"], ["y"], {})], {"x": f(2)}, {"a": np.int64(9), "b": np.int64(-2), "c": np.int64(-3)})


def slices():
    x = f(6, 5, 4)
    for name, starts, ends, axes, steps in [
            ("plain", [1], [3], [1], [1]), ("end", [-2], [2**63 - 1], [2], [1]), ("negative-step", [-1], [-(2**63)], [1], [-1]),
            ("negative-step-2", [3], [0], [1], [-2]), ("step", [1, 0], [5, 4], [1, 2], [2, 3]), ("clamped", [-100], [100], [1], [1]),
            ("all-but-last", [0], [-1], [2], [1])]:
        case(f"Slice-{name}", "Slice", {"x": x}, {"s": ints(*starts), "e": ints(*ends), "a": ints(*axes), "t": ints(*steps)})
    case("Slice-first-axis", "Slice", {"x": x}, {"s": ints(1), "e": ints(2**63 - 1), "a": ints(0), "t": ints(1)})
    case("Slice-from-end", "Slice", {"x": x}, {"s": ints(-1), "e": ints(2**63 - 1), "a": ints(0), "t": ints(1)})
    case("Slice-reverse", "Slice", {"x": x}, {"s": ints(-1), "e": ints(-(2**63)), "a": ints(0), "t": ints(-1)})
    case("Slice-no-axes", "Slice", {"x": x}, {"s": ints(1, 2), "e": ints(4, 5)}, open_dims=False)
    case("Split-even", "Split", {"x": x}, None, {"axis": 2, "num_outputs": 2}, outputs=("y", "z"))
    case("Split-uneven", "Split", {"x": x}, None, {"axis": 1, "num_outputs": 2}, outputs=("y", "z"))
    case("Split-sizes", "Split", {"x": x}, {"s": ints(1, 4)}, {"axis": 1}, outputs=("y", "z"))
    case("Split-13", "Split", {"x": x}, None, {"axis": 2}, outputs=("y", "z"), opset=13)
    case("Pad", "Pad", {"x": x}, {"p": ints(0, 1, 2, 0, 0, 1), "val_0": np.float32(1.5)})
    case("Pad-axes", "Pad", {"x": x}, {"p": ints(1, 2), "a": ints(-1)}, order=["x", "p", "", "a"])
    case("Pad-negative", "Pad", {"x": x}, {"p": ints(0, -1, 2, 0, 1, -1)})
    for mode in ("reflect", "edge", "wrap"):
        case(f"Pad-{mode}", "Pad", {"x": x}, {"p": ints(0, 1, 2, 0, 2, 1)}, {"mode": mode})
    case("Pad-int", "Pad", {"x": ints(1, 2, 3)}, {"p": ints(1, 2), "c": np.int64(9)})


def indexing():
    x = f(5, 3, 4)
    case("Gather", "Gather", {"x": x, "i": np.array([[0, 2], [1, -1]], I64)}, None, {"axis": 1})
    case("Gather-table", "Gather", {"i": np.array([[0, 2], [1, -1]], I64)}, {"w": f(7, 4)}, order=["w", "i"])
    case("Gather-scalar", "Gather", {"x": x}, {"i": np.int64(1)}, {"axis": 1})
    case("Gather-scalar-negative", "Gather", {"x": x}, {"i": np.int64(-1)}, {"axis": 2})
    case("Gather-run", "Gather", {"x": x}, {"i": ints(1, 2)}, {"axis": 1})
    case("Gather-run-2d", "Gather", {"x": x}, {"i": np.array([[0, 1, 2]], I64)}, {"axis": 2})
    case("Gather-reversed", "Gather", {"x": x}, {"i": ints(2, 1, 0)}, {"axis": 1})
    case("Gather-irregular", "Gather", {"x": x}, {"i": ints(2, 0, 0, 1)}, {"axis": 1})
    graph("Gather-positions", [("Shape", ["x"], ["s"], {"start": 1, "end": 2}), ("Squeeze", ["s"], ["n"], {}), ("Range", ["zero", "n", "one"], ["r"], {}),
                               ("Gather", ["w", "r"], ["p"], {}), ("Add", ["x", "p"], ["y"], {})],
          {"x": f(2, 5, 3)}, {"w": f(8, 3), "zero": np.int64(0), "one": np.int64(1)})
    case("GatherElements", "GatherElements", {"x": x, "i": rng.integers(-3, 3, (5, 2, 4))}, None, {"axis": 1})
    case("GatherND", "GatherND", {"x": x, "i": np.array([[0, 1], [4, -1]], I64)}, open_dims=False)
    case("GatherND-rows", "GatherND", {"x": x, "i": np.array([[[0], [3]]], I64)}, open_dims=False)
    case("GatherND-batch", "GatherND", {"x": f(2, 3, 4), "i": np.array([[[1]], [[2]]], I64)}, None, {"batch_dims": 1})
    case("ScatterND", "ScatterND", {"x": x, "i": np.array([[0, 1], [4, 2]], I64), "u": f(2, 4)}, open_dims=False)
    case("ScatterND-add", "ScatterND", {"x": x, "i": np.array([[1], [1]], I64), "u": f(2, 3, 4)}, None, {"reduction": "add"}, open_dims=False)
    case("ScatterElements", "ScatterElements", {"x": x, "i": np.array([[[1] * 4], [[2] * 4]], I64), "u": f(2, 1, 4)}, None, {"axis": 1}, open_dims=False)
    case("ScatterElements-add", "ScatterElements", {"x": x, "i": np.zeros((2, 2, 4), I64), "u": f(2, 2, 4)}, None, {"axis": 1, "reduction": "add"}, open_dims=False)
    # Whole slices to places that the graph knows are a select.
    case("ScatterND-slices", "ScatterND", {"x": x, "u": f(2, 3, 4)}, {"i": np.array([[-1], [1]], I64)}, order=["x", "i", "u"], open_dims=False)
    case("ScatterND-slices-add", "ScatterND", {"x": x, "u": f(2, 4)}, {"i": np.array([[0, 1], [4, -1]], I64)}, {"reduction": "add"}, order=["x", "i", "u"], open_dims=False)
    case("ScatterND-all", "ScatterND", {"x": f(2, 3), "u": f(3, 3)}, {"i": np.array([[1], [0], [1]], I64)}, order=["x", "i", "u"], open_dims=False)
    case("ScatterElements-slice", "ScatterElements", {"x": x, "u": f(5, 1, 4)}, {"i": np.full((5, 1, 4), -2)}, {"axis": 1}, order=["x", "i", "u"], open_dims=False)
    case("ScatterElements-slices-add", "ScatterElements", {"x": x, "u": f(5, 3, 2)}, {"i": np.tile(np.array([3, 0]), (5, 3, 1))}, {"axis": 2, "reduction": "add"}, order=["x", "i", "u"], open_dims=False)
    case("ScatterElements-part", "ScatterElements", {"x": x, "u": f(2, 1, 4)}, {"i": np.full((2, 1, 4), 2)}, {"axis": 1}, order=["x", "i", "u"], open_dims=False)
    graph("masked_scatter-counted", [("Reshape", ["m", "minus"], ["flat"], {}), ("Cast", ["flat"], ["ones"], {"to": 7}), ("CumSum", ["ones", "zero"], ["count"], {}), ("Concat", ["val_1", "src"], ["padded"], {"axis": 0}),
                                     ("Gather", ["padded", "count"], ["taken"], {}), ("Shape", ["x"], ["xs"], {}), ("Reshape", ["taken", "xs"], ["placed"], {}), ("Unsqueeze", ["m", "minus"], ["mu"], {}), ("Where", ["mu", "placed", "x"], ["y"], {})],
          {"x": f(2, 3, 4), "m": np.array([[True, False, True], [False, True, False]]), "src": f(3, 4)}, {"minus": ints(-1), "zero": np.int64(0), "val_1": np.zeros((1, 4), np.float32)})
    case("OneHot", "OneHot", {"i": ints(0, 2, -1)}, {"d": np.int64(4), "val_1": np.array([0, 1], np.float32)})
    case("OneHot-axis", "OneHot", {"i": np.array([[0, 2], [1, 3]], I64)}, {"d": np.int64(4), "val_1": np.array([-1, 2], np.float32)}, {"axis": 1})
    rows = [("Unsqueeze", ["m"], ["mu"], {}), ("Shape", ["x"], ["xs"], {}), ("Expand", ["mu", "xs"], ["me"], {})]
    scatter = [("NonZero", ["me"], ["nz"], {}), ("Transpose", ["nz"], ["at"], {"perm": [1, 0]}), ("Reshape", ["src", "minus"], ["flat"], {}),
               ("Shape", ["at"], ["ats"], {}), ("Gather", ["ats", "zero1"], ["count"], {"axis": 0}),
               ("Slice", ["flat", "zero1", "count", "zero1"], ["part"], {}), ("ScatterND", ["x", "at", "part"], ["y"], {})]
    constants = {"last": ints(-1), "minus": ints(-1), "zero1": ints(0)}
    mask = np.array([[True, False, True], [False, True, False]])
    rows[0] = ("Unsqueeze", ["m", "last"], ["mu"], {})
    graph("masked_scatter-rows", rows + scatter, {"x": f(2, 3, 4), "m": mask, "src": f(5, 4)}, constants)
    graph("masked_scatter", scatter, {"x": f(2, 3), "me": mask, "src": f(3, 2)}, {k: constants[k] for k in ("minus", "zero1")})


def top_k():
    for kind, shape in [("float", (3, 8)), ("float", (2, 5, 3)), ("int64", (3, 8)), ("float", (2, 40))]:
        apart = rng.permutation(np.prod(shape)).reshape(shape) * 0.3 - 2  # floats keep their order under small changes
        values = apart.astype(np.float32) if kind == "float" else rng.integers(-2, 3, shape)  # whole numbers have equals: the lower index first
        for k, axis, largest in [(3, -1, 1), (2, 1, 0), (shape[1], 1, 0)]:
            case(f"TopK-{kind}-{'x'.join(map(str, shape))}-{k}-{axis}-{largest}", "TopK", {"x": values}, {"k": ints(k)}, {"axis": axis, "largest": largest}, outputs=("y", "i"),
                 open_dims=shape == (3, 8))
    graph("TopK-table", [("TopK", ["val_0", "k"], ["y", "i"], {"axis": 0, "largest": 0})], {"x": f(2)}, {"val_0": np.array([[5, 1], [2, 7], [2, -3], [9, 1]], I64), "k": ints(3)},
          outputs=["y", "i"], open_dims=False)
    case("TopK-first-axis", "TopK", {"x": (rng.permutation(18).reshape(6, 3) * 0.3 - 2).astype(np.float32)}, {"k": ints(4)}, {"axis": 0}, outputs=("y", "i"), open_dims=False)
    case("TopK-int32", "TopK", {"x": np.array([[3, -1, 3, 7]], np.int32)}, {"k": ints(3)}, outputs=("y", "i"))
    case("TopK-indices", "TopK", {"x": f(3, 5)}, {"k": ints(2)}, outputs=("", "i"))
    graph("TopK-all", [("Shape", ["x"], ["k"], {"start": 1, "end": 2}), ("TopK", ["x", "k"], ["y", "i"], {"axis": 1})], {"x": f(2, 5)}, outputs=["y", "i"])


def gathers():
    case("GatherND-batch-constant", "GatherND", {"x": f(2, 3, 4)}, {"i": np.array([[[1], [0], [2], [2]], [[2], [0], [0], [1]]], I64)}, {"batch_dims": 1}, open_dims=False)
    case("GatherND-batch-tuples", "GatherND", {"x": f(2, 3, 4)}, {"i": np.array([[[1, 3], [0, 2]], [[2, 0], [2, -1]]], I64)}, {"batch_dims": 1}, open_dims=False)


def scatter_kinds():
    at = np.array([[1], [3], [1], [1]], I64)
    x, u, v, w = np.split(rng.permutation(132).astype(np.float32) * 0.05 - 3, [60, 108, 124])  # which is the largest is clear
    x, u, v, w = x.reshape(5, 3, 4), u.reshape(4, 3, 4), v.reshape(2, 2, 4), w.reshape(2, 1, 4)
    rows = np.array([[[1, 0, 2, 1]], [[1, 2, 2, 0]]], I64)
    for kind in ("mul", "max", "min"):
        case(f"ScatterND-{kind}", "ScatterND", {"x": x, "i": at, "u": u}, None, {"reduction": kind}, open_dims=False)
        case(f"ScatterElements-{kind}", "ScatterElements", {"x": x, "i": np.zeros((2, 2, 4), I64), "u": v}, None, {"axis": 1, "reduction": kind}, open_dims=False)
        case(f"ScatterElements-{kind}-rows", "ScatterElements", {"x": x, "i": rows, "u": w}, None, {"axis": -2, "reduction": kind}, open_dims=False)
        case(f"ScatterElements-{kind}-int", "ScatterElements", {"x": ints(3, -4, 5), "i": ints(1, 1), "u": ints(2, -7)}, None, {"reduction": kind}, open_dims=False)
    for dtype in (np.int32, np.uint8):
        case(f"ScatterND-max-{dtype.__name__}", "ScatterND", {"x": np.array([200, 7], dtype), "i": np.array([[0], [1]], I64), "u": np.array([100, 201], dtype)}, None, {"reduction": "max"},
             open_dims=False)


def static_masks():
    """Where a mask that is known is not 0: a table of indices."""
    at = [("NonZero", ["m"], ["nz"], {}), ("Transpose", ["nz"], ["at"], {"perm": [1, 0]})]
    taken = [*at, ("GatherND", ["x", "at"], ["y"], {})]
    mask = np.array([[True, False, True], [False, True, False]])
    for name, value in [("bool", mask), ("int", mask * np.int64(7)), ("all", np.ones((2, 3), bool)), ("row", mask[:1])]:
        graph(f"NonZero-{name}", taken, {"x": f(2, 3)}, {"m": value}, open_dims=False)
    number = [("NonZero", ["val_0"], ["nz"], {}), *taken[1:]]
    graph("NonZero-float", number, {"x": f(2, 3)}, {"val_0": np.array([[0, -0.0, 0.5], [np.inf, -1, 0]], np.float32)}, open_dims=False)
    graph("NonZero-none", [*at, ("GatherND", ["x", "at"], ["g"], {}), ("Reshape", ["x", "minus"], ["r"], {}), ("Concat", ["r", "g"], ["y"], {"axis": 0})], {"x": f(2, 3)},
          {"m": np.zeros((2, 3), bool), "minus": ints(-1)}, open_dims=False)
    graph("NonZero-rows", [("NonZero", ["m"], ["nz"], {}), ("Squeeze", ["nz", "zero"], ["at"], {}), ("Gather", ["x", "at"], ["y"], {"axis": 1})], {"x": f(2, 4, 3)},
          {"m": np.array([1, 0, 1, 1], np.int32), "zero": ints(0)})
    graph("NonZero-places", [("NonZero", ["m"], ["nz"], {}), ("Cast", ["nz"], ["c"], {"to": 1}), ("ReduceSum", ["c"], ["r"], {"keepdims": 0}), ("Mul", ["x", "r"], ["y"], {})], {"x": f(2)}, {"m": mask})
    # As many as there are items: all of a mask of ones, which is a reshape.
    taken_by_index = ("gather_nd", "scatter_nd")
    ones = {"value": numpy_helper.from_array(np.array([True]))}
    graph("NonZero-all-open", [("Shape", ["x"], ["s"], {}), ("ConstantOfShape", ["s"], ["m"], ones), *taken], {"x": f(2, 3)}, without=taken_by_index)
    graph("NonZero-all-images", [("Shape", ["x"], ["n"], {"end": 1}), ("Concat", ["n", "hw"], ["s"], {"axis": 0}), ("ConstantOfShape", ["s"], ["m"], ones), *taken], {"x": f(2, 3, 4, 5)},
          {"hw": ints(3, 4)}, without=taken_by_index)
    graph("NonZero-all-put", [("Shape", ["x"], ["s"], {}), ("ConstantOfShape", ["s"], ["m"], ones), *at, ("Reshape", ["x", "minus"], ["flat"], {}), ("Neg", ["flat"], ["u"], {}),
                              ("ScatterND", ["x", "at", "u"], ["y"], {})], {"x": f(2, 3)}, {"minus": ints(-1)}, without=taken_by_index)
    # Positions that are put where a mask of ones is stay known: a table's first rows, no gather.
    graph("NonZero-positions", [("NonZero", ["m"], ["nz"], {}), ("Transpose", ["nz"], ["at"], {"perm": [1, 0]}), ("ScatterND", ["zeros", "at", "ids"], ["p"], {}), ("Gather", ["w", "p"], ["e"], {}),
                                ("Add", ["x", "e"], ["y"], {})], {"x": f(2, 4, 3)}, {"m": np.ones(4, bool), "zeros": ints(0, 0, 0, 0), "ids": ints(0, 1, 2, 3), "w": f(6, 3)}, without=("gather",))
    # x[mask] = y of a mask that is known.
    put = [*at, ("Shape", ["at"], ["ats"], {}), ("Gather", ["ats", "zero1"], ["count"], {"axis": 0}), ("Slice", ["u", "zero1", "count", "zero1"], ["part"], {}), ("ScatterND", ["x", "at", "part"], ["y"], {})]
    graph("NonZero-masked_scatter", put, {"x": f(2, 3), "u": f(6)}, {"m": mask, "zero1": ints(0)}, open_dims=False)
