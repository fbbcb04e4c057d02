# ===- finetune_kills.py - a fine-tuning run that is harmed all the time -------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# tools/finetune on two ranks with producers, from two sources. Producers, ranks,
# the program and the tool itself are killed or stopped at random times, many times
# a run; what ends goes on with --resume. When a run has all its steps, each has the
# loss and the tokens that it has in a run that nobody disturbed, to the bit: no
# sample is lost, none comes twice.
# ===-----------------------------------------------------------------------===
"""finetune_kills.py --dt-opt PATH [--minutes M] [--seed S]: as many runs as fit into so many minutes."""

import argparse
import collections
import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from finetune_cases import ROOT  # first: it skips all without PyTorch

import finetune_folders as folders

SOURCES = pathlib.Path(__file__).with_name("finetune_sources.py")
STEPS, PAUSE = 600, (0.5, 4)
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


class Harm(threading.Thread):
    """Picks on what descends from a process, or on the process itself, until it is gone."""

    def __init__(self, process, draw, counts):
        super().__init__(daemon=True)
        self.process, self.draw, self.counts, self.stopped = process, draw, counts, []

    def run(self):
        while self.process.poll() is None:
            time.sleep(self.draw.uniform(*PAUSE))
            below = children(self.process.pid)
            programs = [pid for pid, words in below if words[0].endswith("program/build/train")]
            if not programs:
                continue  # it plans or compiles
            producers = [pid for pid, words in below if "finetuning.worker" in words]
            what = self.draw.choice(["producer"] * 6 + ["rank"] * 2 + ["pause"] * 2 + ["tool", "ask"])
            victims = {"producer": producers, "rank": programs, "pause": programs}.get(what, [self.process.pid])
            if victims:
                self.counts[what] += 1
                self.hit(what, self.draw.choice(victims))

    def hit(self, what, pid):
        with contextlib.suppress(ProcessLookupError):
            if what == "pause":
                os.kill(pid, signal.SIGSTOP)
                time.sleep(self.draw.uniform(0.1, 2))
                os.kill(pid, signal.SIGCONT)
            else:
                os.kill(pid, signal.SIGTERM if what == "ask" else self.draw.choice([signal.SIGKILL, signal.SIGSTOP]) if what == "producer" else signal.SIGKILL)


class Runs:
    def __init__(self, dt_opt, work):
        self.dt_opt, self.work, self.out = dt_opt, work, work / "out"
        self.model = folders.make_folder("llama", work / "model")
        chats = folders.write_chats(work / "chats.jsonl", folders.draw_chats("llama", 60, 1))
        self.data = [f"{chats}=0.5", f"{SOURCES}:Lengths?{json.dumps({'count': 90, 'known': True, 'seconds': 0.02})}=0.5"]

    def start(self, *flags):
        command = [ROOT / "tools/finetune", "--model", self.model, *[w for text in self.data for w in ("--data", text)], "--out", self.out, "--bin", self.dt_opt.parent, "--threads", 1]
        command += ["--global-batch", 6, "--steps", STEPS, "--ranks", 2, "--plan", "llm:dp=2", "--producers", 3, "--producer-timeout", 2, "--save-every", 20, "--lr", 1e-4, *flags]
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
        if [line["step"] for line in lines] != list(range(1, STEPS + 1)):
            sys.exit(f"steps of the run that nobody disturbed: {[line['step'] for line in lines]}")
        return lines

    def disturbed(self, draw, counts):
        """One run to its end; how often it was begun."""
        shutil.rmtree(self.out / "checkpoint", ignore_errors=True)
        for begun in range(1, 200):
            process = self.start(*(["--resume"] if any((self.out / "checkpoint").glob("step-*[0-9]")) else []))
            harm = Harm(process, draw, counts)
            harm.start()
            below = []
            said = self.follow(process, below)
            self.wait_for(below)
            if process.returncode == 0 and (self.out / f"checkpoint/step-{STEPS}").exists():
                return begun
            if process.returncode not in (-signal.SIGKILL, 0, 1, 128 + signal.SIGKILL, 128 + signal.SIGTERM) or "Traceback" in said:
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
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        runs, draw, counts, begun = Runs(arguments.dt_opt, pathlib.Path(work)), random.Random(arguments.seed), collections.Counter(), []
        want, end = runs.undisturbed(), time.monotonic() + 60 * arguments.minutes
        while time.monotonic() < end:
            begun.append(runs.disturbed(draw, counts))
            have = runs.lines()
            if have != want:
                wrong = [(a, b) for a, b in zip(have, want) if a != b]
                sys.exit(f"{len(have)} steps after {begun[-1]} begins; first that is another: {wrong[:1] or 'none'}")
            print(f"run {len(begun)}: begun {begun[-1]} times, {dict(counts)} so far", flush=True)
    print(f"{len(begun)} runs of {STEPS} steps, begun {sum(begun)} times, {sum(counts.values())} times harmed ({dict(counts)}): losses and tokens of all steps are those of the run that nobody disturbed")


if __name__ == "__main__":
    main()
