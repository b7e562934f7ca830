"""The recurrent stack: every gradient in every mode, and padding that adds nothing."""

import itertools

import numpy as np
import pytest

from elman.maths.gradient_check import gradcheck
from elman.maths.pooling import max_backward, max_forward, mean_backward, mean_forward
from elman.network import Masks, Parameters, Stack
from elman.network.stack import NO_MASKS

T, B, X, H = 4, 3, 3, 4
LENGTHS = np.array([4, 2, 0])


def made(rng, *, bidirectional=False, layers=1, embedding=0, learned_state=False):
    encoder = Stack(X, H, layers, bidirectional=bidirectional, embedding=embedding, learned_state=learned_state)
    p = Parameters(encoder.shapes, np.float64)
    p.buffer[:] = 0.6 * rng.standard_normal(p.buffer.size)
    return encoder, p


def drawn_masks(rng, encoder, tokens):
    def mask(*shape):
        return 2.0 * rng.integers(0, 2, shape)

    inputs = None if tokens and not encoder.embedding else mask(T, B, encoder.embedding or X)
    layers = tuple(mask(T, B, encoder.width) for _ in range(encoder.layers - 1))
    return Masks(inputs, layers, tuple(mask(B, H) for _ in encoder.names))


@pytest.mark.parametrize(("bidirectional", "layers"), [*itertools.product((False, True), (1, 2))])
@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("tokens", "embedding"), [(False, 0), (True, 0), (True, 2)])
@pytest.mark.parametrize("learned_state", [False, True])
def test_gradients_of_outputs_and_final_states(bidirectional, layers, ragged, masked, tokens, embedding, learned_state):
    rng = np.random.default_rng(3)
    encoder, p = made(rng, bidirectional=bidirectional, layers=layers, embedding=embedding, learned_state=learned_state)
    x = rng.integers(X, size=(T, B)) if tokens else rng.standard_normal((T, B, X))
    lengths = LENGTHS if ragged else None
    masks = drawn_masks(rng, encoder, tokens) if masked else NO_MASKS
    state = None if learned_state else rng.standard_normal((len(encoder.names), 1, B, H))
    d_outputs = rng.standard_normal((T, B, encoder.width))
    d_final = rng.standard_normal((len(encoder.names), 1, B, H))

    def loss():
        trace = encoder.forward(encoder.pack(p), p, x, state, lengths=lengths, masks=masks)
        return float((trace.outputs * d_outputs).sum() + (trace.final * d_final).sum())

    gradients = p.zeros()
    packed = encoder.pack(p)
    trace = encoder.forward(packed, p, x, state, lengths=lengths, masks=masks)
    d_x, d_state = encoder.backward(
        packed, p, trace, d_outputs.copy(), gradients, d_final=d_final, lengths=lengths, masks=masks
    )
    arrays, expected = dict(p), dict(gradients)
    if not tokens:
        arrays["x"], expected["x"] = x, d_x
    if state is not None:
        arrays["state"], expected["state"] = state, d_state
    gradcheck(loss, arrays, expected).expect()


@pytest.mark.parametrize("lengths", [None, LENGTHS])
def test_gradients_of_mean_and_maximum(lengths):
    rng = np.random.default_rng(0)
    h, v, w = rng.standard_normal((T, B, H)), rng.standard_normal((B, H)), rng.standard_normal((B, H))

    def loss():
        return float((mean_forward(h, lengths).vector * v + max_forward(h, lengths).vector * w).sum())

    places = max_forward(h, lengths).places
    d_h = mean_backward(v, T, lengths) + max_backward(w, T, lengths, places)
    gradcheck(loss, {"h": h}, {"h": d_h}).expect()


@pytest.mark.parametrize("pool", [mean_forward, max_forward])
def test_pooling_ignores_padded_steps(pool):
    h = np.random.default_rng(0).standard_normal((T, B, H))
    pooled = pool(h, LENGTHS).vector
    h[2:, 1], h[:, 2] = 1e6, 1e6
    np.testing.assert_array_equal(pool(h, LENGTHS).vector, pooled)
    np.testing.assert_array_equal(pooled[2], 0)
    np.testing.assert_allclose(pooled[1], pool(h[:2, 1:2], None).vector[0], rtol=1e-12)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_padded_batch_equals_its_rows_one_by_one(bidirectional):
    rng = np.random.default_rng(1)
    encoder, p = made(rng, bidirectional=bidirectional, layers=2)
    x = rng.standard_normal((T, B, X))
    d_outputs = rng.standard_normal((T, B, encoder.width))
    d_outputs[LENGTHS[1] :, 1], d_outputs[:, 2] = 0, 0
    whole, apart = p.zeros(), p.zeros()
    packed, total = encoder.pack(p), p.zeros()
    trace = encoder.forward(packed, p, x, lengths=LENGTHS)
    encoder.backward(packed, p, trace, d_outputs.copy(), whole, lengths=LENGTHS)
    for row, length in enumerate(LENGTHS[:2]):
        alone = encoder.forward(packed, p, x[:length, row : row + 1])
        np.testing.assert_allclose(trace.outputs[:length, row], alone.outputs[:, 0], rtol=1e-12)
        np.testing.assert_allclose(trace.final[:, :, row], alone.final[:, :, 0], rtol=1e-12)
        encoder.backward(packed, p, alone, d_outputs[:length, row : row + 1].copy(), apart)
        total.buffer += apart.buffer
    np.testing.assert_allclose(whole.buffer, total.buffer, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("tokens", "embedding"), [(True, 0), (True, 80), (False, 0)])
def test_token_vectors_start_with_standard_deviation_0_1(tokens, embedding):
    encoder = Stack(300, 100, 2, bidirectional=True, embedding=embedding, tokens=tokens)
    p = Parameters(encoder.shapes, np.float64)
    encoder.fill(p, np.random.default_rng(0), recurrent="orthogonal", gain=1.0)
    rows = {"embedding.W"} if embedding else {"layers.0.W_xh", "layers.0.reverse.W_xh"} if tokens else set()
    for name in (name for name in encoder.shapes if name.endswith(("W_xh", "embedding.W"))):
        glorot = np.sqrt(2 / sum(p[name].shape))
        assert p[name].std() == pytest.approx(0.1 if name in rows else glorot, rel=0.03)
