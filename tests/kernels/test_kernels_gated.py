"""The compiled GRU and LSTM against elman.maths for every shape, layout and option, and the bits of a row."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels_tools import FLOATS, HIDDEN, IDS, LAYOUTS, Guard, assert_close, laid_out, same_bits

from elman.kernels import recurrence
from elman.kernels.compile import kernel
from elman.kernels.product import packed_size
from elman.kernels.vectors import pointwise, tanhs
from elman.maths import recurrence as reference
from elman.maths.cells import make_cell
from elman.maths.truncation import truncated_cell_backward

CELLS = ("gru", "lstm")


class Trial:
    """The arguments of a forward and a backward pass of one layer."""

    def __init__(self, seed, cell, T, B, X, H, dtype=np.float64, *, ids=None, ragged=False, reverse=False, masked=False,
                 initial=True, layout="C"):  # fmt: skip
        rng = np.random.default_rng(seed)
        self.cell, self.dtype = make_cell(cell), dtype

        def normal(*shape, scale=1.0):
            return laid_out((rng.standard_normal(shape) * scale).astype(dtype), layout)

        scales = {"W_xh": 1 if ids else X**-0.5, "W_hh": H**-0.5}
        self.p = {n: normal(*shape, scale=scales.get(n, 0.5)) for n, shape in self.cell.shapes(X, H).items()}
        self.x = normal(T, B, X) if ids is None else laid_out(rng.integers(X, size=(T, B)).astype(ids), layout)
        self.s0 = normal(self.cell.parts, B, H) if initial else None
        self.d_h = normal(T, B, H)
        self.d_s_last = normal(self.cell.parts, B, H)
        self.options = {
            "lengths": rng.integers(0, T + 1, size=B) if ragged else None,
            "reverse": reverse,
            "h_mask": (rng.integers(2, size=(B, H)) * 2).astype(dtype) if masked else None,
        }

    def run(self, module, dtype=None, rows=slice(None), k=None, d_s_last=True):
        """States, gradients of the parameters, d_x and d_s0, of one of the two engines."""
        dtype = self.dtype if dtype is None else dtype

        def of(a):
            return a if a is None or a.dtype.kind != "f" else a.astype(dtype, copy=dtype != self.dtype)

        options = {
            name: value if isinstance(value, bool) or value is None else of(value)[rows]
            for name, value in self.options.items()
        }
        p, x = {name: of(a) for name, a in self.p.items()}, of(self.x)[:, rows]
        s0 = None if self.s0 is None else of(self.s0)[:, rows]
        trace = module.cell_forward(self.cell, x, s0, p, **options)
        states, d_h = trace.s.copy(), of(self.d_h)[:, rows]
        if k is None:
            last = of(self.d_s_last)[:, rows] if d_s_last else None
            d = module.cell_backward(self.cell, d_h, trace, x, p, d_s_last=last, **options)
        else:
            options.pop("reverse")
            backward = module.cell_backward
            d = truncated_cell_backward(self.cell, d_h, trace, x, p, k1=k[0], k2=k[1], backward=backward, **options)
        return [states, *d.d_p.values(), d.d_s0] + ([] if d.d_x is None else [d.d_x])

    def check(self, **options):
        ours = self.run(recurrence, **options)
        theirs = self.run(reference, np.float64, **options)
        for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            assert a.dtype == self.dtype
            assert_close(a, b, self.dtype, f"result {number}")


@st.composite
def trials(draw, **fixed):
    flag = st.booleans()
    options = {"ragged": draw(flag), "reverse": draw(flag), "masked": draw(flag), "initial": draw(flag)}
    return Trial(
        draw(st.integers(0, 2**32)), draw(st.sampled_from(CELLS)), draw(st.sampled_from((1, 2, 3, 5))),
        draw(st.sampled_from((1, 2, 3, 5, 6, 7, 11, 14, 15, 17))), draw(st.sampled_from((1, 3, 37))),
        draw(st.sampled_from(HIDDEN)), draw(st.sampled_from(FLOATS)), ids=draw(st.sampled_from((None, *IDS))),
        layout=draw(st.sampled_from(LAYOUTS)), **{**options, **fixed},
    )  # fmt: skip


@settings(max_examples=120, deadline=None)
@given(trials())
def test_states_and_gradients_are_those_of_maths(trial):
    trial.check()


@pytest.mark.parametrize("cell", CELLS)
def test_a_small_layer_of_each_cell(cell):
    """The test that the mutants of a cell must fail: in one precision, because each mutant is compiled again."""
    Trial(1, cell, 4, 5, 3, 9, ids=np.int64, ragged=True, masked=True).check()
    Trial(2, cell, 4, 5, 3, 9, ids=np.int64, reverse=True).check()


@settings(max_examples=40, deadline=None)
@given(trials(reverse=False), st.integers(1, 4), st.integers(1, 6))
def test_truncated_gradients_are_those_of_maths(trial, k1, k2):
    trial.check(k=(k1, max(k1, k2)))


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_more_rows_of_weights_than_one_block_holds(cell, dtype):
    Trial(1, cell, 3, 9, 270, 130, dtype).check()
    Trial(1, cell, 2, 3, 5, 300, dtype).check()


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("H", [7, 33, 100])
@pytest.mark.parametrize("ids", [None, np.int64])
def test_a_row_does_not_depend_on_its_neighbors(cell, dtype, H, ids):
    trial = Trial(H, cell, 3, 20, 5, H, dtype, ids=ids)
    together = trial.run(recurrence)
    for rows in (slice(0, 1), slice(6, 7), slice(13, 20)):
        alone = trial.run(recurrence, rows=rows)
        assert same_bits(alone[0], together[0][:, :, rows])
        d_s0 = -1 if ids else -2
        assert same_bits(alone[d_s0], together[d_s0][:, rows])


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("T", "B", "H"), [(1, 1, 1), (3, 7, 33), (2, 14, 16), (4, 3, 100)])
def test_kernels_read_and_write_only_their_arrays(cell, dtype, T, B, H, monkeypatch):
    module = import_module(f"elman.kernels.cells.{cell}")
    trials = [Trial(H, cell, T, B, 5, H, dtype, ids=ids, ragged=True, masked=True) for ids in (None, np.int64)]
    expected = [trial.run(recurrence) for trial in trials]
    forward = Guard(module.KERNELS.forward, "a scratch edge")
    backward = Guard(module.KERNELS.backward, "scratch edge d_bias")
    monkeypatch.setattr(module, "KERNELS", module.KERNELS._replace(forward=forward, backward=backward))
    for trial, results in zip(trials, expected, strict=True):
        assert all(same_bits(a, b) for a, b in zip(trial.run(recurrence), results, strict=True))
    assert forward.calls == backward.calls == 2


@pytest.mark.parametrize("cell", CELLS)
def test_nan_in_any_argument_reaches_the_states(cell):
    for where in (*make_cell(cell).shapes(1, 1), "s0", "x"):
        trial = Trial(10, cell, 3, 5, 6, 33)
        array = {**trial.p, "s0": trial.s0, "x": trial.x}[where]
        array[(0,) * array.ndim] = np.nan
        (ours, *_), (theirs, *_) = trial.run(recurrence), trial.run(reference)
        assert np.isnan(ours).any()
        assert (np.isnan(ours) == np.isnan(theirs)).all(), where


@pytest.mark.parametrize("cell", CELLS)
def test_no_steps_or_no_rows(cell):
    for T, B in ((0, 3), (2, 0)):
        trial = Trial(8, cell, T, B, 6, 33, ids=np.int64)
        ours, theirs = trial.run(recurrence, d_s_last=False), trial.run(reference, d_s_last=False)
        assert all(same_bits(a, b) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("H", "G", "first"), [(5, 3, 10), (33, 3, 66), (16, 2, 16), (7, 4, 0)])
def test_weights_are_packed_from_any_column_on(dtype, H, G, first):
    W = np.random.default_rng(0).standard_normal((H, G * H)).astype(dtype)
    size = W.itemsize
    rooms = [[np.empty(packed_size(*shape, size), dtype) for shape in (W.shape, W.shape[::-1])] for _ in range(2)]
    Guard(recurrence.pack_both, "forward backward")(W, *rooms[0], first)
    recurrence.pack_both(np.roll(W, -first, axis=1).copy(), *rooms[1], 0)
    assert all(same_bits(a, b) for a, b in zip(*rooms, strict=True))


# the vectors themselves

alone = pointwise(lambda x: (tanhs(x)[0],))
four = pointwise(lambda a, b, c, d: tuple(tanhs(a, b, c, d)))


@kernel
def tanh_alone(x):
    alone((x,), (0,), (x,), (0,), (), x.size)


@kernel
def tanh_of_four(a, b, c, d):
    four((a, b, c, d), (0, 0, 0, 0), (a, b, c, d), (0, 0, 0, 0), (), a.size)


@pytest.mark.parametrize("dtype", FLOATS)
def test_tanh_of_vectors_is_exact_to_a_few_units_in_the_last_place(dtype):
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-12, 12, 20_000), np.geomspace(1e-30, 1, 5_001), [0.0, -0.0, np.inf, -np.inf]])
    columns = [rng.permutation(x.astype(dtype)) for _ in range(4)]
    together, single = [c.copy() for c in columns], columns[0].copy()
    Guard(tanh_of_four)(*together)
    Guard(tanh_alone)(single)
    for ours, given_ in ((single, columns[0]), *zip(together, columns, strict=True)):
        exact = np.tanh(given_.astype(np.longdouble))
        error = np.abs(ours.astype(np.longdouble) - exact) / np.spacing(np.abs(exact.astype(dtype)))
        assert error.max() <= (4 if ours is single else 8)
        assert (np.signbit(ours) == np.signbit(given_)).all()
    assert (np.abs(single) <= 1).all()
    x = np.array([np.nan, 1.0], dtype)
    tanh_alone(x)
    assert np.isnan(x[0])
    assert x[1] == pytest.approx(np.tanh(1.0), rel=1e-6)
