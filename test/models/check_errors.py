#===- check_errors.py - Bad files give one clear line --------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# check_errors.py DT_IMPORT: makes files that must be refused and checks the one
# line that comes out; cuts and damages a good file in many places and checks
# that nothing crashes or hangs. Exit 77: a Python package is missing.
#===----------------------------------------------------------------------===
import pathlib
import random
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    sys.exit(77)

X = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])
CASES = []
KIND = "pkg.torch.export.graph_signature.InputSpec.kind"


def model(nodes, initializers=(), inputs=(X,), outputs=("y",), opset=20, scopes=None, functions=(), domains=()):
    for n, scope in zip(nodes, scopes or []):
        n.metadata_props.add(key="namespace", value=f": Net/{scope}: Module/op: aten.op")
    graph = helper.make_graph(nodes, "g", list(inputs), [helper.make_empty_tensor_value_info(o) for o in outputs], list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)], functions=functions)


def node(op, inputs, outputs=("y",), **attrs):
    return helper.make_node(op, inputs, outputs, name=f"the_{op}", **attrs)


def case(message, proto, *, exact_bytes=None):
    CASES.append((message, exact_bytes if exact_bytes is not None else proto.SerializeToString()))


def tensor(name, *shape, dtype=np.float32):
    return numpy_helper.from_array(np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape), name)


def external(location, offset="0", length=None):
    t = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4, 4], data_location=TensorProto.EXTERNAL)
    for k, v in (("location", location), ("offset", offset), ("length", length)):
        if v is not None:
            t.external_data.add(key=k, value=v)
    return t


def files():
    case("is not an ONNX model", None, exact_bytes=b"not a protobuf at all")
    case("holds no graph", None, exact_bytes=b"")
    case("operator set 12 is older than 13", model([node("Relu", ["x"])], opset=12))
    short = tensor("w", 4, 4)
    short.raw_data = short.raw_data[:-4]
    case("tensor 'w': holds 60 bytes where shape and type say 64", model([node("MatMul", ["x", "w"])], [short]))
    huge = TensorProto(name="w", data_type=1, dims=[2**40, 2**40])
    case("tensor 'w': impossible dims", model([node("MatMul", ["x", "w"])], [huge]))
    negative = TensorProto(name="w", data_type=1, dims=[-1])
    case("tensor 'w': impossible dims", model([node("Add", ["x", "w"])], [negative]))
    for location in ("/etc/passwd", "../w.bin", "a/../../w.bin", "C:\\w.bin"):
        case("leaves the model's folder", model([node("MatMul", ["x", "w"])], [external(location)]))
    case("external data of 60 bytes where", model([node("MatMul", ["x", "w"])], [external("w.bin", length="60")]))
    case("external data offset 'x' is not a number", model([node("MatMul", ["x", "w"])], [external("w.bin", offset="x")]))
    case("external data without a location", model([node("MatMul", ["x", "w"])], [external(None)]))
    case("initializer 'w' is there twice", model([node("Add", ["x", "w"])], [tensor("w", 4), tensor("w", 4)]))
    case("element type string", model([node("Relu", ["x"])], [TensorProto(name="s", data_type=8, dims=[1], string_data=[b"a"])]))


