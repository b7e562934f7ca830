"""The compiled output layer, cross-entropy and embedding against elman.maths; and what is not a number."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels_tools import FLOATS, HIDDEN, IDS, LAYOUTS, assert_close, laid_out, same_bits

from elman.kernels import layers
from elman.maths import layers as exact_layers
from elman.maths import loss as exact_loss

LEADING = st.sampled_from([(), (1,), (5,), (3, 7), (2, 3, 4), (1, 17)])
CLASSES = st.sampled_from((1, 2, 3, 4, 5, 7, 31, 33, 65, 101))
SEEDS, DTYPES, LAYOUT = st.integers(0, 2**32), st.sampled_from(FLOATS), st.sampled_from(LAYOUTS)


@settings(max_examples=100, deadline=None)
@given(SEEDS, DTYPES, LEADING, st.sampled_from(HIDDEN), CLASSES, LAYOUT, st.booleans())
def test_output_forward_is_that_of_maths(seed, dtype, leading, H, Y, layout, into):
    rng = np.random.default_rng(seed)
    h, W_hy, b_y = (laid_out(rng.standard_normal(shape).astype(dtype), layout) for shape in ((*leading, H), (H, Y), Y))
    out = laid_out(np.full((*leading, Y), np.nan, dtype), layout) if into else None
    o = layers.output_forward(h, W_hy, b_y, out=out)
    assert o.dtype == dtype
    assert out is None or o is out
    assert_close(o, exact_layers.output_forward(*(a.astype(np.float64) for a in (h, W_hy, b_y))), dtype)


@pytest.mark.parametrize("dtype", FLOATS)
def test_states_and_out_of_another_size_are_converted_not_reinterpreted(dtype):
    other = np.float64 if dtype == np.float32 else np.float32
    rng = np.random.default_rng(0)
    h, W_hy, b_y = (rng.standard_normal(shape) for shape in ((3, 5, 33), (33, 9), 9))
    expected = h @ W_hy + b_y
    weights = W_hy.astype(dtype), b_y.astype(dtype)
    out = np.full(expected.shape, np.nan, other)
    assert_close(layers.output_forward(h.astype(other), *weights), expected, np.float32)
    assert_close(layers.output_forward(h.astype(dtype), *weights, out=out), expected, np.float32)


@settings(max_examples=150, deadline=None)
@given(
    SEEDS, DTYPES, LEADING, CLASSES, LAYOUT, st.sampled_from(IDS), st.sampled_from(("none", "new", "itself")),
    st.booleans(), st.sampled_from((None, 1, 0.3, 1000)), st.sampled_from((0.1, 1, 30)),
)  # fmt: skip
def test_cross_entropy_is_that_of_maths(seed, dtype, leading, Y, layout, ids, into, weighted, normaliser, size):
    rng = np.random.default_rng(seed)
    o = laid_out((rng.standard_normal((*leading, Y)) * size).astype(dtype), layout)
    y = laid_out(rng.integers(Y, size=leading).astype(ids), layout)
    weights = laid_out(rng.uniform(0, 2, leading).astype(dtype), layout) if weighted else None
    wide = None if weights is None else weights.astype(np.float64)
    value, d_exact = exact_loss.cross_entropy(o.astype(np.float64), y, weights=wide, normaliser=normaliser)
    given_o = o.copy()
    out = {"none": None, "new": laid_out(np.full_like(o, np.nan), layout), "itself": o}[into]
    loss, d_o = layers.cross_entropy(o, y, weights=weights, normaliser=normaliser, out=out)
    assert isinstance(loss, float)
    assert out is None or d_o is out
    assert d_o.dtype == dtype
    assert into == "itself" or same_bits(o, given_o)
    assert_close(loss, value, dtype)
    assert_close(d_o, d_exact, dtype)


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_last_digits_of_a_loss_and_its_gradient(dtype):
    """Closer than a tolerance for any shape: a few units in the last place of softmax, one pass over a row."""
    rng = np.random.default_rng(0)
    o, y = (rng.standard_normal((500, 65)) * 4).astype(dtype), rng.integers(65, size=500)
    loss, d_o = layers.cross_entropy(o, y, normaliser=500)
    value, d_exact = exact_loss.cross_entropy(o.astype(np.longdouble), y, normaliser=500)
    eps = np.finfo(dtype).eps
    assert abs(loss - value) <= 4 * eps * value
    np.testing.assert_allclose(d_o, d_exact.astype(dtype), rtol=40 * eps, atol=eps / 500)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("Y", [2, 5, 33])
def test_logits_of_ten_thousand(dtype, Y):
    rng = np.random.default_rng(Y)
    o = rng.choice([-1e4, 0, 1e4], size=(40, Y)).astype(dtype)
    o[0], o[1, :], o[1, 0] = 1e4, -1e4, 1e4
    y = rng.integers(Y, size=40)
    loss, d_o = layers.cross_entropy(o, y)
    value, d_exact = exact_loss.cross_entropy(o.astype(np.float64), y)
    assert np.isfinite(loss)
    np.testing.assert_allclose(loss, value, rtol=1e-6)
    np.testing.assert_allclose(d_o, d_exact, atol=1e-6)
    assert value > 1e4, "some of these targets are hopeless"


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("Y", [1, 4, 7, 33])
def test_nan_in_any_logit_is_seen_in_the_loss_and_in_its_row_alone(dtype, Y):
    rng = np.random.default_rng(0)
    for column in range(Y):
        o = rng.standard_normal((3, Y)).astype(dtype)
        o[1, column] = np.nan
        loss, d_o = layers.cross_entropy(o, np.array([0, Y - 1, Y // 2]))
        assert np.isnan(loss)
        assert np.isnan(d_o[1]).all()
        assert np.isfinite(d_o[[0, 2]]).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_infinite_logits_as_in_maths(dtype):
    o = np.array([[0, -np.inf, 1], [np.inf, 0, 1], [-np.inf] * 3, [np.inf, np.inf, 0]], dtype)
    for row in range(4):
        for target in range(3):
            with np.errstate(invalid="ignore"):
                value, d_exact = exact_loss.cross_entropy(o[row : row + 1], np.array([target]))
            loss, d_o = layers.cross_entropy(o[row : row + 1], np.array([target]))
            np.testing.assert_allclose(loss, value, rtol=1e-6)
            np.testing.assert_allclose(d_o, d_exact, rtol=1e-5, atol=1e-7)


@settings(max_examples=80, deadline=None)
@given(SEEDS, DTYPES, LEADING, st.sampled_from((1, 3, 33, 130)), CLASSES, LAYOUT, st.sampled_from(IDS), st.booleans())
def test_embedding_backward_is_that_of_maths(seed, dtype, leading, X, V, layout, ids, into):
    rng = np.random.default_rng(seed)
    d_x = laid_out(rng.standard_normal((*leading, X)).astype(dtype), layout)
    tokens, W = laid_out(rng.integers(V, size=leading).astype(ids), layout), np.zeros((V, X), dtype)
    begun = rng.standard_normal((V, X)).astype(dtype)
    out = laid_out(begun, layout).copy(order="K") if into else None
    d_W = layers.embedding_backward(d_x, tokens, W, out=out)
    assert out is None or d_W is out
    expected = begun.astype(np.float64) if into else np.zeros((V, X))
    np.add.at(expected, tokens.ravel(), d_x.reshape(-1, X).astype(np.float64))
    assert_close(d_W, expected, dtype)


def test_what_is_not_compiled_is_that_of_maths():
    assert layers.output_backward is exact_layers.output_backward
    assert layers.mean_squared_error is exact_loss.mean_squared_error
    assert layers.softmax is exact_loss.softmax
    rng = np.random.default_rng(0)
    o, shares = rng.standard_normal((2, 4, 5))
    assert layers.cross_entropy(o, shares)[0] == exact_loss.cross_entropy(o, shares)[0]
    half = o.astype(np.float16)
    assert layers.output_forward(half, half.T, half[:, 0]).dtype == np.float16
    assert layers.cross_entropy(half, np.arange(4))[1].dtype == np.float16
    assert layers.embedding_backward(half, np.arange(4), half).dtype == np.float16
