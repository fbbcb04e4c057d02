# ===- packed_shards.py - texts of shards, packed -----------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A step that is a whole epoch has the same loss however its texts are cut: as one
# batch file that NumPy packs, as shards in one part, and as shards packed into
# parts under a bound that the texts as they come exceed. A bound that no packing
# keeps ends the run before its first step.
# ===-----------------------------------------------------------------------===
"""packed_shards.py --dt-opt PATH: exit code 0 when all losses agree and what is said is true."""

import argparse
import io
import json
import pathlib
import random
import re
import subprocess
import sys
import tarfile
import tempfile

import numpy as np
from safetensors.numpy import save_file

GRAPH = pathlib.Path(__file__).parents[1] / "models/sizes/packed/llm.onnx"
WORDS = [f"w{i}" for i in range(34)]  # and three special tokens: the graph's vocabulary
BOS, EOS, MOST = 1, 2, 40
# Summands in another order are off by far less, a text that sees another by far more.
RELATIVE = 1e-4


def texts():
    draw = random.Random(5)
    lengths = [min(MOST - 2, int(draw.lognormvariate(2, 0.9))) for _ in range(24)] + [0, 1, MOST - 2]
    return [[draw.randrange(len(WORDS)) for _ in range(n)] for n in lengths]


def write_shard(path, documents):
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for i, words in enumerate(documents):
            content = " ".join(WORDS[w] for w in words).encode()
            info = tarfile.TarInfo(f"{i:04}.txt")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def write_batch(path, documents):
    rows = [[BOS, *(3 + w for w in words), EOS] for words in documents]
    labels = [row[1:] + [-100] for row in rows]
    row = lambda lists: np.concatenate([np.array(x, np.int64) for x in lists])[None]
    save_file(
        {
            "llm.input_ids": row(rows),
            "labels": row(labels),
            "llm.position_ids": row([range(len(r)) for r in rows]),
            "llm.segments": row([[i] * len(r) for i, r in enumerate(rows)]),
            "offsets.sample.tokens": np.cumsum([0, *map(len, rows)]),
        },
        path,
    )


def recipe(batch, **measure):
    return {
        "modules": {"llm": {"onnx": str(GRAPH)}},
        "items": {"sample": {"measures": {"tokens": {"max": MOST} | measure}}},
        "dims": {"seq": "sample.tokens"},
        "batch": batch,
        "losses": [{"name": "text", "kind": "cross_entropy", "logits": "llm.logits", "labels": "labels"}],
        "optimizer": {"kind": "adamw", "lr": 1e-3},
        "data": {
            "sequence": "seq",
            "tokenizer": {"kind": "words", "vocabulary": WORDS},
            "special": ["<pad>", "<bos>", "<eos>"],
            "segments": {"text": {"parts": ["text"], "tokens": ["<bos>", {"text": "text", "loss": True}, {"token": "<eos>", "loss": True}]}},
        },
        "inputs": {
            "llm.input_ids": {"tokens": "ids"},
            "llm.segments": {"tokens": "segment"},
            "llm.position_ids": {"tokens": "position"},
            "labels": {"tokens": "labels"},
        },
    }


def build(dt_opt, folder, made, plan):
    folder.mkdir()
    (folder / "recipe.json").write_text(json.dumps(made))
    subprocess.run([dt_opt, folder / "recipe.json", "--emit=exe", "-o", folder / "program", *plan], check=True, capture_output=True, text=True)
    return folder / "program"


def train(program, ranks, *flags, steps=2):
    return subprocess.run([program / "build/train", *(["--ranks", str(ranks)] if ranks > 1 else []), "--steps", str(steps), "--threads", "1", "--metrics", "metrics.jsonl", *flags], cwd=program, capture_output=True, text=True)


def curve(program):
    return [json.loads(line) for line in (program / "metrics.jsonl").read_text().splitlines()]


def differ(name, have, want):
    """Losses step by step."""
    have, want = [line["loss"] for line in have], [line["loss"] for line in want]
    same = len(have) == len(want) and all(abs(a - b) <= RELATIVE * abs(b) for a, b in zip(have, want))
    return [] if same else [f"losses of {name} are {have}, expected {want}"]


