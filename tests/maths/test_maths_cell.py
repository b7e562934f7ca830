"""The cell: forward against numbers worked out by hand and a slow oracle, backward against the oracle and slopes."""

from __future__ import annotations

import math

import maths_oracle as oracle
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from maths_oracle import ACTIVATIONS, OWN_PAIR, assert_same, make, networks

from elman import maths

FLOATS = [np.float16, np.float32, np.float64, np.longdouble]
IDS = [f"{sign}int{bits}" for sign in ("u", "") for bits in (8, 16, 32, 64)]


def run(n):
    return maths.rnn_forward(n.x, n.h0, *n.weights, **n.options)


def send_back(n, h=None, **more):
    return maths.rnn_backward(n.d_h_direct, n.x, run(n) if h is None else h, n.W_xh, n.W_hh, **n.options, **more)


# ---- by hand


def test_two_steps_by_hand():
    x = np.array([[[1.0, 2.0]], [[-1.0, 0.5]]])  # T = 2, B = 1, X = 2
    W_xh = np.array([[0.1, -0.2, 0.3], [0.4, 0.5, -0.6]])
    W_hh = np.array([[0.0, 1.0, 0.5], [0.2, 0.0, 0.0], [-0.3, 0.7, 0.0]])
    b_h = np.array([0.01, 0.02, 0.03])
    h = maths.rnn_forward(x, None, W_xh, W_hh, b_h)
    # 0.1 + 0.8 + 0.01,  -0.2 + 1.0 + 0.02,  0.3 - 1.2 + 0.03
    first = [math.tanh(0.91), math.tanh(0.82), math.tanh(-0.87)]
    # -0.1 + 0.2 + 0.01,  0.2 + 0.25 + 0.02,  -0.3 - 0.3 + 0.03, and what the first state adds
    second = [
        math.tanh(0.11 + 0.2 * first[1] - 0.3 * first[2]),
        math.tanh(0.47 + 1.0 * first[0] + 0.7 * first[2]),
        math.tanh(-0.57 + 0.5 * first[0]),
    ]
    np.testing.assert_allclose(h[:, 0], [[0, 0, 0], first, second], rtol=0, atol=1e-14)


def test_backward_of_a_single_unit_by_hand():
    # one unit, two steps, a loss on the last state alone: d_h = 1
    w, u, h0 = 0.5, 0.8, 0.25
    h1 = math.tanh(1.0 * w + h0 * u)
    h2 = math.tanh(-2.0 * w + h1 * u)
    d_a1 = 1 - h2**2
    d_a0 = (1 - h1**2) * u * d_a1
    h = np.array([h0, h1, h2]).reshape(3, 1, 1)
    x, d_h_direct = np.array([1.0, -2.0]).reshape(2, 1, 1), np.array([0.0, 1.0]).reshape(2, 1, 1)
    d = maths.rnn_backward(d_h_direct, x, h, np.array([[w]]), np.array([[u]]))
    assert d.d_W_xh.item() == pytest.approx(1.0 * d_a0 - 2.0 * d_a1, abs=1e-14)
    assert d.d_W_hh.item() == pytest.approx(h0 * d_a0 + h1 * d_a1, abs=1e-14)
    assert d.d_b_h.item() == pytest.approx(d_a0 + d_a1, abs=1e-14)
    assert d.d_x.ravel().tolist() == pytest.approx([w * d_a0, w * d_a1], abs=1e-14)
    assert d.d_h0.item() == pytest.approx(u * d_a0, abs=1e-14)


# ---- against the slow oracle


@given(networks())
@settings(deadline=None, max_examples=80)
def test_forward_equals_one_row_and_one_step_at_a_time(n):
    np.testing.assert_allclose(run(n), oracle.forward(n), rtol=1e-12, atol=1e-13)


