# ===- folder.py - a Hugging Face folder --------------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Config, tokenizer, and where each weight is. Only headers are read here; the
# program reads the weights itself, each rank what it holds.
# ===-----------------------------------------------------------------------===
"""Folder: what a model's folder says; its weights by name."""

import json
import pathlib
from dataclasses import dataclass

from safetensors import SafetensorError, safe_open

from .errors import Failure, one_line

FLOATS = {"F64", "F32", "F16", "BF16"}
INDEX = "model.safetensors.index.json"


@dataclass(frozen=True)
class Weight:
    file: str  # in the folder
    kind: str  # F32, BF16, …
    shape: tuple


class Folder:
    def __init__(self, path, weights=True):
        self.path = path
        if not (path / "config.json").is_file():
            raise Failure(f"{path}: no Hugging Face folder: it has no config.json")
        self.config = self._load("AutoConfig")
        self.source = self._source() if weights else None  # what --init-from takes
        self.weights = self._weights() if weights else {}

    def tokenizer(self):
        tokenizer = self._load("AutoTokenizer")
        if not tokenizer.is_fast:
            raise Failure(f"{self.path}: no fast tokenizer (tokenizer.json)")
        return tokenizer

    def processor(self):
        processor = self._load("AutoProcessor")
        if not getattr(getattr(processor, "tokenizer", None), "is_fast", False):
            raise Failure(f"{self.path}: no processor with a fast tokenizer (processor_config.json, tokenizer.json)")
        return processor

    def _load(self, kind):
        import transformers

        try:
            return getattr(transformers, kind).from_pretrained(self.path, local_files_only=True)
        except Exception as e:  # the library raises many kinds
            raise Failure(f"{self.path}: {kind}: {one_line(e)}") from None

    def _source(self):
        for name in (INDEX, "model.safetensors"):
            if (self.path / name).is_file():
                return self.path / name
        raise Failure(f"{self.path}: no weights: neither model.safetensors nor model.safetensors.index.json is there")

    def _weights(self):
        weights = {}
        for name in self._files():
            try:
                with safe_open(self.path / name, "pt") as file:
                    for key in file.keys():
                        part = file.get_slice(key)
                        weights[key] = Weight(name, part.get_dtype(), tuple(part.get_shape()))
            except (OSError, SafetensorError) as e:
                raise Failure(f"{self.path / name}: {one_line(e)}") from None
        return weights

    def _files(self):
        if self.source.suffix != ".json":
            return [self.source.name]
        try:
            names = sorted(set(json.loads(self.source.read_text())["weight_map"].values()))
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            raise Failure(f"{self.source}: no index: {one_line(e)}") from None
        if wrong := [n for n in names if pathlib.PurePath(n).name != n]:
            raise Failure(f"{self.source}: {wrong[0]!r} is no file of this folder")
        return names
