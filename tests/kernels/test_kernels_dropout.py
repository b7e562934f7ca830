"""Compiled dropout masks are those of elman.maths to the bit."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels_tools import FLOATS, same_bits

from elman.kernels import dropout
from elman.maths.dropout import dropout_mask


@settings(max_examples=100)
@given(
    st.integers(0, 2**64 - 1), st.floats(0, 0.999), st.integers(0, 5), st.lists(st.integers(0, 2**31), max_size=6),
    st.integers(0, 70), st.sampled_from((*FLOATS, np.float16)),
)  # fmt: skip
def test_masks_are_those_of_maths(key, share, T, rows, width, dtype):
    rows = np.array(rows, np.int64)
    ours = dropout.dropout_mask(key, share, T, rows, width, dtype)
    assert same_bits(ours, dropout_mask(key, share, T, rows, width, dtype))