@given(networks())
@settings(deadline=None, max_examples=60)
def test_backward_equals_each_loss_sent_back_alone(n):
    assert_same(send_back(n), oracle.backward(n))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gradients_of_larger_arrays_agree_with_slopes(activation, reverse):
    n = make(7, 9, 5, 8, 12, activation=activation, masked=True, reverse=reverse)
    n = n.with_(lengths=np.array([9, 4, 1, 0, 7]))
    arrays = {"W_xh": n.W_xh, "W_hh": n.W_hh, "b_h": n.b_h, "x": n.x, "h0": n.h0}
    assert sum(array.size > 64 for array in arrays.values()) >= 3  # these go along random directions
    gradients = {name.removeprefix("d_"): d for name, d in send_back(n)._asdict().items()}
    maths.gradcheck(lambda: float((run(n)[1:] * n.d_h_direct).sum()), arrays, gradients).expect()


# ---- lengths, direction, ids


def alone(n, row):
    """The network with this row only, and without its padding."""
    T = n.shape[0]
    length = T if n.lengths is None else int(n.lengths[row])
    cut = (slice(0, length), slice(row, row + 1))
    mask = None if n.h_mask is None else n.h_mask[row : row + 1]
    return n.with_(x=n.x[cut], h0=n.h0[row : row + 1], d_h_direct=n.d_h_direct[cut], lengths=None, h_mask=mask)


@given(networks())
@settings(deadline=None, max_examples=50)
def test_a_padded_row_equals_the_row_alone(n):
    T, B, _, _ = n.shape
    n = n.with_(lengths=np.maximum(1, n.lengths) if n.lengths is not None else np.arange(B) % T + 1)
    padding = np.arange(T)[:, np.newaxis] >= n.lengths
    n.d_h_direct[padding] = 0
    h, d = run(n), send_back(n)
    total = dict.fromkeys(("d_W_xh", "d_W_hh", "d_b_h"), 0.0)
    for row, length in enumerate(n.lengths):
        a = alone(n, row)
        a_h = run(a)
        np.testing.assert_allclose(h[: length + 1, row], a_h[:, 0], rtol=1e-12, atol=1e-12)
        a_d = send_back(a, a_h)
        np.testing.assert_allclose(d.d_h0[row], a_d.d_h0[0], rtol=1e-12, atol=1e-12)
        if d.d_x is not None:
            np.testing.assert_allclose(d.d_x[:length, row], a_d.d_x[:, 0], rtol=1e-12, atol=1e-12)
            assert not d.d_x[length:, row].any()
        total = {name: value + getattr(a_d, name) for name, value in total.items()}
    for name, value in total.items():
        np.testing.assert_allclose(getattr(d, name), value, rtol=1e-11, atol=1e-12, err_msg=name)


@given(networks())
@settings(deadline=None, max_examples=40)
def test_what_padding_holds_does_not_matter(n):
    T, B, X, _ = n.shape
    n = n.with_(lengths=n.lengths if n.lengths is not None else np.arange(B) % (T + 1))
    padding = np.arange(T)[:, np.newaxis] >= n.lengths
    garbage = n.x.copy()
    garbage[padding] = X - 1 if n.x.ndim == 2 else 1e6
    m = n.with_(x=garbage)
    assert np.array_equal(run(n), run(m))
    for name, ours, theirs in zip(oracle.GRADIENTS, send_back(n), send_back(m), strict=True):
        assert ours is None or np.array_equal(ours, theirs), name


