# ===- signals.py - runs that are asked to end ------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# SIGTERM, Ctrl-C and others (docs/signals.md) let a run finish its step, save and
# end with code 0, whoever gets them and how often. The faults here only make a
# moment long enough to be met.
# ===-----------------------------------------------------------------------===
"""Cases of test/faults: signals at every moment."""

import dataclasses
import os
import pathlib
import signal
import time

from driver import STEPS, Case, Failure, family, processes

SLOW_STEPS = "write:*/metrics.jsonl:delay=100ms"
STOPPED = "stopped after step"
# Three ranks on this machine, told what torchrun tells them.
AGENT = 'export WORLD_SIZE=3 LOCAL_WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=29400 DT_COMM=tcp; for rank in 0 1 2; do RANK=$rank "$@" & all="$all $!"; done; for rank in $all; do wait $rank || code=$?; done; exit $code'


def everyone(run):
    """The launcher, mpirun and the ranks; or the only process."""
    return list(family(run.process.pid))


def launcher(run):
    return [run.process.pid]


def one_rank(run):
    ranks = [pid for pid, rank in processes(run.program).items() if rank == run.ranks - 1]
    return ranks or [run.process.pid]


def send(run, who, what):
    for pid in who(run):
        try:
            os.kill(pid, what)
        except ProcessLookupError:
            pass


def after_steps(who, what, times=1):
    def during(run):
        run.wait_for("second step", lambda: run.steps_done() >= 2)
        for _ in range(times):
            send(run, who, what)
            time.sleep(0.05)

    return during


def after_checkpoint(who, what):
    def during(run):
        run.wait_for("checkpoint", run.steps_saved)
        send(run, who, what)

    return during


def when_it_happens(who, what, times=1, later=0.0):
    """At the moment that the case's fault makes long."""

    def during(run):
        first = run.case.faults.split(":")[0]  # the other rules only make steps slow
        run.wait_for("fault", lambda: any(f[2] == first and "metrics" not in f[-1] for f in run.happened()))
        time.sleep(later)
        for _ in range(times):
            send(run, who, what)
            time.sleep(0.05)

    return during


def mask(signals):
    return sum(1 << (s - 1) for s in signals)


def suspended(run):
    """Ctrl-Z for longer than --stall, then `fg`."""
    run.wait_for("second step", lambda: run.steps_done() >= 2)
    send(run, launcher, signal.SIGTSTP)
    time.sleep(1)
    before = run.steps_done()
    time.sleep(run.stall() + 2)
    if run.steps_done() != before:
        raise Failure("the ranks go on while their launcher is stopped")
    send(run, launcher, signal.SIGCONT)


def not_stopped(run):
    if run.steps_done() != STEPS:
        raise Failure(f"ended after step {run.steps_done()}")


def all_held(run):
    """One thread of a rank takes the signals; handlers run on no other."""
    run.wait_for("second step", lambda: run.steps_done() >= 2)
    asking = {signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU, signal.SIGALRM}
    wanted = mask(asking - ({signal.SIGUSR2} if run.ranks > 1 else set()))  # that of a launcher that is gone
    ignored = mask({signal.SIGPIPE, signal.SIGXFSZ} | ({signal.SIGTTOU} if run.ranks > 1 else set()))
    for pid in [run.process.pid] if run.ranks == 1 else [pid for pid, rank in processes(run.program).items() if rank is not None]:
        found = int(dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())["SigIgn"], 16)
        if found & ignored != ignored:
            raise Failure(f"rank {pid} ignores {found:x}, expected {ignored:x}")
        threads = {}
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            fields = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines())
            threads[task.name] = int(fields["SigBlk"], 16) & wanted
        if threads[str(pid)] != wanted or sum(held != wanted for held in threads.values()) != 1:
            raise Failure(f"rank {pid}: held by thread: {threads}")


def saved_all(run):
    """The newest checkpoint is of the last step done."""
    if run.steps_saved()[-1:] != [run.steps_done()]:
        raise Failure(f"{run.steps_done()} steps done, saved {run.steps_saved()}")
    if run.steps_done() == 12:
        raise Failure("the run was not interrupted")


def stopping(name, who, what, times=1):
    return Case(name, SLOW_STEPS, during=after_steps(who, what, times), code=0, out=STOPPED, after=saved_all, resumes=lambda step: 0 < step < 12)


def killed_under_a_stopped_mpirun(run):
    run.wait_for("checkpoint", run.steps_saved)
    ranks = processes(run.program)
    (mpirun,) = {parent for pid, parent in family(run.process.pid).items() if ranks.get(pid) is not None}
    os.kill(mpirun, signal.SIGSTOP)
    send(run, one_rank, signal.SIGKILL)
    run.killed = time.monotonic()


def soon(run):
    """Before mpirun would be given up with ranks left."""
    seconds = time.monotonic() - run.killed
    if seconds > 9:
        raise Failure(f"ended {seconds:.1f} s after the rank")


def begun(run):
    """mpirun is there (or other ranks), beside the launcher and who hands its output on, or the process has come to its handlers."""
    return len(family(run.process.pid)) > 2 if run.ranks > 1 else run.happened()


