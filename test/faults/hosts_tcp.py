# ===- hosts_tcp.py - runs on two machines, over TCP ------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# As in hosts.py, started as torchrun would. Nobody ends the ranks of another
# machine: they hear of it, or lose their connections. So each machine has a line
# when nothing comes through. Also for CUDA, on the double (driver.py --double).
# ===-----------------------------------------------------------------------===
"""Cases of test/faults: two machines over TCP, folders that they do not share, ranks and links that are lost."""

import dataclasses
import signal

import hosts
from checkpoints import train_first
from driver import EVERY, STEPS, Failure
from hosts import LONE, after_steps, died, signals

UNSHARED = "rank 1 on right does not see what rank 0 on left makes there; all machines must share this folder"
QUIET = ("--stall", 100)  # longer than TCP needs to give a machine up


def case(name, **settings):
    return hosts.case(name, agents=True, **settings)


def lost(name, act, line, faults=hosts.SLOW, **more):
    return dataclasses.replace(hosts.lost(name, act, line, **more), agents=True, faults=faults, code=(1, 75, 137))


def gone(rank, machine, address):
    return rf"^error: rank {rank} on {machine} \({address}\) is gone: "


def own(*names):
    """Folders that "right" has for itself."""

    def before(run):
        for name in names:
            run.machines.own("right", run.folder / name)

    return before


def own_resumed(run):
    train_first(run, steps=2 * EVERY)
    run.machines.own("right", run.folder / "run")


def not_exported(run):
    if any((run.folder / "out").iterdir()):
        raise Failure("something is exported")


CASES = [
    # The same bits as on one machine, also from its checkpoint and on with it.
    case("trains", flags=("--steps", 2 * EVERY), code=0, resumes=2 * EVERY),
    case("resumes", before=lambda run: train_first(run, steps=2 * EVERY), flags=("--resume",), code=0, out=f"resumed at step {2 * EVERY}", resumes=STEPS),
    # Other machines are listened to by who has a secret, or trusts the network.
    case("no-secret", environment={"DT_SECRET": ""}, code=(1, 75), line="^error: rank [012]: ranks of several machines need a secret to meet over TCP: set DT_SECRET ", each_rank=True, resumes="new"),
    case("trusted", environment={"DT_SECRET": "", "DT_TRUST_NETWORK": "1"}, flags=("--steps", EVERY), code=0, resumes=EVERY),
    # Folders that are not the same on both: data may be, what is written may not.
    case("own-data", before=own("shards"), code=0, resumes=STEPS),
    case("own-checkpoints", before=own("run"), code=1, line=f"^error: --checkpoint run: {UNSHARED}$", resumes="new"),
    case("own-checkpoints-resume", before=own_resumed, flags=("--resume",), code=1, line=f"^error: --checkpoint run: {UNSHARED}$", resumes=2 * EVERY),
    case("own-export", before=own("out"), flags=("--export", "out"), code=1, line=f"^error: --export out: {UNSHARED}$", after=not_exported),
    case("own-trace", before=own("out"), flags=("--trace", "out/trace.json"), code=1, line=f"^error: --trace out: {UNSHARED}$", resumes="new"),
    # Ranks that die, beside another one or alone on their machine.
    lost("killed", signals(2, signal.SIGKILL), died(2, "right")),
    lost("killed-lone", signals(2, signal.SIGKILL), gone(2, "right", "10.77.0.2"), hosts=LONE),
    lost("killed-first", signals(0, signal.SIGKILL), gone(0, "left", "10.77.0.1")),
    # A link that goes down, or is up and loses everything.
    lost("cable", after_steps(lambda run: run.machines.pull_cable()), gone("[12]", "right", "10.77.0.2"), flags=QUIET, more_lines=True),
    lost("cable-sends", after_steps(lambda run: run.machines.pull_cable()), gone(0, "left", "10.77.0.1"), faults="pread:*.tar:delay=40ms:rank=2", flags=QUIET, more_lines=True),
    lost("packets", after_steps(lambda run: run.machines.drop_packets()), gone(2, "right", "10.77.0.2"), flags=QUIET, more_lines=True, hosts=LONE),
    # One process is asked to end, all machines do.
    case("asked", during=signals(2, signal.SIGTERM), faults=hosts.SLOW, code=0, out="stopped after step", resumes=lambda step: step >= EVERY),
]
