# ===- errors.py - what ends a run before it begins ---------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Whoever starts a run reads one line: what is wrong, and where.
# ===-----------------------------------------------------------------------===
"""Failure: an error of the user's input; say: a line of progress."""


class Failure(Exception):
    """One line, without the program's name."""


def say(text):
    print(f"finetune: {text}", flush=True)


def one_line(error):
    return " ".join(str(error).split()) or type(error).__name__
