"""Gradient flow equals one backward pass per loss, and for the identity the powers of W_hh; horizons are right."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from look_models import drawn_model
from look_networks import X, random_network, random_text, scaled_orthogonal

from elman import maths
from elman.data import CharVocabulary
from elman.errors import ArgumentError, DataError, RangeError, ShapeError, UnknownNameError
from elman.look import gradient_flow, memory_horizon, trace
from elman.maths.recurrence import CellTrace, cell_backward
from elman.network import HeadNetwork, Parameters, Stack

SOFT = (lambda a: a / (1 + np.abs(a)), lambda h: (1 - np.abs(h)) ** 2)  # a pair of one's own


def one_backward_a_loss(network, p, x, y, state=None):
    """∂L[t]/∂h[k] of one layer: the text is cut at k, and d_h0 of the rest is the gradient by h[k]."""
    W_xh, W_hh = p["layers.0.W_xh"], p["layers.0.W_hh"]
    h = maths.rnn_forward(x[:, None], state, W_xh, W_hh, p["layers.0.b_h"], activation=network.stack.cell.activation)
    norms = np.full((len(x), len(x) + 1), np.nan)
    for t in range(len(x)):
        _, d_o = maths.cross_entropy(h[t + 1] @ p["head.W_hy"] + p["head.b_y"], y[t : t + 1])
        direct = np.zeros_like(h[1:])
        direct[t] = d_o @ p["head.W_hy"].T
        norms[t, t + 1] = np.linalg.norm(direct[t])
        for k in range(t + 1):
            rest = direct[k:], x[k:, None], h[k:], W_xh, W_hh
            norms[t, k] = np.linalg.norm(maths.rnn_backward(*rest, activation=network.stack.cell.activation).d_h0)
    return norms


@pytest.mark.parametrize(
    "activation", ["tanh", "relu", "sigmoid", "identity", SOFT], ids=["tanh", "relu", "sigmoid", "identity", "own"]
)
@pytest.mark.parametrize("T", [1, 2, 9])
def test_it_equals_one_backward_pass_per_loss(T, activation):
    network, p = random_network(T, activation=activation)
    x, y = random_text(T)
    flow = gradient_flow(network, p, x, y)
    np.testing.assert_allclose(flow.d_h[0], one_backward_a_loss(network, p, x, y), rtol=0, atol=1e-10)


def one_pass_per_loss(network, p, x, y):
    """∂L[t]/∂s[k] of one layer of any cell: the text is cut at k, and d_s0 of the rest is the gradient by s[k]."""
    cell, weights, seen = network.stack.cell, p.part("layers.0"), trace(network, p, x)
    (layer,), T = seen.layers, len(x)
    norms = np.full((cell.parts, T, T + 1), np.nan)
    for t in range(T):
        _, d_o = maths.cross_entropy(seen.o[t : t + 1], y[t : t + 1])
        direct = np.zeros((T, 1, network.stack.hidden))
        direct[t] = d_o @ p["head.W_hy"].T
        norms[:, t, t + 1] = 0
        norms[0, t, t + 1] = np.linalg.norm(direct[t])
        for k in range(t + 1):
            cut = CellTrace(layer.s[:, k:, None], tuple(part[k:, None] for part in layer.kept))
            d_s0 = cell_backward(cell, direct[k:], cut, x[k:, None], weights).d_s0
            norms[:, t, k] = np.linalg.norm(d_s0[:, 0], axis=1)
    return norms


@pytest.mark.parametrize("cell", ["gru", "lstm"])
@pytest.mark.parametrize("T", [1, 2, 9])
def test_in_a_gated_cell_too_it_equals_one_backward_pass_per_loss(cell, T):
    network, p = random_network(T, cell=cell)
    x, y = random_text(T)
    flow = gradient_flow(network, p, x, y)
    np.testing.assert_allclose(flow.d_s[0], one_pass_per_loss(network, p, x, y), rtol=0, atol=1e-10)
    np.testing.assert_allclose(flow.norms[0], np.sqrt((flow.d_s[0] ** 2).sum(axis=0)))


def test_along_the_cell_state_the_gradient_is_multiplied_by_the_forget_gates_alone():
    network, p = random_network(cell="lstm")
    x, y = random_text(8)
    (layer,), flow = trace(network, p, x).layers, gradient_flow(network, p, x, y)
    d_o = maths.softmax(trace(network, p, x).o) - np.eye(X)[y]
    (_, c), gates = layer.s, layer.gates
    for t in range(8):
        d_c = gates["o"][t] * (1 - np.tanh(c[t + 1]) ** 2) * (d_o[t] @ p["head.W_hy"].T)
        for k in range(t, -1, -1):
            product = np.prod(gates["f"][k : t + 1], axis=0)
            assert flow.paths["carry"][0, t, k] == pytest.approx(np.linalg.norm(product * d_c), abs=1e-12)


def test_directly_the_gradient_of_a_gru_is_multiplied_by_the_update_gates_alone():
    network, p = random_network(cell="gru")
    x, y = random_text(8)
    (layer,), flow = trace(network, p, x).layers, gradient_flow(network, p, x, y)
    d_h = (maths.softmax(trace(network, p, x).o) - np.eye(X)[y]) @ p["head.W_hy"].T
    np.testing.assert_array_equal(layer.carry, layer.gates["z"])
    for k in range(8):
        product = np.prod(layer.carry[k:], axis=0)
        assert flow.paths["carry"][0, 7, k] == pytest.approx(np.linalg.norm(product * d_h[7]), abs=1e-12)


def test_along_the_recurrent_weights_the_gradient_of_an_lstm_leaves_out_its_cell_state():
    network, p = random_network(cell="lstm")
    x, y = random_text(8)
    (layer,), flow = trace(network, p, x).layers, gradient_flow(network, p, x, y)
    d_h = ((maths.softmax(trace(network, p, x).o) - np.eye(X)[y]) @ p["head.W_hy"].T)[7]
    (_, c), (i, f, g, o) = layer.s, (layer.gates[name] for name in "ifgo")
    for t in range(7, -1, -1):
        tanh_c = np.tanh(c[t + 1])
        d_c = d_h * o[t] * (1 - tanh_c**2)
        d_i, d_f = d_c * g[t] * i[t] * (1 - i[t]), d_c * c[t] * f[t] * (1 - f[t])
        d_g, d_o = d_c * i[t] * (1 - g[t] ** 2), d_h * tanh_c * o[t] * (1 - o[t])
        d_h = np.concatenate([d_i, d_f, d_g, d_o]) @ p["layers.0.W_hh"].T
        assert flow.paths["recurrent"][0, 7, t] == pytest.approx(np.linalg.norm(d_h), abs=1e-12)


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_without_its_carry_gate_a_cell_has_only_the_path_through_the_weights(cell):
    network, p = random_network(cell=cell)
    H, gate = network.stack.hidden, network.stack.cell.gate_names.index({"gru": "z", "lstm": "f"}[cell])
    p["layers.0.b_h"][gate * H : (gate + 1) * H] = -1e3
    flow = gradient_flow(network, p, *random_text(8))
    np.testing.assert_allclose(flow.paths["recurrent"], flow.norms, atol=1e-12)
    p["layers.0.W_hh"][:] = 0
    p["layers.0.b_h"][gate * H : (gate + 1) * H] = 1
    flow = gradient_flow(network, p, *random_text(8))
    np.testing.assert_allclose(flow.paths["carry"], flow.norms, atol=1e-12)


def test_a_vanilla_cell_has_one_path():
    flow = gradient_flow(*random_network(), *random_text(4))
    assert flow.paths == {}
    with pytest.raises(UnknownNameError, match="path: expected None, because a vanilla cell has one path, got 'carry'"):
        flow.by_lag(path="carry")
    assert repr(flow) == "<GradientFlow: 4 losses, 1 layers of rnn>"


def test_an_unknown_path_is_refused():
    flow = gradient_flow(*random_network(cell="gru"), *random_text(4))
    with pytest.raises(UnknownNameError, match="path: expected one of carry, recurrent, got 'forget'"):
        flow.by_lag(path="forget")


def test_a_model_and_a_text_are_enough():
    model = drawn_model(CharVocabulary("helo"), cell="lstm")
    ids = model.vocabulary_.encode("hello")
    flow = gradient_flow(model, "hello")
    by_hand = gradient_flow(model.network_, model.parameters_, ids[:-1], ids[1:])
    np.testing.assert_array_equal(flow.d_s, by_hand.d_s)
    np.testing.assert_allclose(gradient_flow(model, ids, steps=2).d_s, by_hand.d_s[:, :, :2, :3], rtol=1e-12)
    np.testing.assert_allclose(
        trace(model, "hello").o[:4], trace(model.network_, model.parameters_, ids[:-1]).o, rtol=1e-12
    )
    with pytest.raises(DataError, match=r"at least two tokens.*got 1"):
        gradient_flow(model, "h")
    with pytest.raises(ArgumentError, match="a model and a text, or a network"):
        gradient_flow(model.network_, "hello")
    with pytest.raises(ArgumentError, match="a model and a text, or a network"):
        trace(model, model.parameters_, ids)


@given(seed=st.integers(0, 1000), T=st.integers(1, 8), H=st.integers(1, 5), scale=st.floats(0.05, 2))
@settings(deadline=None, max_examples=25)
def test_it_equals_one_backward_pass_per_loss_everywhere(seed, T, H, scale):
    network, p = random_network(seed, H=H, scale=scale)
    x, y = random_text(T, seed)
    state = np.random.default_rng(seed).uniform(-1, 1, (1, 1, 1, H))  # layers, parts, rows, units
    flow = gradient_flow(network, p, x, y, state=state)
    truth = one_backward_a_loss(network, p, x, y, state[0, 0])
    np.testing.assert_allclose(flow.d_h[0], truth, rtol=1e-10, atol=1e-10)


def loss_with_a_nudge(network, p, x, y, layer, k, nudge):
    """Every L[t], with `nudge` added to h[k] of a layer as soon as it is there: written out, one step at a time."""
    h = [np.zeros(network.stack.hidden, complex) for _ in range(network.stack.layers)]
    losses = []
    for t in range(-1, len(x)):  # at t = -1 the initial states are there
        read = np.eye(X)[x[t]] if t >= 0 else None
        for i in range(network.stack.layers):
            if t >= 0:
                W_xh, W_hh, b_h = (p[f"layers.{i}.{name}"] for name in ("W_xh", "W_hh", "b_h"))
                h[i] = np.tanh(read @ W_xh + h[i] @ W_hh + b_h)
            if (i, t + 1) == (layer, k):
                h[i] = h[i] + nudge
            read = h[i]
        if t >= 0:
            o = read @ p["head.W_hy"] + p["head.b_y"]
            losses.append(np.log(np.exp(o).sum()) - o[y[t]])
    return np.array(losses)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_in_a_stack_every_path_counts(layers):
    """The judge is a complex step: exact to the last digits, and it knows nothing of a backward pass."""
    T, H = 6, 4
    network, p = random_network(layers, H=H, layers=layers)
    x, y = random_text(T)
    flow = gradient_flow(network, p, x, y)
    for layer in range(layers):
        for k in range(T + 1):
            nudged = [loss_with_a_nudge(network, p, x, y, layer, k, 1e-30j * e) for e in np.eye(H)]
            norms = np.linalg.norm(np.imag(nudged) / 1e-30, axis=0)  # (T,)
            reached = np.arange(T) >= k - 1
            np.testing.assert_allclose(flow.d_h[layer, reached, k], norms[reached], rtol=0, atol=1e-10)
            assert np.isnan(flow.d_h[layer, ~reached, k]).all()


def test_for_the_identity_it_is_a_power_of_the_recurrent_weights():
    network, p = random_network(3, activation="identity", scale=0.3)
    x, y = random_text(12)
    flow, seen = gradient_flow(network, p, x, y), trace(network, p, x)
    d_o = maths.softmax(seen.o) - np.eye(X)[y]
    for t in range(12):
        for k in range(t + 2):
            power = np.linalg.matrix_power(p["layers.0.W_hh"].T, t + 1 - k)
            assert flow.d_h[0, t, k] == pytest.approx(np.linalg.norm(d_o[t] @ p["head.W_hy"].T @ power), abs=1e-10)


def test_the_two_factors_of_a_step_lead_from_one_state_to_the_one_before():
    network, p = random_network()
    flow = gradient_flow(network, p, *random_text(8))
    np.testing.assert_allclose(flow.d_h_back[0, :, 1:], flow.d_h[0, :, :-1] + 0 * flow.d_h[0, :, 1:], atol=1e-14)
    assert np.isnan(flow.d_a[0, :, 0]).all()
    assert (flow.d_a[0] <= flow.d_h[0] + 1e-14)[np.isfinite(flow.d_a[0])].all()  # tanh only shrinks
    activation, recurrent = flow.factors()
    h = trace(network, p, random_text(8)[0]).h[0]
    assert activation.shape == recurrent.shape == (8,)
    last = flow.d_a[0, 7, 1] / flow.d_h[0, 7, 1], flow.d_h[0, 7, 0] / flow.d_a[0, 7, 1]
    assert (activation[-1], recurrent[-1]) == pytest.approx(last)  # of the one loss that goes so far
    assert ((1 - h[1:] ** 2).min(axis=1).min() <= activation).all()


def test_what_is_left_at_a_lag_is_the_mean_against_lag_0_of_the_same_losses():
    network, p = random_network()
    flow = gradient_flow(network, p, *random_text(5))
    left = flow.by_lag()
    assert left[0] == 1
    assert left[2] == pytest.approx(
        sum(flow.d_h[0, t, t - 1] for t in range(1, 5)) / sum(flow.d_h[0, t, t + 1] for t in range(1, 5))
    )
    assert left[5] == pytest.approx(flow.d_h[0, 4, 0] / flow.d_h[0, 4, 5])


@given(gain=st.floats(0.05, 0.97), seed=st.integers(0, 50))
@settings(deadline=None, max_examples=30)
def test_the_horizon_of_a_scaled_orthogonal_network_is_known(gain, seed):
    exact = math.log(0.01) / math.log(gain)
    assume(abs(exact - round(exact)) > 1e-3)
    flow = gradient_flow(*scaled_orthogonal(gain, H=5, seed=seed), *random_text(40, seed))
    assert memory_horizon(flow) == (math.ceil(exact) if exact <= 40 else None)


def test_gain_one_half_is_forgotten_after_seven_steps():
    assert memory_horizon(gradient_flow(*scaled_orthogonal(0.5), *random_text(20))) == 7
    assert memory_horizon(gradient_flow(*scaled_orthogonal(0.5), *random_text(6))) is None  # the text ends before


def test_a_network_in_single_precision_is_followed_in_double():
    network, p = random_network()
    single = p.zeros()
    single.buffer[:] = p.buffer.astype(np.float32)
    narrow = type(p)(network.shapes, np.float32)
    narrow.buffer[:] = p.buffer
    x, y = random_text(9)
    np.testing.assert_array_equal(gradient_flow(network, narrow, x, y).d_h, gradient_flow(network, single, x, y).d_h)


def test_the_losses_are_those_of_each_step_alone():
    network, p = random_network()
    x, y = random_text(7)
    o, _ = network.read(network.pack(p), x[:, None], network.stack.zero_state(1, np.float64))
    np.testing.assert_allclose(gradient_flow(network, p, x, y).losses, -np.log(maths.softmax(o)[range(7), 0, y]))


def test_an_overflowing_gradient_is_no_warning():
    flow = gradient_flow(*scaled_orthogonal(1e200), *random_text(6))
    assert not np.isfinite(flow.by_lag()).all()


def test_progress_is_told():
    told = []
    gradient_flow(*random_network(), *random_text(5), progress=lambda *facts: told.append(facts))
    assert told == [("following the gradient", lag, 5) for lag in range(6)]


def test_bad_texts_are_refused():
    network, p = random_network()
    none = np.array([], int)
    with pytest.raises(DataError, match="at least one token, got none"):
        gradient_flow(network, p, none, none)
    with pytest.raises(RangeError, match="x: expected ids from 0 to 3"):
        gradient_flow(network, p, np.array([4]), np.array([0]))
    with pytest.raises(RangeError, match="y: expected ids from 0 to 3"):
        gradient_flow(network, p, np.array([0]), np.array([-1]))
    with pytest.raises(ShapeError, match=r"y: expected shape \(3,\), one target for each input, got shape \(2,\)"):
        gradient_flow(network, p, np.array([0, 1, 2]), np.array([1, 2]))


@pytest.mark.parametrize(("bidirectional", "pooling"), [(True, "none"), (False, "last")])
def test_a_network_of_two_directions_or_with_one_output_is_refused(bidirectional, pooling):
    network = HeadNetwork(Stack(X, 6, bidirectional=bidirectional), X, pooling=pooling)
    with pytest.raises(ArgumentError, match=f"network: expected one direction with an output .*pooling: {pooling}"):
        gradient_flow(network, Parameters(network.shapes, np.float64), *random_text(4))
