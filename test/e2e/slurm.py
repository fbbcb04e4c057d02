# ===- slurm.py - Slurm starts a program ------------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Debian's Slurm, unpacked below WORK and installed nowhere, on the two machines of
# test/faults/machines.py: a controller, two nodes, munge on each. srun starts the
# program of test/faults on three ranks, over MPI and over TCP, and the same for CUDA
# on its double; losses must be those that --ranks gives.
# ===-----------------------------------------------------------------------===
"""slurm.py --dt-opt PATH --work DIR [--double DIR]: trains under Slurm's srun, on one node and on two. Fetches Debian packages; needs root."""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "faults"))
import driver  # noqa: E402
import programs  # noqa: E402
from machines import Machines, isolate  # noqa: E402

PACKAGES = ["slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins", "munge"]
STEPS = 8
SECRET = "a secret of test/e2e/slurm.py"  # srun hands it to all tasks
CONFIGURATION = """ClusterName=test
SlurmctldHost=left
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=/dev/shm/munge/socket
CredType=cred/munge
MpiDefault=pmix
PluginDir={plugins}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
StateSaveLocation={work}/state
SlurmdSpoolDir={work}/spool-%n
SlurmctldPidFile={work}/slurmctld.pid
SlurmdPidFile={work}/slurmd-%n.pid
SlurmctldLogFile={work}/slurmctld.log
SlurmdLogFile={work}/slurmd-%n.log
SlurmdParameters=config_overrides
NodeName=left,right CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""


def call(command, **settings):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=120, **settings)
    if done.returncode:
        sys.exit(f"{command[0]} ended with {done.returncode}: {done.stdout[-1500:]}{done.stderr[-1500:]}")
    return done.stdout


def fetch(work):
    """The folder that Debian's packages are unpacked in."""
    root, packages = work / "root", work / "packages"
    if not root.exists():
        packages.mkdir(parents=True, exist_ok=True)
        call(["apt-get", "download", *PACKAGES], cwd=packages)
        for package in packages.glob("*.deb"):
            call(["dpkg", "-x", package, root])
    return root


