"""Attention: every gradient against central differences, and what padding must not change."""

from __future__ import annotations

import numpy as np
import pytest

from elman.maths.attention import attention_backward, attention_forward, combine_backward, combine_forward
from elman.maths.gradient_check import gradcheck

T, B, H, K, M, F = 4, 3, 2, 3, 5, 3
LENGTHS = np.array([4, 1, 2])
kinds = pytest.mark.parametrize("kind", ["dot", "additive"])


def arrays(kind, seed=0):
    rng = np.random.default_rng(seed)
    shapes = {"h": (B, H), "keys": (T, B, K), "values": (T, B, M), "W_q": (H, K)}
    if kind == "additive":
        shapes["w_a"] = (K,)
    return {name: rng.standard_normal(shape) for name, shape in shapes.items()}, rng.standard_normal((B, M))


@kinds
@pytest.mark.parametrize("lengths", [None, LENGTHS, np.array([0, 4, 3])])
def test_every_gradient_of_attention(kind, lengths):
    a, d_context = arrays(kind)

    def loss():
        return float((attention_forward(**a, lengths=lengths).context * d_context).sum())

    found = attention_forward(**a, lengths=lengths)
    d = attention_backward(d_context, found=found, **a)._asdict()
    assert (d["d_w_a"] is None) == (kind == "dot")
    gradcheck(loss, a, {name: d[f"d_{name}"] for name in a}).expect()


def test_every_gradient_of_the_combined_vector():
    rng = np.random.default_rng(1)
    a = {
        "h": rng.standard_normal((B, H)),
        "context": rng.standard_normal((B, M)),
        "W_c": rng.standard_normal((H + M, F)),
    }
    d_h_tilde = rng.standard_normal((B, F))
    d = combine_backward(d_h_tilde, h_tilde=combine_forward(**a), **a)._asdict()
    gradcheck(lambda: float((combine_forward(**a) * d_h_tilde).sum()), a, {name: d[f"d_{name}"] for name in a}).expect()


@kinds
def test_weights_are_the_formula_written_out(kind):
    a, _ = arrays(kind)
    found = attention_forward(**a, lengths=LENGTHS)
    for row, length in enumerate(LENGTHS):
        q = a["h"][row] @ a["W_q"]
        if kind == "dot":
            scores = [sum(q * a["keys"][j, row]) / K**0.5 for j in range(length)]
        else:
            scores = [sum(np.tanh(q + a["keys"][j, row]) * a["w_a"]) for j in range(length)]
        e = np.exp(scores)
        np.testing.assert_allclose(found.alpha[:length, row], e / e.sum(), rtol=1e-12)
        context = sum(e[j] / e.sum() * a["values"][j, row] for j in range(length))
        np.testing.assert_allclose(found.context[row], context, rtol=1e-12)


@kinds
def test_padding_changes_no_bit_and_gets_no_gradient(kind):
    a, d_context = arrays(kind)
    padded = attention_forward(**a, lengths=LENGTHS)
    d = attention_backward(d_context, found=padded, **a)
    for row, length in enumerate(LENGTHS):
        own = {**a, "h": a["h"][row : row + 1]}
        own |= {name: a[name][:length, row : row + 1] for name in ("keys", "values")}
        alone = attention_forward(**own)
        np.testing.assert_allclose(padded.context[row], alone.context[0], rtol=1e-14)
        assert not padded.alpha[length:, row].any()
        assert not d.d_keys[length:, row].any()
        assert not d.d_values[length:, row].any()
    garbage = {**a, "keys": a["keys"].copy(), "values": a["values"].copy()}
    past = np.arange(T)[:, np.newaxis] >= LENGTHS
    garbage["keys"][past] = garbage["values"][past] = 9e9
    other = attention_forward(**garbage, lengths=LENGTHS)
    assert padded.context.tobytes() == other.context.tobytes()
    assert padded.alpha.tobytes() == other.alpha.tobytes()


@kinds
def test_a_row_without_source_finds_nothing(kind):
    a, d_context = arrays(kind)
    found = attention_forward(**a, lengths=np.array([0, 4, 4]))
    assert not found.context[0].any()
    d = attention_backward(d_context, found=found, **a)
    assert not d.d_h[0].any()
    empty = {**a, "keys": a["keys"][:0], "values": a["values"][:0]}
    assert not attention_forward(**empty).context.any()


@kinds
def test_large_scores_overflow_nowhere(kind):
    a, _ = arrays(kind)
    a["W_q"] *= 1e200
    if kind == "additive":
        a["w_a"] *= 1e200
    found = attention_forward(**a)
    np.testing.assert_allclose(found.alpha.sum(axis=0), 1)
    assert np.isfinite(found.context).all()
