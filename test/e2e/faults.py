# ===- faults.py - killed ranks, then resumed ------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A program on several ranks is trained to the end once. Then it is trained again
# and again with checkpoints, and somebody (a rank, the launcher) is killed or
# stopped at a random time: also while processes start, and while a checkpoint is
# written. Each time every process must be gone within ten
# seconds, with a code that is not 0 and exactly one line that names the rank; and
# what is resumed must give the losses of the run that nobody disturbed: bit by bit
# under the same plan, within float32's rounding under another.
# ===-----------------------------------------------------------------------===
"""faults.py --dt-opt PATH [--case NAME] [--kills N] [--seed S]: kills ranks at random and resumes."""

import argparse
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

from layouts import HANGS, Failure, Runner, parse_plan
import batches
import tolerance
from safetensors.numpy import load_file, save_file

CASES = {
    "mllm": dict(name="mllm", model="mllm", samples=12, micro=3, plan="vision:dp=2 llm:pp=2,zero=1 generator:", other="vision: llm:tp=2,dp=2,zero=1 generator:"),
    # Experts shared out over ranks that share tokens, then over replicas.
    "experts": dict(name="experts", model="extra/qwen3_moe", samples=8, micro=4, plan="model:cp=2,ep=2,pp=2", other="model:tp=2,dp=2,ep=4,zero=1"),
}
STEPS = 120
AFTER = 10  # steps under another plan that are compared: rounding grows from step to step
STALL = 4
WITHIN = 10


def compile_plan(runner, work, case, name):
    folder, plan = work / name, case[name]
    folder.mkdir()
    done = runner.compile(case, case["micro"], parse_plan(plan), folder)
    if done.returncode:
        raise Failure(f"dt-opt ended with {done.returncode}: {done.stderr[-1500:]}")
    runner.build(folder)
    return folder / "program/build/train", parse_plan(plan)["ranks"]


def command(program, batch, checkpoint, metrics, resume=False, steps=STEPS):
    train, ranks = program
    flags = ["--batch", batch, "--steps", steps, "--ranks", ranks, "--threads", 1, "--checkpoint", checkpoint, "--save-every", 5, "--metrics", metrics, "--stall", STALL]
    return [str(c) for c in [train, *flags, *(["--resume"] if resume else [])]]


