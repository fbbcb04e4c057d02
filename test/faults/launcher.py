# ===- launcher.py - how runs begin -----------------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
# ===-----------------------------------------------------------------------===
"""Cases of test/faults: flags, what other launchers leave behind, shared memory, mapped files, shards."""

import shutil

from driver import Case

INPUTS = "24 samples in 3 shards"


def odd_files(run):
    """What lies beside shards, and an empty one."""
    shards = run.folder / "shards"
    (shards / "folder").mkdir()
    (shards / "folder.tar").mkdir()
    (shards / "999.tar").write_bytes(b"")
    (shards / "README").write_text("About these shards.\n")
    (shards / "short").write_bytes(b"x" * 100)


def only_odd_files(run):
    for shard in (run.folder / "shards").glob("0*"):
        shard.unlink()
    odd_files(run)


def damaged_shard(run):
    (run.folder / "shards/999.tar").write_bytes(b"no tar at all" * 100)


def copied(run):
    """Weights that may be damaged."""
    shutil.copytree(run.setup.programs[run.ranks].parents[1], run.folder / "home", ignore=shutil.ignore_patterns("build", "runtime"))


CASES = [
    *(
        Case(f"ranks-{ranks}", flags=("--ranks", ranks), code=1, line=f"^error: --ranks {ranks}: the plan of this program has {{ranks}} rank", within=20, resumes="new")
        for ranks in (2, 4, 100000)
    ),
    Case("threads-4096", flags=("--threads", 4096), code=1, line="^error: --threads 4096: at most [0-9]+ ", resumes="new"),
    Case("workers-1024", flags=("--workers", 1024), code=1, line="^error: --workers 1024: at most [0-9]+ ", resumes="new"),
    # Left over from shells inside of other launchers' jobs.
    *(
        Case("-".join(f"{k}={v}" for k, v in left.items()), environment=left, code=0, out=INPUTS, resumes=12)
        for left in (
            {"PMIX_RANK": "0"},
            {"PMI_RANK": "0"},
            {"PMI_RANK": "2"},
            {"PMI_RANK": "0", "PMI_SIZE": "1"},
            {"PMIX_RANK": "0", "PMIX_NAMESPACE": "x", "PMIX_SERVER_URI4": "x;tcp4://127.0.0.1:1"},
            {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"},
            {"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "PMI_FD": "5"},
        )
    ),
    Case("shared-memory-full", "fallocate:/dev/shm/disttrain-*:errno=ENOSPC", ranks=(3,), code=1, line="^error: --ranks 3: /dev/shm/disttrain.*: cannot reserve [0-9]+ bytes.*: No space left on device", resumes="new"),
    Case("mapped-file-shorter", "mmap:*/home/weights.safetensors:cut=4096", before=copied, flags=("--program", "home"), code=1, line="^error: (rank [0-9]: )?.*/home/weights.safetensors: its bytes are not there"),
    Case("all-files", flags=("--data", "shards/*"), before=odd_files, code=0, out=INPUTS + "(?s:.*)left out: shards/999.tar \\(empty\\)\nleft out: shards/README \\(not a tar file\\)\nleft out: shards/short \\(not a tar file\\)\n", resumes=12),
    Case("empty-shard", before=odd_files, code=0, out=INPUTS + "\nleft out: shards/999.tar \\(empty\\)\n", resumes=12),
    Case("no-shard", before=only_odd_files, code=1, line="^error: shards/\\*.tar: no such shard, only shards/999.tar \\(empty\\)$", resumes=None),
    Case("empty-shard-alone", flags=("--data", "shards/999.tar"), before=odd_files, code=1, line="^error: shards/999.tar: "),
    Case("damaged-shard", before=damaged_shard, code=1, line="^error: shards/999.tar: not an uncompressed tar file"),
]
