# ===- finetune_peft.py - PEFT itself reads the adapters that leave ------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Adapters with drawn numbers are written as tools/finetune --lora writes them, of a
# text model, of the text model of one that sees pictures, and of one that hears.
# PEFT opens each beside its folder without a warning, and the network then has the
# loss of one whose weights have the adapters added, both in float64. Nothing is
# compiled. Where there is no PEFT the test is skipped.
# ===-----------------------------------------------------------------------===
"""finetune_peft.py: exit code 0 when PEFT's networks have our losses, 77 without PEFT."""

import json
import pathlib
import sys
import tempfile
import unittest
import warnings

try:
    import peft
except ImportError:
    print("skipped: finetune_peft: PEFT is not installed (python -m pip install peft)")
    sys.exit(77)

from finetune_cases import ROOT  # noqa: F401  first: it skips all without PyTorch

import finetune
import numpy as np
import tolerance
import torch
from safetensors.torch import load_file, save_file

from finetuning import adapters, families, folder, network

RANK, ALPHA = 4, 12
LAYERS = ("q_proj.weight", "v_proj.weight", "down_proj.weight", "fc2.weight")


def loss(net, sample):
    with torch.no_grad():
        value, largest = finetune.summed(net, sample)
    return value.item(), largest


class Opened(unittest.TestCase):
    def setUp(self):
        self.work = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def write(self, net):
        """An adapter beside each weight of these layers in the modules that PEFT is to find."""
        draw, tensors = np.random.default_rng(1), {}
        for module, weights in net.weights.items():
            for parameter, (name, *_) in weights.values():
                if module != "vision" and name.endswith(LAYERS):
                    rows, columns = parameter.shape
                    for part, shape in (("A", (RANK, columns)), ("B", (rows, RANK))):
                        tensors[f"{module}.{name.removesuffix('.weight')}.lora_{part}.weight"] = torch.from_numpy(draw.normal(0, 0.2, shape).astype(np.float32))
        self.assertTrue(tensors)
        save_file(tensors, self.work / adapters.FILE)
        made = adapters.Adapters(self.work, net, {"rank": RANK, "alpha": ALPHA})
        made.save(self.work / "adapter")
        return made

    def check(self, name):
        family = finetune.FAMILIES[name]
        path = family.make(self.work / "model")
        sample = family.expected(family.reader(path), family.draw(4, 1)[3])
        opened = folder.Folder(path)
        made = self.write(network.Network(opened, families.of(opened)))
        plain, merged = (finetune.open_net(path, torch.float64) for _ in range(2))
        for layer in json.loads((self.work / "adapter/adapter_config.json").read_text())["target_modules"]:
            a, b = (load_file(self.work / "adapter/adapter_model.safetensors")[f"{adapters.PEFT}{layer}.lora_{part}.weight"].double() for part in "AB")
            merged.get_parameter(f"{layer}.weight").data += ALPHA / RANK * b @ a
        with warnings.catch_warnings():  # of weights that it does not find
            warnings.simplefilter("error", UserWarning)
            theirs = peft.PeftModel.from_pretrained(finetune.open_net(path, torch.float64), self.work / "adapter", autocast_adapter_dtype=False)
        (want, terms), (have, _), (without, _) = (loss(net, sample) for net in (merged, theirs, plain))
        limit = np.finfo(np.float64).eps * tolerance.OTHER * (abs(want) + terms * len(sample.ids))
        self.assertLess(abs(have - want), limit)
        self.assertGreater(abs(without - want), 1e3 * limit)  # it does something

    def test_text(self):
        self.check("llama")

    def test_pictures(self):
        self.check("qwen2_5_vl")

    def test_sounds(self):
        self.check("whisper")


if __name__ == "__main__":
    finetune.torch.set_num_threads(1)
    finetune.hf.logging.set_verbosity_error()
    finetune.hf.logging.disable_progress_bar()
    unittest.main()
