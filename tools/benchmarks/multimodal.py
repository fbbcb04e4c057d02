# ===- multimodal.py - a 72B multimodal model without weights -------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# ViT-Huge, Llama 3 70B and Stable Diffusion 2.1's UNet (test/models/large) as
# one recipe: images go into the tokens at `image_positions`, last hidden states
# condition the UNet, each by a projection (DistTrain's MLLM-72B is of these).
# ===-----------------------------------------------------------------------===
"""The networks of test/models/large, joined to a model of images and texts."""

import json
import pathlib

import numpy
import onnx
from large import unpack
from onnx import TensorProto, helper, numpy_helper

WEIGHTS = "*.{weight,bias,cls_token,position_embeddings}"
TOKENS, PATCHES, WIDTH, HIDDEN, CONDITION = 8192, 257, 1280, 8192, 1024


def add_weight(graph, name, *shape):
    """Without values, as all of these graphs' weights, and with PyTorch's mark."""
    tensor = TensorProto(name=name, dims=shape, data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="weights.bin")
    graph.initializer.append(tensor)
    value = helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    value.metadata_props.add(key="pkg.torch.export.graph_signature.InputSpec.kind", value="PARAMETER")
    graph.value_info.append(value)


def constant(name, *values):
    return numpy_helper.from_array(numpy.array(values, numpy.int64), name)


def replace_uses(graph, old, new):
    for node in graph.node:
        for i, name in enumerate(node.input):
            if name == old:
                node.input[i] = new


def rename_batch(graph, name):
    for value in (*graph.input, *graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param == "batch":
                dim.dim_param = name


def project_images(graph):
    """Images in, rows of the text model's width out."""
    rename_batch(graph, "images")
    add_weight(graph, "projection.weight", WIDTH, HIDDEN)
    graph.node.append(helper.make_node("MatMul", [graph.output[0].name, "projection.weight"], ["image_embeds"]))
    graph.output.pop()
    graph.output.append(helper.make_tensor_value_info("image_embeds", TensorProto.FLOAT, ["images", PATCHES, HIDDEN]))


def take_images(graph):
    """Rows of images in place of those of the tokens at `image_positions`."""
    at, embedding = next((i, node.output[0]) for i, node in enumerate(graph.node) if node.op_type == "Gather" and node.input[1] == "input_ids")
    replace_uses(graph, embedding, "merged")
    graph.input.append(helper.make_tensor_value_info("image_embeds", TensorProto.FLOAT, ["images", PATCHES, HIDDEN]))
    graph.input.append(helper.make_tensor_value_info("image_positions", TensorProto.INT64, ["images", PATCHES]))
    graph.initializer.extend([constant("rows", -1, HIDDEN), constant("places", -1, 1)])
    merged = [
        helper.make_node("Reshape", [embedding, "rows"], ["token_rows"]),
        helper.make_node("Reshape", ["image_positions", "places"], ["image_places"]),
        helper.make_node("Reshape", ["image_embeds", "rows"], ["image_rows"]),
        helper.make_node("ScatterND", ["token_rows", "image_places", "image_rows"], ["merged_rows"]),
        helper.make_node("Shape", [embedding], ["token_shape"]),
        helper.make_node("Reshape", ["merged_rows", "token_shape"], ["merged"]),
    ]
    for node in reversed(merged):
        graph.node.insert(at + 1, node)
    head = next(node for node in graph.node if node.output[0] == "logits")
    graph.node.insert(len(graph.node) - 1, helper.make_node("Identity", [head.input[0]], ["last_hidden_state"]))
    graph.output.append(helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "seq", HIDDEN]))


def take_text(graph):
    """Conditioned on hidden states of the text model."""
    replace_uses(graph, "encoder_hidden_states", "condition")
    graph.input.remove(next(value for value in graph.input if value.name == "encoder_hidden_states"))
    graph.input.append(helper.make_tensor_value_info("hidden_states", TensorProto.FLOAT, ["batch", "seq", HIDDEN]))
    add_weight(graph, "condition.weight", HIDDEN, CONDITION)
    graph.node.insert(0, helper.make_node("MatMul", ["hidden_states", "condition.weight"], ["condition"]))


PARTS = {"vision": ("vit_huge", project_images), "llm": ("llama3_70b", take_images), "generator": ("sd21_unet", take_text)}


def write(folder, samples, images=2):
    """Writes graphs and the recipe of a step of `samples` with at most `images` each; returns the recipe's path."""
    folder = pathlib.Path(folder)
    for name, (network, change) in PARTS.items():
        model = onnx.load(unpack(network, folder), load_external_data=False)
        # Shapes of before the change; marks of weights stay.
        weights = {tensor.name for tensor in model.graph.initializer}
        marks = [value for value in model.graph.value_info if value.name in weights]
        del model.graph.value_info[:]
        model.graph.value_info.extend(marks)
        change(model.graph)
        (folder / f"{name}.onnx").write_bytes(model.SerializeToString())
    recipe = {
        "modules": {name: {"onnx": f"{name}.onnx", "init": [{"pattern": WEIGHTS, "rule": "normal(0,0.02)"}]} for name in PARTS},
        "items": {"image": {"of": "sample", "max": images}},
        "dims": {"batch": "sample", "images": "image", "seq": TOKENS},
        "inputs": {"llm.image_positions": {"index": ["sample", "token"], "of": "image", "width": PATCHES}},
        "connections": {"llm.image_embeds": "vision.image_embeds", "generator.hidden_states": "llm.last_hidden_state"},
        "losses": [
            {"name": "text", "kind": "cross_entropy", "logits": "llm.logits", "labels": "labels", "ignore_index": -100, "weight": 1},
            {"name": "noise", "kind": "mse", "output": "generator.noise_pred", "target": "noise", "weight": 1},
        ],
        "precision": "bf16",
        "batch": {"global": samples},
    }
    path = folder / "recipe.json"
    path.write_text(json.dumps(recipe, indent=2))
    return path
