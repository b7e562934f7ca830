"""Networks with a planted problem: the verdict names it, the number of steps, the factor and the place."""

from __future__ import annotations

import math

import numpy as np
import pytest
from look_networks import random_network, random_text, scaled_orthogonal

from elman.look import gradient_flow, verdict, verdicts


def judged(network, p, T=30, **options):
    return verdict(gradient_flow(network, p, *random_text(T)), **options)


def test_gain_one_half_vanishes_by_the_spectrum_of_the_recurrent_weights():
    v = judged(*scaled_orthogonal(0.5))
    assert (v.kind, v.lag, v.horizon, v.cause) == ("vanishes", 7, 7, "recurrent")
    assert (v.factor, v.activation, v.recurrent) == pytest.approx((0.5, 1, 0.5))
    assert str(v) == v.words
    assert v.words == (
        "The gradient vanishes: 7 steps back less than 1 % of it is left (×0.50 per step). "
        "Main cause: the recurrent weights; W_hh multiplies the gradient by 0.50 per step. "
        "The slope of the activation, 1, (×1.00 per step) has little effect."
    )


def test_gain_two_explodes_with_the_identity():
    v = judged(*scaled_orthogonal(2))
    assert (v.kind, v.lag, v.horizon, v.cause) == ("explodes", 7, None, "recurrent")  # 2^7 = 128
    assert (v.factor, v.recurrent) == pytest.approx((2, 2))
    assert "explodes: 7 steps back it is more than 100 times as large (×2.00 per step)" in v.words
    assert "Main cause: the recurrent weights; W_hh multiplies the gradient by 2.00 per step." in v.words


def test_gain_one_is_healthy_with_the_identity():
    v = judged(*scaled_orthogonal(1))
    assert (v.kind, v.lag, v.horizon, v.cause, v.step) == ("healthy", None, None, None, None)
    assert "healthy: 30 steps back, as far as this text goes, 100% of it is left" in v.words


@pytest.mark.parametrize("gain", [0.3, 0.8, 1.3, 3])
def test_the_lag_at_which_it_happens_is_that_of_the_powers_of_the_gain(gain):
    v = judged(*scaled_orthogonal(gain))
    bound = 0.01 if gain < 1 else 100
    assert v.lag == math.ceil(math.log(bound) / math.log(gain))


def test_saturated_units_are_responsible_where_the_weights_are_orthogonal():
    network, p = scaled_orthogonal(1, activation="tanh")
    p["layers.0.b_h"][:] = 1.5
    v = judged(network, p)
    assert (v.kind, v.cause) == ("vanishes", "activation")
    assert v.activation < 0.5
    assert v.recurrent == pytest.approx(1)
    assert f"Main cause: tanh saturation; 1 − h² multiplies the gradient by {v.activation:.2f} per step." in v.words
    assert "W_hh (×1.00 per step) has little effect." in v.words


def test_relu_units_that_are_off_let_nothing_pass():
    network, p = scaled_orthogonal(1, activation="relu")
    p["layers.0.b_h"][:] = -100
    v = judged(network, p)
    assert (v.kind, v.lag, v.cause, v.factor) == ("vanishes", 1, "activation", 0)
    assert "Main cause: inactive ReLU units; h > 0 multiplies the gradient by 0.00 per step." in v.words


def test_a_sigmoid_is_too_flat_and_a_steep_activation_explodes():
    v = judged(*scaled_orthogonal(1, activation="sigmoid"))
    assert (v.kind, v.cause) == ("vanishes", "activation")
    assert "the sigmoid, whose slope is at most 1/4; h(1 − h) multiplies the gradient by 0.24 per step" in v.words
    steep = (lambda a: 3 * a, lambda h: np.full_like(h, 3.0))
    v = judged(*scaled_orthogonal(0.9, activation=steep), T=10)
    assert (v.kind, v.cause) == ("explodes", "activation")
    assert "Main cause: a steep activation; f′ multiplies the gradient by 3.00 per step." in v.words
    assert "W_hh (×0.90 per step) compensates for some of it." in v.words


@pytest.mark.parametrize("place", [6, 11])
def test_the_step_is_the_one_where_the_planted_token_saturates_the_units(place):
    network, p = scaled_orthogonal(0.95, activation="tanh")
    p["layers.0.W_xh"][3] = 3.0
    ids = np.random.default_rng(0).integers(0, 3, 41)
    ids[place] = 3
    v = verdict(gradient_flow(network, p, ids[:-1], ids[1:]))
    assert (v.kind, v.cause, v.step) == ("vanishes", "activation", place + 1)  # the state after the token


