# ===- writing.py - the graph's file, and its weights -------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Weights are most of a model. From the trace to the file the graph refers to
# them where the module holds them; a file is written one tensor after another.
# ===-----------------------------------------------------------------------===
"""take_weights, write: a graph's parameters apart from it, and both in a file."""

from __future__ import annotations

import onnx
import onnx_ir as ir

KIND = "pkg.torch.export.graph_signature.InputSpec.kind"
WEIGHTS_FILE = "weights.bin"
# Of the model: the external file that is left out on purpose. Without it such a file is one that was lost.
LEFT_OUT = "distrain.left_out"
# Bytes that a protobuf message, and so a file of one, may have; the rest of the graph is far below the difference.
MOST_IN_FILE = 2**31 - 2**26


def take_weights(model):
    """{name: tensor} of the graph's parameters. In the graph they lie in a file from here on, which nobody has written."""
    taken, offset = {}, 0
    for name, value in model.graph.initializers.items():
        if value.metadata_props.get(KIND) != "PARAMETER":
            continue
        tensor = taken[name] = value.const_value
        value.const_value = ir.ExternalTensor(WEIGHTS_FILE, offset, tensor.nbytes, tensor.dtype, shape=ir.Shape(tensor.shape), name=name, base_dir="")
        offset += tensor.nbytes
    return taken


def write(proto, weights, path):
    """Writes `proto`, which take_weights() has left its weights in; None: without them. Afterwards it is what the file has."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if weights is None:
        proto.metadata_props.add(key=LEFT_OUT, value=WEIGHTS_FILE)
    form = onnx.ModelProto()
    form.CopyFrom(proto)
    del form.graph.initializer[:]
    if weights is not None and sum(t.nbytes for t in weights.values()) <= MOST_IN_FILE:
        for tensor in proto.graph.initializer:
            if value := weights.get(name := tensor.name):
                tensor.Clear()
                ir.serde.serialize_tensor_into(tensor, value)
                tensor.name = name
    elif weights is not None:
        _write_beside(proto, weights, path.with_name(path.name + ".data"))
    with path.open("wb") as file:
        _write_message(form, proto.graph.initializer, file)


def _write_beside(proto, weights, path):
    with path.open("wb") as file:
        for tensor in proto.graph.initializer:
            if tensor.name not in weights:
                continue
            place = {"location": path.name, "offset": str(file.tell()), "length": str(weights[tensor.name].nbytes)}
            del tensor.external_data[:]
            for key, value in place.items():
                tensor.external_data.add(key=key, value=value)
            file.write(weights[tensor.name].tobytes())


def _write_message(form, initializers, file):
    """As SerializeToString() has it, one graph field for readers that know but one; initializers go to the file one by one, behind the graph's other fields."""
    graph = form.graph.SerializeToString(deterministic=True)
    number = form.graph.DESCRIPTOR.fields_by_name["initializer"].number
    form.ClearField("graph")
    sizes = [tensor.ByteSize() for tensor in initializers]
    size = len(graph) + sum(len(_head(number, n)) + n for n in sizes)
    file.write(form.SerializeToString(deterministic=True))
    file.write(_head(form.DESCRIPTOR.fields_by_name["graph"].number, size) + graph)
    for tensor, n in zip(initializers, sizes):
        file.write(_head(number, n))
        file.write(tensor.SerializeToString(deterministic=True))


def _head(field, size):
    """Number and length before a field that is a message (protobuf's wire format)."""
    return _varint(field << 3 | 2) + _varint(size)


def _varint(number):
    digits = bytearray()
    while number > 127:
        digits.append(number & 127 | 128)
        number >>= 7
    return bytes([*digits, number])
