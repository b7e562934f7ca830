"""The checker: right variants pass, known mistakes are named, nothing wrong is called right."""

from __future__ import annotations

import re
from itertools import combinations

import numpy as np
import pytest

from elman import lab
from elman.errors import DataError, UnknownNameError
from elman.lab.checker import _equal, _results, judge
from elman.lab.gaps import GAPS, MISTAKES, load_solutions, problems, solution_text, special_cases, student_text

DOCS = lab.__file__.split("/src/")[0] + "/docs/maths.md"


def written(text):
    """The functions of a student's text."""
    namespace = {"np": np}
    exec(text, namespace)
    return namespace


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("gap", GAPS.values(), ids=list(GAPS))
def test_solutions_are_right_and_each_known_mistake_is_named(gap, seed):
    assert judge(gap, gap.right(), seed).right
    for mistake in gap.mistakes:
        verdict = judge(gap, gap.wrong(mistake), seed)
        assert verdict.mistakes == (mistake.says,), mistake
        assert f"section {mistake.section}" in verdict.message


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("gap", GAPS.values(), ids=list(GAPS))
def test_every_pair_of_mistakes_gives_different_results(gap, seed):
    with np.errstate(all="ignore"):
        tried = problems(gap.file, seed)
        tried = [*tried, *special_cases(gap, tried[0])]
        found = {m: [_results(gap, gap.wrong(m), v) for v in tried] for m in gap.mistakes}
        right = [_results(gap, gap.right(), v) for v in tried]

    def equal(ours, theirs):
        return all(_equal(a, b) for p, q in zip(ours, theirs, strict=True) for a, b in zip(p, q, strict=True))

    for (one, ours), (other, theirs) in combinations(found.items(), 2):
        assert not equal(ours, theirs), (one.says, other.says)
    assert not any(equal(results, right) for results in found.values())


def test_the_table_is_large_and_has_each_edit_once():
    assert len(MISTAKES) >= 30
    assert len({(m.gap, m.old, m.new) for m in MISTAKES}) == len(MISTAKES)


RIGHT = {
    "lists": """
def softmax(o):
    return [[[np.exp(e - max(row)) / sum(np.exp(np.array(row) - max(row))) for e in row] for row in step] for step in o]
""",
    "in place": """
def softmax(o):
    o -= o.max(-1, keepdims=True)
    np.exp(o, out=o)
    o /= o.sum(-1, keepdims=True)
    return o
def cross_entropy(o, y):
    d_o = softmax(o)
    L = 0
    for t in range(len(y)):
        for b in range(y.shape[1]):
            L -= np.log(d_o[t, b, y[t, b]])
            d_o[t, b, y[t, b]] -= 1
    return L, d_o
def preactivation_gradient(d_h, h_next):
    d_h *= 1 - h_next * h_next
    return d_h
def clip(gradients, limit):
    norm = np.linalg.norm(np.concatenate([g.ravel() for g in gradients]))
    if norm > limit:
        for g in gradients:
            g *= limit / norm
""",
    "other orders": """
def forward_step(x_t, h_t, W_xh, W_hh, b_h):
    return np.tanh(np.concatenate([h_t, x_t], 1) @ np.concatenate([W_hh, W_xh]) + b_h)
def weight_gradients(x, h, d_a, d_o):
    return {
        "d_W_xh": np.einsum("tbx,tbh->xh", x, d_a), "d_W_hh": np.einsum("tbx,tbh->xh", h[:-1], d_a),
        "d_b_h": d_a.sum(0).sum(0), "d_W_hy": np.tensordot(h[1:], d_o, ((0, 1), (0, 1))), "d_b_y": d_o.sum(1).sum(0),
    }
def preactivation_gradient(d_h, h_next):
    return (1 - h_next) * (1 + h_next) * d_h
def lstm_gates(x_t, h_t, W_xh, W_hh, b_h):
    H = h_t.shape[1]
    a = b_h + h_t @ W_hh + x_t @ W_xh
    s = 1 / (1 + np.exp(-a))
    return [s[:, :H], s[:, H:2 * H], np.tanh(a[:, 2 * H:3 * H]), s[:, 3 * H:]]
""",
    "one function with the others": """
def backward(x, h, d_o, W_xh, W_hh, W_hy):
    T = len(x)
    d_a = np.zeros_like(h[1:])
    after = np.zeros_like(h[0])
    for t in range(T - 1, -1, -1):
        after = d_a[t] = preactivation_gradient(hidden_gradient(d_o[t], after, W_hy, W_hh), h[t + 1])
    return *weight_gradients(x, h, d_a, d_o)[:3], after @ W_hh.T
def hidden_gradient(*arguments):
    return None
def preactivation_gradient(*arguments):
    return None
def weight_gradients(*arguments):
    return None
""",
    "from scratch": """
def truncated_backward(x, h, d_o, W_xh, W_hh, W_hy, k):
    d_W_xh, d_W_hh, d_b_h = 0, 0, 0
    for t in reversed(range(len(x))):
        d_h = d_o[t] @ W_hy.T
        for s in range(t, max(-1, t - k), -1):
            d_a = d_h * (1 - h[s + 1] ** 2)
            d_W_xh, d_W_hh, d_b_h = d_W_xh + x[s].T @ d_a, d_W_hh + h[s].T @ d_a, d_b_h + d_a.sum(0)
            d_h = d_a @ W_hh.T
    return d_W_xh, d_W_hh, d_b_h
""",
    "float32": """
def forward_step(*arguments):
    x_t, h_t, W_xh, W_hh, b_h = (a.astype(np.longdouble) for a in arguments)
    return np.tanh(x_t @ W_xh + h_t @ W_hh + b_h)
""",
}


