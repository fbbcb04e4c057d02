# ===- replicas.py - replicas that do not hold the same parameters ------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# One replica begins with other weights, in one bit, or gets damaged sums
# while checksums are off. With --check-replicas that is an error
# of all ranks, in one line, and nothing is saved; without it nobody notices.
# ===-----------------------------------------------------------------------===
"""replicas.py --dt-opt PATH --preload PATH: two and three replicas, over TCP and MPI, one of which is not like the others."""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from safetensors.numpy import save_file

import batches
from layouts import HANGS, Runner, parse_plan
from train_model import QUICK, make

MODELS = pathlib.Path(__file__).resolve().parents[1] / "models"
CASE = {"model": "gpt2", "samples": 6}
# In bf16 the last bit of a weight is in its master only.
PROGRAMS = ((2, "model:dp=2,zero=1", "f32"), (2, "model:dp=2", "bf16"), (3, "model:dp=3", "f32"))
OTHER = 1  # the rank whose --program is another folder
STEPS = 6
DIFFER = r"error: after step {} replicas of module 'model' differ: of '{}' {}(, and so of [0-9]+ more)?$"


def expect(condition, what):
    if not condition:
        sys.exit(what)


def compile_program(dt_opt, folder, ranks, plan, precision):
    folder.mkdir()
    recipe = Runner(dt_opt, MODELS, folder, precision).recipe(CASE, ranks, folder)
    (folder / "plan.json").write_text(json.dumps(parse_plan(plan)))
    make(dt_opt, recipe, folder / "program", flags=[f"--plan={folder / 'plan.json'}"], settings=QUICK)
    save_file(batches.make(MODELS / CASE["model"], CASE["samples"]), folder / "batch.safetensors")
    shutil.copytree(folder / "program", folder / "other", ignore=shutil.ignore_patterns("build", "runtime"))


def damage(folder):
    """Flips the last bit of one element; returns its tensor's name."""
    path = folder / "other/weights.safetensors"
    data = bytearray(path.read_bytes())
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    name = sorted(key for key in header if key != "__metadata__")[0]
    data[8 + length + header[name]["data_offsets"][1] - 4] ^= 1
    path.write_bytes(data)
    return name


def run(folder, ranks, comm, out, *flags, other="program", **environment):
    """`other`: the folder of rank OTHER's weights."""
    shutil.rmtree(folder / out, ignore_errors=True)
    train = [folder / "program/build/train", "--batch", folder / "batch.safetensors", "--steps", STEPS, "--threads", 1, "--checkpoint", folder / out, *flags]
    # A rank is asked for its number by a shell of its own, whatever started it.
    command = ["sh", "-c", f'folder={folder}/program; [ "${{RANK:-$OMPI_COMM_WORLD_RANK}}" = {OTHER} ] && folder={folder}/{other}; exec "$@" --program $folder', "sh", *train]
    command = [str(c) for c in command]
    environment = dict(os.environ, **environment, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    if comm == "mpi":
        done = subprocess.run(["mpirun", "-n", str(ranks), "--oversubscribe", *command], cwd=folder, capture_output=True, text=True, timeout=HANGS, env=environment)
        return done.returncode, done.stderr
    environment |= {"DT_COMM": "tcp", "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(29530 + os.getpid() % 200)}
    started = [
        subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=dict(environment, RANK=str(rank))) for rank in range(ranks)
    ]
    ended = [process.communicate(timeout=HANGS)[1] for process in started]
    codes = {process.returncode for process in started}
    expect(len(codes) == 1, f"ranks ended with {[p.returncode for p in started]}: {ended}")
    return codes.pop(), "".join(ended)


def saved(folder, out):
    return sorted(path.name for path in (folder / out).glob("step-*"))


def differs(folder, name, ended, step, parameter, who, out):
    code, text = ended
    lines = [line for line in text.splitlines() if line.startswith("error:")]
    expect(code == 1 and len(lines) == 1, f"{name}: code {code}, {text}")
    expect(re.match(DIFFER.format(step, parameter, who), lines[0]), f"{name}: {lines[0]}")
    expect(saved(folder, out) == [], f"{name}: saved {saved(folder, out)}")
    print(f"{name}: {lines[0]}", flush=True)


def check(folder, ranks, comm, parameter, arguments):
    who = f"rank {OTHER} has other values than " + ("rank 0" if ranks == 2 else "ranks 0, 2")
    name = f"{folder.name} over {comm}"
    code, text = run(folder, ranks, comm, "same", "--check-replicas", 1)
    expect(code == 0 and saved(folder, "same") == [f"step-{STEPS}"], f"{name}: alike, but code {code}: {text}")
    # The default, which looks before the first step.
    differs(folder, name, run(folder, ranks, comm, "bit", other="other"), 0, re.escape(parameter), who, "bit")
    code, text = run(folder, ranks, comm, "unseen", "--check-replicas", 0, other="other")
    expect(code == 0, f"{name}: not compared, but code {code}: {text}")
    if comm == "tcp":
        # From the first steps on, a bit in the middle of a float of each large message that rank OTHER receives.
        faults = f"recv:socket*:rank={OTHER}:min=4000:after={arguments.after}:flip=1602"
        environment = {"LD_PRELOAD": str(arguments.preload.resolve()), "DT_FAULTS": faults, "DT_FAULTS_PROGRAM": str(folder / "program/build/train"), "DT_CHECKSUM": "off"}
        ended = run(folder, ranks, comm, "sums", "--check-replicas", 1, **environment)
        differs(folder, f"{name}, damaged sums", ended, r"[1-9]\d*", ".*", ".*", "sums")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dt-opt", type=pathlib.Path, required=True)
    parser.add_argument("--preload", type=pathlib.Path, required=True)
    parser.add_argument("--after", type=int, default=6, help="messages before damage begins")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="replicas") as work:
        for ranks, plan, precision in PROGRAMS:
            folder = pathlib.Path(work) / f"{precision}-{ranks}"
            compile_program(arguments.dt_opt, folder, ranks, plan, precision)
            parameter = damage(folder)
            for comm in ("tcp", "mpi"):
                check(folder, ranks, comm, parameter, arguments)


if __name__ == "__main__":
    main()
