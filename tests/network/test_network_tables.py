"""Gradients of large tables with one row per token: only rows of tokens in the batch are added up."""

from __future__ import annotations

import numpy as np
import pytest

from elman.network import Batch, EncoderDecoder, HeadNetwork, Stack
from elman.network import stack as stack_module

X, H, B, T = 40, 6, 20, 5  # 20 rows: two slices


def _stack(embedding: int, prefix: str = "", *, bidirectional: bool = False, cell: str = "rnn") -> Stack:
    return Stack(X, H, cell=cell, embedding=embedding, prefix=prefix, bidirectional=bidirectional)


NETWORKS = {
    "embedding": lambda: HeadNetwork(_stack(3), 4),
    "one-hot": lambda: HeadNetwork(_stack(0), 4),
    "one-hot, gru, two directions": lambda: HeadNetwork(_stack(0, bidirectional=True, cell="gru"), 4),
    "translator": lambda: EncoderDecoder(_stack(3, "encoder."), _stack(0, "decoder."), X, edge=0),
    "attention": lambda: EncoderDecoder(_stack(3, "encoder."), _stack(3, "decoder."), X, edge=0, attention="dot"),
}
TABLES = {"embedding": 1, "one-hot": 1, "one-hot, gru, two directions": 2, "translator": 2, "attention": 1}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_large_table_has_the_gradient_of_a_small_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, T + 1, B)
    translator = isinstance(NETWORKS[name](), EncoderDecoder)
    x, y = rng.integers(1, X, (T, B)), rng.integers(1, X if translator else 4, (T, B))
    batch = Batch(x, y, np.ones(B), lengths, lengths)
    found = {}
    for large in (1, 1 << 60):
        monkeypatch.setattr(stack_module, "LARGE", large)
        network = NETWORKS[name]()
        assert len(network.tables) == (TABLES[name] if large == 1 else 0)
        p = network.initial(np.random.default_rng(1), recurrent="orthogonal", gain=0.9, dtype=np.dtype(np.float64))
        d = p.zeros()
        d.buffer[:] = 7  # is overwritten
        loss = network.loss_and_gradients(p, batch, d, normalizer=9.0)
        once = d.buffer.copy()
        assert network.loss_and_gradients(p, batch, d, normalizer=9.0, add=True) == loss
        np.testing.assert_allclose(d.buffer, 2 * once, rtol=1e-12, atol=1e-15)
        found[large] = once
    np.testing.assert_allclose(found[1], found[1 << 60], rtol=1e-12, atol=1e-15)
    assert np.abs(found[1]).max() > 1e-3
