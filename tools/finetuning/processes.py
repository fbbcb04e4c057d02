# ===- processes.py - producers: processes of this machine, and of others ------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Both are a channel to a worker (worker.py). One of this machine is started here
# and told what to open; one of another machine was started there with its data,
# and is asked whether they are this run's.
# ===-----------------------------------------------------------------------===
"""Local, Remote: what a Pool asks; make_pool(options, reading)."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys

from . import channel as channels
from .errors import Failure
from .producers import OPENING, Alone, Pool

TOOLS = pathlib.Path(__file__).resolve().parents[1]
STARTER = "DT_STARTER"  # in a worker's environment: the process that has started it


def environment():
    """Processes are how producers use cores."""
    path = [str(TOOLS), str(TOOLS.parent / "models"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(path), "OMP_NUM_THREADS": "1"}


def start_worker(module, *words, fds):
    """It ends with this process (worker.py). Where util-linux is there that holds before Python begins, too: a worker that is stopped until then would be left."""
    setpriv = shutil.which("setpriv")
    command = [*([setpriv, "--pdeathsig", "KILL"] if setpriv else []), sys.executable, "-m", module, *map(str, words)]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=fds, env=environment() | {STARTER: str(os.getpid())})


class Local:
    def __init__(self, number, spec):
        self.name, self.spec, self.process, self.channel = f"producer {number}", spec, None, None

    def open(self):
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = start_worker("finetuning.worker", theirs.fileno(), fds=[theirs.fileno()])
        self.channel = channels.Channel(ours)
        channels.send_object(self.channel, self.spec)
        note, _ = channels.receive_object(self.channel, OPENING)
        if "error" in note:
            raise Failure(str(note["error"]))
        return self.channel

    def is_there(self):
        return self.process.poll() is None

    def why(self, reason):
        """Of one that has ended, how."""
        try:
            code = self.process.wait(0 if "nothing for" in str(reason) else 1)
        except (subprocess.TimeoutExpired, AttributeError):
            return str(reason)
        return f"ended by signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"ended with {code}"

    def shut(self):
        if self.channel:
            self.channel.close()
        if self.process:
            self.process.kill()
            self.process.wait()


class Remote:
    def __init__(self, address, token, wanted):
        self.name = self.address = address
        self.token, self.wanted, self.channel = token, wanted, None

    def open(self):
        host, port = parse_address(self.address)
        connection = socket.create_connection((host, port), timeout=channels.LATE)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        try:
            self.channel = channels.prove(connection, self.token)
        except PermissionError:
            connection.close()
            raise Failure(f"{self.address}: has another token") from None
        except channels.Lost:
            connection.close()
            raise
        channels.send_object(self.channel, self.wanted)
        note, _ = channels.receive_object(self.channel, OPENING)
        if "error" in note:
            raise Failure(f"{self.address}: {note['error']}")
        return self.channel

    def is_there(self):
        return True

    def why(self, reason):
        return str(reason)

    def shut(self):
        if self.channel:
            self.channel.close()


def parse_address(text):
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise Failure(f"'{text}' is no HOST:PORT")
    return host.strip("[]"), int(port)


def repeated(text):
    """As many connections at once as are asked for."""
    address, star, times = text.partition("*")
    if star and not times.isdecimal():
        raise Failure(f"--serve-at {text}: '{times}' is no number of connections")
    parse_address(address)
    return [address] * (int(times) if star else 1)


def make_pool(options, reading):
    """Of `--producers N` and `--serve-at HOST:PORT*N,…`."""
    spec = {"model": str(options.model), "vocabulary": reading.maker.encoder.vocabulary, "sources": [source.text for source in reading.sources]}
    producers = [Local(i + 1, spec) for i in range(options.producers)]
    if options.serve_at:
        token = channels.read_token(options.token_file)
        wanted = {"sources": reading.digests, "encoder": reading.encoder_digest}
        producers += [Remote(address, token, wanted) for text in options.serve_at for address in repeated(text)]
    return Pool(producers, options.producer_timeout, reading.maker.place) if producers else Alone(reading.maker)
