"""Initializers: what they promise, from the generator that is passed in, and from nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from elman.maths import INITIALIZERS, glorot, identity, initializers, normal, orthogonal, uniform

SHAPES = [(40, 40), (60, 25), (25, 60), (1, 7)]
FLOATS = [np.float16, np.float32, np.float64, np.longdouble]


def rng():
    return np.random.default_rng(3)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("gain", [1.0, 0.3, 2.0])
def test_every_singular_value_of_an_orthogonal_draw_is_the_gain(shape, gain):
    W = orthogonal(rng(), shape, gain=gain)
    assert W.shape == shape
    assert W.flags.c_contiguous
    np.testing.assert_allclose(np.linalg.svd(W, compute_uv=False), gain, rtol=1e-12)


def test_orthogonal_draws_are_uniform_among_the_orthogonal_matrices():
    # without the signs of R's diagonal the mean of the trace is not 0, and that of its square not 1
    draws = rng()
    traces = np.array([np.trace(orthogonal(draws, (3, 3))) for _ in range(2000)])
    assert abs(traces.mean()) < 0.1
    assert abs((traces**2).mean() - 1) < 0.15


@pytest.mark.parametrize("shape", SHAPES)
def test_identity_is_the_gain_on_the_diagonal(shape):
    W = identity(rng(), shape, gain=0.5)
    assert np.array_equal(W, [[0.5 if i == j else 0.0 for j in range(shape[1])] for i in range(shape[0])])


@pytest.mark.parametrize(("initializer", "bound"), [(glorot, 2 * np.sqrt(6 / 300)), (uniform, 2 / np.sqrt(200))])
def test_uniform_draws_fill_their_bounds(initializer, bound):
    W = initializer(rng(), (100, 200), gain=2)
    assert np.abs(W).max() <= bound
    assert np.abs(W).max() > 0.999 * bound
    assert W.var() == pytest.approx(bound**2 / 3, rel=0.03)
    assert abs(W.mean()) < 0.02 * bound


def test_glorot_has_the_variance_of_its_paper():
    assert glorot(rng(), (100, 200)).var() == pytest.approx(2 / 300, rel=0.03)


def test_normal_has_the_gain_as_its_deviation():
    W = normal(rng(), (200, 100), gain=0.2)
    assert W.std() == pytest.approx(0.2, rel=0.03)
    assert abs(W.mean()) < 0.01


@pytest.mark.parametrize("name", INITIALIZERS)
def test_the_same_generator_draws_the_same_and_goes_on(name):
    draw = INITIALIZERS[name]
    first, second = rng(), rng()
    assert np.array_equal(draw(first, (5, 4)), draw(second, (5, 4)))
    if name != "identity":
        assert not np.array_equal(draw(first, (5, 4)), draw(rng(), (5, 4)))


@pytest.mark.parametrize("name", INITIALIZERS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("gain", [0.5, np.float64(0.5)], ids=["gain", "numpy's gain"])
def test_dtype_is_what_was_asked_for(name, dtype, gain):
    W = INITIALIZERS[name](rng(), (4, 3), gain=gain, dtype=dtype)
    assert W.dtype == dtype
    np.testing.assert_allclose(W.astype(float), INITIALIZERS[name](rng(), (4, 3), gain=0.5), rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize("shape", [(2049, 2049), (2100, 30), (30, 2100)])
def test_a_large_orthogonal_draw_is_orthogonal_too(shape):
    W = orthogonal(rng(), shape, gain=2, dtype=np.float32)
    assert (W.shape, W.dtype, W.flags.c_contiguous) == (shape, np.float32, True)
    wide = W if shape[0] <= shape[1] else W.T
    np.testing.assert_allclose(wide @ wide.T, 4 * np.eye(len(wide)), atol=1e-4)
    assert W.std() == pytest.approx(2 / np.sqrt(max(shape)), rel=0.01)
    assert np.abs(W).max() < 8 * W.std()  # as of normal numbers: no unit is fed by few others


def test_the_eigenvalues_of_a_large_orthogonal_draw_are_spread_over_the_unit_circle():
    angles = np.sort(np.angle(np.linalg.eigvals(initializers._fast_orthogonal(rng(), 300))))
    np.testing.assert_allclose(angles, np.linspace(-np.pi, np.pi, 300), atol=0.15)
