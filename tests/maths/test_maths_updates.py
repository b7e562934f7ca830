"""Clipping and the step of gradient descent, as anyone may call them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from elman import maths
from elman.errors import ArgumentError, DtypeError, RangeError, ShapeError

SHAPES = {"W_xh": (2, 3), "W_hh": (3, 3), "b_h": (3,)}


def drawn(seed):
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(shape) for name, shape in SHAPES.items()}


@pytest.mark.parametrize("share", [0.1, 0.5, 0.999])
def test_what_is_too_long_is_shortened_to_the_limit_and_keeps_its_direction(share):
    d = drawn(0)
    norm = math.sqrt(sum((g**2).sum() for g in d.values()))
    clipped = maths.clip_by_norm(d, share * norm)
    assert clipped.norm == pytest.approx(norm)
    assert clipped.scale == pytest.approx(share)
    assert maths.clip_by_norm(clipped.gradients, math.inf).norm == pytest.approx(share * norm)
    for name, g in d.items():
        np.testing.assert_allclose(clipped.gradients[name], share * g, rtol=1e-12)


@pytest.mark.parametrize("limit", [1e6, math.inf])
def test_what_is_short_enough_stays_as_it_is(limit):
    d = drawn(0)
    clipped = maths.clip_by_norm(d, limit)
    assert clipped.scale == 1
    for name, g in d.items():
        np.testing.assert_array_equal(clipped.gradients[name], g)


def test_zeros_stay_zeros_and_nan_stays_visible():
    with np.errstate(all="raise"):
        clipped = maths.clip_by_norm({"b_h": np.zeros(3)}, 1.0)
    assert (clipped.norm, clipped.scale) == (0, 1)
    assert not clipped.gradients["b_h"].any()
    assert math.isnan(maths.clip_by_norm({"b_h": np.array([np.nan, 1])}, 1.0).norm)


def test_a_step_goes_against_the_gradient_and_changes_nothing_in_place():
    p, d = drawn(0), drawn(1)
    after = maths.sgd_step(p, d, 0.25)
    assert list(after) == list(p)
    for name in SHAPES:
        np.testing.assert_allclose((p[name] - after[name]) / d[name], 0.25, rtol=1e-9)
        np.testing.assert_array_equal(p[name], drawn(0)[name])
        np.testing.assert_array_equal(d[name], drawn(1)[name])


def test_a_small_step_lowers_the_loss_as_much_as_the_gradient_says():
    rng = np.random.default_rng(0)
    p, x, y = drawn(0), np.array([[0], [1], [1]]), np.array([[1], [2], [0]])
    p |= {"W_hy": rng.standard_normal((3, 3)), "b_y": rng.standard_normal(3)}

    def passes(p):
        h = maths.rnn_forward(x, None, p["W_xh"], p["W_hh"], p["b_h"])
        L, d_o = maths.cross_entropy(maths.output_forward(h[1:], p["W_hy"], p["b_y"]), y, normalizer=3)
        output = maths.output_backward(d_o, h[1:], p["W_hy"])
        cell = maths.rnn_backward(output.d_h, x, h, p["W_xh"], p["W_hh"])
        return L, {name[2:]: g for name, g in {**output._asdict(), **cell._asdict()}.items() if name[2:] in p}

    L, d = passes(p)
    clipped = maths.clip_by_norm(d, 0.5)
    fallen = L - passes(maths.sgd_step(p, clipped.gradients, 1e-5))[0]
    assert fallen == pytest.approx(1e-5 * clipped.scale * clipped.norm**2, rel=1e-3)


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda p, d: maths.clip_by_norm(list(d.values()), 1.0), ArgumentError, "gradients: expected a mapping of arrays"),
    (lambda p, d: maths.clip_by_norm({}, 1.0), ArgumentError, "gradients: expected a mapping of arrays"),
    (lambda p, d: maths.clip_by_norm({"b_h": [1.0]}, 1.0), DtypeError, "'b_h'.*floating-point numbers, got list"),
    (lambda p, d: maths.clip_by_norm({"b_h": np.arange(3)}, 1.0), DtypeError, "'b_h'.*, got int64"),
    (lambda p, d: maths.clip_by_norm(d, 0), RangeError, "limit: expected a number above 0, got 0"),
    (lambda p, d: maths.clip_by_norm(d, math.nan), RangeError, "limit: expected a number above 0, got nan"),
    (lambda p, d: maths.sgd_step(p, d, "0.1"), RangeError, "rate: expected a number above 0, got '0.1'"),
    (lambda p, d: maths.sgd_step({**p, "W_hy": np.ones(1)}, d, 0.1), ShapeError, "'W_hy'.*got nothing"),
    (lambda p, d: maths.sgd_step(p, {**d, "b_h": np.ones(4)}, 0.1), ShapeError,
     r"gradients\['b_h'\]: expected shape \(3,\) of the parameter, got shape \(4,\)"),
    (lambda p, d: maths.sgd_step(p, rate=0.1), ArgumentError, "sgd_step: missing"),
])  # fmt: skip
def test_arguments_that_do_not_fit_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(drawn(0), drawn(1))
