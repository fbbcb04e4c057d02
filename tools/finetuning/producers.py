# ===- producers.py - who makes samples, and who waits for them ----------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Steps are asked for in their order and come in their order, whoever made what. A
# thread a producer asks it, one by one, for samples that nobody has made; what it
# does not give, because it is gone or late, is asked of another. So which samples
# come, and their bits, do not depend on who is there (docs/producers.md).
# ===-----------------------------------------------------------------------===
"""Pool, of producers; Alone: the same in this process. stream(steps, refs_of, what) yields (step, [Made])."""

import threading
import time
from collections import deque

from . import channel as channels
from .errors import Failure, say
from .maker import Made, checksum

BYTES = 256 << 20  # of steps that wait or are being made, if one step is not more
TRIES = 3  # of a sample, and of a producer to begin
CHUNK = 32  # samples that a producer is asked for at once
OPENING = 120  # seconds that a process may take to import and open all it needs
NONE, NEVER = 30, 600  # seconds without any producer that end a run: if each ended by itself so often, and in any case
PAUSE = 5  # seconds before a producer that could not begin is tried again


class Alone:
    """No producer: samples are made where they are asked for."""

    def __init__(self, maker):
        self.maker = maker

    def stream(self, steps, refs_of, what="make"):
        for step in steps:
            yield step, [getattr(self.maker, what)(ref) for ref in refs_of(step)]

    def close(self):
        pass


class Task:
    """A sample that is to be made."""

    def __init__(self, batch, i, ref):
        self.batch, self.i, self.ref, self.reasons = batch, i, ref, []


class Batch:
    """A step's samples."""

    def __init__(self, step, refs, what):
        self.step, self.what, self.made, self.missing, self.bytes = step, what, [None] * len(refs), len(refs), 0
        self.tasks = [Task(self, i, ref) for i, ref in enumerate(refs)]


