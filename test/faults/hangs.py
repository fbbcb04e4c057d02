# ===- hangs.py - ranks that stop, hang or are slow -------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Whatever a rank stands still in (a message, a collective inside of a task, the
# start, the end, a file), that rank is named, not those who wait for it. What is
# slow but moves on is left alone, however long it takes.
# ===-----------------------------------------------------------------------===
"""Cases of test/faults: killed, stopped and hanging ranks, slow files."""

from driver import Case, Failure

RANK = "^error: rank {rank} .*"


def takes(seconds):
    def check(run):
        if run.took < seconds:
            raise Failure(f"took {run.took:.1f} s: nothing was slow")

    return check


def without_index(run):
    for file in (run.folder / "shards").glob("*.idx.json"):
        file.unlink()


def unequal_lines(run):
    """The line names one rank, and no other as the one at fault."""
    if run.stderr.count("error: ") != 1:
        raise Failure("expected one error")


def hanging(name, rule, rank, line, **more):
    """Three ranks of which one hangs in a call of MPI, polling and asleep while they wait."""
    return [
        Case(f"{name}-{wait}", f"{rule}:rank={rank}", ranks=(3,), environment={"DT_WAIT": wait}, code=75, line=f"^error: rank {rank} .*{line}", after=unequal_lines, **more)
        for wait in ("sleep", "poll")
    ]


def asked_to_end(run):
    run.wait_for("fault", run.happened)
    run.process.terminate()


# Copies that hold little of the state: the step after a save waits in its update for the file.
BLOCKS = ("--snapshot-memory", "4K")

CASES = [
    Case("killed-between-writes", "write:*/step-8.tmp/rank-{rank}.safetensors:signal=KILL:rank={rank}", ranks=(3,), code=75, line=RANK + "died$", resumes=4),
    Case("killed-between-blocks", "write:*/step-8.tmp/rank-{rank}.safetensors:after=4:signal=KILL:rank={rank}", flags=BLOCKS, ranks=(3,), code=75, line=RANK + "died$", resumes=4),
    Case("killed-alone", "write:*/step-8.tmp/rank-{rank}.safetensors:signal=KILL", ranks=(1,), code=-9, resumes=4),
    # Rank 1 and rank 2 are partners in a tensor-parallel group.
    *hanging("hangs-in-collective-2", "MPI_Allreduce:*:after=60:hang", 2, "hangs inside collective"),
    *hanging("hangs-in-collective-1", "MPI_Allreduce:*:after=60:hang", 1, "hangs inside collective"),
    *hanging("hangs-sending", "MPI_Isend:*:after=20:hang", 1, "makes no progress"),
    *hanging("hangs-at-start", "MPI_Init_thread:*:hang", 1, "hangs inside the start of all ranks", resumes="new"),
    *hanging("hangs-at-end", "MPI_Finalize:*:hang", 2, "hangs inside the end of all ranks", resumes=12),
    *hanging("stopped-in-collective", "MPI_Allreduce:*:after=60:signal=STOP", 2, "was stopped"),
    *hanging("stopped-at-start", "MPI_Init_thread:*:signal=STOP", 2, "was stopped", resumes="new"),
    # Before it is on the board, where nobody sees its process.
    *(
        Case(f"{name}-before-the-board-{over}", f"open:/dev/shm/disttrain-*:{how}:rank=2", ranks=(3,), environment={"DT_COMM": over}, code=75, line="^error: rank [01] .* waits for rank 2, which has not begun here$", within=60, resumes="new")
        for over in ("mpi", "tcp")
        for name, how in (("hangs", "hang"), ("stopped", "signal=STOP"))
    ),
    Case("asked-to-end-before-all-came", "open:/dev/shm/disttrain-*:hang:rank=2", ranks=(3,), environment={"DT_COMM": "tcp"}, during=asked_to_end, code=1, line="^error: asked to end while ranks were still to come$", within=60, resumes="new"),
    Case("hangs-receiving", "MPI_Testall:*:after=50:hang:rank=0", ranks=(3,), environment={"DT_WAIT": "sleep"}, code=75, line="^error: rank 0 .*(hangs inside|makes no progress)"),
    Case("hangs-receiving-poll", "MPI_Waitall:*:after=10:hang:rank=0", ranks=(3,), environment={"DT_WAIT": "poll"}, code=75, line="^error: rank 0 .*hangs inside"),
    Case("write-hangs", "write:*/step-8.tmp/rank-{rank}.safetensors:hang:rank={rank}", code=75, line=RANK + "makes no progress in writing .*step-8.tmp/rank-{rank}.safetensors$", resumes=4),
    Case("block-hangs", "write:*/step-8.tmp/rank-{rank}.safetensors:after=4:hang:rank={rank}", flags=BLOCKS, code=75, line=RANK + "makes no progress in writing .*step-8.tmp/rank-{rank}.safetensors$", resumes=4),
    Case("last-write-hangs", "write:*/step-12.tmp/rank-{rank}.safetensors:hang:rank={rank}", code=75, line=RANK + "makes no progress in writing .*step-12.tmp/rank-{rank}.safetensors$", resumes=8),
    Case("sync-hangs", "fsync:*/step-8.tmp/rank-{rank}.safetensors:hang:rank={rank}", code=75, line=RANK + "makes no progress in writing .*rank-{rank}.safetensors$", resumes=4),
    Case("rename-hangs", "rename:*/step-8.tmp:hang", code=75, line="^error: rank 0 .* makes no progress in writing .*step-8", resumes=4),
    Case("read-hangs", "pread:*/001.tar:after=4:hang:rank={rank}", code=75, line=RANK + "makes no progress in reading shards/001.tar$"),
    # The others are in a tree of which that rank is the root, a branch or a leaf.
    *(Case(f"read-hangs-tcp-{rank}", f"pread:*/001.tar:after=4:hang:rank={rank}", ranks=(3,), environment={"DT_COMM": "tcp"}, code=75, line=f"^error: rank {rank} .*makes no progress in reading shards/001.tar$", after=unequal_lines)
      for rank in range(3)),
    Case("open-hangs", "open:*/001.tar:hang:rank={rank}", code=75, line=RANK + "makes no progress in opening shards/001.tar$", resumes="new"),
    Case("metrics-hang", "write:*/metrics.jsonl:after=4:hang", code=75, line="^error: rank 0 .* makes no progress", resumes=None),
    # Slower than --stall in all, but never without progress for so long.
    Case("slow-write", "write:*/step-12.tmp/rank-{rank}.safetensors:delay=60ms:times=60:rank={rank}", flags=("--stall", 2), code=0, after=takes(2.2), resumes=12),
    Case("slow-blocks", "write:*/step-8.tmp/rank-{rank}.safetensors:delay=60ms:times=60:rank={rank}", flags=("--stall", 2, *BLOCKS), code=0, after=takes(2.2), resumes=12),
    Case("slow-read", "pread:*.tar:delay=200ms:times=24", flags=("--stall", 2), code=0, after=takes(2.2), resumes=12),
    Case("slow-index", "pread:*.tar:delay=150ms:times=48", flags=("--stall", 2), before=without_index, code=0, after=takes(2.2), resumes=12),
]
