"""Quantized weights are as close to the original as their precision allows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from elman.errors import RunError
from elman.exchange.quantize import quantize, store
from elman.network import Parameters, language_network

numbers = st.floats(-1e3, 1e3, width=32).filter(lambda value: value == 0 or abs(value) > 1e-30)


@given(hnp.arrays(np.float32, hnp.array_shapes(min_dims=2, max_dims=2, max_side=9), elements=numbers))
def test_an_entry_in_int8_is_off_by_half_a_scale_at_most(W):
    scales, q = quantize(W)
    assert (scales.dtype, q.dtype) == (np.float32, np.int8)
    assert (q >= -127).all()
    off = np.abs(q * scales.astype(np.float64) - W)
    assert (off <= scales / 2 * (1 + 1e-5)).all()
    used = W.any(axis=0)
    assert (np.abs(q).max(axis=0)[used] == 127).all()  # the whole range, in every column
    assert (q[:, ~used] == 0).all()


def parameters(rng: np.random.Generator, dtype: str = "float32") -> Parameters:
    p = Parameters(language_network(5, 4, 2).shapes, dtype)
    p.buffer[:] = rng.normal(size=p.buffer.size)
    return p


def test_the_bytes_decode_to_the_returned_parameters():
    p = parameters(np.random.default_rng(0))
    data, back = store(p, "float32")
    assert data == p.buffer.astype("<f4").tobytes()
    np.testing.assert_array_equal(back.buffer, p.buffer)
    data, back = store(p, "float16")
    np.testing.assert_array_equal(back.buffer, np.frombuffer(data, "<f2").astype(np.float32))
    np.testing.assert_allclose(back.buffer, p.buffer, rtol=2**-11, atol=1e-7)
    matrices = [array for array in p.values() if array.ndim == 2]
    entries, columns = sum(W.size for W in matrices), sum(W.shape[1] for W in matrices)
    data, back = store(p, "int8")
    assert len(data) == entries + 4 * columns + 4 * (p.buffer.size - entries)
    scales = np.frombuffer(data, "<f4", 4)
    np.testing.assert_array_equal(back["layers.0.W_xh"], np.frombuffer(data, np.int8, 20, 16).reshape(5, 4) * scales)
    np.testing.assert_array_equal(back["head.b_y"], p["head.b_y"])


def test_a_float64_model_becomes_float32():
    p = parameters(np.random.default_rng(1), "float64")
    np.testing.assert_array_equal(store(p, "float32").parameters.buffer, p.buffer.astype(np.float32))


@pytest.mark.parametrize(("precision", "value"), [("float16", 1e5), ("float32", 1e39)])
def test_a_number_that_is_too_large_is_refused(precision, value):
    p = parameters(np.random.default_rng(2), "float64")
    p["layers.1.W_hh"][0, 0] = value
    with pytest.raises(RunError, match=rf"layers\.1\.W_hh has numbers that are too large for {precision}"):
        store(p, precision)
