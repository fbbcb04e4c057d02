# ===- checkpoints.py - checkpoints that cannot be written or read -----------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
# ===-----------------------------------------------------------------------===
"""Cases of test/faults: full disks, damaged checkpoints, two runs in one folder, another schedule, losses that are no numbers."""

import json
import shutil
import subprocess

from driver import Case, Failure

PART = "*/step-8.tmp/rank-{rank}.safetensors"
SLOW = ";pread:*.tar:delay=40ms"  # steps take longer than a write, so that it is seen when one has failed
SOON = (9, 10, 11)  # after a failure at step 8, before the save of step 12


def left(run, *names):
    """What the checkpoint folder has besides the lock."""
    have = sorted(p.name for p in (run.folder / "run").iterdir() if p.name != "lock")
    if have != sorted(names):
        raise Failure(f"the checkpoint folder has {have}, expected {sorted(names)}")


def noticed(run):
    """A write of step 8 failed: the run ended before the next one is due, and saved that."""
    saved = run.steps_saved()
    if not saved or saved[-1] not in SOON:
        raise Failure(f"saved {saved}: the failure was not noticed before the next save")
    left(run, *(f"step-{step}" for step in saved))


def train_first(run, *flags, steps=12):
    command = run.command(("--steps", steps, *flags))
    done = subprocess.run(command, cwd=run.folder, capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise Failure(f"the first run ended with {done.returncode}: {done.stderr}")


def damage(change, steps=12):
    def before(run):
        train_first(run, steps=steps)
        change(run.folder / f"run/step-{steps}")

    return before


def flip(name):
    def change(folder):
        path = folder / name
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)

    return change


def cut(name):
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:-40])


def huge_step(folder):
    index = json.loads((folder / "index.json").read_text())
    index["step"] = 2**64 - 1
    del index["check"]
    (folder / "index.json").write_text(json.dumps(index))


def both(folder):
    flip("rank-0.safetensors")(folder)
    flip("rank-0.safetensors")(folder.parent / "step-8")


def fallback(name, change, line):
    return Case(f"damaged-{name}", before=damage(change), flags=("--resume",), code=0, out="resumed at step 8", line=f"^warning: run/step-12/{line}.*; resuming from run/step-8$",
                after=lambda run: left(run, "step-12", "step-8"), happens=False, resumes=12)


def first_run_holds(run):
    """Another run in the folder, while the first one is at work."""
    run.wait_for("checkpoint", lambda: run.steps_saved())
    done = subprocess.run(run.command(("--resume", "--metrics", "second.jsonl")), cwd=run.folder, capture_output=True, text=True, timeout=60)
    if done.returncode != 1 or "process " not in done.stderr or " saves its checkpoints here" not in done.stderr or len(done.stderr.splitlines()) != 1:
        raise Failure(f"the second run ended with {done.returncode}: {done.stderr}")