def graphs():
    case("node 'the_Add' (Add): uses 'gone', which is no input", model([node("Add", ["x", "gone"])]))
    case("node 'the_Add' (Add): depends on its own result: it uses 'z', which node 'the_Relu' (Relu) makes of it\n", model([node("Add", ["x", "z"]), node("Relu", ["y"], ["z"])]))
    case("node 'the_Relu' (Relu): depends on its own result: it uses 'y', which it makes itself\n", model([node("Neg", ["y"], ["before"]), node("Relu", ["y"])], outputs=["before"]))
    longer = [node("Sin", ["c"], ["a"]), node("Cos", ["a"], ["b"]), node("Neg", ["b"], ["c"]), node("Add", ["x", "a"])]
    case("node 'the_Sin' (Sin): depends on its own result: it uses 'c', which node 'the_Neg' (Neg) makes of it\n", model(longer))
    inner = lambda: helper.make_graph([node("Relu", ["late"], ["t"])], "b", [], [helper.make_empty_tensor_value_info("t")])
    case("node 'the_If' (If): node 'the_Relu' (Relu): uses 'late', which is no input", model([node("If", ["yes"], then_branch=inner(), else_branch=inner())], [numpy_helper.from_array(np.array(True), "yes")]))
    case("defines 'y' a second time", model([node("Relu", ["x"]), node("Neg", ["x"])]))
    case("output 'q' is made by no node", model([node("Relu", ["x"])], outputs=["q"]))
    case("node 'the_Unique' (Unique): this operator is not handled", model([node("Unique", ["x"], ["y", "i"])]))
    case("operators of domain 'com.example' are not handled", model([node("Foo", ["x"], domain="com.example")], domains=["com.example"]))
    body = helper.make_graph([helper.make_node("Relu", ["x"], ["t"])], "b", [], [helper.make_empty_tensor_value_info("t")])
    flag = helper.make_tensor_value_info("flag", TensorProto.BOOL, [])
    case("node 'the_If' (If): the condition must be known", model([node("If", ["flag"], then_branch=body, else_branch=body)], inputs=[X, flag]))
    case("input 'x' has no shape", model([node("Relu", ["x"])], inputs=[helper.make_tensor_value_info("x", TensorProto.FLOAT, None)]))
    recursive = helper.make_function("local", "F", ["a"], ["b"], [helper.make_node("F", ["a"], ["b"], domain="local")], [helper.make_opsetid("local", 1)])
    case("local functions call each other more than 16 deep", model([node("F", ["x"], domain="local")], functions=[recursive], domains=["local"]))


