# ===- threads.py - threads and memory that the system has not ----------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
# ===-----------------------------------------------------------------------===
"""Cases of test/faults: threads that cannot be made, memory that runs out in any thread. Every run goes on, or ends with one line and code 1; none ends by a signal."""

from driver import Case, Failure


def said(*words):
    """A run that ended says why in one line of an error, one that went on has none."""

    def after(run):
        errors = [line for line in run.stderr.splitlines() if line.startswith("error: ")]
        # Of a rank that was not on the board yet the others say that it died.
        if bool(errors) != (run.process.returncode != 0) or len(errors) > min(run.ranks, 2):
            raise Failure(f"code {run.process.returncode} and {len(errors)} errors")
        if errors and not any(word in line for word in words for line in errors):
            raise Failure(f"the lines say nothing of it: {errors}")
        if (run.folder / "run").exists() and any(p.name.endswith(".tmp") for p in (run.folder / "run").iterdir()) and not run.process.returncode:
            raise Failure("an unfinished checkpoint is left")

    return after


NO_THREAD = said("cannot start a thread for ")
NO_MEMORY = said("memory", "bad_alloc")
CASES = [
    # The n-th thread that the program asks for, once. (Without MPI, whose library aborts where it has no thread.)
    *(Case(f"thread-{n}", environment={"DT_COMM": "tcp"}, faults=f"thread:*:after={n}:times=1:errno=EAGAIN:rank={{rank}}", code=(0, 1, 75), more_lines=True, after=NO_THREAD, happens=False) for n in range(6)),
    # No more threads from then on: readers and checkpoints do without.
    *(Case(f"no-threads-{n}", f"thread:*:after={n}:errno=EAGAIN", ranks=(1,), code=(0, 1, 75), more_lines=True, after=NO_THREAD, happens=False) for n in range(6)),
    # Memory that runs out at some point, and stays short. The code may be that of the ranks that a silent end takes down.
    *(Case(f"memory-{n}", f"new:*:after={n}:errno=ENOMEM:rank={{rank}}", code=(0, 1, 75), more_lines=True, after=NO_MEMORY, happens=False) for n in (300, 1000, 3000, 5000, 8000, 12000, 20000, 40000)),
]