def same_losses(run):
    steps = [json.loads(line)["step"] for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    if steps != list(range(1, len(steps) + 1)):
        raise Failure(f"metrics.jsonl has the steps {steps}")


def nan_later(run):
    """A checkpoint to resume from; the learning rate then makes all numbers overflow."""
    train_first(run, steps=8)


def kept(run):
    left(run, "step-8", "step-4")


CASES = [
    # A failed call: one line with file, operation and reason; noticed before the next save; nothing of it is left.
    *(Case(f"full-{what}", f"{call}:{PART}:errno={code}:times=1:rank={{rank}}{SLOW}", line=rf"^error: run/step-8\.tmp/rank-{{rank}}\.safetensors: cannot {operation}: {text}.*the state is saved in", after=noticed,
           resumes=lambda step: step in SOON)
      for what, call, code, operation, text in (("write", "write", "ENOSPC", "write", "No space left on device"), ("sync", "fsync", "EIO", "sync", "Input/output error"),
                                                ("create", "open", "EDQUOT", "create", "Disk quota exceeded"))),
    Case("full-in-blocks", f"write:{PART}:after=4:errno=ENOSPC:times=1:rank={{rank}}{SLOW}", flags=("--snapshot-memory", "4K"),
         line=r"^error: run/step-8\.tmp/rank-{rank}\.safetensors: cannot write: No space left on device.*the state is saved in", after=noticed, resumes=lambda step: step in SOON),
    Case("full-ok", "open:*/step-8.tmp/rank-{rank}.ok*:errno=ENOSPC:times=1:rank={rank}" + SLOW, line=r"^error: run/step-8\.tmp/rank-{rank}\.ok: cannot create: No space left on device", after=noticed,
         resumes=lambda step: step in SOON),
    Case("full-for-good", "write:*/step-[89].tmp/rank-{rank}.safetensors:errno=ENOSPC:rank={rank};write:*/step-1?.tmp/rank-{rank}.safetensors:errno=ENOSPC:rank={rank}",
         line=r"^error: run/step-8\.tmp/rank-{rank}\.safetensors: cannot write: No space left on device$", after=lambda run: left(run, "step-4"), resumes=4),
    Case("full-index", "write:*/step-8.tmp/index.json*:errno=ENOSPC:times=1" + SLOW, line=r"^error: run/step-8\.tmp/index\.json.*: cannot write: No space left on device", after=noticed, resumes=lambda step: step in SOON),
    Case("full-rename", "rename:*/step-8.tmp:errno=EIO:times=1" + SLOW, line=r"^error: run/step-8: cannot rename.*Input/output error", after=noticed, resumes=lambda step: step in SOON),
    Case("full-at-the-end", "write:*/step-12.tmp/rank-{rank}.safetensors:errno=ENOSPC:rank={rank}", line=r"^error: run/step-12\.tmp/rank-{rank}\.safetensors: cannot write: No space left on device$",
         after=lambda run: left(run, "step-4", "step-8"), resumes=8),
    Case("short-writes", "write:*/step-*.tmp/*:short=1000", code=0, resumes=12),
    # The rest of a failure does not stand in the way.
    Case("rest-of-a-crash", before=lambda run: (train_first(run, steps=8), shutil.copytree(run.folder / "run/step-8", run.folder / "run/step-12.tmp")), flags=("--resume",), code=0, out="resumed at step 8",
         after=lambda run: left(run, "step-8", "step-12"), happens=False),
    # Damage: the newest good one.
    fallback("part", flip("rank-0.safetensors"), r"rank-0\.safetensors: "),
    fallback("cut", cut("rank-0.safetensors"), r"rank-0\.safetensors: "),
    fallback("missing", lambda folder: (folder / "rank-0.safetensors").unlink(), r"rank-0\.safetensors: cannot open: No such file"),
    fallback("index", flip("index.json"), r"index\.json: not the index of a checkpoint"),
    fallback("step", huge_step, r"index\.json: not the index of a checkpoint: \"step\""),
    Case("damaged-both", before=damage(both), flags=("--resume",), line=r"^error: run/step-12/rank-0\.safetensors: damaged .*has no other checkpoint that is whole$", happens=False),
    # What cannot be read for the moment is not damage.
    Case("unreadable", "pread:*/step-12/rank-0.safetensors:errno=EIO", before=damage(lambda folder: None), flags=("--resume",), line=r"^error: run/step-12/rank-0\.safetensors: cannot read at byte \d+: Input/output error$",
         after=lambda run: left(run, "step-12", "step-8"), resumes=12),
    Case("two-runs", "write:*/step-8.tmp/*:delay=10s:times=1", flags=("--stall", 60), during=first_run_holds, code=0, resumes=12),
    Case("metrics-kept", before=lambda run: train_first(run, steps=8), flags=("--resume",), code=0, after=same_losses, happens=False),
    Case("other-lr", before=lambda run: train_first(run, steps=8), flags=("--resume", "--lr", "0.5"), code=0, line="^warning: the schedule is not the one that the checkpoint was made with: lr .* -> 0.5$", happens=False),
    # Numbers that are none.
    Case("not-finite", before=nan_later, flags=("--resume", "--steps", 40, "--lr", "1e30", "--export", "out"), line=r"^error: .*(is (nan|inf)|not saved)", more_lines=True,
         after=lambda run: (kept(run), (run.folder / "out").exists() and list((run.folder / "out").iterdir()) and (_ for _ in ()).throw(Failure("exported"))), happens=False),
]
