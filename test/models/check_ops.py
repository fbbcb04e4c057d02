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

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
    from onnx.reference import ReferenceEvaluator
except ImportError:
    sys.exit(77)

from interpret import Interpreter
from op_case import CASES
from op_cases_grids import filters, grid_samples, resizes, scaled_resizes
from op_cases_math import control, elementwise, inverses, losses, norms, powers, reductions, whole_numbers
from op_cases_places import gathers, indexing, scatter_kinds, shapes, slices, static_masks, top_k
from op_cases_products import attention, convolutions, empty_rows, products, wide_windows

# In this order, which random data depend on: what is new stands last.
FAMILIES = [elementwise, products, convolutions, norms, shapes, slices, reductions, indexing, resizes, losses, attention, control,
            powers, whole_numbers, top_k, gathers, scaled_resizes, empty_rows, inverses, wide_windows, scatter_kinds, filters, grid_samples, static_masks]
NARROW = (TensorProto.BFLOAT16, TensorProto.FLOAT16)


def make_all(without=()):
    for family in FAMILIES:
        if family not in without:
            family()
    return CASES


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
    make_all()
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
