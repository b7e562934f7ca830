"""Output layer and embedding, each backward beside its forward."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elman import maths

FLOATS = [np.float16, np.float32, np.float64, np.longdouble]
IDS = [f"{sign}int{bits}" for sign in ("u", "") for bits in (8, 16, 32, 64)]
leading = st.lists(st.integers(1, 4), max_size=3).map(tuple)


def output(shape=(4, 3), H=5, Y=2, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(s).astype(dtype) for s in ((*shape, H), (H, Y), (Y,), (*shape, Y))]


@given(leading, st.integers(1, 4), st.integers(1, 4), st.integers(0, 999))
@settings(deadline=None, max_examples=40)
def test_output_is_a_product_row_by_row(shape, H, Y, seed):
    h, W_hy, b_y, d_o = output(shape, H, Y, seed)
    o = maths.output_forward(h, W_hy, b_y)
    d = maths.output_backward(d_o, h, W_hy)
    d_W_hy, d_b_y = np.zeros((H, Y)), np.zeros(Y)
    for row in np.ndindex(shape):
        np.testing.assert_allclose(
            o[row], [sum(h[row] * W_hy[:, k]) + b_y[k] for k in range(Y)], rtol=1e-12, atol=1e-13
        )
        np.testing.assert_allclose(d.d_h[row], [sum(d_o[row] * W_hy[i]) for i in range(H)], rtol=1e-12, atol=1e-13)
        d_W_hy += np.outer(h[row], d_o[row])
        d_b_y += d_o[row]
    np.testing.assert_allclose(d.d_W_hy, d_W_hy, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(d.d_b_y, d_b_y, rtol=1e-12, atol=1e-13)


def test_output_forward_writes_and_backward_adds():
    h, W_hy, b_y, d_o = output()
    o, d = maths.output_forward(h, W_hy, b_y), maths.output_backward(d_o, h, W_hy)
    out = np.full_like(o, 7)
    assert maths.output_forward(h, W_hy, b_y, out=out) is out
    assert np.array_equal(out, o)
    total = maths.OutputGradients(*map(np.zeros_like, d))
    for _ in range(2):
        assert maths.output_backward(d_o, h, W_hy, out=total) is total
    for twice, once in zip(total, d, strict=True):
        np.testing.assert_allclose(twice, 2 * once, rtol=1e-14)


@pytest.mark.parametrize("view", ["every other column", "batch first", "a slice of a longer window"])
def test_output_forward_writes_into_a_view(view):
    h, W_hy, b_y, _ = output()
    out = {
        "every other column": np.zeros((4, 3, 4))[..., ::2],
        "batch first": np.zeros((3, 4, 2)).swapaxes(0, 1),
        "a slice of a longer window": np.zeros((4, 9, 2))[:, 2:5],
    }[view]
    maths.output_forward(h, W_hy, b_y, out=out)
    np.testing.assert_allclose(out, h @ W_hy + b_y, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("dtype", FLOATS)
def test_output_keeps_the_dtype(dtype):
    h, W_hy, b_y, d_o = output(dtype=dtype)
    assert maths.output_forward(h, W_hy, b_y).dtype == dtype
    assert {d.dtype for d in maths.output_backward(d_o, h, W_hy)} == {np.dtype(dtype)}


@given(leading, st.integers(1, 5), st.integers(1, 4), st.integers(0, 999))
@settings(deadline=None, max_examples=40)
def test_embedding_takes_rows_and_adds_them_up_by_id(shape, V, X, seed):
    rng = np.random.default_rng(seed)
    W, ids, d_x = rng.standard_normal((V, X)), rng.integers(V, size=shape), rng.standard_normal((*shape, X))
    assert np.array_equal(maths.embedding_forward(ids, W), np.eye(V)[ids] @ W)
    expected = np.zeros_like(W)
    np.add.at(expected, ids, d_x)
    np.testing.assert_allclose(maths.embedding_backward(d_x, ids, W), expected, rtol=1e-12, atol=1e-13)


def test_embedding_forward_writes_and_backward_adds():
    rng = np.random.default_rng(0)
    W, ids, d_x = rng.standard_normal((5, 3)), rng.integers(5, size=(6, 4)), rng.standard_normal((6, 4, 3))
    out, total = np.full((6, 4, 3), 7.0), np.zeros_like(W)
    assert maths.embedding_forward(ids, W, out=out) is out
    assert np.array_equal(out, W[ids])
    for _ in range(2):
        assert maths.embedding_backward(d_x, ids, W, out=total) is total
    np.testing.assert_allclose(total, 2 * maths.embedding_backward(d_x, ids, W), rtol=1e-14)


@pytest.mark.parametrize("ids_dtype", IDS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_embedding_of_every_dtype(dtype, ids_dtype):
    rng = np.random.default_rng(0)
    W = rng.integers(9, size=(5, 3)).astype(dtype)
    ids, d_x = rng.integers(5, size=(6, 4)).astype(ids_dtype), rng.integers(9, size=(6, 4, 3)).astype(dtype)
    expected = np.zeros_like(W)
    np.add.at(expected, ids.astype(int), d_x)
    for ours, theirs in (
        (maths.embedding_forward(ids, W), W[ids.astype(int)]),
        (maths.embedding_backward(d_x, ids, W), expected),
    ):
        assert ours.dtype == dtype
        assert np.array_equal(ours, theirs)
