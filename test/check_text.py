# ===- check_text.py - emitted text is made in one file ------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# check_text.py ROOT: the code generator prints through EmitC's ops; text that has
# none is made by functions of codegen/common/Text.h, so that no other file puts
# lines, literals or opaque attributes together (docs/names.md). Sees what stands in
# the code: two texts put together by `+` and given to an op by a variable it sees
# only if one of them is a literal.
# ===-----------------------------------------------------------------------===
"""Fails if a file of the code generator but Text.cpp concatenates C++."""

import pathlib
import re
import sys

TEXT = "codegen/common/Text.cpp"
# No C++ leaves these: what they put together are names, errors and other files.
OTHERS = {"Names.cpp": "identifiers", "Directory.cpp": "README.md", "FreshDirectory.cpp": "errors", "Weights.cpp": "errors", "SlowCalls.cpp": "remarks"}
# What takes emitted text.
OPS = r"\b(?:line|literal|openLoop|(?:VerbatimOp|LiteralOp|CallOpaqueOp)::create|OpaqueAttr::get|OpaqueType::get)\("
STRING = "§"

# Each is found, or this check would not fail.
WRONG = [
    'line("const " + type);',
    'std::string text = name + " = {};";',
    'text += ";";',
    'line(loc, type + name);',
    'emitc::OpaqueAttr::get(context, a + b);',
    'emitc::LiteralOp::create(b, loc, type, (a + b));',
    'emitc::VerbatimOp::create(b, loc, b.getStringAttr(Twine(a)));',
    'auto text = llvm::formatv("{0};", x);',
]
RIGHT = [
    'line(cpp::declare(type, name, "+"));',
    '// line("a" + b);',
    'return R"cmake(a " + b)cmake" + name;',
    "line(cpp::element(name, kWarp + 1));",
    '.Case("+", cpp::sum);  ++n; os << "a" << b;',
]


def bare(text):
    """The code without comments, with a mark for each string."""
    token = r'R"cmake\((?:.|\n)*?\)cmake"|R"(\w*)\((?:.|\n)*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//[^\n]*'
    marks = {"R": "CMAKE", "/": "", "'": "'", '"': STRING}
    return re.sub(token, lambda m: (STRING if m[1] is not None else marks[m[0][0]]) + "\n" * m[0].count("\n"), text)


def arguments(code, begin):
    """What stands between a call's parentheses."""
    depth = 1
    for i in range(begin, len(code)):
        depth += {"(": 1, ")": -1}.get(code[i], 0)
        if depth == 0:
            return code[begin:i]
    return code[begin:]


def concatenations(text):
    """Positions in the code, and the code."""
    code = bare(text)
    found = [m.start() for m in re.finditer(rf"{STRING}\s*\+(?!\+)|\+=?\s*{STRING}|\b(?:Twine|formatv)\b", code)]
    for call in re.finditer(OPS, code):
        # Numbers add up.
        if re.search(r"(?<!\+)\+(?![+=]|\s*\d)", arguments(code, call.end())):
            found.append(call.start())
    return found, code


def main():
    root = pathlib.Path(sys.argv[1])
    assert all(concatenations(line)[0] for line in WRONG) and not any(concatenations(line)[0] for line in RIGHT)
    wrong, files = [f"{name} is gone" for name in OTHERS if not (root / "codegen/common" / name).exists()], 0
    for file in sorted([*root.glob("codegen/**/*"), *root.glob("runtime/device/*/codegen/*")]):
        path = file.relative_to(root).as_posix()
        if file.suffix not in (".h", ".cpp") or path == TEXT:
            continue
        files += 1
        found, code = concatenations(file.read_text())
        if file.name in OTHERS:
            if re.search(r"\b(?:emitc|cpp)::", code):
                wrong.append(f"{path} prints C++: expected {OTHERS[file.name]} only")
            continue
        wrong += [f"{path}:{line}: puts emitted text together, expected a function of codegen/common/Text.h" for line in sorted({code.count("\n", 0, at) + 1 for at in found})]
    print("\n".join(wrong) if wrong else f"{files} files, emitted text is made in {TEXT}")
    sys.exit(1 if wrong else 0)


main()
