# ===- feed.py - programs on samples of a recipe's source -----------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# tools/feed trains a program as batch files with the same samples do, with and
# without producers, also when it goes on; what is wrong with a source is one line.
# ===-----------------------------------------------------------------------===
"""feed.py --dt-opt PATH: tests of tools/feed."""

import argparse
import importlib.util
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import safetensors.numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "models")]
from feed_sources import Rows  # noqa: E402
from finetuning.errors import Failure  # noqa: E402
from finetuning.joining import Joiner  # noqa: E402

DT_OPT, SIZE, STEPS = None, 4, 8


class Joined(unittest.TestCase):
    def test_counts_go_on(self):
        """Offsets, owners, places among tokens and among rows of items, numbers that keep items apart."""
        inputs = {"llm.image_rows": {"index": ["sample", "token"]}, "vision.windows": {"rebase": "image.merged", "rows": 4}}
        joiner = Joiner({"data": {"axes": {"input_ids": 1, "segments": 1}, "numbers": ["segments"]}, "inputs": inputs})

        def sample(tokens, merged):
            return {
                "input_ids": np.arange(tokens)[None], "segments": np.zeros((1, tokens), np.int64), "offsets.sample.tokens": np.array([0, tokens]),
                "offsets.image.merged": np.cumsum([0, *merged]), "item_of.image": np.zeros(len(merged), np.int64),
                "image_rows": np.array([1, -1]), "vision.windows": np.array([3]),
            }  # fmt: skip

        made = joiner.join([("a", sample(3, [2, 1])), ("b", sample(2, [])), ("c", sample(4, [5]))])
        want = {
            "input_ids": [[0, 1, 2, 0, 1, 0, 1, 2, 3]], "segments": [[0, 0, 0, 1, 1, 2, 2, 2, 2]], "offsets.sample.tokens": [0, 3, 5, 9],
            "offsets.image.merged": [0, 2, 3, 8], "item_of.image": [0, 0, 2],
            "image_rows": [1, -1, 4, -1, 6, -1], "vision.windows": [3, 15, 15],
        }  # fmt: skip
        self.assertEqual({name: array.tolist() for name, array in made.items()}, want)

    def test_samples_that_do_not_fit(self):
        joiner = Joiner({"data": {}})
        for other, said in [
            ({"x": np.zeros((1, 3))}, "b: x is float64 [1, 3], beside float64 [1, 2] of a; joined along axis 0"),
            ({"x": np.zeros((1, 2), np.float32)}, "b: x is float32 [1, 2], beside float64 [1, 2] of a; joined along axis 0"),
            ({"y": np.zeros((1, 2))}, "b: has y; a has x"),
        ]:
            with self.assertRaises(Failure) as found:
                joiner.join([("a", {"x": np.zeros((1, 2))}), ("b", other)])
            self.assertEqual(str(found.exception), said)


class Programs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        shutil.copy(pathlib.Path(__file__).with_name("feed_sources.py"), cls.work)
        shutil.copy(ROOT / "test/models/llama/model.onnx", cls.work)
        cls.recipe = json.loads((ROOT / "test/models/llama/recipe.json").read_text())
        done = cls.compile({"source": "feed_sources.py:Rows", "names": ["input_ids", "labels"]})
        if done.returncode:
            sys.exit(done.stderr)

    @classmethod
    def compile(cls, data, *flags):
        (cls.work / "recipe.json").write_text(json.dumps(cls.recipe | {"data": data}))
        command = [DT_OPT, cls.work / "recipe.json", *(flags or ["--emit=exe", "-o", cls.work / "program"])]
        return subprocess.run([str(c) for c in command], capture_output=True, text=True)

    def feed(self, *flags, code=0):
        metrics = self.work / "metrics.jsonl"
        command = [ROOT / "tools/feed", self.work / "program", "--steps", STEPS, "--order", "file", "--metrics", metrics, *flags]
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stderr if code else losses(metrics)

    def test_is_what_files_are(self):
        rows = Rows()
        for step in range(STEPS):
            samples = [rows[i % len(rows)] for i in range(step * SIZE, (step + 1) * SIZE)]
            safetensors.numpy.save_file({name: np.concatenate([s[name] for s in samples]) for name in samples[0]}, self.work / f"batch-{step}.safetensors")
        metrics = self.work / "files.jsonl"
        subprocess.run([self.work / "program/build/train", "--batch", self.work / "batch-*.safetensors", "--steps", str(STEPS), "--metrics", metrics], check=True, capture_output=True)
        want = losses(metrics)
        self.assertEqual(len(want), STEPS)
        self.assertEqual(self.feed(), want)
        self.feed("--producers", 2, "--steps", 5, "--checkpoint", self.work / "checkpoint")
        self.assertEqual(self.feed("--producers", 1, "--checkpoint", self.work / "checkpoint", "--resume"), want)
        if importlib.util.find_spec("torch"):
            self.assertEqual(self.feed("--source", f"{self.work}/feed_sources.py:torch_rows"), want)

    def test_what_is_wrong(self):
        self.assertRegex(self.feed("--source", f'{self.work}/feed_sources.py:Rows?{{"at": 5}}', code=1), r"feed: error: .*feed_sources\.py:Rows\?.*\[5\]: ValueError: no such file\n\Z")
        self.assertRegex(self.feed("--source", f"{self.work}/feed_sources.py:Columns", code=1), r"\Afeed: error: .*has no attribute 'Columns'\n\Z")
        self.assertRegex(self.feed("--data", "x.tar", code=1), r"\Afeed: error: --data: batches come from the recipe's source\n\Z")
        done = subprocess.run([self.work / "program/build/train", "--data", "x.tar", "--steps", "1"], capture_output=True, text=True)
        self.assertRegex(done.stderr, r"\Aerror: x\.tar: this program's samples come from \"data\.source\", which no rank runs: tools/feed .*\n\Z")
        for data, said in [
            ({"source": "rows"}, r'data\.source: expected FILE\.py:NAME or PACKAGE\.MODULE:NAME, not "rows"'),
            ({"source": "a.py:Rows", "sequence": 4}, r'data: unknown key "sequence"; expected source, axes, names, numbers'),
            ({"source": [], "axes": {}}, "data.source: expected at least one source"),
            ({"source": "a.py:Rows", "axes": {"x": -1}}, r"data\.axes\.x: expected a whole number from 0 on"),
        ]:
            self.assertRegex(self.compile(data, "--emit=plan").stderr, said)


def losses(path):
    return [json.loads(line)["loss"] for line in path.read_text().splitlines()]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--dt-opt", required=True, type=pathlib.Path)
    known, rest = parser.parse_known_args()
    DT_OPT = known.dt_opt.resolve()
    unittest.main(argv=[sys.argv[0], *rest])
