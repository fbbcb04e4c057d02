# ===- flips.py - bits that change on the way --------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Over TCP, on any connection, in frames and in what they carry: whoever receives it
# says so, in one line, and nothing is computed with it.
# ===-----------------------------------------------------------------------===
"""Cases of test/faults: flipped bits between ranks, and checksums that are off."""

from driver import STEPS, Case, Failure

TCP = {"DT_COMM": "tcp"}
DAMAGED = r"^error: rank {0} on \S+: what rank [012] on \S+ \(127.0.0.1\) sent came damaged: its checksum is wrong$"


def ended_early(run):
    if run.steps_done() == STEPS:
        raise Failure("all steps were done with what came damaged")


def flipped(rank, after, byte, least):
    return Case(
        f"flip-{rank}-{after}-{byte}-{least}", f"recv:socket*:rank={rank}:min={least}:after={after}:times=1:flip={byte}", ranks=(3,), environment=TCP, code=1, line=DAMAGED.replace("{0}", f"{rank}"), after=ended_early
    )


CASES = [
    # Frames (40 bytes), and larger messages, from the third step or so on; what carries nothing of its own is padding.
    *(flipped(rank, after, byte, least) for rank in (0, 1, 2) for after, byte, least in ((200, 0, 40), (220, 9, 40), (240, 30, 40), (20, 100, 1000), (40, 4000, 4000), (10, 777, 2000))),
    Case("checksums-off", "recv:socket*:rank=1:min=2000:after=10:times=1:flip=3", ranks=(3,), environment={**TCP, "DT_CHECKSUM": "off"}, code=0),
    Case(
        "checksums-differ",
        shell='export WORLD_SIZE=3 LOCAL_WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=29495 DT_START_TIMEOUT=5; for rank in 0 1 2; do export RANK=$rank; if [ $rank = 1 ]; then DT_CHECKSUM=off "$@" & else "$@" & fi; all="$all $!"; done; for rank in $all; do wait $rank || code=$?; done; exit $code',
        without=("--ranks",),
        ranks=(3,),
        environment=TCP,
        code=(1, 75),
        line="^error: rank 1 .* refuses this rank: DT_CHECKSUM is off there, and not here$",
        more_lines=True,
        resumes="new",
    ),
]
