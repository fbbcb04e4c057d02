# ===- descriptors.py - standard descriptors, closed, full or gone ----------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A shell starts the program with descriptors that are closed, or with output that
# nobody reads. Training goes on with the same losses, whatever becomes of its log.
# ===-----------------------------------------------------------------------===
"""Cases of test/faults: standard descriptors, pipes, limits of files and of descriptors."""

import json

from driver import EVERY, STEPS, Case, Failure, losses


def after_all(run):
    """All steps were done, and nothing but the metrics' lines is in the files of the run."""
    if losses(run.folder) != run.setup.losses[run.ranks]:
        raise Failure(f"losses {losses(run.folder)}, undisturbed {run.setup.losses[run.ranks]}")
    for line in (run.folder / "metrics.jsonl").read_text().splitlines():
        json.loads(line)
    if (lock := run.folder / "run/lock").exists() and b"step " in lock.read_bytes():
        raise Failure("the log went into run/lock")


def case(name, script, **settings):
    return Case(name, **{"shell": script, "code": 0, "after": after_all, "resumes": STEPS, **settings})


NOISY = ("--log-every", 0)
# Many lines: the pipe is full long before the end. Nobody reads it until all is over.
UNREAD = 'mkfifo log; sleep 1000 <log >/dev/null 2>&1 & reader=$!; head -c 65536 /dev/zero >log; "$@" {}; code=$?; kill $reader; exit $code'

CASES = [
    case("closed-stdin", 'exec "$@" <&-'),
    case("closed-stdout", 'exec "$@" >&-'),
    case("closed-stderr", 'exec "$@" 2>&-'),
    case("closed-stdin-stdout", 'exec "$@" <&- >&-'),
    case("closed-all", 'exec "$@" <&- >&- 2>&-'),
    case("read-only-stdout", 'exec "$@" 1</dev/null', flags=NOISY, line="^warning: standard output: Bad file descriptor; the run goes on without its log$"),
    # Whoever reads is gone: the run goes on.
    case("head", '{ "$@"; echo $? >code; } | head -n 1; exit $(cat code)', flags=NOISY, line="^warning: standard output: Broken pipe; the run goes on without its log$"),
    case("full-disk-of-the-log", 'exec "$@" >/dev/full', flags=NOISY, line="^warning: standard output: No space left on device; the run goes on without its log$"),
    # Whoever reads does not: beyond --stall nothing happens, and the end comes.
    case("unread", UNREAD.replace("{}", ">log"), line="^warning: standard output: [0-9]+ lines were not read$", flags=NOISY, faults="write:*/metrics.jsonl:delay=500ms", within=60),
    case("unread-both", UNREAD.replace("{}", ">log 2>&1"), flags=NOISY, within=60),
    # A write beyond `ulimit -f` (in units of 512 bytes) is one that fails. MPI needs larger files than a checkpoint's.
    case("file-limit", 'ulimit -f 1000; exec "$@"', environment={"DT_COMM": "tcp"}, code=1, line=f"^error: run/step-{EVERY}.tmp/rank-[0-9].safetensors: cannot write: File too large$", after=None, resumes="new"),
    # A look at another process that fails says nothing of it.
    *(
        case(f"look-{errno}", 'exec "$@"', faults=f"open:/proc/*/stat:after={after}:times=3:errno={errno}", ranks=(3,))
        for errno, after in (("EMFILE", 20), ("ENFILE", 40), ("EACCES", 30))
    ),
    case("look-first", 'exec "$@"', faults="open:/proc/*/stat:times=2:errno=EMFILE", ranks=(3,)),
    case("look-never", 'exec "$@"', faults="open:/proc/*/stat:after=8:errno=EMFILE;write:*/metrics.jsonl:delay=300ms", flags=("--stall", 2), ranks=(3,)),
]
