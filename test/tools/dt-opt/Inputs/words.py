# words.py FOLDER NUMBER OUT: a language model's recipe and graph with another number of words; more than it has begin with zeros.
"""Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception"""

import pathlib
import shutil
import sys

import onnx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "e2e"))
import words  # noqa: E402

folder, number, out = pathlib.Path(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
out.mkdir(parents=True, exist_ok=True)
shutil.copy(folder / "recipe.json", out)
model = onnx.load(folder / "model.onnx")
words.resize(model, number)
onnx.save(model, out / "model.onnx")
