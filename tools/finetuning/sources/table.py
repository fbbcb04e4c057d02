# ===- sources/table.py - Parquet ----------------------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Rows of a column store lie in groups, and a shuffled order would decode a group
# for each row. So a process that reads rows holds the table, as columns.
# ===-----------------------------------------------------------------------===
"""Parquet: an object a row; needs pyarrow."""

import functools

import numpy as np

from . import Source, digests
from ..errors import Failure, one_line


class Parquet(Source):
    is_text = True

    def __init__(self, text):
        super().__init__(text)
        try:
            import pyarrow.parquet
        except ImportError:
            raise Failure(f"{text}: Parquet needs pyarrow (.venv/bin/pip install pyarrow)") from None
        self.parquet = pyarrow.parquet

    @functools.cached_property
    def table(self):
        return self._try(self.parquet.read_table)

    def _try(self, read):
        try:
            return read(self.text)
        except (OSError, ValueError) as e:
            raise Failure(f"{self.text}: no Parquet: {one_line(e)}") from None

    def digest(self):
        return digests.of_files([self.text])

    def scan(self):
        count = self._try(self.parquet.read_metadata).num_rows
        return np.arange(count), np.arange(1, count + 1)

    def record(self, where):
        (record,) = self.table.slice(where, 1).to_pylist()
        # A column that this row has nothing in.
        return {k: v for k, v in record.items() if v is not None}

    def place(self, number):
        return f"{self.text}: row {number}"
