"""A batch of sequences, and how its rows are split into slices that run in parallel.

Slices depend on the batch alone, and their results are added in a fixed order: what a network computes does not depend
on the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise, starmap
from typing import NamedTuple

import numpy as np

from elman.maths.arrays import Array, FloatType

ROWS_PER_SLICE = 64
Rows = slice | Array  # consecutive rows, or indices of rows in any order, which may be repeated


def slice_count(B: int) -> int:
    """1 for fewer than 16 rows, 2 for up to 128, then 1 for every 64 rows: it depends on the batch size alone."""
    return max(2 if B >= 16 else 1, -(-B // ROWS_PER_SLICE))


class Batch(NamedTuple):
    """B examples, one per row, padded to the same number of steps."""

    x: Array  # (T, B) ids or (T, B, X); if x is a condition, (B,) ids or (B, X)
    y: Array  # (B,) class ids, (B, Y) numbers, or (S, B) ids of tokens or tags; S = T with an output at every step
    weights: Array | None = None  # (B,); None: all 1
    x_lengths: Array | None = None  # (B,); None: x is a condition, or (both None) all rows of x and y have T steps
    y_lengths: Array | None = None  # (B,); None: y is not a sequence, or (both None) all rows of x and y have T steps
    y_weights: Array | None = None  # (S, B), weight of each target, multiplied by that of its row
    state: Array | None = None  # (L·D, P, B, H), the state before x; replaced by the state after it
    first: int = 0  # index of the first row within the batch of all ranks

    @property
    def rows(self) -> int:
        """The number of rows, B."""
        return int(self.x.shape[0 if self.is_condition else 1])

    @property
    def is_condition(self) -> bool:
        """Whether x has one label or vector per row, not a sequence."""
        return self.x_lengths is None and self.y_lengths is not None

    def take(self, rows: Rows) -> Batch:
        """A batch of some of the rows, cut to the longest of them."""
        if isinstance(rows, slice) and rows.stop - rows.start == self.rows:
            return self
        x, x_lengths = (self.x[rows], None) if self.is_condition else _cut(self.x, self.x_lengths, rows)
        per_step = self.y_lengths is not None or self.x_lengths is None
        y, y_lengths = _cut(self.y, self.y_lengths, rows) if per_step else (self.y[rows], None)
        return self._replace(
            x=x,
            y=y,
            weights=None if self.weights is None else self.weights[rows],
            x_lengths=x_lengths,
            y_lengths=y_lengths,
            y_weights=None if self.y_weights is None else _cut(self.y_weights, self.y_lengths, rows)[0],
            state=None if self.state is None else self.state[:, :, rows],
        )

    def slices(self) -> Sequence[Rows]:
        """The rows of each slice.

        Rows of different lengths are sorted, longest first, and go to the slices in turn: all slices take about the
        same time, and the longest rows of a slice come first.
        """
        if self.x_lengths is None and self.y_lengths is None:
            return _consecutive_slices(self.rows)
        lengths = sum(part for part in (self.x_lengths, self.y_lengths) if part is not None)
        order, count = np.argsort(-lengths, kind="stable"), slice_count(self.rows)
        return [order[i::count] for i in range(count)]


@cache
def _consecutive_slices(B: int) -> tuple[slice, ...]:
    """Slices of consecutive rows, with about the same number of rows in each."""
    count = slice_count(B)
    return tuple(starmap(slice, pairwise(round(B * i / count) for i in range(count + 1))))


def step_weights(weights: Array, lengths: Array, T: int, dtype: FloatType) -> Array:
    """(T, B): a row's weight at its own steps, 0 past its end."""
    return np.where(np.arange(T)[:, np.newaxis] < lengths, weights, 0).astype(dtype)


def _cut(values: Array, lengths: Array | None, rows: Rows) -> tuple[Array, Array | None]:
    """These rows of values (T, B, …), cut to the longest of them, and their lengths."""
    if lengths is None:
        return values[:, rows], None
    own = lengths[rows]
    return values[: max(int(own.max(initial=1)), 1), rows], own
