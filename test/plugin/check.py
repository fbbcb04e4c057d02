# ===- check.py - the installed compiler and what is built against it ----------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Installs a build into an empty folder, builds docs/plugin-template from there,
# outside of the source tree, and uses each thing that the plugin has with the
# installed dt-opt: *.mlir and *.test beside this file by lit, the rest by training
# (training.py).
# ===-----------------------------------------------------------------------===
"""check.py --build FOLDER --lit PATH --compiler PATH [--launcher PATH]: exit code 0 if plugins are built and loaded."""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from training import train

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]


def run(*command, cwd=None, **environment):
    done = subprocess.run([str(c) for c in command], cwd=cwd, env=dict(os.environ, **environment), capture_output=True, text=True, timeout=600)
    if done.returncode:
        sys.exit(f"{' '.join(str(c) for c in command)} ended with {done.returncode}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def build_plugins(options, folder, source):
    """The libraries. Paths of the copy are the same for the compiler cache in every run."""
    copy = folder / source.name
    shutil.copytree(source, copy)
    flags = [f"-DCMAKE_PREFIX_PATH={folder / 'install'}", f"-DCMAKE_CXX_COMPILER={options.compiler}", f"-DCMAKE_CXX_COMPILER_LAUNCHER={options.launcher}"]
    flags += ["-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_UNITY_BUILD_BATCH_SIZE=0"]  # a third of the time
    cache = {"CCACHE_BASEDIR": str(folder), "CCACHE_NOHASHDIR": "1"}
    run("cmake", "-S", copy, "-B", copy / "build", "-G", "Ninja", *flags, cwd=folder, **cache)
    run("cmake", "--build", copy / "build", cwd=folder, **cache)
    commands = (copy / "build/build.ninja").read_text()
    if str(SOURCE) in commands.replace(str(options.launcher), "").replace(str(options.compiler), ""):
        sys.exit(f"the build of {source.name} reads from {SOURCE}")
    return list((copy / "build").glob("*.so"))


def check_relocatable(install, *places):
    """No file of the package knows where it was built or installed."""
    files = list(install.glob("lib/cmake/DistTrain/*.cmake"))
    named = [f"{file.name} names {place}" for file in files for place in places if str(place) in file.read_text()]
    if named or not files:
        sys.exit("\n".join(named) or f"{install} has no CMake package")


def older(plugin, folder):
    """Older.so: the same file as another version of the compiler would have had it built."""
    bytes_, changes = re.subn(rb"(DistTrain plugin of version )\d+\.\d+\.\d+", rb"\g<1>0.0.0", plugin.read_bytes())
    if not changes:
        sys.exit(f"{plugin} does not say which version it was built against")
    (folder / "Older.so").write_bytes(bytes_)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--lit", type=pathlib.Path, required=True)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--launcher", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        built, install = folder / "built", folder / "install"
        run("cmake", "--install", options.build, "--prefix", built)
        built.rename(install)  # wherever it was installed, it is somewhere else now
        check_relocatable(install, SOURCE, built)
        plugins = folder / "plugins"
        plugins.mkdir()
        for source in (install / "share/distrain/plugin-template", HERE / "others"):
            for library in build_plugins(options, folder, source):
                shutil.copy(library, plugins)
        older(plugins / "Example.so", plugins)
        print(run(options.lit, "-sv", "--param", f"installed={install}", "--param", f"plugins={plugins}", options.build / "test/plugin"))
        train(install / "bin/dt-opt", plugins / "Example.so", options.build / "runtime/prebuilt.cmake")


main()