def operators():
    case("node 'the_Reshape' (Reshape): cannot reshape [batch, 4] to [3, 7]",
         model([node("Reshape", ["x", "s"])], [numpy_helper.from_array(np.array([3, 7], np.int64), "s")]))
    case("node 'the_Add' (Add): operands do not broadcast: [batch, 4] and [3]\n",  # a number for batch helps nothing
         model([node("Add", ["x", "w"])], [tensor("w", 3)]))
    case("node 'the_MatMul' (MatMul): input [batch, 4] does not end in the weight's 5", model([node("MatMul", ["x", "w"])], [tensor("w", 5, 2)]))
    case("node 'the_Concat' (Concat): [2] does not join [batch, 4] on axis 0", model([node("Concat", ["x", "w"], axis=0)], [tensor("w", 2)]))
    case("node 'the_Softmax' (Softmax): axis 5 is out of range for rank 2", model([node("Softmax", ["x"], axis=5)]))
    case("node 'the_Transpose' (Transpose): perm is not a permutation", model([node("Transpose", ["x"], perm=[0, 0])]))
    case("node 'the_Slice' (Slice): where the slice of axis 0 (size batch) begins or ends is not known",
         model([node("Slice", ["x", "a", "b"])], [numpy_helper.from_array(np.array([v], np.int64), k) for k, v in (("a", 3), ("b", 7))]))
    case("node 'the_Slice' (Slice): starts and ends must be known",
         model([node("Slice", ["x", "i", "i"])], inputs=[X, helper.make_tensor_value_info("i", TensorProto.INT64, [1])]))
    case("node 'the_Dropout' (Dropout): dropout in training form is not handled",
         model([node("Dropout", ["x", "val_1", "t"])], [numpy_helper.from_array(np.float32(0.5), "val_1"), numpy_helper.from_array(np.array(True), "t")]))
    case("node 'the_Neg' (Neg): uses the positions that NonZero 'the_NonZero' finds in data: how many is not known at compile time",
         model([node("NonZero", ["x"], ["z"]), node("Neg", ["z"])]))
    case("finds in a mask of open sizes or of more than 64 Ki elements",
         model([node("Shape", ["x"], ["s"]), node("ConstantOfShape", ["s"], ["o"], value=numpy_helper.from_array(np.ones(1, np.float32))), node("Trilu", ["o"], ["t"]), node("NonZero", ["t"], ["z"]), node("Neg", ["z"])]))
    case("output 'y' has as many elements as a NonZero of data finds places", model([node("NonZero", ["x"])]))
    case("its result's value nonzero.the_NonZero depends on data: how many places a NonZero finds",
         model([node("NonZero", ["x"], ["z"]), node("Shape", ["z"])]))
    case("finds in a mask of open sizes or of more than 64 Ki elements",
         model([node("NonZero", ["m"], ["z"]), node("Neg", ["z"])], [numpy_helper.from_array(np.random.default_rng(1).random((300, 300)) < 0.5, "m")]))
    case("node 'the_Resize' (Resize): axis 2: resizing 5 to 0: sizes must be positive",
         model([node("Resize", ["x", "", "", "s"])], [numpy_helper.from_array(np.array([1, 2, 0, 5], np.int64), "s")], inputs=[helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 5, 5])]))
    images = lambda *dims: [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(dims))]
    case("axis 2: the window of 8 is larger than the padded input of 5 and a stride of 2",
         model([node("AveragePool", ["x"], kernel_shape=[8, 1], strides=[2, 1], ceil_mode=1)], inputs=images(1, 2, 5, 5)))
    case("axis 3: the window of 7 is larger than the padded input of 6",
         model([node("MaxPool", ["x"], kernel_shape=[2, 7], pads=[0, 0, 0, 1])], inputs=images(1, 2, 5, 5)))
    grid = lambda n, *sizes: helper.make_tensor_value_info("g", TensorProto.FLOAT, [n, *sizes])
    case("node 'the_GridSample' (GridSample): needs an input [n, c, sizes...] and a grid [n, places..., coordinates] of 1 to 3 axes, got [4, 2, 5, 5] and [3, 6, 6, 2]",
         model([node("GridSample", ["x", "g"])], inputs=[*images(4, 2, 5, 5), grid(3, 6, 6, 2)]))
    case("axis 3 (width) must be bound to a number", model([node("GridSample", ["x", "g"])], inputs=[*images(4, 2, 5, "width"), grid(4, 6, 6, 2)]))
    case("axis 2 (0) must be bound to a number from 1", model([node("GridSample", ["x", "g"])], inputs=[*images(4, 2, 0, 5), grid(4, 6, 6, 2)]))
    case("mode 'area' is none of linear, nearest, cubic", model([node("GridSample", ["x", "g"], mode="area")], inputs=[*images(4, 2, 5, 5), grid(4, 6, 6, 2)]))
    case("padding_mode 'wrap' is none of zeros, border, reflection", model([node("GridSample", ["x", "g"], padding_mode="wrap")], inputs=[*images(4, 2, 5, 5), grid(4, 6, 6, 2)]))
    case("reduction 'mean' is none of none, add, mul, max, min",
         model([node("ScatterElements", ["x", "i", "x"], reduction="mean")], inputs=[X, helper.make_tensor_value_info("i", TensorProto.INT64, ["batch", 4])]))
    case("node 'the_Gather' (Gather): indices must be integers", model([node("Gather", ["x", "val_1"])], [tensor("val_1", 2)]))
    for k, axis, message in ((2, 0, "takes 2 of batch elements along axis 0: both must be numbers, or equal"), (5, -1, "K is 5, but axis 1 has 4 elements"), (-1, 1, "K is -1, but")):
        case(f"node 'the_TopK' (TopK): {message}", model([node("TopK", ["x", "k"], ["y", "i"], axis=axis)], [numpy_helper.from_array(np.array([k], np.int64), "k")]))
    case("node 'the_TopK' (TopK): K must be known at compile time",
         model([node("TopK", ["x", "k"], ["y", "i"])], inputs=[X, helper.make_tensor_value_info("k", TensorProto.INT64, [1])]))
    case("node 'the_TopK' (TopK): needs numbers",
         model([node("TopK", ["m", "k"], ["y", "i"])], [tensor("k", 1, dtype=np.int64)], inputs=[helper.make_tensor_value_info("m", TensorProto.BOOL, [3])]))
    case("node 'the_GatherND' (GatherND): data [batch, 4] and indices [2, 1] must share their first dims (batch_dims is 1)",
         model([node("GatherND", ["x", "i"], batch_dims=1)], [tensor("i", 2, 1, dtype=np.int64)]))
    case("node 'the_GatherElements' (GatherElements): indices [2, 3] do not lie inside [batch, 4] on axis 0",
         model([node("GatherElements", ["x", "i"], axis=1)], [numpy_helper.from_array(np.zeros((2, 3), np.int64), "i")]))
    case("node 'the_LayerNormalization' (LayerNormalization): its outputs Mean",
         model([node("LayerNormalization", ["x", "w"], ["y", "m"])], [tensor("w", 4)], outputs=["y", "m"]))
    case("node 'the_Relu' (Relu): input 0 is missing", model([node("Relu", [])]))
    deep = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 2, 2])
    case("node 'the_SpaceToDepth' (SpaceToDepth): attribute 'mode' is not handled",
         model([node("SpaceToDepth", ["x"], blocksize=1, mode="CRD")], inputs=[deep], opset=99))
    small = TensorProto(name="w", data_type=TensorProto.FLOAT8E4M3FN, dims=[4, 4], raw_data=bytes(16))
    case("tensor 'w' has element type float8e4m3fn, which is not handled", model([node("MatMul", ["x", "w"])], [small]))
    case("tensor 'w' has element type int4, which is not handled", model([node("MatMul", ["x", "w"])], [TensorProto(name="w", data_type=TensorProto.INT4, dims=[4, 4], raw_data=bytes(8))]))
    case("node 'the_Cast' (Cast): cannot cast to float8e5m2", model([node("Cast", ["x"], to=TensorProto.FLOAT8E5M2)]))
    case("node 'the_MatMul': its input is float64, in which products are not computed; export the model in float32 (PyTorch: model.float())",
         model([node("MatMul", ["x", "w"])], [tensor("w", 4, 4, dtype=np.float64)], inputs=[helper.make_tensor_value_info("x", TensorProto.DOUBLE, ["batch", 4])]))
    chunks = [node("Shape", ["x"], ["s"]), node("Gather", ["s", "one"], ["l"]), node("Div", ["l", "chunk"], ["c"]), node("Concat", ["minus", "c", "chunk"], ["t"], axis=0), node("Reshape", ["x", "t"])]
    parts = [ids("one", 1), ids("chunk", 4), ids("minus", -1)]
    case("node 'the_Reshape' (Reshape): shape must be known at compile time (as numbers and sizes); with a number for 'seq' it is handled: --dims=seq=NUMBER, in a recipe \"dims\"",
         model(chunks, parts, inputs=[helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "seq"])]))
    for equation, shapes, message in (("ij,jk->ik", [[2, 3], [4, 5]], "label 'j' has the sizes 3 and 4: expected equal ones, or 1"),
                                      ("ii->i", [[2, 3]], "label 'i' stands twice in an operand, for axes of sizes 2 and 3: expected one number"),
                                      ("ii->i", [["n", "n"]], "label 'i' stands twice in an operand, for axes of sizes n and n: expected one number"),
                                      ("ijk->i", [[2, 3]], "equation 'ijk->i': 'ijk' does not name the 2 axes of input 0 (a letter each; ... stands for up to 10)"),
                                      ("...i...->i", [[2, 3]], "equation '...i...->i': '...i...' does not name the 2 axes of input 0"),
                                      ("ij->ik", [[2, 3]], "equation 'ij->ik' has an impossible result"), ("ij->ii", [[2, 3]], "equation 'ij->ii' has an impossible result"), ("ij->i.", [[2, 3]], "equation 'ij->i.' has an impossible result")):
        case(f"node 'the_Einsum' (Einsum): {message}", model([node("Einsum", [f"x{i}" for i in range(len(shapes))], equation=equation)],
                                                             inputs=[helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, s) for i, s in enumerate(shapes)]))
    whole = helper.make_tensor_value_info("x", TensorProto.INT64, ["batch", 4])
    case("node 'the_IsInf' (IsInf): needs a tensor of floats: no integer is inf",
         model([node("IsInf", ["x"], detect_negative=0)], inputs=[whole]))


