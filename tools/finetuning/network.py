# ===- network.py - the folder's network as a graph ---------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# The library's own class on the meta device: a graph needs shapes, and the values
# of tables (rotary frequencies). Weights come from the folder when the program
# starts. What a network cannot do yet is said before anything is exported.
# ===-----------------------------------------------------------------------===
"""check(folder): refuses other families; make(folder): the network; write(net, path): its graph."""

import contextlib
import fnmatch
import re

import torch
from torch import nn

from export import ExportError, export
from export.packing import Packed

from .errors import Failure, one_line
from .folder import FLOATS

# model_type -> class of transformers.
FAMILIES = {"llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM", "phi3": "Phi3ForCausalLM", "gemma3_text": "Gemma3ForCausalLM"}
KNOWN = "Llama, Mistral, Qwen2, Qwen2.5, Qwen3, Phi-3, Gemma 3 (text)"
MISSING = {
    "qwen3_moe": "a mixture of experts", "mixtral": "a mixture of experts", "gemma3": "its pictures", "smolvlm": "its pictures", "idefics3": "its pictures", "llava": "its pictures", "paligemma": "its pictures",
    "internvl": "its pictures", "qwen2_vl": "its pictures", "qwen2_5_vl": "its pictures", "qwen3_vl": "its pictures", "whisper": "its sound",
}  # fmt: skip
# Tables of frequencies that are the same for texts of any length.
ROTARY = {"default", "linear", "llama3", "yarn"}
PREFIX = "net."  # of names in the graph: Packed holds the network so


def check(folder):
    config, where = folder.config, folder.path
    kind = config.model_type
    if kind not in FAMILIES:
        missing = f" ({MISSING[kind]})" if kind in MISSING else ""
        raise Failure(f"{where}: the family '{kind}' is not there yet{missing}; there are {KNOWN}")
    if getattr(config, "quantization_config", None):
        raise Failure(f"{where}: quantized weights are not there yet")
    if getattr(config, "use_bidirectional_attention", False):
        raise Failure(f"{where}: attention to later tokens (use_bidirectional_attention) is not there yet")
    if getattr(config, "attn_logit_softcapping", None):
        raise Failure(f"{where}: attn_logit_softcapping is not there yet")
    for rope in _rotary(config):
        if rope not in ROTARY:
            raise Failure(f"{where}: rotary tables of type '{rope}' are not there yet (known: {', '.join(sorted(ROTARY))})")


def _rotary(config):
    parameters = getattr(config, "rope_parameters", None) or {}
    nested = [p for p in parameters.values() if isinstance(p, dict)]
    return {p.get("rope_type", "default") for p in (nested or [parameters])}


@contextlib.contextmanager
def _parameters_on_meta():
    """Modules that are made keep their tables, and no weight has memory: it is gone before a layer draws it."""
    register = nn.Module.register_parameter

    def put(module, name, parameter):
        if parameter is not None and not parameter.is_meta:
            parameter = nn.Parameter(parameter.to("meta"), requires_grad=parameter.requires_grad)
        register(module, name, parameter)

    nn.Module.register_parameter = put
    try:
        yield
    finally:
        nn.Module.register_parameter = register


def make(folder):
    """(module on the meta device, {buffer: value})."""
    import transformers

    try:
        with _parameters_on_meta():
            net = transformers.AutoModelForCausalLM.from_config(folder.config, dtype=torch.float32, attn_implementation="sdpa")
    except Exception as e:  # of a config whose numbers do not go together
        raise Failure(f"{folder.path}: {one_line(e)}") from None
    module = Packed(net.eval())
    buffers = {name: value.clone() for name, value in module.named_buffers()}
    return module.to("meta"), buffers


def check_weights(folder, module):
    """The folder has each of the network's weights."""
    for name, parameter in module.named_parameters():
        name = name.removeprefix(PREFIX)
        weight = folder.weights.get(name)
        if weight is None:
            raise Failure(f"{folder.source}: no weight '{name}', which the network has")
        if weight.shape != tuple(parameter.shape):
            raise Failure(f"{folder.source}: weight '{name}' has shape {list(weight.shape)}, the network's has {list(parameter.shape)}")
        if weight.kind not in FLOATS:
            raise Failure(f"{folder.source}: weight '{name}' is of type {weight.kind}; known: {', '.join(sorted(FLOATS))}")


def check_patterns(flag, patterns, module):
    names = [name.removeprefix(PREFIX) for name, _ in module.named_parameters()]
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(name, one) for one in _without_braces(pattern) for name in names):
            raise Failure(f"{flag} {pattern}: no weight has such a name (the first is '{names[0]}')")


def _without_braces(pattern):
    found = re.search(r"\{([^{}]*)\}", pattern)
    if not found:
        return [pattern]
    return [p for part in found[1].split(",") for p in _without_braces(pattern[: found.start()] + part + pattern[found.end() :])]


def write(folder, module, buffers, path):
    names = ["input_ids", "position_ids", "segments"]
    try:
        with torch.device("meta"):
            example = tuple(torch.zeros(1, 6, dtype=torch.long) for _ in names)
            export(module, example, path, dynamic_shapes={n: {1: "seq"} for n in names}, input_names=names, output_names=["logits"], weights=False, buffers=buffers)
    except ExportError as e:
        raise Failure(f"{folder.path}: {one_line(e)}") from None
