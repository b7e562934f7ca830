"""examples/rnn_in_one_file.py computes what elman.maths computes, with NumPy alone."""

from __future__ import annotations

import ast
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


def test_it_learns(capsys):
    p, letters = ONE["main"](ONE["RHYME"], steps=600)
    assert "nats" in capsys.readouterr().out
    ids = np.array([letters.index(letter) for letter in ONE["RHYME"]])
    assert ONE["loss_and_gradients"](p, ids[:-1], ids[1:], np.zeros(64))[0] < 0.3  # a guess costs ln 22 = 3.1
    tokens = ONE["sample"](p, 0, 20, np.random.default_rng(0))
    assert len(tokens) == 21


def test_it_is_one_short_file_of_numpy_with_every_equation():
    text = FILE.read_text(encoding="utf-8")
    imported = {
        alias.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import) for alias in node.names
    }
    assert imported == {"sys", "numpy"}  # and pathlib
    assert len([line for line in text.splitlines() if line.strip()]) <= 66
    for number in (*range(1, 14), 16, 17):
        assert f"({number})" in text
