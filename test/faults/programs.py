# ===- programs.py - the programs that are disturbed ------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# One recipe of three networks that reads shards, compiled for one rank and for
# three: an encoder and a generator on rank 0, a language model cut over ranks 1
# and 2. So one program has messages, collectives inside and outside of tasks,
# readers, and checkpoints of several parts. Both link one runtime.
# ===-----------------------------------------------------------------------===
"""Compiles the programs of test/faults, and makes their shards."""

import io
import json
import os
import pathlib
import shutil
import struct
import sys
import tarfile
import zlib

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from train_model import QUICK, build, emit, make  # noqa: E402

MODEL = pathlib.Path(__file__).resolve().parents[1] / "models/mllm"
PLAN = {
    "version": 1,
    "ranks": 3,
    "units": {
        "vision": {"tp": 1, "dp": 1, "pp": 1, "ranks": [0]},
        "llm": {"tp": 2, "dp": 1, "pp": 1, "ranks": [1, 2]},
        "generator": {"tp": 1, "dp": 1, "pp": 1, "ranks": [0]},
    },
    "pipelines": [{"units": ["vision", "llm", "generator"], "schedule": "1f1b"}],
}
WORDS = [f"w{i}" for i in range(40)]
SAMPLES, SHARDS = 24, 3


def recipe():
    """The model's own, with what its inputs are made from."""
    made = json.loads((MODEL / "recipe.json").read_text())
    made["items"] = {"image": {"of": "sample", "max": 1}}
    made["batch"] = {"global": 4, "micro": 2}
    made["data"] = {
        "sequence": "seq",
        "tokenizer": {"kind": "words", "vocabulary": WORDS},
        "special": ["<pad>", "<bos>", "<image>", "<eos>"],
        "pictures": {"image": {"size": [32, 32]}},
        "segments": {
            "pair": {
                "parts": ["image", "text"],
                "tokens": ["<bos>", {"token": "<image>", "count": 16, "of": "image"}, {"text": "text", "loss": True}, {"token": "<eos>", "loss": True}],
            }
        },
    }
    made["inputs"] = {
        "vision.pixel_values": {"pixels": "image"},
        "llm.input_ids": {"tokens": "ids"},
        "llm.image_positions": {"index": ["sample", "token"], "of": "image", "width": 16},
        "labels": {"tokens": "labels"},
        "generator.timestep": {"random": "uniform_int", "below": 1000, "per": "sample"},
        "generator.noisy_latents": {"random": "normal", "per": "sample", "shape": [4, 8, 8]},
        "noise": {"random": "normal", "per": "sample", "shape": [4, 8, 8]},
    }
    return made


def compile_programs(dt_opt, work, wanted=(3, 1), double=None, sanitizer=None):
    """{ranks: path of the program}; what is there already is only brought up to date. `double`: for CUDA, a folder that stands in for it. `sanitizer`: with a runtime of their own, built with it."""
    made, target = {}, "cuda" if double else "cpu"
    for ranks in sorted(wanted):
        folder = work / f"ranks-{ranks}"
        folder.mkdir(parents=True, exist_ok=True)
        for module in recipe()["modules"].values():
            shutil.copy(MODEL / module["onnx"], folder / module["onnx"])
        (folder / "recipe.json").write_text(json.dumps(recipe()))
        (folder / "plan.json").write_text(json.dumps(PLAN))
        flags = [f"--plan={folder / 'plan.json'}"] if ranks > 1 else []
        if sanitizer:
            done = emit(dt_opt, folder / "recipe.json", folder / "program", target, *flags)
            if done.returncode:
                sys.exit(f"dt-opt ended with {done.returncode}:\n{done.stderr[-3000:]}")
            build(folder / "program", os.environ.get("CCACHE_DIR"), None, ["-DDT_OPTIMISE=-O0", f"-DCMAKE_CXX_FLAGS=-fsanitize={sanitizer} -fno-sanitize-recover=all"])
        else:
            make(dt_opt, folder / "recipe.json", folder / "program", target, double, flags, QUICK)
        made[ranks] = folder / "program/build/train"
    return made


def png(pixels):
    """An RGB picture as PNG, no row filtered."""
    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def make_shards(folder, shards=SHARDS, samples=SAMPLES):
    """`samples` pairs of a picture and a text in all."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    for shard in range(shards):
        with tarfile.open(folder / f"{shard:03}.tar", "w", format=tarfile.USTAR_FORMAT) as out:
            for sample in range(shard, samples, shards):
                words = " ".join(random.choice(WORDS, 6))
                for ending, data in (("png", png(random.integers(0, 256, (32, 32, 3), np.uint8))), ("txt", words.encode())):
                    info = tarfile.TarInfo(f"{sample:04}.{ending}")
                    info.size = len(data)
                    out.addfile(info, io.BytesIO(data))
