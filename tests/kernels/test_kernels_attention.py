"""Compiled steps of attention and of a layer against elman.kernels.stepwise, which calls elman.maths."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels_tools import FLOATS

from elman.kernels import attention, stepwise
from elman.kernels.stepwise import Memory

WIDTH = st.integers(1, 40)


def attended(module, kind, sizes, T, B, S, dtype, lengths, rows=slice(None)):
    """Outputs, weights and all gradients of S steps of attention, computed by one of the two modules."""
    H, K, M, F = sizes
    rng = np.random.default_rng(0)

    def normal(*shape):
        return rng.standard_normal(shape).astype(dtype)

    p = {"W_q": normal(H, K), "W_c": normal(H + M, F) / 2}
    if kind == "additive":
        p["w_a"] = normal(K)
    keys, values, h, d = normal(T, B, K), normal(T, B, M), normal(S, B, H), normal(S, B, F)
    layer = module.make_attention(H, K, M, F, np.dtype(dtype))
    layer.pack(p)
    steps = layer.steps(Memory(keys[:, rows], values[:, rows], lengths[np.newaxis, rows]), S)
    found = [np.array(steps.forward(t, h[t, rows])) for t in range(S)]
    alpha = [steps.weights(t) for t in range(S)]
    d_h = [np.array(steps.backward(t, d[t, rows])) for t in reversed(range(S))]
    gradients = {name: np.full_like(array, 9) for name, array in p.items()}  # which are overwritten
    d_keys, d_values = steps.finish(gradients)
    return {"h_tilde": found, "alpha": alpha, "d_h": d_h, "d_keys": d_keys, "d_values": d_values, **gradients}


def compare(kind, sizes, T, B, S, lengths):
    expected = attended(stepwise, kind, sizes, T, B, S, np.float64, lengths)
    for dtype, close in ((np.float64, 1e-11), (np.float32, 2e-4)):
        got = attended(attention, kind, sizes, T, B, S, dtype, lengths)
        for name, value in expected.items():
            scale = max(1, np.abs(value).max(initial=0))
            np.testing.assert_allclose(got[name], value, rtol=0, atol=close * scale, err_msg=f"{name}, {dtype}")


@pytest.mark.parametrize("kind", ["dot", "additive"])
def test_a_small_attention_of_each_kind(kind):
    compare(kind, (3, 5, 18, 4), T=6, B=4, S=3, lengths=np.array([6, 1, 0, 4]))


@given(
    kind=st.sampled_from(["dot", "additive"]), sizes=st.tuples(WIDTH, WIDTH, WIDTH, WIDTH), T=st.integers(1, 9),
    B=st.integers(1, 9), S=st.integers(1, 4), seed=st.integers(0, 99),
)  # fmt: skip
@settings(max_examples=30, deadline=None)
def test_any_shape(kind, sizes, T, B, S, seed):
    compare(kind, sizes, T, B, S, np.random.default_rng(seed).integers(0, T + 1, B))


@pytest.mark.parametrize("kind", ["dot", "additive"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_a_row_has_the_same_bits_alone_and_beside_others(kind, dtype):
    lengths, sizes = np.array([6, 2, 0, 5, 6, 3, 1]), (17, 9, 33, 17)
    together = attended(attention, kind, sizes, 6, 7, 2, dtype, lengths)
    for row in range(7):
        alone = attended(attention, kind, sizes, 6, 7, 2, dtype, lengths, rows=slice(row, row + 1))
        for name in ("h_tilde", "d_h"):
            for one, all_rows in zip(alone[name], together[name], strict=True):
                assert one[0].tobytes() == all_rows[row].tobytes()
