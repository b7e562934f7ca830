"""Steps: the numbers are those of the equations, and each line of code is where the data says it is."""

from __future__ import annotations

import json
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from look_models import drawn_model

import elman
from elman import maths
from elman.data import ByteVocabulary, CharVocabulary, WordVocabulary
from elman.errors import ArgumentError, DataError, ElmanError, NotFittedError, RangeError, RunError, VocabularyError
from elman.look import trace
from elman.look.equations import ACTIVATIONS, STACKED, Function, equations
from elman.look.line_tracer import Line, watch
from elman.look.recording import record
from elman.look.steps import steps, steps_data
from elman.maths.cells import CELLS, RNNCell, make_cell
from elman.maths.recurrence import cell_backward, cell_forward
from elman.maths.truncation import Truncation
from elman.models import LanguageModel
from elman.network import Batch, language_network
from elman.training.storage import as_json

PACKAGE = Path(elman.__file__).parent
GATED = {
    "rnn": (["a", "h"], ["d_h", "d_a"], ["d_h0"]),
    "gru": (["r", "z", "q", "n", "h"], ["d_h", "d_a_n", "d_a_z", "d_a_r", "d_q"], ["d_b_hn", "d_h0"]),
    "lstm": (
        ["i", "f", "g", "o_gate", "c", "h"],
        ["d_h", "d_c", "d_a_i", "d_a_f", "d_a_g", "d_a_o"],
        ["d_h0", "d_c0"],
    ),
}
ALL_CELLS = [RNNCell(name) for name in ACTIVATIONS] + [make_cell("gru"), make_cell("lstm")]
SHOWN = [line for cell in ALL_CELLS for e in equations(cell).values() for line in e.lines] + list(STACKED.values())
LINES = [line for line in SHOWN if isinstance(line, Line)]
FUNCTIONS = [function for function in SHOWN if isinstance(function, Function)]


@pytest.mark.parametrize("line", dict.fromkeys(LINES), ids=lambda line: line.name)
def test_every_line_is_where_it_is_said_to_be(line):
    told = line.to_json()
    source = (PACKAGE.parent / told["file"]).read_text().splitlines()
    shown = source[told["line"] - 1]
    assert shown.split("  #")[0].strip() == told["code"]
    assert shown.endswith(f"[{line.marker.split()[-1]}]")
    assert told["file"].startswith("elman/maths/")


@pytest.mark.parametrize("function", dict.fromkeys(FUNCTIONS), ids=lambda function: function.home.__name__)
def test_every_function_is_where_it_is_said_to_be(function):
    told = function.to_json()
    source = (PACKAGE.parent / told["file"]).read_text().splitlines()
    assert source[told["line"] - 1] == told["code"]
    assert told["code"].startswith(f"def {told['function']}(")


def test_every_equation_has_a_line():
    for cell in ALL_CELLS:
        forward, backward, extra = GATED[cell.name]
        weights = ["d_W_hy", "d_b_y", "d_W_hh", "d_W_xh", "d_b_h"]
        assert list(equations(cell)) == ["x", *forward, "o", "y_hat", "L", "d_o", *backward, *weights, *extra,
                                         "norm", "scale", "p"]  # fmt: skip
        assert all(equation.lines for equation in equations(cell).values())
    assert set(ACTIVATIONS) == set(maths.ACTIVATIONS)
    assert set(GATED) == set(CELLS)


def test_the_gradient_of_the_logits_shows_where_y_hat_enters():
    assert equations(RNNCell())["d_o"].lines[0].found.code == "d_o = y_hat"


WEIGHTS = {"W_xh": np.eye(3), "W_hh": np.eye(3), "b_h": np.zeros(3)}


def test_a_line_without_its_marker_is_an_error():
    with pytest.raises(ElmanError, match=r"the line 'cell_forward nothing': expected a line of .*recurrence.py"):
        _ = Line(cell_forward, "nothing").found


def test_a_line_that_does_not_run_is_an_error():
    line = Line(cell_forward, "carried", "s")  # nothing is carried where all rows are as long
    with pytest.raises(ElmanError, match="watched lines: expected all to run, got no run of 'cell_forward carried'"):
        watch(lambda: cell_forward(RNNCell(), np.zeros((2, 1, 3)), None, WEIGHTS), [line])


