#===- check_ops.py - Every operator and variant against ONNX Runtime ----------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# check_ops.py DT_IMPORT [NAME...]: makes one small model a case, imports it with
# numbers, with its first dim left open and in 16 bits, runs the IR with numpy and
# compares with ONNX Runtime (or ONNX's reference, where the runtime lacks the operator).
# Exit 77: a Python package is missing.
#===----------------------------------------------------------------------===
import re
import subprocess
import sys
import tempfile
import warnings

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
    from onnx.reference import ReferenceEvaluator
except ImportError:
    sys.exit(77)

from interpret import Interpreter

warnings.filterwarnings("ignore")
onnxruntime.set_default_logger_severity(4)
rng = np.random.default_rng(7)
CASES = []
I64 = np.int64


def f(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def ints(*values):
    return np.array(values, I64)


class Model:
    """One case: nodes (op, inputs, outputs, attributes), data inputs and constants."""

    without = ()

    def __init__(self, name, nodes, data, constants=None, outputs=None, opset=20, open_dims=True):
        self.name, self.nodes, self.data = name, nodes, data
        self.constants = constants or {}
        self.outputs = outputs or [n[2][0] for n in nodes[-1:]]
        self.opset, self.open_dims = opset, open_dims

    def build(self, opened):
        nodes = [helper.make_node(op, ins, outs, name=f"n{i}", **attrs) for i, (op, ins, outs, attrs) in enumerate(self.nodes)]
        inputs = []
        for k, v in self.data.items():
            shape = list(v.shape)
            if opened and shape:
                shape[0] = "n" if shape[0] == next(iter(self.data.values())).shape[0] else shape[0]
            inputs.append(helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), shape))
        constants = [numpy_helper.from_array(np.asarray(v), k) for k, v in self.constants.items()]
        outputs = [helper.make_empty_tensor_value_info(o) for o in self.outputs]
        graph = helper.make_graph(nodes, "case", inputs, outputs, constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)


def case(name, op, data, constants=None, attrs=None, opset=20, outputs=("y",), order=None, open_dims=True):
    names = order or [*data, *(constants or {})]
    CASES.append(Model(name, [(op, names, list(outputs), attrs or {})], data, constants, list(o for o in outputs if o), opset, open_dims))


def graph(name, nodes, data, constants=None, outputs=None, opset=20, open_dims=True, without=()):
    """`without`: operators of dialect nn that the import must not need."""
    CASES.append(Model(name, nodes, data, constants, outputs, opset, open_dims))
    CASES[-1].without = without


def elementwise():
    x = f(2, 3, 4)
    for op in ("Neg Abs Exp Sqrt Reciprocal Sin Cos Tan Sinh Cosh Tanh Erf Floor Ceil Round Sign Sigmoid Softplus Relu Softsign HardSwish Mish "
               "Elu Selu Celu LeakyRelu HardSigmoid ThresholdedRelu Identity Log").split():
        data = np.abs(x) + 0.1 if op in ("Log", "Sqrt") else x
        case(op, op, {"x": data})
    case("Abs-int", "Abs", {"x": ints(-3, 4, 0)})
    case("Sign-int", "Sign", {"x": ints(-3, 4, 0)})
    case("Neg-int", "Neg", {"x": ints(-3, 4, 0)})
    case("Gelu", "Gelu", {"x": x})
    case("Gelu-tanh", "Gelu", {"x": x}, attrs={"approximate": "tanh"})
    case("Elu-alpha", "Elu", {"x": x}, attrs={"alpha": 0.7})
    case("Selu-attrs", "Selu", {"x": x}, attrs={"alpha": 1.5, "gamma": 1.1})
    case("HardSigmoid-attrs", "HardSigmoid", {"x": x}, attrs={"alpha": 0.3, "beta": 0.4})
    case("LeakyRelu-attr", "LeakyRelu", {"x": x}, attrs={"alpha": 0.2})
    case("Celu-attr", "Celu", {"x": x}, attrs={"alpha": 2.0})
    case("PRelu", "PRelu", {"x": x}, {"slope": f(3, 1)})
    case("PRelu-channel", "PRelu", {"x": f(2, 3, 4, 4)}, {"slope": f(3, 1, 1)})
    for op in "Add Sub Mul Div Max Min".split():
        case(op, op, {"x": x, "y0": f(3, 1)})
        case(f"{op}-scalar", op, {"x": x}, {"val_1": np.float32(2.5)})
        case(f"{op}-int", op, {"x": ints(7, -7, 9), "y0": ints(2, 3, -4)}, open_dims=False)
    case("Max-3", "Max", {"x": x, "y0": f(4), "z": f(1, 1)})
    case("Sum-3", "Sum", {"x": x, "y0": f(4), "z": f(1, 1)})
    case("Mean-2", "Mean", {"x": x, "y0": f(4)})
    case("Pow-int-exponent", "Pow", {"x": x}, {"val_0": np.int64(3)})
    case("Pow", "Pow", {"x": np.abs(x), "e": f(4)})
    case("Mod", "Mod", {"x": ints(7, -7, 9), "y0": ints(2, 3, -4)})
    case("Mod-fmod", "Mod", {"x": x, "y0": f(4)}, attrs={"fmod": 1})
    for op in "Equal Less LessOrEqual Greater GreaterOrEqual".split():
        case(op, op, {"x": np.round(x), "y0": np.round(f(4))})
        case(f"{op}-int", op, {"x": ints(1, 2, 3)}, {"c": ints(2)})
    b = x > 0
    for op in "And Or Xor".split():
        case(op, op, {"x": b, "y0": f(4) > 0})
    case("Not", "Not", {"x": b})
    case("Where", "Where", {"c": b, "x": x, "y0": f(4)})
    case("IsNaN", "IsNaN", {"x": np.array([1, np.nan, np.inf], np.float32)})
    case("IsInf", "IsInf", {"x": np.array([1, np.nan, np.inf, -np.inf], np.float32)})
    case("IsInf-positive", "IsInf", {"x": np.array([1, np.inf, -np.inf], np.float32)}, attrs={"detect_negative": 0})
    case("Clip", "Clip", {"x": x}, {"val_1": np.float32(-0.5), "val_2": np.float32(0.5)})
    case("Clip-max", "Clip", {"x": x}, {"val_2": np.float32(0.5)}, order=["x", "", "val_2"])
    case("Clip-int", "Clip", {"x": ints(-3, 2, 9)}, {"val_1": np.int64(0)})
    for to in (TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL, TensorProto.DOUBLE):
        case(f"Cast-{to}", "Cast", {"x": x * 3}, attrs={"to": to})
    case("Cast-from-bool", "Cast", {"x": b}, attrs={"to": 1})
    case("CastLike", "CastLike", {"x": x, "y0": ints(1)}, open_dims=False)
    case("Dropout", "Dropout", {"x": x})
    case("Dropout-0", "Dropout", {"x": x}, {"val_0": np.float32(0), "t": np.array(True)})
    for axis in (-1, 1, 0):
        case(f"Softmax{axis}", "Softmax", {"x": x}, attrs={"axis": axis})
        case(f"LogSoftmax{axis}", "LogSoftmax", {"x": x}, attrs={"axis": axis})


