#===- check_modules.py - Modules are found without any names ---------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# check_modules.py DT_OPT MODEL_FOLDER:MODULES...: splits each folder's graph as it is
# and with every name, scope, doc string and intermediate type taken out; all that is
# left is which initializers train. The modules must be the same line by line: functions
# (hence cut tensors), parameters, edges, roles. Once more without even that mark, where the
# importer must take every float for a parameter: the same types must cross, and each
# module have the same ones of the true parameters. Exit 77: a Python package is missing.
#===----------------------------------------------------------------------===
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

try:
    import onnx
    import onnx.compose
except ImportError:
    sys.exit(77)


class Names:
    """Numbers names in the order in which they are met."""

    def __init__(self):
        self.table = {"": ""}

    def __call__(self, name, letter):
        if name not in self.table:
            self.table[name] = f"{letter}{len(self.table)}"
        return self.table[name]


KIND = "pkg.torch.export.graph_signature.InputSpec.kind"


def strip(graph_file, out, marked):
    """Writes the graph without names; returns what tensors and dims are called now."""
    model = onnx.load(graph_file)
    graph, tensors, dims = model.graph, Names(), Names()
    kinds = {v.name: p.value for v in graph.value_info for p in v.metadata_props if p.key == KIND}
    del model.metadata_props[:], graph.metadata_props[:], graph.value_info[:], graph.quantization_annotation[:]
    model.doc_string = graph.doc_string = model.producer_name = ""
    graph.name = "g"
    for initializer in graph.initializer:
        kind = kinds.get(initializer.name)
        initializer.name = tensors(initializer.name, "p")
        if marked and kind:
            info = onnx.helper.make_tensor_value_info(initializer.name, initializer.data_type, initializer.dims)
            info.metadata_props.add(key=KIND, value=kind)
            graph.value_info.append(info)
        initializer.doc_string = ""
        if hasattr(initializer, "metadata_props"):
            del initializer.metadata_props[:]
    for value in [*graph.input, *graph.output]:
        value.name, value.doc_string = tensors(value.name, "t"), ""
        del value.metadata_props[:]
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param = dims(dim.dim_param, "d")
    for node in graph.node:
        assert not any(a.type == onnx.AttributeProto.GRAPH for a in node.attribute), "graphs inside nodes"
        node.input[:] = [tensors(name, "t") for name in node.input]
        node.output[:] = [tensors(name, "t") for name in node.output]
        node.name = node.doc_string = ""
        del node.metadata_props[:]
    onnx.save(model, out)
    return tensors, dims


def strip_recipe(recipe, tensors, dims):
    recipe = json.loads(json.dumps(recipe))
    recipe["inputs"] = {f"{module}.{tensors.table[tensor]}": entry
                        for (module, _, tensor), entry in ((name.partition("."), entry) for name, entry in recipe.get("inputs", {}).items())}
    recipe["dims"] = {dims.table.get(name, name): value for name, value in recipe.get("dims", {}).items()}
    for loss in recipe["losses"]:
        for key in ("logits", "output"):
            if key in loss:
                module, _, tensor = loss[key].partition(".")
                loss[key] = f"{module}.{tensors.table[tensor]}"
    return recipe


