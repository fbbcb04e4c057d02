# ===- demo_resume.py - Ctrl-C, then --resume -------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# The demonstration's program (three modules, decoded pictures, random draws) is
# interrupted as by Ctrl-C, must end by itself with a checkpoint, and continues.
# Losses of all steps and the final checkpoint must be those of a run that was
# never interrupted, bit for bit; nor may evaluation on the way show in them.
# ===-----------------------------------------------------------------------===
"""demo_resume.py DEMO_OUT: the folder that demo_smoke.py left."""

import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

STEPS = 40


def expect(condition, what):
    if not condition:
        sys.exit(what)


def start(out, folder, *flags):
    command = [out / "build/demo", "--data", out / "data/emoji.tar", "--pairs", out / "data/pairs.tar", "--steps", STEPS, "--threads", 1, "--ranks", 3]
    command += ["--checkpoint", folder / "checkpoint", "--metrics", folder / "metrics.jsonl", *flags]
    return subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finish(process):
    text, _ = process.communicate(timeout=1500)
    expect(process.returncode == 0, f"the program ended with {process.returncode}:\n{text}")
    return text


def losses(folder):
    file = folder / "metrics.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    rows = [json.loads(line) for line in lines if line.endswith("}")]
    return [(row["step"], row["loss"], row["loss.text"], row["loss.picture"], row["grad_norm"], row["lr"]) for row in rows]


def interrupt(process, folder):
    """Sends SIGINT in the middle of a step, after at least 5."""
    while len(losses(folder)) < 5:
        expect(process.poll() is None, "the program ended before it was interrupted")
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    text = finish(process)
    done = len(losses(folder))
    expect(5 <= done < STEPS, f"interrupted after {done} of {STEPS} steps")
    expect(f"stopped after step {done}, saved in" in text, f"no word of the interruption:\n{text}")
    names = sorted(p.name for p in (folder / "checkpoint").iterdir() if p.name != "lock")
    expect(names == [f"step-{done}"], f"checkpoints after the interruption: {names}")


def main(out):
    with tempfile.TemporaryDirectory() as temporary:
        straight, cut = pathlib.Path(temporary, "straight"), pathlib.Path(temporary, "cut")
        straight.mkdir(), cut.mkdir()
        finish(start(out, straight, "--evaluate-every", 1000))
        interrupt(start(out, cut, "--evaluate-every", 0.2), cut)
        done = len(losses(cut))
        text = finish(start(out, cut, "--resume"))
        expect(f"resumed at step {done}" in text, f"did not resume at step {done}:\n{text}")
        expect([row[0] for row in losses(cut)] == list(range(1, STEPS + 1)), "metrics.jsonl has not one line a step")
        expect(losses(cut) == losses(straight), "losses differ from those of a run without interruption")
        saved = [f / "checkpoint" / f"step-{STEPS}" for f in (cut, straight)]
        names = sorted(f.name for f in saved[1].iterdir())
        expect(names and names == sorted(f.name for f in saved[0].iterdir()), "the checkpoint has other files")
        for name in names:
            files = [(f / name).read_bytes() for f in saved]
            expect(files[0] == files[1], f"{name} differs from that of a run without interruption")
        print(f"interrupted after step {done}, resumed: {STEPS} losses and the checkpoint are bit-identical")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
