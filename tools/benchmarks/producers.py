# ===- producers.py - who makes samples, beside how long steps take -------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A small Llama learns pictures as tokens: large JPEGs that are decoded and made
# small, which costs far more than a step, or tokens that are there, which cost
# nothing. The same batches as files are what the second has to compare with. Runs
# take turns, so that whatever else the machine does meets all of them.
# ===-----------------------------------------------------------------------===
"""tools/bench producers: prints a table, writes out/bench/producers.json."""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "models"), str(ROOT / "test/e2e")]
os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np  # noqa: E402

SIDE, EDGE, PICTURES, SIZE = 2048, 16, 64, 8  # pixels of a picture's side, tokens of a row, files, samples of a step
SOURCE = '''
import pathlib
import numpy as np
from PIL import Image

class Pictures:
    """Grey levels of small pictures; measures cost nothing, so each picture is decoded when a step needs it."""

    def __init__(self, folder, edge):
        self.files, self.edge = sorted(pathlib.Path(folder).glob("*.jpg")), edge

    def __len__(self):
        return len(self.files)

    def measures(self, i):
        return {"tokens": self.edge**2, "learned": self.edge**2 - 1}

    def __getitem__(self, i):
        small = Image.open(self.files[i]).convert("L").resize((self.edge, self.edge), Image.Resampling.LANCZOS)
        return {"input_ids": np.asarray(small, np.int64).reshape(-1)}
'''


def draw_pictures(folder):
    """With what JPEG has to work on: noise over waves."""
    from PIL import Image

    folder.mkdir()
    across = np.linspace(0, 9, SIDE)
    for i in range(PICTURES):
        draw = np.random.default_rng(i)
        waves = [np.sin(across[:, None] * draw.uniform(1, 5)) + np.cos(across * draw.uniform(1, 5)) for _ in range(3)]
        picture = np.stack(waves, -1) * 40 + 128 + draw.normal(0, 12, (SIDE, SIDE, 3))
        Image.fromarray(picture.clip(0, 255).astype(np.uint8)).save(folder / f"{i:03}.jpg", quality=90)


class Case:
    """One folder OUT, compiled once; runs begin anew."""

    def __init__(self, work, name, model, data, steps, options):
        self.name, self.out, self.steps, self.options = name, work / f"out-{name}", steps, options
        self.words = [ROOT / "tools/finetune", "--model", model, "--data", data, "--out", self.out, "--bin", options.dt_opt.parent, "--threads", options.threads, "--global-batch", SIZE, "--steps", steps, "--schedule", "constant"]
        self.figures, self.shares = {}, {}

    def run(self, producers):
        shutil.rmtree(self.out / "checkpoint", ignore_errors=True)
        if producers == "files":
            self._run_on_files()
            path = self.out / "program/files.jsonl"
        else:
            subprocess.run([str(w) for w in [*self.words, "--producers", producers]], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            path = self.out / "program/metrics.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        # The first steps have what was made while the program began.
        lines = lines[self.steps // 3 :]
        self.figures.setdefault(producers, []).append(statistics.fmean(line["seconds"] for line in lines))
        self.shares.setdefault(producers, []).append(sum(line["data_seconds"] for line in lines) / sum(line["seconds"] for line in lines))

    def _run_on_files(self):
        """The program of an earlier run, on the batches that it had."""
        from finetuning import dataset, maker, producers
        from finetuning.steps import Steps
        from safetensors.numpy import save_file

        folder = self.out / "batches"
        if not folder.is_dir():
            folder.mkdir()
            encoder = maker.make_encoder(pathlib.Path(self.words[2]), lambda _: None)
            reading = dataset.Reading([str(self.words[4])], encoder, None, False)
            alone = producers.Alone(reading.maker)
            made = Steps(reading.dataset(0, [None], 1 << 30, alone), SIZE, "shuffle", 0)
            for step, tensors in made.batches(range(self.steps), alone):
                save_file(tensors, folder / f"{step:06}.safetensors")
        words = [self.out / "program/build/train", "--batch", folder / "*.safetensors", "--steps", self.steps, "--metrics", self.out / "program/files.jsonl", "--threads", self.options.threads]
        words += ["--init-from", f"llm={next(pathlib.Path(self.words[2]).glob('model.safetensors*.json'))}"]
        subprocess.run([str(w) for w in words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(prog="tools/bench producers")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="of the program")
    parser.add_argument("--producers", default="0,1,2,4")
    parser.add_argument("--dt-opt", type=pathlib.Path, default=ROOT / "build/release/bin/dt-opt")
    parser.add_argument("--json", type=pathlib.Path, default=ROOT / "out/bench/producers.json")
    options = parser.parse_args()
    options.dt_opt, load = options.dt_opt.resolve(), []
    import finetune_folders as folders

    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        sizes = {"max_position_embeddings": EDGE**2}
        small = folders.make_folder("llama", work / "small", **sizes)
        larger = folders.make_folder("llama", work / "larger", hidden_size=128, intermediate_size=256, num_hidden_layers=4, **sizes)
        draw_pictures(work / "pictures")
        (work / "source.py").write_text(SOURCE)
        np.save(work / "tokens.npy", np.random.default_rng(1).integers(0, 250, (PICTURES, EDGE**2)))
        pictures = f"{work / 'source.py'}:Pictures?{json.dumps({'folder': str(work / 'pictures'), 'edge': EDGE})}"
        cases = [Case(work, "pictures", small, pictures, options.steps, options), Case(work, "tokens", larger, work / "tokens.npy", options.steps, options)]
        counts = options.producers.split(",")
        for turn in range(options.rounds):
            for case in cases:
                for count in [*counts[:: 1 if turn % 2 else -1], *(["files"] if case.name == "tokens" else [])]:
                    load.append(os.getloadavg()[0])
                    print(f"round {turn + 1} of {options.rounds}, {case.name}, producers {count} (load average {load[-1]:.1f})", file=sys.stderr)
                    case.run(count)
                    print(f"  {1e3 * case.figures[count][-1]:.1f} ms a step", file=sys.stderr)
    results = {"load": load, "cores": len(os.sched_getaffinity(0)), "steps": options.steps, "rounds": options.rounds}
    print(f"{results['cores']} cores, load average {min(load):.1f} to {max(load):.1f}; ms a step, medians of {options.rounds} runs (least to most); what of a step passes until the first rank has its batch\n")
    for case in cases:
        results[case.name] = {count: {"ms": [1e3 * s for s in seconds], "data": case.shares[count]} for count, seconds in case.figures.items()}
        for count, figures in results[case.name].items():
            times = figures["ms"]
            print(f"{case.name:9} producers {count:6} {statistics.median(times):8.1f} ({min(times):.1f} to {max(times):.1f}), data {statistics.median(figures['data']):.2%}")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
