# ===- text.py - causal language models ----------------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A family says what its network is as graphs, what tensors a step has, and what
# of its settings is not there yet. This one is the base of all others.
# ===-----------------------------------------------------------------------===
"""Text: texts one behind another. Graph: a module to export."""

from dataclasses import dataclass, field

import numpy as np

from ..errors import Failure
from .tensors import Tensor

# Tables of frequencies that are the same for texts of any length.
ROTARY = {"default", "linear", "llama3", "yarn"}

# Text models whose attention the library computes with a cap on scores.
CAPPED = {"gemma2"}


@dataclass
class Graph:
    """A module and its inputs: {name: (example, {axis: dim})}, in the order of its arguments."""

    module: object
    inputs: dict
    outputs: list = field(default_factory=lambda: ["logits"])


class Text:
    KINDS = {}  # kind of items: its measures
    CLASS = "AutoModelForCausalLM"
    SEES_LATER = False  # whether masks of its own say what later tokens a token sees
    tokens = ()  # that stand where items' rows go
    PROMPTS = False  # no template: a prompt and its answer

    def __init__(self, folder):
        self.folder, self.config = folder, folder.config

    @property
    def PARTS(self):
        """What parts of a message may be beside text."""
        return tuple(self.KINDS)

    @property
    def item_measures(self):
        """"KIND.MEASURE" of all kinds of items."""
        return [f"{kind}.{measure}" for kind, measures in self.KINDS.items() for measure in measures]

    # --- the network -----------------------------------------------------------------

    @property
    def text(self):
        """The language model's part of the config."""
        return self.config.get_text_config()

    @property
    def vocabulary(self):
        """Tokens that the network knows."""
        return self.text.vocab_size

    @property
    def longest(self):
        """Tokens that a sample may have."""
        return getattr(self.text, "max_position_embeddings", None) or 2**31 - 1

    def check(self):
        where, config = self.folder.path, self.text
        if getattr(self.config, "quantization_config", None):
            raise Failure(f"{where}: quantized weights are not there yet")
        if not self.SEES_LATER and getattr(config, "use_bidirectional_attention", False):
            raise Failure(f"{where}: attention to later tokens (use_bidirectional_attention) is not there yet")
        if getattr(config, "attn_logit_softcapping", None) and config.model_type not in CAPPED:
            raise Failure(f"{where}: attn_logit_softcapping of '{config.model_type}' is not there yet")
        if getattr(config, "output_router_logits", False):
            raise Failure(f"{where}: the loss of a router (output_router_logits) is not there yet")
        for rope in _rotary(config):
            if rope not in ROTARY:
                raise Failure(f"{where}: rotary tables of type '{rope}' are not there yet (known: {', '.join(sorted(ROTARY))})")

    def graphs(self, net):
        """{module of the recipe: Graph} of the library's network, on the meta device."""
        from export.packing import Packed

        return {"llm": Graph(Packed(net), texts())}

    # --- data ------------------------------------------------------------------------

    def writer(self):
        """What knows the template."""
        return self.folder.tokenizer()

    def tensors(self):
        return {
            "llm.input_ids": Tensor("input_ids"),
            "llm.position_ids": Tensor("positions"),
            "llm.segments": Tensor("segments", numbers=True),
            "labels": Tensor("labels"),
        }

    def read(self, made, counts=()):
        """What the processor has made of a sample's items (None: it has none), as arrays: "KIND.MEASURE" of each item, and what only this family knows."""
        return {}

    def words(self, ids):
        """Those tokens that the network looks up."""
        return ids

    def arrays(self, ids, labels, items):
        """Of a sample. `items`: what read() has made."""
        return plain(ids, labels)

    # --- the recipe ------------------------------------------------------------------

    def recipe(self):
        """Keys beside modules and items."""
        return {"dims": {"seq": "sample.tokens"}}


def plain(ids, labels):
    """Arrays of a sample that is text alone."""
    return {"input_ids": ids, "labels": labels, "segments": np.zeros_like(ids), "positions": np.arange(len(ids))}


def _rotary(config):
    parameters = getattr(config, "rope_parameters", None) or {}
    nested = [p for p in parameters.values() if isinstance(p, dict)]
    return {p.get("rope_type", "default") for p in (nested or [parameters])}


def zeros(*shape, kind="long"):
    """An example; on the device that is the default."""
    import torch

    return torch.zeros(*shape, dtype=getattr(torch, kind))


def texts(axes=()):
    """Inputs of a packed language model; `axes` before those of position_ids."""
    count = len(axes)
    return {"input_ids": (zeros(1, 6), {1: "seq"}), "position_ids": (zeros(*axes, 1, 6), {count + 1: "seq"}), "segments": (zeros(1, 6), {1: "seq"})}