def split(dt_opt, recipe, folder):
    """(program text, remarks about cuts)"""
    for module in recipe["modules"].values():
        module["split"] = "auto"
    (folder / "recipe.json").write_text(json.dumps(recipe))
    done = subprocess.run([dt_opt, folder / "recipe.json", "--emit=mlir", "--to=modules"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"dt-opt ended with {done.returncode}:\n{done.stderr[-2000:]}")
    remarks = [line[line.index("remark:"):] for line in done.stderr.splitlines() if "is cut" in line]
    noise = r" \((\w+/)?(node_|t\d)\w*\)|, #nn.dims<\w+>|alone|'[\w./]+'(, )?"
    return done.stdout, [re.sub(noise, "", line) for line in remarks]


def describe(text, tensors, dims):
    """The program with names as they are in the stripped graph, without those of modules."""
    def renamed(match):
        name = match.group(1) or match.group(2)
        return "@" + tensors.table.get(name, name)

    text = re.sub(r"^  dist\.(dims|input) .*\n", "", text, flags=re.M)
    text = re.sub(r'@"([^"]*)"|@([\w.$]+)', renamed, text)
    text = re.sub(r'( of )?"([^"]*)"', lambda m: m.group(0) if m.group(1) else f'"{tensors.table.get(m.group(2), m.group(2))}"', text)
    for name, new in dims.table.items():
        if name:
            text = re.sub(rf"(?<=[<@ *,\"]){name}(?=[>, *\":])", new, text)
    text = re.sub(r"(?:^    nn\.dim .*\n)+", lambda m: "".join(sorted(m.group(0).splitlines(True))), text, flags=re.M)
    modules = list(dict.fromkeys(re.findall(r"dist\.module @([\w.]+)", text)))
    for i, name in enumerate(modules):
        text = re.sub(rf"@{name}\b", f"@module{i}", text)
    return modules, re.sub(r" attributes \{.*?\} \{$", " {", text, flags=re.M)


def split_stripped(dt_opt, model, file, recipe, marked):
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        tensors, dims = strip(model / file, folder / file, marked)
        text, remarks = split(dt_opt, strip_recipe(recipe, tensors, dims), folder)
    return tensors, dims, *describe(text, Names(), Names()), remarks


def parameters(text, known=None):
    """Of each module the sorted parameters (those that are `known`)."""
    modules = [re.findall(r"nn\.parameter @(\w+)", part) for part in text.split("dist.module")[1:]]
    return [sorted(p for p in part if known is None or p in known) for part in modules]


def crossing(text):
    """Sorted types of what goes over edges, with any dims."""
    types = []
    for module, name in re.findall(r"dist\.edge @\w+ \"[^\"]*\" to @(\w+) \"([^\"]*)\"", text):
        body = text[text.index(f"dist.module @{module} "):]
        types.append(re.search(rf"%arg\d+: tensor<([^,>]*)[^%]*nn\.name = \"{re.escape(name)}\"", body).group(1))
    return sorted(types)


def merge(model, folder):
    """The folder's graphs, as their recipe connects them, in one graph."""
    recipe = json.loads((model / "recipe.json").read_text())
    whole = None
    for name, module in recipe["modules"].items():
        part = onnx.compose.add_prefix(onnx.load(model / module["onnx"]), f"{name}/")
        ends = [(source.replace(".", "/"), target.replace(".", "/")) for target, source in recipe["connections"].items()
                if target.startswith(f"{name}.")]
        whole = onnx.compose.merge_models(whole, part, io_map=ends) if whole else part
    onnx.save(whole, folder / "model.onnx")
    for loss in recipe["losses"]:
        for key in ("logits", "output"):
            if key in loss:
                loss[key] = "model." + loss[key].replace(".", "/", 1)
    recipe["inputs"] = {"model." + name.replace(".", "/"): entry for name, entry in recipe.get("inputs", {}).items()}
    parts = list(recipe.pop("modules"))
    del recipe["connections"]
    (folder / "recipe.json").write_text(json.dumps({"modules": {"model": {"onnx": "model.onnx"}}, **recipe}))
    return parts


def check_merged(dt_opt, model, expected):
    """Graphs that were put together are found again."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary) / model.name
        folder.mkdir()
        parts = merge(model, folder)
        modules = check(dt_opt, folder, expected)
    if modules != [f"model_{part}" for part in parts]:
        sys.exit(f"{model.name}: {parts} were put together, {modules} found")


def check(dt_opt, model, expected):
    recipe = json.loads((model / "recipe.json").read_text())
    if len(recipe["modules"]) > 1:
        return check_merged(dt_opt, model, expected)
    (file,) = [m["onnx"] for m in recipe["modules"].values()]
    with tempfile.TemporaryDirectory() as temporary:
        shutil.copy(model / file, temporary)
        first, first_remarks = split(dt_opt, recipe, pathlib.Path(temporary))
    tensors, dims, second_modules, second, second_remarks = split_stripped(dt_opt, model, file, recipe, True)
    first_modules, first = describe(first, tensors, dims)
    if len(first_modules) != expected:
        sys.exit(f"{model.name}: expected {expected} modules, found {first_modules}")
    if expected > 1 and first_modules == second_modules:
        sys.exit(f"{model.name}: names of the stripped graph tell something: {second_modules}")
    if not first_remarks and expected > 1:
        sys.exit(f"{model.name}: no remark says where it is cut")
    if first_remarks != second_remarks:
        sys.exit(f"{model.name}: remarks differ:\n{first_remarks}\n{second_remarks}")
    for a, b in zip(first.splitlines(), second.splitlines()):
        if a != b:
            sys.exit(f"{model.name}: with names and without them differ:\n{a[:500]}\n{b[:500]}")
    if len(first.splitlines()) != len(second.splitlines()):
        sys.exit(f"{model.name}: one has more lines")
    _, _, third_modules, third, _ = split_stripped(dt_opt, model, file, recipe, False)
    known = {p for part in parameters(first) for p in part}
    if parameters(first) != parameters(third, known) or crossing(first) != crossing(third):
        sys.exit(f"{model.name}: differs where nothing says what trains: {third_modules}, {crossing(third)}")
    print(f"{model.name}: {', '.join(first_modules)}; without names the same as {', '.join(second_modules)}")
    return first_modules


for argument in sys.argv[2:]:
    path, _, count = argument.rpartition(":")
    check(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(path), int(count))
