# ===- indexing.py - shards that cannot be read or decoded --------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
# ===-----------------------------------------------------------------------===
"""Cases of test/faults: failures while samples are indexed, which must not be taken for properties of the samples."""

import io
import json
import resource
import tarfile

import programs
from driver import Case, Failure


def unindexed(run):
    for file in (run.folder / "shards").glob("*.idx.json"):
        file.unlink()


def no_broken(run):
    """Nothing of the failure is remembered."""
    for file in (run.folder / "shards").glob("*.idx.json"):
        if any(json.loads(file.read_text())["samples"]["problem"]):
            raise Failure(f"{file.name} has broken samples")


def add_shard(run, name, *samples):
    """samples: (key, bytes of its picture)."""
    unindexed(run)
    with tarfile.open(run.folder / f"shards/{name}.tar", "w", format=tarfile.USTAR_FORMAT) as out:
        for key, picture in samples:
            for ending, data in (("png", picture), ("txt", b"w1")):
                info = tarfile.TarInfo(f"{key}.{ending}")
                info.size = len(data)
                out.addfile(info, io.BytesIO(data))


def white(size):
    return programs.png(programs.np.full((size, size, 3), 255, programs.np.uint8))


def broken_sample(run):
    add_shard(run, "broken", ("bad", b"no picture"), ("good", white(32)))


def large_picture(run):
    """Larger than anything else that is asked for once the first shard is indexed."""
    add_shard(run, "large", ("large", white(200)))


def many_shards(run):
    for file in (run.folder / "shards").iterdir():
        file.unlink()
    programs.make_shards(run.folder / "shards", shards=300, samples=300)
    run.limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, run.limits[1]))


def limits_back(run):
    resource.setrlimit(resource.RLIMIT_NOFILE, run.limits)


def other_index(change):
    """The index beside one shard is not what was written."""
    def before(run):
        path = run.folder / "shards/000.tar.idx.json"
        path.write_bytes(change(path.read_bytes()))

    return before


def flip(data):
    return data.replace(b'"tokens":[', b'"tokens":[1', 1)



def built_once(run):
    """Renamings of an index: one a shard, whatever the number of ranks."""
    renamed = [path for _, _, call, path in run.happened() if call == "rename" and ".idx.json" in path]
    if len(renamed) != 3:
        raise Failure(f"indices were written {len(renamed)} times: {renamed}")


CASES = [
    Case("read-fails", "pread:*/001.tar:errno=EIO:after=4", before=unindexed, line=r"^error: shards/001\.tar: (sample '\d+': shards/001\.tar: )?cannot read at byte \d+: Input/output error$", after=no_broken, resumes="new"),
    Case("read-fails-once", "pread:*/001.tar:errno=EIO:after=6:times=1", before=unindexed, line=r"^error: shards/001\.tar: .*Input/output error$", after=no_broken, resumes="new"),
    Case("open-fails", "open:*/001.tar:errno=EACCES", before=unindexed, line=r"^error: shards/001\.tar: cannot open: Permission denied$", after=no_broken, resumes="new"),
    Case("no-memory", "new:*:errno=ENOMEM:min=150000:times=1:when={folder}/shards/000.tar.idx.json", before=large_picture, line=r"^error: shards/large\.tar: sample 'large': out of memory$", after=no_broken),
    Case("read-fails-later", "pread:*/00*.tar:errno=EIO:after=60", line=r"^error: shards/00\d\.tar: sample '\d+': .*cannot read at byte \d+: Input/output error$"),
    Case("index-cannot-be-kept", "rename:*.idx.json*:errno=EROFS", before=unindexed, code=0, resumes=12),
    Case("index-disk-full", "write:*.idx.json*:errno=ENOSPC", before=unindexed, code=0, line=r"000\.tar\.idx\.json.*No space left on device; the index will be built again$", more_lines=True, resumes=12),
    Case("index-unreadable", "pread:*.idx.json:errno=EIO", code=0, resumes=12),
    Case("index-damaged", before=other_index(flip), code=0, happens=False, resumes=12),
    Case("index-cut", before=other_index(lambda data: data[: len(data) // 2]), code=0, happens=False, resumes=12),
    Case("index-once", "rename:*.idx.json*:delay=1ms", before=unindexed, code=0, after=built_once, resumes=12),
    Case("broken-said-once", before=broken_sample, code=0, line=r"^shards/broken\.tar: sample 'bad': member 'png': neither PNG nor JPEG$", happens=False),
    Case("many-shards", before=many_shards, code=0, after=limits_back, happens=False),
]
