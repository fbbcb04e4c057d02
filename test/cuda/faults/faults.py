# ===- faults.py - planted faults are found and named ------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Each case of the program `faults` is run rightly under several seeds, which
# must give no complaint, and with its fault. A fault ends in one line that
# matches, or its numbers are wrong: under every seed, or under some of them.
# ===-----------------------------------------------------------------------===
"""faults.py PROGRAM [NAME...]: all cases of the program, or some."""

import os
import re
import subprocess
import sys
import tempfile

SEEDS = range(1, 9)
EVERY, SOME = "wrong under every seed", "wrong under some seeds only"
ADD = "kernel addKernel"
FAULTS = {
    "host-read": "host code read device memory at 0x[0-9a-f]+, byte 0 of an allocation of 4000 bytes",
    "host-argument": f"{ADD}: argument 1 points to host memory",
    "write-beside": f"{ADD} wrote outside of an allocation: 0 bytes behind the end of an allocation of 4000 bytes",
    "write-ahead": f"{ADD}: argument 1 is 4 bytes ahead of an allocation of 4000 bytes",
    "write-neighbour": f"{ADD} wrote beside its results, at byte 400[0-3] of an allocation of 8000 bytes",
    "write-far": f"{ADD} (read|wrote) outside of an allocation: [0-9]+ bytes behind the end of an allocation of 4000 bytes",
    "freed": f"{ADD}: argument 1 is in freed memory, an allocation of 4000 bytes",
    "fresh-memory": EVERY,
    "copy-too-long": "cudaMemcpyAsync: the target, 4000 bytes at byte 0 of an allocation of 2000 bytes, is not within one allocation",
    "removed-wait": EVERY,
    "early-event": EVERY,
    "early-times": r"CUDA: device not ready \(an event that nobody has waited for\)",
    "default-stream": EVERY,
    "pinned-reuse": EVERY,
    "pageable-reuse": EVERY,
    "out-of-memory": r"CUDA: out of memory \(1073741824000 bytes, 0 are in use\)",
    "missing-barrier": SOME,
    "divergent-barrier": r"kernel .*divergent: 16 of a block's 64 threads wait at the barrier of line \d+, the others have ended",
    "two-barriers": r"kernel .*divergent: threads of a block wait at different barriers, of lines \d+ and \d+",
    "divergent-shuffle": r"kernel .*warpSum: 16 of a warp's 32 lanes wait for the others at line \d+, which do not come",
    "two-shuffles": r"kernel .*warpSum: lanes of a warp wait for each other at different lines, \d+ and \d+",
    "missing-warp-barrier": SOME,
    "stale-shared": EVERY,
    "behind-shared": "kernel .*fillShared wrote behind its dynamic shared memory",
    "many-threads": rf"CUDA: invalid configuration argument \(1025 threads a block, 1 to 1024 are possible of {ADD}\)",
    "no-blocks": rf"CUDA: invalid configuration argument \(0 blocks of {ADD}\)",
    "unasked-shared": r"CUDA: invalid argument \(101376 bytes of dynamic shared memory, 49152 are possible of kernel .*fillShared",
    "much-shared": rf"CUDA: invalid argument \(49153 bytes of dynamic shared memory, 49152 are possible of {ADD}\)",
    "unchecked-launch": rf"cudaLaunchKernelEx of {ADD} returned an error .*1025 threads.*went on without a look at it, to cudaMemcpyAsync",
    "leading-dimension": "cublasLtMatmulAlgoGetHeuristic: the leading dimension of A is 3, below its 4 rows",
    "product-size": "cublasLtMatmulAlgoGetHeuristic: C is 4 x 2, the product 4 x 3",
    "alignment": "cublasLtMatmul: A at 0x[0-9a-f]+ is not aligned to 16 bytes, as was promised",
    "other-product": "cublasLtMatmul: the algorithm was chosen for another A",
    "conv-stride": "cudnnBackendFinalize: elements of tensor 1 overlap: a stride of 3, below 4",
    "conv-outside": "cudnnBackendExecute: tensor 1, 88 bytes at byte 0 of an allocation of 80 bytes, is not within one allocation",
    "conv-size": "cudnnBackendFinalize: y has size 4 in dim 2, the window gives 3",
    "conv-workspace": "cudnnBackendExecute: the workspace, 4096 bytes at byte 0 of an allocation of 4092 bytes, is not within one allocation",
    "conv-attribute": "cudnnBackendFinalize: a descriptor of type 17 lacks attribute 901",
    "conv-unfinished": "cudnnBackendSetAttribute: a descriptor of type 17 is not finalized",
    "conv-alignment": "cudnnBackendExecute: tensor 1 at 0x[0-9a-f]+ is not aligned to 16 bytes, as was promised",
    "graph-order": "cudnnBackendFinalize: operation 0 reads tensor 4, which none before it writes",
    "graph-size": "cudnnBackendFinalize: a size of 3 in dim 3 meets one of 4",
    "graph-overlap": "cudnnBackendExecute: the result overlaps tensor 1",
    "graph-operand": "cudnnBackendFinalize: an operation of mode 1 has 1 operands",
    "product-outside": "cublasLtMatmul: A, 268 bytes at byte 0 of an allocation of 256 bytes, is not within one allocation",
    "graph-argument": EVERY,
    "graph-freed": f"{ADD} read outside of an allocation: in freed memory, an allocation of 4000 bytes",
    "graph-waits": "cudaStreamSynchronize: not while a stream is captured",
    "graph-allocates": "cudaMalloc: not while a stream is captured",
    "graph-other-stream": "cudaLaunchKernelEx: another stream than the one that is captured",
    "graph-fork": "cudaEventRecord: not while a stream is captured",
    "graph-destroyed": "cudaGraphLaunch: a graph that does not exist, or no more",
    "nccl-swapped": "NCCL: a message of 500 float32, received by rank 0 from rank 1 meets a message of 1000 float32 of rank 1",
    "nccl-counts": r"NCCL: ncclAllReduce of 1000 float32 \(sum\) of rank 0 meets ncclAllReduce of 999 float32 \(sum\) of rank 1",
    "nccl-order": r"NCCL: ncclAllReduce of 1000 float32 \(sum\) of rank 0 meets ncclAllGather of 1000 float32 of rank 1",
    "nccl-removed-wait": EVERY,
    "nccl-room": "NCCL: kernels of 3 streams may take 192 blocks at once, the device has 132 multiprocessors",
}


