"""The judge on trial: it must find what is wrong, say where, and leave everything as it was."""

from __future__ import annotations

import math

import numpy as np
import pytest

from elman import errors
from elman.maths import GradientCheck, Row, gradcheck


def problem(shape=(3, 4)):
    rng = np.random.default_rng(0)
    p, q = rng.standard_normal((2, *shape))
    q = np.abs(q) + 1  # no entry's gradient is near 0
    return p, 3 * q * p**2 + q, lambda: float((q * (p**3 + p)).sum())


def test_right_gradients_pass():
    for shape in ((3, 4), (20, 30), (1,)):
        p, d_p, loss = problem(shape)
        check = gradcheck(loss, {"p": p}, {"p": d_p}).expect()
        assert check.passed
        assert check.error <= 1e-7


def test_one_wrong_entry_of_a_small_array_is_named():
    p, d_p, loss = problem()
    right = d_p[2, 1]
    d_p[2, 1] *= 1.001
    check = gradcheck(loss, {"p": p}, {"p": d_p})
    assert not check.passed
    (row,) = check.rows
    assert (row.name, row.where) == ("p", "[2, 1]")
    assert row.analytic == pytest.approx(d_p[2, 1], rel=1e-12)
    assert row.numeric == pytest.approx(right, rel=1e-7)
    assert row.error == pytest.approx(1e-3, rel=0.01)


@pytest.mark.parametrize("change", [lambda d: 1.05 * d, lambda d: -d, lambda d: 0 * d])
def test_one_wrong_entry_of_a_large_array_is_found(change):
    p, d_p, loss = problem((20, 30))
    d_p[7, 11] = change(d_p[7, 11])
    check = gradcheck(loss, {"p": p}, {"p": d_p})
    assert not check.passed
    assert check.rows[0].where.startswith("direction")


def test_the_right_parameter_is_named_among_several():
    (p, d_p, loss_p), (q, d_q, loss_q) = problem(), problem((4,))
    check = gradcheck(lambda: loss_p() + loss_q(), {"W_hh": p, "b_h": q}, {"W_hh": d_p, "b_h": -d_q})
    assert [row.error <= check.tolerance for row in check.rows] == [True, False]
    with pytest.raises(errors.GradientError) as caught:
        check.expect()
    report = str(caught.value)
    assert isinstance(caught.value, AssertionError)
    assert str(check) in report
    assert [line.split()[0] for line in report.splitlines() if line.endswith("WRONG")] == ["b_h"]
    assert all(word in report for word in ("analytic", "numeric", "relative error", "worst at"))


@pytest.mark.parametrize("shape", [(3, 4), (20, 30)])
def test_arrays_are_restored_to_the_bit(shape):
    p, d_p, loss = problem(shape)
    kept = p.copy()
    gradcheck(loss, {"p": p}, {"p": -d_p})
    assert np.array_equal(p, kept)


def test_large_arrays_need_few_evaluations():
    p, d_p, loss = problem((50, 40))
    calls = []
    gradcheck(lambda: calls.append(1) or loss(), {"p": p}, {"p": d_p})
    assert len(calls) < 100


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_coarse_floats_are_refused(dtype):
    p, d_p, loss = problem()
    with pytest.raises(errors.DtypeError, match="W_hy: expected float64"):
        gradcheck(loss, {"W_hy": p.astype(dtype)}, {"W_hy": d_p.astype(dtype)})


def test_a_gradient_of_another_shape_is_refused():
    p, d_p, loss = problem()
    with pytest.raises(errors.ShapeError, match=r"gradient of W_hy: expected shape \(3, 4\), got shape \(4, 3\)"):
        gradcheck(loss, {"W_hy": p}, {"W_hy": d_p.T})


@pytest.mark.parametrize("shape", [(3, 4), (20, 30)])
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("index", [(0, 0), (2, 3)])
def test_a_gradient_that_is_not_finite_does_not_pass(shape, value, index):
    p, d_p, loss = problem(shape)
    d_p[index] = value
    with np.errstate(invalid="ignore"):
        check = gradcheck(loss, {"p": p}, {"p": d_p})
    assert not check.passed
    with pytest.raises(errors.GradientError, match="WRONG"):
        check.expect()
    assert check.rows[0].where == (str(list(index)) if p.size < 64 else "direction 0")


@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_loss_that_is_not_finite_does_not_pass(index):
    p = np.ones(3)
    loss = lambda: math.nan if p[index] < 1 else float(p.sum())  # noqa: E731
    check = gradcheck(loss, {"p": p}, {"p": np.ones(3)})
    assert not check.passed
    assert check.rows[0].where == f"[{index}]"


def test_the_worst_error_of_all_rows_is_nan_where_one_is():
    rows = [Row("p", "[0]", 1.0, 1.0, 0.0), Row("q", "[0]", math.nan, 1.0, math.nan)]
    for order in (rows, rows[::-1]):
        check = GradientCheck(order, 1e-6)
        assert not check.passed
        assert math.isnan(check.error)


def test_a_gradient_of_zero_passes_where_the_loss_does_not_move():
    p = np.ones(3)
    assert gradcheck(lambda: 4.0, {"p": p}, {"p": np.zeros(3)}).passed
    assert not gradcheck(lambda: 4.0, {"p": p}, {"p": np.full(3, 1e-3)}).passed


def test_the_rounding_of_a_large_loss_is_no_error():
    p = np.linspace(-1, 1, 9)
    for factor, right in ((2e-4, True), (4e-4, False)):
        check = gradcheck(lambda: 1000 + 1e-4 * float((p**2).sum()), {"p": p}, {"p": factor * p})
        assert check.passed is right
