# ===- finetune_producers.py - who makes the samples of tools/finetune ---------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Batches are equal to the bit whoever makes their samples: this process, processes
# beside it, others behind a port, and all of these while they are killed and
# stopped at random. Samples that cannot be made are named in one line. With
# --dt-opt PATH programs train on such batches, too.
# ===-----------------------------------------------------------------------===
"""finetune_producers.py [--dt-opt PATH]: tests of tools/finetuning."""

import argparse
import contextlib
import io
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from fractions import Fraction
from types import SimpleNamespace

from finetune_cases import ROOT  # first: it skips all without PyTorch

import finetune_folders as folders
import safetensors.numpy
import transformers as hf

from finetuning import channel, dataset, maker, processes, producers
from finetuning.errors import Failure
from finetuning.steps import Steps

SOURCES = pathlib.Path(__file__).with_name("finetune_sources.py")
DT_OPT = None
SIZE, STEPS = 4, 30


def bad(**options):
    return f"{SOURCES}:Lengths?{json.dumps(options)}"


class WithFolder(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        hf.logging.disable_progress_bar()
        cls.work = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.model = folders.make_folder("llama", cls.work / "model")
        cls.chats = folders.write_chats(cls.work / "train.jsonl", folders.draw_chats("llama", 50, 1))

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(dir=self.work)))

    def reading(self, *texts, skip=False, folder=None):
        made = dataset.Reading([str(t) for t in texts], maker.make_encoder(self.model, lambda _: None), folder, skip)
        self.addCleanup(made.close)
        return made

    def pool(self, reading, count=0, serve_at=(), timeout=60, token=None):
        made = processes.make_pool(SimpleNamespace(model=self.model, producers=count, serve_at=serve_at, producer_timeout=timeout, token_file=token), reading)
        self.addCleanup(made.close)
        return made

    def batches(self, reading, pool, steps=STEPS, weights=(None,), each=lambda: None):
        """[bytes of each step's file]."""
        made = Steps(reading.dataset(0, list(weights), 256, pool), SIZE, "shuffle", 3)
        out = []
        for step, tensors in made.batches(range(steps), pool):
            out.append(safetensors.numpy.save(tensors, {"step": str(step)}))
            each()
        return out

    def alone(self, *texts, **more):
        reading = self.reading(*texts)
        return self.batches(reading, self.pool(reading), **more)

    def serve(self, token, *texts, workers=2, model=None):
        """The address of a dt-serve."""
        data = [word for text in texts for word in ("--data", text)]
        command = [ROOT / "tools/dt-serve", "--listen", "127.0.0.1:0", "--token-file", token, "--model", model or self.model, *data, "--workers", workers, "--producer-timeout", 5]
        server = subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (server.terminate(), server.communicate()))
        said = server.stdout.readline()
        self.assertRegex(said, r"^dt-serve: [0-9]+ workers at ")
        self.server = server
        return said.split()[-1]


def workers(pool):
    return [p.process.pid for p in pool.producers if isinstance(p, processes.Local) and p.process and p.process.poll() is None]


class Harm(threading.Thread):
    """Kills or stops a random worker now and then."""

    def __init__(self, pool, seed, pause):
        super().__init__(daemon=True)
        self.pool, self.draw, self.pause, self.ended, self.count = pool, random.Random(seed), pause, False, 0

    def run(self):
        while not self.ended:
            time.sleep(self.draw.uniform(*self.pause))
            if victims := workers(self.pool):
                self.count += 1
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.draw.choice(victims), self.draw.choice([signal.SIGKILL, signal.SIGSTOP]))


