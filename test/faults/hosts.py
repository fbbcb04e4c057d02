# ===- hosts.py - runs on two machines --------------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Ranks of a machine know only each other by the status board, and what they see
# of a folder may be another one. Nobody is named who is only out of sight.
# ===-----------------------------------------------------------------------===
"""Cases of test/faults: two machines over MPI, ranks and links that are lost."""

import os
import signal

from driver import EVERY, Case, family, processes

SLOW = "pread:*.tar:delay=40ms:rank=0"  # steps are long enough to be met in their middle
SPLIT, LONE = "left:1,right:2", "left:2,right:1"


def case(name, hosts=SPLIT, **settings):
    return Case(name, ranks=(3,), hosts=hosts, happens=False, **settings)


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


def lost(name, act, line, **more):
    """Something is lost in the middle: one line, and the last checkpoint is good."""
    return case(name, during=act, faults=SLOW, code=(75, 137), line=line, resumes=lambda step: step in (EVERY, 2 * EVERY), **more)


def died(rank, machine):
    return rf"^error: rank {rank} \(.*\) on {machine} at step \d+.* died$"


CASES = [
    # The same bits as on one machine.
    *(case(f"trains-{by}", flags=("--steps", 8), mpirun=mpirun, code=0, resumes=8) for by, mpirun in {"launcher": None, "mpirun": ()}.items()),
    # What is set where mpirun starts is not set on other machines.
    case("environment", environment={"DT_PROGRESS": "poll", "DT_WAIT": "sleep"}, mpirun=(), code=0, resumes=12),
    # Ranks that die, beside another one or alone on their machine.
    lost("killed-launcher", signals(2, signal.SIGKILL), died(2, "right"), within=30),
    lost("killed-mpirun", signals(2, signal.SIGKILL), died(2, "right"), mpirun=(), more_lines=True, within=30),
    lost("killed-lone-launcher", signals(2, signal.SIGKILL), died(2, "right"), hosts=LONE, within=30),
    lost("killed-lone-mpirun", signals(2, signal.SIGKILL), died(2, "right"), hosts=LONE, mpirun=(), more_lines=True, within=30),
    lost("stopped-lone", signals(2, signal.SIGSTOP), r"^error: rank [01] \(.*\) on left .*waits for rank 2 on another machine, which is not heard of$", hosts=LONE),
    # A link that goes down.
    lost("cable", after_steps(lambda run: run.machines.pull_cable()), r"^error: rank 0 \(.*\) on left .*waits for rank \d on another machine, which is not heard of$"),
    case("no-machine", hosts="left:1,nowhere:2", code=75, line=r"^error: mpirun ended with code \d+: it cannot start ranks, or has lost a machine$", more_lines=True, resumes="new"),
    # Asked to end, all machines do.
    case("asked", during=after_steps(lambda run: run.process.terminate()), faults=SLOW, code=0, out="stopped after step", resumes=lambda step: step >= 4),
]
