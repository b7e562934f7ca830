"""The compiled recurrence against elman.maths, forward and backward, for every shape, layout and option."""

from __future__ import annotations

import unittest
from types import SimpleNamespace

import kernels_tools as cell
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels_tools import FLOATS, IDS, LAYOUTS, Guard, assert_close, laid_out, make, same_bits, trials
from onnx_backend import names_of, node_tests

from elman import maths
from elman.kernels import layers, loss, recurrence
from elman.kernels.cells import rnn as compiled
from elman.maths import recurrence as reference
from elman.maths.cases import CHECKED, Functions, all_cases, check_case, check_losses
from elman.maths.cells.rnn import RNNGradients
from elman.maths.cells.rnn import rnn_backward as exact_backward
from elman.maths.cells.rnn import rnn_forward as exact_forward
from elman.maths.truncation import truncated_backward as exact_truncated

ACTIVATIONS = ("tanh", "relu", "sigmoid", "identity")
COMPILED = Functions(
    recurrence.cell_forward, recurrence.cell_backward, layers.output_forward, layers.output_backward,
    layers.embedding_forward, layers.embedding_backward, loss.cross_entropy, loss.mean_squared_error, loss.softmax,
    loss.softmax_backward,
)  # fmt: skip

TestNodes = node_tests(SimpleNamespace(rnn_forward=cell.rnn_forward, cell_forward=recurrence.cell_forward))  # ONNX's


def assert_gradients(ours, theirs, dtype):
    for name, d, exact in zip(RNNGradients._fields, ours, theirs, strict=True):
        assert (d is None) == (exact is None), name
        if d is not None:
            assert d.dtype == dtype
            assert_close(d, exact, dtype, name)


def states_of(trial):
    """The states, the same for both: the derivative of relu must not depend on the last bit of a sum."""
    return exact_forward(*trial.exact.arguments, **trial.exact.options).astype(trial.W_hh.dtype)


def backward_arguments(trial, h):
    return trial.d_h_direct, trial.x, h, trial.W_xh, trial.W_hh


# forward


@settings(max_examples=150, deadline=None)
@given(trials())
def test_forward_is_that_of_maths(trial):
    h = cell.rnn_forward(*trial.arguments, **trial.options)
    assert h.dtype == trial.W_hh.dtype
    assert_close(h, exact_forward(*trial.exact.arguments, **trial.exact.options), h.dtype)


@settings(max_examples=150, deadline=None)
@given(trials())
def test_backward_is_that_of_maths(trial):
    h, exact = states_of(trial), trial.exact
    before = [a.copy() for a in (trial.d_h_direct, h)]
    ours = cell.rnn_backward(*backward_arguments(trial, h), **trial.options)
    theirs = exact_backward(*backward_arguments(exact, h.astype(np.float64)), **exact.options)
    assert_gradients(ours, theirs, h.dtype)
    assert all(same_bits(a, b) for a, b in zip(before, (trial.d_h_direct, h), strict=True)), "arguments were changed"


@settings(max_examples=60, deadline=None)
@given(trials(), st.integers(1, 4), st.integers(1, 6))
def test_truncated_backward_is_that_of_maths(trial, k1, k2):
    trial.options.pop("reverse")  # maths refuses it
    h, exact = states_of(trial), trial.exact
    k2 = max(k1, k2)
    ours = cell.truncated_backward(*backward_arguments(trial, h), k1=k1, k2=k2, **trial.options)
    theirs = exact_truncated(*backward_arguments(exact, h.astype(np.float64)), k1=k1, k2=k2, **exact.options)
    assert_gradients(ours, theirs, h.dtype)


@pytest.mark.parametrize("H", [257, 300])
@pytest.mark.parametrize("dtype", FLOATS)
def test_more_rows_of_weights_than_one_block_holds(H, dtype):
    trial = make(1, 3, 9, 270, H, dtype)
    h, exact = states_of(trial), trial.exact
    assert_close(cell.rnn_forward(*trial.arguments), exact_forward(*exact.arguments), dtype)
    ours = cell.rnn_backward(*backward_arguments(trial, h))
    assert_gradients(ours, exact_backward(*backward_arguments(exact, h.astype(np.float64))), dtype)


