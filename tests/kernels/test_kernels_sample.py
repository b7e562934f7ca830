"""Compiled sampling against its definition in elman.models.sampling, alone and among others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels_tools import FLOATS, same_bits

from elman.models.sampling import Sampling, as_arrays, distribution, pick
from elman.network import language_network, make_sampler

NONE = np.array([], np.int64)
V, H = 21, 33
HOW = [
    Sampling(1.0), Sampling(0.0), Sampling(0.3), Sampling(2.0, top_k=1), Sampling(1.0, top_k=5),
    Sampling(1.0, top_p=0.5), Sampling(0.7, top_k=7, top_p=0.9), Sampling(1.0, top_k=1000),
    Sampling(1.0, top_p=1.0), Sampling(1e-3, top_p=0.01), Sampling(-0.0), Sampling(1e-320),
]  # fmt: skip


def network(L=2, dtype=np.float32, activation="tanh", cell="rnn"):
    made = language_network(V, H, L, activation=activation, cell=cell)
    p = made.initial(np.random.default_rng(L), recurrent="orthogonal", gain=1.1, token_scale=0.8, dtype=dtype)
    p.buffer += (0.2 * np.random.default_rng(9).standard_normal(p.buffer.size)).astype(dtype)
    return made, p


def read(made, p, x, state):
    """The logits and states after ids x (T, B), by the kernels of a layer."""
    o, state = made.read(made.pack(p), x, state)
    return o[-1], state


def prompts(made, p, B, seed=0):
    """Logits, states and random numbers of rows that have read different texts."""
    rng = np.random.default_rng(seed)
    o, state = read(made, p, rng.integers(V, size=(7, B)), made.stack.zero_state(B, p.buffer.dtype))
    return o.copy(), state.copy(), rng.random((25, B))


def write(made, p, o, state, uniforms, how=HOW[0], banned=NONE):
    """The sampler's tokens, and the logits and states after them; the arguments stay as they are."""
    o, state = o.copy(), state.copy()
    each = as_arrays(how if isinstance(how, list) else [how] * len(o), V)
    return make_sampler(made.stack, p).write(o, state, uniforms, **each, banned=banned), o, state


@pytest.mark.parametrize("dtype", FLOATS)
def test_beside_an_infinite_logit_all_others_are_impossible(dtype):
    made, p = network(1, dtype)
    o, state, uniforms = prompts(made, p, 3)
    o[:, 7] = np.inf
    for how in HOW:
        assert write(made, p, o, state, uniforms[:1], how, np.array([0]))[0].tolist() == [[7, 7, 7]], how


@pytest.mark.parametrize("how", HOW, ids=str)
@pytest.mark.parametrize("banned", [NONE, np.array([0, 5])], ids=["all", "some banned"])
def test_tokens_are_those_of_the_definition(how, banned):
    for L, dtype in ((1, np.float32), (3, np.float32), (2, np.float64)):
        made, p = network(L, dtype)
        o, state, uniforms = prompts(made, p, 3)
        tokens, o_after, after = write(made, p, o, state, uniforms, how, banned)
        for s, row in enumerate(uniforms):
            expected = [pick(distribution(o[i], how, banned), u) for i, u in enumerate(row)]
            assert tokens[s].tolist() == expected, (L, s)
            o, state = read(made, p, tokens[s : s + 1], state)
        assert same_bits(o_after, o)
        assert same_bits(after, state)
        assert not set(banned) & set(tokens.ravel().tolist())
    if how.temperature > 0.5 and how.top_k != 1:
        assert len(set(tokens.ravel().tolist())) > 3, "a test of one token is none"


@pytest.mark.parametrize(
    "options",
    [{"activation": "relu"}, {"activation": "sigmoid"}, {"activation": "identity"}, {"cell": "gru"}, {"cell": "lstm"}],
)
def test_other_activations_and_cells(options):
    made, p = network(2, **options)
    o, state, uniforms = prompts(made, p, 2)
    tokens, o_after, *_ = write(made, p, o, state, uniforms[:5])
    for s in range(5):
        assert tokens[s].tolist() == [pick(distribution(o[i], HOW[0]), u) for i, u in enumerate(uniforms[s])]
        o, state = read(made, p, tokens[s : s + 1], state)
    assert same_bits(o_after, o)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("cell", "B"), [("rnn", B) for B in (2, 3, 7, 14, 17, 32)] + [("gru", 3), ("gru", 17), ("lstm", 3), ("lstm", 17)]
)
def test_a_sample_is_the_same_alone_and_among_others(cell, B, dtype):
    """The other rows have other sampling options."""
    made, p = network(2, dtype, cell=cell)
    o, state, uniforms = prompts(made, p, B)
    hows = [HOW[i % len(HOW)] for i in range(B)]
    together = write(made, p, o, state, uniforms, hows)
    assert len({tuple(column) for column in together[0].T.tolist()}) == B, "every prompt goes its own way"
    for i in range(B):
        only = slice(i, i + 1)
        alone = write(made, p, o[only], state[:, :, only], uniforms[:, only].copy(), hows[i])
        assert same_bits(alone[0][:, 0], together[0][:, i])
        assert same_bits(alone[1][0], together[1][i])
        assert same_bits(alone[2][:, :, 0], together[2][:, :, i])


