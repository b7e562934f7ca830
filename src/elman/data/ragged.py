"""Sequences of different lengths, concatenated in one array."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from elman.maths.arrays import Array


class Ragged:
    """ragged[i] is sequence i, a view: (T_i,) ids or (T_i, X) numbers."""

    def __init__(self, values: Array, lengths: Array) -> None:
        self.values, self.lengths = values, lengths  # (Σ T_i, …), (n,)
        self.starts = np.concatenate([[0], np.cumsum(lengths)])  # (n+1,)

    @classmethod
    def of(cls, sequences: Sequence[Array], empty: Array) -> Ragged:
        """Concatenate sequences; `empty` is a sequence of length 0 with the right dtype and shape."""
        lengths = np.array([len(sequence) for sequence in sequences], np.int64)
        return cls(np.concatenate([empty, *sequences]), lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, i: int) -> Array:
        return self.values[self.starts[i] : self.starts[i + 1]]

    def __iter__(self) -> Iterator[Array]:
        return (self[i] for i in range(len(self)))

    def take(self, rows: Array) -> Ragged:
        """The sequences with these indices."""
        return Ragged.of([self[i] for i in rows], self.values[:0])

    def padded(self, rows: Array) -> Array:
        """The sequences of these rows as a batch (T, B, …), padded with zeros; T is at least 1."""
        lengths = self.lengths[rows]
        T = max(int(lengths.max(initial=1)), 1)
        out = np.zeros((T, len(rows), *self.values.shape[1:]), self.values.dtype)
        for b, (i, length) in enumerate(zip(rows, lengths, strict=True)):
            out[:length, b] = self[i]
        return out