@pytest.mark.parametrize(("way", "name"), [
    ("lists", "softmax"), ("in place", "softmax"), ("in place", "cross_entropy"), ("in place", "clip"),
    ("in place", "preactivation_gradient"), ("other orders", "forward_step"), ("other orders", "weight_gradients"),
    ("other orders", "preactivation_gradient"), ("other orders", "lstm_gates"),
    ("one function with the others", "backward"), ("from scratch", "truncated_backward"), ("float32", "forward_step"),
])  # fmt: skip
def test_right_variants_pass(way, name):
    for seed in range(3):
        verdict = judge(GAPS[name], written(RIGHT[way])[name], seed)
        assert verdict.right, verdict


LOOP = """
def backward(x, h, d_o, W_xh, W_hh, W_hy):
    dWx, dWh, db = np.zeros_like(W_xh), np.zeros_like(W_hh), np.zeros_like(h[0, 0])
    dhnext = np.zeros_like(h[0])
    for t in reversed(range(len(x))):
        dh = np.dot(d_o[t], W_hy.T) + dhnext
        dhraw = (1 - h[t + 1] * h[t + 1]) * dh
        db += dhraw.sum(0)
        dWx += np.dot(x[t].T, dhraw)
        dWh += np.dot(h[t].T, dhraw)
        dhnext = np.dot(dhraw, W_hh.T)
    return dWx, dWh, db, dhnext
"""


def loop(old, new):
    assert LOOP.count(old) == 1, old
    return LOOP.replace(old, new)


def scratch(old, new):
    assert RIGHT["from scratch"].count(old) == 1, old
    return RIGHT["from scratch"].replace(old, new)


