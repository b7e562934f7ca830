"""Softmax and the losses: their values by hand, their gradients by the Jacobian written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from elman import maths

FLOATS = [np.float16, np.float32, np.float64, np.longdouble]
shapes = hnp.array_shapes(min_dims=1, max_dims=3, max_side=4)
logits = hnp.arrays(np.float64, shapes, elements=st.floats(-1e4, 1e4))


@given(logits)
@settings(deadline=None, max_examples=50)
def test_softmax_is_a_distribution_that_keeps_ratios(o):
    y_hat = maths.softmax(o)
    assert (y_hat >= 0).all()
    np.testing.assert_allclose(y_hat.sum(axis=-1), 1, rtol=1e-12)
    np.testing.assert_allclose(maths.softmax(o - 3.0), y_hat, rtol=1e-9, atol=1e-12)
    for row in np.ndindex(o.shape[:-1]):
        least = float(o[row].max())
        total = sum(math.exp(v - least) for v in o[row])
        np.testing.assert_allclose(y_hat[row], [math.exp(v - least) / total for v in o[row]], rtol=1e-12)


def test_softmax_of_rows_far_apart():
    assert maths.softmax(np.array([[1e4, 1e4], [-1e4, -1e4]])).tolist() == [[0.5, 0.5], [0.5, 0.5]]


def test_softmax_writes_into_out_even_into_its_input():
    o = np.random.default_rng(0).standard_normal((3, 4))
    expected, out = maths.softmax(o), np.full((3, 4), 7.0)
    assert maths.softmax(o, out=out) is out
    assert np.array_equal(out, expected)
    assert maths.softmax(o, out=o) is o
    assert np.array_equal(o, expected)


@given(shapes, st.integers(0, 999))
@settings(deadline=None, max_examples=40)
def test_softmax_backward_is_the_product_with_the_jacobian(shape, seed):
    d_y_hat, o = np.random.default_rng(seed).standard_normal((2, *shape))
    y_hat = maths.softmax(o)
    d_o = maths.softmax_backward(d_y_hat, y_hat)
    for row in np.ndindex(shape[:-1]):
        p = y_hat[row]
        jacobian = np.array([[p[i] * ((i == k) - p[k]) for k in range(len(p))] for i in range(len(p))])
        np.testing.assert_allclose(d_o[row], d_y_hat[row] @ jacobian, rtol=1e-11, atol=1e-14)


def test_cross_entropy_by_hand():
    o = np.array([[0.0, math.log(3.0)], [math.log(4.0), 0.0]])  # y_hat = (1/4, 3/4), (4/5, 1/5)
    loss, d_o = maths.cross_entropy(o, np.array([0, 0]))
    assert loss == pytest.approx(math.log(4) + math.log(5 / 4), rel=1e-14)
    np.testing.assert_allclose(d_o, [[-3 / 4, 3 / 4], [-1 / 5, 1 / 5]], rtol=1e-14)
    loss, d_o = maths.cross_entropy(o, np.array([0, 0]), weights=np.array([2.0, 3.0]), normalizer=10)
    assert loss == pytest.approx((2 * math.log(4) + 3 * math.log(5 / 4)) / 10, rel=1e-14)
    np.testing.assert_allclose(d_o, [[-0.15, 0.15], [-0.06, 0.06]], rtol=1e-14)


def test_cross_entropy_of_a_distribution_by_hand():
    o = np.array([[0.0, math.log(3.0)]])
    loss, d_o = maths.cross_entropy(o, np.array([[0.5, 0.5]]))
    assert loss == pytest.approx(-0.5 * math.log(1 / 4) - 0.5 * math.log(3 / 4), rel=1e-14)
    np.testing.assert_allclose(d_o, [[-1 / 4, 1 / 4]], rtol=1e-14)


@pytest.mark.parametrize("dtype", FLOATS)
def test_cross_entropy_of_huge_logits_is_finite_and_right(dtype):
    o = np.array([[1e4, -1e4, 0], [-1e4, 1e4, 1e4]], dtype)
    loss, d_o = maths.cross_entropy(o, np.array([1, 2]))
    assert loss == pytest.approx(2e4 + math.log(2), rel=1e-3 if dtype == np.float16 else 1e-6)
    np.testing.assert_allclose(d_o.astype(float), [[1, -1, 0], [0, 0.5, -0.5]], atol=1e-3)
    shares = maths.cross_entropy(o, np.array([[0, 1, 0], [0, 0, 1]], dtype))
    assert shares[0] == pytest.approx(loss)
    assert np.array_equal(shares[1], d_o)


@given(logits, st.integers(0, 999), st.booleans())
@settings(deadline=None, max_examples=40)
def test_ids_equal_one_hot_distributions(o, seed, weighted):
    rng = np.random.default_rng(seed)
    ids = rng.integers(o.shape[-1], size=o.shape[:-1])
    weights = rng.uniform(0, 2, o.shape[:-1]) if weighted else None
    loss, d_o = maths.cross_entropy(o, ids, weights=weights, normalizer=3.0)
    one_hot_loss, one_hot_d_o = maths.cross_entropy(o, np.eye(o.shape[-1])[ids], weights=weights, normalizer=3.0)
    assert loss == pytest.approx(one_hot_loss, rel=1e-12)
    np.testing.assert_allclose(d_o, one_hot_d_o, rtol=1e-12, atol=1e-15)


def both(o, y, **options):
    ids = y.argmax(axis=-1)
    return maths.cross_entropy(o, ids, **options), maths.mean_squared_error(o, y, **options)


def example(shape=(4, 3, 5)):
    o, y = np.random.default_rng(0).standard_normal((2, *shape))
    return o, y


def test_a_weight_of_zero_removes_a_row():
    o, y = example()
    weights = np.ones((4, 3))
    weights[1:] = 0
    for (loss, d_o), (alone, d_alone) in zip(both(o, y, weights=weights), both(o[:1], y[:1]), strict=True):
        assert loss == pytest.approx(alone, rel=1e-14)
        np.testing.assert_allclose(d_o[:1], d_alone, rtol=1e-14)
        assert not d_o[1:].any()


def test_the_normalizer_divides_and_is_one_unless_given():
    o, y = example()
    for plain, one, (loss, d_o) in zip(both(o, y), both(o, y, normalizer=1), both(o, y, normalizer=8.0), strict=True):
        assert plain[0] == one[0]
        assert loss == pytest.approx(plain[0] / 8, rel=1e-14)
        np.testing.assert_allclose(d_o, plain[1] / 8, rtol=1e-14)


def test_the_loss_is_a_sum_over_rows():
    o, y = example()
    rows = [both(o[row], y[row]) for row in np.ndindex(4, 3)]
    for number, (loss, d_o) in enumerate(both(o, y)):
        assert loss == pytest.approx(sum(row[number][0] for row in rows), rel=1e-13)
        np.testing.assert_allclose(d_o.reshape(-1, 5), [row[number][1] for row in rows], rtol=1e-13)


def test_gradients_are_written_into_out_even_into_the_logits():
    o, y = example()
    shares = maths.softmax(y)
    for function, target in (
        (maths.cross_entropy, y.argmax(axis=-1)),
        (maths.cross_entropy, shares),
        (maths.mean_squared_error, y),
    ):
        loss, d_o = function(o, target)
        for out in (np.full_like(o, 7), o.copy()):
            logits = out if np.array_equal(out, o) else o
            again, written = function(logits, target, out=out)
            assert written is out
            assert again == loss
            assert np.array_equal(out, d_o)


def test_the_logits_are_kept_where_no_out_is_given():
    o, y = example()
    kept = o.copy()
    both(o, y)
    maths.softmax(o)
    assert np.array_equal(o, kept)  # delta_o = o destroyed it in the notes


def test_mean_squared_error_by_hand():
    o, y = np.array([[1.0, 2.0], [3.0, 5.0]]), np.array([[0.0, 4.0], [3.0, 2.0]])
    loss, d_o = maths.mean_squared_error(o, y, normalizer=4)
    assert loss == (1 + 4 + 0 + 9) / 4
    assert d_o.tolist() == [[0.5, -1.0], [0.0, 1.5]]
    loss, d_o = maths.mean_squared_error(o, y, weights=np.array([1.0, 2.0]))
    assert loss == 5 + 2 * 9
    assert d_o.tolist() == [[2.0, -4.0], [0.0, 12.0]]


@pytest.mark.parametrize("dtype", FLOATS)
def test_dtype_is_kept_and_the_loss_is_a_float(dtype):
    o, y = (a.astype(dtype) for a in example())
    weights = np.ones((4, 3), dtype)
    for loss, d_o in both(o, y, weights=weights, normalizer=12):
        assert type(loss) is float
        assert d_o.dtype == dtype
    assert maths.softmax(o).dtype == maths.softmax_backward(o, maths.softmax(o)).dtype == dtype


@pytest.mark.parametrize("dtype", [f"{sign}int{bits}" for sign in ("u", "") for bits in (8, 16, 32, 64)])
def test_target_ids_of_every_integer_dtype(dtype):
    o, y = example()
    ids = y.argmax(axis=-1)
    ours, theirs = maths.cross_entropy(o, ids.astype(dtype)), maths.cross_entropy(o, ids)
    assert ours[0] == theirs[0]
    assert np.array_equal(ours[1], theirs[1])


def test_nan_logits_inside_stay_visible():
    from elman.maths.loss import cross_entropy  # the unchecked one, which training calls

    loss, d_o = cross_entropy(np.array([[np.nan, 1.0], [0.0, 1.0]]), np.array([0, 1]))
    assert math.isnan(loss)
    assert np.isnan(d_o[0]).all()
    assert np.isfinite(d_o[1]).all()
