# ===- check_export.py - captions of the exported graphs -------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# The trained encoder and language model were written back into their ONNX
# files. Here ONNX Runtime captions every picture with them, one at a time and
# growing word by word, which shares nothing with how the C++ program does it;
# both must give the same words.
# ===-----------------------------------------------------------------------===
"""python check_export.py ONNX_DIR pairs.tar captions.json: fails unless all captions are equal."""

import json
import pathlib
import struct
import sys
import tarfile
import zlib

import numpy as np
import onnxruntime

HERE = pathlib.Path(__file__).resolve().parent
LONGEST = 12
TIE = 1024 * float(np.finfo(np.float32).eps)  # of the largest logit: two words this near are equal in float32


def read_png(data):
    """8-bit RGB without interlacing, as dt-data writes it -> [height, width, 3]."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed = 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + size]
        if kind == b"IHDR":
            width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", body)
            assert (depth, colour, interlaced) == (8, 2, 0), "expected an 8-bit RGB picture"
        packed += body if kind == b"IDAT" else b""
        at += 12 + size
    raw = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + 3 * width)
    rows = np.zeros((height + 1, width + 1, 3), np.int32)  # with a border of zeros above and to the left
    for y in range(height):
        filtered = raw[y, 1:].reshape(width, 3).astype(np.int32)
        for x in range(width):
            left, up, corner = rows[y + 1, x], rows[y, x + 1], rows[y, x]
            guess = {0: 0 * left, 1: left, 2: up, 3: (left + up) // 2, 4: paeth(left, up, corner)}[int(raw[y, 0])]
            rows[y + 1, x + 1] = (filtered[x] + guess) % 256
    return rows[1:, 1:].astype(np.uint8)


def paeth(left, up, corner):
    guess = left + up - corner
    a, b, c = abs(guess - left), abs(guess - up), abs(guess - corner)
    return np.where((a <= b) & (a <= c), left, np.where(b <= c, up, corner))


def read_pairs(path):
    with tarfile.open(path) as tar:
        files = {m.name: tar.extractfile(m).read() for m in tar.getmembers() if m.isfile()}
    keys = [name[:-4] for name in files if name.endswith(".png")]
    return [(read_png(files[f"{k}.png"]), files[f"{k}.txt"].decode().strip()) for k in keys]


def main(folder, pairs, captions):
    data = json.loads((HERE / "recipe.json").read_text())["data"]
    words = data["special"] + (HERE / data["tokenizer"]["vocabulary"]).read_text().split("\n")
    bos, image, eos = (words.index(t) for t in ("<bos>", "<image>", "<eos>"))
    vision, llm = (onnxruntime.InferenceSession(f"{folder}/{name}.onnx") for name in ("vision", "llm"))
    expected = json.loads(pathlib.Path(captions).read_text())
    wrong = 0
    for (picture, name), row in zip(read_pairs(pairs), expected, strict=True):
        pixels = (picture.transpose(2, 0, 1)[None].astype(np.float32) / 255 - 0.5) / 0.5
        embeds = vision.run(["image_embeds"], {"pixel_values": pixels})[0]
        ids = [bos] + [image] * embeds.shape[1]
        places = np.arange(1, 1 + embeds.shape[1])[None]
        start, tied = len(ids), False
        while len(ids) < start + LONGEST:
            feed = {"input_ids": np.array([ids]), "segment_ids": np.zeros((1, len(ids)), np.int64), "image_embeds": embeds, "image_positions": places}
            logits = llm.run(["logits"], feed)[0][0, -1]
            word, (second, first) = int(logits.argmax()), np.sort(logits)[-2:]
            tied |= bool(first - second <= TIE * np.abs(logits).max())
            if word == eos:
                break
            ids.append(word)
        found = "".join(words[i] for i in ids[start:])
        differs = found != row["caption"].replace(" ", "")
        if differs and tied:
            print(f"{name}: '{row['caption']}', where ONNX Runtime finds two words equally likely", file=sys.stderr)
        if row["name"] != name or differs and not tied:
            wrong += 1
            print(f"{name}: the program says '{row['caption']}', ONNX Runtime '{' '.join(words[i] for i in ids[start:])}'", file=sys.stderr)
    print(f"{len(expected) - wrong} of {len(expected)} captions equal")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