PLANTED = [  # as a student would write them: function, text, words of the mistake that must be named
    ("softmax", "def softmax(o): return np.exp(o) / np.exp(o).sum(-1, keepdims=True)", "exp overflows"),
    ("softmax", "def softmax(o): return np.exp(o) / np.sum(np.exp(o))", "all rows"),
    ("softmax", "def softmax(o): return np.exp(o) / np.sum(np.exp(o), axis=1, keepdims=True)", "axis −2"),
    ("softmax", "def softmax(o): return o / o.sum(-1, keepdims=True)", "exponential is missing"),
    ("cross_entropy", """
def cross_entropy(o, y):
    p = softmax(o)
    d = p.copy()
    np.put_along_axis(d, y[..., None], np.take_along_axis(d, y[..., None], -1) - 1, -1)
    return np.log(np.take_along_axis(p, y[..., None], -1)).sum(), d
""", "minus of the loss"),
    ("cross_entropy", """
def cross_entropy(o, y):
    p = softmax(o)
    return -np.log(np.take_along_axis(p, y[..., None], -1)).sum(), p
""", "− y is missing"),
    ("cross_entropy", """
def cross_entropy(o, y):
    p, one = softmax(o), np.eye(o.shape[2])[y]
    return -np.log((p * one).sum(-1)).sum(), one - p
""", "sign of d_o"),
    ("cross_entropy", """
def cross_entropy(o, y):
    p, one = softmax(o), np.eye(o.shape[2])[y]
    return -np.log((p * one).sum(-1)).mean(), p - one
""", "mean over steps and rows"),
    ("cross_entropy", """
def cross_entropy(o, y):
    p, one = softmax(o), np.eye(o.shape[2])[y]
    return -np.log((p * one).sum(-1)).sum(), (p - one) * p * (1 - p)
""", "a second time"),
    ("forward_step", "def forward_step(x, h, U, W, b): return np.tanh(x @ U + h @ W)", "b_h is missing"),
    ("forward_step", "def forward_step(x, h, U, W, b): return np.tanh(x @ U + (W @ h.T).T + b)", "W_hh is transposed"),
    ("forward_step", "def forward_step(x, h, U, W, b): return x @ U + h @ W + b", "tanh is missing"),
    ("hidden_gradient", "def hidden_gradient(d, e, V, W): return d @ V.T", "second source"),
    ("hidden_gradient", "def hidden_gradient(d, e, V, W): return (V @ d.T).T + e @ W", "not transposed"),
    ("preactivation_gradient", "def preactivation_gradient(d, h): return d * (1 - np.tanh(h) ** 2)", "applied again"),
    ("preactivation_gradient", "def preactivation_gradient(d, h): return d - d * h", "1 − h is used"),
    ("weight_gradients", """
def weight_gradients(x, h, d_a, d_o):
    e = lambda a, b: np.einsum("tbi,tbj->ij", a, b)
    return e(x, d_a), e(h[1:], d_a), d_a.sum((0, 1)), e(h[1:], d_o), d_o.sum((0, 1))
""", "h[t+1], is used instead of"),
    ("weight_gradients", """
def weight_gradients(x, h, d_a, d_o):
    e = lambda a, b: np.einsum("tbi,tbj->ij", a, b)
    return e(x, d_a), e(h[:-1], d_a), d_a.sum((0, 1)), e(h[:-1], d_o), d_o.sum((0, 1))
""", "the state that the output reads"),
    ("weight_gradients", """
def weight_gradients(x, h, d_a, d_o):
    e = lambda a, b: np.einsum("tbi,tbj->ij", a, b)
    return e(x, d_a), e(h[:-1], d_a).T, d_a.mean((0, 1)), e(h[1:], d_o), d_o.sum((0, 1))
""", "d_b_h is a mean"),
    ("backward", loop(" + dhnext\n", "\n"), "recursion is missing"),
    ("backward", loop("W_hh.T)", "W_hh)"), "not transposed"),
    ("backward", loop("np.dot(dhraw, W_hh.T)", "np.dot(dh, W_hh.T)"), "d_h is used instead of d_a"),
    ("backward", loop("(1 - h[t + 1] * h[t + 1]) * dh", "dh"), "1 − h² is missing"),
    ("backward", loop("(1 - h[t + 1] * h[t + 1])", "(1 - h[t] * h[t])"), "at h[t] instead"),
    ("backward", loop("reversed(range(len(x)))", "range(len(x) - 1, 0, -1)"), "t = 0, is left out"),
    ("backward", loop("dWh += np.dot(h[t].T, dhraw)", "dWh += np.dot(h[t].T, dh)"), "d_W_hh is made from d_h"),
    ("backward", loop("dhnext = np.dot(", "dhnext += np.dot("), "added up over the steps"),
    ("truncated_backward", RIGHT["from scratch"].replace("t - k)", "t - k - 1)"), "k + 1"),
    ("truncated_backward", RIGHT["from scratch"].replace("h[s].T", "(h[s] if s else h[-1]).T"), "h[−1]"),
    ("clip", "def clip(gs, limit): return [np.minimum(np.maximum(g, -limit), limit) for g in gs]", "by value"),
    ("clip", """
def clip(gs, limit):
    return [g if np.linalg.norm(g) < limit else g * limit / np.linalg.norm(g) for g in gs]
""", "its own norm"),
    ("lstm_gates", """
def lstm_gates(x, h, U, W, b):
    i, f, o, g = np.split(x @ U + h @ W + b, 4, axis=1)
    return tuple(1 / (1 + np.exp(-a)) for a in (i, f)) + (np.tanh(g), 1 / (1 + np.exp(-o)))
""", "order i, f, o, g"),
    ("lstm_cell_gradient", "def lstm_cell_gradient(d_h, e, o, c): return o * d_h / np.cosh(c) ** 2", "is missing"),
    ("lstm_state_gradients", "def lstm_state_gradients(a, c, f, W): return (W @ a.T).T, c", "forget gate is missing"),
    ("truncated_backward", scratch("t - k)", "t - max(k, 2))"), "k = 1 is treated like k = 2"),
    ("truncated_backward", scratch("t - k)", "t - min(k, len(x) - 1))"), "with k ≥ T"),
    ("truncated_backward", scratch("max(-1, t - k)", "max(0, t - k)"), "t = 0, is left out"),
    ("truncated_backward", scratch("max(-1, t - k)", "t - k"), "negative index"),
    ("truncated_backward", scratch("W_hh.T", "W_hh"), "not transposed"),
    ("truncated_backward", scratch(" * (1 - h[s + 1] ** 2)", ""), "1 − h² is missing"),
    ("cross_entropy", """
def cross_entropy(o, y):
    p, one = np.exp(o) / np.exp(o).sum(-1, keepdims=True), np.eye(o.shape[2])[y]
    return -np.log((p * one).sum(-1)).sum(), p - one
""", "exp overflows"),
    ("cross_entropy", """
def cross_entropy(o, y):
    p, one = softmax(o), np.eye(o.shape[2])[y]
    return -np.log(1 - (p * one).sum(-1)).sum(), p - one
""", "log(1 − y_hat)"),
    ("cross_entropy", """
def cross_entropy(o, y):
    p, one = softmax(o), np.eye(o.shape[2])[y]
    return -np.log(p.max(-1)).sum(), p - one
""", "largest probability"),
    ("clip", "def clip(gs, limit): return gs", "nothing is clipped"),
    ("clip", "def clip(gs, limit): [g * limit for g in gs]", "is the new list returned?"),
    ("clip", """
def clip(gs, limit):
    norm = np.sqrt(sum((g * g).sum() for g in gs))
    return [min(norm, limit) * (g / norm) for g in gs]
""", "become NaN"),
    ("backward", loop("db, dhnext\n", "db, np.dot(dhraw, W_hh)\n"), "not transposed in d_h0"),
    ("backward", loop("dhraw, W_hh.T)\n    return dWx, dWh, db, dhnext",
     "dh, W_hh.T)\n    return dWx, dWh, db, dhraw @ W_hh.T"), "d_h is used instead of d_a"),
    ("backward", loop("db += dhraw.sum(0)", "db = db + dhraw"), "over the steps but not over the rows"),
    ("weight_gradients", """
def weight_gradients(x, h, d_a, d_o):
    e = lambda a, b: np.einsum("tbi,tbj->ij", a, b)
    return e(x, d_a), e(h[:-1], d_a), d_a.sum((0, 1)), e(h[1:], d_o), d_o.sum(1)
""", "over the rows but not over the steps"),
]  # fmt: skip


