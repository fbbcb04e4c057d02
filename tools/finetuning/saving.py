# ===- saving.py - the trained model as a Hugging Face folder -----------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# The folder as it was, with other numbers: the same files of weights, names and
# types, and everything beside them. The program's export has the numbers, one
# initializer a weight. A weight that does not train is the folder's own: a program
# may hold it in fewer bits.
# ===-----------------------------------------------------------------------===
"""save(network, exported, trained, target, adapters): writes the folder at once, or not at all; trained_names(checkpoint)."""

import re
import shutil

import onnx
import safetensors.torch
import torch
from onnx import numpy_helper

from .errors import Failure
from .merging import KINDS, Reader

MOMENT = re.compile(r"(?:exp_avg|momentum|momentum_buffer|row_var|variance)\.(.*?)(?:\[\d+\])?")  # a piece of a weight has a number
# Weights in other forms, of which the trained ones are no copy.
OTHERS = {".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx", ".ot"}


class Trained:
    """The weights that train, by the folder's names, as the program's graphs have them."""

    def __init__(self, exported, network, trained):
        self.base, self.tensors = str(exported), {}
        for module, weights in network.all_keys().items():
            path = exported / f"{module}.onnx"
            held = {t.name: t for t in onnx.load(path, load_external_data=False).graph.initializer}
            for name, keys in weights.items():
                if f"{module}.{name}" not in trained:
                    continue
                if name not in held:
                    raise Failure(f"{path}: no values of '{name}'")
                self.tensors |= {key: held[name] for key in keys}

    def __contains__(self, name):
        return name in self.tensors

    def __getitem__(self, name):
        return torch.from_numpy(numpy_helper.to_array(self.tensors[name], self.base).copy())


def trained_names(checkpoint):
    """Those parameters, "module.name", that an optimizer has moments of; of one without moments all."""
    keys = set()
    for path in checkpoint.glob("rank-*.safetensors"):
        with safetensors.safe_open(path, "pt") as file:
            keys |= set(file.keys())
    moments = {match[1] for key in keys if (match := MOMENT.fullmatch(key))}
    return moments or {re.sub(r"\[\d+\]$", "", key) for key in keys}


def save(network, exported, trained, target, adapters=None):
    """`adapters`: to be added to the weights that they stand beside."""
    folder, trained = network.folder, Trained(exported, network, trained)
    made = target.with_name(target.name + ".tmp")
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(parents=True)
    for path in sorted(folder.path.iterdir()):
        index = path.name.endswith(".index.json") and path != folder.source
        if path.is_file() and path.suffix not in OTHERS and not path.name.startswith(".") and not index:
            shutil.copy(path, made / path.name)
    for file in sorted({w.file for w in folder.weights.values()}):
        safetensors.torch.save_file(_tensors(network, trained, file, adapters), made / file, {"format": "pt"})
    shutil.rmtree(target, ignore_errors=True)
    made.rename(target)


def _tensors(network, trained, file, adapters):
    """Of one file. What does not train, and what the network does not have, stays as it is."""
    tensors, folder = {}, network.folder
    with Reader(folder) as before:
        for name, weight in folder.weights.items():
            if weight.file != file or name in tensors:
                continue
            if (parts := network.merging.back(name, trained, before)) is not None:
                tensors |= {n: v.contiguous() for n, v in parts.items() if folder.weights[n].file == file}
                continue
            tensors[name] = trained[name].to(KINDS[weight.kind]).contiguous() if name in trained else before(name)
            if adapters:
                tensors[name] = adapters.merged(name, tensors[name]).contiguous()
    return tensors
