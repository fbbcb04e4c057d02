# ===- finetune_kills.py - a fine-tuning run that is harmed all the time -------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# tools/finetune on two ranks with producers of its own and of a dt-serve, from two
# sources. Producers, ranks, the program, dt-serve and the tool itself are killed or
# stopped at random times, many times a run; what ends goes on with --resume. When a
# run has all its steps, each has the
# loss and the tokens that it has in a run that nobody disturbed, to the bit: no
# sample is lost, none comes twice.
# ===-----------------------------------------------------------------------===
"""finetune_kills.py --dt-opt PATH [--minutes M | --few] [--steps N] [--seed S]: as many runs as fit into so many minutes, or one run and a few kills."""

import argparse
import collections
import contextlib
import itertools
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from finetune_cases import ROOT  # first: it skips all without PyTorch

import finetune_folders as folders

SOURCES = pathlib.Path(__file__).with_name("finetune_sources.py")
PAUSE = (0.5, 4)
OFTEN = {"producer": 6, "served": 3, "rank": 2, "pause": 2, "server": 1, "tool": 1, "ask": 1}
FEW, SHORT = ["producer", "served", "pause", "rank", "producer", "server"], (0.3, 0.8)
LOST = 75  # what a program ends with that lost a rank
LATE = 120  # seconds after which a process that ought to have ended hangs


