# ===- metrics.py - a line a step ---------------------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# The program's own lines, with what only the data know: how many tokens a step
# had. A validation is a line of its own there, and part of its step's here.
# ===-----------------------------------------------------------------------===
"""Metrics: follows the program's file and writes OUT/metrics.jsonl."""

import json

KEPT = ("step", "loss", "lr", "seconds", "data_seconds", "tokens_per_second", "flops_per_second", "mfu", "utilisation", "grad_norm", "skipped")


class Metrics:
    def __init__(self, source, target, steps):
        self.source, self.target, self.steps = source, target, steps
        self._begin(None)

    def _begin(self, file):
        self.file, self.place, self.row = file, 0, None
        if file is not None:
            self.target.write_text("")

    def follow(self):
        """What is new. A run that goes on may have cut the program's file: then everything is."""
        try:
            now = self.source.stat()
        except FileNotFoundError:
            return
        if now.st_ino != self.file or now.st_size < self.place:
            self._begin(now.st_ino)
        with self.source.open("rb") as file:
            file.seek(self.place)
            lines = file.read().splitlines(keepends=True)
        with self.target.open("a") as target:
            for line in lines:
                if not line.endswith(b"\n"):
                    break
                self.place += len(line)
                self._take(json.loads(line), target)

    def end(self):
        self.follow()
        if self.row is not None:
            with self.target.open("a") as target:
                self._take({"step": -1}, target)

    def _take(self, row, target):
        """A step's line is whole when the next step's comes."""
        if self.row is not None and row["step"] == self.row["step"]:
            self.row |= row
            return
        if self.row is not None:
            target.write(json.dumps(self._line(self.row)) + "\n")
            target.flush()
        self.row = row

    def _line(self, row):
        figures = self.steps.figures(row["step"] - 1) if row["step"] > 0 else {}
        line = {k: row[k] for k in ("step", "loss") if k in row} | figures | {k: row[k] for k in KEPT if k in row}
        by_source = {k: v for k, v in row.items() if "loss." in k and not k.endswith("loss.text")}
        return line | {k: v for k, v in row.items() if k == "validation_loss"} | by_source
