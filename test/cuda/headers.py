# ===- headers.py - the double's headers beside CUDA's -----------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# What a header of the double declares is said once more behind the real header of
# that name: functions are declared again, values, fields and types are asserted.
# The host's compiler takes that, or names what differs. Every name of CUDA in a
# header of the double must be compared, or stand in OWN.
# ===-----------------------------------------------------------------------===
"""headers.py INCLUDE...: compares the double's headers with those in toolkits' folders; exit code 77 where one is missing."""

import pathlib
import re
import subprocess
import sys

HEADERS = ("cuda_runtime.h", "cublasLt.h", "cudnn.h", "nccl.h")
NAME = r"(?:(?:cuda|cublas|cublasLt|cudnn|nccl)[A-Z]\w*|(?:CUDA|CUBLAS|CUBLASLT|CUDNN|NCCL)_\w+|dim3)"
OWN = {
    "cudaFuncGetAttributes": "a template, there and here",
    "cudaFuncSetAttribute": "a template, there and here",
    "cudaLaunchKernelEx": "a template, there and here",
    "cudnnContext": "opaque there",
    "CUDNN_NUMERICAL_NOTE_TYPE_COUNT": "grows with versions",
}
# Enumerations that are said in a table, by what their names begin with.
TABLES = {"cuda": "cudaError_t", "CUDNN_BACKEND_": "cudnnBackendDescriptorType_t", "CUDNN_ATTR_": "cudnnBackendAttributeName_t"}
MACROS = {  # those of the double, and what is expected of the real ones
    "CUDNN_STATUS_CATEGORY": "static_assert(CUDNN_STATUS_CATEGORY(3002) == 3000);",
    "NCCL_CONFIG_UNDEF_INT": "static_assert(NCCL_CONFIG_UNDEF_INT == -2147483647 - 1);",
    "NCCL_CONFIG_INITIALIZER": "inline ncclConfig_t config = NCCL_CONFIG_INITIALIZER;",
}


def expectations(text):
    """What the header says, as (name, C++ that compiles behind a header that says the same)."""
    text = re.sub(r"^template <.*?}$", "", text, flags=re.M | re.S)  # beside functions that are compared
    for enum, body in re.findall(rf"enum ({NAME}) {{(.*?)}}", text, re.S):
        yield enum, ""
        for name, value in re.findall(rf"({NAME}) = (\d+)", body):
            if name in OWN:
                continue
            yield name, f'static_assert(std::is_same_v<decltype({name}), {enum}> && {name} == {value}, "{name} = {value}");'
    for name, value in re.findall(rf"(?:ERROR|KIND|STEP|OF)\(({NAME}),[\s\\]+(\d+),", text):
        enum = next(enum for prefix, enum in TABLES.items() if name.startswith(prefix))
        yield name, f'static_assert(std::is_same_v<decltype({name}), {enum}> && {name} == {value}, "{name} = {value}");'
    for values in re.findall(r"constexpr unsigned (.*?);", text, re.S):
        for name, value in re.findall(rf"({NAME}) = (\d+)", values):
            yield name, f'static_assert({name} == {value}, "{name} = {value}");'
    for name, struct in re.findall(rf"using ({NAME}) =(?: struct (\w+))?", text):
        yield struct, ""
        yield name, f'static_assert(std::is_pointer_v<{name}>, "{name}");'
    for struct, body in re.findall(rf"struct ({NAME}) {{(.*?)}};", text, re.S):
        yield struct, ""
        for kind, fields in re.findall(r"^\s*(\w+) (\w.*);$", body, re.M) if struct not in OWN else []:
            for field, size in re.findall(r"(\w+)(\[\d+\])?(?: = \w+)?(?:, |$)", fields):
                yield struct, f'static_assert(std::is_same_v<decltype({struct}::{field}), {kind}{size}>, "{struct}::{field}");'
    for result, name, parameters in re.findall(rf"^(?:inline )?(?!return)((?:const )?\w+\s[*]?)({NAME})\(([^{{}};]*?)\)\s*[;{{]", text, re.M | re.S):
        if name not in OWN:
            yield name, f'extern "C" {result.strip()} {name}({re.sub(r"= *[^,)]+", "", parameters)});'
    yield from ((name, check) for name, check in MACROS.items() if f"#define {name}" in text)


def compare(header, expected, includes):
    """What is wrong; an empty text if nothing is."""
    source = "\n".join([f"#include <{header}>", "#include <cstdint>", "#include <type_traits>", *(check for _, check in expected)])
    command = ["c++", "-std=c++20", "-fsyntax-only", "-x", "c++", *(f"-I{folder}" for folder in includes), "-"]
    done = subprocess.run(command, input=source, capture_output=True, text=True)
    if not done.returncode:
        print(f"{header}: {len(dict(expected))} names are as there")
    return done.stderr


def main():
    texts = {header: re.sub(r"//.*", "", (pathlib.Path(__file__).parent / "include" / header).read_text()) for header in HEADERS}
    expected = {header: list(expectations(text)) for header, text in texts.items()}
    compared = {name for one in expected.values() for name, _ in one} | OWN.keys()
    if missing := {name for text in texts.values() for name in re.findall(rf"\b{NAME}\b", text)} - compared:
        sys.exit(f"FAILED: names that are not compared: {sorted(missing)}")
    status = 0
    for header in HEADERS:
        if not any((pathlib.Path(folder) / header).exists() for folder in sys.argv[1:]):
            print(f"skipped: {header} of the double was not compared: the real one is not here (tools/setup --cuda gets it)")
            status = status or 77
        elif wrong := compare(header, expected[header], sys.argv[1:]):
            print(f"FAILED: {header}: {wrong}")
            status = 1
    sys.exit(status)


if __name__ == "__main__":
    main()
