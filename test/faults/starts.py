# ===- starts.py - ranks that were started differently ----------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Three ranks that a launcher starts over TCP, as torchrun does it, or mpirun; one
# of them otherwise than the rest. What must agree is said in one line, by all.
# ===-----------------------------------------------------------------------===
"""Cases of test/faults: flags, variables and programs that are not the same on all ranks."""

from driver import STEPS, Case

# How rank 1 differs: {}.
TCP = 'export WORLD_SIZE=3 LOCAL_WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=%d DT_COMM=tcp; for rank in 0 1 2; do export RANK=$rank; if [ $rank = 1 ]; then ( {} ) & else "$@" & fi; all="$all $!"; done; for rank in $all; do wait $rank || code=$?; done; exit $code'
MPI = "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; exec mpirun -n 3 --oversubscribe sh -c 'if [ $OMPI_COMM_WORLD_RANK = 1 ]; then {}; else exec \"$@\"; fi' sh \"$@\""
ports = iter(range(29410, 29490))


def differs(name, other, line, code=1, **more):
    if code:
        more = {"line": f"^error: {line}$", "resumes": "new", **more}
    tcp, mpi = (TCP % next(ports)).replace("{}", other), MPI.replace("{}", other.replace("'", "'\\''"))
    yield Case(f"{name}-tcp", shell=tcp, without=("--ranks",), ranks=(3,), code=code, **more)
    # mpirun speaks of ranks that end with an error, too.
    yield Case(f"{name}-mpi", shell=mpi, without=("--ranks",), ranks=(3,), code=code, more_lines=True, **more)


def flag(name, text, line, **more):
    yield from differs(name, f'"$@" {text}', f"{line} on rank 1, .* on rank 0; all ranks need the same", **more)


CASES = [
    *differs("same", '"$@"', "", code=0, resumes=STEPS),
    *flag("lr", "--lr 0.5", "--lr: 0.5"),
    *flag("seed", "--seed 5", "--seed: 5"),
    *flag("keep", "--keep 5", "--keep: 5"),
    *flag("trace", "--trace trace.json", "--trace: trace.json"),
    *flag("resume", "--resume", "--resume: newest"),
    *flag("on-nan", "--on-nan skip", "--on-nan: skip"),
    *flag("validate", "--validate 'shards/*.tar'", "--validate: given"),
    *flag("reorder", "--reorder inter", "--reorder: inter"),
    *differs("threads", '"$@" --workers 2', "", code=0, resumes=STEPS),
    *differs("unknown", '"$@" --stps 3', "unknown flag '--stps' .*"),
    *differs("program", 'cp "$1" other; printf x >>other; shift; ./other "$@"', "rank 1 runs another program than rank 0, .* and .*: all ranks need copies of one file"),
]
