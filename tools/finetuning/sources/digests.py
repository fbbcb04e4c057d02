# ===- sources/digests.py - what a file holds, as a number ---------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===
"""of_files(paths): SHA-256 of their contents; of_parts(...): of texts."""

import hashlib


def of_files(paths):
    return of_parts(*(file_digest(path) for path in paths))


def file_digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def of_parts(*parts):
    """Of texts and bytes, each with its length, so that no two lists have the same."""
    hashed = hashlib.sha256()
    for part in parts:
        part = part.encode() if isinstance(part, str) else part
        hashed.update(len(part).to_bytes(8, "little") + part)
    return hashed.hexdigest()
