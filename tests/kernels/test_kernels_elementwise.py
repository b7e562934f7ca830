"""exp and tanh over their whole range: the bounds that elementwise.py states, in units in the last place."""

from __future__ import annotations

import re

import numba
import numpy as np
import pytest
from kernels_tools import FLOATS, same_bits

from elman.kernels import elementwise
from elman.kernels.compile import FASTMATH, kernel

LEAST = {np.float32: -87.0, np.float64: -708.0}  # below, exp is 0: what would follow is close to the smallest number
EXACT = np.longdouble  # 11 bits more than float64, where the machine has them
WIDER = np.finfo(EXACT).nmant > np.finfo(np.float64).nmant
ULP_EXP, ULP_TANH = 2, 4


@kernel
def _tanh(x, out):
    for i in range(x.size):
        out[i] = elementwise.tanh(x[i])


@kernel
def _exp(x, out):
    for i in range(x.size):
        out[i] = elementwise.exp(x[i])


@kernel
def _activate(a, code):
    elementwise.activate(a, code)


@kernel
def _activate_backward(d, h, code):
    elementwise.activate_backward(d, h, code)


def computed(function, x):
    out = np.empty_like(x)
    function(x, out)
    return out


def between(low, high, dtype):
    """Positive numbers of the dtype: of float32 every 97th that there is, of float64 as many, even in exponent."""
    if dtype == np.float32:
        start, stop = np.array([low, high], np.float32).view(np.int32)
        return np.arange(start, stop, 97, dtype=np.int32).view(np.float32)
    rng = np.random.default_rng(0)
    return np.concatenate([np.exp(rng.uniform(np.log(low), np.log(high), 500_000)), rng.uniform(low, high, 500_000)])


def ulps(ours, exact):
    return np.abs(ours.astype(EXACT) - exact) / np.spacing(np.abs(exact.astype(ours.dtype))).astype(EXACT)


def test_the_docstring_states_the_bounds_that_are_tested():
    stated = re.search(r"exp within (\d+) units in the last place, tanh within (\d+)", elementwise.__doc__)
    assert stated is not None
    assert (int(stated[1]), int(stated[2])) == (ULP_EXP, ULP_TANH)


@pytest.mark.parametrize("dtype", FLOATS)
def test_error_of_tanh(dtype):
    x = between(2e-3 if dtype == np.float32 else 1e-300, 12, dtype)
    if dtype == np.float32:
        x = np.concatenate([np.geomspace(np.finfo(dtype).tiny, 2e-3, 300_000).astype(dtype), x])
    y = computed(_tanh, x)
    exact = np.tanh(x.astype(EXACT))
    assert ulps(y, exact).max() <= ULP_TANH + (0 if WIDER or dtype == np.float32 else 1)
    assert same_bits(computed(_tanh, -x), -y), "tanh is odd"
    assert (y <= 1).all()
    x.sort()
    y = computed(_tanh, x)
    assert (np.diff(y) >= -2 * ULP_TANH * np.spacing(y[1:])).all(), "it falls by more than two errors"


@pytest.mark.parametrize("dtype", FLOATS)
def test_error_of_exp(dtype):
    least = LEAST[dtype]
    x = -between(1e-4 if dtype == np.float32 else 1e-300, -least, dtype)
    exact = np.exp(x.astype(EXACT))
    assert ulps(computed(_exp, x), exact).max() <= ULP_EXP + (0 if WIDER or dtype == np.float32 else 1)
    below = dtype(least) * np.array([1, 1 + 1e-6, 1.001, 1.5, 1e3, np.inf], dtype)
    y = computed(_exp, below)
    assert y[0] > 0
    assert (y[1:] == 0).all()
    assert np.exp(EXACT(least)) < 1.5 * np.finfo(dtype).tiny * (1 if dtype == np.float32 else 200)


@pytest.mark.parametrize("dtype", FLOATS)
def test_special_values(dtype):
    tiny = np.finfo(dtype).smallest_subnormal
    x = np.array([0, -0.0, np.inf, -np.inf, np.nan, tiny, -tiny, np.finfo(dtype).max, -np.finfo(dtype).max], dtype)
    for n in (1, 2, 5, 9):  # whole vectors, and the rest after them
        np.testing.assert_array_equal(computed(_tanh, x[:n]), np.tanh(x)[:n])
    expected = np.array([1, 1, 0, np.nan, 1], dtype)
    np.testing.assert_array_equal(computed(_exp, np.array([0, -0.0, -np.inf, np.nan, -tiny], dtype)), expected)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("sign", [0, 1])
def test_any_nan_stays_nan(dtype, sign):
    """Of either sign and with any payload, in every lane."""
    kind = f"u{np.dtype(dtype).itemsize}"
    quiet, top = (0x7FC00000, 31) if kind == "u4" else (0x7FF8000000000000, 63)
    x = np.array([(quiet | payload | sign << top) for payload in (0, 1, 0x12345, 0x3FFFF)] * 5, kind).view(dtype)
    for function in (_tanh, _exp):
        assert np.isnan(computed(function, x)).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_number_has_the_same_bits_in_every_place(dtype):
    """In a vector, in the rest after the last vector, and alone."""
    x = -np.random.default_rng(0).uniform(0, 20, 67).astype(dtype)
    for function in (_tanh, _exp):
        whole = computed(function, x)
        alone = np.concatenate([computed(function, x[i : i + 1]) for i in range(len(x))])
        assert same_bits(whole, alone)


@pytest.mark.parametrize("dtype", FLOATS)
def test_activations_and_their_derivatives(dtype):
    a = np.concatenate([np.linspace(-60, 60, 4001), [0, np.inf, -np.inf, np.nan]]).astype(dtype)
    wide = a.astype(EXACT)
    with np.errstate(over="ignore", invalid="ignore"):
        exact = {
            "tanh": np.tanh(wide),
            "relu": np.where(wide < 0, 0, wide),
            "sigmoid": 1 / (1 + np.exp(-wide)),
            "identity": wide,
        }
    slopes = {"tanh": lambda h: 1 - h * h, "relu": lambda h: np.where(np.isnan(h), 0, h > 0),
              "sigmoid": lambda h: h * (1 - h), "identity": np.ones_like}  # fmt: skip
    assert set(elementwise.CODES) == set(exact)
    for name, code in elementwise.CODES.items():
        h = a.copy()
        _activate(h, code)
        np.testing.assert_allclose(h, exact[name].astype(dtype), rtol=0, atol=2 * np.finfo(dtype).eps, err_msg=name)
        d = np.full_like(h, 3)
        _activate_backward(d, h, code)
        with np.errstate(invalid="ignore"):
            np.testing.assert_allclose(d, 3 * slopes[name](h), rtol=1e-6, atol=4 * np.finfo(dtype).eps, err_msg=name)
    assert {"contract"} == FASTMATH, "any other flag reorders sums or assumes that there is no NaN"
    assert numba.version_info.short >= (0, 61)
