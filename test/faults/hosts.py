# ===- hosts.py - runs on two machines --------------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Ranks of a machine know only each other by the status board, and what they see
# of a folder may be another one. Nobody is named who is only out of sight.
# ===-----------------------------------------------------------------------===
"""Cases of test/faults: two machines, folders that they do not share, ranks and links that are lost."""

import os
import signal

from checkpoints import train_first
from driver import Case, Failure, family, processes

SLOW = "pread:*.tar:delay=40ms:rank=0"  # steps are long enough to be met in their middle
SPLIT, LONE = "left:1,right:2", "left:2,right:1"
UNSHARED = "rank 1 on right does not see what rank 0 on left makes there; all machines must share this folder"
# mpirun itself waits long for a machine that is out of reach, unless told otherwise (docs/faults.md).
NOTICES = ("--mca", "oob_tcp_keepalive_time", "5", "--mca", "oob_tcp_keepalive_intvl", "2", "--mca", "oob_tcp_keepalive_probes", "2")


def case(name, hosts=SPLIT, **settings):
    return Case(name, ranks=(3,), hosts=hosts, happens=False, **settings)


def own(*names):
    """Folders that "right" has for itself."""

    def before(run):
        for name in names:
            run.machines.own("right", run.folder / name)

    return before


def own_resumed(run):
    train_first(run, steps=8)
    run.machines.own("right", run.folder / "run")


def after_steps(act):
    def during(run):
        run.wait_for("checkpoint", lambda: run.steps_saved())
        act(run)

    return during


def signals(rank, what):
    """To a rank. Its child, which looks after it, has the same command line."""

    def act(run):
        found = [pid for pid, r in processes(run.program).items() if r == rank]
        os.kill(next(pid for pid in found if all(other in family(pid) for other in found)), what)

    return after_steps(act)


def not_exported(run):
    if any((run.folder / "out").iterdir()):
        raise Failure("something is exported")


def lost(name, act, line, **more):
    """Something is lost in the middle: one line, and the last checkpoint is good."""
    return case(name, during=act, faults=SLOW, code=(75, 137), line=line, resumes=lambda step: step in (4, 8), **more)


def died(rank, machine):
    return rf"^error: rank {rank} \(.*\) on {machine} at step \d+.* died$"


CASES = [
    # The same bits as on one machine, also from its checkpoint and on with it.
    *(case(f"trains-{by}", flags=("--steps", 8), mpirun=mpirun, code=0, resumes=8) for by, mpirun in {"launcher": None, "mpirun": ()}.items()),
    case("resumes", before=lambda run: train_first(run, steps=8), flags=("--resume",), code=0, out="resumed at step 8", resumes=12),
    # What is set where mpirun starts is not set on other machines.
    case("environment", environment={"DT_PROGRESS": "poll", "DT_WAIT": "sleep"}, mpirun=(), code=0, resumes=12),
    # Folders that are not the same on both: data may be, what is written may not.
    case("own-data", before=own("shards"), code=0, resumes=12),
    case("own-checkpoints", before=own("run"), code=1, line=f"^error: --checkpoint run: {UNSHARED}$", resumes="new"),
    case("own-checkpoints-resume", before=own_resumed, flags=("--resume",), code=1, line=f"^error: --checkpoint run: {UNSHARED}$", resumes=8),
    case("own-export", before=own("out"), flags=("--export", "out"), code=1, line=f"^error: --export out: {UNSHARED}$", after=not_exported),
    case("own-trace", before=own("out"), flags=("--trace", "out/trace.json"), code=1, line=f"^error: --trace out: {UNSHARED}$", resumes="new"),
    # Ranks that die, beside another one or alone on their machine.
    lost("killed-launcher", signals(2, signal.SIGKILL), died(2, "right"), within=30),
    lost("killed-mpirun", signals(2, signal.SIGKILL), died(2, "right"), mpirun=(), more_lines=True, within=30),
    lost("killed-lone-launcher", signals(2, signal.SIGKILL), died(2, "right"), hosts=LONE, within=30),
    lost("killed-lone-mpirun", signals(2, signal.SIGKILL), died(2, "right"), hosts=LONE, mpirun=(), more_lines=True, within=30),
    lost("killed-first", signals(0, signal.SIGKILL), died(0, "left"), within=30),
    lost("stopped-lone", signals(2, signal.SIGSTOP), r"^error: rank [01] \(.*\) on left .*waits for rank 2 on another machine, which is not heard of$", hosts=LONE),
    # A link that goes down, or is up and loses everything.
    lost("cable", after_steps(lambda run: run.machines.pull_cable()), r"^error: rank 0 \(.*\) on left .*waits for rank \d on another machine, which is not heard of$"),
    lost("packets", after_steps(lambda run: run.machines.drop_packets()), r"^error: rank 0 \(.*\) on left .*waits for rank \d on another machine, which is not heard of$"),
    case("no-machine", hosts="left:1,nowhere:2", code=75, line=r"^error: mpirun ended with code \d+: it cannot start ranks, or has lost a machine$", more_lines=True, resumes="new"),
    # Asked to end, all machines do.
    case("asked", during=after_steps(lambda run: run.process.terminate()), faults=SLOW, code=0, out="stopped after step", resumes=lambda step: step >= 4),
]
