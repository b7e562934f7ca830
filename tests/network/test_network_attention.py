"""Decoders with attention: every gradient of the network, padding, other rows of the batch, threads, single steps."""

from __future__ import annotations

import numpy as np
import pytest

from elman.kernels import KERNELS
from elman.kernels.threads import set_threads
from elman.network import Draw, Dropout
from elman.network.cases import (
    KINDS,
    X_LENGTHS,
    Y_LENGTHS,
    H,
    TranslatorCase,
    all_translators,
    check_translator,
    random_parameters,
)

S, B = max(Y_LENGTHS), len(X_LENGTHS)
kinds = pytest.mark.parametrize("kind", KINDS)


def translator(kind, *, hidden=H, **options):
    return TranslatorCase(kind, **options).network(hidden)


def examples(x_lengths=X_LENGTHS, y_lengths=Y_LENGTHS):
    return TranslatorCase(x_lengths=tuple(x_lengths), y_lengths=tuple(y_lengths)).batch()


@pytest.mark.parametrize("case", [*all_translators()], ids=lambda case: "-".join(map(str, case[:4])))
def test_every_gradient(case):
    check_translator(case).expect()


@kinds
@pytest.mark.parametrize("embedding", [0, 2])
@pytest.mark.parametrize("layers", [1, 2])
def test_every_gradient_with_dropout(kind, embedding, layers):
    check_translator(
        TranslatorCase(kind, layers=layers, embedding=embedding, dropout=Dropout(0.2, 0.2, 0.2))
    ).expect()  # fmt: skip


@kinds
def test_every_gradient_where_the_source_is_numbers(kind):
    check_translator(TranslatorCase(kind, tokens=False)).expect()


@kinds
def test_every_gradient_of_one_step_and_one_source_step(kind):
    check_translator(TranslatorCase(kind, x_lengths=(1, 1), y_lengths=(0, 0))).expect()


@kinds
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("hidden", [5, 16])
def test_a_row_has_the_same_bits_alone_and_beside_longer_ones(kind, dtype, hidden):
    """Not under ELMAN_KERNELS=reference: with BLAS the bits of a row depend on the other rows."""
    network, batch = translator(kind, layers=2, hidden=hidden, cell="rnn"), examples()
    packed = network.pack(random_parameters(network, dtype))
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
    p = random_parameters(network)
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
    p, found = random_parameters(network, np.float32), set()
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
    packed = network.pack(random_parameters(network))
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
