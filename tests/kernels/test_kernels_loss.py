"""The compiled softmax, losses and pooling against elman.maths; also NaN and infinity."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels_tools import FLOATS, IDS, LAYOUTS, assert_close, laid_out, same_bits

from elman.kernels import loss as compiled
from elman.kernels import pooling
from elman.maths import loss as exact
from elman.maths import pooling as exact_pooling

LEADING = st.sampled_from([(), (1,), (5,), (3, 7), (2, 3, 4), (1, 17)])
CLASSES = st.sampled_from((1, 2, 3, 4, 5, 7, 31, 33, 65, 101))
SEEDS, DTYPES, LAYOUT = st.integers(0, 2**32), st.sampled_from(FLOATS), st.sampled_from(LAYOUTS)
INTO = st.sampled_from(("none", "new", "itself"))


@settings(max_examples=150, deadline=None)
@given(
    SEEDS, DTYPES, LEADING, CLASSES, LAYOUT, st.sampled_from(IDS), st.sampled_from(("none", "new", "itself")),
    st.booleans(), st.sampled_from((None, 1, 0.3, 1000)), st.sampled_from((0.1, 1, 30)),
)  # fmt: skip
def test_cross_entropy_is_that_of_maths(seed, dtype, leading, Y, layout, ids, into, weighted, normalizer, size):
    rng = np.random.default_rng(seed)
    o = laid_out((rng.standard_normal((*leading, Y)) * size).astype(dtype), layout)
    y = laid_out(rng.integers(Y, size=leading).astype(ids), layout)
    weights = laid_out(rng.uniform(0, 2, leading).astype(dtype), layout) if weighted else None
    wide = None if weights is None else weights.astype(np.float64)
    value, d_exact = exact.cross_entropy(o.astype(np.float64), y, weights=wide, normalizer=normalizer)
    given_o = o.copy()
    out = {"none": None, "new": laid_out(np.full_like(o, np.nan), layout), "itself": o}[into]
    loss, d_o = compiled.cross_entropy(o, y, weights=weights, normalizer=normalizer, out=out)
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
    loss, d_o = compiled.cross_entropy(o, y, normalizer=500)
    value, d_exact = exact.cross_entropy(o.astype(np.longdouble), y, normalizer=500)
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
    loss, d_o = compiled.cross_entropy(o, y)
    value, d_exact = exact.cross_entropy(o.astype(np.float64), y)
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
        loss, d_o = compiled.cross_entropy(o, np.array([0, Y - 1, Y // 2]))
        assert np.isnan(loss)
        assert np.isnan(d_o[1]).all()
        assert np.isfinite(d_o[[0, 2]]).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_infinite_logits_as_in_maths(dtype):
    o = np.array([[0, -np.inf, 1], [np.inf, 0, 1], [-np.inf] * 3, [np.inf, np.inf, 0]], dtype)
    for row in range(4):
        for target in range(3):
            with np.errstate(invalid="ignore"):
                value, d_exact = exact.cross_entropy(o[row : row + 1], np.array([target]))
            loss, d_o = compiled.cross_entropy(o[row : row + 1], np.array([target]))
            np.testing.assert_allclose(loss, value, rtol=1e-6)
            np.testing.assert_allclose(d_o, d_exact, rtol=1e-5, atol=1e-7)


@settings(max_examples=100, deadline=None)
@given(SEEDS, DTYPES, LEADING, CLASSES, LAYOUT, INTO, st.sampled_from((0.1, 1, 30)))
def test_softmax_is_that_of_maths(seed, dtype, leading, Y, layout, into, size):
    o = laid_out((np.random.default_rng(seed).standard_normal((*leading, Y)) * size).astype(dtype), layout)
    expected, given_o = exact.softmax(o.astype(np.float64)), o.copy()
    out = {"none": None, "new": laid_out(np.full_like(o, np.nan), layout), "itself": o}[into]
    y_hat = compiled.softmax(o, out=out)
    assert out is None or y_hat is out
    assert into == "itself" or same_bits(o, given_o)
    assert_close(y_hat, expected, dtype)


@settings(max_examples=60, deadline=None)
@given(SEEDS, DTYPES, LEADING, CLASSES, LAYOUT)
def test_the_gradient_of_softmax_is_that_of_maths(seed, dtype, leading, Y, layout):
    rng = np.random.default_rng(seed)
    d = laid_out(rng.standard_normal((*leading, Y)).astype(dtype), layout)
    y_hat = laid_out(exact.softmax(rng.standard_normal((*leading, Y))).astype(dtype), layout)
    given_d = d.copy()
    d_o = compiled.softmax_backward(d, y_hat)
    assert same_bits(d, given_d)
    assert_close(d_o, exact.softmax_backward(d.astype(np.float64), y_hat.astype(np.float64)), dtype)


@settings(max_examples=100, deadline=None)
@given(SEEDS, DTYPES, LEADING, CLASSES, LAYOUT, INTO, st.booleans(), st.sampled_from((None, 0.3, 1000)))
def test_losses_of_numbers_are_those_of_maths(seed, dtype, leading, Y, layout, into, weighted, normalizer):
    rng = np.random.default_rng(seed)
    logits = laid_out(rng.standard_normal((*leading, Y)).astype(dtype), layout)
    shares = laid_out(rng.dirichlet(np.ones(Y), leading).astype(dtype), layout)
    weights = laid_out(rng.uniform(0, 2, leading).astype(dtype), layout) if weighted else None
    wide = None if weights is None else weights.astype(np.float64)
    for name in ("cross_entropy", "mean_squared_error"):
        o = logits.copy()
        out = {"none": None, "new": laid_out(np.full_like(o, np.nan), layout), "itself": o}[into]
        value, d_exact = getattr(exact, name)(
            o.astype(np.float64), shares.astype(np.float64), weights=wide, normalizer=normalizer
        )
        loss, d_o = getattr(compiled, name)(o, shares, weights=weights, normalizer=normalizer, out=out)
        assert isinstance(loss, float)
        assert out is None or d_o is out
        assert into == "itself" or same_bits(o, logits)
        assert_close(loss, value, dtype)
        assert_close(d_o, d_exact, dtype)


def test_shapes_that_broadcast_are_as_in_maths_and_others_are_refused():
    """Compiled code trusts its shapes: nothing may read or write past an array."""
    rng = np.random.default_rng(0)
    o, d = rng.standard_normal((2, 2, 3, 5))
    ids, share, number = np.arange(6).reshape(2, 3) % 5, exact.softmax(o[:1, :1]), o[:1] + 1
    for weights in (None, np.arange(3.0), np.ones((2, 1))):
        for name, y in (("cross_entropy", ids), ("cross_entropy", share), ("mean_squared_error", number)):
            loss, d_o = getattr(compiled, name)(o, y, weights=weights)
            value, d_exact = getattr(exact, name)(o, y, weights=weights)
            np.testing.assert_allclose(loss, value)
            np.testing.assert_allclose(d_o, d_exact)
    y_hat = exact.softmax(o)
    np.testing.assert_allclose(compiled.softmax_backward(d[:1], y_hat), exact.softmax_backward(d[:1], y_hat))
    with pytest.raises((ValueError, IndexError)):
        compiled.cross_entropy(o, np.zeros(2, np.int64))
    with pytest.raises((ValueError, IndexError)):
        compiled.surprise(o, np.zeros(2, np.int64))
    with pytest.raises(ValueError, match="shape"):
        compiled.cross_entropy(o[0], ids[0], out=np.empty((2, 4, 5)))
    with pytest.raises(ValueError, match="shape"):
        compiled.softmax(o[0], out=np.empty((2, 4, 5)))


@settings(max_examples=60, deadline=None)
@given(SEEDS, DTYPES, LEADING, CLASSES, LAYOUT, st.sampled_from(IDS))
def test_surprise_is_that_of_maths_and_leaves_the_logits(seed, dtype, leading, Y, layout, ids):
    rng = np.random.default_rng(seed)
    o = laid_out((4 * rng.standard_normal((*leading, Y))).astype(dtype), layout)
    y, given_o = laid_out(rng.integers(Y, size=leading).astype(ids), layout), o.copy()
    losses = compiled.surprise(o, y)
    assert same_bits(o, given_o)
    assert losses.dtype == np.float64
    assert_close(losses.astype(dtype), exact.surprise(o.astype(np.float64), y), dtype)


@settings(max_examples=100, deadline=None)
@given(SEEDS, DTYPES, st.integers(1, 9), st.integers(1, 7), CLASSES, LAYOUT, st.booleans())
def test_pooling_is_that_of_maths(seed, dtype, T, B, H, layout, ragged):
    rng = np.random.default_rng(seed)
    h = laid_out(rng.integers(-3, 4, size=(T, B, H)).astype(dtype), layout)  # few values, so that some are equal
    d = laid_out(rng.standard_normal((B, H)).astype(dtype), layout)
    lengths = rng.integers(T + 1, size=B) if ragged else None
    mean, expected = pooling.mean_forward(h, lengths), exact_pooling.mean_forward(h, lengths)
    assert_close(mean.vector, expected.vector, dtype)
    assert_close(pooling.mean_backward(d, T, lengths), exact_pooling.mean_backward(d, T, lengths), dtype)
    top, expected = pooling.max_forward(h, lengths), exact_pooling.max_forward(h, lengths)
    assert same_bits(top.vector, expected.vector)
    assert (top.places == expected.places).all()
    ours, theirs = (of.max_backward(d, T, lengths, top.places) for of in (pooling, exact_pooling))
    assert_close(ours, theirs, dtype)


def test_the_maximum_of_states_with_nan_is_nan_as_in_maths():
    h = np.array([[[1.0, np.nan]], [[np.nan, 2.0]], [[np.nan, np.nan]]])
    ours, theirs = pooling.max_forward(h, None), exact_pooling.max_forward(h, None)
    assert np.isnan(ours.vector).all()
    assert (ours.places == theirs.places).all()


def test_other_precisions_are_left_to_maths():
    half = np.random.default_rng(0).standard_normal((3, 4, 5)).astype(np.float16)
    y = np.zeros((3, 4), np.int64)
    assert compiled.cross_entropy(half, y)[1].dtype == np.float16
    assert compiled.mean_squared_error(half, half)[1].dtype == np.float16
    assert compiled.softmax(half).dtype == compiled.softmax_backward(half, half).dtype == np.float16
    assert (compiled.surprise(half, y) == exact.surprise(half, y)).all()
    assert pooling.mean_forward(half, None).vector.dtype == pooling.max_forward(half, None).vector.dtype == np.float16