def check_filled(dt_opt, work):
    """Steps of as many texts as fit: of equal texts those of a number of texts; of others the same ones under every plan and from every step on."""
    failures, shard = [], work / "equal.tar"
    write_shard(shard, [[i % len(WORDS)] * 8 for i in range(23)])
    made = {"numbered": {"global": 12}, "filled": {"tokens": 49, "parts": 3}}
    curves = {}
    for name, batch in made.items():
        program = build(dt_opt, work / f"equal-{name}", recipe(batch), [])
        run = train(program, 1, "--data", shard, steps=5)
        if run.returncode:
            return [f"{name}: {run.stderr}"]
        curves[name] = curve(program)
    failures += differ("filled parts", curves["filled"], curves["numbered"])

    documents, batch = texts(), {"tokens": 48, "parts": 4, "samples": 9}
    plans = {"": 1, "llm:dp=2": 2, "llm:dp=4": 4, "llm:dp=2;microbatches=4": 2, "llm:pp=2;reorder=both": 2, "llm:dp=2,sub=2;reorder=both": 2, "llm:cp=2,dp=2;reorder=both": 4}
    shard, want = work / "texts.tar", None
    for number, (plan, ranks) in enumerate(plans.items()):
        program = build(dt_opt, work / f"filled-{number}", recipe(batch), [f"--plan={plan}"] if plan else [])
        run = train(program, ranks, "--data", shard, steps=7)
        if run.returncode:
            failures.append(f"{plan}: {run.stderr}")
            continue
        lines = curve(program)
        want = want or lines
        failures += differ(plan, lines, want)
        tokens = [round(line["tokens_per_second"] * line["seconds"]) for line in lines]
        if not all(0 < line["data_seconds"] < line["seconds"] for line in lines):
            failures.append(f"{plan}: seconds of steps and of their data: {[(line['seconds'], line['data_seconds']) for line in lines]}")
        samples = [round(line["samples_per_second"] * line["seconds"]) for line in lines]
        if max(tokens) > 192 or min(tokens) <= 4 * (48 - MOST) or len(set(samples)) < 3 or max(samples) > 36:
            failures.append(f"{plan}: steps have {tokens} tokens, {samples} samples")
        if any(abs(line["utilisation"] - n / (192 * parts)) > 1e-9 for line, n, parts in zip(lines, tokens, [2 if "sub" in plan or "microbatches" in plan else 1] * 7)):
            failures.append(f"{plan}: {[line['utilisation'] for line in lines]}")
        # From the state after three steps of the plan before it.
        if number == 0:
            train(program, ranks, "--data", shard, "--checkpoint", work / "state", steps=3)
        elif number == 1:
            run = train(program, ranks, "--data", shard, "--checkpoint", work / "state", "--resume", steps=7)
            failures += differ(f"{plan}, resumed", curve(program)[-4:], want[3:]) + ([run.stderr] if run.returncode else [])
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dt-opt", required=True, type=pathlib.Path)
    dt_opt = parser.parse_args().dt_opt.resolve()
    documents, failures, losses = texts(), [], {}
    total = sum(len(words) + 2 for words in documents)
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(temporary)
        shard, batch = work / "texts.tar", work / "batch.safetensors"
        write_shard(shard, documents)
        write_batch(batch, documents)
        bound = total // 8 + MOST // 2
        cases = {
            "file": (recipe({"global": len(documents)}), [], 1, ["--batch", batch]),
            "shards": (recipe({"global": len(documents)}), [], 1, ["--data", shard]),
            "packed": (recipe({"global": len(documents), "micro": -(-len(documents) // 4), "tokens": bound}), ["--plan=llm:dp=2"], 2, ["--data", shard]),
            "rounded": (recipe({"global": len(documents), "micro": -(-len(documents) // 4)}, multiple=12), ["--plan=llm:cp=2"], 2, ["--data", shard]),
        }
        for name, (made, plan, ranks, flags) in cases.items():
            program = build(dt_opt, work / name, made, plan)
            run = train(program, ranks, *flags)
            if run.returncode:
                failures.append(f"{name}: ended with {run.returncode}: {run.stderr}")
                continue
            lines = [json.loads(line) for line in (program / "metrics.jsonl").read_text().splitlines()]
            losses[name] = lines[0]["loss"]
            if name == "packed":
                full = total / (8 * bound)
                if abs(lines[0]["utilisation"] - full) > 1e-9:
                    failures.append(f"utilisation is {lines[0]['utilisation']}, expected {full}")
                said = re.search(r"parts of 2 steps: ([0-9.]+) % of their bounds", run.stdout)
                if not said or abs(float(said[1]) - 100 * full) > 0.051:
                    failures.append(f"the log does not say that parts are {100 * full:.1f} % full: {run.stdout}")
        tight = build(dt_opt, work / "tight", recipe({"global": len(documents), "tokens": max(MOST, total // 3)}), ["--plan=llm:dp=2"])
        run = train(tight, 2, "--data", shard)
        if run.returncode == 0 or not re.fullmatch(r"error: step 0: dim llm\.seq is [0-9]+ in microbatch 0, replica [01]; the program was compiled for at most [0-9]+, which sample [0-9]+ \([0-9]+\) exceeds", run.stderr.strip()):
            failures.append(f"a bound below the mean: ended with {run.returncode}, {run.stderr.strip()}")
        failures += check_filled(dt_opt, work)
    for name, loss in losses.items():
        if not abs(loss - losses["file"]) <= RELATIVE * abs(losses["file"]):
            failures.append(f"the loss of {name} is {loss}, that of the file {losses['file']}")
    print("\n".join(failures) or f"{len(documents)} texts, {total} tokens: losses {losses}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
