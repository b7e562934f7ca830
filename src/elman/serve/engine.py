"""The engine: a thread that writes all texts that are asked for, many at a time, in turns of a few milliseconds.

In a turn new texts join, those that are done or no longer wanted leave, a few hundred tokens of prompts are read, and
every text gets some more tokens. All texts of a model share its products, whatever their settings. A text depends on
its own prompt, settings and random numbers only: it is the same whatever else is being written, and the same as
LanguageModel.sample gives.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from elman.errors import ElmanError
from elman.serve.batch import Batch
from elman.serve.stepper import Stepper
from elman.serve.writing import Delta, Writing

READ_TOKENS = 512  # of prompts, in one turn: a long one must not keep others waiting
READ_ROWS = 32

Deltas = list[tuple[Writing, Delta]]
log = logging.getLogger("elman.serve")


class BusyError(ElmanError):
    """More texts at a time than allowed."""


def hand_out(deltas: Deltas) -> None:
    for writing, delta in deltas:
        writing.receive(delta)


class Engine:
    """`deliver` gets what is new after each turn, in the engine's thread."""

    def __init__(self, limit: int = 64, deliver: Callable[[Deltas], None] = hand_out) -> None:
        self.limit, self.deliver = limit, deliver
        self.active = self.tokens_read = self.tokens_written = self.steps = self.turns = 0
        self._arrived: list[Writing] = []
        self._reading: list[Writing] = []
        self._batches: dict[Stepper, Batch] = {}
        self._wake = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="elman-engine", daemon=True)
        self._thread.start()

    def submit(self, writings: Sequence[Writing]) -> None:
        """All of them or, as BusyError, none."""
        with self._wake:
            if self.active + len(writings) > self.limit or self._closed or not self.alive:
                raise BusyError("too many texts at a time", expected=f"at most {self.limit}", got=self.active)
            self.active += len(writings)
            self._arrived += writings
            self._wake.notify()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @staticmethod
    def cancel(writings: Iterable[Writing]) -> None:
        """Nobody wants them any more: they leave with the next turn, without a word."""
        for writing in writings:
            writing.cancelled = True

    def close(self) -> None:
        with self._wake:
            self._closed = True
            self._wake.notify()
        self._thread.join()

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._wake:
                while not (self._arrived or self._reading or self._batches or self._closed):
                    self._wake.wait()
                if self._closed:
                    return
                self._reading += self._arrived
                self._arrived = []
            rows = [*self._reading, *(row for batch in self._batches.values() for row in batch.rows)]
            try:
                self._turn()
            except Exception:
                self._start_again(rows)
            del rows  # an idle engine keeps no model alive

    def _start_again(self, rows: list[Writing]) -> None:
        """A defect of ours that is no single text's: all end, the engine goes on."""
        deltas: Deltas = []
        self._fail(rows, deltas)
        self._reading, self._batches = [], {}
        with self._wake:
            self.active = len(self._arrived)
        try:
            self.deliver(deltas)
        except Exception:
            log.exception("nobody could be told")

    def _turn(self) -> None:
        deltas: Deltas = []
        self._reading = [writing for writing in self._reading if self._goes_on(writing, deltas)]
        self._read(deltas)
        for stepper, batch in list(self._batches.items()):
            batch.keep([self._goes_on(row, deltas) for row in batch.rows])
            if batch.rows:
                self._write(batch, deltas)
            if not batch.rows:
                del self._batches[stepper]
        self.turns += 1
        left = sum(delta.finish is not None for _, delta in deltas)
        with self._wake:
            self.active -= left
        if deltas:
            self.deliver(deltas)

    def _goes_on(self, writing: Writing, deltas: Deltas) -> bool:
        if writing.cancelled:
            with self._wake:
                self.active -= 1
            return False
        if late := writing.late:
            deltas.append((writing, Delta(finish="timeout")))
        return not late

    def _read(self, deltas: Deltas) -> None:
        """The next piece of the prompts of one model; texts whose prompt is read through join the writing."""
        if not self._reading:
            return
        stepper = self._reading[0].stepper
        rows = [writing for writing in self._reading if writing.stepper is stepper][:READ_ROWS]
        taken = set(map(id, rows))
        self._reading = [writing for writing in self._reading if id(writing) not in taken]
        texts = [row.prompt[row.read : row.read + READ_TOKENS // len(rows)] for row in rows]
        try:
            s = stepper.read(texts, np.concatenate([row.state for row in rows], axis=2))  # (L, P, T+1, B, H)
            said = [row.take(s[:, :, :, i], len(texts[i])) for i, row in enumerate(rows)]
        except Exception:
            self._fail(rows, deltas)
            return
        self.tokens_read += sum(map(len, texts))
        ready = []
        for row, delta in zip(rows, said, strict=True):
            ended = self._add(row, delta, deltas)
            if row.read < len(row.prompt):
                self._reading.append(row)  # behind the others, so that all get on
            elif not ended:
                ready.append(row)
        if ready:
            self._batches.setdefault(stepper, Batch(stepper)).join(ready)

    def _write(self, batch: Batch, deltas: Deltas) -> None:
        try:
            added = batch.write()
        except Exception:
            self._fail(batch.rows, deltas)
            batch.rows = []
            return
        self.steps += 1
        batch.keep([not self._add(row, delta, deltas) for row, delta in zip(batch.rows, added, strict=True)])

    def _add(self, row: Writing, delta: Delta, deltas: Deltas) -> bool:
        """Whether this was its end."""
        self.tokens_written += delta.tokens
        if delta.text or delta.notes or delta.tokens or delta.finish:
            deltas.append((row, delta))
        return delta.finish is not None

    def _fail(self, rows: list[Writing], deltas: Deltas) -> None:
        """A defect of ours: these texts end, the engine goes on."""
        log.exception("the engine failed")
        deltas += [(row, Delta(finish="error")) for row in rows]
