"""Exports PyTorch modules to ONNX graphs that can be trained. See README.md."""

from .exporting import ExportError, export
from .checking import CheckError, check
from .packing import DeepstackTower, NaflexTower, Packed, PackedLanguage, PackedTower, naflex_weights
from .wrappers import FixedGrid, FixedShapes, Pick

__all__ = ["export", "check", "ExportError", "CheckError", "Pick", "FixedGrid", "FixedShapes", "Packed", "PackedTower", "DeepstackTower", "NaflexTower", "naflex_weights", "PackedLanguage"]
