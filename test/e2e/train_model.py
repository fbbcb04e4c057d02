# ===- train_model.py - from a model folder to a verdict --------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# The whole way in one command: compile the folder's recipe (whole batch, or cut
# into microbatches), build the emitted program, train it on PyTorch's batch, and
# compare with PyTorch's figures (golden.py). With --refused, compilation must
# instead end in exactly one error that matches.
# ===-----------------------------------------------------------------------===
"""train_model.py MODEL_FOLDER --dt-opt PATH: compiles, builds, trains and compares with PyTorch."""

import argparse
import filecmp
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile


GPUS = "80;90;100"  # compute capabilities, times ten
SKIPPED = 77  # CTest's SKIP_RETURN_CODE
# For tests of everything but kernels: to build these as programs do would be most of a test's time. This file's own programs are built so.
QUICK = ["-DDT_OPTIMISE=-O1"]


def call(command, cwd, environment=None, what=""):
    done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True, env=environment, timeout=6000)
    if done.returncode != 0:
        sys.exit(f"{what or command[0]} ended with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done


def make_recipe(model, frozen, micro, split, folder):
    """A copy of the model's files with the microbatch size asked for; split: modules are found in the graphs."""
    recipe = json.loads((model / ("recipe-frozen.json" if frozen else "recipe.json")).read_text())
    for module in recipe["modules"].values():
        shutil.copy(model / module["onnx"], folder / module["onnx"])
        if split:
            module["split"] = "auto"
    if micro:
        recipe["batch"]["micro"] = micro
    (folder / "recipe.json").write_text(json.dumps(recipe))
    return folder / "recipe.json"


def emit(dt_opt, recipe, out, target, *flags):
    return subprocess.run([dt_opt, recipe, "--emit=cpp", f"--target={target}", "-o", out, *flags], capture_output=True, text=True, timeout=600)


def prebuilt(dt_opt):
    """What says to CMake that a program links the runtime of the compiler's build."""
    return dt_opt.resolve().parents[1] / "runtime/prebuilt.cmake"


def prebuilt_double(dt_opt, program):
    """The same of the runtime for the double of CUDA, if it is built (CTest cuda-double/build) from the sources that this program has; else None."""
    built = dt_opt.resolve().parents[1] / "test/cuda/double/gpt2"
    sources = [path.relative_to(program) for path in (program / "runtime").rglob("*") if path.is_file()]
    same = all((built / path).exists() and filecmp.cmp(program / path, built / path, shallow=False) for path in sources)
    return built / "build/runtime/prebuilt.cmake" if same and (built / "build/train").exists() else None


def build_for(dt_opt, target, double, out, cache, settings=()):
    """`double`: a folder that stands in for CUDA."""
    if double:
        build(out, cache, prebuilt_double(dt_opt, out), [*settings, f"-DDT_CUDA_DOUBLE={double.resolve()}"])
    elif target == "cpu":
        build(out, cache, prebuilt(dt_opt), settings)
    else:
        build(out, cache, None, [*settings, f"-DCMAKE_CUDA_COMPILER={find_nvcc()}", f"-DCMAKE_CUDA_ARCHITECTURES={GPUS}"])


def make(dt_opt, recipe, out, target="cpu", double=None, flags=(), settings=()):
    """Compiles and builds a program."""
    done = emit(dt_opt.resolve(), recipe, out, target, *flags)
    if done.returncode:
        sys.exit(f"dt-opt ended with {done.returncode}:\n{done.stderr[-3000:]}")
    build_for(dt_opt, target, double, out, os.environ.get("CCACHE_DIR"), settings)


def build(out, cache, runtime=None, settings=()):
    """What the build said. `runtime`: see prebuilt(); without it the program compiles the copy in its own folder, with the system's compiler."""
    # Equal code of several programs comes from the compiler cache, with paths taken relative to the program's folder.
    environment = dict(os.environ, CCACHE_BASEDIR=str(out.resolve()), CCACHE_NOHASHDIR="1")
    if cache:
        environment["CCACHE_DIR"] = cache
    options = (["-C", runtime] if runtime else []) + ["-DCMAKE_BUILD_TYPE=Release", *settings]
    configured = call(["cmake", *options, "-S", out, "-B", out / "build", "-G", "Ninja"], out, environment, "cmake")
    built = call(["cmake", "--build", out / "build"], out, environment, "build")
    return configured.stdout + configured.stderr + built.stdout + built.stderr


def find_nvcc():
    """Its path: the machine's, or that of tools/setup --cuda; else None."""
    ours = pathlib.Path(__file__).resolve().parents[2] / ".venv/cuda/nvidia/cu13/bin/nvcc"
    return shutil.which("nvcc") or next((path for path in ("/usr/local/cuda/bin/nvcc", ours) if os.path.exists(path)), None)


def find_gpu():
    return bool(shutil.which("nvidia-smi") and subprocess.run(["nvidia-smi", "-L"], capture_output=True).stdout.startswith(b"GPU"))


def check_refusal(done, pattern):
    errors = [line for line in done.stderr.splitlines() if "error:" in line]
    if done.returncode == 0:
        sys.exit("compiled, though it should have been refused")
    if len(errors) != 1 or not re.search(pattern, errors[0]):
        sys.exit(f"expected one error matching '{pattern}', got:\n{done.stderr}")
    print("refused as expected:", errors[0])


def on_double(doc, *folders):
    """The command line of a test on the double of CUDA."""
    parser = argparse.ArgumentParser(description=doc)
    for name in folders:
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("--dt-opt", required=True, type=pathlib.Path)
    parser.add_argument("--double", required=True, type=pathlib.Path)
    return parser.parse_args()


def check_modules(out, expected):
    found = sorted(path.stem for path in out.glob("*_kernels.c*"))
    if len(found) != expected:
        sys.exit(f"expected {expected} modules, found {found}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--dt-opt", required=True, type=pathlib.Path)
    parser.add_argument("--micro", type=int, default=0, help="samples a microbatch (default: the recipe's)")
    parser.add_argument("--frozen", action="store_true")
    parser.add_argument("--split", type=int, default=0, metavar="N", help="find modules in the graphs; there must be N")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--refused", help="compilation must fail with one error matching this")
    parser.add_argument("--target", default="cpu", choices=["cpu", "cuda"], help="cuda without a GPU: the program is compiled, not run")
    parser.add_argument("--double", type=pathlib.Path, metavar="DIR", help="target cuda with a double of CUDA, on which the program runs without a GPU")
    parser.add_argument("--standalone", action="store_true", help="the program compiles its own copy of the runtime, as on a machine without the compiler")
    parser.add_argument("--keep", type=pathlib.Path, help="leave the emitted program here")
    arguments = parser.parse_args()
    golden = pathlib.Path(__file__).with_name("golden.py")
    real = arguments.target == "cuda" and not arguments.double
    if real and not find_nvcc():
        print(f"skipped: {arguments.model.name} was not compiled for CUDA: no nvcc here (tools/setup --cuda gets one)")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        recipe = make_recipe(arguments.model, arguments.frozen, arguments.micro, arguments.split, folder)
        out = arguments.keep or folder / "program"
        done = emit(arguments.dt_opt.resolve(), recipe, out, arguments.target)
        if arguments.split and done.returncode == 0:
            check_modules(out, arguments.split)
        if arguments.refused:
            return check_refusal(done, arguments.refused)
        if done.returncode != 0:
            sys.exit(f"dt-opt ended with {done.returncode}:\n{done.stderr[-3000:]}")
        cache = os.environ.get("CCACHE_DIR")
        if arguments.standalone:
            build(out, cache, None, ["-DDT_MPI=ON", "-DDT_OPTIMISE=-O0", "-DCMAKE_CXX_FLAGS_RELEASE=-O0"])
        else:
            build_for(arguments.dt_opt, arguments.target, arguments.double, out, cache)
        if real and not find_gpu():
            return print("compiled; no GPU to run on")
        command = [sys.executable, golden, arguments.model, "--program", out, "--threads", str(arguments.threads)]
        sys.exit(subprocess.run(command + (["--frozen"] if arguments.frozen else [])).returncode)


if __name__ == "__main__":
    main()
