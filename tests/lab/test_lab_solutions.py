"""The lab's solutions are right: equal to elman.maths, or to central differences."""

from __future__ import annotations

import numpy as np
import pytest

from elman import maths
from elman.lab.gaps import load_solutions, problems

SEEDS = range(3)


def given(file, seed, number):
    with np.errstate(
        all="ignore"
    ):  # problems are made with the solutions; where one is wrong, a test must fail, not this
        return load_solutions(file), problems(file, seed)[number]


@pytest.fixture(params=[(seed, number) for seed in SEEDS for number in range(3)], ids=str)
def rnn(request):
    return given("rnn", *request.param)


@pytest.fixture(params=[(seed, number) for seed in SEEDS for number in range(3)], ids=str)
def lstm(request):
    return given("lstm", *request.param)


def close(found, right):
    np.testing.assert_allclose(found, right, rtol=1e-10, atol=1e-12)


def numeric(function, array, epsilon=1e-6):
    """∂ function() / ∂ array by central differences."""
    d = np.empty_like(array)
    for index in np.ndindex(array.shape):
        kept = array[index]
        array[index] = kept + epsilon
        above = function()
        array[index] = kept - epsilon
        below = function()
        array[index] = kept
        d[index] = (above - below) / (2 * epsilon)
    return d


def test_softmax_and_cross_entropy_are_those_of_maths(rnn):
    solutions, v = rnn
    close(solutions["softmax"](v["o"]), maths.softmax(v["o"]))
    assert np.isfinite(solutions["softmax"](v["o"] * 1000)).all()
    L, d_o = solutions["cross_entropy"](v["o"], v["y"])
    L_right, d_o_right = maths.cross_entropy(v["o"], v["y"])
    assert pytest.approx(L_right) == L
    close(d_o, d_o_right)
    L, d_o = solutions["cross_entropy"](v["o"] + 1000, v["y"])
    assert pytest.approx(L_right) == L
    np.testing.assert_allclose(d_o, d_o_right, atol=1e-10)


def test_forward_and_backward_are_those_of_maths(rnn):
    solutions, v = rnn
    h = maths.rnn_forward(v["x"], v["h"][0], v["W_xh"], v["W_hh"], v["b_h"])
    close(v["h"], h)
    close(solutions["forward_step"](v["x_t"], v["h_t"], v["W_xh"], v["W_hh"], v["b_h"]), v["h_next"])
    out = maths.output_backward(v["d_o"], h[1:], v["W_hy"])
    d = maths.rnn_backward(out.d_h, v["x"], h, v["W_xh"], v["W_hh"])
    arrays = v["x"], v["h"], v["d_o"], v["W_xh"], v["W_hh"], v["W_hy"]
    for found, right in zip(solutions["backward"](*arrays), (d.d_W_xh, d.d_W_hh, d.d_b_h, d.d_h0), strict=True):
        close(found, right)
    sums = solutions["weight_gradients"](v["x"], v["h"], v["d_a"], v["d_o"])
    for found, right in zip(sums, (d.d_W_xh, d.d_W_hh, d.d_b_h, out.d_W_hy, out.d_b_y), strict=True):
        close(found, right)
    d_x = np.zeros((len(v["x"]), v["x"].shape[1], len(v["W_hh"])))
    close(v["d_a"], maths.rnn_backward(out.d_h, d_x, h, np.eye(len(v["W_hh"])), v["W_hh"]).d_x)
    d_h = solutions["hidden_gradient"](v["d_o_t"], v["d_a_next"], v["W_hy"], v["W_hh"])
    close(solutions["preactivation_gradient"](d_h, v["h_next"]), v["d_a"][1])
    for k in range(1, len(v["x"]) + 1):
        d = maths.truncated_backward(out.d_h, v["x"], h, v["W_xh"], v["W_hh"], k1=1, k2=k)
        for found, right in zip(solutions["truncated_backward"](*arrays, k), d[:3], strict=True):
            close(found, right)


def test_clip_is_that_of_maths(rnn):
    solutions, v = rnn
    expected = maths.clip_by_norm({str(i): g for i, g in enumerate(v["gradients"])}, v["limit"]).gradients
    for found, right in zip(solutions["clip"](v["gradients"], v["limit"]), expected.values(), strict=True):
        close(found, right)
    with np.errstate(all="raise"):
        assert not any(g.any() for g in solutions["clip"]([np.zeros(3), np.zeros((2, 2))], v["limit"]))


def test_the_gradients_of_the_lstm_step_are_its_derivatives(lstm):
    solutions, v = lstm
    v = {name: np.copy(value) for name, value in v.items() if name != "case"}

    def loss():
        gates = solutions["lstm_gates"](v["x_t"], v["h_t"], v["W_xh"], v["W_hh"], v["b_h"])
        c_next, h_next = solutions["lstm_state"](v["c_t"], *gates)
        return np.sum(c_next * v["d_c_next"]) + np.sum(h_next * v["d_h"])

    d_h_before, d_c_before = solutions["lstm_state_gradients"](v["d_a"], v["d_c"], v["f"], v["W_hh"])
    np.testing.assert_allclose(d_h_before, numeric(loss, v["h_t"]), atol=1e-7)
    np.testing.assert_allclose(d_c_before, numeric(loss, v["c_t"]), atol=1e-7)
    np.testing.assert_allclose(v["d_a"].sum(axis=0), numeric(loss, v["b_h"]), atol=1e-7)
    np.testing.assert_allclose(v["x_t"].T @ v["d_a"], numeric(loss, v["W_xh"]), atol=1e-7)


def test_the_lstm_step_is_the_definition(lstm):
    solutions, v = lstm
    a = v["x_t"] @ v["W_xh"] + v["h_t"] @ v["W_hh"] + v["b_h"]
    i, f, g, o = np.split(a, 4, axis=1)

    def sigmoid(a):
        return 1 / (1 + np.exp(-a))

    c = sigmoid(f) * v["c_t"] + sigmoid(i) * np.tanh(g)
    gates = solutions["lstm_gates"](v["x_t"], v["h_t"], v["W_xh"], v["W_hh"], v["b_h"])
    c_next, h_next = solutions["lstm_state"](v["c_t"], *gates)
    close(c_next, c)
    close(h_next, sigmoid(o) * np.tanh(c))