def test_what_is_not_wanted_further_back_is_no_vanishing():
    flow = gradient_flow(*scaled_orthogonal(0.9), *random_text(60))
    assert verdict(flow).kind == "vanishes"
    v = verdict(flow, reach=20)
    assert (v.kind, v.horizon, v.followed) == ("healthy", 44, 20)
    assert "healthy: 20 steps back 12% of it is left; 44 steps back less than 1 % is left." in v.words
    v = verdict(gradient_flow(*scaled_orthogonal(1), *random_text(60)), reach=20)
    assert "healthy: 20 steps back 100% of it is left." in v.words  # the text goes further than that


def test_a_model_without_outputs_has_no_gradient():
    network, p = random_network()
    p["head.W_hy"][:] = 0
    v = judged(network, p)
    assert (v.kind, v.lag) == ("silent", None)
    assert "no gradient to follow" in v.words


def test_states_that_outgrow_all_numbers():
    v = judged(*scaled_orthogonal(1e200))
    assert v.kind == "explodes"
    assert "The states themselves explode" in v.words


def test_one_step_is_enough_for_a_verdict():
    v = judged(*scaled_orthogonal(0.9), T=1)
    assert v.kind == "healthy"
    assert "1 step back, as far as this text goes, 90% of it is left" in v.words


def test_there_is_one_for_each_layer():
    network, p = random_network(layers=3)
    flow = gradient_flow(network, p, *random_text(12))
    found = verdicts(flow)
    assert [v.layer for v in found] == [0, 1, 2]
    assert found[2] == verdict(flow) == verdict(flow, 2)
    assert found[0] == verdict(flow, 0) != found[2]


def gated(cell: str, bias: float, *, scale: float = 0.05):
    """A cell whose carry gate is at sigmoid(bias) and whose weights are small, or large."""
    network, p = random_network(cell=cell, scale=scale)
    H, gate = network.stack.hidden, network.stack.cell.gate_names.index({"gru": "z", "lstm": "f"}[cell])
    p["layers.0.b_h"][gate * H : (gate + 1) * H] = bias
    p["layers.0.W_hh"][:, gate * H : (gate + 1) * H] = p["layers.0.W_xh"][:, gate * H : (gate + 1) * H] = 0
    return network, p


@pytest.mark.parametrize(("cell", "gates", "path"), [
    ("lstm", "the forget gates", "along the cell state c, f"),
    ("gru", "the update gates", "on the direct path from h[t+1] to h[t], z"),
])  # fmt: skip
def test_the_verdict_on_a_gated_cell_is_in_terms_of_its_gates(cell, gates, path):
    v = judged(*gated(cell, 0.0))  # the gate is 0.5
    assert (v.kind, v.cause) == ("vanishes", "carry")
    assert v.carry == pytest.approx(0.5)
    assert v.recurrent < 0.2
    assert f"Main cause: {gates}; {path} multiplies the gradient by 0.50 per step." in v.words
    assert f"The path through h and W_hh multiplies it by {v.recurrent:.2f} per step." in v.words
    v = judged(*gated(cell, 9.0))
    assert (v.kind, v.cause) == ("healthy", None)
    assert v.carry == pytest.approx(1 / (1 + math.exp(-9)))
    assert f"{path[0].upper()}{path[1:]} multiplies it by 1.00 per step" in v.words


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_a_gated_cell_explodes_through_its_weights(cell):
    network, p = gated(cell, -9.0)
    H = network.stack.hidden
    candidate = network.stack.cell.gate_names.index({"gru": "n", "lstm": "g"}[cell])
    p["layers.0.W_hh"][:, candidate * H : (candidate + 1) * H] = 40 * np.eye(H)
    p["layers.0.W_xh"][:] = p["layers.0.b_h"][candidate * H : (candidate + 1) * H] = 0  # h stays at 0, tanh steep
    if cell == "gru":
        p["layers.0.b_hn"][:] = 0
    v = judged(network, p)
    assert (v.kind, v.cause) == ("explodes", "recurrent")
    assert v.carry < 1 < v.recurrent
    assert "the path through h and W_hh multiplies the gradient by" in v.words


def test_the_step_of_a_gated_cell_is_the_one_where_its_gate_closes():
    network, p = gated("lstm", 3.0)
    H = network.stack.hidden
    p["layers.0.W_xh"][3, H : 2 * H] = -9  # token 3 closes the forget gate
    ids = np.random.default_rng(0).integers(0, 3, 41)
    ids[11] = 3
    v = verdict(gradient_flow(network, p, ids[:-1], ids[1:]))
    assert (v.kind, v.cause, v.step) == ("vanishes", "carry", 12)  # the state after the token