def products():
    w = f(4, 5)
    case("MatMul", "MatMul", {"x": f(2, 3, 4), "y0": f(2, 4, 5)})
    case("MatMul-broadcast", "MatMul", {"x": f(2, 1, 3, 4), "y0": f(6, 4, 5)})
    case("MatMul-parameter", "MatMul", {"x": f(2, 3, 4)}, {"w": w})
    case("MatMul-1d-2d", "MatMul", {"x": f(4)}, {"w": w}, open_dims=False)
    case("MatMul-2d-1d", "MatMul", {"x": f(3, 4), "y0": f(4)})
    case("MatMul-1d-1d", "MatMul", {"x": f(4), "y0": f(4)}, open_dims=False)
    case("MatMul-3d-1d", "MatMul", {"x": f(2, 3, 4)}, {"w": f(4)})
    graph("MatMul-transposed", [("Transpose", ["w"], ["wt"], {"perm": [1, 0]}), ("MatMul", ["x", "wt"], ["y"], {})], {"x": f(2, 3, 4)}, {"w": f(5, 4)})
    for ta in (0, 1):
        for tb in (0, 1):
            a, b = f(*((4, 3) if ta else (3, 4))), f(*((5, 4) if tb else (4, 5)))
            case(f"Gemm-{ta}{tb}", "Gemm", {"x": a}, {"w": b, "c": f(5)}, {"transA": ta, "transB": tb}, open_dims=not ta)
            case(f"Gemm-data-{ta}{tb}", "Gemm", {"x": a, "y0": b}, None, {"transA": ta, "transB": tb}, open_dims=False)
    case("Gemm-alpha-beta", "Gemm", {"x": f(3, 4)}, {"w": w, "c": f(5)}, {"alpha": 0.5, "beta": 2.0})
    case("Gemm-c-column", "Gemm", {"x": f(3, 4)}, {"w": w, "c": f(3, 1)}, open_dims=False)
    case("Gemm-c-row", "Gemm", {"x": f(3, 4)}, {"w": w, "c": f(1, 5)})
    for equation, shapes in [("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]), ("bhid,bhjd->bhij", [(2, 2, 3, 4), (2, 2, 5, 4)]),
                             ("ij,kj->ik", [(3, 4), (5, 4)]), ("bqd,kd->bqk", [(2, 3, 4), (5, 4)]), ("ij->ji", [(3, 4)]),
                             ("ijk->ik", [(2, 3, 4)]), ("bi,bi->b", [(2, 3), (2, 3)]), ("i,j->ij", [(3,), (4,)]),
                             ("abc,cde,ef->abdf", [(2, 3, 4), (4, 2, 3), (3, 2)]), ("ij,jk", [(3, 4), (4, 2)]),
                             ("nhwpqc->nchpwq", [(2, 2, 2, 3, 3, 4)])]:
        case(f"Einsum {equation}", "Einsum", {f"x{i}": f(*s) for i, s in enumerate(shapes)}, None, {"equation": equation}, open_dims=False)
    # An axis of one element goes with every size; a label twice in an operand is its diagonal.
    for k, (equation, shapes) in enumerate([("ij,jk->ik", [(3, 1), (4, 2)]), ("ij,jk->ik", [(3, 4), (1, 2)]), ("bij,bjk->bik", [(1, 3, 4), (2, 4, 5)]), ("bij,bjk->bik", [(2, 3, 4), (1, 4, 5)]),
                                            ("bij,bij->bij", [(2, 1, 4), (1, 3, 4)]), ("bi,bi->b", [(2, 3), (2, 1)]), ("bi,bi->b", [(1, 1), (2, 3)]), ("bi,bi,bi->b", [(2, 1), (1, 3), (2, 3)]),
                                            ("bi,bi,i->bi", [(2, 1), (1, 1), (3,)]), ("ij,ij->", [(1, 4), (3, 1)]), ("ij,ij->ij", [(1, 1), (1, 1)]), ("ii->i", [(3, 3)]), ("ii", [(3, 3)]),
                                            ("bii->b", [(2, 3, 3)]), ("ibi,i->bi", [(3, 2, 3), (3,)]), ("ii,i->i", [(1, 1), (4,)]), ("iii->i", [(3, 3, 3)]), ("iijj,j->i", [(2, 2, 3, 3), (3,)]),
                                            ("...ii->...i", [(2, 2, 3, 3)]), ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 2)]), ("b...,...->b...", [(2, 3, 4), (4,)]), ("...i,i", [(2, 3, 4), (4,)])]):
        case(f"Einsum-ones-{k} {equation}", "Einsum", {f"x{i}": f(*s) for i, s in enumerate(shapes)}, None, {"equation": equation}, open_dims=False)
    case("Einsum-ones-open", "Einsum", {"x": f(2, 3, 1), "y0": f(1, 3, 4)}, None, {"equation": "bij,bij->bij"})