@pytest.mark.parametrize("seed", [0, 7])
@pytest.mark.parametrize(("name", "text", "words"), PLANTED)
def test_planted_mistakes_are_named(name, text, words, seed):
    verdict = judge(GAPS[name], written(load_text(name) + text)[name], seed)
    assert verdict.kind in ("wrong", "shape")
    assert any(words in says for says in verdict.mistakes), verdict
    assert "no known mistake" not in verdict.message


def load_text(name):
    return student_text(GAPS[name].file).split('"""', 2)[2]  # the other functions are there, with gaps


def test_thirty_mistakes_are_planted():
    assert len(PLANTED) >= 30


OTHERS = [  # wrong in ways that the table does not have: none may be called right
    ("softmax", "def softmax(o): return np.exp(o / 2) / np.exp(o / 2).sum(-1, keepdims=True)"),
    ("softmax", "def softmax(o): return np.round(np.exp(o) / np.exp(o).sum(-1, keepdims=True), 5)"),
    ("softmax", "def softmax(o): return np.abs(o) / np.abs(o).sum(-1, keepdims=True)"),
    ("cross_entropy", "def cross_entropy(o, y): return float('nan'), np.full(o.shape, np.nan)"),
    ("cross_entropy", "def cross_entropy(o, y): return 0.0, np.zeros(o.shape)"),
    ("cross_entropy", "def cross_entropy(o, y): return 1.0, (softmax(o) - np.eye(o.shape[2])[y]) * 1.00001"),
    ("forward_step", "def forward_step(x, h, U, W, b): return np.arctan(x @ U + h @ W + b)"),
    ("forward_step", "def forward_step(x, h, U, W, b): return np.tanh(x @ U + h @ W + b) + 1e-5"),
    ("forward_step", "def forward_step(x, h, U, W, b): return np.tanh(x[:1] @ U + h @ W + b)"),
    ("hidden_gradient", "def hidden_gradient(d, e, V, W): return d @ V.T + 2 * e @ W.T"),
    ("hidden_gradient", "def hidden_gradient(d, e, V, W): return d @ V.T + e @ W.T @ W.T"),
    ("preactivation_gradient", "def preactivation_gradient(d, h): return d * np.sqrt(1 - h ** 2)"),
    ("preactivation_gradient", "def preactivation_gradient(d, h): return d / (1 - h ** 2)"),
    ("weight_gradients", "def weight_gradients(x, h, d_a, d_o): return [np.zeros((2, 2))] * 5"),
    (
        "weight_gradients",
        """
def weight_gradients(x, h, d_a, d_o):
    e = lambda a, b: np.einsum("tbi,tbj->ij", a[:, :1], b[:, :1])
    return e(x, d_a), e(h[:-1], d_a), d_a.sum((0, 1)), e(h[1:], d_o), d_o.sum((0, 1))
""",
    ),
    ("backward", loop("dhnext = np.dot(dhraw, W_hh.T)", "dhnext = 0.9 * np.dot(dhraw, W_hh.T)")),
    ("backward", loop("dhnext = np.dot(dhraw, W_hh.T)", "dhnext = np.clip(np.dot(dhraw, W_hh.T), -0.1, 0.1)")),
    ("backward", loop("np.dot(d_o[t], W_hy.T)", "np.dot(d_o[t], W_hy.T) * (t % 2)")),
    ("backward", loop("return dWx, dWh, db, dhnext", "return dWx, dWh, db, 0 * dhnext")),
    ("truncated_backward", RIGHT["from scratch"].replace("t - k)", "t - 3)")),
    ("truncated_backward", RIGHT["from scratch"].replace("reversed(range(len(x)))", "range(0, len(x), 2)")),
    ("clip", "def clip(gs, limit): return [0.3 * g for g in gs]"),
    ("clip", "def clip(gs, limit): return [g * 0 for g in gs]"),
    ("truncated_backward", scratch("t - k)", "t - min(k, 3))")),
    ("truncated_backward", scratch("t - k)", "t - min(k, len(x) - 2))")),
    ("backward", loop("    return", "    if len(x) == 1: dWh *= 0\n    return")),
    (
        "weight_gradients",
        """
def weight_gradients(x, h, d_a, d_o):
    e = lambda a, b: np.einsum("tbi,tbj->ij", a, b)
    return e(x, d_a), e(h[:-1], d_a), d_a.sum((0, 1)), e(h[1:], d_o), d_o.sum((0, 1)) * (len(x) > 1)
""",
    ),
    ("lstm_state", "def lstm_state(c, i, f, g, o): return f * c + i * g, o * (f * c + i * g)"),
    (
        "lstm_state_gradients",
        "def lstm_state_gradients(d_a, d_c, f, W): return d_a[:, :W.shape[0]] @ W[:, :W.shape[0]].T, d_c * f",
    ),
]


