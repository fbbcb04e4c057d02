# ===- demo_smoke.py - tools/demo with few steps ----------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# The demonstration as a user runs it, but short, with the compiler of this
# build. What it prints and writes must be there and make sense; the script
# itself fails where ONNX Runtime's captions differ from the program's.
# ===-----------------------------------------------------------------------===
"""demo_smoke.py SOURCE_DIR --bin DIR --out DIR"""

import argparse
import json
import math
import pathlib
import re
import struct
import subprocess
import sys

STEPS = 24
EMOJI = 119


def expect(condition, what, text=""):
    if not condition:
        sys.exit(f"{what}\n{text[-4000:]}")


def run_demo(arguments):
    arguments.out.mkdir(parents=True, exist_ok=True)
    # A high rate, so that captions are words after few steps: empty ones would agree too easily.
    command = [arguments.source / "tools/demo", "--bin", arguments.bin, "--out", arguments.out, "--steps", STEPS, "--threads", 1]
    command += ["--lr", 0.004, "--evaluate-every", 1]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=3500)
    expect(done.returncode == 0, f"tools/demo ended with {done.returncode}", done.stdout + done.stderr)
    return done.stdout


def check_text(text):
    for module in ("vision", "llm", "generator"):
        expect(re.search(rf"^ +{module} +\d+ parameters$", text, re.M), f"no number of parameters of {module}", text)
    expect("image (rows) by target (columns)" in text, "no histogram of images", text)
    lines = re.findall(
        r"s  step (\d+)/\d+  loss (\S+) \| nats/caption (\S+) \(floor 4.78\)  exact +(\d+)% \| drawn nearest own +(\d+)%  MSE (\S+) \| "
        r"ms a step (\S+): vision (\S+) llm (\S+) generator (\S+)$",
        text,
        re.M,
    )
    expect(lines and int(lines[-1][0]) == STEPS, "no line of figures for the last step", text)
    for line in lines:
        expect(all(math.isfinite(float(figure)) for figure in line), f"not a number among {line}", text)
        expect(all(float(time) > 0 for time in line[6:]), f"a module takes no time: {line}", text)
    expect("3 ranks" in text and "simulated from its tasks" in text, "no report of the ranks' steps", text)
    expect(len(re.findall(r"^  .+ -> ", text, re.M)) == 8, "expected 8 lines picture -> caption", text)
    expect(f"{EMOJI} of {EMOJI} captions equal" in text, "ONNX Runtime was not compared", text)


def check_files(out):
    captions = json.loads((out / "captions.json").read_text())
    expect(len(captions) == EMOJI, f"{len(captions)} captions")
    expect(any(row["caption"] for row in captions), "all captions are empty: nothing was compared with ONNX Runtime")
    png = (out / "grid.png").read_bytes()
    width, height = struct.unpack(">II", png[16:24])
    expect(png[:8] == b"\x89PNG\r\n\x1a\n" and width > height > 5 * 32, f"grid.png is {width} x {height}")
    metrics = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    expect([m["step"] for m in metrics] == list(range(1, STEPS + 1)), "metrics.jsonl has not one line a step")
    expect(metrics[-1]["loss"] < metrics[0]["loss"], "the loss did not fall")
    page = (out / "run.html").read_text()
    for word in ("Losses", "What was learned", f"step {STEPS}", "At the end", "step: 1f1b", "as measured"):
        expect(word in page, f"run.html has not '{word}'")
    history = [json.loads(line) for line in (out / "history/history.jsonl").read_text().splitlines()]
    expect(history[-1]["step"] == STEPS and (out / "history" / history[-1]["pictures"]).stat().st_size > 1000, "no pictures of the last evaluation")
    expect("<svg" in (out / "plan.html").read_text(), "no picture of the plan")
    events = json.loads((out / "trace.json").read_text())["traceEvents"]
    expect({e.get("tid") for e in events if e.get("ph") == "X"} == {0, 1, 2}, "trace.json has not a lane a rank")
    for name in ("vision", "llm", "generator"):
        expect((out / f"onnx/{name}.onnx").stat().st_size > 1 << 20, f"onnx/{name}.onnx has no weights")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("--bin", required=True, type=pathlib.Path)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    text = run_demo(arguments)
    check_text(text)
    check_files(arguments.out)
    print(text[text.find("] training") :])


if __name__ == "__main__":
    main()
