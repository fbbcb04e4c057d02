# ===- adapters.py - what trained beside the folder's weights -----------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# The program exports adapters under the names of the graph. They leave as PEFT's
# files, which PEFT and others load beside the folder, or added to its weights.
# ===-----------------------------------------------------------------------===
"""Adapters(exported, network, lora): of the recipe's `lora`; save(target); merged(name, weight)."""

import json
import shutil

import safetensors.torch
import torch

FILE = "adapters.safetensors"  # beside the exported graphs
PEFT = "base_model.model."


class Adapters:
    def __init__(self, exported, network, lora):
        self.network, self.rank, self.alpha = network, lora["rank"], lora.get("alpha", lora["rank"])
        # module.layer.lora_A.weight -> layer.lora_A.weight
        self.tensors = {name.partition(".")[2]: value for name, value in safetensors.torch.load_file(exported / FILE).items()}

    def layers(self):
        return sorted(self._library(name).removesuffix(".lora_A.weight") for name in self.tensors if name.endswith(".lora_A.weight"))

    def merged(self, name, weight):
        """The folder's weight [out, in] with what trained beside it, or as it is; in its own type."""
        a, b = (self.tensors.get(f"{name.removesuffix('.weight')}.lora_{part}.weight") for part in "AB")
        if a is None:
            return weight
        return (weight.double() + self.alpha / self.rank * b.double() @ a.double()).to(weight.dtype)

    def _library(self, name):
        """As PEFT looks for it: by the library's names of layers."""
        layer, _, rest = name.rpartition(".lora_")
        return self.network.library_name(f"{layer}.weight").removesuffix(".weight") + f".lora_{rest}"

    def save(self, target):
        made = target.with_name(target.name + ".tmp")
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True)
        tensors = {PEFT + self._library(name): value.to(torch.float32).contiguous() for name, value in self.tensors.items()}
        safetensors.torch.save_file(tensors, made / "adapter_model.safetensors", {"format": "pt"})
        (made / "adapter_config.json").write_text(json.dumps(self.config(), indent=2) + "\n")
        shutil.rmtree(target, ignore_errors=True)
        made.rename(target)

    def config(self):
        """Layers by their whole names, since a pattern of ours is none of PEFT's. What PEFT does for a task is to give the network `input_ids`, which one that hears has not."""
        task = None if self.network.folder.config.is_encoder_decoder else "CAUSAL_LM"
        return {
            "peft_type": "LORA", "task_type": task, "base_model_name_or_path": str(self.network.folder.path), "inference_mode": True,
            "r": self.rank, "lora_alpha": self.alpha, "lora_dropout": 0.0, "target_modules": self.layers(), "bias": "none", "fan_in_fan_out": False, "modules_to_save": None,
        }  # fmt: skip
