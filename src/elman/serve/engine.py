"""The engine: one thread that generates all requested texts together, in turns of a few milliseconds.

In each turn new jobs join, finished and cancelled ones leave, a few hundred tokens of prompts are read, and every text
gets some more tokens. All texts of a model share its matrix products, whatever their settings. A text depends only on
its own prompt, settings and random numbers, not on what else is generated: it equals that of LanguageModel.sample_many
with the same seed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from elman.errors import ElmanError
from elman.serve.batch import Batch
from elman.serve.sequence_job import Delta, SequenceJob
from elman.serve.stepper import Stepper

READ_TOKENS = 512  # largest number of tokens of prompts in one turn: a long prompt must not keep others waiting
READ_ROWS = 32  # largest number of prompts that are read together

Deltas = list[tuple[SequenceJob, Delta]]
log = logging.getLogger("elman.serve")


class BusyError(ElmanError):
    """More texts at a time than allowed, or the service is shutting down."""


def dispatch(deltas: Deltas) -> None:
    for job, delta in deltas:
        job.on_delta(delta)


class Engine:
    """Generates at most `limit` texts at a time; its thread calls `deliver` with the deltas of each turn."""

    def __init__(self, limit: int = 64, deliver: Callable[[Deltas], None] = dispatch) -> None:
        self.limit, self.deliver = limit, deliver
        self.active = self.tokens_read = self.tokens_generated = self.steps = self.turns = 0
        self._arrived: list[SequenceJob] = []
        self._reading: list[SequenceJob] = []
        self._batches: dict[Stepper, Batch] = {}
        self._wake = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="elman-engine", daemon=True)
        self._thread.start()

    def submit(self, jobs: Sequence[SequenceJob]) -> None:
        """Accept all of the jobs, or raise BusyError and accept none."""
        with self._wake:
            if self._closed or not self.alive:
                raise BusyError("the service is shutting down")
            if self.active + len(jobs) > self.limit:
                raise BusyError(f"{self.limit} texts are being generated already")
            self.active += len(jobs)
            self._arrived += jobs
            self._wake.notify()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @staticmethod
    def cancel(jobs: Iterable[SequenceJob]) -> None:
        """Remove the jobs at the next turn, without a last delta."""
        for job in jobs:
            job.cancelled = True

    def close(self) -> None:
        with self._wake:
            self._closed = True
            self._wake.notify()
        self._thread.join()

    # -- in the engine's thread ---------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._wake:
                while not (self._arrived or self._reading or self._batches or self._closed):
                    self._wake.wait()
                if self._closed:
                    return
                self._reading += self._arrived
                self._arrived = []
            jobs = [*self._reading, *(job for batch in self._batches.values() for job in batch.jobs)]
            try:
                self._turn()
            except Exception:
                self._restart(jobs)
            del jobs  # otherwise an idle engine would keep their models in memory

    def _restart(self, jobs: list[SequenceJob]) -> None:
        """After an error that belongs to no single batch: all jobs fail, the engine continues."""
        deltas: Deltas = []
        self._fail(jobs, deltas)
        self._reading, self._batches = [], {}
        with self._wake:
            self.active = len(self._arrived)
        try:
            self.deliver(deltas)
        except Exception:
            log.exception("failures could not be delivered")

    def _turn(self) -> None:
        deltas: Deltas = []
        self._reading = [job for job in self._reading if self._continues(job, deltas)]
        self._read_prompts(deltas)
        for stepper, batch in list(self._batches.items()):
            batch.keep([self._continues(job, deltas) for job in batch.jobs])
            if batch.jobs:
                self._generate(batch, deltas)
            if not batch.jobs:
                del self._batches[stepper]
        self.turns += 1
        finished = sum(delta.finish is not None for _, delta in deltas)
        with self._wake:
            self.active -= finished
        if deltas:
            self.deliver(deltas)

    def _continues(self, job: SequenceJob, deltas: Deltas) -> bool:
        if job.cancelled:
            with self._wake:
                self.active -= 1
            return False
        if expired := job.expired:
            deltas.append((job, Delta(finish="timeout")))
        return not expired

    def _read_prompts(self, deltas: Deltas) -> None:
        """Read the next piece of the prompts of one model; jobs whose prompt is complete join its batch."""
        if not self._reading:
            return
        stepper = self._reading[0].stepper
        jobs = [job for job in self._reading if job.stepper is stepper][:READ_ROWS]
        taken = set(map(id, jobs))
        self._reading = [job for job in self._reading if id(job) not in taken]
        texts = [job.prompt[job.tokens_read : job.tokens_read + READ_TOKENS // len(jobs)] for job in jobs]
        try:
            s = stepper.read(texts, np.concatenate([job.state for job in jobs], axis=2))  # (L, P, T+1, B, H)
            new = [job.advance_prompt(s[:, :, :, i], len(texts[i])) for i, job in enumerate(jobs)]
        except Exception:
            self._fail(jobs, deltas)
            return
        self.tokens_read += sum(map(len, texts))
        ready = []
        for job, delta in zip(jobs, new, strict=True):
            finished = self._add(job, delta, deltas)
            if job.tokens_read < len(job.prompt):
                self._reading.append(job)  # behind the others, so that all make progress
            elif not finished:
                ready.append(job)
        if ready:
            self._batches.setdefault(stepper, Batch(stepper)).add(ready)

    def _generate(self, batch: Batch, deltas: Deltas) -> None:
        try:
            new = batch.generate()
        except Exception:
            self._fail(batch.jobs, deltas)
            batch.jobs = []
            return
        self.steps += 1
        batch.keep([not self._add(job, delta, deltas) for job, delta in zip(batch.jobs, new, strict=True)])

    def _add(self, job: SequenceJob, delta: Delta, deltas: Deltas) -> bool:
        """Add a delta to those that are delivered; returns whether the job is finished."""
        self.tokens_generated += delta.tokens
        if delta.text or delta.infos or delta.tokens or delta.finish:
            deltas.append((job, delta))
        return delta.finish is not None

    def _fail(self, jobs: list[SequenceJob], deltas: Deltas) -> None:
        """After an internal error: these jobs end, the engine continues."""
        log.exception("the engine failed")
        deltas += [(job, Delta(finish="error")) for job in jobs]
