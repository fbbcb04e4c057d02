# ===- channel.py - messages between processes ---------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# What comes over a channel is JSON and safetensors, never anything that runs when
# it is read. Each message has its length and a check: a CRC between processes of
# one machine; over a network a keyed hash with the message's number, whose key
# both sides have from the run's token, so nobody else can say a word.
# ===-----------------------------------------------------------------------===
"""Channel: send, receive; prove, accept: the handshake over a network; pack, unpack: samples."""

import hashlib
import hmac
import json
import os
import secrets
import stat
import struct
import time
import zlib

import numpy as np
import safetensors
import safetensors.numpy

from .errors import Failure

HEAD, MAGIC = struct.Struct("<4s4xQ16s"), b"DTp1"
SMALL, LARGEST = 1 << 16, 1 << 30  # bytes of a message before the other side is known, and of a sample
NONCE = 32
LATE = 10  # seconds for a handshake


class Lost(Exception):
    """The other side is gone, is late, or says what is no message."""


class Channel:
    def __init__(self, socket, key=None):
        self.socket, self.key, self.numbers = socket, key, [0, 0]

    def send(self, *parts):
        """One message, in parts that are not copied."""
        head = MAGIC, sum(map(len, parts))
        try:
            self.socket.settimeout(None)
            self.socket.sendall(HEAD.pack(*head, self._check(0, parts)))
            for part in parts:
                self.socket.sendall(part)
        except OSError as e:
            raise Lost(f"{e.strerror or e}") from None

    def receive(self, timeout=None, most=LARGEST):
        until = time.monotonic() + timeout if timeout is not None else None
        magic, length, check = HEAD.unpack(self._read(HEAD.size, until, timeout))
        if magic != MAGIC:
            raise Lost("what comes is no message of a producer")
        if length > most:
            raise Lost(f"a message of {length} bytes; at most {most}")
        payload = self._read(length, until, timeout)
        if not hmac.compare_digest(check, self._check(1, [payload])):
            raise Lost("a message with a wrong checksum")
        return payload

    def _check(self, way, parts):
        """`way`: 0 sent, 1 received: each has a key of its own, and messages are counted, so none can be said again."""
        if self.key is None:
            crc = 0
            for part in parts:
                crc = zlib.crc32(part, crc)
            return crc.to_bytes(16, "little")
        key, number = self.key[way], self.numbers[way]
        self.numbers[way] += 1
        hashed = hmac.new(key, number.to_bytes(8, "little"), hashlib.sha256)
        for part in parts:
            hashed.update(part)
        return hashed.digest()[:16]

    def _read(self, length, until, timeout):
        data = bytearray(length)
        view, at = memoryview(data), 0
        while at < length:
            left = until - time.monotonic() if until is not None else None
            if left is not None and left <= 0:
                raise Lost(f"nothing for {timeout:g} seconds")
            try:
                self.socket.settimeout(left)
                got = self.socket.recv_into(view[at:])
            except TimeoutError:
                raise Lost(f"nothing for {timeout:g} seconds") from None
            except OSError as e:
                raise Lost(f"{e.strerror or e}") from None
            if not got:
                raise Lost("the connection has ended")
            at += got
        return data

    def close(self):
        self.socket.close()


# --- who may speak over a network ----------------------------------------------------


def read_token(path):
    """The secret of a run, which is made if it is not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(32) + "\n")
    except FileExistsError:
        pass
    with open(path) as file:
        if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
            raise Failure(f"{path}: others may read it (chmod 600 {path})")
        token = file.read().strip()
    if len(token) < 32:
        raise Failure(f"{path}: a token has 32 characters at least")
    return token.encode()


def _sign(token, what, nonces):
    return hmac.digest(token, what + nonces, "sha256")


def prove(socket, token):
    """The side that connects: returns the channel, or raises PermissionError if the other has another token."""
    plain, mine = Channel(socket), secrets.token_bytes(NONCE)
    plain.send(mine)
    answer = bytes(plain.receive(LATE, SMALL))
    nonces = mine + answer[:NONCE]
    if not hmac.compare_digest(answer[NONCE:], _sign(token, b"serves", nonces)):
        raise PermissionError
    plain.send(_sign(token, b"asks", nonces))
    return Channel(socket, (_sign(token, b"to server", nonces), _sign(token, b"from server", nonces)))


def accept(socket, token):
    plain = Channel(socket)
    theirs, mine = bytes(plain.receive(LATE, SMALL)), secrets.token_bytes(NONCE)
    if len(theirs) != NONCE:
        raise Lost("no handshake")
    nonces = theirs + mine
    plain.send(mine + _sign(token, b"serves", nonces))
    if not hmac.compare_digest(bytes(plain.receive(LATE, SMALL)), _sign(token, b"asks", nonces)):
        raise PermissionError
    return Channel(socket, (_sign(token, b"from server", nonces), _sign(token, b"to server", nonces)))


# --- what is said ---------------------------------------------------------------------


def send_object(channel, value, arrays=None):
    note = json.dumps(value).encode()
    tensors = [safetensors.numpy.save({k: np.ascontiguousarray(v) for k, v in arrays.items()})] if arrays is not None else []
    channel.send(struct.pack("<Q", len(note)), note, *tensors)


def receive_object(channel, timeout=None):
    """(object, arrays or None), checked as far as their forms go."""
    message = memoryview(channel.receive(timeout))
    try:
        (length,) = struct.unpack("<Q", message[:8])
        if length > len(message) - 8:
            raise ValueError
        note, rest = json.loads(bytes(message[8 : 8 + length])), message[8 + length :]
        if not isinstance(note, dict):
            raise ValueError
        return note, safetensors.numpy.load(bytes(rest)) if len(rest) else None
    except (ValueError, KeyError, struct.error, safetensors.SafetensorError, RecursionError):
        raise Lost("a message that is neither JSON nor safetensors") from None
