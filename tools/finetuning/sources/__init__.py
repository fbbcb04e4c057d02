# ===- sources/__init__.py - where records come from ---------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A source gives records: objects as a line of a JSONL file holds one, or tokens.
# Each has where(s), by which a process finds any of its records at once, numbers,
# by which errors name them, and a digest of what it holds (docs/producers.md).
# ===-----------------------------------------------------------------------===
"""open_source(text): what `--data` names."""

import pathlib
import re

from ..errors import Failure

IMPORTED = re.compile(r"(?P<module>[^?]+\.py|[A-Za-z_]\w*(?:\.\w+)*):(?P<name>[A-Za-z_]\w*)(?:\?(?P<options>.*))?", re.S)


class Source:
    """`text`: as the command line has it. A subclass has digest(), scan() -> (wheres, numbers) and record(where)."""

    is_text = False  # whether its records need a tokenizer

    def __init__(self, text):
        self.text = text

    def place(self, number):
        """What an error names."""
        return f"{self.text}:{number}"

    def close(self):
        """Files that stay open between records."""

    def measures(self, where):
        """{name: number}, if that costs less than to make the sample; else None."""
        return None

    def all_measures(self, wheres):
        """{name: array} of many at once, if that costs nothing; else None."""
        return None


def open_source(text):
    from . import imported, lines, table, tokens

    path = pathlib.Path(text)
    if not path.exists() and (found := IMPORTED.fullmatch(text)):
        return imported.Imported(text, found["module"], found["name"], found["options"])
    if path.is_dir() and ((path / "state.json").is_file() or (path / "dataset_dict.json").is_file()):
        return imported.Dataset(text)
    if path.suffix in (".bin", ".idx"):
        return tokens.Megatron(text)
    if not path.is_file():
        raise Failure(f"{text}: there is no such file")
    return {".parquet": table.Parquet, ".npy": tokens.Numpy}.get(path.suffix, lines.Lines)(text)
