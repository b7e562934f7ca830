"""The time loop with every cell, and one that uses everything a cell may have, against central differences."""

from __future__ import annotations

import numpy as np
import pytest
from maths_toy_cell import ToyCell

from elman import maths
from elman.maths.cells import Cell, make_cell
from elman.maths.recurrence import CellTrace, cell_backward, cell_forward
from elman.maths.truncation import truncated_cell_backward

TOY = ToyCell()
ALL = [TOY, make_cell("rnn"), make_cell("gru"), make_cell("lstm")]
every_cell = pytest.mark.parametrize("cell", ALL, ids=[cell.name for cell in ALL])
B, X, H = 3, 2, 3
LENGTHS = np.array([5, 2, 0])


def drawn(cell: Cell, T: int, *, ids: bool = False, seed: int = 0):
    """Weights, inputs, an initial state, and a gradient on every h."""
    rng = np.random.default_rng(seed)
    p = {name: 0.8 * rng.standard_normal(shape) for name, shape in cell.shapes(X, H).items()}
    x = rng.integers(X, size=(T, B)) if ids else rng.standard_normal((T, B, X))
    return p, x, rng.standard_normal((cell.parts, B, H)), rng.standard_normal((T, B, H))


def checked(loss, p, x, s0, found) -> None:
    gradients = {**found.d_p, "s0": found.d_s0} | ({} if found.d_x is None else {"x": found.d_x})
    arrays = {**p, "s0": s0} | ({} if found.d_x is None else {"x": x})
    assert found.d_p.keys() == p.keys()
    maths.gradcheck(loss, arrays, gradients).expect()


@every_cell
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("T", "ids"), [(1, False), (5, False), (5, True)])
def test_gradients_of_any_cell_agree_with_central_differences(cell, T, ids, reverse, ragged, masked):
    p, x, s0, d_h_direct = drawn(cell, T, ids=ids)
    d_s_last = np.random.default_rng(1).standard_normal((cell.parts, B, H))
    options = {
        "lengths": np.minimum(LENGTHS, T) if ragged else None,
        "reverse": reverse,
        "h_mask": np.random.default_rng(2).integers(2, size=(B, H)) * 2.0 if masked else None,
    }

    def loss() -> float:
        s = cell_forward(cell, x, s0, p, **options).s
        return float((s[0, 1:] * d_h_direct).sum() + (s[:, 1 if reverse else -1] * d_s_last).sum())

    trace = cell_forward(cell, x, s0, p, **options)
    checked(loss, p, x, s0, cell_backward(cell, d_h_direct, trace, x, p, d_s_last=d_s_last, **options))


@every_cell
@pytest.mark.parametrize(("k1", "k2"), [(1, 1), (1, 3), (2, 3), (2, 9)])
@pytest.mark.parametrize("ids", [False, True])
def test_truncated_gradients_of_any_cell_agree_with_central_differences_block_by_block(cell, ids, k1, k2):
    T = 5
    p, x, s0, d_h_direct = drawn(cell, T, ids=ids)
    trace = cell_forward(cell, x, s0, p)
    fixed = trace.s.copy()  # a block starts from the state as it was

    def losses() -> float:
        total = 0.0
        for first in range(0, T, k1):
            end = min(first + k1, T)
            start = max(0, end - k2)
            s = cell_forward(cell, x[start:end], fixed[:, start] if start else s0, p).s
            total += float((s[0, first - start + 1 :] * d_h_direct[first:end]).sum())
        return total

    found = truncated_cell_backward(cell, d_h_direct, trace, x, p, k1=k1, k2=k2)
    checked(losses, p, x, s0, found)


@every_cell
def test_the_jacobian_of_any_cell_is_the_numeric_derivative_of_all_state_parts(cell):
    p, x, s0, _ = drawn(cell, 1)
    trace = cell_forward(cell, x[:, :1], s0[:, :1], p)
    J = cell.jacobian(trace.s[:, 0], trace.s[:, 1], tuple(part[0] for part in trace.kept), p)
    N = cell.parts * H
    assert J.shape == (N, N)
    for i in range(N):
        shift = 1e-6 * np.eye(N)[i].reshape(cell.parts, 1, H)
        above, below = (cell_forward(cell, x[:, :1], s0[:, :1] + e, p).s[:, 1].ravel() for e in (shift, -shift))
        np.testing.assert_allclose(J[i], (above - below) / 2e-6, rtol=1e-6, atol=1e-8)


@every_cell
@pytest.mark.parametrize("reverse", [False, True])
def test_what_is_kept_of_a_step_stands_at_its_time(cell, reverse):
    p, x, s0, _ = drawn(cell, 4)
    trace = cell_forward(cell, x, s0, p, reverse=reverse)
    order = [3, 2, 1, 0] if reverse else [0, 1, 2, 3]
    state = s0
    for t in order:
        state, kept = cell.forward(x[t] @ p["W_xh"] + p["b_h"], state[0] @ p["W_hh"], state, p)
        np.testing.assert_allclose(trace.s[:, t + 1], state, rtol=1e-13)
        for part, of_step in zip(trace.kept, kept, strict=True):
            np.testing.assert_allclose(part[t], of_step, rtol=1e-13)


@every_cell
def test_a_backward_pass_leaves_its_arguments_alone(cell):
    p, x, s0, d_h_direct = drawn(cell, 4)
    trace, d_s_last = cell_forward(cell, x, s0, p), np.ones((cell.parts, B, H))
    arguments = [d_h_direct, trace.s, *trace.kept, x, d_s_last, *p.values()]
    before = [array.copy() for array in arguments]
    cell_backward(cell, d_h_direct, CellTrace(trace.s, trace.kept), x, p, d_s_last=d_s_last)
    assert all(np.array_equal(one, other) for one, other in zip(arguments, before, strict=True))