@pytest.mark.parametrize(("name", "text"), OTHERS)
def test_other_wrong_solutions_are_never_called_right(name, text):
    for seed in range(3):
        verdict = judge(GAPS[name], written(load_text(name) + text)[name], seed)
        assert not verdict.right
        assert verdict.kind in ("wrong", "shape")


def test_there_are_twenty_others():
    assert len(OTHERS) >= 20


@pytest.mark.parametrize(("text", "words"), [
    ("def preactivation_gradient(d_h, h_next): return 3 * d_h * (1 - h_next**2)", "3, 3, 3 times the right one"),
    ("def preactivation_gradient(d_h, h_next): return d_h * np.nan", "NaN"),
    ("def preactivation_gradient(d_h, h_next): return (d_h * (1 - h_next**2)).T", "It is transposed"),
    ("def preactivation_gradient(d_h, h_next): return d_h[0]", "expected (2, 4), got (4,)"),
    ("def preactivation_gradient(d_h, h_next): pass", "returns nothing"),
    ("def preactivation_gradient(d_h, h_next): return 'no'", "expected an array of numbers"),
    ("def preactivation_gradient(d_h, h_next): return d_h * 0.5", "no known mistake"),
    ("def preactivation_gradient(d_h, h_next): return 0 * d_h", "your d_a is zero everywhere"),
    ("def preactivation_gradient(d_h, h_next): return d_h * (1 - h_next**2) * (1 + 2e-6)", "1.000002, 1.000002"),
])  # fmt: skip
def test_what_it_says_where_no_mistake_is_known(text, words):
    assert words in judge(GAPS["preactivation_gradient"], written(text)["preactivation_gradient"]).message


