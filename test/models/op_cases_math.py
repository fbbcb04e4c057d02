# ===- op_cases_math.py - numbers, element by element and reduced ----------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Elementwise operators, powers and inverses, reductions, norms, losses, branches.
# ===-----------------------------------------------------------------------===
import numpy as np
from onnx import TensorProto, helper, numpy_helper

from op_case import I64, case, f, graph, ints, rng


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


def control():
    body = helper.make_graph([helper.make_node("Mul", ["x", "val_2"], ["t"])], "then", [], [helper.make_empty_tensor_value_info("t")],
                             [numpy_helper.from_array(np.float32(2), "val_2")])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["e"])], "else", [], [helper.make_empty_tensor_value_info("e")])
    graph("If-constant", [("If", ["c"], ["y"], {"then_branch": body, "else_branch": other})], {"x": f(3)}, {"c": np.array(True)})
