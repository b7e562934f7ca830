"""Networks with a planted fate are told of it: what happens, after how many steps, through which factor, and where."""

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
    assert (v.kind, v.lag, v.horizon, v.responsible) == ("vanishes", 7, 7, "recurrent")
    assert (v.factor, v.activation, v.recurrent) == pytest.approx((0.5, 1, 0.5))
    assert str(v) == v.words
    assert "vanishes: 7 steps back less than 1 % of it is left (×0.50 a step)" in v.words
    assert "Responsible is the spectrum of W_hh, ×0.50 a step: on average it shortens what passes through it" in v.words
    assert "diag(1), ×1.00, does little" in v.words


def test_gain_two_explodes_with_the_identity():
    v = judged(*scaled_orthogonal(2))
    assert (v.kind, v.lag, v.horizon, v.responsible) == ("explodes", 7, None, "recurrent")  # 2^7 = 128
    assert (v.factor, v.recurrent) == pytest.approx((2, 2))
    assert "explodes: 7 steps back it is more than 100 times as large (×2.00 a step)" in v.words
    assert "the spectrum of W_hh, ×2.00 a step: on average it lengthens what passes through it" in v.words


def test_gain_one_is_healthy_with_the_identity():
    v = judged(*scaled_orthogonal(1))
    assert (v.kind, v.lag, v.horizon, v.responsible, v.step) == ("healthy", None, None, None, None)
    assert "healthy: 30 steps back, as far as this text shows, 100% of it arrives" in v.words


@pytest.mark.parametrize("gain", [0.3, 0.8, 1.3, 3])
def test_the_lag_at_which_it_happens_is_that_of_the_powers_of_the_gain(gain):
    v = judged(*scaled_orthogonal(gain))
    bound = 0.01 if gain < 1 else 100
    assert v.lag == math.ceil(math.log(bound) / math.log(gain))


def test_saturated_units_are_responsible_where_the_weights_are_orthogonal():
    network, p = scaled_orthogonal(1, activation="tanh")
    p["layers.0.b_h"][:] = 1.5
    v = judged(network, p)
    assert (v.kind, v.responsible) == ("vanishes", "activation")
    assert v.activation < 0.5
    assert v.recurrent == pytest.approx(1)
    assert "Responsible is diag(1 − h²)" in v.words
    assert "where tanh is flat" in v.words


def test_relu_units_that_are_off_let_nothing_pass():
    network, p = scaled_orthogonal(1, activation="relu")
    p["layers.0.b_h"][:] = -100
    v = judged(network, p)
    assert (v.kind, v.lag, v.responsible, v.factor) == ("vanishes", 1, "activation", 0)
    assert "diag(h > 0), ×0.00 a step: units that are off let nothing pass" in v.words


def test_a_sigmoid_is_too_flat_and_a_steep_activation_explodes():
    v = judged(*scaled_orthogonal(1, activation="sigmoid"))
    assert (v.kind, v.responsible) == ("vanishes", "activation")
    assert "diag(h(1 − h)), ×0.24 a step" in v.words
    steep = (lambda a: 3 * a, lambda h: np.full_like(h, 3.0))
    v = judged(*scaled_orthogonal(0.9, activation=steep), T=10)
    assert (v.kind, v.responsible) == ("explodes", "activation")
    assert "diag(f′), ×3.00 a step: the activation is too steep" in v.words
    assert "The spectrum of W_hh, ×0.90, makes up for some of it" in v.words


@pytest.mark.parametrize("place", [6, 11])
def test_the_step_is_the_one_where_the_planted_token_saturates_the_units(place):
    network, p = scaled_orthogonal(0.95, activation="tanh")
    p["layers.0.W_xh"][3] = 3.0
    ids = np.random.default_rng(0).integers(0, 3, 41)
    ids[place] = 3
    v = verdict(gradient_flow(network, p, ids[:-1], ids[1:]))
    assert (v.kind, v.responsible, v.step) == ("vanishes", "activation", place + 1)  # the state after the token


def test_what_is_not_wanted_further_back_is_no_vanishing():
    flow = gradient_flow(*scaled_orthogonal(0.9), *random_text(60))
    assert verdict(flow).kind == "vanishes"
    v = verdict(flow, reach=20)
    assert (v.kind, v.horizon, v.followed) == ("healthy", 44, 20)
    assert "lasts for the 20 steps that are wanted; less than 1 % is left 44 steps back" in v.words


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
    assert "1 step back, as far as this text shows, 90% of it arrives" in v.words


def test_there_is_one_for_each_layer():
    network, p = random_network(layers=3)
    flow = gradient_flow(network, p, *random_text(12))
    found = verdicts(flow)
    assert [v.layer for v in found] == [0, 1, 2]
    assert found[2] == verdict(flow) == verdict(flow, 2)
    assert found[0] == verdict(flow, 0) != found[2]
