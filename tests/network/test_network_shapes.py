"""Networks over whole sequences: every gradient in every mode, padding adds nothing, threads change nothing."""

import itertools

import numpy as np
import pytest

from elman.kernels.threads import set_threads
from elman.maths.gradient_check import gradcheck
from elman.network import Batch, Draw, Dropout, EncoderDecoder, HeadNetwork, Stack
from elman.network.network import DecoderState
from elman.network.stack import NO_MASKS

X, H, Y = 3, 4, 3
LENGTHS = np.array([4, 2, 0, 1, 3])
T, B = 4, len(LENGTHS)
DROPOUTS = [Dropout(), Dropout(0.2, 0.2, 0.2)]  # more would leave equal states, at which the maximum has no derivative
FLOAT64 = np.dtype(np.float64)


def encoder(tokens, *, bidirectional=False, layers=1, embedding=0, prefix="", inputs=X):
    return Stack(
        inputs,
        H,
        layers,
        bidirectional=bidirectional,
        embedding=embedding,
        learned_state=True,
        prefix=prefix,
        tokens=tokens,
    )


def inputs(rng, tokens):
    return rng.integers(X, size=(T, B)) if tokens else rng.standard_normal((T, B, X))


def head_network(rng, pooling, loss, tokens, **options):
    network = HeadNetwork(encoder(tokens, **options), Y, pooling=pooling, loss=loss)
    y = rng.integers(Y, size=B) if loss == "cross_entropy" else rng.standard_normal((B, Y))
    if pooling == "none":
        y = rng.integers(Y, size=(T, B))
    lengths = LENGTHS if pooling == "none" else None
    return network, Batch(inputs(rng, tokens), y, rng.uniform(0.5, 2, B), LENGTHS, lengths)


def encoder_decoder(rng, source, layers, embedding=0):
    decoder = Stack(Y, H, layers, embedding=embedding, prefix="decoder.")
    y, y_lengths = rng.integers(Y, size=(3, B)), np.array([3, 0, 2, 1, 2])
    weights = rng.uniform(0.5, 2, B)
    if source == "labels":
        return EncoderDecoder(X, decoder, Y, edge=1), Batch(rng.integers(X, size=B), y, weights, None, y_lengths)
    if source == "numbers":
        return EncoderDecoder(X, decoder, Y, edge=1), Batch(rng.standard_normal((B, X)), y, weights, None, y_lengths)
    stack = encoder(
        True, bidirectional=source == "bidirectional", layers=layers, embedding=embedding, prefix="encoder."
    )
    return EncoderDecoder(stack, decoder, Y, edge=1), Batch(inputs(rng, True), y, weights, LENGTHS, y_lengths)


def tagger(rng, **options):
    """A tagger and a batch whose steps have different weights."""
    network, batch = head_network(rng, "none", "cross_entropy", True, **options)
    return network, batch._replace(y_weights=rng.uniform(0, 2, (T, B)))


def filled(network, rng):
    p = network.initial(rng, recurrent="glorot", gain=1.0, dtype=FLOAT64)
    p.buffer[:] = 0.6 * rng.standard_normal(p.buffer.size)
    return p


def check_gradients(network, batch, dropout):
    rng = np.random.default_rng(7)
    p = filled(network, rng)
    draw, gradients, unused = Draw(dropout, 3, 4), p.zeros(), p.zeros()
    loss = network.loss_and_gradients(p, batch, gradients, normalizer=2.5, draw=draw)
    masks = network.masks(draw, batch, np.arange(B), FLOAT64) if any(dropout) else (NO_MASKS,) * len(network.stacks)

    def whole():
        return network.slice_loss(network.pack(p), batch, 2.5, unused, masks=masks)

    assert loss == pytest.approx(whole(), rel=1e-12)
    gradcheck(whole, dict(p), dict(gradients)).expect()


@pytest.mark.parametrize(
    ("pooling", "loss"),
    [*itertools.product(("last", "mean", "max"), ("cross_entropy", "squared")), ("none", "cross_entropy")],
)
@pytest.mark.parametrize(("bidirectional", "layers"), [*itertools.product((False, True), (1, 2))])
@pytest.mark.parametrize(("tokens", "embedding"), [(False, 0), (True, 0), (True, 2)])
@pytest.mark.parametrize("dropout", DROPOUTS)
def test_gradients_of_a_network_with_an_output_layer(pooling, loss, bidirectional, layers, tokens, embedding, dropout):
    rng = np.random.default_rng(2)
    check_gradients(
        *head_network(rng, pooling, loss, tokens, bidirectional=bidirectional, layers=layers, embedding=embedding),
        dropout,
    )


@pytest.mark.parametrize(
    ("pooling", "loss", "count"),
    [("none", "cross_entropy", LENGTHS.sum()), ("last", "cross_entropy", B), ("last", "squared", B * Y)],
)
def test_without_weights_every_loss_counts_once_and_padding_never(pooling, loss, count):
    network, batch = head_network(np.random.default_rng(5), pooling, loss, True)
    p, results = filled(network, np.random.default_rng(6)), []
    for weights in (None, np.ones(B)):
        weighted, gradients = batch._replace(weights=weights), p.zeros()
        value = network.loss_and_gradients(p, weighted, gradients, normalizer=2.5)
        evaluated = network.evaluate(network.pack(p), weighted)
        results.append((network.loss_count(weighted), value, gradients.buffer.tobytes(), evaluated))
    assert results[0] == results[1]
    assert results[0][0] == count


