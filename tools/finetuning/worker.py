# ===- worker.py - a process that makes samples --------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# It is told which samples and answers one by one, and keeps nothing in between.
# `python -m finetuning.worker FD` speaks over a socket that it has from the process
# that feeds the program; workers of dt-serve (serving.py) run the same loop.
# ===-----------------------------------------------------------------------===
"""serve(channel, maker, said): answers until the other side is gone."""

import contextlib
import ctypes
import os
import pathlib
import signal
import socket
import sys

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from . import channel as channels
from .errors import Failure, one_line
from .maker import Arrays, LazyEncoder, Maker, Ref
from .processes import STARTER
from .sources import open_source

PR_SET_PDEATHSIG = 1


def alone():
    """The process ends with the one that started it, and not by Ctrl-C, which is the program's; nothing of a source reaches standard output."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.environ.get(STARTER, str(os.getppid())) != str(os.getppid()):
        sys.exit(0)  # it had ended before that
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(2, 1)


def open_maker(spec, said):
    if spec.get("arrays"):
        return Arrays([open_source(text) for text in spec["sources"]], spec["names"])
    maker = Maker([open_source(text) for text in spec["sources"]], LazyEncoder(pathlib.Path(spec["model"]), spec["vocabulary"], said.append))
    if any(source.is_text for source in maker.sources):
        maker.encoder.encoder  # noqa: B018 (opens it)
    return maker


def serve(channel, maker, said, limit=0):
    """`said`: what the encoder tells, for whoever feeds. `limit`: seconds after which a sample ends the process; 0: none."""
    while True:
        asked, _ = channels.receive_object(channel)
        try:
            job, what, refs = asked["job"], asked["what"], [Ref(*map(int, ref)) for ref in asked["refs"]]
        except (KeyError, TypeError, ValueError):
            raise channels.Lost("asks for nothing") from None
        if what not in ("make", "measure") or not all(0 <= ref.source < len(maker.sources) for ref in refs):
            raise channels.Lost("asks what there is not")
        channels.send_object(channel, {"begins": job})
        maker.encoder.opening = lambda: _opening(channel, job, limit)
        for i, ref in enumerate(refs):
            signal.alarm(limit)
            made = getattr(maker, what)(ref)
            signal.alarm(0)
            note = {"job": job, "i": i, "measures": {k: _plain(v) for k, v in made.measures.items()}, "checksum": made.checksum}
            note |= {"broken": made.broken} if made.broken else {}
            note |= {"said": said.pop(0)} if said else {}
            channels.send_object(channel, note, made.arrays if what == "make" else None)


@contextlib.contextmanager
def _opening(channel, job, limit):
    """To open a tokenizer is no sample's time."""
    signal.alarm(0)
    channels.send_object(channel, {"opens": job})
    yield
    signal.alarm(limit)


def _plain(value):
    return value.tolist() if hasattr(value, "tolist") else [_plain(v) for v in value] if isinstance(value, (list, tuple)) else value


def main():
    alone()
    channel, said = channels.Channel(socket.socket(fileno=int(sys.argv[1]))), []
    try:
        spec, _ = channels.receive_object(channel)
        try:
            maker = open_maker(spec, said)
        except Failure as failure:
            channels.send_object(channel, {"error": str(failure)})
            return
        channels.send_object(channel, {"ready": os.getpid()})
        serve(channel, maker, said)
    except channels.Lost:
        pass  # who asks is gone
    except MemoryError as e:
        sys.exit(f"producer {os.getpid()}: memory is short: {one_line(e)}")


if __name__ == "__main__":
    main()