def ids(name, *values):
    return numpy_helper.from_array(np.array(values, np.int64), name)


def indices():
    """Indices that are known and outside of what they index."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [40, 4])
    count = [node("Shape", ["x"], ["shape"]), node("Gather", ["shape", "zero"], ["n"]), node("Range", ["zero", "n", "one"], ["i"])]
    numbers = [numpy_helper.from_array(np.array(v, np.int64), k) for k, v in (("zero", 0), ("one", 1))]
    for n in count:
        n.name = f"count_{n.op_type}"
    case("node 'the_Gather' (Gather): index 16 (element 16 of the indices) is outside of axis 0 of 'w', which has 16 elements",
         model([*count, node("Gather", ["w", "i"])], [tensor("w", 16, 4), *numbers], inputs=[x]))
    case("node 'the_Gather' (Gather): index -5 (element 1 of the indices) is outside of axis 1 of 'x', which has 4 elements",
         model([node("Gather", ["x", "i"], axis=1)], [ids("i", -4, -5)]))
    case("node 'the_Gather' (Gather): all indices are outside of axis 0 of 'w', which has 2 elements",
         model([*count, node("Add", ["i", "two"], ["j"]), node("Gather", ["w", "j"])], [tensor("w", 2, 4), ids("two", 2), *numbers]))
    case("node 'the_GatherElements' (GatherElements): index 4 (element 0 of the indices) is outside of axis 1 of 'x', which has 4 elements",
         model([node("GatherElements", ["x", "i"], axis=1)], [numpy_helper.from_array(np.array([[4, 0]], np.int64), "i")]))
    case("node 'the_GatherND' (GatherND): index 3 (element 3 of the indices) is outside of axis 1 of 'w', which has 3 elements",
         model([node("GatherND", ["w", "i"], ["z"]), node("Add", ["x", "z"])], [tensor("w", 5, 3, 4), numpy_helper.from_array(np.array([[4, 2], [0, 3]], np.int64), "i")]))
    case("node 'the_ScatterND' (ScatterND): index 5 (element 0 of the indices) is outside of axis 0 of 'w', which has 5 elements",
         model([node("ScatterND", ["w", "i", "u"], ["z"]), node("Add", ["x", "z"])], [tensor("w", 5, 4), numpy_helper.from_array(np.array([[5]], np.int64), "i"), tensor("u", 1, 4)]))
    case("node 'the_ScatterElements' (ScatterElements): index 4 (element 0 of the indices) is outside of axis 1 of 'w', which has 4 elements",
         model([node("ScatterElements", ["w", "i", "u"], ["z"], axis=1), node("Add", ["x", "z"])], [tensor("w", 1, 4), numpy_helper.from_array(np.array([[4]], np.int64), "i"), tensor("u", 1, 1)]))


def training():
    case("uses 'val_3' [4, 4], a constant that looks like a weight which the exporter folded: only 0 of 16 numbers would train; export the model with models/export",
         model([node("MatMul", ["x", "val_3"])], [tensor("val_3", 4, 4)]))
    case("uses 'onnx::MatMul_7' [4, 4], a constant", model([node("MatMul", ["x", "onnx::MatMul_7"])], [tensor("onnx::MatMul_7", 4, 4)]))
    case("node 'the_MatMul' (MatMul): uses 'val_4' [4, 4], a constant that looks like a weight which the exporter folded (as do 'val_5'): only 4 of 36 numbers would train",
         model([node("MatMul", ["x", "val_4"], ["t"]), node("Gemm", ["t", "val_5", "b"])], [weights("val_4", 4, 4), weights("val_5", 4, 4), weights("b", 4)]))
    older = [helper.make_node("Add", ["x", "b"], ["t"], name="/layers.0/Add"), helper.make_node("Add", ["t", "b"], ["y"], name="/layers.1/Add")]
    case("uses parameter 'b', which node '/layers.0/Add' in layers.0 uses too: the exporter has merged parameters that were equal", model(older, [tensor("b", 4)]))
    for message, proto, _ in folded():
        case(message, proto)
    case("uses parameter 'b', which node 'the_Add' in layers.0 uses too",
         model([node("Add", ["x", "b"], ["t"]), node("Sub", ["t", "b"])], [tensor("b", 4)], scopes=["layers.0", "layers.1"]))


def weights(name, *shape):
    return numpy_helper.from_array(np.random.default_rng(len(name)).normal(size=shape).astype(np.float32), name)


def mark(proto, **kinds):
    """As PyTorch's exporter: what each initializer is stands beside it."""
    for name, kind in kinds.items():
        proto.graph.value_info.add(name=name.replace("__", ".")).metadata_props.add(key=KIND, value=kind)
    return proto