class Slurm:
    def __init__(self, root, work):
        self.root, self.work = root, work
        shutil.rmtree(work, ignore_errors=True)
        (work / "state").mkdir(parents=True)
        self.machines = Machines(work / "machines", "left:1,right:1")
        plugins = root / "usr/lib/x86_64-linux-gnu/slurm-wlm"
        (work / "slurm.conf").write_text(CONFIGURATION.format(work=work, plugins=plugins))
        (work / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n")
        (work / "mpi.conf").write_text("PMIxCliTmpDirBase=/dev/shm\n")  # of each node its own, as /tmp would be
        (work / "key").write_bytes(os.urandom(1024))
        (work / "key").chmod(0o400)
        self.environment = dict(os.environ, SLURM_CONF=str(work / "slurm.conf"), LD_LIBRARY_PATH=f"{plugins}:{root}/usr/lib/x86_64-linux-gnu")
        for name in ("left", "right"):
            files = ["/dev/shm/munge/" + kind for kind in ("socket", "pid", "log", "seed")]
            self.machines.on(name, "mkdir -p -m 755 /dev/shm/munge")
            flags = zip(("--socket", "--pid-file", "--log-file", "--seed-file"), files)
            self.start(name, "munged", "--force", "--key-file", work / "key", *(part for pair in flags for part in pair))
        self.start("left", "slurmctld-wlm", "-D")
        for name in ("left", "right"):
            self.start(name, "slurmd-wlm", "-D", "-N", name, "-d", root / "usr/sbin/slurmstepd-wlm")
        limit = time.monotonic() + 60
        while self.on("left", "sinfo", "--noheader", "--format", "%D %t").split() != ["2", "idle"]:
            if time.monotonic() > limit:
                sys.exit("the nodes are not idle after 60 s: " + "".join(f"\n{log}:\n{log.read_text()[-1500:]}" for log in work.glob("*.log")))
            time.sleep(0.3)

    def start(self, name, program, *flags):
        command = [*self.machines.enter(name), self.root / "usr/sbin" / program, *flags]
        subprocess.Popen([str(c) for c in command], env=self.environment, stdout=open(self.work / f"{program}-{name}.log", "w"), stderr=subprocess.STDOUT)

    def on(self, name, program, *flags, environment={}, **settings):
        command = [*self.machines.enter(name), self.root / "usr/bin" / program, *flags]
        done = subprocess.run([str(c) for c in command], env={**self.environment, **environment}, capture_output=True, text=True, timeout=120, **settings)
        self.code, self.errors = done.returncode, done.stderr
        return done.stdout


def losses(folder):
    return [json.loads(line)["loss"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


LAST_WORDS = {"mpi": r"^error: rank 2 \(.*\) on right at step \d+.* died$", "tcp": r"^error: rank 2 on right \(10.77.0.2\) is gone: "}
SRUN = {"mpi": ["srun", "--mpi=pmix"], "tcp": ["srun", "--mpi=none"]}


def dies_alone(slurm, over, train, flags, folder):
    """A rank that nobody on its node can see is killed: its node is named, and the step ends."""
    (folder / "metrics.jsonl").unlink()
    srun, *how = SRUN[over]
    command = [*slurm.machines.enter("left"), slurm.root / "usr/bin" / srun, *how, "--kill-on-bad-exit=1", "-N", 2, "-n", 3, *flags, "--steps", 100000]
    run = subprocess.Popen([str(c) for c in command], cwd=folder, env={**slurm.environment, "DT_COMM": over, "DT_SECRET": SECRET}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while run.poll() is None and not (folder / "metrics.jsonl").exists():
        time.sleep(0.05)
    last = [int(e) for e in os.listdir("/proc") if e.isdigit() and b"\0SLURM_PROCID=2\0" in environment_of(e) and driver.is_program(pathlib.Path("/proc") / e, train)]
    os.kill(min(last), signal.SIGKILL)  # over MPI the other is its child
    _, errors = run.communicate(timeout=60)
    line = re.search(LAST_WORDS[over], errors, re.M)
    print(f"{over}, a rank dies: {line[0] if line else 'FAILED'}, code {run.returncode}\n{'' if line else errors}")
    return line and run.returncode


def environment_of(process):
    try:
        return pathlib.Path(f"/proc/{process}/environ").read_bytes()
    except OSError:  # gone
        return b""


def trains(slurm, over, train, folder):
    """Number of failures."""
    flags = [train, "--data", "shards/*.tar", "--threads", 1, "--metrics", "metrics.jsonl"]
    call([*flags, "--steps", STEPS, "--ranks", 3], cwd=folder, env={**os.environ, "DT_COMM": over})
    want, failed = losses(folder), 0
    for name, places in (("one node", ["-N", 1, "-n", 3, "-w", "left"]), ("two nodes", ["-N", 2, "-n", 3])):
        (folder / "metrics.jsonl").unlink()
        out = slurm.on("left", *SRUN[over], *places, *flags, "--steps", STEPS, cwd=folder, environment={"DT_COMM": over, "DT_SECRET": SECRET})
        same = slurm.code == 0 and losses(folder) == want
        failed += not same
        print(f"{over}, {name}: {'the losses of --ranks' if same else f'FAILED, code {slurm.code}'}\n{out if same else out + slurm.errors}", flush=True)
    return failed + (not dies_alone(slurm, over, train, flags, folder))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dt-opt", required=True, type=pathlib.Path)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--double", type=pathlib.Path, metavar="DIR", help="also the program for CUDA, on this double of it")
    arguments = parser.parse_args()
    work = arguments.work.resolve()
    root = fetch(work)  # while there is a network
    isolate()

    train = programs.compile_programs(arguments.dt_opt.resolve(), work, {3})[3]
    runs = [("mpi", train), ("tcp", train)]
    if arguments.double:
        runs.append(("tcp", programs.compile_programs(arguments.dt_opt.resolve(), work / "double", {3}, arguments.double)[3]))
    folder = work / "runs"
    shutil.rmtree(folder, ignore_errors=True)
    programs.make_shards(folder / "shards")
    slurm = Slurm(root, work / "slurm")
    failed = sum(trains(slurm, over, program, folder) for over, program in runs)
    slurm.machines.shut_down()
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
