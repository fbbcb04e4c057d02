# ===- cuda_lost.py - ranks of a CUDA program that end early ------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# On the double of CUDA, two ranks over either fabric. One is killed while the run
# saves: every process ends soon, with one line that names the rank, and the run is
# resumed from a checkpoint that is whole. Both have no room on their devices, at
# the start or for scratch: one line, and what was saved stays. One is lost inside
# a call of NCCL, in which its peer's host waits for it, too: the run ends within
# --stall and ten seconds. Where kernels of NCCL have no room at once: one line.
# ===-----------------------------------------------------------------------===
"""cuda_lost.py --dt-opt PATH --double DIR: kills a rank, and takes memory away."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

import golden
import train_model
from cuda_resume import files
from cuda_waits import Variant, emit
from faults import processes

WITHIN = 10  # seconds after a kill


def start(program, fabric, steps, *flags, **environment):
    work = program.parent
    command = [program / "build/train", "--batch", work / "batch.safetensors", "--threads", 1, "--ranks", 2, "--steps", steps, "--checkpoint", work / "saved", "--save-every", 2, *flags]
    variables = dict(os.environ, DT_FABRIC=fabric, DT_CUDA_DOUBLE_SHARED=str(work), **environment)
    return subprocess.Popen([str(c) for c in command], cwd=work, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables)


def newest(work):
    return max([int(path.name[5:]) for path in (work / "saved").glob("step-*") if path.name[5:].isdigit()], default=0)


def check_line(what, run, code, line):
    _, errors = run.communicate(timeout=golden.HANGS)
    if run.returncode != code or errors.count("\n") != 1 or not re.match(line, errors):
        sys.exit(f"{what}: ended with {run.returncode}:\n{errors}")
    print(f"{what}: {errors.strip()}")


def check_kill(program, fabric):
    """After the second checkpoint from where the run begins."""
    train, work = program / "build/train", program.parent
    before = newest(work)
    run = start(program, fabric, 1000, *(["--resume"] if before else []))
    limit = time.time() + golden.HANGS
    while newest(work) < before + 4 and run.poll() is None and time.time() < limit:
        time.sleep(0.01)
    for pid, rank in processes(train):
        if rank == 1:
            os.kill(pid, signal.SIGKILL)
    begin = time.time()
    check_line(f"killed over {fabric}", run, 75, r"error: rank 1 \(model stage 0, replica 1\) at step \d+.* died$")
    if time.time() - begin > WITHIN or processes(train):
        sys.exit(f"over {fabric}: {time.time() - begin:.1f} s after the kill there are {processes(train)}")
    done = newest(work) + 1
    run = start(program, fabric, done, "--resume")
    _, errors = run.communicate(timeout=golden.HANGS)
    if run.returncode or newest(work) != done:
        sys.exit(f"resumed over {fabric}: {run.returncode}, {errors}")


# In rank 1's calls of NCCL: the first one makes a communicator.
LOST = {
    "kill 1": r"error: rank 1 \(model stage 0, replica 1\) at step 0 died$",
    "stop 1": r"error: rank 1 \(.*\) at step 0 was stopped$",
    "hang 1": r"error: rank 1 \(.*\) at step 0 hangs inside collective 1 of group \d+ \(start of NCCL\)$",
    "kill 9": r"error: rank 1 \(.*\) at step \d+.* died$",
    # Here a host that waits for its device does not run, either.
    "hang 9": r"error: rank [01] \(.*\) at step \d+.* hangs inside collective \d+ of group \d+ \(.*\)$",
}
STALL = 2  # seconds


def check_lost(program, lost, line):
    begin = time.time()
    run = start(program, "nccl", 1000, "--stall", STALL, DT_CUDA_DOUBLE_LOST=lost)
    check_line(lost, run, 75, line)
    if time.time() - begin > STALL + WITHIN or processes(program / "build/train"):
        sys.exit(f"{lost}: after {time.time() - begin:.1f} s there are {processes(program / 'build/train')}")


def main():
    arguments = train_model.on_double(__doc__)
    with tempfile.TemporaryDirectory() as temporary:
        program = emit(arguments, pathlib.Path(temporary) / "lost", Variant("gpt2", 2, ranks=2, plan="model:dp=2,zero=1"))
        room = r"error: NCCL: kernels of 2 streams of collectives and 0 of messages may take {} thread blocks at once, expected less than the {} multiprocessors of the GPU: {}$"
        for what, line in {
            ("DT_CUDA_DOUBLE_SMS", "2"): room.format(2, 2, "a rank has too many modules"),
            ("NCCL_MAX_CTAS", "65"): room.format(256, 132, "NCCL_MAX_CTAS, .* are too large"),
        }.items():
            check_line("=".join(what), start(program, "nccl", 1, **dict([what])), 1, line)
        for lost, line in LOST.items():
            check_lost(program, lost, line)
        for fabric in ("nccl", "host"):
            check_kill(program, fabric)
        saved = files(program.parent / "saved")
        for bytes, line in ((1 << 20, "error: cannot allocate"), (8 << 20, "error: rank [01]: CUDA: cudaMalloc of scratch: out of memory")):
            run = start(program, "nccl", 1000, "--resume", DT_CUDA_DOUBLE_MEMORY=str(bytes))
            check_line(f"{bytes} bytes", run, 1, line)
            if files(program.parent / "saved") != saved:
                sys.exit("checkpoints have changed")


if __name__ == "__main__":
    main()
