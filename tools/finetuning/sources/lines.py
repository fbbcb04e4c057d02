# ===- sources/lines.py - JSONL ------------------------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Where a line begins is in the index, so a record is one read at any place of a
# file of any size.
# ===-----------------------------------------------------------------------===
"""Lines: an object a line; empty lines are passed over."""

import functools
import json

import numpy as np

from . import Source, digests
from ..errors import Failure, one_line


class Lines(Source):
    is_text = True

    @functools.cached_property
    def file(self):
        return open(self.text, "rb")

    def close(self):
        if "file" in vars(self):
            self.file.close()

    def digest(self):
        return digests.of_files([self.text])

    def scan(self):
        wheres, numbers, at = [], [], 0
        with open(self.text, "rb") as file:
            for number, line in enumerate(file, 1):
                if not line.isspace():
                    wheres.append(at)
                    numbers.append(number)
                at += len(line)
        return np.array(wheres, np.int64), np.array(numbers, np.int64)

    def record(self, where):
        self.file.seek(where)
        try:
            record = json.loads(self.file.readline().decode())
        except (ValueError, RecursionError) as e:  # of JSON, or of UTF-8
            raise Failure(f"no JSON: {one_line(e)}") from None
        if not isinstance(record, dict):
            raise Failure("no JSON object")
        return record
