# ===- memory.py - runs that have not enough memory ----------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# As many limits as there are places where the last bit of memory may be missing:
# from one under which the program cannot even be loaded to one that is enough.
# ===-----------------------------------------------------------------------===
"""Cases of test/faults: runs under `ulimit -v`. Every run goes on to its end, or ends with a line that says why and code 1; none ends by a signal."""

from driver import Case
from threads import said

# What of the system is first to have too little; before main() it is the loader that says so.
NO_MEMORY = said("memory", "Cannot allocate", "cannot start a thread", "Resource temporarily unavailable")
LIMITS = [int(40 * 1.06**i) for i in range(60)]  # MB


def missing(run):
    """The loader has words of its own."""
    if run.process.returncode != 127 and "error while loading shared libraries" not in run.stderr:
        NO_MEMORY(run)


CASES = [
    Case(f"limit-{limit}", shell=f'ulimit -v {limit * 1024}; exec "$@"', environment={"DT_COMM": "tcp"}, code=(0, 1, 75, 127), more_lines=True, after=missing)
    for limit in LIMITS
]
