# ===- check.py - what adding a thing costs -----------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A patch beside this file adds one of each kind of thing (docs/adding.md). They
# apply to the tree as it is, and touch as many source files as the table says.
# With --build a copy of the tree with all of them is built, and what they bring
# is run.
# ===-----------------------------------------------------------------------===
"""check.py ROOT [--build FOLDER]: exit code 0 if adding a thing costs what it should."""

import argparse
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
# Files besides tests; of a target, whose files are its own, folders.
COSTS = {"elementwise": 2, "op": 3, "pass": 2, "collective": 3, "schedule": 1, "loss": 1, "optimizer": 1, "target": 1}
TARGETS = ["dt-opt", "mpi-tests"]


def files_of(patch):
    return re.findall(r"^\+\+\+ b/(\S+)", patch.read_text(), re.M)


def run(*command, cwd):
    if subprocess.run([str(c) for c in command], cwd=cwd).returncode:
        sys.exit(f"failed: {' '.join(map(str, command))}")


def check(root, patches):
    failures = []
    for patch in patches:
        sources = [f for f in files_of(patch) if not f.startswith("test/")]
        if patch.stem == "target":
            sources = sorted({"/".join(f.split("/")[:3]) for f in sources})
        if len(sources) != COSTS.get(patch.stem):
            failures.append(f"{patch.name} touches {len(sources)} places, expected {COSTS.get(patch.stem)}: {' '.join(sources)}")
        done = subprocess.run(["git", "apply", "--check", str(patch)], cwd=root, capture_output=True, text=True)
        if done.returncode:
            failures.append(f"{patch.name} does not apply: {done.stderr.strip()}")
        print(f"{patch.stem:12} {len(sources)} {' '.join(sources)}")
    failures += [f"no patch adds: {name}" for name in COSTS if name not in {p.stem for p in patches}]
    return failures


def build(root, patches, folder):
    """All patches together: they must not meet."""
    run("git", "clone", "-q", root, folder, cwd=root)
    for patch in patches:
        run("git", "apply", patch, cwd=folder)
    if (root / ".venv").exists():
        (folder / ".venv").symlink_to(root / ".venv")
    run("cmake", "--preset", "release", cwd=folder)
    run("cmake", "--build", "--preset", "release", "--target", *TARGETS, cwd=folder)
    tests = [f.removeprefix("test/") for p in patches for f in files_of(p) if f.endswith((".mlir", ".test"))]
    lit = next(line.split("=")[1] for line in (folder / "build/release/CMakeCache.txt").read_text().splitlines() if line.startswith("DT_LIT:"))
    run(lit, "-sv", "build/release/test", f"--filter={'|'.join(map(re.escape, tests))}", cwd=folder)
    run("build/release/bin/mpi-tests", "--ranks", "4", "--gtest_filter=*Collectives*", cwd=folder)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("--build", type=lambda p: pathlib.Path(p).resolve())
    options = parser.parse_args()
    patches = sorted(HERE.glob("*.patch"))
    failures = check(options.root, patches)
    if failures:
        sys.exit("\n".join(failures))
    if options.build:
        build(options.root, patches, options.build)


main()
