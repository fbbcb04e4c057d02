# ===- driver.py - programs under faults ------------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A case is a program with a fault (preload/), a signal or a damaged file, and what
# must be seen: the exit code, the one line on stderr, how long it may take, and
# what the run that follows, undisturbed, goes on from. Cases are in files by topic;
# each runs on one rank and on three. README.md says how to write one.
# ===-----------------------------------------------------------------------===
"""driver.py TOPIC... --dt-opt PATH --preload PATH --work DIR [--only REGEX] [--jobs N]: runs test/faults/TOPIC.py."""

import argparse
import concurrent.futures
import dataclasses
import importlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
from typing import Callable, Optional

import programs
from machines import Machines, isolate

EVERY = 4  # steps from checkpoint to checkpoint
STEPS = 3 * EVERY
STALL = 4  # seconds of --stall, unless a case says otherwise
NOT_EVEN_SLOWLY = 120  # seconds in which a run that does not end is said to hang: ten times what the slowest takes


class Failure(Exception):
    pass


@dataclasses.dataclass
class Case:
    """What is done, and what must be seen. Texts may have {rank} (the last rank, 0 of one), {ranks} and {folder}."""

    name: str
    faults: str = ""  # DT_FAULTS; a rule with `rank={rank}` has that part on one rank left out
    ranks: tuple = (1, 3)
    hosts: str = ""  # several machines (machines.py) and how many ranks each has: "left:1,right:2"
    mpirun: Optional[tuple] = None  # mpirun with these flags starts the program, not the program itself
    agents: bool = False  # a process on each machine starts its ranks and tells them who they are, as torchrun does
    flags: tuple = ()  # besides STANDARD
    without: tuple = ()  # of STANDARD
    shell: str = ""  # a script of sh that starts the program, "$@", for instance with other descriptors
    environment: dict = dataclasses.field(default_factory=dict)
    before: Optional[Callable] = None  # before(run): prepares run.folder
    during: Optional[Callable] = None  # during(run): while run.process runs
    after: Optional[Callable] = None  # after(run): further checks; raises Failure
    code: object = 1  # exit code, several in a tuple
    line: Optional[str] = None  # regex of the one line on stderr; None: nothing is there
    each_rank: bool = False  # every rank finds it by itself and may say it before it is ended
    more_lines: bool = False  # others may stand beside it (of mpirun, of several files)
    out: Optional[str] = None  # regex of stdout
    within: float = NOT_EVEN_SLOWLY  # seconds
    happens: bool = True  # the faults must have happened
    resumes: Optional[object] = None  # step that an undisturbed run goes on from (a number or a function of the step), and then has the losses of one that nobody disturbed; "new": no checkpoint is there


# Flags of every run. Batch and checkpoints are in the run's own folder.
STANDARD = {"--data": "shards/*.tar", "--steps": STEPS, "--threads": 1, "--checkpoint": "run", "--save-every": EVERY, "--metrics": "metrics.jsonl", "--stall": STALL}


