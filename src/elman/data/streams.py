"""A long text as parallel lanes, for training with carried state.

The text is cut into `batch` lanes of equal length, and each lane into windows. Row b of one window continues in
row b of the next, so that the final state of one is the initial state of the other; an epoch starts with a state of
zeros. The remainder is not read: less than a window at the end of each lane, and fewer tokens than lanes at the end of
the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from elman.data.checks import at_least_one
from elman.errors import DataError, DtypeError, RangeError, ShapeError, option
from elman.maths.arrays import Array


class Window(NamedTuple):
    """T steps of B lanes."""

    x: Array  # (T, B) int64
    y: Array  # (T, B) int64, each the token after x
    first: bool  # whether it is the first window of an epoch, which starts from a state of zeros


def fitting_batch(n_ids: int, batch: int, window: int) -> int:
    """The largest number of lanes, up to `batch`, with at least one window each; DataError if there is none."""
    at_least_one("batch", batch)
    if n_ids - 1 < at_least_one("window", window):
        raise DataError(
            "the text is too short for a window",
            expected=f"more than {window} tokens",
            got=n_ids,
            do=f"Use a longer text or a shorter {option('window')}.",
        )
    return min(batch, (n_ids - 1) // window)


class LaneStream:
    """An endless stream of windows, epoch after epoch; only the given lanes of the batch are read."""

    def __init__(self, ids: Array, *, batch: int, window: int, lanes: slice = slice(None)) -> None:
        if ids.ndim != 1:
            raise ShapeError("ids", expected="(N,)", got=ids.shape)
        if ids.dtype.kind not in "iu":
            raise DtypeError("ids", expected="integers", got=ids.dtype)
        most = fitting_batch(len(ids), batch, window)
        if most < batch:
            raise DataError(
                f"{len(ids)} tokens are too few for {batch} lanes of a window of {window}",
                do=f"Use a {option('batch_size')} of {most} or less, a shorter {option('window')}, or a longer text.",
            )
        length = (len(ids) - 1) // batch
        used, ids = batch * length, np.asarray(ids)
        self._x = ids[:used].reshape(batch, length)[lanes]  # views: only the windows are read from a mapped file
        self._y = ids[1 : used + 1].reshape(batch, length)[lanes]
        self._steps = window
        self.windows_per_epoch = length // window
        self.tokens_per_epoch = self.windows_per_epoch * window * batch
        self._epoch = self._window = 0

    def next(self) -> Window:
        """The next window."""
        steps = slice(self._window * self._steps, (self._window + 1) * self._steps)
        x, y = (np.ascontiguousarray(lanes[:, steps].T, np.int64) for lanes in (self._x, self._y))
        first = self._window == 0
        self._window += 1
        if self._window == self.windows_per_epoch:
            self._epoch, self._window = self._epoch + 1, 0
        return Window(x, y, first)

    @property
    def cursor(self) -> dict[str, int]:
        """The position of the next window, as JSON."""
        return {"epoch": self._epoch, "window": self._window}

    def seek(self, cursor: Mapping[str, object]) -> None:
        """Continue from a cursor."""
        epoch, window = (cursor.get(name) if isinstance(cursor, Mapping) else None for name in ("epoch", "window"))
        if type(epoch) is not int or type(window) is not int or epoch < 0 or not 0 <= window < self.windows_per_epoch:
            raise RangeError(
                "the cursor of a stream",
                expected=f"epoch 0 or more, window 0 to {self.windows_per_epoch - 1}",
                got=f"epoch {epoch!r}, window {window!r}",
                do=f"Was it saved with another text, {option('batch_size')} or {option('window')}?",
            )
        self._epoch, self._window = epoch, window
