"""How good a language model is: defined once, for validation, `elman eval` and score alike.

A text is read as one lane from a zero state; every token but the first is predicted; losses are averaged over them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from elman.errors import DataError
from elman.kernels import surprise
from elman.maths.arrays import Array
from elman.network import HeadNetwork, PackedNetwork, Parameters, check_ids

CHUNK = 1024  # tokens; only speed and memory depend on it


class Evaluation(NamedTuple):
    nats_per_token: float
    bits_per_token: float
    bits_per_character: float
    perplexity: float
    tokens: int  # predicted ones


def token_losses(network: HeadNetwork, p: Parameters, ids: Array) -> Iterator[Array]:
    """-log y_hat of each token but the first, in nats, chunk by chunk."""
    packed, state = network.pack(p), network.stack.zero_state(1, p.buffer.dtype)
    for start in range(0, len(ids) - 1, CHUNK):
        losses, state = chunk_losses(network, packed, ids[start : start + CHUNK + 1], state)
        yield losses


def chunk_losses(network: HeadNetwork, packed: PackedNetwork, ids: Array, state: Array) -> tuple[Array, Array]:
    """The same of one chunk, from this state on, and the state after it."""
    ids = np.asarray(ids, np.int64)
    check_ids("ids", ids[1:], network.outputs)
    o, state = network.read(packed, ids[:-1, np.newaxis], state)  # (T, 1, Y)
    return surprise(o[:, 0], ids[1:]), state


def mean_loss(network: HeadNetwork, p: Parameters, ids: Array) -> float:
    """Nats a token."""
    if len(ids) < 2:
        raise DataError("the text", expected="at least two tokens: the first one is not predicted", got=len(ids))
    return sum(float(losses.sum()) for losses in token_losses(network, p, ids)) / (len(ids) - 1)


def evaluation(network: HeadNetwork, p: Parameters, ids: Array, characters: int) -> Evaluation:
    """All the usual figures; characters is the number that the ids stand for."""
    nats = mean_loss(network, p, ids)
    bits = nats / math.log(2)
    perplexity = math.exp(nats) if nats < 700 else math.inf
    return Evaluation(nats, bits, bits * (len(ids) / max(characters, 1)), perplexity, len(ids) - 1)
