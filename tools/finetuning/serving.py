# ===- serving.py - producers for runs of other machines -----------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# What is served stands on the command line: who connects may ask for samples of
# these sources and for nothing else. Processes share a port, each serves a
# connection at a time; one that ends is started again.
# ===-----------------------------------------------------------------------===
"""tools/dt-serve (docs/producers.md)."""

import json
import os
import pathlib
import signal
import socket
import sys
import time

from . import channel as channels
from .arguments import Parser, whole
from .errors import Failure, one_line
from .maker import make_encoder
from .processes import parse_address, start_worker
from .sources import open_source
from .worker import alone, open_maker, serve

AGAIN = 1  # seconds before a worker that ended is started again


def say(text):
    print(f"dt-serve: {text}", file=sys.stderr, flush=True)


def parse(argv):
    parser = Parser(prog="dt-serve", description="Makes samples for tools/finetune --serve-at (docs/producers.md).", allow_abbrev=False)
    add = parser.add_argument
    add("--listen", required=True, metavar="HOST:PORT", help="port 0: any, which a line says")
    add("--token-file", required=True, type=pathlib.Path, metavar="FILE", help="the run's token (made if it is not there)")
    add("--model", required=True, type=pathlib.Path, metavar="FOLDER", help="config and tokenizer")
    add("--data", required=True, action="append", metavar="FILE", help="a source, as tools/finetune has it; may be repeated")
    add("--workers", type=whole(1), default=len(os.sched_getaffinity(0)), metavar="N", help="connections at a time (the cores)")
    add("--producer-timeout", type=whole(1), default=60, metavar="S", help="seconds that a sample may take")
    return parser.parse_args(argv)


def main():
    try:
        if sys.argv[1:2] == ["--worker"]:
            return work(int(sys.argv[2]), int(sys.argv[3]))
        return supervise(parse(sys.argv[1:]))
    except (Failure, OSError) as failure:
        print(f"dt-serve: error: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def supervise(options):
    token = channels.read_token(options.token_file).decode()
    encoder, sources = make_encoder(options.model, lambda _: None), [open_source(text) for text in options.data]
    spec = {"model": str(options.model), "vocabulary": encoder.vocabulary, "sources": options.data, "token": token, "timeout": options.producer_timeout}
    spec |= {"digests": [source.digest() for source in sources], "encoder": encoder.digest()}
    host, port = listen_address(options.listen)
    listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=128)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    workers = [start(spec, listening) for _ in range(options.workers)]
    print(f"dt-serve: {options.workers} workers at {host}:{listening.getsockname()[1]}", flush=True)
    try:
        while True:
            time.sleep(AGAIN)
            for i, worker in enumerate(workers):
                if (code := worker.poll()) is not None:
                    say(f"a worker ended with {code} and is started again")
                    workers[i] = start(spec, listening)
    finally:
        for worker in workers:
            worker.kill()


def listen_address(text):
    return (text[:-2].strip("[]"), 0) if text.endswith(":0") and len(text) > 2 else parse_address(text)


def start(spec, listening):
    """What a worker is told comes by a pipe: a token on a command line is everybody's."""
    read, write = os.pipe()
    worker = start_worker("finetuning.serving", "--worker", listening.fileno(), read, fds=[listening.fileno(), read])
    os.close(read)
    with os.fdopen(write, "w") as pipe:
        json.dump(spec, pipe)
    return worker


def work(listening, told):
    alone()
    with os.fdopen(told) as pipe:
        spec = json.load(pipe)
    listening, said = socket.socket(fileno=listening), []
    maker = open_maker(spec, said)
    while True:
        connection, (address, *_) = listening.accept()
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            channel = channels.accept(connection, spec["token"].encode())
            wanted, _ = channels.receive_object(channel, channels.LATE)
            if error := difference(wanted, spec):
                channels.send_object(channel, {"error": error})
            else:
                channels.send_object(channel, {"ready": os.getpid()})
                serve(channel, Chosen(maker, [spec["digests"].index(d) for d in wanted["sources"]]), said, spec["timeout"])
        except PermissionError:
            say(f"{address} has another token: refused")
        except (channels.Lost, OSError) as e:
            say(f"{address}: {one_line(e)}")
        finally:
            connection.close()


def difference(wanted, spec):
    """Why the samples of a run are not those that are served, or None."""
    sources = wanted.get("sources")
    if not isinstance(sources, list) or not all(isinstance(d, str) for d in sources):
        return "asks for no sources"
    if wanted.get("encoder") != spec["encoder"]:
        return "serves with another tokenizer or template"
    if missing := [i for i, d in enumerate(sources) if d not in spec["digests"]]:
        return f"serves other data: the run's data file {missing[0] + 1} is none of {', '.join(spec['sources'])}"
    return None


class Chosen:
    """Sources by the numbers that a run gives them."""

    def __init__(self, maker, order):
        self.maker, self.order, self.encoder = maker, order, maker.encoder
        self.sources = [maker.sources[k] for k in order]

    def make(self, ref):
        return self.maker.make(ref._replace(source=self.order[ref.source]))

    def measure(self, ref):
        return self.maker.measure(ref._replace(source=self.order[ref.source]))


if __name__ == "__main__":
    sys.exit(main())
