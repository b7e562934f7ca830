"""Spectra and exponents against SciPy, determinants and closed forms; histories against rows that were written down."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from look_models import drawn_model
from look_networks import random_network, random_text, scaled_orthogonal

from elman.data import CharVocabulary
from elman.errors import ArgumentError, RangeError
from elman.look import (
    clipped_steps,
    clipping,
    gradient_history,
    jacobian_spectra,
    layer_saturation,
    lyapunov_exponents,
    recurrent_spectra,
    saturation,
    spectrum,
    trace,
)
from elman.network import Batch


def one_layer(network, p, T):
    (layer,) = trace(network, p, random_text(T)[0]).layers
    return layer


@pytest.mark.parametrize("gain", [0.5, 1.0, 1.7])
def test_the_exponents_of_a_scaled_orthogonal_linear_network_are_the_log_of_the_gain(gain):
    layer = one_layer(*scaled_orthogonal(gain), 20)
    np.testing.assert_allclose(lyapunov_exponents(layer), np.log(gain), atol=1e-12)


def test_the_exponents_add_up_to_the_mean_log_determinant():
    layer = one_layer(*random_network(H=7, scale=0.8), 40)
    exponents = lyapunov_exponents(layer)
    determinants = [np.linalg.slogdet(layer.jacobian(t))[1] for t in range(40)]
    assert exponents.sum() == pytest.approx(np.mean(determinants))
    assert (np.diff(exponents) <= 0).all()


def test_the_exponents_of_a_linear_network_are_those_of_its_eigenvalues():
    network, p = random_network(H=4, activation="identity")
    p["layers.0.W_hh"][:] = [[0.9, 0.3, 0, 0.1], [0, -0.5, 0.2, 0], [0, 0, 0.2, 0.4], [0, 0, 0, 0.05]]
    layer = one_layer(network, p, 400)
    found = lyapunov_exponents(layer)
    np.testing.assert_allclose(found, np.log([0.9, 0.5, 0.2, 0.05]), atol=0.02)


def test_the_largest_exponents_alone_are_the_same():
    layer = one_layer(*random_network(H=7), 300)
    every, some = lyapunov_exponents(layer), lyapunov_exponents(layer, count=3)
    np.testing.assert_allclose(some, every[:3], atol=0.02)


def test_a_direction_that_a_relu_cuts_off_is_forgotten_at_once():
    network, p = random_network(activation="relu")
    p["layers.0.b_h"][:2] = -100
    layer = one_layer(network, p, 5)
    exponents = lyapunov_exponents(layer)
    assert np.isneginf(exponents[-2:]).all()


@pytest.mark.parametrize("count", [0, 7])
def test_no_more_exponents_than_units(count):
    layer = one_layer(*random_network(H=6), 5)
    with pytest.raises(RangeError, match="count: expected 1 to 6"):
        lyapunov_exponents(layer, count=count)


def test_the_spectrum_is_scipy_s():
    W = np.random.default_rng(0).standard_normal((9, 9))
    found = spectrum(W.astype(np.float32))
    np.testing.assert_allclose(found.singular, scipy.linalg.svdvals(W), rtol=1e-5)
    theirs = scipy.linalg.eigvals(W)
    np.testing.assert_allclose(np.sort_complex(found.eigenvalues), np.sort_complex(theirs), rtol=1e-4)
    assert found.radius == pytest.approx(abs(theirs).max(), rel=1e-5)
    assert (np.diff(abs(found.eigenvalues)) <= 1e-12).all()


def test_the_jacobians_are_those_of_steps_spread_over_the_text():
    layer = one_layer(*random_network(), 40)
    found = jacobian_spectra(layer, count=4)
    assert found.steps.tolist() == [0, 13, 26, 39]
    for i, t in enumerate(found.steps):
        J = layer.p["W_hh"] @ np.diag(1 - layer.h[t + 1] ** 2)
        np.testing.assert_allclose(layer.jacobian(t), J, rtol=1e-13)
        np.testing.assert_allclose(found.spectra.singular[i], scipy.linalg.svdvals(J))
    assert jacobian_spectra(one_layer(*random_network(), 2)).steps.tolist() == [0, 1]
    with pytest.raises(RangeError, match="count"):
        jacobian_spectra(layer, count=0)


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_the_step_jacobians_of_gated_cells_are_derivatives_of_the_state(cell):
    """The judge is central differences through one step of the forward pass."""
    network, p = random_network(cell=cell, H=4)
    x = random_text(5)[0]
    (layer,) = trace(network, p, x).layers
    s, (P, _, H) = layer.s, layer.s.shape
    for t in range(5):
        J = layer.jacobian(t)
        assert J.shape == (P * H, P * H)
        for i in range(P * H):
            after = []
            for nudge in (1e-6, -1e-6):
                state = s[:, t].copy()
                state[np.unravel_index(i, (P, H))] += nudge
                after.append(trace(network, p, x[t : t + 1], state=state[np.newaxis, :, np.newaxis]).layers[0].s[:, 1])
            np.testing.assert_allclose(J[i], ((after[0] - after[1]) / 2e-6).ravel(), atol=1e-8)
    exponents = lyapunov_exponents(layer)
    determinants = [np.linalg.slogdet(layer.jacobian(t))[1] for t in range(5)]
    assert exponents.sum() == pytest.approx(np.mean(determinants))


def test_the_blocks_of_a_gated_cell_have_a_spectrum_each():
    network, p = random_network(cell="lstm", H=4)
    layer = one_layer(network, p, 6)
    found = recurrent_spectra(layer)
    assert list(found) == ["W_hi", "W_hf", "W_hg", "W_ho"]
    np.testing.assert_allclose(found["W_hf"].singular, scipy.linalg.svdvals(p["layers.0.W_hh"][:, 4:8]))
    assert list(recurrent_spectra(one_layer(*random_network(), 3))) == ["W_hh"]


def test_saturation_of_a_gated_cell_is_that_of_its_gates():
    network, p = random_network(cell="lstm", H=4)
    p["layers.0.b_h"][4:8] = 30  # the forget gates are always open
    layer = one_layer(network, p, 6)
    found = layer_saturation(layer)
    assert list(found) == ["i", "f", "g", "o"]
    assert found["f"].share == 1
    assert found["i"].by_step.tolist() == (layer.gates["i"] * (1 - layer.gates["i"]) < 0.025).mean(axis=1).tolist()
    assert found["g"].share == (1 - layer.gates["g"] ** 2 < 0.1).mean()
    assert list(layer_saturation(one_layer(*random_network(), 3))) == ["h"]


@pytest.mark.parametrize(("activation", "values", "flat"), [
    ("tanh", [0, 0.9, 0.96, -0.96], [0, 0, 1, 1]),  # 1 - 0.96² = 0.08
    ("sigmoid", [0.5, 0.1, 0.02, 0.99], [0, 0, 1, 1]),  # 0.02 · 0.98 = 0.02 < 0.025
    ("relu", [1, 0, 5, 0], [0, 1, 0, 1]),
    ("identity", [0, 1, 100, -100], [0, 0, 0, 0]),
])  # fmt: skip
def test_a_unit_is_saturated_where_its_slope_is_a_tenth_of_that_at_0(activation, values, flat):
    h = np.array([[9.0] * 4, values, values])  # h[0] was made by no step
    found = saturation(h, activation=activation)
    assert found.by_unit.tolist() == flat
    assert found.share == np.mean(flat)
    assert found.by_step.tolist() == [np.mean(flat)] * 2
    assert found.counts.sum() == 8
    assert (found.edges[0], found.edges[-1]) == (min(values), max(values))


ROWS = [
    {"step": 10, "gradient_norm": 4.0},  # an older row
    {"step": 20, "gradient_norm": 2.0, "gradient_norms": {"a": 1.0, "b": None}},
    {"step": 30, "gradient_norm": 100.0, "gradient_norms": {"a": 9.0}},
    {"event": "rolled back", "step": 35, "to": 20},
    {"step": 30, "gradient_norm": 0.5, "gradient_norms": {"a": 0.3, "b": 0.4}},
    {"step": 40, "gradient_norm": None, "gradient_norms": "nonsense"},
    {"step": 41, "gradient_norm": "much"},
    {"step": 42, "gradient_norm": float("nan")},
    {"event": "saved", "step": 43, "gradient_norm": 7.0},
    {"nonsense": True},
]


def test_the_history_is_that_of_the_steps_that_counted():
    found = gradient_history(ROWS)
    assert found.total == [(10, 4.0), (20, 2.0), (30, 0.5)]
    assert found.parameters == {"a": [(20, 1.0), (30, 0.3)], "b": [(30, 0.4)]}
    assert gradient_history([]).total == []


def test_clipped_steps_are_counted():
    done = clipped_steps(ROWS, clip_norm=1.0)
    assert (done.steps, done.clipped, done.scale) == (3, 2, (1 / 4 + 1 / 2) / 2)
    assert clipped_steps(ROWS, clip_norm=0.0).clipped == 0  # clipping is disabled
    assert clipped_steps(ROWS, clip_norm=50).scale == 1


def test_the_clipped_gradient_is_that_of_the_mean_loss():
    """Along its own gradient a loss grows by the square of the gradient's norm."""
    network, p = random_network(layers=2)
    x, y = random_text(9)
    found = clipping(network, p, x, y, clip_norm=0.0)

    def loss(q):
        return trace(network, q, x).losses(y).mean()

    gradients = p.zeros()
    network.loss_and_gradients(p, Batch(x[:, None], y[:, None]), gradients, normalizer=9)
    up, down = p.zeros(), p.zeros()
    up.buffer[:], down.buffer[:] = p.buffer + 1e-5 * gradients.buffer, p.buffer - 1e-5 * gradients.buffer
    assert found.norm**2 == pytest.approx((loss(up) - loss(down)) / 2e-5, rel=1e-6)
    assert set(found.norms) == set(p)
    assert sum(norm**2 for norm in found.norms.values()) == pytest.approx(found.norm**2)
    assert found.scale == 1  # 0 disables clipping
    assert clipping(network, p, x, y, clip_norm=found.norm / 4).scale == pytest.approx(0.25)
    assert clipping(network, p, x, y, clip_norm=found.norm * 4).scale == 1


def test_clipping_takes_a_model_and_a_text_and_the_limit_of_its_training():
    model = drawn_model(CharVocabulary("helo"))
    ids = model.vocabulary_.encode("hello")
    found = clipping(model, "hello")
    assert found.clip_norm == model.config_.clip_norm
    by_hand = clipping(model.network_, model.parameters_, ids[:-1], ids[1:], clip_norm=found.clip_norm)
    assert found == by_hand
    with pytest.raises(ArgumentError, match="a model and a text, or a network"):
        clipping(model.network_, "hello")