def run(program, name, how, seed):
    environment = dict(os.environ, DT_CUDA_DOUBLE_SEED=str(seed), DT_CUDA_DOUBLE_WATCH="1")
    with tempfile.TemporaryDirectory() as shared:  # a communicator of ranks that die stays
        environment["DT_CUDA_DOUBLE_SHARED"] = shared
        done = subprocess.run([program, name, how], capture_output=True, text=True, timeout=60, env=environment)
    return done.returncode, done.stderr


def complaints(program, name, want):
    """What is not as it should be."""
    for seed in SEEDS:
        code, text = run(program, name, "right", seed)
        if code or text:
            yield f"without the fault, seed {seed}: exit code {code}, {text!r}"
    wrong = [run(program, name, "wrong", seed) for seed in SEEDS]
    codes = {code for code, _ in wrong}
    wanted = {EVERY: {3}, SOME: {0, 3}}.get(want, {1})
    if codes != wanted:
        yield f"with the fault: exit codes {sorted(codes)}, not {sorted(wanted)}: {wrong[0][1]!r}"
    elif wanted == {1}:
        yield from (f"{text!r} is not one line with '{want}'" for _, text in wrong if text.count("\n") != 1 or not re.search(f"^error: .*{want}", text))


def main():
    program, names = sys.argv[1], sys.argv[2:] or sorted(FAULTS)
    known = subprocess.run([program], capture_output=True, text=True).stdout.split()
    bad = [f"{name}: the program has it, faults.py does not, or the reverse" for name in set(known) ^ set(FAULTS)]
    for name in names:
        found = [f"{name}: {text}" for text in complaints(program, name, FAULTS[name])]
        print(f"{name}: {'not found' if found else 'found'}")
        bad += found
    print("\n".join(bad) or f"{len(names)} faults found and named")
    sys.exit(bool(bad))


main()