class Batches(WithFolder):
    def test_whoever_makes_them(self):
        """One, several, some of another machine, and both."""
        tokens, token = bad(count=50), self.folder / "token"
        want, address = [self.alone(text) for text in (tokens, self.chats)], self.serve(token, self.chats, tokens)
        for count, served in [(1, []), (3, []), (0, [address + "*2"]), (1, [address])]:
            reading = self.reading(tokens)
            self.assertEqual(self.batches(reading, self.pool(reading, count, served, token=token)), want[0])
        reading = self.reading(self.chats)
        self.assertEqual(self.batches(reading, self.pool(reading, 1, [address], token=token)), want[1])

    def test_kills_and_stops(self):
        """No sample is lost, none comes twice."""
        text = bad(count=60, seconds=0.02, known=True)
        want, reading = self.alone(text, steps=120), self.reading(text)
        with contextlib.redirect_stdout(io.StringIO()) as said:
            pool = self.pool(reading, 3, timeout=1)
            harm = Harm(pool, 5, (0.5, 1.5))
            harm.start()
            have = self.batches(reading, pool, 120, each=lambda: time.sleep(0.08))
            harm.ended = True
        self.assertEqual(have, want)
        self.assertGreater(harm.count, 4)
        self.assertRegex(said.getvalue(), r"producer [123]: (ended by signal 9|nothing for 1 seconds)")

    def test_served_and_gone(self):
        """A server that dies in between; the rest is made here."""
        text, token = bad(count=60, seconds=0.02, known=True), self.folder / "token"
        want, address, reading = self.alone(text), self.serve(token, text), self.reading(text)
        pool, count = self.pool(reading, 1, [address, address], token=token), [0]

        def each():
            count[0] += 1
            if count[0] == 5:
                self.server.kill()

        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(self.batches(reading, pool, each=each), want)

    def test_bytes_in_flight(self):
        """What waits is bounded by bytes, and by samples."""
        reading = self.reading(bad(count=60, known=True))
        pool = self.pool(reading, 1)
        asked = []
        refs = lambda step: asked.append(step) or [maker.Ref(0, i, i) for i in range(8)]
        stream = pool.stream(range(1000), refs)
        [next(stream) for _ in range(20)]
        time.sleep(0.3)
        self.assertLessEqual(len(asked), 20 + 2 * producers.CHUNK // 8 + 1)
        pool.largest = producers.BYTES
        before = len(asked)
        for _ in range(before - 20 + 3):
            next(stream)
        self.assertLessEqual(len(asked), before + 3)


class Wrong(WithFolder):
    def failure(self, text, count, steps=STEPS, **more):
        reading = self.reading(text)
        with self.assertRaises(Failure) as caught, contextlib.redirect_stdout(io.StringIO()):
            self.batches(reading, self.pool(reading, count, **more), steps)
        return str(caught.exception)

    def test_samples(self):
        """By the index, and of sources that know their measures by the run; in this process and in others."""
        for how, said in [("raises", "ValueError: no such picture at all"), ("other", "the source gives list, no record"), ("floats", "input_ids is of type float64")]:
            for known in (False, True):
                with self.subTest(how=how, known=known):
                    self.assertIn(f"Lengths[17]: {said}".removeprefix("Lengths"), self.failure(bad(at=17, how=how, known=known), 0).replace(bad(at=17, how=how, known=known), ""))
        said = self.failure(bad(at=17, how="raises"), 2)
        self.assertTrue(said.endswith("[17]: ValueError: no such picture at all"), said)
        self.assertIn("[17]: has 3 tokens and was measured as 9", self.failure(bad(at=17, how="late", known=True), 0))
        self.assertIn("[17]: is not what it was when it was indexed", self.failure(bad(at=17, how="drawn"), 0))

    def test_hangs_and_deaths(self):
        """Of three producers, each of which made what it could."""
        self.assertRegex(self.failure(bad(at=17, how="hangs"), 2, timeout=1), r"\[17\]: 3 producers were lost at it: nothing for 1 seconds$")
        self.assertRegex(self.failure(bad(at=17, how="dies", known=True), 2), r"\[17\]: 3 producers were lost at it: ended by signal 11 \(SIGSEGV\)$")

    def test_sources(self):
        for text, said in [
            (f"{SOURCES}:Nobody", "AttributeError: .* has no attribute 'Nobody'"),
            (f"{SOURCES}:Nothing", "RuntimeError: no data today"),
            (f"{SOURCES}:Lengths?[1]", "the options behind '\\?' are no JSON object"),
            (f"{SOURCES}:Lengths?{{\"counts\": 3}}", "TypeError: "),
            (f"{SOURCES}:SIZE", "AttributeError"),
            (f"{SOURCES}:signal", "has no __len__"),
            ("nobody.py:Chat", "there is no such file"),
            (bad(count=0), "there is no sample"),
        ]:  # fmt: skip
            with self.subTest(said), self.assertRaisesRegex(Failure, said):
                reading = self.reading(text)
                reading.dataset(0, [None], 256, self.pool(reading))

    def test_skipped(self):
        """By the index: as if it were not there. By the run: left out of its steps, and of the same ones when the run goes on."""
        for known in (False, True):
            with self.subTest(known=known), contextlib.redirect_stdout(io.StringIO()) as said:
                text, folder = bad(at=17, how="raises", known=known), self.folder / f"index-{known}"
                folder.mkdir()
                reading = self.reading(text, skip=True, folder=folder)
                want = self.batches(reading, self.pool(reading))
                reading.keep()
                again = self.reading(text, skip=True, folder=folder)
                pool = self.pool(again, 2)
                self.assertEqual(self.batches(again, pool), want)
                steps = Steps(again.dataset(0, [None], 256, pool), SIZE, "shuffle", 3)
                count = sum(steps.figures(s).get("left_out", 0) for s in range(10))
                self.assertEqual((len(steps.source), count), (40, 1) if known else (39, 0))
                if not known:
                    self.assertIn("1 of 40 samples of", said.getvalue())
                    self.assertIn("are broken and left out (first", said.getvalue())
                    with self.assertRaisesRegex(Failure, r"\[17\]: ValueError"):
                        self.reading(text, folder=folder).dataset(0, [None], 256, pool)


class Network(WithFolder):
    def test_token(self):
        token, other = self.folder / "token", self.folder / "other"
        text = bad(count=9)
        address, reading = self.serve(token, text, workers=1), self.reading(text)
        self.assertEqual(token.stat().st_mode & 0o777, 0o600)
        with self.assertRaisesRegex(Failure, f"{address}: has another token"):
            self.batches(reading, self.pool(reading, 0, [address], token=other))
        # One who does not ask for the server's proof has none of its own.
        host, port = processes.parse_address(address)
        with socket.create_connection((host, port)) as connection:
            plain = channel.Channel(connection)
            plain.send(b"x" * channel.NONCE)
            plain.receive(10)
            plain.send(b"y" * 32)
            with self.assertRaises(channel.Lost):
                plain.receive(10)
        with socket.create_connection((host, port)) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: here\r\nAccept: */*\r\n\r\n")
            with contextlib.suppress(ConnectionResetError):
                self.assertEqual(connection.recv(100), b"")
        token.chmod(0o644)
        with self.assertRaisesRegex(Failure, "others may read it"):
            channel.read_token(token)

    def test_other_data(self):
        token, text = self.folder / "token", bad(count=9)
        address = self.serve(token, bad(count=8), workers=1)
        reading = self.reading(text)
        with self.assertRaisesRegex(Failure, f"{address}: serves other data: the run's data file 1 is none of"):
            self.batches(reading, self.pool(reading, 0, [address], token=token))
        model = shutil.copytree(self.model, self.folder / "model")
        (model / "chat_template.jinja").write_text(folders.GEMMA)
        address = self.serve(token, text, workers=1, model=model)
        with self.assertRaisesRegex(Failure, f"{address}: serves with another tokenizer or template"):
            self.batches(reading, self.pool(reading, 0, [address], token=token))

    def test_messages(self):
        """What is cut, changed, said twice or too long is no message."""
        for key in (None, (b"a" * 32, b"b" * 32)):
            sent = socket.socketpair()
            writer, whole = channel.Channel(sent[0], key), []
            for text in (b"first", b"second"):
                writer.send(text)
                whole.append(sent[1].recv(1000))

            def receive(data, most=100):
                ours, theirs = socket.socketpair()
                with ours, theirs:
                    ours.sendall(data)
                    ours.shutdown(socket.SHUT_WR)
                    reader = channel.Channel(theirs, key and key[::-1])
                    return [bytes(reader.receive(1, most)), bytes(reader.receive(1, most))]

            self.assertEqual(receive(b"".join(whole)), [b"first", b"second"])
            changed = bytearray(b"".join(whole))
            changed[-1] ^= 1
            for data, said in [(changed, "wrong checksum"), (whole[0] + whole[1][:-1], "has ended"), (b"x" * 100, "no message"), (struct.pack("<4s4xQ16s", b"DTp1", 1 << 40, b""), "at most 100")]:
                with self.assertRaisesRegex(channel.Lost, said):
                    receive(bytes(data))
            if key:
                with self.assertRaisesRegex(channel.Lost, "wrong checksum"):
                    receive(whole[0] + whole[0])
            for end in sent:
                end.close()


class Programs(WithFolder):
    def finetune(self, data, *flags, code=0):
        command = [ROOT / "tools/finetune", "--model", self.model, "--data", data, "--out", self.folder / "out", "--bin", DT_OPT.parent, "--threads", 1, "--global-batch", SIZE, *flags]
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def losses(self):
        return [(line["step"], line["loss"], line["tokens"]) for line in map(json.loads, (self.folder / "out/metrics.jsonl").read_text().splitlines())]

    @unittest.skipIf("--dt-opt" not in sys.argv, "no --dt-opt")
    def test_losses(self):
        """Of a run without producers, and of one that has some, is stopped, and goes on with others elsewhere."""
        out = self.folder / "out"
        address = self.serve(out / "token", self.chats)
        self.finetune(self.chats, "--steps", 8, "--schedule", "constant")
        want = self.losses()
        self.assertEqual([line[0] for line in want], list(range(1, 9)))
        shutil.rmtree(out / "checkpoint")
        self.finetune(self.chats, "--steps", 5, "--schedule", "constant", "--producers", 3)
        self.assertEqual(self.losses(), want[:5])
        self.finetune(self.chats, "--steps", 8, "--schedule", "constant", "--serve-at", address, "--resume")
        self.assertEqual(self.losses(), want)

    @unittest.skipIf("--dt-opt" not in sys.argv, "no --dt-opt")
    def test_sources(self):
        """Losses of two sources are the step's, by what is learned of each; of the one that is validated there is one more."""
        others = folders.write_chats(self.folder / "others.jsonl", folders.draw_chats("llama", 6, 2))
        texts = [self.chats, others]
        self.finetune(f"{self.chats}=0.75", "--data", f"{others}=0.25", "--validate", others, "--steps", 4, "--order", "file")
        reading = self.reading(*texts)
        steps = Steps(reading.dataset(0, [Fraction(3), Fraction(1)], 256, self.pool(reading)), SIZE)
        lines = [json.loads(line) for line in (self.folder / "out/metrics.jsonl").read_text().splitlines()]
        for step, line in enumerate(lines):
            learned = [sum(steps.source.measures(i)["learned"] for i in steps.samples(step) if steps.source.number(i) == k) for k in range(2)]
            want = (learned[0] * line["loss.train"] + learned[1] * line["loss.others"]) / sum(learned)
            self.assertAlmostEqual(line["loss"], want, delta=1e-6 * want)
            self.assertGreater(line["flops_per_second"], 0)
        self.assertEqual(lines[-1]["validation_loss"], lines[-1]["validation_loss.others"])
        self.assertNotIn("validation_loss.train", lines[-1])

    @unittest.skipIf("--dt-opt" not in sys.argv, "no --dt-opt")
    def test_ends(self):
        """Of a sample that breaks in the middle of a run: one line, and what was trained is saved."""
        text = bad(count=40, at=25, how="raises", known=True)
        done = self.finetune(text, "--steps", 10, "--order", "file", "--producers", 2, code=1)
        self.assertRegex(done.stderr, r"\A(?:.*stopped.*\n)*finetune: error: .*\[25\]: ValueError: no such picture at all\n\Z")
        shutil.rmtree(self.folder / "out/checkpoint")
        done = self.finetune(text, "--steps", 10, "--order", "file", "--skip-broken")
        self.assertIn("1 samples could not be made and were left out (first ", done.stdout)
        self.assertEqual(len(self.losses()), 10)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--dt-opt", type=pathlib.Path)
    known, rest = parser.parse_known_args()
    DT_OPT = known.dt_opt and known.dt_opt.resolve()
    unittest.main(argv=[sys.argv[0], *rest])