def convolutions():
    x1, x2, x3 = f(2, 4, 9), f(2, 4, 8, 9), f(1, 2, 5, 6, 4)
    case("Conv1", "Conv", {"x": x1}, {"w": f(6, 4, 3), "b": f(6)}, {"pads": [1, 2]})
    case("Conv2-stride", "Conv", {"x": x2}, {"w": f(6, 4, 3, 2)}, {"strides": [2, 1], "pads": [1, 0, 1, 1], "dilations": [1, 2]})
    case("Conv2-group", "Conv", {"x": x2}, {"w": f(6, 2, 3, 3), "b": f(6)}, {"group": 2})
    case("Conv2-depthwise", "Conv", {"x": x2}, {"w": f(4, 1, 3, 3)}, {"group": 4, "pads": [1, 1, 1, 1]})
    case("Conv3", "Conv", {"x": x3}, {"w": f(3, 2, 2, 3, 1)}, {"kernel_shape": [2, 3, 1]})
    for mode in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        case(f"Conv-{mode}", "Conv", {"x": x2}, {"w": f(3, 4, 2, 3)}, {"auto_pad": mode, "strides": [2, 2]})
        case(f"MaxPool-{mode}", "MaxPool", {"x": x2}, None, {"auto_pad": mode, "kernel_shape": [2, 3], "strides": [2, 2]})
    case("ConvTranspose1", "ConvTranspose", {"x": x1}, {"w": f(4, 3, 3), "b": f(3)}, {"strides": [2], "pads": [1, 0], "output_padding": [1]})
    case("ConvTranspose2", "ConvTranspose", {"x": x2}, {"w": f(4, 3, 3, 3)}, {"strides": [2, 1], "dilations": [1, 2], "pads": [1, 1, 1, 1]})
    case("ConvTranspose2-group", "ConvTranspose", {"x": x2}, {"w": f(4, 3, 2, 2), "b": f(6)}, {"group": 2, "strides": [2, 2]})
    case("ConvTranspose2-shape", "ConvTranspose", {"x": x2}, {"w": f(4, 3, 3, 3)}, {"strides": [2, 2], "output_shape": [16, 18]})
    case("ConvTranspose3", "ConvTranspose", {"x": x3}, {"w": f(2, 3, 2, 2, 2)}, {"strides": [2, 2, 2]})
    case("MaxPool1", "MaxPool", {"x": x1}, None, {"kernel_shape": [3], "strides": [2]})
    case("MaxPool2-ceil", "MaxPool", {"x": x2}, None, {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1, "pads": [1, 1, 0, 0]})
    case("MaxPool2-dilated", "MaxPool", {"x": x2}, None, {"kernel_shape": [2, 2], "dilations": [2, 3]})
    case("AveragePool2", "AveragePool", {"x": x2}, None, {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1]})
    case("AveragePool2-include", "AveragePool", {"x": x2}, None, {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "count_include_pad": 1})
    case("AveragePool3", "AveragePool", {"x": x3}, None, {"kernel_shape": [2, 2, 2], "strides": [2, 2, 2]})
    case("GlobalAveragePool", "GlobalAveragePool", {"x": x2})
    case("GlobalMaxPool", "GlobalMaxPool", {"x": x2})


