"""examples/rnn_in_one_file.py computes what elman.maths computes, and what it writes at the end is its text."""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path

import numpy as np
import pytest

from elman import maths

FILE = Path(__file__).parents[2] / "examples" / "rnn_in_one_file.py"
ONE = runpy.run_path(str(FILE))


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    V, H, T = 7, 5, 9
    shapes = {"W_xh": (V, H), "W_hh": (H, H), "b_h": (H,), "W_hy": (H, V), "b_y": (V,)}
    p = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    x, y = rng.integers(V, size=(2, T))
    return p, x, y, rng.standard_normal(H)


def test_its_loss_and_gradients_are_those_of_maths(problem):
    p, x, y, h0 = problem
    loss, d, last = ONE["loss_and_gradients"](p, x, y, h0)
    x, y = x[:, np.newaxis], y[:, np.newaxis]
    h = maths.rnn_forward(x, h0[np.newaxis], p["W_xh"], p["W_hh"], p["b_h"])
    right, d_o = maths.cross_entropy(maths.output_forward(h[1:], p["W_hy"], p["b_y"]), y, normalizer=len(x))
    out = maths.output_backward(d_o, h[1:], p["W_hy"])
    cell = maths.rnn_backward(out.d_h, x, h, p["W_xh"], p["W_hh"])
    assert loss == pytest.approx(right)
    np.testing.assert_allclose(last, h[-1, 0])
    for name in p:
        expected = (out._asdict() | cell._asdict())[f"d_{name}"]
        np.testing.assert_allclose(d[name], expected, rtol=1e-10, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("limit", [0.01, 1e6])
def test_its_update_is_a_clipped_step_of_gradient_descent(problem, limit):
    p, x, y, h0 = problem
    _, d, _ = ONE["loss_and_gradients"](p, x, y, h0)
    expected = maths.sgd_step(p, maths.clip_by_norm(d, limit).gradients, 0.1)
    ONE["update"](p, d, 0.1, limit)
    for name, value in p.items():
        np.testing.assert_allclose(value, expected[name], err_msg=name)


def words_of_one_s_own(length):
    """A text of sentences, no two alike, from a small vocabulary."""
    rng = np.random.default_rng(7)
    who = ["a sailor", "the old queen", "my brother", "nobody", "every gardener"]
    does = ["follows", "forgets", "carries home", "paints", "looks for"]
    what = ["the lantern", "two grey geese", "a letter", "bread and honey", "the river"]
    when = ["at dawn", "in winter", "before supper", "again", "without a word"]
    text = ""
    while len(text) < length:
        text += " ".join(str(rng.choice(part)) for part in (who, does, what, when)) + ". "
    return text


def mean_loss(p, letters, text):
    ids = np.array([letters.index(letter) for letter in text])
    return ONE["loss_and_gradients"](p, ids[:-1], ids[1:], np.zeros(len(p["b_h"])))[0]


def last_sample(shown):
    return ast.literal_eval(shown.splitlines()[-1].split("nats  ")[1])


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_what_it_writes_at_the_end_is_the_rhyme(seed, capsys):
    p, letters = ONE["main"](ONE["RHYME"], seed=seed)
    written = last_sample(capsys.readouterr().out)
    assert len(written) == 60
    assert written in ONE["RHYME"]
    assert mean_loss(p, letters, ONE["RHYME"]) < 0.1  # a guess costs ln 22 = 3.1; only the first letters are unsure
    ids = [letters.index(letter) for letter in ONE["RHYME"][:50]]
    for draw in range(10):
        tokens = ONE["sample"](p, ids, 60, np.random.default_rng(draw))
        assert "".join(letters[token] for token in tokens) in ONE["RHYME"]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_text_of_one_s_own_is_learned_for_as_long_as_it_needs(seed, capsys):
    text = words_of_one_s_own(2500)
    brief = mean_loss(*ONE["main"](text, steps=1500, seed=seed), text)
    p, letters = ONE["main"](text, seed=seed)
    assert mean_loss(p, letters, text) < 0.85 * brief
    words = re.findall(r"\w+", last_sample(capsys.readouterr().out))[1:-1]  # the first and the last may be cut
    assert words
    assert len(set(words) - set(re.findall(r"\w+", text))) <= 1, words


def test_a_window_begins_with_the_state_of_the_one_before():
    text = "?aaaa?bbbb" * 20  # what follows a question mark depends on the window before
    assert mean_loss(*ONE["main"](text, window=5, steps=500), text) < 0.05  # without a carried state ln 2 / 5 = 0.14


def test_a_longer_text_is_read_for_more_steps_up_to_a_limit(monkeypatch, capsys):
    monkeypatch.setitem(ONE["main"].__globals__, "loss_and_gradients", lambda p, x, y, h0: (0.0, {}, h0))
    monkeypatch.setitem(ONE["main"].__globals__, "update", lambda *_: None)
    steps = []
    for length in (100, 5000, 1_000_000):
        ONE["main"]("ab" * (length // 2))
        steps.append(int(capsys.readouterr().out.splitlines()[-1].split()[1]))
    assert steps == [1500, 8000, 20000]


def test_a_sample_goes_on_from_the_state_after_the_whole_prompt(problem):
    p, x, _, _ = problem
    tokens = ONE["sample"](p, x, 8, np.random.default_rng(0), temperature=0.02)  # practically the likeliest
    _, y_hat = ONE["forward"](p, [*x, *tokens], np.zeros(5))  # all in one go
    assert tokens == list(y_hat[len(x) - 1 : -1].argmax(axis=1))


def test_a_lower_temperature_draws_the_likeliest_more_often(problem):
    p, x, _, _ = problem
    p["W_hy"][:], p["b_y"][:] = 0, np.log([0.6, 0.2, 0.2, 1e-9, 1e-9, 1e-9, 1e-9])
    for temperature, share in ((1.0, 0.6), (0.5, 0.36 / 0.44)):
        tokens = ONE["sample"](p, x, 2000, np.random.default_rng(0), temperature)
        assert tokens.count(0) / 2000 == pytest.approx(share, abs=0.05)


@pytest.mark.parametrize("text", ["ab", "hello", "a" * 25 + "b", "abcdefghijklmnopqrstuvwxyz."])
def test_a_text_is_learned_to_its_last_character_however_short(text):
    assert mean_loss(*ONE["main"](text), text) < 0.05


def test_it_reads_the_file_that_is_named(tmp_path, monkeypatch, capsys):
    (tmp_path / "own.txt").write_text("ab" * 40)
    monkeypatch.setattr("sys.argv", [str(FILE), str(tmp_path / "own.txt")])
    runpy.run_path(str(FILE), run_name="__main__")
    assert last_sample(capsys.readouterr().out) == "ab" * 30