class Pool:
    """`producers`: open() -> channel (raises Failure, Lost or OSError), shut(), and a name. `place(ref)`: what errors name."""

    def __init__(self, producers, timeout, place):
        self.producers, self.timeout, self.place = producers, timeout, place
        self.changed = threading.Condition()
        self.todo, self.failure, self.closed, self.told = deque(), None, False, False
        self.largest, self.misses, self.heard, self.replaced = None, {}, time.monotonic(), 0
        for producer in producers:
            threading.Thread(target=self._ask_on, args=(producer,), daemon=True).start()

    def stream(self, steps, refs_of, what="make"):
        steps, window, self.largest = iter(steps), deque(), None
        try:
            while True:
                while self._has_room(window) and (step := next(steps, None)) is not None:
                    window.append(Batch(step, refs_of(step), what))
                    self._want(window[-1].tasks)
                if not window:
                    return
                self._wait(window[0])
                batch = window.popleft()
                yield batch.step, batch.made
        finally:
            with self.changed:  # of steps that nobody waits for any more
                self.todo = deque(task for task in self.todo if task.batch not in window)

    def close(self):
        with self.changed:
            self.closed = True
            self.changed.notify_all()
        for producer in self.producers:
            producer.shut()

    # --- the one who waits ------------------------------------------------------------

    def _want(self, tasks):
        with self.changed:
            self.todo.extend(tasks)
            self.heard = time.monotonic()
            self.changed.notify_all()

    def _has_room(self, window):
        """As many steps as keep all producers at work, and no more bytes than may wait."""
        if len(window) < 1 or self.largest is None:
            return len(window) < 1
        asked = sum(len(batch.made) for batch in window)
        return (len(window) < 2 or asked < 2 * CHUNK * len(self.producers)) and (len(window) + 1) * self.largest <= BYTES

    def _wait(self, batch):
        with self.changed:
            self.changed.wait_for(lambda: self.failure or not batch.missing)
            if self.failure:
                raise self.failure
            self.largest = max(self.largest or 0, batch.bytes)

    # --- those who ask: a thread each -------------------------------------------------

    def _ask_on(self, producer):
        while not self.closed:
            try:
                channel = producer.open()
            except Failure as failure:
                return self._fail(failure)
            except (channels.Lost, OSError) as reason:
                self._missed(producer, reason)
                producer.shut()
                continue
            try:
                self._ask(producer, channel)
            finally:
                producer.shut()

    def _ask(self, producer, channel):
        """Until the producer is lost."""
        job = 0
        while tasks := self._take(producer):
            job, begun, tasks = job + 1, False, deque(tasks)
            try:
                channels.send_object(channel, {"job": job, "what": tasks[0].batch.what, "refs": [task.ref for task in tasks]})
                begun = channels.receive_object(channel, self.timeout)[0].get("begins") == job
                self.misses[producer], self.heard = 0, time.monotonic()
                while tasks:
                    note, arrays = channels.receive_object(channel, self.timeout)
                    if note.get("opens") == job:
                        note, arrays = channels.receive_object(channel, self.timeout + OPENING)
                    self._put(tasks[0], note, arrays, job)
                    tasks.popleft()
            except (channels.Lost, OSError) as reason:
                return self._lost(producer, tasks, begun, reason)

    def _take(self, producer):
        """Samples of one step, fewer the fewer are left, and one that has failed for itself; None if the producer is gone or not needed any more."""
        with self.changed:
            while not self.closed:
                if self.todo:
                    break
                self.changed.wait(1)
            if self.closed or not producer.is_there():
                return None
            most = min(CHUNK, -(-len(self.todo) // (2 * len(self.producers))))
            tasks = [self.todo.popleft()]
            while not tasks[0].reasons and len(tasks) < most and self.todo and self.todo[0].batch is tasks[0].batch and not self.todo[0].reasons:
                tasks.append(self.todo.popleft())
            return tasks

    def _put(self, task, note, arrays, job):
        made = read_made(note, arrays, task, job)
        with self.changed:
            if "said" in note and not self.told:
                self.told = True
                say(str(note["said"]))
            self._finish(task, made)

    def _finish(self, task, made):
        batch = task.batch
        batch.made[task.i] = made
        batch.bytes += made.bytes
        batch.missing -= 1
        if not batch.missing:
            self.changed.notify_all()

    def _lost(self, producer, tasks, begun, reason):
        """Only the sample that it was at may be to blame."""
        if self.closed:
            return
        why = producer.why(reason)
        self.replaced += 1
        say(f"{producer.name}: {why}; its samples are asked of {'others' if len(self.producers) > 1 else 'the next one'}")
        with self.changed:
            if begun:
                tasks[0].reasons.append(why)
            if len(tasks[0].reasons) >= TRIES:
                task = tasks.popleft()
                self._finish(task, Made(broken=f"{self.place(task.ref)}: {TRIES} producers were lost at it: {', '.join(sorted(set(task.reasons)))}"))
            self.todo.extendleft(reversed(tasks))
            self.changed.notify_all()
        if not begun:
            self._missed(producer, reason)

    def _missed(self, producer, reason):
        """It could not begin: an error if none can. One that was killed may have met what will not be there again."""
        why = producer.why(reason)
        self.misses[producer] = self.misses.get(producer, 0) + (not why.startswith("ended by signal"))
        since, least = time.monotonic() - self.heard, min(self.misses.get(p, 0) for p in self.producers)
        if self.todo and ((least >= TRIES and since > NONE) or since > NEVER):
            self._fail(Failure(f"no producer begins: {producer.name}: {why}"))
        until = time.monotonic() + (PAUSE if self.misses[producer] >= TRIES else 1)
        while not self.closed and time.monotonic() < until:
            time.sleep(0.1)

    def _fail(self, failure):
        with self.changed:
            self.failure = self.failure or failure
            self.changed.notify_all()


def read_made(note, arrays, task, job):
    """What a producer says of a sample; raises Lost if it is none."""
    measures, crc, broken = note.get("measures"), note.get("checksum"), note.get("broken")
    if note.get("job") != job or not isinstance(measures, dict) or not isinstance(crc, int) or not isinstance(broken, (str, type(None))) or not -1 <= crc < 1 << 32:
        raise channels.Lost("an answer to another question")
    if broken is not None:
        return Made(broken=" ".join(broken.split()))
    if task.batch.what == "make" and arrays is None:
        raise channels.Lost("a sample without arrays")
    return Made(measures, crc if arrays is None else checksum(arrays), arrays)