def norms():
    x = f(2, 6, 4, 3)
    case("LayerNorm", "LayerNormalization", {"x": f(2, 3, 4)}, {"s": f(4), "b": f(4)}, {"epsilon": 1e-3})
    case("LayerNorm-axis", "LayerNormalization", {"x": f(2, 3, 4)}, {"s": f(3, 4), "b": f(3, 4)}, {"axis": 1})
    case("LayerNorm-nobias", "LayerNormalization", {"x": f(2, 3, 4)}, {"s": f(4)})
    case("RMSNorm", "RMSNormalization", {"x": f(2, 3, 4)}, {"s": f(4)}, {"epsilon": 1e-3}, opset=23)
    case("InstanceNorm", "InstanceNormalization", {"x": x}, {"s": f(6), "b": f(6)})
    case("InstanceNorm-constants", "InstanceNormalization", {"x": x}, {"val_1": np.ones(6, np.float32), "val_2": np.zeros(6, np.float32)})
    case("GroupNorm-21", "GroupNormalization", {"x": x}, {"s": f(6), "b": f(6)}, {"num_groups": 3}, opset=21)
    case("GroupNorm-18", "GroupNormalization", {"x": x}, {"s": f(3), "b": f(3)}, {"num_groups": 3}, opset=18)
    case("BatchNorm", "BatchNormalization", {"x": x}, {"s": f(6), "b": f(6), "mean": f(6), "var": np.abs(f(6)) + 0.1}, {"epsilon": 1e-3})
    case("BatchNorm-training", "BatchNormalization", {"x": x}, {"s": f(6), "b": f(6), "mean": f(6), "var": np.abs(f(6)) + 0.1},
         {"training_mode": 1, "momentum": 0.8}, outputs=("y", "rm", "rv"))
    case("LpNorm1", "LpNormalization", {"x": x}, None, {"p": 1, "axis": 1})
    case("LpNorm2", "LpNormalization", {"x": x}, None, {"p": 2})
    case("MeanVarianceNormalization", "MeanVarianceNormalization", {"x": x}, None, {"axes": [0, 2, 3]})
    case("MeanVarianceNormalization-close", "MeanVarianceNormalization", {"x": x * np.float32(1e-4)}, None, {"axes": [0, 2, 3]})


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


def reductions():
    x = f(2, 3, 4)
    for op in "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSumExp ReduceLogSum".split():
        data = np.abs(x) if op == "ReduceLogSum" else x
        case(f"{op}", op, {"x": data}, {"a": ints(1, -1)})
        case(f"{op}-drop", op, {"x": data}, {"a": ints(1)}, {"keepdims": 0})
        case(f"{op}-all", op, {"x": data}, None, {"keepdims": 0})
        case(f"{op}-noop", op, {"x": data}, {"a": np.zeros(0, I64)}, {"noop_with_empty_axes": 1})
        if op != "ReduceSum":
            case(f"{op}-13", op, {"x": data}, None, {"axes": [2], "keepdims": 1}, opset=13)
    case("ReduceMax-bool", "ReduceMax", {"x": x > 0}, {"a": ints(1)})
    case("CumSum", "CumSum", {"x": x}, {"a": np.int64(1)})
    case("CumSum-exclusive-reverse", "CumSum", {"x": x}, {"a": np.int64(-1)}, {"exclusive": 1, "reverse": 1})
    case("ArgMax", "ArgMax", {"x": x}, None, {"axis": 1})
    case("ArgMax-drop-last", "ArgMax", {"x": np.round(x)}, None, {"axis": 1, "keepdims": 0, "select_last_index": 1})
    case("ArgMin", "ArgMin", {"x": x}, None, {"axis": -1})


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


def resizes():
    x = f(1, 2, 4, 5)
    for mode, coordinates, rounding in [("nearest", "asymmetric", "floor"), ("nearest", "half_pixel", "round_prefer_floor"),
                                        ("nearest", "align_corners", "round_prefer_ceil"), ("nearest", "asymmetric", "ceil"),
                                        ("linear", "half_pixel", "floor"), ("linear", "align_corners", "floor"), ("linear", "pytorch_half_pixel", "floor"),
                                        ("cubic", "half_pixel", "floor"), ("linear", "asymmetric", "floor")]:
        attrs = {"mode": mode, "coordinate_transformation_mode": coordinates, "nearest_mode": rounding}
        case(f"Resize-{mode}-{coordinates}-{rounding}-scales", "Resize", {"x": x}, {"val_0": np.array([1, 1, 2, 2], np.float32)}, attrs, order=["x", "", "val_0"])
        case(f"Resize-{mode}-{coordinates}-{rounding}-sizes", "Resize", {"x": x}, {"s": ints(1, 2, 6, 3)}, attrs, order=["x", "", "", "s"], open_dims=False)


def losses():
    labels = np.array([1, 0, 3], I64)
    for reduction in ("mean", "sum", "none"):
        case(f"SCE-{reduction}", "SoftmaxCrossEntropyLoss", {"x": f(3, 4), "l": labels}, None, {"reduction": reduction})
        case(f"NLL-{reduction}", "NegativeLogLikelihoodLoss", {"x": f(3, 4), "l": labels}, None, {"reduction": reduction})
    ignored = np.array([1, -1, 3], I64)
    case("SCE-ignore", "SoftmaxCrossEntropyLoss", {"x": f(3, 4), "l": ignored}, None, {"ignore_index": -1}, outputs=("y", "p"))
    case("SCE-weights", "SoftmaxCrossEntropyLoss", {"x": f(3, 4), "l": labels}, {"w": np.abs(f(4))}, {})
    case("NLL-ignore", "NegativeLogLikelihoodLoss", {"x": f(3, 4), "l": ignored}, None, {"ignore_index": -1})
    case("SCE-2d", "SoftmaxCrossEntropyLoss", {"x": f(2, 4, 3), "l": np.array([[1, 0, 3], [2, 2, 1]], I64)})
    case("NLL-2d-weights", "NegativeLogLikelihoodLoss", {"x": f(2, 4, 3), "l": np.array([[1, 0, 3], [2, 2, 1]], I64)}, {"w": np.abs(f(4))})


