# ===- merging.py - weights that the library merges when it loads ---------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A folder has a weight for each expert, the library's network has one for all of
# them. The library's own converters go from one form to the other and back: no
# family has code here. That they do is tried without values when a folder is opened.
# ===-----------------------------------------------------------------------===
"""Merging: which of the folder's weights the network has in another form; start_from(project, network): where weights are in the network's form."""

import contextlib
import copy
import json
import shutil
from dataclasses import dataclass

import safetensors.torch
import torch

from .errors import Failure, one_line, say
from .folder import FLOATS, INDEX, Weight

KINDS = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
FOLDER = "weights"
SHARD = 1 << 30  # bytes, unless a weight is larger; so much is in memory at a time


@dataclass
class Group:
    """Weights that are converted together."""

    converter: object
    first: str  # of the library's names
    parts: dict  # the folder's name -> pattern of the converter that it matches
    names: list  # all of the library's names


class Merging:
    def __init__(self, folder, net):
        from transformers.conversion_mapping import get_model_conversion_mapping
        from transformers.core_model_loading import WeightConverter, dot_natural_key

        self.folder, self.net, self.state = folder, net, net.state_dict(keep_vars=True)
        mapping = get_model_conversion_mapping(net)
        self._converters = [m for m in mapping if isinstance(m, WeightConverter)]
        self._renamings = [m for m in mapping if not isinstance(m, WeightConverter)]
        parameters, found = {name for name, _ in net.named_parameters(remove_duplicate=False)}, {}
        self.names = {}  # of those that stay as they are: the folder's name -> the library's
        for key in folder.weights:
            name, pattern = self._library(key)
            if name in parameters and pattern is None:
                self.names[key] = name
            elif name in parameters:
                found.setdefault(name, {})[key] = pattern
        net._weight_conversions = [m for m in mapping if m.was_used()]  # what the library reverts
        self.weights, self._groups = {}, {}  # by the library's names; by both
        for first, parts in found.items():
            self._add(first, {key: parts[key] for key in sorted(parts, key=dot_natural_key)})

    def _library(self, key):
        """(name, pattern of a converter or None), as the library does it."""
        from transformers.core_model_loading import rename_source_key

        found = rename_source_key(key, self._renamings, self._converters, self.net.base_model_prefix, self.state)
        if found[0] not in self.state and key in self.state:
            found = rename_source_key(key, [], [], self.net.base_model_prefix, self.state)
        return found

    def _add(self, first, parts):
        where, weights = self.folder.source, self.folder.weights
        for key in parts:
            if weights[key].kind not in FLOATS:
                raise Failure(f"{where}: weight '{key}' is of type {weights[key].kind}; known: {', '.join(sorted(FLOATS))}")
        pattern = next(iter(parts.values()))
        group = Group(next(c for c in self._converters if pattern in c.source_patterns), first, parts, [])
        try:
            made = self._converted(group, {k: torch.empty(weights[k].shape, dtype=KINDS[weights[k].kind], device="meta") for k in parts})
            back = self._reverted(made)
        except Exception as e:  # the library raises many kinds
            raise Failure(f"{where}: weight '{next(iter(parts))}' and others do not go together to the network's '{first}': {one_line(e)}") from None
        if wrong := sorted(set(back) ^ set(parts)):
            raise Failure(f"{where}: {'no weight' if wrong[0] in back else 'a weight'} '{wrong[0]}' of those that are the network's '{first}'")
        if twice := [name for name in made if name in self.weights or name in self.names.values()]:
            raise Failure(f"{where}: weight '{twice[0]}' is there in two forms")
        group.names = list(made)
        kinds = {dtype: kind for kind, dtype in KINDS.items()}
        self.weights |= {name: Weight(None, kinds[value.dtype], tuple(value.shape)) for name, value in made.items()}
        self._groups |= dict.fromkeys([*parts, *made], group)

    def _converted(self, group, tensors):
        """{library's name: value} of {folder's name: value}."""
        converter = copy.deepcopy(group.converter)
        for key, pattern in group.parts.items():
            converter.add_tensor(group.first, key, pattern, tensors.pop(key))
        made = converter.convert(group.first, model=self.net, config=self.net.config)
        return {name: value[0] if isinstance(value, list) else value for name, value in made.items()}

    def _reverted(self, tensors):
        from transformers.core_model_loading import revert_weight_conversion

        prefix, known = f"{self.net.base_model_prefix}.", self.folder.weights  # a folder of the base model has none
        made = revert_weight_conversion(self.net, tensors)
        return {name.removeprefix(prefix) if name.removeprefix(prefix) in known else name: value for name, value in made.items()}

    def back(self, key, trained, read):
        """Values of the group that the folder's weight `key` is of, {folder's name: value}; None: none of it trains. `read(key)`: the folder's own."""
        group = self._groups.get(key)
        if group is None or not any(name in trained for name in group.names):
            return None
        values = {name: trained[name] for name in group.names if name in trained}
        if len(values) < len(group.names):
            values = self._converted(group, {k: read(k) for k in group.parts}) | values
        return {k: v.to(KINDS[self.folder.weights[k].kind]) for k, v in self._reverted(values).items()}

    def write(self, target):
        """All that the network has, in its form. Returns the index."""
        made = target.with_name(target.name + ".tmp")
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True)
        places, shard, size = {}, {}, 0
        with Reader(self.folder) as read:
            for name, value in self._values(read):
                length = value.numel() * value.element_size()
                if shard and size + length > SHARD:
                    _write_shard(made, shard, places)
                    shard, size = {}, 0
                shard[name], size = value.contiguous(), size + length
            _write_shard(made, shard, places)
        (made / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": places}, indent=1) + "\n")
        shutil.rmtree(target, ignore_errors=True)
        made.rename(target)

    def _values(self, read):
        for key in self.names:
            yield key, read(key)
        for group in {id(g): g for g in self._groups.values()}.values():
            yield from self._converted(group, {k: read(k) for k in group.parts}).items()


class Reader(contextlib.ExitStack):
    """The folder's weights by name, as long as it lasts."""

    def __init__(self, folder):
        super().__init__()
        self.folder, self.files = folder, {}

    def __call__(self, key):
        file = self.folder.weights[key].file
        if file not in self.files:
            self.files[file] = self.enter_context(safetensors.safe_open(self.folder.path / file, "pt"))
        return self.files[file].get_tensor(key)


def _write_shard(made, shard, places):
    name = f"model-{len(set(places.values())) + 1:05}.safetensors"
    safetensors.torch.save_file(shard, made / name, {"format": "pt"})
    places |= dict.fromkeys(shard, name)


def start_from(project, network):
    """What --init-from takes: the folder's weights, or OUT's copy of them in the network's form. A run that is resumed starts from neither."""
    import transformers

    from .recipe import digest

    folder, merging = network.folder, network.merging
    if not merging.weights:
        return folder.source
    index = project.out / FOLDER / INDEX
    files = [(folder.path / name).stat() for name in sorted({w.file for w in folder.weights.values()})]
    named = digest(f"{folder.path.absolute()} {[(f.st_size, f.st_mtime_ns) for f in files]} {transformers.__version__}")
    if not project.resume and (project.notes.get("weights") != named or not index.is_file()):
        merging.write(index.parent)
        project.note(weights=named)
        say(f"weights as the network has them: {index.parent}")
    return index
