# ===- writes.py - files that a run leaves -----------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
# ===-----------------------------------------------------------------------===
"""Cases of test/faults: targets that cannot be written, found before the first step; disks that fill up; exports that are interrupted."""

import json
import subprocess
import time

from driver import Case, Failure, losses

FILES = ("--metrics", "--trace", "--save-outputs", "--save-gradients", "--report", "--traffic")


def nothing_done(run):
    if run.steps_done() or (run.folder / "run").exists() and run.steps_saved():
        raise Failure("steps were done before the target was looked at")


def targets():
    for flag in FILES:
        yield Case(f"folder{flag}", before=lambda run: (run.folder / "taken").mkdir(), flags=(flag, "taken"), line=f"^error: {flag} taken: is a folder, expected a file$", after=nothing_done, happens=False)
        yield Case(f"nowhere{flag}", flags=(flag, "none/file"), line=f"^error: {flag} none/file: folder none: No such file or directory$", after=nothing_done, happens=False)
        yield Case(f"read-only{flag}", f"open:*target*:errno=EROFS", flags=(flag, "target"), line=f"^error: {flag} target.*: cannot create: Read-only file system$", after=nothing_done)
    for flag in ("--checkpoint", "--export"):
        yield Case(f"file{flag}", before=lambda run: (run.folder / "taken").write_text(""), flags=(flag, "taken"), line="^error: .*taken: (is a file|cannot create).*$", after=nothing_done, happens=False)
        yield Case(f"below-file{flag}", before=lambda run: (run.folder / "taken").write_text(""), flags=(flag, "taken/x"), line="^error: .*taken/x: cannot create.*Not a directory$", after=nothing_done, happens=False)
        yield Case(f"read-only{flag}", "open:*target/*:errno=EROFS", flags=(flag, "target"), line="^error: .*target.*: cannot (open|create).*: Read-only file system$", after=nothing_done)


def linked(name, folder=False):
    """A link that leads to somebody's file, or folder."""

    def before(run):
        (run.folder / "victim").mkdir() if folder else (run.folder / "victim").write_text("precious")
        (run.folder / name).parent.mkdir(exist_ok=True)
        (run.folder / name).symlink_to(run.folder / "victim", target_is_directory=folder)

    return before


def untouched(run):
    victim = run.folder / "victim"
    if any(victim.iterdir()) if victim.is_dir() else victim.read_text() != "precious":
        raise Failure("the file behind a link was written to")


def claimed(flag, name):
    """Another process writes the same."""

    def before(run):
        flags = {"--metrics": "other.jsonl", "--steps": 1000000, "--checkpoint": "other", flag: name}
        run.other = subprocess.Popen(run.command([part for pair in flags.items() for part in pair]), cwd=run.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not ((run.folder / "other").exists() and run.other.poll() is None):
            time.sleep(0.05)

    return before


def end_other(run):
    run.process.wait(60)
    run.other.terminate()
    if run.other.wait(60):
        raise Failure(f"the first process ended with {run.other.returncode}")


def export_first(run):
    done = subprocess.run(run.command(("--export", "out", "--steps", 4, "--checkpoint", "first")), cwd=run.folder, capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise Failure(f"the first run ended with {done.returncode}: {done.stderr}")
    run.exported = contents(run)
    (run.folder / "metrics.jsonl").unlink()


def contents(run):
    return {p.name: p.read_bytes() for p in (run.folder / "out").iterdir()}


def as_before(run):
    if contents(run) != run.exported:
        raise Failure(f"the earlier export is not what it was: {sorted(contents(run))}, before {sorted(run.exported)}")


def whole_files(run):
    """Killed at any point: what has a name is complete, old or new."""
    for name, data in run.exported.items():
        if len((run.folder / "out" / name).read_bytes()) != len(data):
            raise Failure(f"{name} is cut")


def ends_saved(run):
    """The state after the step at which it was noticed is there, and what was written of the metrics stays; lines that found no place are missing."""
    saved = run.steps_saved()
    if not saved or saved[-1] > 7:
        raise Failure(f"saved {saved}")
    done = subprocess.run(run.command(("--resume",)), cwd=run.folder, capture_output=True, text=True, timeout=60)
    steps = [json.loads(line)["step"] for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    if done.returncode or steps != [1, 2, 3, 4, 5, *range(saved[-1] + 1, 13)] or losses(run.folder)[-1] != run.setup.losses[run.ranks][-1]:
        raise Failure(f"resumed with {done.returncode} to the steps {steps} {done.stderr}")


EXPORT = ("--export", "out")
CASES = [
    *targets(),
    Case("same-file", flags=("--trace", "x", "--report", "./x"), line="^error: --report and --trace name the same file", after=nothing_done, happens=False),
    # Links in places that anybody may have made, and two processes at one output.
    *(Case(f"link{flag}", before=linked("taken"), flags=(flag, "taken"), line=f"^error: {flag} taken: is a link, expected a file$", after=untouched, happens=False) for flag in FILES),
    Case("link-lock", before=linked("run/lock"), line="^error: run/lock: is a link, expected a file$", after=untouched, happens=False),
    Case("link-step", before=linked("run/step-4.tmp", folder=True), code=0, after=untouched, resumes=12, happens=False),
    Case("link-temporary", before=linked("report.json.tmp"), flags=("--report", "report.json"), code=0, after=untouched, resumes=12, happens=False),
    *(Case(f"two{flag}", before=claimed(flag, "shared"), flags=(flag, "shared"), ranks=(1,), line=rf"^error: {flag} shared: process \d+ writes it$", during=end_other, happens=False) for flag in (*FILES, "--export")),
    # Metrics: noticed at the next step, and nothing is lost.
    Case("metrics-full", "write:*/metrics.jsonl:after=5:errno=ENOSPC", line=r"^error: metrics\.jsonl: cannot write: No space left on device; the state is saved in run/step-\d$", after=ends_saved),
    *(Case(f"full{flag}", f"write:*/late*:errno=ENOSPC", flags=(flag, "late"), line=r"^error: late.*: cannot write: No space left on device$", resumes=12) for flag in ("--trace", "--report", "--traffic")),
    Case("short-everywhere", "write:*:short=100", flags=("--trace", "t", "--traffic", "b", "--export", "out"), code=0, resumes=12),
    # Export: the earlier one stays.
    Case("export-full", "write:*/out/*:errno=ENOSPC:after=1", before=export_first, flags=EXPORT, line=r"^error: out/.*: cannot write: No space left on device$", after=as_before, resumes=12),
    Case("export-sync", "fsync:*/out/*:errno=EIO", before=export_first, flags=EXPORT, line=r"^error: out/.*: cannot sync: Input/output error$", after=as_before, resumes=12),
    Case("export-rename", "rename:*out/*:errno=EIO:after=1:times=1", before=export_first, flags=EXPORT, line=r"^error: out/.*: cannot rename.*Input/output error$", after=as_before, resumes=12),
    Case("export-part", "write:*out/weights.rank-{rank}:errno=ENOSPC:rank={rank}", ranks=(3,), before=export_first, flags=EXPORT, line=r"^error: out/weights\.rank-2: cannot write: No space left on device$",
         after=as_before, resumes=12),
    Case("export-killed", "write:*/out/*:signal=KILL:after=1", before=export_first, flags=EXPORT, code=(-9, 75, 137), line=None, more_lines=True, after=whole_files, resumes=12),
]