def picture(*shape):
    return helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", *shape])


def folded():
    """(message, graph, numbers that --trainable=* trains): weights in constants, in each way that exporters write them."""
    head = lambda source: helper.make_node("MatMul", [source, "head.weight"], ["y"], name="head")
    norm = [helper.make_node("Conv", ["x", "c.weight", "c.bias"], ["t"], name="conv"), helper.make_node("ReduceMean", ["t", "axes"], ["m"], keepdims=0), head("m")]
    values = [weights("c.weight", 8, 1, 3, 3), weights("c.bias", 8), weights("head.weight", 8, 4), ids("axes", 2, 3)]
    yield ("node 'conv' (Conv): uses 'c.weight' [8, 1, 3, 3], a constant that looks like a weight which the exporter folded (as do 'c.bias'): only 32 of 112 numbers would train",
           mark(model(norm, values, inputs=[picture(1, 6, 6)]), head__weight="PARAMETER"), 112)
    product = [helper.make_node("Gemm", ["x", "mul", "b"], ["t"], name="scaled"), head("t")]
    yield ("node 'scaled' (Gemm): uses 'mul' [4, 6]", mark(model(product, [weights("mul", 4, 6), weights("b", 6), weights("head.weight", 6, 4)]), head__weight="PARAMETER", b="PARAMETER"), 54)
    rows = [helper.make_node("Gather", ["mul", "i"], ["t"], name="embed"), head("t")]
    yield ("node 'embed' (Gather): uses 'mul' [10, 6]", mark(model(rows, [weights("mul", 10, 6), weights("head.weight", 6, 4)],
                                                                  inputs=[helper.make_tensor_value_info("i", TensorProto.INT64, ["batch", 5])]), head__weight="PARAMETER"), 84)
    zero = numpy_helper.from_array(np.zeros((4, 6), np.float32), "val_1")  # a layer that starts at zero
    yield ("uses 'val_1' [4, 6]", model([helper.make_node("MatMul", ["x", "val_1"], ["t"], name="zero"), head("t")], [zero, weights("head.weight", 6, 4)]), 48)
    turned = [helper.make_node("Constant", [], ["k"], value=weights("", 6, 4)), helper.make_node("Transpose", ["k"], ["kt"], perm=[1, 0]), helper.make_node("MatMul", ["x", "kt"], ["t"], name="hidden"), head("t")]
    yield ("node 'hidden' (MatMul): uses 'k' [6, 4]", model(turned, [weights("head.weight", 6, 4)]), 24)  # a node's value cannot train


