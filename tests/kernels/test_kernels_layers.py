"""The compiled output layer and embedding against elman.maths."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels_tools import FLOATS, HIDDEN, IDS, LAYOUTS, assert_close, laid_out

from elman.kernels import layers
from elman.maths import layers as exact_layers

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
    half = np.random.default_rng(0).standard_normal((4, 5)).astype(np.float16)
    assert layers.output_forward(half, half.T, half[:, 0]).dtype == np.float16
    assert layers.embedding_backward(half, np.arange(4), half).dtype == np.float16