def children(pid):
    """(pid, words of its command line) of all that descend from a process."""
    parents, words = {}, {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                state, parent = (entry / "stat").read_text().rsplit(")", 1)[1].split()[:2]
                if state not in "ZX":
                    parents[int(entry.name)] = int(parent)
                    words[int(entry.name)] = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
    found, ends = [], [pid]
    while ends:
        ends = [child for child, parent in parents.items() if parent in ends]
        found += ends
    return [(child, words[child]) for child in found]


class Server:
    """A dt-serve at one port, which begins again when it is killed."""

    def __init__(self, token, model, data):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.command = [ROOT / "tools/dt-serve", "--listen", self.address, "--token-file", token, "--model", model, *[w for text in data for w in ("--data", text)], "--workers", 2, "--producer-timeout", 5]
        self.start()

    def start(self):
        limit = time.monotonic() + LATE
        while True:
            self.process = subprocess.Popen([str(c) for c in self.command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            if self.process.stdout.readline().startswith("dt-serve: 2 workers"):
                return
            self.process.wait()
            if time.monotonic() > limit:  # its port is not free as long as a worker is left
                sys.exit(f"no dt-serve begins at {self.address}")
            time.sleep(0.5)

    def workers(self):
        return [pid for pid, _ in children(self.process.pid)]

    def kill(self):
        self.process.kill()
        self.process.wait()


class Harm(threading.Thread):
    """Picks on what descends from a process, on the process itself or on its server, until it is gone or `kinds` are used up."""

    def __init__(self, process, server, draw, kinds, pause, counts):
        super().__init__(daemon=True)
        self.process, self.server, self.draw, self.kinds, self.pause, self.counts = process, server, draw, kinds, pause, counts

    def run(self):
        while self.process.poll() is None:
            time.sleep(self.draw.uniform(*self.pause))
            below = children(self.process.pid)
            programs = [pid for pid, words in below if words[0].endswith("program/build/train")]
            if not programs:
                continue  # it plans or compiles
            producers = [pid for pid, words in below if "finetuning.worker" in words]
            if (what := next(self.kinds, None)) is None:
                return
            victims = {"producer": producers, "rank": programs, "pause": programs, "served": self.server.workers()}.get(what, [self.process.pid])
            if victims:
                self.counts[what] += 1
                self.hit(what, self.draw.choice(victims))

    def hit(self, what, pid):
        with contextlib.suppress(ProcessLookupError):
            if what == "server":
                self.server.kill()
                time.sleep(self.draw.uniform(*self.pause))
                self.server.start()
            elif what == "pause":
                os.kill(pid, signal.SIGSTOP)
                time.sleep(self.draw.uniform(0.1, 2))
                os.kill(pid, signal.SIGCONT)
            else:
                os.kill(pid, signal.SIGTERM if what == "ask" else self.draw.choice([signal.SIGKILL, signal.SIGSTOP]) if what in ("producer", "served") else signal.SIGKILL)


class Runs:
    def __init__(self, dt_opt, work, steps):
        self.dt_opt, self.work, self.out, self.steps = dt_opt, work, work / "out", steps
        self.model = folders.make_folder("llama", work / "model")
        chats = folders.write_chats(work / "chats.jsonl", folders.draw_chats("llama", 60, 1))
        sources = [str(chats), f"{SOURCES}:Lengths?{json.dumps({'count': 90, 'known': True, 'seconds': 0.02})}"]
        self.data = [f"{source}=0.5" for source in sources]
        self.server = Server(work / "token", self.model, sources)

    def start(self, *flags):
        command = [ROOT / "tools/finetune", "--model", self.model, *[w for text in self.data for w in ("--data", text)], "--out", self.out, "--bin", self.dt_opt.parent, "--threads", 1]
        command += ["--global-batch", 6, "--steps", self.steps, "--ranks", 2, "--plan", "llm:dp=2", "--producers", 3, "--producer-timeout", 2, "--serve-at", f"{self.server.address}*2", "--token-file", self.work / "token", "--save-every", 20, "--lr", 1e-4, *flags]
        return subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def lines(self):
        rows = map(json.loads, (self.out / "metrics.jsonl").read_text().splitlines())
        return [{k: v for k, v in row.items() if k in ("step", "loss", "tokens", "learned_tokens", "grad_norm") or k.startswith("loss.")} for row in rows]

    def undisturbed(self):
        process = self.start()
        said, _ = process.communicate()
        if process.returncode:
            sys.exit(f"the run that nobody disturbed ended with {process.returncode}:\n{said[-3000:]}")
        lines = self.lines()
        if [line["step"] for line in lines] != list(range(1, self.steps + 1)):
            sys.exit(f"steps of the run that nobody disturbed: {[line['step'] for line in lines]}")
        return lines

    def disturbed(self, draw, kinds, pause, counts):
        """One run to its end; how often it was begun."""
        shutil.rmtree(self.out / "checkpoint", ignore_errors=True)
        for begun in range(1, 200):
            process = self.start(*(["--resume"] if any((self.out / "checkpoint").glob("step-*[0-9]")) else []))
            harm = Harm(process, self.server, draw, kinds, pause, counts)
            harm.start()
            below = []
            said = self.follow(process, below)
            self.wait_for(below)
            harm.join(LATE)
            if process.returncode == 0 and (self.out / f"checkpoint/step-{self.steps}").exists():
                return begun
            if process.returncode not in (-signal.SIGKILL, -signal.SIGTERM, 0, 1, LOST, 128 + signal.SIGKILL, 128 + signal.SIGTERM) or "Traceback" in said:
                sys.exit(f"tools/finetune ended with {process.returncode}:\n{said[-3000:]}")
        sys.exit("200 times begun, and not at its end")

    def follow(self, process, below):
        """What it says until it ends; `below`: what it had started when it was last looked at."""
        said, limit = [], time.monotonic() + 600
        reader = threading.Thread(target=lambda: said.extend(process.stdout), daemon=True)
        reader.start()
        while process.poll() is None:
            if found := [pid for pid, _ in children(process.pid)]:
                below[:] = found
            if time.monotonic() > limit:
                sys.exit(f"it hangs:\n{''.join(said)[-3000:]}")
            time.sleep(0.2)
        reader.join(LATE)
        return "".join(said)

    def wait_for(self, pids):
        """Until all that a tool had started is gone; those that are stopped are not asked to."""
        limit = time.monotonic() + LATE
        while left := [pid for pid in pids if is_running(pid)]:
            if time.monotonic() > limit:
                sys.exit(f"processes {left} are left {LATE} seconds after tools/finetune")
            time.sleep(0.1)


def is_running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dt-opt", required=True, type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--few", action="store_true", help="one run, harmed in each of a few ways")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    draw, counts, begun = random.Random(arguments.seed), collections.Counter(), []
    kinds = iter(FEW) if arguments.few else (draw.choices(list(OFTEN), OFTEN.values())[0] for _ in itertools.count())
    with tempfile.TemporaryDirectory() as work:
        runs = Runs(arguments.dt_opt, pathlib.Path(work), arguments.steps)
        try:
            want, end = runs.undisturbed(), time.monotonic() + 60 * arguments.minutes
            while not begun or time.monotonic() < end and not arguments.few:
                begun.append(runs.disturbed(draw, kinds, SHORT if arguments.few else PAUSE, counts))
                have = runs.lines()
                if have != want:
                    wrong = [(a, b) for a, b in zip(have, want) if a != b]
                    sys.exit(f"{len(have)} steps after {begun[-1]} begins; first that is another: {wrong[:1] or 'none'}")
                print(f"run {len(begun)}: begun {begun[-1]} times, {dict(counts)} so far", flush=True)
        finally:
            runs.server.kill()
    if arguments.few and set(counts) != set(FEW):
        sys.exit(f"the run was at its end before it was harmed in all ways: {dict(counts)}")
    print(f"{len(begun)} runs of {arguments.steps} steps, begun {sum(begun)} times, {sum(counts.values())} times harmed ({dict(counts)}): losses and tokens of all steps are those of the run that nobody disturbed")


if __name__ == "__main__":
    main()
