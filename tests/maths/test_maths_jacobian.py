"""A step's Jacobian against finite differences, and against the backward pass."""

from __future__ import annotations

import numpy as np
import pytest

from elman import maths
from elman.maths.cells.base import Cell
from elman.maths.cells.rnn import RNNCell, step_jacobian

CUBIC = (np.cbrt, lambda h: 1 / (3 * h * h))  # a pair of one's own
ACTIVATIONS = ["tanh", "relu", "sigmoid", "identity", CUBIC]


def one_step(seed: int, activation, H: int = 5):
    """h[t], h[t+1] as functions of h[t], and W_hh."""
    rng = np.random.default_rng(seed)
    x, W_xh, W_hh, b_h = (rng.standard_normal(shape) for shape in ((1, 1, 3), (3, H), (H, H), (H,)))
    h0 = rng.standard_normal((1, H))
    return h0, W_hh, lambda h: maths.rnn_forward(x, h, W_xh, W_hh, b_h, activation=activation), (x, W_xh)


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=[a if isinstance(a, str) else "own" for a in ACTIVATIONS])
@pytest.mark.parametrize("seed", range(4))
def test_the_jacobian_is_the_numeric_derivative(seed, activation):
    h0, W_hh, forward, _ = one_step(seed, activation)
    J = step_jacobian(forward(h0)[1, 0], W_hh, activation=activation)
    for i, e in enumerate(1e-6 * np.eye(len(W_hh))):
        numeric = (forward(h0 + e)[1, 0] - forward(h0 - e)[1, 0]) / 2e-6
        np.testing.assert_allclose(J[i], numeric, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=[a if isinstance(a, str) else "own" for a in ACTIVATIONS])
@pytest.mark.parametrize("seed", range(4))
def test_the_jacobian_of_every_cell_follows_from_its_backward_step(seed, activation):
    h0, W_hh, forward, (x, W_xh) = one_step(seed, activation)
    h, d_h = forward(h0), np.random.default_rng(seed + 9).standard_normal((1, len(W_hh)))
    cell, p = RNNCell(activation), {"W_hh": W_hh}
    J = cell.jacobian(h[np.newaxis, 0], h[np.newaxis, 1], (), p)
    np.testing.assert_allclose(J, Cell.jacobian(cell, h[np.newaxis, 0], h[np.newaxis, 1], (), p), rtol=1e-12)
    whole = maths.rnn_backward(d_h[np.newaxis], x, h, W_xh, W_hh, activation=activation)
    np.testing.assert_allclose(J @ d_h[0], whole.d_h0[0], rtol=1e-12)


def test_many_steps_at_once():
    h, W_hh = np.random.default_rng(0).uniform(-1, 1, (7, 4)), np.random.default_rng(1).standard_normal((4, 4))
    J = step_jacobian(h, W_hh)
    assert J.shape == (7, 4, 4)
    np.testing.assert_array_equal(J[3], step_jacobian(h[3], W_hh))
