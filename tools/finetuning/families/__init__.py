# ===- __init__.py - the families of networks -------------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===
"""of(folder): the folder's family, or an error."""

from ..errors import Failure
from .anyres import LlavaOnevision
from .blocks import Gemma3, PaliGemma
from .pictures import Qwen2VL, Qwen3VL, Qwen25VL
from .speech import Whisper
from .text import Text
from .tiles import InternVL, Llava, SmolVLM

# model_type -> (what people call it, family).
FAMILIES = {
    "llama": ("Llama", Text),
    "mistral": ("Mistral", Text),
    "qwen2": ("Qwen2, Qwen2.5", Text),
    "qwen3": ("Qwen3", Text),
    "qwen2_moe": ("Qwen2-MoE", Text),
    "qwen3_moe": ("Qwen3-MoE", Text),
    "mixtral": ("Mixtral", Text),
    "olmoe": ("OLMoE", Text),
    "phi3": ("Phi-3", Text),
    "gemma2": ("Gemma 2", Text),
    "gemma3_text": ("Gemma 3 (text)", Text),
    "gemma3": ("Gemma 3", Gemma3),
    "qwen2_vl": ("Qwen2-VL", Qwen2VL),
    "qwen2_5_vl": ("Qwen2.5-VL", Qwen25VL),
    "qwen3_vl": ("Qwen3-VL", Qwen3VL),
    "llava": ("LLaVA", Llava),
    "llava_onevision": ("LLaVA-OneVision", LlavaOnevision),
    "internvl": ("InternVL", InternVL),
    "paligemma": ("PaliGemma", PaliGemma),
    "whisper": ("Whisper", Whisper),
    "smolvlm": ("SmolVLM", SmolVLM),
    "idefics3": ("Idefics 3", SmolVLM),
}
KNOWN = ", ".join(name for name, _ in FAMILIES.values())


def of(folder):
    kind = folder.config.model_type
    if kind not in FAMILIES:
        raise Failure(f"{folder.path}: the family '{kind}' is not there yet; there are {KNOWN}")
    family = FAMILIES[kind][1](folder)
    family.check()
    return family