def test_long_windows_stay_on_the_states_of_maths():
    """Rounding errors do not accumulate over 500 steps of a network that forgets its state."""
    trial = make(2, 500, 3, 5, 33, np.float32, ids=np.int64)
    trial.W_hh *= np.float32(0.5)
    exact = trial.exact
    h = cell.rnn_forward(*trial.arguments)
    np.testing.assert_allclose(h, exact_forward(*exact.arguments), rtol=0, atol=2e-6)


# out=


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("ids", [None, np.int64])
def test_out_is_written(layout, ids):
    trial = make(3, 4, 5, 6, 33, ids=ids)
    out = laid_out(np.full((5, 5, 33), np.nan), layout)
    h = cell.rnn_forward(*trial.arguments, out=out)
    assert h is out
    assert same_bits(h, cell.rnn_forward(*trial.arguments))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("ids", [None, np.int64])
@pytest.mark.parametrize("k", [None, (1, 2)])
def test_gradients_are_added_to_out(layout, ids, k):
    trial = make(4, 4, 5, 6, 33, ids=ids)
    h, rng = states_of(trial), np.random.default_rng(0)
    backward = cell.rnn_backward if k is None else cell.truncated_backward
    options = {} if k is None else {"k1": k[0], "k2": k[1]}
    alone = backward(*backward_arguments(trial, h), **options)
    begun = RNNGradients(*(None if d is None else rng.standard_normal(d.shape) for d in alone))
    out = RNNGradients(*(None if d is None else laid_out(d.copy(), layout) for d in begun))
    assert backward(*backward_arguments(trial, h), out=out, **options) is out
    for name, d, first, more in zip(RNNGradients._fields, out, begun, alone, strict=True):
        if d is not None:
            assert_close(d, first + more, np.float64, name)


def test_other_gradients_are_the_same_without_d_x():
    trial = make(4, 4, 5, 6, 33)
    h = states_of(trial)
    alone = cell.rnn_backward(*backward_arguments(trial, h))
    out = RNNGradients.zeros(trial.x, trial.W_xh)._replace(d_x=None)
    cell.rnn_backward(*backward_arguments(trial, h), out=out)
    assert all(same_bits(d, e) for d, e in zip(out, alone, strict=True) if d is not None)


def test_the_initial_state_may_be_a_part_of_out():
    """The state after a window is carried into the next one, which is written into the same array."""
    trial = make(5, 4, 5, 6, 33, ids=np.int64)
    once = cell.rnn_forward(*trial.arguments)
    twice = cell.rnn_forward(trial.x, once[-1].copy(), *trial.arguments[2:])
    cell.rnn_forward(trial.x, once[-1], *trial.arguments[2:], out=once)
    assert same_bits(once, twice)


# dtypes, and empty arrays


@pytest.mark.parametrize("dtype", FLOATS)
def test_numbers_of_another_size_are_converted_not_reinterpreted(dtype):
    """The tile reads memory as what it was compiled for: float64 inputs of a float32 network were read as float32."""
    other = np.float64 if dtype == np.float32 else np.float32
    trial, mixed = make(6, 3, 5, 6, 33, dtype, masked=True), make(6, 3, 5, 6, 33, other, masked=True)
    mixed.W_hh = trial.W_hh
    out = np.full((4, 5, 33), np.nan, other)
    expected = exact_forward(*trial.exact.arguments, **trial.exact.options)
    for h in (cell.rnn_forward(*mixed.arguments, **mixed.options),
              cell.rnn_forward(*trial.arguments, **trial.options, out=out)):  # fmt: skip
        assert_close(h, expected, np.float32)
    h = states_of(trial)
    ours = cell.rnn_backward(*backward_arguments(mixed, h.astype(other)), **mixed.options)
    theirs = exact_backward(*backward_arguments(trial.exact, h.astype(np.float64)), **trial.exact.options)
    for name, d, exact in zip(RNNGradients._fields, ours, theirs, strict=True):
        assert_close(d, exact, np.float32, name)


@pytest.mark.parametrize("ids", IDS)
def test_ids_of_any_integer_type(ids):
    trial = make(7, 3, 5, 6, 17, ids=ids)
    wide = make(7, 3, 5, 6, 17, ids=np.int64)
    h = cell.rnn_forward(*trial.arguments)
    assert same_bits(h, cell.rnn_forward(*wide.arguments))
    ours, theirs = (cell.rnn_backward(*backward_arguments(t, h)) for t in (trial, wide))
    assert all(same_bits(a, b) for a, b in zip(ours, theirs, strict=True) if a is not None)


