# ===- check_includes.py - which folder may include which ---------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# check_includes.py ROOT: every #include of the C++ sources and .td files between
# two of the folders below must be one that docs/architecture.md allows. What every
# file of an emitted program includes is light. Sizes and words of rt are typed attributes.
# ===-----------------------------------------------------------------------===
"""Fails if an arrow between two folders points up, or emitted programs include much."""

import pathlib
import re
import sys

RUNTIME = ["Enums.h", "EnumTexts.h", "Span.h", "HostDevice.h", "OptimizerRule.h", "PluginOptimizers.h", "Optimizers.h", "Tables.def", "Program.h", "device/BFloat16.h", "comm/MessageBlocks.h", "base", "reorder", "data", "device", "comm", "state", "step", "save", "observe", "train"]
PHASES = ["import", "modules", "precision", "outline", "stages", "differentiate", "shard", "optimize", "schedule", "lower"]
LIBRARIES = ["models/frontend/json", "passes/scheduler", "passes/picture", "passes/planner"]
SHARED_EXPERTS = "dialects/dist/SharedExperts.h"  # without IR
RANK_LIST = "dialects/dist/RankList.h"  # how IR shows ranks
DIALECTS = ["dialects/nn", "dialects/dist", "dialects/sched", "dialects/rt", SHARED_EXPERTS, RANK_LIST]
FRONT_END = ["models/frontend/symbolic", "models/frontend/onnx", "models/frontend/import", "models/frontend/recipe"]
ALL_PHASES = [f"passes/{phase}" for phase in PHASES]


def chain(folders, below=()):
    """Each may include those before it, and those below all of them."""
    return {folder: set(folders[:i]) | set(below) for i, folder in enumerate(folders)}


ALLOWED = chain([f"runtime/{folder}" for folder in RUNTIME])
ALLOWED |= chain(LIBRARIES, {"runtime/Enums.h", "runtime/base", "runtime/reorder"})
# A rank's memory is planned for with the blocks that programs allocate; which ranks share out experts is said once.
ALLOWED["passes/planner"] |= {"runtime/comm/MessageBlocks.h", SHARED_EXPERTS}
ALLOWED |= {
    "dialects/nn": set(),
    SHARED_EXPERTS: set(),
    RANK_LIST: set(),
    # What an optimizer is, is said once: to recipes, IR and programs.
    "dialects/dist": {"dialects/nn", "runtime/Enums.h", "runtime/EnumTexts.h", "runtime/Optimizers.h"},
    "dialects/sched": {"passes/scheduler", RANK_LIST},
    "dialects/rt": {"dialects/nn", "dialects/dist", RANK_LIST},
}
ALLOWED |= chain(FRONT_END, {"dialects/nn", "dialects/dist", "models/frontend/json"})
ALLOWED["models/frontend/recipe"] |= {"runtime/Optimizers.h", "runtime/base", "runtime/data", "runtime/state"}
PIPELINE = ["passes/Pipeline.h", "passes/Pipeline.td"]
ALLOWED |= chain(PIPELINE)
ALLOWED |= chain(ALL_PHASES, {*DIALECTS, *PIPELINE, "passes/scheduler"})
# Cuts and tasks are priced by the planner's code.
ALLOWED["passes/stages"] |= {"passes/planner"}
ALLOWED["passes/schedule"] |= {"passes/planner"}
# The planner prices layers as they will run: it compiles copies.
ALLOWED["passes/plan"] = {*ALL_PHASES, *DIALECTS, *LIBRARIES, "runtime/reorder"}
ALLOWED |= chain(["codegen", "codegen/common", "runtime/device/cpu/codegen"], {*DIALECTS, "runtime/Enums.h", "runtime/Tables.def", "runtime/Program.h", "runtime/base", "runtime/comm/MessageBlocks.h", "models/frontend/onnx"})
ANYTHING = ("tools", "test", "models/examples")
# What ops of rt may hold as text.
NAMES = {"apart", "init", "input", "item", "measure", "name", "op", "origin", "reorder", "schedule", "sym_visibility", "unit", "with"}
# Standard headers that cost nothing: others take longer than what stands in most files of a program.
LIGHT = {"cstddef", "cstdint", "limits"}


