# ===- sources/imported.py - a Python object of the user's ---------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Whatever has a length and gives a record for a number: a class of the user's, a
# torch Dataset, a folder of Hugging Face `datasets`.
# ===-----------------------------------------------------------------------===
"""Imported: `file.py:Name` or `package.module:Name`; Dataset: a folder that save_to_disk wrote."""

import importlib
import importlib.util
import inspect
import json
import pathlib
import sys

import numpy as np

from . import Source, digests
from ..errors import Failure, one_line


class Numbered(Source):
    """Records of `self.object` by number."""

    def scan(self):
        try:
            count = len(self.object)
        except Exception as e:  # of the user's
            raise Failure(f"{self.text}: len(): {type(e).__name__}: {one_line(e)}") from None
        return np.arange(count), np.arange(count)

    def record(self, where):
        return self.object[where]

    def place(self, number):
        return f"{self.text}[{number}]"


class Imported(Numbered):
    def __init__(self, text, module, name, options):
        super().__init__(text)
        try:
            self.options = json.loads(options) if options else {}
            if not isinstance(self.options, dict):
                raise ValueError("no object")
        except ValueError as e:
            raise Failure(f"{text}: the options behind '?' are no JSON object: {one_line(e)}") from None
        try:
            self.module = load(module)
            self.object = getattr(self.module, name)
            if inspect.isclass(self.object) or inspect.isroutine(self.object):
                self.object = self.object(**self.options)
        except Exception as e:  # of the user's
            raise Failure(f"{text}: {type(e).__name__}: {one_line(e)}") from None
        if missing := [m for m in ("__len__", "__getitem__") if not hasattr(self.object, m)]:
            raise Failure(f"{text}: has no {missing[0]}: a source has len(source) and source[i]")

    def digest(self):
        """What the object says of itself; else the file that it is of and its options."""
        own = getattr(self.object, "fingerprint", None)
        if own is not None:
            try:
                return digests.of_parts("fingerprint", str(own()))
            except Exception as e:  # of the user's
                raise Failure(f"{self.text}: fingerprint(): {type(e).__name__}: {one_line(e)}") from None
        file = inspect.getsourcefile(self.module)
        return digests.of_parts("file", digests.of_files([file]) if file else "", json.dumps(self.options, sort_keys=True), str(len(self.object)))

    def measures(self, where):
        own = getattr(self.object, "measures", None)
        if own is None:
            return None
        made = own(where)
        if not isinstance(made, dict) or not {"tokens", "learned"} <= set(made):
            raise Failure("measures() gives no {'tokens': …, 'learned': …}")
        if wrong := [k for k, v in made.items() if any(not isinstance(n, (int, np.integer)) or n < 0 for n in np.atleast_1d(np.asarray(v)).tolist())]:
            raise Failure(f"measures() gives {wrong[0]} = {one_line(made[wrong[0]])}, no whole number from 0")
        return made


class Dataset(Numbered):
    def __init__(self, text):
        super().__init__(text)
        try:
            import datasets
        except ImportError:
            raise Failure(f"{text}: a folder of Hugging Face datasets needs `datasets` (.venv/bin/pip install datasets)") from None
        try:
            self.object = datasets.load_from_disk(text)
        except Exception as e:  # the library raises many kinds
            raise Failure(f"{text}: {one_line(e)}") from None
        if isinstance(self.object, dict):
            raise Failure(f"{text}: has several sets ({', '.join(self.object)}): name the folder of one, as {text}/{next(iter(self.object))}")

    def digest(self):
        return digests.of_files(sorted(p for p in pathlib.Path(self.text).iterdir() if p.is_file()))


def load(module):
    """A file's folder is where it imports from, as of a script."""
    if not module.endswith(".py"):
        return importlib.import_module(module)
    path = pathlib.Path(module).resolve()
    if not path.is_file():
        raise Failure("there is no such file")
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    made = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, made)
    spec.loader.exec_module(made)
    return made