def message(name, text):
    return judge(GAPS[name], written(load_text(name) + text)[name]).message


def test_a_mistake_is_not_named_where_a_result_that_it_would_change_is_right():
    text = message("backward", loop("db, dhnext\n", "db, 0 * dhnext\n"))
    assert text == "wrong: your d_h0 is zero everywhere"


def test_of_two_mistakes_the_one_that_explains_more_is_named_first():
    text = message("backward", loop("(1 - h[t + 1] * h[t + 1]) * dh", "dh").replace("h[t].T", "h[t + 1].T"))
    assert text.startswith("wrong: your d_W_xh, d_b_h and d_h0 are what you get if 1 − h² is missing")
    assert "d_h is used instead of d_a" not in text


def test_each_block_of_the_gates_is_compared_by_itself():
    text = message("lstm_gate_gradients", """
def lstm_gate_gradients(d_h, d_c, c_t, c_next, i, f, g, o):
    d_a = d_c * g * i * (1 - i), d_c * c_next * f * (1 - f), d_c * i * (1 - g * g), d_h * c_next * o * (1 - o)
    return np.concatenate(d_a, 1)
""")  # fmt: skip
    assert "your d_a_f is what you get if d_a_f uses c[t+1] instead of c[t]" in text
    assert "your d_a_o is what you get if tanh is missing from d_a_o" in text
    assert "d_a_i" not in text
    assert "d_a_g" not in text
    assert "wrong shape of d_a: expected (2, 16), got (8, 4)" in message(
        "lstm_gate_gradients", "def lstm_gate_gradients(d_h, *rest): return np.concatenate([d_h] * 4)"
    )


def test_exchanged_results_are_noticed():
    text = message("lstm_state", "def lstm_state(c, i, f, g, o): n = f * c + i * g; return o * np.tanh(n), n")
    assert text == "wrong: your c_next and h_next are exchanged"
    text = message("lstm_state_gradients", "def lstm_state_gradients(d_a, d_c, f, W): return d_c * f, d_a @ W.T")
    assert text == "wrong: your d_h_before and d_c_before are exchanged"


def test_the_difference_is_that_of_the_problem_that_fails():
    text = message("truncated_backward", scratch("t - k)", "t - min(k, 3))"))
    assert "in problem 3 (T = 6, k = 4)" in text
    text = message("cross_entropy", "def cross_entropy(o, y): return 1.0, softmax(o) - np.eye(o.shape[2])[y]")
    assert "direction" not in text
    assert "(largest difference 1 instead of " in text


def test_an_error_in_a_special_case_says_which():
    def clip(gradients, limit):
        norm = float(np.sqrt(sum((g * g).sum() for g in gradients)))
        return [g * min(1, limit / norm) for g in gradients]

    assert lab.check(clip).message.startswith("ZeroDivisionError: float division by zero with gradients that are all")


