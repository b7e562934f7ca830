"""Examples as padded batches of rows of similar length."""

from __future__ import annotations

from typing import Any

import numpy as np

from elman.data.examples import Examples
from elman.data.ragged import Ragged
from elman.maths.arrays import Array
from elman.network import Batch

MAX_ROWS = 256  # in a batch for evaluation or prediction
MAX_STEPS = 1 << 17  # of all rows of such a batch together: a long row makes all others as long, with padding


def to_batch(examples: Examples, rows: Array, dtype: np.dtype[Any]) -> Batch:
    """The rows as one padded batch; numbers in the network's precision."""

    def padded(part: Ragged | Array) -> tuple[Array, Array | None]:
        values, lengths = (part.padded(rows), part.lengths[rows]) if isinstance(part, Ragged) else (part[rows], None)
        return values.astype(dtype if values.dtype.kind == "f" else np.int64), lengths

    (x, x_lengths), (y, y_lengths) = padded(examples.x), padded(examples.y)
    y_weights = None if examples.class_weights is None else examples.class_weights[y]
    return Batch(x, y, examples.weights[rows], x_lengths, y_lengths, y_weights)


def lengths_and_weights(examples: Examples) -> Batch:
    """All examples as one batch without values; with weights per tag, that of a row is the mean over its steps."""
    x, y = (part.lengths if isinstance(part, Ragged) else None for part in (examples.x, examples.y))
    weights = examples.weights
    if examples.class_weights is not None and isinstance(examples.y, Ragged):
        lengths = examples.y.lengths
        rows, steps = np.repeat(np.arange(len(lengths)), lengths), examples.class_weights[examples.y.values]
        weights = weights * np.bincount(rows, steps, minlength=len(lengths)) / np.maximum(lengths, 1)
    return Batch(np.empty(0), np.empty(0), weights, x, y)


def unweighted(batch: Batch) -> Batch:
    """The batch with a weight of 1 for each loss."""
    rows = 0 if batch.weights is None else len(batch.weights)
    return batch._replace(weights=np.ones(rows), y_weights=None)


def rows_by_length(examples: Examples, size: int = MAX_ROWS) -> list[Array]:
    """The row numbers of batches that cover all examples, sorted by length."""
    lengths = examples.lengths()
    rows, batches, start = np.argsort(lengths, kind="stable"), [], 0
    while start < len(rows):
        batch = rows[start : start + size]
        padded = lengths[batch] * np.arange(1, len(batch) + 1)  # (rows,) steps of a batch that ends with each row
        count = max(1, int(np.searchsorted(padded, MAX_STEPS, side="right")))
        batches.append(batch[:count])
        start += count
    return batches
