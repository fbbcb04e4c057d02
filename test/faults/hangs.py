# ===- hangs.py - ranks that stop, hang or are slow -------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
# ===-----------------------------------------------------------------------===
"""Cases of test/faults: killed, stopped and hanging ranks, slow files."""

from driver import Case

CASES = [
    Case("killed-between-writes-3", "write:*/step-8.tmp/rank-{rank}.safetensors:signal=KILL:rank={rank}", ranks=(3,), code=(75, 137), line="^error: rank {rank} .* died$", resumes=4),
    Case("killed-between-writes-1", "write:*/step-8.tmp/rank-{rank}.safetensors:signal=KILL", ranks=(1,), code=-9, resumes=4),
]