@given(networks(reverse=True))
@settings(deadline=None, max_examples=50)
def test_reverse_equals_flipping_the_valid_part_of_each_row(n):
    T, B, _, _ = n.shape
    lengths = np.full(B, T) if n.lengths is None else n.lengths
    x, d_h_direct = n.x.copy(), n.d_h_direct.copy()
    for row, length in enumerate(lengths):
        d_h_direct[length:, row] = n.d_h_direct[length:, row] = 0  # a padded state is another one in reverse
        x[:length, row] = x[:length, row][::-1]
        d_h_direct[:length, row] = d_h_direct[:length, row][::-1]
    flipped = n.with_(x=x, d_h_direct=d_h_direct, reverse=False)
    h, h_flipped = run(n), run(flipped)
    ours, theirs = send_back(n), send_back(flipped)
    for row, length in enumerate(lengths):
        np.testing.assert_allclose(h[1 : length + 1, row], h_flipped[1 : length + 1, row][::-1], rtol=1e-12, atol=1e-13)
        if theirs.d_x is not None:
            theirs.d_x[:length, row] = theirs.d_x[:length, row][::-1].copy()
    assert_same(ours, theirs)


@given(networks(reverse=False))
@settings(deadline=None, max_examples=40)
def test_a_gradient_on_a_padded_state_belongs_to_the_last_valid_one(n):
    T, B, _, _ = n.shape
    n = n.with_(lengths=np.arange(1, B + 1) % T + 1)
    moved = n.d_h_direct.copy()
    for row, length in enumerate(n.lengths):
        moved[length - 1, row] = moved[length - 1 :, row].sum(axis=0)
        moved[length:, row] = 0
    assert_same(send_back(n), send_back(n.with_(d_h_direct=moved)))


def test_a_row_of_length_zero_sends_everything_to_its_initial_state():
    for reverse in (False, True):
        n = make(3, 4, 2, 2, 3, reverse=reverse).with_(lengths=np.array([0, 4]))
        d = send_back(n)
        assert np.array_equal(run(n)[:, 0], np.broadcast_to(n.h0[0], (5, 3)))
        np.testing.assert_allclose(d.d_h0[0], n.d_h_direct[:, 0].sum(axis=0), rtol=1e-13)
        assert not d.d_x[:, 0].any()


@given(networks())
@settings(deadline=None, max_examples=30)
def test_one_hot_floats_equal_ids(n):
    ids = n if n.x.ndim == 2 else n.with_(x=np.abs(n.x).argmax(axis=-1))
    floats = ids.with_(x=ids.one_hot)
    np.testing.assert_allclose(run(ids), run(floats), rtol=1e-13, atol=1e-14)
    assert send_back(ids).d_x is None
    assert_same(send_back(ids), send_back(floats))


@pytest.mark.parametrize("dtype", IDS)
def test_ids_and_lengths_of_every_integer_dtype(dtype):
    n = make(1, 5, 3, 4, 3, ids=True, ragged=True)
    m = n.with_(x=n.x.astype(dtype), lengths=n.lengths.astype(dtype))
    assert np.array_equal(run(n), run(m))
    assert_same(send_back(n), send_back(m), atol=0)


def test_no_initial_state_is_zeros():
    n = make(2, 3, 2, 2, 3)
    zeros = n.with_(h0=np.zeros((2, 3)))
    assert np.array_equal(maths.rnn_forward(n.x, None, *n.weights), run(zeros))


# ---- out=, dtypes


@given(networks())
@settings(deadline=None, max_examples=25)
def test_forward_writes_into_out(n):
    h = run(n)
    out = np.full_like(h, 7)
    assert maths.rnn_forward(n.x, n.h0, *n.weights, **n.options, out=out) is out
    assert np.array_equal(out, h)


def test_forward_may_take_its_initial_state_from_out_itself():
    n = make(4, 3, 2, 2, 3)
    out = run(n)
    second = maths.rnn_forward(n.x, out[-1].copy(), *n.weights)
    assert np.array_equal(maths.rnn_forward(n.x, out[-1], *n.weights, out=out), second)


@given(networks())
@settings(deadline=None, max_examples=25)
def test_backward_adds_to_out(n):
    once = send_back(n)
    out = maths.RNNGradients.zeros(n.x, n.W_xh)
    assert all(part is None or not part.any() for part in out)
    assert send_back(n, out=out) is out
    assert_same(out, once, atol=0)
    send_back(n, out=out)
    assert_same(out, {name: None if d is None else 2 * d for name, d in once._asdict().items()})


