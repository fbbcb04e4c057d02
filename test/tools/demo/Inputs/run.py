"""run.py DIR: writes what a run of the demonstration leaves in DIR, but small."""

import json
import pathlib
import struct
import sys
import zlib


def png(width, height):
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    rows = b"".join(b"\0" + bytes(3 * width) for _ in range(height))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def main(out):
    name = "a<b>&\"c'"
    # A loss that is no number is null.
    rows = [{"step": 0, "loss": None, "seconds": 0.1}] + [{"step": s, "loss": 5 / s, "loss.text": 4 / s, "loss.picture": 1 / s, "seconds": 0.1, "samples_per_second": 60 + s} for s in [1, 2, 3, 2, *range(3, 31)]]
    (out / "metrics.jsonl").write_text("\n".join(json.dumps(r) for r in rows) + '\n{"step": 31, "lo')
    evaluations = []
    for step in (10, 30):
        (out / f"history/step-{step}.png").write_bytes(png(8, 4))
        samples = [{"name": name, "caption": "x"}, {"name": "cat", "caption": "cat"}]
        evaluations.append({"step": step, "nats_per_caption": 4.5, "nats_without_picture": 4.78, "captions_exact": 0.5, "drawn_nearest_own": 0.25, "pictures": f"step-{step}.png", "samples": samples})
    # What is no file of its own is not looked for.
    evaluations.append({"step": 31, "pictures": "../metrics.jsonl", "samples": [], "nats_without_picture": 4.78})
    (out / "history/history.jsonl").write_text("\n".join(json.dumps(e) for e in evaluations) + "\n")
    (out / "history/truth.png").write_bytes(png(8, 4))
    (out / "captions.json").write_text(json.dumps([{"name": name, "caption": "x"}, {"name": "cat", "caption": "cat"}]))


main(pathlib.Path(sys.argv[1]))