def at_startup(milliseconds, who, what):
    def during(run):
        run.wait_for("beginning", lambda: begun(run))
        time.sleep(milliseconds / 1000)
        send(run, who, what)

    # What was asked before the first step is answered by one step, or none.
    return Case(f"{what.name}-{who.__name__}-{milliseconds}ms", "open:*/data.json:delay=1ms;" + SLOW_STEPS, during=during, code=0, out="stopped (after step|before the first step)", happens=False,
                after=lambda run: None, resumes=None)


def without_index(run):
    for file in (run.folder / "shards").glob("*.idx.json"):
        file.unlink()


CASES = [
    *(stopping(f"{what.name}-{who.__name__}-{times}", who, what, times) for what in (signal.SIGTERM, signal.SIGUSR1) for who in (everyone, launcher, one_rank) for times in (1, 3)),
    *(stopping(f"SIGINT-{who.__name__}", who, signal.SIGINT) for who in (everyone, launcher, one_rank)),
    *(stopping(f"{what.name}-{who.__name__}", who, what) for what in (signal.SIGHUP, signal.SIGXCPU, signal.SIGALRM) for who in (everyone, launcher, one_rank)),
    stopping("SIGUSR2-launcher", launcher, signal.SIGUSR2),
    # Started by others, as torchrun does it, a rank has no launcher that would die with this signal.
    dataclasses.replace(stopping("SIGUSR2-rank", one_rank, signal.SIGUSR2), shell=AGENT, without=("--ranks",), ranks=(3,)),
    # What does not ask.
    Case("nohup", SLOW_STEPS, shell="trap '' HUP; exec \"$@\"", during=after_steps(launcher, signal.SIGHUP), code=0, after=not_stopped, resumes=12),
    *(Case(f"{what.name}-ignored", SLOW_STEPS, during=after_steps(who, what), code=0, after=not_stopped, resumes=12) for what in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGWINCH, signal.SIGURG, signal.SIGCONT) for who in (one_rank,)),
    # A lone rank is the system's: it stops where a shell waits for it, and not in a group that nobody watches, as a test's.
    Case("Ctrl-Z", SLOW_STEPS, ranks=(3,), during=suspended, code=0, after=not_stopped, resumes=12),
    Case("Ctrl-backslash", SLOW_STEPS, ranks=(3,), during=after_steps(launcher, signal.SIGQUIT), code=131),
    Case("Ctrl-backslash-alone", SLOW_STEPS, ranks=(1,), during=after_steps(launcher, signal.SIGQUIT), code=(-3, 131)),
    *(at_startup(wait, who, signal.SIGTERM) for who in (everyone, launcher) for wait in (0, 20, 60, 150, 300, 600)),
    *(at_startup(wait, launcher, signal.SIGINT) for wait in (0, 60, 150, 300)),
    Case("handlers-beside-kernels", SLOW_STEPS, during=all_held, code=0),
    Case("SIGTERM-while-indexing", "pread:*.tar:delay=100ms", before=without_index, during=when_it_happens(everyone, signal.SIGTERM), code=0, out="^stopped before the first step", resumes="new"),
    Case("SIGTERM-while-reading", "pread:*.tar:after=10:delay=100ms", during=when_it_happens(everyone, signal.SIGTERM), code=0, out=STOPPED, after=saved_all, resumes=lambda step: step < 12),
    Case("SIGTERM-in-last-write", "write:*/step-12.tmp/rank-*.safetensors:delay=10ms", during=when_it_happens(everyone, signal.SIGTERM, times=4), code=0, resumes=12),
    Case("SIGTERM-in-a-write", "write:*/step-4.tmp/rank-*.safetensors:delay=10ms;" + SLOW_STEPS, during=when_it_happens(everyone, signal.SIGTERM, times=2), code=0, resumes=lambda step: step >= 4),
    # Who reads what ranks print is still there when the launcher is not.
    Case("launcher-killed", SLOW_STEPS, ranks=(3,), during=after_checkpoint(launcher, signal.SIGKILL), code=-9, line="^error: rank [012] .* ends: its launcher is gone$", within=30, resumes=lambda step: step % 4 == 0),
    # Open MPI's mpirun may hang when its ranks have ended.
    Case("mpirun-stands-still", SLOW_STEPS, ranks=(3,), during=killed_under_a_stopped_mpirun, code=75, line="^error: rank {rank} .*died$", after=soon, resumes=lambda step: step % 4 == 0),
    Case("second-Ctrl-C", SLOW_STEPS, ranks=(3,), during=after_steps(launcher, signal.SIGINT, 2), code=130),
    Case("second-Ctrl-C-alone", SLOW_STEPS, ranks=(1,), during=after_steps(launcher, signal.SIGINT, 2), code=(-2, 130)),
    # The first is in vain while a rank hangs; the second is not.
    Case("second-Ctrl-C-in-a-hang", "MPI_Allreduce:*:after=150:hang:rank=1", ranks=(3,), flags=("--stall", 100), during=when_it_happens(launcher, signal.SIGINT, 2, later=0.3), code=130),
]