def in_several_lines(n):
    total = 0
    for i in range(n):
        total = sum(
            [total, i],
        )  # [total]
    return total


def test_a_line_that_is_written_in_several_lines_is_watched_and_shown_as_one():
    line = Line(in_several_lines, "total", "total")
    assert line.found.code == "total = sum([total, i])"
    result, (values,) = watch(lambda: in_several_lines(4), [line])
    assert (result, values) == (6, [0, 1, 3, 6])


def test_who_was_watching_before_goes_on_watching():
    seen = []

    def tracer(frame, event, value):
        seen.append(frame.f_code.co_name)

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        steps_data("a", "b")
        after = sys.gettrace()
        in_several_lines(1)
    finally:
        sys.settrace(before)
    assert after is tracer
    assert "in_several_lines" in seen


def found(told, name, layer=None):
    """The results of an equation by t."""
    rows = [step for step in told if step.equation.name == name and layer in (None, step.layer)]
    assert rows, name
    return [step.result.array for step in sorted(rows, key=lambda step: step.t or 0)]


def expected(network, p, x, y):
    """All of it from the public equations, and d_h and d_a by a loop of their own."""
    T, out, states, f = len(x), {}, [], maths.ACTIVATIONS[network.stack.cell.activation]
    entering, cells = x[:, np.newaxis], []
    for layer in range(network.stack.layers):
        W_xh, W_hh, b_h = (p[f"layers.{layer}.{name}"] for name in ("W_xh", "W_hh", "b_h"))
        h = maths.rnn_forward(entering, None, W_xh, W_hh, b_h, activation=network.stack.cell.activation)
        rows = W_xh[x][:, np.newaxis] if layer == 0 else entering @ W_xh
        out["a", layer], out["h", layer] = rows + h[:-1] @ W_hh + b_h, h[1:]
        cells.append((entering, W_xh, W_hh))
        states.append(h)
        entering = h[1:]
    o = maths.output_forward(entering, p["head.W_hy"], p["head.b_y"])
    out["o", None], out["y_hat", None] = o, maths.softmax(o)
    out["L", None], d_o = maths.cross_entropy(o, y[:, np.newaxis], normalizer=T)
    out["d_o", None] = d_o
    output = maths.output_backward(d_o, entering, p["head.W_hy"])
    out["d_W_hy", None], out["d_b_y", None], direct = output
    for layer in reversed(range(network.stack.layers)):
        entering, W_xh, W_hh = cells[layer]
        h, d_h, d_a, later = states[layer], np.empty_like(direct), np.empty_like(direct), np.zeros_like(direct[0])
        for t in reversed(range(T)):
            d_h[t] = direct[t] + later
            d_a[t] = f.derivative(h[t + 1]) * d_h[t]
            later = d_a[t] @ W_hh.T
        out["d_h", layer], out["d_a", layer] = d_h, d_a
        d = maths.rnn_backward(direct, entering, h, W_xh, W_hh, activation=network.stack.cell.activation)
        for name in ("d_W_xh", "d_W_hh", "d_b_h", "d_h0"):
            out[name, layer] = getattr(d, name)
        direct = d.d_x
    return out


WORD = st.text(st.sampled_from("helo"), min_size=1, max_size=6)


@settings(max_examples=40, deadline=None)
@given(WORD.flatmap(lambda word: st.tuples(st.just(word), st.text(st.sampled_from("helo"), min_size=len(word),
       max_size=len(word)))), st.sampled_from(sorted(ACTIVATIONS)), st.integers(1, 3))  # fmt: skip
