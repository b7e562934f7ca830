"""A long text, or many sequences, as parallel lanes, for training with carried state.

The text is cut into `batch` lanes of equal length, and each lane into windows. Row b of one window continues in
row b of the next, so that the final state of one is the initial state of the other; an epoch starts with a state of
zeros. The remainder is not read: less than a window at the end of each lane, and fewer tokens than lanes at the end of
the text.

Sequences are read one after another in each lane, each from a state of zeros. One that is longer than a window goes on
in the next window of its lane, with the state after the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from elman.data.checks import at_least_one, few
from elman.errors import DataError, DtypeError, RangeError, ShapeError, option
from elman.maths.arrays import Array


class Window(NamedTuple):
    """T steps of B lanes."""

    x: Array  # (T, B) int64
    y: Array  # (T, B) int64, each the token after x
    begins: Array  # (B,) whether a lane starts from a state of zeros: a text does at the beginning of an epoch
    tokens: int  # the number of targets, of all lanes of the batch
    lengths: Array | None = None  # (B,) the number of steps of each lane; None: T


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
        begins = np.full(x.shape[1], self._window == 0)
        self._window += 1
        if self._window == self.windows_per_epoch:
            self._epoch, self._window = self._epoch + 1, 0
        return Window(x, y, begins, self.tokens_per_epoch // self.windows_per_epoch)

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


class SequenceStream:
    """An endless stream of windows of sequences, epoch after epoch; only the given lanes of the batch are read.

    A lane whose sequence has ended begins the next one of the order of the epoch.
    """

    def __init__(
        self,
        ids: Array,
        end: int,
        *,
        batch: int,
        window: int,
        order: Callable[[int], Array],
        lanes: slice = slice(None),
    ) -> None:
        self._ids, self._edges = ids, edges_of(ids, end)
        lengths = np.diff(self._edges)  # of each sequence with its <end>
        self._steps, self._lanes, self._order = window, lanes, lru_cache(1)(order)
        self._at, self._stop = np.zeros((2, batch), np.int64)  # where each lane goes on reading, and where it stops
        self._begun = 0  # sequences, over all epochs
        self.windows_per_epoch = float((-(-lengths // window)).sum() / batch)
        self.tokens_per_epoch = len(ids) - 1

    def next(self) -> Window:
        """The next window."""
        begins = self._at == self._stop
        for lane in np.flatnonzero(begins):
            epoch, place = divmod(self._begun, len(self._edges) - 1)
            sequence = self._order(epoch)[place]
            self._at[lane], self._stop[lane] = self._edges[sequence], self._edges[sequence + 1]
            self._begun += 1
        counts = np.minimum(self._stop - self._at, self._steps)
        at, lengths = self._at[self._lanes], counts[self._lanes]
        places = np.minimum(at + np.arange(lengths.max())[:, np.newaxis], len(self._ids) - 2)  # (T, B)
        self._at += counts
        x, y = (self._ids[places + i].astype(np.int64) for i in (0, 1))
        return Window(x, y, begins[self._lanes], int(counts.sum()), lengths)

    @property
    def cursor(self) -> dict[str, Any]:
        """The position of the next window, as JSON."""
        return {"begun": self._begun, "at": self._at.tolist(), "stop": self._stop.tolist()}

    def seek(self, cursor: Mapping[str, Any]) -> None:
        """Continue from a cursor."""
        at, stop = (np.array(cursor.get(name), np.int64) for name in ("at", "stop"))
        begun, last = cursor.get("begun"), len(self._ids) - 1
        fits = at.shape == stop.shape == self._at.shape and bool(((at >= 0) & (at <= stop) & (stop <= last)).all())
        if type(begun) is not int or begun < 0 or not fits:
            raise RangeError("the cursor of a stream", expected=f"a place of each lane, 0 to {last}", got=few([cursor]))
        self._begun, self._at, self._stop = begun, at, stop


def edges_of(ids: Array, end: int) -> Array:
    """Where each <end> is: sequence i is ids[edges[i] : edges[i + 1] + 1], with both of its edges."""
    return np.flatnonzero(ids == end)


def sequences_of(ids: Array, end: int | None) -> Iterator[Array]:
    """Each sequence with both of its edges; a text is one."""
    yield from [ids] if end is None else (ids[a : b + 1] for a, b in pairwise(edges_of(ids, end).tolist()))
