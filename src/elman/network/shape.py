"""What every network over whole sequences shares: a batch, its slices, the dropout of a step.

As in a stack for text, a batch is cut into slices by its size alone, each slice runs through the whole network on its
own gradients, and these are summed in order: the result does not depend on the number of threads. Steps past a row's
length add nothing to any sum.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from elman.errors import RangeError
from elman.maths.arrays import Array, FloatType
from elman.network.encoder import Encoder, Masks
from elman.network.parameters import Parameters
from elman.network.pool import Turn, run
from elman.network.stack import batch_slices, check_ids

Dtype = np.dtype[Any]


class Batch(NamedTuple):
    """Rows side by side. x: (T, B) ids or (T, B, X), or a condition (B,) ids or (B, X). y: (B,), (B, Y) or (S, B)."""

    x: Array
    y: Array
    weights: Array  # (B,)
    x_lengths: Array | None = None  # (B,), where x are sequences
    y_lengths: Array | None = None  # (B,), where y are sequences
    y_weights: Array | None = None  # (S, B), of each target, beside its row's

    def rows(self, rows: slice) -> Batch:
        """Some of the rows, without steps that none of them has."""
        x, x_lengths = _cut(self.x, self.x_lengths, rows)
        y, y_lengths = _cut(self.y, self.y_lengths, rows)
        y_weights = None if self.y_weights is None else _cut(self.y_weights, self.y_lengths, rows)[0]
        return Batch(x, y, self.weights[rows], x_lengths, y_lengths, y_weights)


def _cut(values: Array, lengths: Array | None, rows: slice) -> tuple[Array, Array | None]:
    if lengths is None:
        return values[rows], None
    return values[: max(int(lengths[rows].max(initial=1)), 1), rows], lengths[rows]


class Dropout(NamedTuple):
    """Shares that are dropped in training."""

    inputs: float = 0.0  # of what enters the first layer
    layers: float = 0.0  # of what leaves a layer
    states: float = 0.0  # of the state that enters W_hh

    def masks(self, rng: np.random.Generator, encoder: Encoder, x: Array, dtype: Dtype, pooled: bool) -> Masks | None:
        """Drawn for a whole batch, before it is cut into slices."""
        if not any(self):
            return None
        (T, B), width = x.shape[:2], encoder.width

        def draw(share: float, *shape: int) -> Array:
            # kept with probability 1 - share, and made up for: E[mask] = 1
            kept: Array = (rng.random(shape, np.float32) >= share).astype(dtype)
            kept /= 1 - share
            return kept

        dense = encoder.embedding or (x.shape[2] if x.ndim == 3 else 0)
        return Masks(
            draw(self.inputs, T, B, dense) if self.inputs and dense else None,
            tuple(draw(self.layers, T, B, width) for _ in range(encoder.layers - 1)) if self.layers else None,
            tuple(draw(self.states, B, encoder.hidden) for _ in encoder.cells) if self.states else None,
            draw(self.layers, *((B, width) if pooled else (T, B, width))) if self.layers else None,
        )


Drawn = tuple[Masks | None, Masks | None]


class Shape(ABC):
    """Shapes and passes; the numbers live in Parameters that are handed in."""

    shapes: dict[str, tuple[int, ...]]

    def __init__(self) -> None:
        self._work: dict[tuple[int, int], Parameters] = {}
        self._turn = Turn()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_work": {}}  # room that is made again

    @abstractmethod
    def initial(self, rng: np.random.Generator, *, recurrent: str, gain: float, dtype: FloatType) -> Parameters:
        """Parameters to begin with."""

    @abstractmethod
    def units(self, batch: Batch) -> float:
        """How many losses a batch has, each as often as it weighs."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, batch: Batch, dropout: Dropout, dtype: Dtype) -> Drawn:
        """The dropout of one step: of what reads x, and of what writes y."""

    def steps(self, batch: Batch) -> tuple[int, int]:
        """How many there are in each."""
        return len(batch.x), len(batch.y)

    @abstractmethod
    def check(self, batch: Batch) -> None:
        """Ids out of range are caught before a kernel runs."""

    @abstractmethod
    def slice_loss(
        self,
        p: Parameters,
        batch: Batch,
        normaliser: float,
        masks: Drawn = (None, None),
        gradients: Parameters | None = None,
    ) -> float:
        """The loss of some rows; with gradients, theirs are added."""

    def loss_and_gradients(
        self,
        p: Parameters,
        batch: Batch,
        gradients: Parameters,  # added to
        *,
        normaliser: float,
        masks: Drawn = (None, None),
        rows: slice | None = None,  # all of them, or those that are this process's
    ) -> float:
        self.check(batch)
        all_rows, jobs, works = rows or slice(0, len(batch.weights)), [], []
        for number, cut in enumerate(batch_slices(all_rows.stop - all_rows.start)):
            rows = slice(all_rows.start + cut.start, all_rows.start + cut.stop)
            key = number, p.buffer.dtype.itemsize
            if key not in self._work:
                self._work[key] = p.zeros()
            work = self._work[key]
            part = batch.rows(rows)
            read, written = self.steps(part)
            own = masks[0] and masks[0].rows(rows, read), masks[1] and masks[1].rows(rows, written)
            jobs.append(partial(self._slice, p, part, normaliser, own, work))
            works.append(work)
        with self._turn.lock:
            losses = run(jobs)
            for work in works:
                gradients.buffer += work.buffer
        return sum(losses)

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")  # divergence is seen in the loss, not in warnings
    def _slice(self, p: Parameters, batch: Batch, normaliser: float, masks: Drawn, work: Parameters) -> float:
        work.buffer[:] = 0
        return self.slice_loss(p, batch, normaliser, masks, work)

    def loss(self, p: Parameters, batch: Batch, *, normaliser: float) -> float:
        """Without dropout, and nothing learned."""
        self.check(batch)
        slices = batch_slices(len(batch.weights))
        return sum(run([partial(self.slice_loss, p, batch.rows(rows), normaliser) for rows in slices]))


def step_weights(weights: Array, lengths: Array, T: int, dtype: FloatType) -> Array:
    """(T, B): a row's weight at its own steps, 0 past its end."""
    return np.where(np.arange(T)[:, np.newaxis] < lengths, weights, 0).astype(dtype)


def check_inputs(x: Array, inputs: int, *, tokens: bool) -> None:
    if tokens:
        check_ids("x", x, inputs)
    elif x.shape[-1] != inputs:
        raise RangeError("x", expected=f"{inputs} numbers a step", got=x.shape[-1])
