# ===- finetune_cases.py - what tests of tools/finetuning begin with --------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Folders that are made once, a data file, and the tool in this process. Where there
# is no PyTorch, whatever imports this is skipped.
# ===-----------------------------------------------------------------------===
"""call(*argv): the tool; WithFolders: a test case."""

import atexit
import contextlib
import io
import json
import os
import pathlib
import shutil
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "models")]
os.environ["HF_HUB_OFFLINE"] = "1"
try:
    import torch  # noqa: F401
    import transformers as hf

    import finetune_folders as folders
except ImportError:
    print(f"skipped: {pathlib.Path(sys.argv[0]).stem}: tools/setup --torch installs what this needs")
    sys.exit(77)

from finetuning import __main__ as driver  # noqa: E402

BIN = pathlib.Path(tempfile.mkdtemp())  # a compiler that is there and never asked
(BIN / "dt-opt").touch()
atexit.register(shutil.rmtree, BIN)
USER, ANSWER = {"role": "user", "content": "why"}, {"role": "assistant", "content": "it does"}
GOOD = {"messages": [USER, ANSWER]}


def call(*argv):
    """(exit code, what is printed, what the error says)."""
    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["finetune", "--bin", str(BIN), *map(str, argv)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = driver.main()
    finally:
        sys.argv = before
    return code, out.getvalue(), err.getvalue()


class WithFolders(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        hf.logging.disable_progress_bar()
        cls.work = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.kept = {name: folders.make_folder(name, cls.work / "kept" / name) for name in ("llama", "gemma3_text", "mistral", "qwen3", "qwen3_moe")}

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(dir=self.work)))

    def model(self, name="llama"):
        return shutil.copytree(self.kept[name], self.folder / name)

    def data(self, *records):
        path = self.folder / "train.jsonl"
        path.write_bytes(b"".join((r if isinstance(r, bytes) else json.dumps(r).encode()) + b"\n" for r in records))
        return path

    def refused(self, said, *flags, model=None, data=None):
        out = self.folder / "out"
        code, printed, error = call("--model", model or self.kept["llama"], "--data", data or self.data(GOOD), "--out", out, *flags)
        self.assertEqual((code, error.count("\n")), (1, 1), error + printed)
        self.assertRegex(error, "^finetune: error: .*" + said)
        self.assertFalse(out.exists())
