"""examples/vanilla_rnn.py: its gradients are the derivatives of its loss and those of elman.maths, and it learns."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

from elman import maths

FILE = Path(__file__).parents[2] / "examples" / "vanilla_rnn.py"
EXAMPLE = runpy.run_path(str(FILE))
TOKENS, HIDDEN = 5, 4


def network(bptt_truncate=None):
    """A network whose parameters are all far from zero, and an initial state."""
    rnn, rng = EXAMPLE["VanillaRNN"](TOKENS, HIDDEN, bptt_truncate), np.random.default_rng(1)
    for name in "UWbVc":
        setattr(rnn, name, rng.standard_normal(getattr(rnn, name).shape))
    return rnn, rng.standard_normal(HIDDEN)


def text(T):
    return np.random.default_rng(2).integers(TOKENS, size=(2, T))


def gradients_of(rnn, x, y, s0):
    return dict(zip("UWbVc", rnn.bptt(x, y, s0)[1], strict=True))


def slopes(value, array):
    """The central differences of value() with respect to each entry of the array."""
    result = np.zeros_like(array)
    for at in np.ndindex(array.shape):
        kept = array[at]
        array[at] = kept + 1e-5
        above = value()
        array[at] = kept - 1e-5
        result[at] = (above - value()) / 2e-5
        array[at] = kept
    return result


@pytest.mark.parametrize("T", [1, 2, 7])
@pytest.mark.parametrize("start", ["zeros", "given"])
def test_its_gradients_are_the_derivatives_of_its_loss(T, start):
    rnn, s0 = network()
    s0 = s0 if start == "given" else None
    x, y = text(T)
    for name, gradient in gradients_of(rnn, x, y, s0).items():
        numeric = slopes(lambda: rnn.bptt(x, y, s0)[0], getattr(rnn, name))
        np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-8, err_msg=name)


@pytest.mark.parametrize("bptt_truncate", [None, 0, 1, 3, 6, 20])
def test_its_loss_states_and_gradients_are_those_of_maths(bptt_truncate):
    rnn, s0 = network(bptt_truncate)
    x, y = text(7)
    loss, _, s_last = rnn.bptt(x, y, s0)
    h = maths.rnn_forward(x[:, np.newaxis], s0[np.newaxis], rnn.U.T, rnn.W.T, rnn.b)
    o = maths.output_forward(h[1:], rnn.V.T, rnn.c)
    expected, d_o = maths.cross_entropy(o, y[:, np.newaxis])
    out = maths.output_backward(d_o, h[1:], rnn.V.T)
    k2 = 7 if bptt_truncate is None else bptt_truncate + 1  # the loss's own step counts
    cell = maths.truncated_backward(out.d_h, x[:, np.newaxis], h, rnn.U.T, rnn.W.T, k1=1, k2=k2)
    assert loss == pytest.approx(expected)
    np.testing.assert_allclose(s_last, h[-1, 0])
    right = {"U": cell.d_W_xh.T, "W": cell.d_W_hh.T, "b": cell.d_b_h, "V": out.d_W_hy.T, "c": out.d_b_y}
    for name, gradient in gradients_of(rnn, x, y, s0).items():
        np.testing.assert_allclose(gradient, right[name], rtol=1e-10, atol=1e-12, err_msg=name)


def test_the_probabilities_add_up_to_one_and_are_left_as_they_are():
    rnn, s0 = network()
    rnn.V *= 1e4  # logits of some 10,000: exp alone overflows
    y_hat, s = rnn.forward_propagation(text(7)[0], s0)
    np.testing.assert_allclose(y_hat.sum(axis=1), 1)
    np.testing.assert_allclose(s[-1], s0)


@pytest.mark.parametrize("limit", [1e-3, 1e6])
def test_a_step_goes_down_the_gradient_which_is_clipped(limit):
    rnn, s0 = network()
    x, y = text(7)
    before = {name: getattr(rnn, name).copy() for name in "UWbVc"}
    gradients = gradients_of(rnn, x, y, s0)
    norm = np.linalg.norm(np.concatenate([gradient.ravel() for gradient in gradients.values()]))
    assert 1e-3 < norm < 1e6
    rnn.sgd_step(x, y, 0.1, s0, limit)
    for name, gradient in gradients.items():
        moved = getattr(rnn, name) - before[name]
        np.testing.assert_allclose(moved, -0.1 * gradient * min(1, limit / norm), rtol=1e-6, atol=1e-12)


def test_the_state_is_carried_from_window_to_window(capsys):
    rnn, _ = network()
    x, y = text(9)
    whole = rnn.bptt(x, y)[0]
    assert rnn.train_with_sgd(x, y, learning_rate=0.0, epochs=2, window=4) * 9 == pytest.approx(whole)
    assert capsys.readouterr().out.count("nats per character") == 2


def test_a_completion_goes_on_from_the_state_after_the_prompt():
    rnn, _ = network()
    ids = rnn.complete([0, 1, 2], 9)
    assert ids[:3] == [0, 1, 2]
    assert len(ids) == 9
    y_hat, _ = rnn.forward_propagation(ids)  # all in one go
    assert ids[3:] == list(y_hat[2:-1].argmax(axis=1))
    rnn.V, rnn.c = 0 * rnn.V, np.log([0.5, 0.5, 1e-9, 1e-9, 1e-9])
    drawn = rnn.complete([0, 1, 2], 203, np.random.default_rng(0))[3:]
    assert 60 < sum(drawn) < 140  # ids 0 and 1, each about as often


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_it_learns_hello(seed):
    loss, written = EXAMPLE["learn"]("hello", "hell", seed=seed)
    assert written == "hello"
    assert loss < 0.05  # a guess costs ln 4 = 1.39


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_it_learns_a_rhyme_by_heart(seed):
    loss, written = EXAMPLE["learn"](EXAMPLE["RHYME"], "twinkle", seed=seed, bptt_truncate=10, epochs=150)
    assert written == EXAMPLE["RHYME"]
    assert loss < 0.1  # a guess costs ln 22 = 3.1


def test_a_text_of_one_s_own_is_learned_and_completed(tmp_path, monkeypatch, capsys):
    own = tmp_path / "own.txt"
    own.write_text("the cat sat on the mat. a dog ran to the cat. " * 25)
    monkeypatch.setattr("sys.argv", [str(FILE), str(own)])
    runpy.run_path(str(FILE), run_name="__main__")
    shown = capsys.readouterr().out
    assert "'hell' → 'hello'" in shown
    written = shown.rpartition("→ '")[2].rpartition("'")[0]
    assert len(written) == 200
    right = [word for word in written.split()[1:-1] if word in own.read_text().split()]
    assert len(right) > 0.8 * len(written.split())


def test_it_is_short():
    assert len(FILE.read_text("utf-8").splitlines()) <= 110