@pytest.mark.parametrize("dropout", DROPOUTS)
def test_gradients_of_steps_with_different_weights(dropout):
    network, batch = tagger(np.random.default_rng(4), bidirectional=True)
    check_gradients(network, batch, dropout)
    p = filled(network, np.random.default_rng(0))
    o = network.outputs_of(network.pack(p), batch.x, LENGTHS)
    apart = [(t, b) for b in range(B) for t in range(LENGTHS[b])]
    losses = {(t, b): np.logaddexp.reduce(o[t, b]) - o[t, b, batch.y[t, b]] for t, b in apart}
    weights = {(t, b): batch.weights[b] * batch.y_weights[t, b] for t, b in apart}
    expected = sum(losses[step] * weights[step] for step in apart) / sum(weights.values())
    mean = network.evaluate(network.pack(p), batch)[0] / network.loss_count(batch)
    assert mean == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("source", ["labels", "numbers", "one direction", "bidirectional"])
@pytest.mark.parametrize(("layers", "embedding"), [(1, 0), (2, 0), (1, 2), (2, 2)])
@pytest.mark.parametrize("dropout", DROPOUTS)
def test_gradients_of_an_encoder_and_decoder(source, layers, embedding, dropout):
    check_gradients(*encoder_decoder(np.random.default_rng(3), source, layers, embedding), dropout)


@pytest.mark.parametrize("source", ["labels", "numbers", "one direction", "bidirectional"])
def test_the_loss_of_a_decoder_is_that_of_every_token_and_of_the_end(source):
    network, batch = encoder_decoder(np.random.default_rng(3), source, 2)
    p = filled(network, np.random.default_rng(0))
    total, packed = 0.0, network.pack(p)
    for row, weight in enumerate(batch.weights):
        one = batch.take(slice(row, row + 1))
        state = DecoderState(network.initial_state(packed, one.x, one.x_lengths).state)
        tokens = [*one.y[: one.y_lengths[0], 0].tolist(), network.edge]
        for before, token in zip([network.edge, *tokens[:-1]], tokens, strict=True):
            o, state = network.next_logits(packed, np.array([before]), state)
            total += weight * (np.logaddexp.reduce(o[0]) - o[0, token])
    assert network.evaluate(packed, batch)[0] == pytest.approx(total, rel=1e-12)


def made(kind):
    rng = np.random.default_rng(5)
    if kind in ("last", "mean", "max", "none"):
        return head_network(rng, kind, "cross_entropy", True, bidirectional=True, layers=2)
    if kind == "weighted steps":
        return tagger(rng, bidirectional=True, layers=2)
    return encoder_decoder(rng, kind, 2)


@pytest.mark.parametrize(
    "kind", ["last", "mean", "max", "none", "weighted steps", "labels", "one direction", "bidirectional"]
)
def test_a_padded_batch_equals_its_sequences_one_by_one(kind):
    network, batch = made(kind)
    p = filled(network, np.random.default_rng(0))
    whole, apart = p.zeros(), p.zeros()
    loss = network.loss_and_gradients(p, batch, whole, normalizer=1)
    alone = [
        network.loss_and_gradients(p, batch.take(slice(i, i + 1)), apart, normalizer=1, add=True) for i in range(B)
    ]
    assert loss == pytest.approx(sum(alone), rel=1e-12)
    np.testing.assert_allclose(whole.buffer, apart.buffer, rtol=1e-12, atol=1e-12)
    separate_count = sum(network.loss_count(batch.take(slice(i, i + 1))) for i in range(B))
    assert network.loss_count(batch) == pytest.approx(separate_count, rel=1e-12)


@pytest.mark.parametrize("kind", ["last", "mean", "max", "none", "one direction"])
def test_values_in_the_padding_change_nothing(kind):
    network, batch = made(kind)
    p = filled(network, np.random.default_rng(0))
    before, after = p.zeros(), p.zeros()
    loss = network.loss_and_gradients(p, batch, before, normalizer=1)
    over = np.arange(T)[:, np.newaxis] >= LENGTHS
    x = batch.x.copy()
    x[over] = (x[over] + 1) % X
    assert network.loss_and_gradients(p, batch._replace(x=x), after, normalizer=1) == loss
    np.testing.assert_array_equal(before.buffer, after.buffer)


@pytest.mark.parametrize("kind", ["last", "none", "weighted steps", "labels", "bidirectional"])
def test_the_number_of_threads_changes_no_bit(kind):
    network, batch = made(kind)
    arrays = (part if part is None else np.concatenate([part] * 40, axis=-1) for part in batch[:6])
    repeated = Batch(*arrays)
    p = filled(network, np.random.default_rng(0))
    results = []
    try:
        for threads in (1, 2, 3, 8):
            set_threads(threads)
            gradients = p.zeros()
            loss = network.loss_and_gradients(p, repeated, gradients, normalizer=1, draw=Draw(DROPOUTS[1], 1, 2))
            results.append((loss, gradients.buffer.tobytes()))
    finally:
        set_threads(None)
    assert len(set(results)) == 1
