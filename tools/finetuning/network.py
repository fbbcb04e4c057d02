# ===- network.py - the folder's network as graphs -----------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# The library's own class on the meta device: a graph needs shapes, and the values
# of tables (rotary frequencies). Weights come from the folder when the program
# starts, so the graphs' weights have the folder's names.
# ===-----------------------------------------------------------------------===
"""Network: a family's network, its weights by the folder's names, and its graphs."""

import contextlib
import fnmatch
import re

import onnx
import torch
from torch import nn

from export import ExportError, export

from .errors import Failure, one_line
from .folder import FLOATS
from .merging import Merging


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


class Network:
    """Of a folder and its family: the library's network, whose weights have no values."""

    def __init__(self, folder, family):
        import transformers

        self.folder, self.family = folder, family
        try:
            with _parameters_on_meta():
                net = getattr(transformers, family.CLASS).from_config(folder.config, dtype=torch.float32).eval()
        except Exception as e:  # of a config whose numbers do not go together
            raise Failure(f"{folder.path}: {one_line(e)}") from None
        net.requires_grad_(True)  # as from_pretrained() has it, also of what the class keeps fixed (Whisper's sinusoids)
        self.merging = Merging(folder, net)
        self._names = _names(self.merging, net)
        with torch.device("meta"):
            graphs = family.graphs(net)
        self.buffers = {name: dict((n, b.clone()) for n, b in graph.module.named_buffers()) for name, graph in graphs.items()}
        net.to("meta")
        self.graphs = graphs
        self.weights = {name: self._weights(graph.module) for name, graph in graphs.items()}
        self._check()

    def _weights(self, module):
        """{name in the module: (parameter, the folder's names of it)}."""
        weights = {}
        for name, parameter in module.named_parameters():
            weights[name] = parameter, self._names[id(parameter)][1]
        return weights

    def _check(self):
        """The folder has each of the network's weights."""
        for weights in self.weights.values():
            for parameter, keys in weights.values():
                if not keys:
                    raise Failure(f"{self.folder.source}: no weight '{self._names[id(parameter)][0]}', which the network has")
                for key in keys:
                    weight = self.merging.weights.get(key) or self.folder.weights[key]
                    if weight.shape != tuple(parameter.shape):
                        raise Failure(f"{self.folder.source}: weight '{key}' has shape {list(weight.shape)}, the network's has {list(parameter.shape)}")
                    if weight.kind not in FLOATS:
                        raise Failure(f"{self.folder.source}: weight '{key}' is of type {weight.kind}; known: {', '.join(sorted(FLOATS))}")

    def keys(self, module):
        """The name of each weight in a module's graph, and in the folder."""
        return [keys[0] for _, keys in self.weights[module].values()]

    def all_keys(self):
        """{module: {name in its graph: all names that the folder has of the weight}}."""
        return {module: {keys[0]: keys for _, keys in weights.values()} for module, weights in self.weights.items()}

    def library_name(self, key):
        """Of the folder's name of a weight."""
        return next(name for name, keys in self._names.values() if key in keys)

    def matching(self, module, patterns):
        """Those of the patterns that a weight of the module has the name of, as patterns of its graph's names."""
        found = []
        for pattern in patterns:
            hit = [keys[0] for _, keys in self.weights[module].values() if any(_is_like(key, pattern) for key in keys)]
            like = [key for key in self.keys(module) if _is_like(key, pattern)]
            found += [pattern] if hit and hit == like else hit  # a tied weight has one name in the graph
        return found

    def check_patterns(self, flag, patterns):
        for pattern in patterns:
            if not any(self.matching(module, [pattern]) for module in self.graphs):
                raise Failure(f"{flag} {pattern}: no weight has such a name (the first is '{self.keys(next(iter(self.graphs)))[0]}')")

    def write(self, out):
        for name, graph in self.graphs.items():
            self._write(name, graph, out / f"{name}.onnx")

    def _write(self, name, graph, path):
        names = list(graph.inputs)
        examples = tuple(example.to("meta") for example, _ in graph.inputs.values())
        dims = {n: _dims(axes) for n, (_, axes) in graph.inputs.items()}
        try:
            with torch.device("meta"):
                export(graph.module, examples, path, dynamic_shapes=dims, input_names=names, output_names=graph.outputs, weights=False, buffers=self.buffers[name])
        except ExportError as e:
            raise Failure(f"{self.folder.path}: {one_line(e)}") from None
        _rename(path, {n: keys[0] for n, (_, keys) in self.weights[name].items()})


def _names(merging, net):
    """{id of a parameter: (the library's first name of it, the folder's names of it)}. A weight that the folder has in another form has the library's name."""
    parameters = dict(net.named_parameters(remove_duplicate=False))
    found = {id(p): (name, []) for name, p in reversed(parameters.items())}
    for key, name in (merging.names | {name: name for name in merging.weights}).items():
        if name in parameters:
            found[id(parameters[name])][1].append(key)
    return found


def _is_like(name, pattern):
    return any(fnmatch.fnmatchcase(name, one) for one in _without_braces(pattern))


def _without_braces(pattern):
    found = re.search(r"\{([^{}]*)\}", pattern)
    if not found:
        return [pattern]
    return [p for part in found[1].split(",") for p in _without_braces(pattern[: found.start()] + part + pattern[found.end() :])]


def _dims(axes):
    """Of an input; "4*merged" is four rows for each 1 of a dim."""
    made = {}
    for axis, dim in axes.items():
        factor, _, name = dim.rpartition("*")
        made[axis] = int(factor) * torch.export.Dim(name) if factor and int(factor) > 1 else torch.export.Dim(name)
    return made


def _rename(path, names):
    """Weights of a graph without values."""
    proto = onnx.load(path, load_external_data=False)
    graph = proto.graph
    for value in (*graph.initializer, *graph.value_info, *graph.input, *graph.output):
        value.name = names.get(value.name, value.name)
    for node in graph.node:
        node.input[:] = [names.get(n, n) for n in node.input]
    path.write_bytes(proto.SerializeToString(deterministic=True))
