"""Decoders with attention: every gradient of the whole network, padding, neighbors, threads, and step by step."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from elman.kernels import KERNELS
from elman.kernels.threads import set_threads
from elman.maths.gradient_check import gradcheck
from elman.network import Batch, Draw, Dropout, EncoderDecoder, Stack
from elman.network.stack import NO_MASKS

X, H, Y, T, S = 3, 3, 4, 4, 3
X_LENGTHS, Y_LENGTHS = np.array([4, 2, 0, 3]), np.array([3, 0, 2, 1])
B = len(X_LENGTHS)
NO_DROPOUT = Dropout()
kinds = pytest.mark.parametrize("kind", ["dot", "additive"])


def translator(kind, *, cell="gru", layers=1, bidirectional=True, embedding=2, hidden=H, tokens=True):
    encoder = Stack(
        X, hidden, layers, cell=cell, bidirectional=bidirectional, embedding=embedding if tokens else 0,
        prefix="encoder.", tokens=tokens,
    )  # fmt: skip
    decoder = Stack(Y, hidden, layers, cell=cell, embedding=embedding, prefix="decoder.")
    return EncoderDecoder(encoder, decoder, Y, edge=1, attention=kind)


def filled(network, dtype=np.float64, scale=0.6):
    rng = np.random.default_rng(7)
    p = network.initial(rng, recurrent="orthogonal", gain=1.0, dtype=np.dtype(dtype))
    p.buffer[:] = scale * rng.standard_normal(p.buffer.size)
    return p


def examples(x_lengths=X_LENGTHS, y_lengths=Y_LENGTHS, *, tokens=True, seed=3):
    rng, n = np.random.default_rng(seed), len(x_lengths)
    x = rng.integers(X, size=(max(x_lengths), n)) if tokens else rng.standard_normal((max(x_lengths), n, X))
    return Batch(x, rng.integers(Y, size=(max(y_lengths), n)), rng.uniform(0.5, 2, n), x_lengths, y_lengths)


def check(network, batch, dropout=NO_DROPOUT):
    p, draw = filled(network), Draw(dropout, 1, 2)
    gradients, unused = p.zeros(), p.zeros()
    gradients.buffer[:] = 9  # which is overwritten
    loss = network.loss_and_gradients(p, batch, gradients, normalizer=2.0, draw=draw)
    rows = np.arange(batch.rows)
    masks = network.masks(draw, batch, rows, np.float64) if any(dropout) else (NO_MASKS,) * len(network.stacks)

    def whole():
        return network.slice_loss(network.pack(p), batch, 2.0, unused, masks=masks)

    assert loss == pytest.approx(whole(), rel=1e-12)
    gradcheck(whole, dict(p), dict(gradients)).expect()


@kinds
@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize(("layers", "bidirectional"), [*itertools.product((1, 2), (False, True))])
def test_every_gradient(kind, cell, layers, bidirectional):
    check(translator(kind, cell=cell, layers=layers, bidirectional=bidirectional), examples())


@kinds
@pytest.mark.parametrize("embedding", [0, 2])
@pytest.mark.parametrize("layers", [1, 2])
def test_every_gradient_with_dropout(kind, embedding, layers):
    check(translator(kind, layers=layers, embedding=embedding), examples(), Dropout(0.2, 0.2, 0.2))


@kinds
def test_every_gradient_where_the_source_is_numbers(kind):
    check(translator(kind, tokens=False), examples(tokens=False))


@kinds
def test_every_gradient_of_one_step_and_one_source_step(kind):
    check(translator(kind), examples(np.array([1, 1]), np.array([0, 0])))


@kinds
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("hidden", [5, 16])
def test_a_row_has_the_same_bits_alone_and_beside_longer_ones(kind, dtype, hidden):
    """BLAS, which runs under ELMAN_KERNELS=reference, computes a row in other bits beside others."""
    network, batch = translator(kind, layers=2, hidden=hidden, cell="rnn"), examples()
    packed = network.pack(filled(network, dtype))
    together, wanted, weights = network.forward(packed, batch)
    for row in range(B):
        alone, own, _ = network.forward(packed, batch.take(slice(row, row + 1)))
        steps = len(alone)
        if KERNELS == "compiled":
            assert together[:steps, row].tobytes() == alone[:, 0].tobytes()
        np.testing.assert_allclose(together[:steps, row], alone[:, 0], atol=1e-5 if dtype == np.float32 else 1e-13)
        assert (wanted[:steps, row] == own[:, 0]).all()
        assert not weights[steps:, row].any()


@kinds
def test_padding_changes_nothing(kind):
    network, batch = translator(kind, layers=2), examples()
    p = filled(network)
    longer = batch._replace(
        x=np.concatenate([batch.x, np.full((3, B), 2)]), y=np.concatenate([batch.y, np.full((2, B), 3)])
    )
    found = []
    for one in (batch, longer):
        gradients = p.zeros()
        found.append((network.loss_and_gradients(p, one, gradients, normalizer=2.0), gradients.buffer))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-14)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-11, atol=1e-14)


@kinds
@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_any_number_of_threads_gives_the_same_bits(kind, cell):
    rng = np.random.default_rng(0)
    network = translator(kind, cell=cell, hidden=8)
    batch = examples(rng.integers(1, 9, 70), rng.integers(1, 7, 70))
    p, found = filled(network, np.float32), set()
    try:
        for threads in (1, 2, 3):
            set_threads(threads)
            gradients = p.zeros()
            loss = network.loss_and_gradients(
                p, batch, gradients, normalizer=70.0, draw=Draw(Dropout(0.1, 0.2, 0.1), 1, 2)
            )
            found.add((loss, gradients.buffer.tobytes()))
    finally:
        set_threads(None)
    assert len(found) == 1


@kinds
@pytest.mark.parametrize("cell", ["rnn", "lstm"])
def test_step_by_step_is_as_all_at_once(kind, cell):
    network, batch = translator(kind, cell=cell, layers=2), examples()
    packed = network.pack(filled(network))
    o, _, _ = network.forward(packed, batch)
    state, ids = network.begin(packed, batch.x, batch.x_lengths), np.full(B, 1)
    for t in range(S + 1):
        logits, state = network.next_logits(packed, ids, state)
        runs = t <= batch.y_lengths
        np.testing.assert_allclose(logits[runs], o[t, runs], rtol=1e-12)
        ids = batch.y[t] if t < S else ids
    some = state.take(np.array([2, 0]))
    assert some.state.shape[2] == 2
    assert [part.shape[1] for part in some.memory] == [2] * 4


def test_a_decoder_without_attention_has_none_of_its_parameters():
    assert not [name for name in translator("none").shapes if name.startswith("attention")]
