"""The compiled optimizers and clipping against elman.maths.optimizers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels_tools import FLOATS, Guard, same_bits

from elman.kernels import optimizers
from elman.kernels.threads import set_threads
from elman.maths import optimizers as exact
from elman.maths.optimizers import OPTIMIZERS, Rates

KERNELS = ("_sgd", "_momentum", "_rmsprop_or_adagrad", "_adam", "_square", "_scale")
STEPS = 8
# each step rounds a handful of times; where g + λ p nearly cancels and is then divided by its own mean size, more
ULPS = 32 * STEPS


def steps(update, name, dtype, *, size=1003, weight_decay=0.0, momentum=0.9, decay=0.999, rate=0.01, epsilon=1e-8):
    rng = np.random.default_rng(0)
    p = rng.standard_normal(size).astype(np.float32).astype(dtype)  # the same numbers for both dtypes
    memory = [np.zeros(size, dtype) for _ in OPTIMIZERS[name].memory]
    for t in range(1, STEPS + 1):
        g = rng.standard_normal(size) * np.exp(rng.uniform(-8, 1, size))
        g[:: t + 2] = 0
        g = g.astype(np.float32).astype(dtype)
        update(name, p, g, Rates(rate / t, t, momentum, decay, epsilon, weight_decay), memory)
    return [p, *memory]


def assert_steps(name, dtype, ulps=ULPS, **rates):
    for ours, theirs in zip(steps(optimizers.update, name, dtype, **rates),
                            steps(exact.update, name, np.float64, **rates), strict=True):  # fmt: skip
        assert ours.dtype == dtype
        scale = np.abs(theirs) + 1e-3 * np.abs(theirs).max()  # p may pass close to 0 on its way
        assert (np.abs(ours - theirs) <= ulps * np.finfo(dtype).eps * scale).all()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_is_that_of_maths(name, dtype, weight_decay):
    assert_steps(name, dtype, weight_decay=weight_decay)
    assert_steps(name, dtype, weight_decay=weight_decay, momentum=0.5, decay=0.9, rate=0.3, epsilon=1e-3)


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(sorted(OPTIMIZERS)), st.sampled_from(FLOATS), st.integers(1, 70),
    st.just(0.0) | st.floats(1e-4, 0.3), st.just(0.0) | st.floats(1e-3, 0.99),
    st.floats(0.5, 0.9999), st.floats(1e-4, 0.5),
)  # fmt: skip
def test_any_rates(name, dtype, size, weight_decay, momentum, decay, rate):
    rates = {"weight_decay": weight_decay, "momentum": momentum, "decay": decay, "rate": rate, "epsilon": 1e-3}
    assert_steps(name, dtype, 100 * ULPS, size=size, **rates)  # some cancel nearly all of g + λ p


def test_what_a_mean_keeps_and_what_it_adds_sum_to_one_in_float32():
    """float32(1) - float32(0.999) is 1.3e-5 off: a constant gradient must be its own mean, to the last bits."""
    p, g = np.zeros(4, np.float32), np.full(4, 2, np.float32)
    m, v = np.zeros((2, 4), np.float32)
    optimizers.update("adam", p, g, Rates(0.001, 1, 0.9, 0.999, 0.0, 0.0), [m, v])
    np.testing.assert_allclose(m, 0.2, rtol=3e-7)
    np.testing.assert_allclose(v, 0.004, rtol=3e-7)
    np.testing.assert_allclose(p, -0.001, rtol=5e-7)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 1003])
@pytest.mark.parametrize("limit", [1e-3, 5.0, 1e9])
def test_clip_by_norm(dtype, size, limit):
    g = np.random.default_rng(0).standard_normal(size).astype(dtype)
    ours, theirs = g.copy(), g.astype(np.float64)
    norm, expected = optimizers.clip_in_place(ours, limit), exact.clip_in_place(theirs, limit)
    assert isinstance(norm, float)
    assert math.isclose(norm, expected, rel_tol=4e-15)
    np.testing.assert_allclose(ours, theirs, rtol=4 * np.finfo(dtype).eps)
    assert norm > limit or same_bits(ours, g)


def test_a_norm_beyond_float32_is_still_a_norm():
    g = np.full(4, 1e30, np.float32)
    assert math.isclose(optimizers.clip_in_place(g, 1.0), 2e30, rel_tol=1e-6)
    np.testing.assert_allclose(g, 0.5, rtol=1e-6)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("at", [0, 4, 9])
def test_nan_and_infinity_are_seen(dtype, at):
    g = np.ones(10, dtype)
    g[at] = np.nan
    assert math.isnan(optimizers.clip_in_place(g, 1.0))
    assert np.isnan(g).sum() == 1, "not shortened: the norm says nothing"
    g[at] = np.inf
    with np.errstate(invalid="ignore"):
        assert optimizers.clip_in_place(g, 1.0) == math.inf
    for name in OPTIMIZERS:
        p, g = np.ones(10, dtype), np.ones(10, dtype)
        g[at] = np.nan
        memory = [np.zeros(10, dtype) for _ in OPTIMIZERS[name].memory]
        optimizers.update(name, p, g, Rates(0.1, 1, 0.9, 0.9, 1e-8, 0.1), memory)
        assert np.flatnonzero(np.isnan(p)).tolist() == [at], name


def test_clip_by_value_is_that_of_maths():
    assert optimizers.clip_by_value is exact.clip_by_value


@pytest.mark.parametrize("dtype", FLOATS)
def test_kernels_read_and_write_only_their_arrays(dtype, monkeypatch):
    expected = [steps(optimizers.update, name, dtype, size=77, weight_decay=0.1) for name in OPTIMIZERS]
    for kernel in KERNELS:
        monkeypatch.setattr(optimizers, kernel, Guard(getattr(optimizers, kernel)))
    for name, theirs in zip(OPTIMIZERS, expected, strict=True):
        ours = steps(optimizers.update, name, dtype, size=77, weight_decay=0.1)
        assert all(same_bits(a, b) for a, b in zip(ours, theirs, strict=True))
    optimizers.clip_in_place(np.ones(7, dtype), 0.1)
    assert all(getattr(optimizers, kernel).calls for kernel in KERNELS)


def test_dtypes_that_are_not_compiled_run_in_maths():
    p, g = np.ones(3, np.float16), np.ones(3, np.float16)
    optimizers.update("sgd", p, g, Rates(0.5, 1, 0.9, 0.9, 1e-8, 0.0), [])
    assert (p == 0.5).all()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_large_buffer_gives_the_same_bits_with_any_number_of_threads(name, monkeypatch):
    whole = steps(optimizers.update, name, np.float32)
    monkeypatch.setattr(optimizers, "CHUNK", 100)  # 11 chunks, the last one shorter
    g = np.random.default_rng(1).standard_normal(1003).astype(np.float32)
    found = []
    for count in (1, 3):
        set_threads(count)
        clipped, total = g.copy(), g.copy()
        norm = optimizers.clip_in_place(clipped, 0.5)
        optimizers.add_up(total, [g, clipped])
        found.append([np.array(norm), clipped, total, *steps(optimizers.update, name, np.float32)])
    set_threads(None)
    assert all(same_bits(a, b) for a, b in zip(*found, strict=True))
    for chunked, at_once in zip(found[0][3:], whole, strict=True):
        # not to the bit: the compiler may fuse other multiplications and additions where a vector is not full
        np.testing.assert_allclose(chunked, at_once, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(np.linalg.norm(found[0][1]), 0.5, rtol=1e-5)
    np.testing.assert_allclose(found[0][2], g + g + found[0][1], rtol=1e-6)