def attention():
    q, k, v = f(2, 4, 3, 8), f(2, 2, 5, 8), f(2, 2, 5, 8)
    case("Attention", "Attention", {"q": q, "k": f(2, 4, 5, 8), "v": f(2, 4, 5, 8)}, opset=23)
    case("Attention-gqa", "Attention", {"q": q, "k": k, "v": v}, None, {"scale": 0.3}, opset=23)
    case("Attention-causal", "Attention", {"q": q, "k": f(2, 4, 3, 8), "v": f(2, 4, 3, 8)}, None, {"is_causal": 1}, opset=23)
    case("Attention-mask", "Attention", {"q": q, "k": f(2, 4, 5, 8), "v": f(2, 4, 5, 8), "m": f(3, 5)}, opset=23, open_dims=False)
    case("Attention-bool", "Attention", {"q": q, "k": f(2, 4, 5, 8), "v": f(2, 4, 5, 8), "m": np.tri(3, 5) > 0}, opset=23, open_dims=False)
    case("Attention-3d", "Attention", {"q": f(2, 3, 32), "k": f(2, 5, 16), "v": f(2, 5, 16)}, None, {"q_num_heads": 4, "kv_num_heads": 2}, opset=23)
    case("Attention-softcap", "Attention", {"q": q, "k": f(2, 4, 5, 8), "v": f(2, 4, 5, 8)}, None, {"softcap": 2.0}, opset=23)
    angles = f(6, 4)
    for interleaved in (0, 1):
        case(f"Rotary-{interleaved}", "RotaryEmbedding", {"x": q, "p": np.array([[0, 1, 2], [3, 4, 5]], I64)},
             {"val_1": np.cos(angles), "val_2": np.sin(angles)}, {"interleaved": interleaved}, opset=23, order=["x", "val_1", "val_2", "p"])
    case("Rotary-3d", "RotaryEmbedding", {"x": f(2, 3, 32), "p": np.array([[0, 1, 2], [3, 4, 5]], I64)},
         {"val_1": np.cos(angles), "val_2": np.sin(angles)}, {"num_heads": 4}, opset=23, order=["x", "val_1", "val_2", "p"])


def masked():
    """Scores, masks as exporters write them, softmax: also for a query that sees no key."""
    lowest = np.finfo(np.float32).min
    visible = np.array([[[1, 0, 1, 0, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 0]], [[0, 0, 0, 0, 1], [1, 1, 0, 1, 0], [0, 0, 0, 0, 0]]], bool)[:, None]
    other = np.array([[1, 1, 0, 1, 1], [0, 1, 1, 0, 0], [0, 1, 0, 0, 1]], bool)
    added = lambda s, m, out, n: [("Where", [m, "val_8", f"val_{n}"], [out + "m"], {}), ("Add", [s, out + "m"], [out], {})]
    put = lambda s, m, out, n: [("Where", [m, s, f"val_{n}"], [out], {})]
    guard = [("IsNaN", ["p"], ["nan"], {}), ("Where", ["nan", "val_8", "p"], ["pg"], {})]
    for name, masks, hidden in [("number", added("s", "m", "t", 9), -1e4), ("far-number", added("s", "m", "t", 9), -1e9), ("lowest", added("s", "m", "t", 9), lowest),
                                ("lowest-put", put("s", "m", "t", 9), lowest), ("number-put", put("s", "m", "t", 9), -1e4),
                                ("two-lowest", added("s", "m", "u", 9) + added("u", "val_7", "t", 9), lowest), ("two-put", put("s", "m", "u", 9) + put("u", "val_7", "t", 9), lowest),
                                ("put-then-added", put("s", "m", "u", 9) + added("u", "val_7", "t", 9), lowest), ("guarded", added("s", "m", "t", 9), -np.inf)]:
        end = guard if name == "guarded" else []
        nodes = [("MatMul", ["q", "k"], ["s"], {}), *masks, ("Softmax", ["t"], ["p"], {"axis": -1}), *end, ("MatMul", ["pg" if end else "p", "v"], ["y"], {})]
        graph(f"masked-{name}", nodes, {"q": f(2, 2, 3, 4), "k": f(2, 2, 4, 5), "v": f(2, 2, 5, 4), "m": visible},
              {"val_7": other, "val_8": np.float32(0), "val_9": np.float32(hidden)}, open_dims=False)


def powers():
    x = f(2, 3, 4)
    # The result has the base's type, whatever the exponent's is.
    for name, exponent in [("root", np.float32(0.5)), ("third", np.float64(1 / 3)), ("half", np.float32(1.5)), ("negative", np.float32(-1)), ("whole", np.float32(2)), ("int32", np.int32(3))]:
        case(f"Pow-int-{name}", "Pow", {"x": ints(9, 10, 16, 2)}, {"val_0": exponent})
        graph(f"Pow-constant-{name}", [("Pow", ["val_0", "val_1"], ["y"], {})], {"x": f(2)}, {"val_0": ints(9, 10, 16, 2), "val_1": exponent}, open_dims=False)
    case("Pow-int-data", "Pow", {"x": ints(9, 10, 16, 2), "e": np.array([0.5, 1.5, 0.25, 3.7], np.float32)}, open_dims=False)
    case("Pow-int-ints", "Pow", {"x": ints(9, 10, -3, 2), "e": np.array([2, 1, 3, 0], np.int32)}, open_dims=False)
    case("Pow-wide-exponent", "Pow", {"x": np.abs(x)}, {"val_0": np.float64(0.1)})