def test_d_x_is_left_out_where_out_has_no_place_for_it():
    n = make(4, 3, 2, 2, 3)
    out = maths.RNNGradients.zeros(n.x, n.W_xh)._replace(d_x=None)
    d = send_back(n, out=out)
    assert d.d_x is None
    assert_same(d, send_back(n), atol=0)


def test_backward_leaves_its_arguments_alone():
    n = make(4, 5, 3, 2, 3, ragged=True, masked=True)
    h = run(n)
    kept = {name: value.copy() for name, value in {**vars(n), "h": h}.items() if isinstance(value, np.ndarray)}
    send_back(n, h)
    assert all(np.array_equal(value, {**vars(n), "h": h}[name]) for name, value in kept.items())


@pytest.mark.parametrize("ids", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_dtype_is_kept(dtype, activation, ids):
    exact = make(5, 4, 3, 3, 4, activation=activation, ids=ids, ragged=True, masked=True)
    n = exact.astype(dtype)
    h, d = run(n), send_back(n)
    assert h.dtype == dtype
    assert {part.dtype for part in d if part is not None} == {np.dtype(dtype)}
    tolerance = 100 * max(float(np.finfo(dtype).eps), 1e-16)
    np.testing.assert_allclose(h.astype(float), run(exact), rtol=tolerance, atol=tolerance)
    for ours, theirs in zip(d, send_back(exact), strict=True):
        assert ours is None or np.allclose(ours.astype(float), theirs, rtol=tolerance, atol=10 * tolerance)


# ---- activations


def test_table_of_activations_holds_functions_and_their_derivatives():
    a = np.array([-3.0, -0.4, 0.7, 2.5])
    for name, activation in maths.ACTIVATIONS.items():
        _, f, f_prime = ACTIVATIONS[name]
        h = activation.function(a)
        np.testing.assert_allclose(h, [f(v) for v in a], rtol=1e-13, err_msg=name)
        np.testing.assert_allclose(activation.derivative(h), [f_prime(v) for v in a], rtol=1e-12, err_msg=name)


def test_sigmoid_and_tanh_do_not_overflow():
    for name, low in (("sigmoid", 0.0), ("tanh", -1.0)):
        assert maths.ACTIVATIONS[name].function(np.array([-1e4, 1e4])).tolist() == [low, 1.0]


def test_a_name_a_pair_and_an_activation_are_the_same():
    n = make(6, 4, 2, 2, 3)
    pair = (np.tanh, lambda h: 1 - h**2)
    for own in (pair, maths.Activation(*pair)):
        assert np.array_equal(maths.rnn_forward(n.x, n.h0, *n.weights, activation=own), run(n))
    assert maths.get_activation("tanh") is maths.ACTIVATIONS["tanh"]
    assert isinstance(maths.get_activation(OWN_PAIR), maths.Activation)


def test_nan_in_a_weight_passes_through_to_be_seen():
    n = make(6, 4, 2, 2, 3)
    n.W_hh[0, 1] = np.nan
    h = run(n)
    assert np.isnan(h[1:, :, 1]).all()
    assert not np.isnan(h[1, :, [0, 2]]).any()
    assert np.isnan(send_back(n, np.nan_to_num(h)).d_h0).any()


@given(st.data())
@settings(deadline=None, max_examples=15)
def test_rows_do_not_see_each_other(data):
    n = data.draw(networks())
    row = data.draw(st.integers(0, n.shape[1] - 1))
    h0, x = n.h0.copy(), n.x.copy()
    others = np.arange(n.shape[1]) != row
    h0[others] += 1
    x[:, others] = 0
    np.testing.assert_allclose(run(n.with_(x=x, h0=h0))[:, row], run(n)[:, row], rtol=1e-13, atol=1e-14)