def folder_of(path):
    """The name of `path`'s folder in ALLOWED; None: above all of them."""
    if path.startswith(ANYTHING):
        return None
    parts = path.split("/")
    for n in range(min(4, len(parts)), 0, -1):
        if (name := "/".join(parts[:n])) in ALLOWED:
            return name
    return ""


def includes(text):
    return re.findall(r'^(?:#include|include) "((?:dialects|passes|codegen|runtime|models|tools|test)/[^"]+)"', text, re.M)


def heavy(root):
    """Of what the CPU's programs include."""
    found, seen = [], set(re.findall(r'"(runtime/[^"]+\.h)"', (root / "runtime/device/cpu/codegen/CpuTarget.cpp").read_text()))
    files = list(seen)
    for file in files:
        text = (root / file).read_text()
        files += [f for f in includes(text) if f not in seen]
        seen |= set(files)
        found += [f"{file} includes <{name}>, and emitted programs include it" for name in re.findall(r"^#include <([^>]+)>", text, re.M) if name not in LIGHT]
    return found


def strings(root):
    """Operands of rt's ops that are text and no names: sizes are #nn.dim, words are enums."""
    found = [(file, name) for file in root.glob("dialects/rt/*.td") for name in re.findall(r"\bStr(?:Array)?Attr\b[^:]*:\$(\w+)", file.read_text())]
    assert found, "no text was found"
    return [f"{file.relative_to(root)}: ${name} is text, expected a typed attribute (names: {', '.join(sorted(NAMES))})" for file, name in found if name not in NAMES]


LOOKUP = re.compile(r'\b(?:(?:get|has|set|remove)(?:Discardable|Inherent)?Attr(?:OfType<[^>]*>)?|(?:get|set|remove)(?:Arg|Result)Attr(?:OfType<[^>]*>)?)\((?:[^()";]*,\s*)?"([^"]+)"')


def lookups(root):
    """Attributes that code outside of the dialects asks for by a literal: ops have accessors, what is discardable has a constant beside its verifier."""
    assert [LOOKUP.search(f"x->{call};")[1] for call in ('getAttrOfType<IntegerAttr>("a")', 'setArgAttr(i, "b", c)', 'hasAttr("d")')] == ["a", "b", "d"]
    files = [file for top in ("passes", "codegen", "models", "tools", "runtime") for file in sorted(root.glob(f"{top}/**/*")) if file.suffix in (".h", ".cpp")]
    return [f"{file.relative_to(root)}: looks up '{name}', expected an accessor of the op or a constant of the dialect" for file in files for name in LOOKUP.findall(file.read_text())]


def main():
    root = pathlib.Path(sys.argv[1])
    wrong, arrows = heavy(root) + strings(root) + lookups(root), 0
    for target in root.glob("runtime/device/*/codegen/"):
        ALLOWED.setdefault(target.relative_to(root).as_posix(), ALLOWED["runtime/device/cpu/codegen"])
    for top in ("dialects", "passes", "codegen", "runtime", "models"):
        for file in sorted(root.glob(f"{top}/**/*")):
            if file.suffix not in (".h", ".cpp", ".cu", ".td"):
                continue
            path = file.relative_to(root).as_posix()
            own = folder_of(path)
            if own == "":
                wrong.append(f"{path}: no folder of docs/architecture.md")
            for target in includes(file.read_text()) if own else []:
                other = folder_of(target)
                arrows += 1
                if other != own and other not in ALLOWED[own]:
                    wrong.append(f"{path} includes {target}: {own} may not include {other or 'tools, tests or examples'}")
    print("\n".join(wrong) if wrong else f"{arrows} includes, none points up")
    sys.exit(1 if wrong else 0)


main()