def whole_numbers():
    # Of a row of zeros the result and its gradient are 0.
    zeros = {"val_0": np.array([[1], [0], [1]], np.float32)}
    for p in (1, 2):
        graph(f"LpNorm{p}-zeros", [("Mul", ["x", "val_0"], ["xm"], {}), ("LpNormalization", ["xm"], ["y"], {"p": p, "axis": 1})], {"x": f(3, 4)}, zeros, open_dims=False)
    graph("ReduceL2-zeros", [("Mul", ["x", "val_0"], ["xm"], {}), ("ReduceL2", ["xm", "a"], ["y"], {})], {"x": f(3, 4)}, {**zeros, "a": ints(1)}, open_dims=False)
    case("ReduceLogSumExp-hidden", "ReduceLogSumExp", {"x": np.array([[-np.inf, -np.inf], [1, -np.inf]], np.float32)}, {"a": ints(1)}, open_dims=False)
    # Whole numbers, over the innermost axis, others and all.
    for op, types in [("ReduceMax", "int64 int32 int8"), ("ReduceMin", "int64 int32 int8"), ("ReduceSum", "int64 int32"), ("ReduceProd", "int64 int32"),
                      ("ReduceMean", "int64 int32"), ("ReduceL1", "int64 int32"), ("ReduceL2", "int64 int32"), ("ReduceSumSquare", "int64 int32"),
                      ("ReduceLogSum", "int32"), ("ReduceLogSumExp", "int32")]:
        for dtype in types.split():
            whole = rng.integers(1 if "Log" in op else 0 if dtype == "uint8" else -5, 200 if dtype == "uint8" else 6, (3, 4, 5)).astype(dtype)
            if op == "ReduceLogSumExp":  # ONNX Runtime sums whole numbers: far apart, only the largest counts
                whole = rng.permuted(np.broadcast_to(np.arange(1, 16, 3, dtype=dtype), (3, 4, 5)), axis=2)
            for axes, keep in [([2], 1), ([0], 0), ([0, 1, 2], 0)][:3 if dtype == "int64" and op in ("ReduceMax", "ReduceSum") else 1]:
                case(f"{op}-{dtype}-{''.join(map(str, axes))}", op, {"x": whole}, {"a": ints(*axes)}, {"keepdims": keep}, open_dims=False)


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


def scaled_resizes():
    # Sizes and places are computed in the scales' precision: 10 * 1.3 are 13.
    for size, scale, mode, coordinates, rounding in [(10, 1.3, "nearest", "half_pixel", "round_prefer_floor"), (10, 0.7, "nearest", "asymmetric", "floor"), (20, 1.4, "nearest", "asymmetric", "floor"),
                                                     (30, 1.1, "nearest", "asymmetric", "floor"), (10, 1.3, "linear", "half_pixel", "floor"), (10, 2.3, "linear", "asymmetric", "floor"),
                                                     (10, 0.9, "cubic", "half_pixel", "floor"), (10, 1.4, "nearest", "align_corners", "ceil"),
                                                     # As many rows as before, but others.
                                                     (3, 1.3, "nearest", "half_pixel", "round_prefer_floor"), (3, 1.3, "linear", "half_pixel", "floor"), (9, 1.1, "cubic", "asymmetric", "floor")]:
        attrs = {"mode": mode, "coordinate_transformation_mode": coordinates, "nearest_mode": rounding}
        columns = 2 if int(size * scale) == size else 1  # ONNX Runtime copies where no size changes, whatever the scale
        case(f"Resize-{size}-by-{scale}-{mode}-{coordinates}", "Resize", {"x": f(1, 2, size, 4)}, {"val_0": np.array([1, 1, scale, columns], np.float32)}, attrs, order=["x", "", "val_0"])


def empty_rows():
    q = f(2, 4, 3, 8)
    visible = np.array([[1, 0, 1, 0, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 0]], bool)  # query 1 sees no key
    case("Attention-empty-row", "Attention", {"q": q, "k": f(2, 4, 5, 8), "v": f(2, 4, 5, 8), "m": visible}, opset=23, open_dims=False)
    case("Attention-empty-row-additive", "Attention", {"q": q, "k": f(2, 4, 5, 8), "v": f(2, 4, 5, 8)}, {"val_0": np.where(visible, 0, -np.inf).astype(np.float32)}, opset=23, open_dims=False)
    masked()


def inverses():
    x, half, one = f(2, 3, 4), np.float32(0.5), np.float32(1.2)
    for op in ("Tan", "Sinh"):
        case(f"{op}-near-0", op, {"x": np.float32(1e-3) * x}, open_dims=False)
    for op in ("Atan", "Asinh"):
        case(op, op, {"x": x})
    for op in ("Asin", "Acos", "Atanh"):  # of numbers between -1 and 1
        graph(op, [("Tanh", ["x"], ["t"], {}), ("Mul", ["t", "val_0"], ["h"], {}), (op, ["h"], ["y"], {})], {"x": x}, {"val_0": half})
    graph("Acosh", [("Softplus", ["x"], ["s"], {}), ("Add", ["s", "val_0"], ["a"], {}), ("Acosh", ["a"], ["y"], {})], {"x": x}, {"val_0": one})
    for op in "Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh".split():
        table = np.array([1.5, 2, 3], np.float32) if op == "Acosh" else np.array([-0.5, 0, 0.9], np.float32)
        graph(f"{op}-constant", [(op, ["val_0"], ["c"], {}), ("Add", ["x", "c"], ["y"], {})], {"x": f(2, 3)}, {"val_0": table})