def processes(train):
    """Living processes of the program: (pid, rank or None for the launcher)."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            text = (entry / "cmdline").read_bytes().split(b"\0")
            state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
            environment = (entry / "environ").read_bytes().split(b"\0")
        except (OSError, IndexError):
            continue
        if state in "ZX" or str(train).encode() not in text:
            continue
        rank = [e.split(b"=")[1] for e in environment if e.startswith((b"OMPI_COMM_WORLD_RANK=", b"RANK="))]
        found.append((int(entry.name), int(rank[0]) if rank else None))
    return found


def losses(metrics):
    return [json.loads(line)["loss"] for line in metrics.read_text().splitlines() if line.strip()]


def wait_for(when, train, folder, generator, length):
    """Until a time at random, until ranks are there, or until a checkpoint is under way."""
    if when == "any time":
        return time.sleep(generator.uniform(0.05, 0.9 * length))
    limit = time.time() + 60
    begun = {"launch": lambda: any(rank is not None for _, rank in processes(train)), "checkpoint": lambda: any((folder / "checkpoint").glob("step-*.tmp"))}[when]
    while not begun() and time.time() < limit:
        time.sleep(0.001)
    if when == "launch":
        time.sleep(generator.uniform(0, 0.3))


def harm(program, batch, folder, generator, length):
    """One run that is disturbed; what was done, and what is wrong with how it ended."""
    train, ranks = program
    run = subprocess.Popen(command(program, batch, folder / "checkpoint", folder / "metrics.jsonl"), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    when = generator.choice(["any time", "any time", "launch", "checkpoint"])
    wait_for(when, train, folder, generator, length)
    what = generator.choice(["rank", "rank", "rank", "stop", "launcher"])
    there = processes(train)
    targets = [p for p in there if (p[1] is None and p[0] == run.pid if what == "launcher" else p[1] is not None)]
    if not targets or run.poll() is not None:
        run.kill()
        run.communicate()
        end_all(train)
        return "too early or too late", None
    pid, rank = generator.choice(targets)
    begin = time.time()
    os.kill(pid, signal.SIGSTOP if what == "stop" else signal.SIGKILL)
    what = f"{what} {'' if rank is None else rank} at {when}"
    # Of a rank that has not begun others are sure five seconds later.
    limit = WITHIN if "stop" not in what else STALL + 5 + WITHIN
    try:
        _, errors = run.communicate(timeout=limit + 10)
    except subprocess.TimeoutExpired:
        end_all(train)
        run.kill()
        run.communicate()
        return what, "hangs"
    while processes(train) and time.time() < begin + limit:
        time.sleep(0.05)
    took = time.time() - begin
    if processes(train):
        end_all(train)
        return what, f"processes are left after {took:.1f} s"
    if run.returncode == 0:
        return what, "ended with 0"
    if took > limit:
        return what, f"took {took:.1f} s"
    lines = [line for line in errors.splitlines() if line.strip()]
    if re.search("PMIx_server_finalize|PMIX ERROR", errors):  # Open MPI 4.1.4's mpirun itself may crash or complain while it ends; that is not ours
        lines = [line for line in lines if not line.startswith("[")]
    named = re.compile(rf"\brank {rank}\b") if rank is not None else re.compile("launcher")
    if when == "launch":  # ranks that do not know each other yet: nobody knows who was first
        named = re.compile(r"^error: ")
    if len(lines) != 1 or not named.search(lines[0]):
        return what, f"expected one line naming it, got:\n{errors}"
    return f"{what}: {lines[0]}", None


def end_all(train):
    for pid, _ in processes(train):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def last_saved(folder):
    return max([int(p.name.split("-")[1]) for p in (folder / "checkpoint").glob("step-*[0-9]")], default=0)


def resume(program, batch, folder, steps=STEPS, flags=()):
    done = subprocess.run([*command(program, batch, folder / "checkpoint", folder / "metrics.jsonl", last_saved(folder) > 0, steps), *flags],
                          cwd=folder, capture_output=True, text=True, timeout=HANGS)
    if done.returncode:
        raise Failure(f"cannot be resumed: {done.stderr[-800:]}")
    return losses(folder / "metrics.jsonl")


def draws(program, batch, work, want):
    """What roundings of the initial weights do to the losses."""
    weights, drawn = load_file(program[0].parents[1] / "weights.safetensors"), []
    for seed in range(tolerance.DRAWS):
        folder = work / f"drawn-{seed}"
        folder.mkdir()
        save_file(tolerance.perturbed(weights, "f32", seed), folder / "drawn.safetensors")
        drawn.append(resume(program, batch, folder, AFTER, ["--init-from", "drawn.safetensors"]))
    return tolerance.CurveDraws(want, drawn)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dt-opt", type=pathlib.Path, required=True)
    parser.add_argument("--case", choices=CASES, default="mllm")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    case, generator, failed, drawn = CASES[arguments.case], random.Random(arguments.seed), 0, None
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(temporary)
        runner = Runner(arguments.dt_opt, pathlib.Path(__file__).parents[1] / "models", work)
        program = compile_plan(runner, work, case, "plan")
        other = compile_plan(runner, work, case, "other")
        batch = work / "batch.safetensors"
        save_file(batches.make(runner.models / case["model"], case["samples"]), batch)
        (work / "whole").mkdir()
        begin = time.time()
        want = resume(program, batch, work / "whole")
        length = time.time() - begin
        print(f"undisturbed: {len(want)} steps in {length:.1f} s")
        for kill in range(arguments.kills):
            folder = work / f"kill-{kill}"
            folder.mkdir()
            what, wrong = harm(program, batch, folder, generator, length)
            if not wrong:
                changed, first = kill % 4 == 3, last_saved(folder)
                have = resume(other if changed else program, batch, folder)
                part = slice(first, first + AFTER) if changed else slice(0, STEPS)
                same = len(have) == len(want) and have[part] == want[part]
                if not same and changed and len(have) == len(want):
                    drawn = drawn or draws(program, batch, work, want[:AFTER])
                    same = tolerance.compare_curves(have[part], want[part], 0, drawn)[0] <= 1
                wrong = None if same else f"resumed at {first} {'under another plan ' if changed else ''}to {have[part][-5:]}, undisturbed {want[part][-5:]}"
            failed += bool(wrong)
            print(f"{kill:3} {'FAILED' if wrong else 'ok    '} {what} {wrong or ''}", flush=True)
    print(f"{arguments.kills} kills, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