class Run:
    def __init__(self, case, ranks, program, setup):
        self.case, self.ranks, self.setup = case, ranks, setup
        self.folder = setup.work / "runs" / f"{case.name}-{ranks}"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.program = self.folder / "train"  # a name of its own, by which its processes are found
        os.link(program, self.program)
        shutil.copytree(setup.shards, self.folder / "shards")  # indexed already
        self.machines = Machines(self.folder / "machines", case.hosts) if case.hosts else None
        self.log = self.folder / "faults.log"
        self.process, self.stdout, self.stderr, self.took = None, "", "", 0

    def stall(self):
        return self.case.flags[self.case.flags.index("--stall") + 1] if "--stall" in self.case.flags else STANDARD["--stall"]

    def fill(self, text):
        if self.ranks == 1:
            text = text.replace(":rank={rank}", "")
        return text.replace("{ranks}", str(self.ranks)).replace("{rank}", str(self.ranks - 1)).replace("{folder}", str(self.folder))

    def command(self, flags=(), without=()):
        standard = {k: v for k, v in STANDARD.items() if k not in without and k not in flags}
        parts = [self.program, *(str(part) for pair in standard.items() for part in pair), *(self.fill(str(f)) for f in flags)]
        return [str(part) for part in parts] + (["--ranks", str(self.ranks)] if self.ranks > 1 and "--ranks" not in without and "--ranks" not in flags else [])

    def start(self):
        case = self.case
        environment = dict(os.environ, **{k: self.fill(v) for k, v in case.environment.items()})
        if case.faults:
            environment |= {"LD_PRELOAD": str(self.setup.preload), "DT_FAULTS": self.fill(case.faults), "DT_FAULTS_LOG": str(self.log), "DT_FAULTS_PROGRAM": str(self.program)}
        command = self.command(case.flags, case.without)
        if case.mpirun is not None:
            command = ["mpirun", "-n", str(self.ranks), *case.mpirun, *self.command(case.flags, ("--ranks",))]
            environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_hwloc_base_binding_policy": "none"}
        if case.agents:
            command, environment = self.machines.start_agents(self.command(case.flags, (*case.without, "--ranks"))), environment | self.machines.environment
        elif self.machines:
            command, environment = self.machines.enter("left") + command, environment | self.machines.environment
        if case.shell:
            command = ["sh", "-c", self.fill(case.shell), "sh", *command]
        self.begin = time.monotonic()
        self.process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        errors="replace", env=environment)

    def finish(self):
        try:
            self.stdout, self.stderr = self.process.communicate(timeout=NOT_EVEN_SLOWLY)
        except subprocess.TimeoutExpired:
            end_all(self.program)
            self.process.kill()
            if self.machines:
                self.machines.shut_down()
            self.stdout, self.stderr = self.process.communicate()
            raise Failure(f"hangs\n{self.stdout}{self.stderr}")
        self.took = time.monotonic() - self.begin
        limit = time.monotonic() + 10
        while processes(self.program) and time.monotonic() < limit:
            time.sleep(0.05)
        if processes(self.program):
            end_all(self.program)
            raise Failure("processes are left")

    def wait_for(self, what, condition, seconds=NOT_EVEN_SLOWLY):
        """For during(): until the condition holds."""
        limit = time.monotonic() + seconds
        while not condition():
            if self.process.poll() is not None or time.monotonic() > limit:
                raise Failure(f"no {what} before the end")
            time.sleep(0.002)

    def happened(self):
        return [line.split() for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def steps_done(self):
        return len(losses(self.folder))

    def steps_saved(self):
        return sorted(int(p.name[5:]) for p in (self.folder / "run").glob("step-*") if p.name[5:].isdigit())


def family(pid):
    """The process and all that descend from it, {pid: parent}."""
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                pass
    found, new = {pid: 0}, [pid]
    while new:
        new = [child for child, parent in parents.items() if parent in new and child not in found]
        found |= {child: parents[child] for child in new}
    return found


def losses(folder):
    try:
        text = (folder / "metrics.jsonl").read_text()
    except FileNotFoundError:  # not yet, or just then it is put in place
        return []
    return [json.loads(line)["loss"] for line in text.splitlines() if line.endswith("}")]


def is_program(entry, program):
    """Another tree's program may have the same path (in a container, for instance). mpirun hands on its name only."""
    try:
        return os.path.samestat(os.stat(entry / "exe"), os.stat(program))
    except OSError:
        return False


# Open MPI 4.1's own lines: its child was faster than itself, which changes nothing; a rank found a peer gone (its connection closed, its memory unreadable) before the
# launcher had ended it, which opal_output() says behind "[host:pid] ". A crash has "***" there and is not passed over.
MPIRUN = re.compile(r"plm:rsh: Warning: setpgid|\]\[\S*/btl_tcp_\w+\.c:\d+:mca_btl_tcp_|^\[[\w.-]+:\d+\] (?!\*\*\*)")


def processes(program):
    """Living processes of a program: {pid: rank, None for the launcher or alone}."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            text = (entry / "cmdline").read_bytes().split(b"\0")
            state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
            environment = (entry / "environ").read_bytes().split(b"\0")
        except (OSError, IndexError):
            continue
        if state not in "ZX" and str(program).encode() in text and is_program(entry, program):
            rank = [e.split(b"=")[1] for e in environment if e.startswith((b"OMPI_COMM_WORLD_RANK=", b"RANK="))]
            found[int(entry.name)] = int(rank[0]) if rank else None
    return found


def end_all(program):
    for pid in processes(program):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def check(run):
    case = run.case
    codes = case.code if isinstance(case.code, tuple) else (case.code,)
    if run.process.returncode not in codes:
        raise Failure(f"ended with {run.process.returncode}, expected {case.code}")
    lines = [line for line in run.stderr.splitlines() if line.strip() and not MPIRUN.search(line)]
    want = re.compile(run.fill(case.line)) if case.line else None
    matching = [line for line in lines if want and want.search(line)]
    if want and not 1 <= len(matching) <= (run.ranks if case.each_rank else 1):
        raise Failure(f"expected one line /{want.pattern}/")
    if len(lines) > len(matching) and not case.more_lines:
        raise Failure("other lines on stderr")
    if case.out and not re.search(run.fill(case.out), run.stdout):
        raise Failure(f"expected /{run.fill(case.out)}/ on stdout")
    if run.took > case.within:
        raise Failure(f"took {run.took:.1f} s, at most {case.within}")
    if case.faults and case.happens and not run.happened():
        raise Failure("the fault has not happened")
    since = time.time() - run.log.stat().st_mtime if run.log.exists() else 0  # the last call that was acted on: of a hang, its begin
    if 75 in codes and run.happened() and since > run.stall() + (25 if case.hosts else 15):  # mpirun has ten seconds before it is given up, another machine longer
        raise Failure(f"ended {since:.1f} s after the fault")
    if case.after:
        case.after(run)


def check_resumes(run):
    """Goes on without any fault to the end, with the losses of a run that nobody disturbed."""
    want, saved = run.case.resumes, run.steps_saved()
    if want == "new":
        if saved:
            raise Failure(f"expected no checkpoint, found {saved}")
        flags = ()
    else:
        good = bool(saved) and (want(saved[-1]) if callable(want) else saved[-1] == want)
        if not good:
            raise Failure(f"checkpoints of the steps {saved}, expected another newest one")
        flags = ("--resume",)
    done = subprocess.run(run.command(flags), cwd=run.folder, capture_output=True, text=True, timeout=NOT_EVEN_SLOWLY)
    if done.returncode or (flags and f"resumed at step {saved[-1]}" not in done.stdout and saved[-1] > 0):
        raise Failure(f"does not resume, code {done.returncode}: {done.stdout[-500:]}{done.stderr[-500:]}")
    if losses(run.folder) != run.setup.losses[run.ranks]:
        raise Failure(f"resumed to losses {losses(run.folder)}, undisturbed {run.setup.losses[run.ranks]}")


def run_case(case, ranks, setup):
    run = Run(case, ranks, setup.programs[ranks], setup)
    try:
        if case.before:
            case.before(run)
        run.start()
        try:
            if case.during:
                case.during(run)
        except Failure as failure:
            end_all(run.program)
            run.stdout, run.stderr = run.process.communicate()
            raise failure
        run.finish()
        check(run)
        if case.resumes is not None:
            check_resumes(run)
    except Failure as failure:
        return f"{failure}\n  stdout: {run.stdout[-1500:]}\n  stderr: {run.stderr[-1500:]}", run
    finally:
        if run.machines:
            run.machines.shut_down()
    shutil.rmtree(run.folder)
    return None, run


class Setup:
    def __init__(self, arguments, ranks):
        self.work, self.preload = arguments.work.resolve(), arguments.preload.resolve()
        self.programs = programs.compile_programs(arguments.dt_opt.resolve(), self.work, ranks, arguments.double, arguments.sanitizer)
        self.shards = self.work / "shards"
        shutil.rmtree(self.shards, ignore_errors=True)
        programs.make_shards(self.shards)
        self.losses = {}
        for ranks, program in self.programs.items():
            run = Run(Case("undisturbed"), ranks, program, self)
            done = subprocess.run(run.command(), cwd=run.folder, capture_output=True, text=True, timeout=NOT_EVEN_SLOWLY)
            if done.returncode:
                sys.exit(f"undisturbed run of {ranks} ranks ended with {done.returncode}: {done.stdout}{done.stderr}")
            self.losses[ranks] = losses(run.folder)
            shutil.copytree(run.folder / "shards", self.shards, dirs_exist_ok=True)  # with their index


def shorten():
    """On a double a step takes seconds."""
    global EVERY, STEPS
    EVERY, STEPS = 1, 3
    STANDARD.update({"--steps": STEPS, "--save-every": EVERY, "--stall": 60})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("topics", nargs="+")
    parser.add_argument("--dt-opt", type=pathlib.Path, required=True)
    parser.add_argument("--preload", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--double", type=pathlib.Path, metavar="DIR", help="programs for CUDA, on a double of it")
    parser.add_argument("--sanitizer", help="programs and their runtime are built with -fsanitize=this")
    parser.add_argument("--jobs", type=int, default=1, help="cases at a time: most wait")
    arguments = parser.parse_args()
    if any(topic.startswith("hosts") for topic in arguments.topics):
        isolate()
    if arguments.double:
        shorten()
    chosen = [
        (topic, case, ranks)
        for topic in arguments.topics
        for case in importlib.import_module(topic).CASES
        for ranks in case.ranks
        if re.search(arguments.only, f"{case.name}-{ranks}")
    ]
    setup, results = Setup(arguments, {ranks for _, _, ranks in chosen}), []

    def one(topic, case, ranks):
        wrong, run = run_case(case, ranks, setup)
        results.append(not wrong)
        print(f"{'FAILED' if wrong else 'ok    '} {topic} {case.name} on {ranks}: {run.took:.1f} s {wrong or ''}", flush=True)

    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        done = [pool.submit(one, *each) for each in chosen]
    for future in done:
        future.result()  # raises what one() raised
    print(f"{len(results)} cases, {results.count(False)} failed")
    sys.exit(0 if results and all(results) else 1)


if __name__ == "__main__":
    sys.modules["driver"] = sys.modules["__main__"]  # topics import this, and raise its Failure
    main()