def wide_windows():
    # Networks for images of any size pool all of a smaller one; a window may begin inside and reach over the end.
    everywhere = {"kernel_shape": [2560, 1280], "strides": [2560, 1280], "ceil_mode": 1}
    x = f(2, 4, 7, 6)
    case("AveragePool-all", "AveragePool", {"x": x}, None, everywhere)
    case("AveragePool-all-include", "AveragePool", {"x": x}, None, {**everywhere, "count_include_pad": 1})
    case("AveragePool-all-padded", "AveragePool", {"x": x}, None, {**everywhere, "pads": [1, 2, 3, 0], "count_include_pad": 1})
    case("MaxPool-all", "MaxPool", {"x": x}, None, everywhere)
    case("AveragePool-1", "AveragePool", {"x": f(2, 4, 1, 1)}, None, {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1})
    case("AveragePool-over-end", "AveragePool", {"x": f(2, 4, 5, 3)}, None, {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1})
    case("AveragePool-one-axis", "AveragePool", {"x": f(2, 4, 9)}, None, {"kernel_shape": [11], "strides": [4], "ceil_mode": 1})


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


def filters():
    """Resize whose filter is wider where it makes smaller, or leaves out what is outside."""
    x = f(1, 2, 9, 7)
    for mode in ("linear", "cubic"):
        for coordinates in ("half_pixel", "align_corners", "asymmetric"):
            attrs = {"mode": mode, "coordinate_transformation_mode": coordinates, "antialias": 1}
            case(f"Resize-antialias-{mode}-{coordinates}-sizes", "Resize", {"x": x}, {"s": ints(1, 2, 4, 10)}, attrs, order=["x", "", "", "s"], open_dims=False)
        case(f"Resize-antialias-{mode}-scales", "Resize", {"x": x}, {"val_0": np.array([1, 1, 0.4, 0.6], np.float32)}, {"mode": mode, "antialias": 1}, order=["x", "", "val_0"])
        case(f"Resize-antialias-{mode}-one", "Resize", {"x": x}, {"s": ints(1, 2, 1, 1)}, {"mode": mode, "antialias": 1}, order=["x", "", "", "s"], open_dims=False)
    case("Resize-antialias-cubic-a", "Resize", {"x": x}, {"s": ints(1, 2, 4, 3)}, {"mode": "cubic", "antialias": 1, "cubic_coeff_a": -0.5}, order=["x", "", "", "s"], open_dims=False)
    for antialias in (0, 1):
        for sizes in ((1, 2, 4, 3), (1, 2, 20, 8)):
            attrs = {"mode": "cubic", "exclude_outside": 1, "antialias": antialias}
            case(f"Resize-exclude-outside-{antialias}-{sizes[2]}", "Resize", {"x": x}, {"s": ints(*sizes)}, attrs, order=["x", "", "", "s"], open_dims=False)
    for policy in ("not_larger", "not_smaller"):
        attrs = {"mode": "linear", "axes": [2, 3], "keep_aspect_ratio_policy": policy}
        case(f"Resize-{policy}", "Resize", {"x": x}, {"s": ints(4, 12)}, attrs, order=["x", "", "", "s"])
    case("Resize-none", "Resize", {"x": f(0, 2, 4, 4)}, {"s": ints(0, 2, 2, 8)}, {"mode": "linear", "antialias": 1}, order=["x", "", "", "s"], open_dims=False)
    case("Resize-antialias-axes", "Resize", {"x": x}, {"s": ints(3)}, {"mode": "linear", "antialias": 1, "axes": [-2]}, order=["x", "", "", "s"])


def off_kinks(shape, sizes, corners):
    """A grid for these sizes (of the last axis first) whose places are not near elements or half way between: there are kinks and steps."""
    grid = np.zeros(shape, np.float32)
    for place in np.ndindex(shape):
        size = sizes[place[-1]]
        while True:
            at = rng.uniform(-1.5, size + 0.5)
            g = 2 * at / (size - 1) - 1 if corners else (2 * at + 1) / size - 1
            if 0.15 < at % 0.5 < 0.35 and abs(2 * g - round(2 * g)) > 0.1:
                break
        grid[place] = g
    return grid


def grid_samples():
    for mode in ("linear", "nearest", "cubic"):
        for padding in ("zeros", "border", "reflection"):
            for corners in (0, 1):
                attrs = {"mode": mode, "padding_mode": padding, "align_corners": corners}
                case(f"GridSample-{mode}-{padding}-{corners}", "GridSample", {"x": f(2, 3, 4, 5), "g": off_kinks((2, 3, 2, 2), (5, 4), corners)}, None, attrs, open_dims=False)
    # One grid for all items, of which there may be none.
    spread = [("Shape", ["x"], ["n"], {"end": 1}), ("Concat", ["n", "s"], ["to"], {"axis": 0}), ("Expand", ["g", "to"], ["e"], {})]
    for mode in ("linear", "nearest", "cubic"):
        graph(f"GridSample-{mode}-open", [*spread, ("GridSample", ["x", "e"], ["y"], {"mode": mode})], {"x": f(2, 3, 4, 5)}, {"g": off_kinks((1, 3, 2, 2), (5, 4), 0), "s": ints(3, 2, 2)})
    case("GridSample-16", "GridSample", {"x": f(2, 1, 4, 5), "g": off_kinks((2, 1, 6, 2), (5, 4), 0)}, None, {"mode": "bilinear"}, opset=16, open_dims=False)
    case("GridSample-16-cubic", "GridSample", {"x": f(2, 1, 4, 5), "g": off_kinks((2, 6, 1, 2), (5, 4), 0)}, None, {"mode": "bicubic"}, opset=16, open_dims=False)
    case("GridSample-3d", "GridSample", {"x": f(2, 2, 3, 4, 2), "g": off_kinks((2, 2, 1, 3, 3), (2, 4, 3), 0)}, None, {"padding_mode": "border"}, open_dims=False)
    for padding in ("zeros", "border", "reflection"):
        case(f"GridSample-one-{padding}", "GridSample", {"x": f(2, 2, 1, 1), "g": off_kinks((2, 2, 2, 2), (1, 1), 0)}, None, {"padding_mode": padding}, open_dims=False)


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