def tables():
    """(graph, numbers that train): constants beside weights that are no weights."""
    angles = np.arange(12)[:, None] * 10.0 ** -np.arange(6)
    t = np.arange(16)
    transform = np.cos(np.pi / 16 * (t[:, None] + 0.5) * t)
    mask = np.where(np.arange(16)[:, None] // 4 == np.arange(16) // 4, 0, -100).reshape(1, 1, 16, 16)
    colours = np.array([[0.299, 0.587, 0.114], [-0.169, -0.331, 0.5], [0.5, -0.419, -0.081]])
    wide = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 16])
    rows = helper.make_tensor_value_info("i", TensorProto.INT64, ["batch", 5])
    array = lambda name, value: numpy_helper.from_array(np.asarray(value, np.float32), name)
    head = lambda n: ([helper.make_node("MatMul", ["t", "head.weight"], ["y"])], [weights("head.weight", n, 4)])

    def graph(first, value, width, **arguments):
        nodes, values = head(width)
        return mark(model([*first, *nodes], [*values, *([value] if value else [])], **arguments), head__weight="PARAMETER"), 4 * width

    yield graph([helper.make_node("Gather", ["angles", "i"], ["s"]), helper.make_node("Sin", ["s"], ["t"])], array("angles", angles), 6, inputs=[rows])
    yield graph([helper.make_node("Gather", ["cos", "i"], ["t"])], array("cos", np.cos(angles)), 6, inputs=[rows])
    yield graph([helper.make_node("MatMul", ["x", "val_1"], ["t"])], array("val_1", transform), 16, inputs=[wide])
    yield graph([helper.make_node("MatMul", ["x", "tril"], ["t"])], array("tril", np.tril(np.ones((16, 16)))), 16, inputs=[wide])
    yield graph([helper.make_node("Add", ["x", "mask"], ["t"])], array("mask", mask), 16, inputs=[picture(1, 16, 16)])
    yield graph([helper.make_node("MatMul", ["x", "clone"], ["t"])], array("clone", colours), 3, inputs=[picture(3)])
    yield graph([helper.make_node("Constant", [], ["c"], value=array("", colours)), helper.make_node("MatMul", ["x", "c"], ["t"])], None, 3, inputs=[picture(3)])
    blur = np.broadcast_to(np.outer([1, 2, 1], [1, 2, 1]) / 16, (5, 1, 3, 3))
    yield graph([helper.make_node("Conv", ["x", "blur"], ["t"], group=5)], array("blur", blur), 4, inputs=[picture(5, 6, 6)])