@pytest.mark.parametrize(("T", "B"), [(0, 3), (2, 0)])
def test_no_steps_or_no_rows_touch_nothing(T, B, monkeypatch):
    """With no id to tell them from dense inputs, the kernel packed W_xh into an array of no size."""
    trial = make(8, T, B, 6, 33, ids=np.int64)
    guard = Guard(compiled.KERNELS.forward, "scratch edge")
    monkeypatch.setattr(compiled, "KERNELS", compiled.KERNELS._replace(forward=guard))
    h = cell.rnn_forward(*trial.arguments)
    assert same_bits(h, exact_forward(*trial.arguments))
    ours = cell.rnn_backward(*backward_arguments(trial, h))
    theirs = exact_backward(*backward_arguments(trial, h))
    assert all(same_bits(a, b) for a, b in zip(ours, theirs, strict=True) if a is not None)


def test_a_type_that_is_not_compiled_runs_in_maths():
    trial = make(9, 3, 2, 4, 5, np.float16)
    h = cell.rnn_forward(*trial.arguments)
    assert same_bits(h, exact_forward(*trial.arguments))
    assert h.dtype == np.float16


# NaN and infinity


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("where", ["x", "h0", "W_xh", "W_hh", "b_h"])
def test_nan_in_any_argument_reaches_the_states(where, activation):
    trial = make(10, 3, 5, 6, 33, activation=activation)
    array = getattr(trial, where)
    array[(0,) * array.ndim] = np.nan
    h = cell.rnn_forward(*trial.arguments, **trial.options)
    assert (np.isnan(h) == np.isnan(exact_forward(*trial.arguments, **trial.options))).all()
    assert np.isnan(h).any()


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_nan_in_a_gradient_is_not_hidden_by_a_derivative_of_0(activation):
    trial = make(11, 3, 1, 6, 33, activation=activation)
    h = cell.rnn_forward(*trial.arguments, **trial.options)
    trial.d_h_direct[1] = np.nan
    ours = cell.rnn_backward(*backward_arguments(trial, h), **trial.options)
    theirs = exact_backward(*backward_arguments(trial, h), **trial.options)
    for name, d, exact in zip(RNNGradients._fields, ours, theirs, strict=True):
        assert (np.isnan(d) == np.isnan(exact)).all(), name


def test_infinity_saturates_or_becomes_nan_as_in_maths():
    trial = make(12, 2, 3, 4, 33)
    trial.x[0, 0, 0], trial.x[0, 1, 1] = np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(cell.rnn_forward(*trial.arguments), exact_forward(*trial.arguments), atol=1e-10)


# other references


@pytest.mark.parametrize("name", CHECKED)
def test_gradients_agree_with_central_differences(name, monkeypatch):
    monkeypatch.setattr(recurrence, "_warned", {CHECKED["rnn, own pair"][1]})
    for case in (case for case in all_cases() if case.cell == name):
        assert check_case(case, COMPILED).passed, f"{case}\n{check_case(case, COMPILED)}"


def test_losses_and_embedding_agree_with_central_differences():
    for name, check in check_losses(COMPILED).items():
        assert check.passed, f"{name}\n{check}"


def test_onnx_has_all_its_node_tests_here_too():
    assert len(names_of(TestNodes)) >= 7  # onnx 1.23 has four more than those before it
    assert issubclass(TestNodes, unittest.TestCase)


def test_arguments_are_checked_by_maths_and_have_the_same_names():
    """Whatever maths takes, the kernels take: no third signature."""
    import inspect

    compiled_functions = {
        layers: ("output_forward", "embedding_backward"),
        loss: ("cross_entropy", "mean_squared_error", "softmax", "softmax_backward"),
    }
    for name in ("cell_forward", "cell_backward"):
        ours, theirs = (inspect.signature(getattr(of, name)).parameters for of in (recurrence, reference))
        assert list(ours)[:-1] == list(theirs)[: len(ours) - 1]  # and the same options
    for module, names in compiled_functions.items():
        for name in names:
            ours, theirs = (inspect.signature(getattr(of, name)).parameters.keys() for of in (module, maths))
            assert ours == theirs
