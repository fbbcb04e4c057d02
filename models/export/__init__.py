"""Exports PyTorch modules to ONNX graphs that can be trained. See README.md."""

from .exporting import ExportError, export
from .checking import check

__all__ = ["export", "check", "ExportError"]