def trains(tool, folder):
    """What is taken as a weight, and what --trainable makes of it."""
    failures = 0
    path = folder / "weights.onnx"

    def expect(proto, numbers, *options):
        nonlocal failures
        path.write_bytes(proto.SerializeToString())
        done = run(tool, path, *options)
        if not done.stdout.startswith(f"trainable {numbers} "):
            failures += 1
            print(f"wanted: trainable {numbers}\n  got ({done.returncode}): {done.stdout}{done.stderr.strip()[:400]}")

    for _, proto, numbers in folded():
        expect(proto, numbers, "--trainable=*")
        expect(proto, [len(t.raw_data) // 4 for t in proto.graph.initializer if t.name == "head.weight"][0], "--trainable=head.*")
    for proto, numbers in tables():
        expect(proto, numbers)
        expect(proto, numbers, "--trainable=head.*")
    # A plain tensor of the module that is too large for a literal: neither trained nor counted among weights.
    large = mark(model([node("MatMul", ["x", "k"], ["t"]), node("MatMul", ["t", "head.weight"])], [weights("k", 300, 300), weights("head.weight", 300, 4)],
                       inputs=[picture(300)]), head__weight="PARAMETER", k="CONSTANT_TENSOR")
    expect(large, 1200)
    if "nn.parameter @k : tensor<300x300xf32> buffer from" not in subprocess.run([tool, path], capture_output=True, text=True, timeout=600).stdout:
        failures += 1
        print("a plain tensor of the module is no buffer")
    done = run(tool, path, "--trainable=haed.*")
    if done.returncode != 1 or f"{path}: no weight matches 'haed.*' (trainable); there are " not in done.stderr:
        failures += 1
        print(f"a pattern without a match: {done.returncode}, {done.stderr.strip()}")
    return failures


def remarks(tool, folder):
    """What is imported but said."""
    tied = model([node("Gather", ["w", "i"], ["e"]), node("MatMul", ["e", "w"])], [tensor("w", 4, 4)], scopes=["embed", "head"],
                 inputs=[helper.make_tensor_value_info("i", TensorProto.INT64, ["n"])])
    statistics = [tensor(n, 4) for n in ("s", "b", "mean", "var")]
    norm = model([node("BatchNormalization", ["x", "s", "b", "mean", "var"])], statistics)
    bias = model([node("Add", ["x", "b"], ["t"]), node("Sub", ["t", "b"])], [tensor("b", 4)], scopes=["layers.0", "layers.1"])
    bias.graph.value_info.add(name="b").metadata_props.add(key="distrain.shared", value="True")
    failures = 0
    for proto, message in ((bias, "parameter 'b' is taken as tied: used by 'the_Add' (Add, in layers.0) and 'the_Sub' (Sub, in layers.1)"), (tied, "parameter 'w' is taken as tied: used by 'the_Gather' (Gather, in embed) and 'the_MatMul' (MatMul, in head)"),
                           (norm, "scale and bias are parameters, the statistics stay as they are")):
        path = folder / "remark.onnx"
        path.write_bytes(proto.SerializeToString())
        done = run(tool, path)
        if done.returncode or done.stderr.count("remark:") != 1 or message not in done.stderr:
            failures += 1
            print(f"wanted: {message}\n  got ({done.returncode}): {done.stderr.strip()[:300]}")
    return failures


def unsorted(tool, folder):
    """Nodes before what they use: the same graph, and one line that says so."""
    product, relu, neg = node("MatMul", ["x", "w"], ["h"]), node("Relu", ["h"], ["r"]), node("Neg", ["r"])
    branch = lambda *nodes: helper.make_graph(list(nodes), "b", [], [helper.make_empty_tensor_value_info("t")])
    late = [node("Cos", ["s"], ["t"]), node("Sin", ["x"], ["s"])]
    choice = lambda *nodes: [node("If", ["yes"], then_branch=branch(*nodes), else_branch=branch(*nodes))]
    yes = numpy_helper.from_array(np.array(True), "yes")
    failures = 0
    path = folder / "unsorted.onnx"
    for wrong, right, values, message in (
            ([neg, relu, product], [product, relu, neg], [tensor("w", 4, 4)], "node 'the_Neg' (Neg) uses 'r', which node 'the_Relu' (Relu) makes after it"),
            (choice(*late), choice(*late[::-1]), [yes], "node 'the_Cos' (Cos) uses 's', which node 'the_Sin' (Sin) makes after it")):
        out = []
        for nodes in (wrong, right):
            path.write_bytes(model(nodes, values).SerializeToString())
            out.append(subprocess.run([tool, path], capture_output=True, text=True, timeout=600))
        wanted = f"warning: {path}: nodes are not in order, which ONNX demands and other tools refuse ({message}); they are sorted here\n"
        if any(done.returncode for done in out) or out[0].stdout != out[1].stdout or wanted not in out[0].stderr or "not in order" in out[1].stderr:
            failures += 1
            print(f"wanted: {wanted}\n  got ({out[0].returncode}): {out[0].stderr.strip()[:400]}")
    return failures


def run(tool, path, *options):
    return subprocess.run([tool, "--summary", str(path), *options], capture_output=True, text=True, timeout=600, errors="replace")


def damage(tool, folder):
    """Cut and altered files: an error or a model, never a crash."""
    good = model([node("MatMul", ["x", "w"], ["t"]), node("Reshape", ["t", "s"], ["r"]), node("Softmax", ["r"])],
                 [tensor("w", 4, 6), numpy_helper.from_array(np.array([-1, 2, 3], np.int64), "s")]).SerializeToString()
    path = folder / "damaged.onnx"
    chance = random.Random(3)
    failures = 0
    for k in range(120):
        data = bytearray(good)
        if k % 3 == 0:
            data = data[:chance.randrange(len(data))]
        else:
            for _ in range(chance.randrange(1, 4)):
                data[chance.randrange(len(data))] = chance.randrange(256)
        path.write_bytes(bytes(data))
        done = run(tool, path)
        if done.returncode not in (0, 1) or (done.returncode == 1 and done.stderr.count("error:") != 1):
            failures += 1
            print(f"damaged file {k}: exit code {done.returncode}: {done.stderr[:300]}")
            (folder.parent / f"damaged-{k}.onnx").write_bytes(bytes(data))
    return failures


def main():
    tool = sys.argv[1]
    for family in (files, graphs, operators, indices, training):
        family()
    failures = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for message, data in CASES:
            path = folder / "bad.onnx"
            path.write_bytes(data)
            done = run(tool, path)
            errors = [line for line in done.stderr.splitlines(keepends=True) if "error:" in line]
            if done.returncode != 1 or len(errors) != 1 or f"{path}: " not in errors[0] or message not in errors[0]:
                failures += 1
                print(f"wanted: {message}\n  got ({done.returncode}): {done.stderr.strip()[:300]}")
        failures += trains(tool, folder) + remarks(tool, folder) + unsorted(tool, folder)
        failures += damage(tool, folder)
    print(f"{len(CASES)} cases, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
