# words.py FOLDER NUMBER OUT: a language model's recipe and graph with another number of words, all weights of which are 0.
"""Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception"""

import pathlib
import shutil
import sys

import onnx

folder, number, out = pathlib.Path(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
out.mkdir(parents=True, exist_ok=True)
shutil.copy(folder / "recipe.json", out)
model = onnx.load(folder / "model.onnx", load_external_data=False)
logits = model.graph.output[0].type.tensor_type.shape.dim[-1]
weights = {tensor.name: tensor for tensor in model.graph.initializer}
for tensor in weights.values():
    if tensor.dims[:1] == [logits.dim_value] and tensor.name.endswith(("wte.weight", "embed_tokens.weight", "lm_head.weight")):
        tensor.dims[0] = number
        tensor.raw_data = bytes(4 * number * tensor.dims[1])
logits.dim_value = number
# What a weight is stays; other values' shapes follow from it.
for value in list(model.graph.value_info):
    if value.name not in weights:
        model.graph.value_info.remove(value)
    elif value.type.tensor_type.shape.dim[:] and list(weights[value.name].dims)[:1] == [number]:
        value.type.tensor_type.shape.dim[0].dim_value = number
onnx.save(model, out / "model.onnx")