def test_tokens_are_the_same_written_in_pieces_or_at_once():
    made, p = network()
    o, state, uniforms = prompts(made, p, 3)
    whole = write(made, p, o, state, uniforms)
    sampler, pieces = make_sampler(made.stack, p), []
    for part in (uniforms[:1], uniforms[1:1], uniforms[1:9], uniforms[9:]):
        pieces.append(sampler.write(o, state, part, **as_arrays(HOW[:1] * 3, V), banned=NONE))
    assert same_bits(np.concatenate(pieces), whole[0])
    assert all(same_bits(a, b) for a, b in zip((o, state), whole[1:], strict=True))


LOGITS = st.lists(st.floats(-50, 50) | st.sampled_from([0.0, 1.0, -1e4, 1e4, 5e-324, 1e-17]), min_size=V, max_size=V)


@settings(max_examples=200, deadline=None)
@given(
    LOGITS, st.floats(0, 1, exclude_max=True), st.sampled_from((0.0, 1e-300, 0.1, 1.0, 3.0)),
    st.none() | st.integers(1, V + 1), st.none() | st.floats(0.001, 1), st.sets(st.integers(0, V - 1), max_size=V - 1),
)  # fmt: skip
def test_any_logits_and_any_choice(logits, u, temperature, top_k, top_p, banned):
    """Ties, logits that differ by less than their probabilities show, all mass on one: as the definition has it."""
    how, banned = Sampling(temperature, top_k, top_p).check(), np.array(sorted(banned), np.int64)
    made, p = network(1, np.float64)
    o = np.array([logits])
    tokens, *_ = write(made, p, o, made.stack.zero_state(1, np.float64), np.array([[u]]), how, banned)
    y_hat = distribution(o[0], how, banned)
    line = np.cumsum(y_hat) / y_hat.sum()
    if np.abs(line - u).min() > 1e-12:  # on the border of two intervals the last bit of exp decides
        assert tokens[0, 0] == pick(y_hat, u)
    assert y_hat[tokens[0, 0]] > 0


def test_top_k_goes_by_logits_not_by_rounded_probabilities():
    made, p = network(1, np.float64)
    o = np.zeros((1, V))
    o[0, 7] = 1e-17  # e^-1e-17 is 1: equal after rounding
    tokens, *_ = write(made, p, o, made.stack.zero_state(1, np.float64), np.array([[0.5]]), Sampling(1.0, top_k=1))
    assert tokens[0, 0] == 7 == np.argmax(distribution(o[0], Sampling(1.0, top_k=1)))


def test_top_p_that_is_reached_but_for_rounding_is_reached():
    """Shares of whole percents, and a top_p that some of them sum to exactly: but not in binary."""
    made, p = network(1, np.float64)
    rng = np.random.default_rng(0)
    for _ in range(200):
        shares = np.sort(rng.multinomial(100 - V, np.ones(V) / V) + 1)[::-1]
        how = Sampling(1.0, top_p=shares[: rng.integers(1, V)].sum() / 100)
        o, u = np.log(shares / 100)[np.newaxis], np.array([[0.9999999]])
        tokens, *_ = write(made, p, o, made.stack.zero_state(1, np.float64), u, how)
        assert tokens[0, 0] == pick(distribution(o[0], how), u[0, 0])


def test_the_share_of_every_token_is_its_probability():
    made, p = network(1, np.float32)
    n = 20_000
    o = np.tile(np.linspace(-3, 1, V, dtype=np.float32), (n, 1))
    uniforms = ((np.arange(n) + 0.5) / n)[np.newaxis]
    how = Sampling(0.8, top_k=9)
    tokens, *_ = write(made, p, o, made.stack.zero_state(n, np.float32), uniforms, how)
    np.testing.assert_allclose(np.bincount(tokens[0], minlength=V) / n, distribution(o[0], how), atol=1.5 / n)


@pytest.mark.parametrize("dtype", FLOATS)
def test_states_and_logits_of_another_size_are_converted_not_reinterpreted(dtype):
    other = np.float64 if dtype == np.float32 else np.float32
    made, p = network(2, dtype)
    o, state, uniforms = prompts(made, p, 3)
    expected = write(made, p, o.astype(np.float32), state.astype(np.float32), uniforms)
    ours = write(made, p, o.astype(np.float32).astype(other), state.astype(np.float32).astype(other), uniforms)
    assert same_bits(ours[0], expected[0])
    for a, b in zip(ours[1:], expected[1:], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