def test_the_number_of_results_is_checked():
    verdict = judge(GAPS["cross_entropy"], lambda o, y: 1.0)
    assert "expected 2 (L, d_o), got 1" in verdict.message
    verdict = judge(GAPS["cross_entropy"], lambda o, y: {"L": 1.0})
    assert "no d_o" in verdict.message
    verdict = judge(GAPS["clip"], lambda gradients, limit: gradients[1:])
    assert verdict.message == "gradients: expected a list of 5 arrays, got 4"


def test_a_student_s_own_functions_are_back_after_a_check():
    functions = written(RIGHT["one function with the others"])
    kept = functions["hidden_gradient"]
    assert judge(GAPS["backward"], functions["backward"]).right
    assert functions["hidden_gradient"] is kept


def test_check_takes_a_function_and_its_name():
    verdict = lab.check(load_solutions("rnn")["softmax"])
    assert verdict.right
    assert str(verdict) == "softmax: right"
    verdict = lab.check(lambda d_h, h_next: d_h, gap="preactivation_gradient")
    assert verdict.mistakes == ("1 − h² is missing",)
    with pytest.raises(UnknownNameError, match="one of softmax"):
        lab.check(lambda: 0)


def test_limits_hold_and_the_next_gap_is_still_checked(tmp_path):
    solutions = solution_text("rnn")
    for name, body in (
        ("softmax", "while True: pass"),
        ("cross_entropy", "return np.ones(10**10), 1"),
        ("forward_step", "print('hello'); raise SystemExit(3)"),
        ("hidden_gradient", "import os; os._exit(5)"),
        ("preactivation_gradient", "return d_h @ d_h"),
        ("weight_gradients", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"),
    ):
        solutions = re.sub(
            rf"(def {name}\(.*?\):\n    \"\"\".*?\"\"\"\n)", rf"\1    {body}\n", solutions, flags=re.DOTALL
        )
    path = tmp_path / "rnn.py"
    path.write_text(solutions)
    found = {verdict.gap: verdict for verdict in lab.check_file(path, seconds=2)}
    assert list(found) == list(GAPS)[:9]
    assert "longer than 2 s" in found["softmax"].message
    assert "too much memory" in found["cross_entropy"].message
    assert found["forward_step"].message.startswith("SystemExit: 3")
    assert found["forward_step"].printed == "hello\n"
    assert "code 5" in found["hidden_gradient"].message
    assert "return d_h @ d_h" in found["preactivation_gradient"].message
    assert "code -11" in found["weight_gradients"].message
    assert all(found[name].right for name in ("backward", "truncated_backward", "clip"))


def test_files_as_they_are_written(tmp_path):
    paths = lab.start(tmp_path / "lab")
    for path in paths:
        assert {verdict.kind for verdict in lab.check_file(path)} == {"missing"}
        assert path.read_text().startswith('"""')  # without the comment for maintainers
        assert "gap" not in path.read_text().split('"""', 2)[2]
    with pytest.raises(ValueError, match="your work is not replaced"):
        lab.start(tmp_path / "lab")
    for path in lab.start(tmp_path / "solutions", solutions=True):
        assert all(verdict.right for verdict in lab.check_file(path))
        assert path.read_text().startswith('"""')
        assert "# gap" not in path.read_text()


def test_files_that_cannot_be_checked(tmp_path):
    with pytest.raises(DataError, match="no file"):
        lab.check_file(tmp_path / "none.py")
    with pytest.raises(DataError, match=f"is a folder.*{tmp_path / 'rnn.py'}"):
        lab.check_file(tmp_path)
    path = tmp_path / "broken.py"
    for text, words in (
        ("\ndef softmax(o:", r"not valid Python: line 2: '\(' was never closed"),
        ("x = 1\n", "no function of the lab"),
        ("\0", "not valid Python: source code string cannot contain null bytes"),
    ):
        path.write_text(text)
        with pytest.raises(DataError, match=words):
            lab.check_file(path)
    path.write_text("import nothing_at_all\ndef softmax(o): return o\n")
    assert {verdict.kind for verdict in lab.check_file(path)} == {"error"}


def test_an_error_names_its_line_in_any_folder(tmp_path):
    (tmp_path / "elman").mkdir()
    path = tmp_path / "elman" / "rnn.py"
    path.write_text("def softmax(o):\n    return o.sums()\n")
    messages = {verdict.gap: verdict.message for verdict in lab.check_file(path)}
    assert "(line 2: return o.sums())" in messages["softmax"]