def test_numbers_are_those_of_the_equations(words, activation, layers):
    model = drawn_model(CharVocabulary("helo"), hidden=5, layers=layers, activation=activation)
    x, y = (model.vocabulary_.encode(word).astype(np.int64) for word in words)
    told = steps(model.network_, model.parameters_, x, y)
    for (name, layer), value in expected(model.network_, model.parameters_, x, y).items():
        value = np.asarray(value)
        of_all_steps = name in ("L", "d_W_hy", "d_b_y", "d_W_xh", "d_W_hh", "d_b_h", "d_h0")
        got = found(told, name, layer)
        np.testing.assert_allclose(got[0] if of_all_steps else np.stack(got), value, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(np.concatenate(found(told, "x"))[np.arange(len(x)), x], 1)
    gradients = model.parameters_.zeros()
    batch = Batch(x[:, np.newaxis], y[:, np.newaxis])
    model.network_.loss_and_gradients(model.parameters_, batch, gradients, normalizer=len(x))
    np.testing.assert_allclose(found(told, "d_W_hh", 0)[0], gradients["layers.0.W_hh"], atol=1e-12)
    check_operands(told, len(x), activation)


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def pre_activation(x, W_xh, h, W_hh, from_x, from_h, b):
    np.testing.assert_allclose(from_x, x @ W_xh, atol=1e-12)
    np.testing.assert_allclose(from_h, h @ W_hh, atol=1e-12)
    return from_x + from_h + b


def check_operands(told, T, activation="tanh"):
    """The operands that are shown make the result."""
    right = {
        "a": pre_activation, "h": maths.ACTIVATIONS[activation].function,
        "o": lambda h, W, b: h @ W + b, "y_hat": maths.softmax, "L": lambda y, costs: costs.mean(),
        "d_o": lambda y_hat, y: (y_hat - y) / T, "d_a": lambda slope, d: slope * d,
        "d_W_hy": lambda h, d: h.T @ d, "d_W_hh": lambda h, d: h.T @ d, "d_W_xh": lambda x, d: x.T @ d,
        "d_b_y": lambda d: d.sum(axis=0), "d_b_h": lambda d: d.sum(axis=0), "d_b_hn": lambda d: d.sum(axis=0),
        "q": lambda r, b: r + b, "n": lambda x, b, r, q: np.tanh(x + b + r * q), "c": lambda f, c, i, g: f * c + i * g,
        "g": lambda x, h, b, a: np.tanh(x + h + b), "d_q": lambda r, d: r * d,
        "d_c": lambda later, o, slope, d: later + o * slope * d, "d_a_i": lambda i, g, d: i * (1 - i) * g * d,
        "d_a_f": lambda f, c, d: f * (1 - f) * c * d, "d_a_g": lambda g, i, d: (1 - g**2) * i * d,
        "d_a_o": lambda o, tanh_c, d: o * (1 - o) * tanh_c * d, "d_a_n": lambda n, z, d: (1 - n**2) * (1 - z) * d,
        "d_a_z": lambda z, h, n, d: z * (1 - z) * (h - n) * d, "d_a_r": lambda r, q, d: r * (1 - r) * q * d,
        "d_c0": lambda f, d: f * d, "norm": lambda *squares: np.sqrt(sum(squares)),
        "scale": lambda limit, norm: np.minimum(1, limit / norm),
        **{gate: lambda x, h, b, a: sigmoid(x + h + b) for gate in ("i", "f", "o_gate", "r", "z")},
    }  # fmt: skip
    by_formula = {
        "h[t+1] = o_gate[t] ⊙ tanh(c[t+1])": lambda o, tanh_c: o * tanh_c,
        "h[t+1] = (1 - z[t]) ⊙ n[t] + z[t] ⊙ h[t]": lambda z, n, h: (1 - z) * n + z * h,
        "d_h[0] = d_a[0] @ W_hh.T": lambda d, W: d @ W.T,
        "d_h[0] = d_a_h[0] @ W_hh.T + z[0] ⊙ d_h[1]": lambda d, W, z, d_h: d @ W.T + z * d_h,
    }
    for step in told:
        assert step.result.array.ndim == len(step.result.axes)
        if step.equation.name in ("x", "d_h"):
            continue
        compute = by_formula.get(step.equation.formula) or right.get(step.equation.name)
        if compute is None:  # a parameter after the step
            assert step.here == f"{step.equation.name} ← {step.equation.name} - η · scale · d_{step.equation.name}"
            compute = lambda p, rate, scale, d: p - rate * scale * d  # noqa: E731
        parts = [value.array for value in step.operands]
        np.testing.assert_allclose(compute(*parts), step.result.array, atol=1e-12, err_msg=step.here)
    for step in told:
        if step.equation.name == "d_h":
            np.testing.assert_allclose(sum(v.array for v in step.operands), step.result.array, atol=1e-12)


@pytest.mark.parametrize(("cell", "layers", "embedding"), [
    ("rnn", 1, 0), ("rnn", 2, 0), ("gru", 1, 0), ("lstm", 2, 3), ("rnn", 1, 3),
])  # fmt: skip
@pytest.mark.parametrize("clip_norm", [0.05, 0])
def test_the_update_is_that_of_maths_and_lowers_the_loss(cell, layers, embedding, clip_norm):
    network = language_network(4, 5, layers=layers, embedding=embedding, cell=cell)
    p = network.initial(np.random.default_rng(0), recurrent="orthogonal", gain=1.0, dtype=np.dtype(np.float64))
    x, y = np.array([0, 1, 2, 2]), np.array([1, 2, 2, 3])
    d, batch = p.zeros(), Batch(x[:, np.newaxis], y[:, np.newaxis])
    loss = network.loss_and_gradients(p, batch, d, normalizer=4)
    told = steps(network, p, x, y, learning_rate=0.1, clip_norm=clip_norm)
    check_operands(told, 4)
    clipped = maths.clip_by_norm(d, clip_norm or np.inf)
    assert (clipped.scale < 1) == bool(clip_norm)
    assert found(told, "norm")[0] == pytest.approx(clipped.norm)
    assert found(told, "scale")[0] == pytest.approx(clipped.scale)
    expected = maths.sgd_step(p, clipped.gradients, 0.1)
    after = p.zeros()
    shown = [step for step in told if step.equation.phase == "update"][2:]
    for step, name in zip(shown, p, strict=True):
        assert name.endswith(step.equation.name)
        np.testing.assert_allclose(step.result.array, expected[name], rtol=1e-9, atol=1e-12)
        after[name][...] = step.result.array
    assert network.loss_and_gradients(after, batch, d, normalizer=4) < loss


@pytest.mark.parametrize("cell", list(CELLS))
def test_a_learned_initial_state_is_updated_too(cell):
    network = language_network(3, 6, cell=cell, learned_state=True)
    p = network.initial(np.random.default_rng(0), recurrent="orthogonal", gain=1.0, dtype=np.dtype(np.float64))
    p.buffer[:] = np.random.default_rng(0).standard_normal(len(p.buffer))
    told = steps(network, p, np.array([0, 1, 2]), np.array([1, 2, 0]), learning_rate=0.1, clip_norm=0)
    for part in network.stack.cell.state_names:
        (step,) = [step for step in told if step.equation.name == f"{part}0"]
        (d,) = found(told, f"d_{part}0")
        np.testing.assert_allclose(step.result.array, p[f"layers.0.{part}0"] - 0.1 * d[0], rtol=1e-9, atol=1e-12)
        assert step.result.axes == "H"


@pytest.mark.parametrize(("cell", "layers", "embedding"), [
    ("rnn", 1, 0), ("rnn", 2, 0), ("gru", 1, 0), ("gru", 2, 3), ("lstm", 1, 0), ("lstm", 2, 0),
])  # fmt: skip
@pytest.mark.parametrize("k2", [1, 2, 4, 5])
def test_with_truncation_each_loss_goes_back_over_its_last_steps(cell, layers, embedding, k2):
    T = 5
    network = language_network(4, 3, layers=layers, embedding=embedding, cell=cell)
    p = network.initial(np.random.default_rng(0), recurrent="orthogonal", gain=1.0, dtype=np.dtype(np.float64))
    x, y = np.array([0, 1, 2, 2, 3]), np.array([1, 2, 2, 3, 0])
    told = steps(network, p, x, y, bptt_steps=k2)
    check_operands(told, T)
    d, batch = p.zeros(), Batch(x[:, np.newaxis], y[:, np.newaxis])
    network.loss_and_gradients(p, batch, d, normalizer=T, truncation=Truncation(1, k2))
    for layer in range(layers):
        for name, gradient in d.part(f"layers.{layer}").items():
            np.testing.assert_allclose(found(told, f"d_{name}", layer)[0], gradient, atol=1e-12)
    visited = [(step.loss, step.t) for step in told if step.equation.name == "d_h" and step.layer == 0]
    if k2 == T:
        assert visited == [(None, t) for t in reversed(range(T))]
        return
    assert visited == [(s, t) for s in reversed(range(T)) for t in range(s, max(-1, s - k2), -1)]
    for step in told:
        if step.loss is not None and step.equation.name == "d_h" and step.layer == layers - 1:
            assert bool(step.operands[0].array.any()) == (step.t == step.loss)  # only its own loss
            assert ("= 0 + " in step.here) == (step.t != step.loss)
            assert step.here.endswith("+ 0") == (step.t == step.loss)
    if cell == "rnn" and layers == 1:
        h, W_hy = record(network, p, x, y).layers[0]["h[t+1]"].array, p["head.W_hy"]
        direct = np.stack(found(told, "d_o")) @ W_hy.T
        h = np.concatenate([np.zeros_like(h[:1]), h])
        W_xh, W_hh = p["layers.0.W_xh"], p["layers.0.W_hh"]
        expected = maths.truncated_backward(direct, x[:, np.newaxis], h, W_xh, W_hh, k1=1, k2=k2)
        for name in ("d_W_xh", "d_W_hh", "d_b_h", "d_h0"):
            np.testing.assert_allclose(found(told, name)[0], getattr(expected, name), atol=1e-12)


@pytest.mark.parametrize(("setting", "message"), [
    ({"bptt_steps": 0}, "bptt_steps: expected a number of 1 or more, got 0"),
    ({"learning_rate": -1.0}, "learning_rate: expected a number of 0 or more, got -1"),
    ({"learning_rate": float("nan")}, "learning_rate: expected"),
    ({"clip_norm": float("inf")}, "clip_norm: expected"),
])  # fmt: skip
def test_settings_that_make_no_sense_are_refused(setting, message):
    with pytest.raises(RangeError, match=message):
        steps_data("hell", "ello", **setting)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_numbers_of_gated_cells_are_those_of_the_equations_and_of_the_gradients(cell, layers):
    model = drawn_model(CharVocabulary("helo"), hidden=5, layers=layers, cell=cell)
    x, y = (model.vocabulary_.encode(word).astype(np.int64) for word in ("hello", "elloh"))
    told = steps(model.network_, model.parameters_, x, y)
    check_operands(told, 5)
    gradients = model.parameters_.zeros()
    batch = Batch(x[:, np.newaxis], y[:, np.newaxis])
    loss = model.network_.loss_and_gradients(model.parameters_, batch, gradients, normalizer=5)
    assert found(told, "L")[0] == pytest.approx(loss)
    for layer in range(layers):
        for name, d in gradients.part(f"layers.{layer}").items():
            np.testing.assert_allclose(found(told, f"d_{name}", layer)[0], d, atol=1e-12)
    np.testing.assert_allclose(found(told, "d_W_hy")[0], gradients["head.W_hy"], atol=1e-12)


@pytest.mark.parametrize("cell", list(CELLS))
def test_each_d_is_the_derivative_of_the_loss(cell):
    """d_h[0] and, for an LSTM, d_c[0] against central differences from a given initial state."""
    model = drawn_model(CharVocabulary("helo"), hidden=4, cell=cell)
    network, p = model.network_, model.parameters_
    x, y = (model.vocabulary_.encode(word).astype(np.int64) for word in ("hell", "ello"))
    told = steps(network, p, x, y)
    for part, name in enumerate(network.stack.cell.state_names):
        (d,) = found(told, f"d_{name}0")
        for unit in range(4):
            losses = []
            for nudge in (1e-5, -1e-5):
                state = network.stack.zero_state(1, np.float64)
                state[0, part, 0, unit] = nudge
                losses.append(trace(network, p, x, state=state).losses(y).mean())
            assert d[0, unit] == pytest.approx((losses[0] - losses[1]) / 2e-5, abs=1e-8)


def test_hell_to_ello_is_plain_data_in_the_order_of_the_equations():
    data = steps_data("hell", "ello")
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert data["tokens"] == [["h", "e"], ["e", "l"], ["l", "l"], ["l", "o"]]
    assert data["network"] == {"source": "seed 0", "cell": "rnn", "layers": 1, "hidden": 3, "outputs": 4,
                               "activation": "tanh"}  # fmt: skip
    symbols = [step["symbol"] for step in data["steps"]]
    forward = [s.format(t, t + 1) for t in range(4) for s in ("x[{0}]", "a[{0}]", "h[{1}]", "o[{0}]", "y_hat[{0}]")]
    backward = [s.format(t, t + 1) for t in (3, 2, 1, 0) for s in ("d_o[{0}]", "d_h[{1}]", "d_a[{0}]")]
    assert symbols == [*forward, "L", *backward, "d_W_hy", "d_b_y", "d_W_hh", "d_W_xh", "d_b_h", "d_h[0]",
                       "norm", "scale", "W_xh", "W_hh", "b_h", "W_hy", "b_y"]  # fmt: skip
    phases = ["forward", "loss", "backward", "gradients", "update"]
    assert list(dict.fromkeys(step["phase"] for step in data["steps"])) == phases
    by_symbol = {step["symbol"]: step for step in data["steps"]}
    assert by_symbol["a[2]"]["here"] == "a[2] = x[2] @ W_xh + h[2] @ W_hh + b_h"
    assert by_symbol["d_h[4]"]["here"] == "d_h[4] = d_o[3] @ W_hy.T + 0"
    assert by_symbol["d_h[3]"]["here"] == "d_h[3] = d_o[2] @ W_hy.T + d_a[3] @ W_hh.T"
    assert by_symbol["d_a[0]"]["operands"][0]["name"] == "(1 - h[1]²)"
    assert by_symbol["d_W_hy"]["result"]["shape"] == [3, 4]
    assert steps_data("hell", "ello") == data
    line = by_symbol["d_h[3]"]["lines"][-1]
    assert (line["code"], line["function"]) == ("d_s[0] += d_h_direct[t]", "cell_backward")


def test_of_a_big_network_a_part_is_shown_and_all_is_there():
    model = drawn_model(ByteVocabulary(), hidden=20)
    whole, part = (steps_data("hell", "ello", model=model, shown=shown) for shown in (None, 6))
    assert len(whole["axes"]["H"]["indices"]) == 20
    units, tokens = part["axes"]["H"]["indices"], part["axes"]["Y"]["indices"]
    assert units == [0, 1, 2, 3, 4, 5]
    assert set(b"helo") < set(tokens)
    assert len(tokens) == 6
    for one, other in zip(part["steps"], whole["steps"], strict=True):
        assert one["result"]["shape"] == other["result"]["shape"]
        if one["name"] == "d_W_hy":
            np.testing.assert_array_equal(
                one["result"]["values"], np.array(other["result"]["values"])[units][:, tokens]
            )


def test_a_stack_names_its_layers_and_their_lines():
    data = steps_data("hell", "ello", model=drawn_model(CharVocabulary("helo"), layers=2))
    upper = next(step for step in data["steps"] if step["name"] == "a" and step["layer"] == 1)
    assert upper["lines"][0]["function"] == "input_forward"
    lower = next(step for step in data["steps"] if step["name"] == "d_h" and step["layer"] == 0 and step["t"] == 1)
    assert lower["here"] == "d_h[2] = d_x[1] of layer 1 + d_a[2] @ W_hh.T"
    assert lower["lines"][0]["function"] == "input_backward"


def test_numbers_that_json_does_not_know_are_null():
    model = drawn_model(CharVocabulary("helo"), activation="identity")
    model.parameters_["layers.0.W_hh"][...] = 1e300
    data = steps_data("hell", "ello", model=model)
    (said,) = [step["result"]["values"] for step in data["steps"] if step["symbol"] == "y_hat[3]"]
    assert None in said[0]
    json.dumps(data, allow_nan=False)


def test_words_are_tokens_too():
    data = steps_data("the cat", " cat sat", model=drawn_model(WordVocabulary(["<unk>", "the", " cat"])))
    assert data["tokens"] == [["the", " cat"], [" cat", "<unk>"]]


@pytest.mark.parametrize(("input", "target", "error", "message"), [
    ("hell", "ell", ArgumentError, "the same number of tokens.*got 4 and 3"),
    ("", "", DataError, "the input is empty"),
    ("h", "", DataError, "the target is empty"),
    ("a" * 33, "b" * 33, RangeError, "at most 32 tokens, got 33"),
])  # fmt: skip
def test_texts_that_do_not_fit_are_refused(input, target, error, message):
    with pytest.raises(error, match=message):
        steps_data(input, target)


def test_a_run_is_stepped_through_and_its_limits_are_told(tmp_path):
    drawn_model(CharVocabulary("helo")).save(tmp_path / "run")
    model = LanguageModel.load(tmp_path / "run")
    data = steps_data("hell", "ello", model=model)
    assert data["network"]["source"] == "the run run"
    assert data["network"]["hidden"] == 12
    with pytest.raises(VocabularyError, match="the target has characters that are not in the vocabulary: got 'ß'"):
        steps_data("hell", "elß!"[:3] + "o", model=model)
    with pytest.raises(NotFittedError):
        steps_data("a", "b", model=LanguageModel())
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    (tmp_path / "run" / "config.json").write_bytes(as_json({**config, "task": "classifier"}))
    with pytest.raises(RunError, match=r"expected a language model, got .*classifier"):
        LanguageModel.load(tmp_path / "run")


def test_watching_changes_nothing():
    rng = np.random.default_rng(0)
    x, W_xh, W_hh = rng.standard_normal((3, 1, 2)), rng.standard_normal((2, 4)), rng.standard_normal((4, 4))
    p = {"W_xh": W_xh, "W_hh": W_hh, "b_h": np.zeros(4)}
    arguments = RNNCell(), rng.standard_normal((3, 1, 4)), cell_forward(RNNCell(), x, None, p), x, p
    watched, (kept,) = watch(lambda: cell_backward(*arguments), [Line(cell_backward, "d_h", "d_s")])
    plain = cell_backward(*arguments)
    for name, d in plain.d_p.items():
        np.testing.assert_array_equal(watched.d_p[name], d)
    np.testing.assert_array_equal(watched.d_s0, plain.d_s0)
    assert len(kept) == 3
    np.testing.assert_array_equal(kept[0], arguments[1][np.newaxis, 2])


def test_a_large_vocabulary_makes_no_square_of_itself():
    V = 3_000
    network, x = language_network(V, 2), np.array([V - 1, 1, 2])
    p = network.initial(np.random.default_rng(0), recurrent="orthogonal", gain=1.0, dtype=np.dtype(np.float64))
    tracemalloc.start()
    recording = record(network, p, x, x[::-1])
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < V**2  # bytes; the identity matrix has eight times as many
    one_hot, targets = recording.layers[0]["x[t]"].array, recording.output["y[t]"].array
    assert (one_hot.argmax(axis=-1)[:, 0] == x).all()
    assert one_hot.sum() == targets.sum() == 3


@pytest.mark.parametrize("cell", list(CELLS))
def test_a_network_with_an_embedding_shows_its_vectors(cell):
    network = language_network(4, 5, embedding=3, cell=cell)
    p = network.initial(np.random.default_rng(0), recurrent="orthogonal", gain=1.0, dtype=np.dtype(np.float64))
    x, y = np.array([0, 1, 2]), np.array([1, 2, 3])
    told = steps(network, p, x, y)
    assert told[0].here == "x[0] = row of the embedding for the token"
    np.testing.assert_allclose(np.concatenate(found(told, "x")), p["embedding.W"][x])
    gradients = p.zeros()
    network.loss_and_gradients(p, Batch(x[:, np.newaxis], y[:, np.newaxis]), gradients, normalizer=3)
    np.testing.assert_allclose(found(told, "d_W_xh")[0], gradients["layers.0.W_xh"], atol=1e-12)
    check_operands(told, 3)


def test_a_model_of_sequences_reads_from_the_beginning():
    model = LanguageModel(hidden=8, steps=2).fit(["hello", "cat"], listeners=[])
    data = steps_data("hel", "ell", model=model)
    assert data["tokens"] == [["<end>", "h"], ["h", "e"], ["e", "l"], ["l", "l"]]
    loss = next(step for step in data["steps"] if step["name"] == "L")["result"]["values"]
    assert loss == pytest.approx(float(np.mean(model.surprise("hell")[:4])), rel=1e-5)