def later():
    """Cases that came after others: those keep their random data."""
    for family in (powers, whole_numbers, top_k, gathers, scaled_resizes, empty_rows, inverses, wide_windows, scatter_kinds, filters, grid_samples, static_masks):
        family()


def control():
    body = helper.make_graph([helper.make_node("Mul", ["x", "val_2"], ["t"])], "then", [], [helper.make_empty_tensor_value_info("t")],
                             [numpy_helper.from_array(np.float32(2), "val_2")])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["e"])], "else", [], [helper.make_empty_tensor_value_info("e")])
    graph("If-constant", [("If", ["c"], ["y"], {"then_branch": body, "else_branch": other})], {"x": f(3)}, {"c": np.array(True)})


NARROW = (TensorProto.BFLOAT16, TensorProto.FLOAT16)


def narrow(proto, kind):
    """The graph with every float32 in 16 bits, as an exporter of a 16-bit network writes it."""
    for value in (*proto.graph.input, *proto.graph.value_info):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = kind
    for tensor in (*proto.graph.initializer, *(a.t for n in proto.graph.node for a in n.attribute if a.type == onnx.AttributeProto.TENSOR)):
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(helper.make_tensor(tensor.name, kind, tensor.dims, numpy_helper.to_array(tensor).ravel()))
    for attribute in (a for n in proto.graph.node for a in n.attribute if a.name in ("to", "dtype") and a.i == TensorProto.FLOAT):
        attribute.i = kind
    return proto


def wide(proto):
    """What `narrow` made, in float32 again: rounded."""
    for tensor in (*proto.graph.initializer, *(a.t for n in proto.graph.node for a in n.attribute if a.type == onnx.AttributeProto.TENSOR)):
        if tensor.data_type in NARROW:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float32), tensor.name))
    for value in proto.graph.input:
        if value.type.tensor_type.elem_type in NARROW:
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    for attribute in (a for n in proto.graph.node for a in n.attribute if a.name in ("to", "dtype") and a.i in NARROW):
        attribute.i = TensorProto.FLOAT
    return proto


def check_narrow(tool, model, folder, kind):
    """A graph in 16 bits is imported as its float32 form: nothing else is narrow, and no cast between floats is left."""
    proto = narrow(model.build(False), kind)
    path = f"{folder}/case.onnx"
    onnx.save(proto, path)
    done = subprocess.run([tool, "--generic", path], capture_output=True, text=True)
    if done.returncode:
        return done.stderr.strip() or f"exit code {done.returncode}"
    if re.search(r"[x<]b?f16\b", done.stdout):
        return "is imported with 16-bit floats"
    if re.search(r'"nn.cast".*xf32[^x]*> -> tensor<[^-]*xf32[^x]*>', done.stdout):
        return "is imported with a cast between floats"
    wanted = wide(proto)
    constants = {t.name: numpy_helper.to_array(t) for t in wanted.graph.initializer}
    return difference(model, Interpreter(done.stdout, constants).run(model.data), expected(wanted, model.data))


def expected(model, data):
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        return session.run(None, data)
    except Exception:
        return ReferenceEvaluator(model).run(None, data)


def check(tool, model, folder, opened):
    proto = model.build(opened)
    path = f"{folder}/case.onnx"
    onnx.save(proto, path)
    done = subprocess.run([tool, "--generic", path], capture_output=True, text=True)
    if done.returncode:
        return done.stderr.strip() or f"exit code {done.returncode}"
    needless = [op for op in model.without if f"nn.{op}" in done.stdout]
    if needless:
        return f"is imported with nn.{needless[0]}"
    got = Interpreter(done.stdout, {k: np.asarray(v) for k, v in model.constants.items()}).run(model.data)
    return difference(model, got, expected(model.build(False), model.data))


def difference(model, got, wanted):
    for name, want in zip(model.outputs, wanted):
        have = got[name]
        if have.shape != want.shape:
            return f"{name} has shape {have.shape}, not {want.shape}"
        if not np.allclose(have, want, rtol=2e-4, atol=2e-5, equal_nan=True):
            return f"{name} differs by {np.abs(have.astype(float) - want.astype(float)).max():.3g}"
    return None


def main():
    tool, *wanted = sys.argv[1:]
    for family in (elementwise, products, convolutions, norms, shapes, slices, reductions, indexing, resizes, losses, attention, control, later):
        family()
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, model in enumerate(CASES):
            if wanted and model.name not in wanted:
                continue
            forms = {"": lambda: check(tool, model, folder, False)}
            if model.open_dims:
                forms[" (open)"] = lambda: check(tool, model, folder, True)
            if not model.without:
                forms[" (16 bits)"] = lambda: check_narrow(tool, model, folder, NARROW[number % 2])
            for form, run in forms.items():
                try:
                    problem = run()
                except Exception as e:
                    problem = f"{type(e).__name__}: {e}"
                if problem:
                    failures += 1
                    print(f"{model.name}{form}: {problem}")
    print(f"{len(CASES)} cases, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
