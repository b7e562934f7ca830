"""Lanes and windows: every token once, in order, and cursors that restore the position."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elman.data import LaneStream, fitting_batch
from elman.errors import DataError, DtypeError, RangeError, ShapeError

shapes = st.tuples(st.integers(1, 5), st.integers(1, 6), st.integers(0, 40)).map(
    lambda bwn: (bwn[0], bwn[1], bwn[0] * bwn[1] + 1 + bwn[2])
)  # batch, window, tokens: at least one window per lane


@given(shapes)
def test_lanes_are_the_text_in_order(shape: tuple[int, int, int]) -> None:
    batch, window, n = shape
    stream = LaneStream(np.arange(n, dtype=np.uint16), batch=batch, window=window)
    windows = [stream.next() for _ in range(stream.windows_per_epoch)]
    x = np.concatenate([w.x for w in windows])
    length = (n - 1) // batch
    read = length // window * window
    assert stream.tokens_per_epoch == x.size == read * batch
    for b in range(batch):
        assert x[:, b].tolist() == list(range(b * length, b * length + read))
    for w in windows:
        assert np.array_equal(w.y, w.x + 1)  # the token after each: here its number plus one
        assert w.x.shape == w.y.shape == (window, batch)
        for array in (w.x, w.y):
            assert array.dtype == np.int64
            assert array.flags.c_contiguous
    assert [w.begins.all() for w in windows] == [True] + [False] * (len(windows) - 1)


def test_the_remainder_is_less_than_a_window_per_lane() -> None:
    stream = LaneStream(np.arange(24), batch=2, window=4)  # lanes of 11: 2 windows, 3 tokens per lane left
    assert (stream.windows_per_epoch, stream.tokens_per_epoch) == (2, 16)


@given(shapes, st.integers(0, 30))
def test_a_cursor_continues_where_it_was_taken(shape: tuple[int, int, int], steps: int) -> None:
    batch, window, n = shape
    ids = np.random.default_rng(0).integers(0, 100, n)
    straight, other = (LaneStream(ids, batch=batch, window=window) for _ in range(2))
    for _ in range(steps):
        straight.next()
    other.seek(json.loads(json.dumps(straight.cursor)))
    for _ in range(straight.windows_per_epoch + 1):
        assert straight.cursor == other.cursor
        a, b = straight.next(), other.next()
        assert np.array_equal(a.x, b.x)
        assert np.array_equal(a.y, b.y)
        assert a.begins.tolist() == b.begins.tolist()


def test_epochs_are_counted() -> None:
    stream = LaneStream(np.arange(9), batch=1, window=4)
    for epoch, window in ((0, 0), (0, 1), (1, 0), (1, 1), (2, 0)):
        assert stream.cursor == {"epoch": epoch, "window": window}
        assert stream.next().begins.tolist() == [window == 0]


@pytest.mark.parametrize(
    "cursor",
    [
        {},
        None,
        [0, 0],
        {"epoch": 0},
        {"epoch": -1, "window": 0},
        {"epoch": 0, "window": -1},
        {"epoch": 0, "window": 2},
        {"epoch": 0, "window": 1.0},
        {"epoch": True, "window": 0},
        {"epoch": "0", "window": 0},
    ],
)
def test_a_foreign_cursor_is_refused_and_changes_nothing(cursor: object) -> None:
    stream = LaneStream(np.arange(9), batch=1, window=4)
    stream.next()
    with pytest.raises(RangeError, match="window 0 to 1"):
        stream.seek(cursor)  # type: ignore[arg-type]
    assert stream.cursor == {"epoch": 0, "window": 1}


@given(st.integers(0, 300), st.integers(1, 20), st.integers(1, 20))
def test_the_fitting_batch_is_the_largest_with_a_window_per_lane(n: int, batch: int, window: int) -> None:
    good = [b for b in range(1, batch + 1) if (n - 1) // b >= window]
    if not good:
        with pytest.raises(DataError, match=r"too short for a window.*window"):
            fitting_batch(n, batch, window)
        return
    assert fitting_batch(n, batch, window) == good[-1]
    LaneStream(np.zeros(n, np.uint8), batch=good[-1], window=window)
    if good[-1] < batch:
        with pytest.raises(DataError, match=f"batch_size of {good[-1]}"):
            LaneStream(np.zeros(n, np.uint8), batch=batch, window=window)


@pytest.mark.parametrize("name", ["batch", "window"])
@pytest.mark.parametrize("number", [0, -1, 1.5, True])
def test_invalid_sizes_are_refused(name: str, number: int) -> None:
    with pytest.raises(RangeError, match=name):
        LaneStream(np.arange(9), **{"batch": 1, "window": 1} | {name: number})


def test_ids_must_be_a_vector_of_integers() -> None:
    with pytest.raises(ShapeError):
        LaneStream(np.zeros((3, 3), int), batch=1, window=1)
    with pytest.raises(DtypeError):
        LaneStream(np.zeros(9), batch=1, window=1)


def test_a_mapped_file_is_read_as_it_is(tmp_path: Path) -> None:
    np.arange(1000, dtype=np.uint16).tofile(tmp_path / "ids")
    mapped = np.memmap(tmp_path / "ids", np.uint16, "r")
    window = LaneStream(mapped, batch=3, window=5).next()
    assert type(window.x) is np.ndarray
    assert window.x[:, 1].tolist() == list(range(333, 338))
    assert np.shares_memory(LaneStream(mapped, batch=3, window=5)._x, mapped)  # not read into memory as a whole
