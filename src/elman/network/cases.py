"""Gradient checks of translators with attention, which `elman gradcheck` runs after those of elman.maths.

The whole network is differentiated: encoder, bridge, attention with input feeding, and output layer, with rows of
several lengths, one of them without any source.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from elman.maths.cells import CELLS
from elman.maths.gradient_check import GradientCheck, gradcheck
from elman.network.batch import Batch
from elman.network.encoder_decoder import EncoderDecoder
from elman.network.network import Draw
from elman.network.parameters import Parameters
from elman.network.stack import NO_MASKS, Dropout, Masks, Stack

X, H, Y = 3, 3, 4  # source tokens, hidden units, target tokens
KINDS = "dot", "additive"  # of attention
X_LENGTHS, Y_LENGTHS = (4, 2, 0, 3), (3, 0, 2, 1)
NORMALIZER = 2.0  # not 1: gradients that are not divided by it must fail


class TranslatorCase(NamedTuple):
    """A small translator with attention."""

    attention: str = "dot"
    cell: str = "gru"
    layers: int = 1
    bidirectional: bool = True
    embedding: int = 2  # 0: one-hot tokens
    tokens: bool = True  # False: the source is numbers
    dropout: Dropout = Dropout()
    x_lengths: tuple[int, ...] = X_LENGTHS
    y_lengths: tuple[int, ...] = Y_LENGTHS

    def network(self, hidden: int = H) -> EncoderDecoder:
        """The network of this case."""
        encoder = Stack(
            X, hidden, self.layers, cell=self.cell, bidirectional=self.bidirectional, prefix="encoder.",
            embedding=self.embedding if self.tokens else 0, tokens=self.tokens,
        )  # fmt: skip
        decoder = Stack(Y, hidden, self.layers, cell=self.cell, embedding=self.embedding, prefix="decoder.")
        return EncoderDecoder(encoder, decoder, Y, edge=1, attention=self.attention)

    def batch(self) -> Batch:
        """Random examples of these lengths, with a weight for each."""
        rng, B = np.random.default_rng(3), len(self.x_lengths)
        T, S = max(self.x_lengths), max(self.y_lengths)
        x = rng.integers(X, size=(T, B)) if self.tokens else rng.standard_normal((T, B, X))
        y = rng.integers(Y, size=(S, B))
        return Batch(x, y, rng.uniform(0.5, 2, B), np.array(self.x_lengths), np.array(self.y_lengths))


def all_translators() -> Iterator[TranslatorCase]:
    """Both kinds of attention with every cell, one and two layers, one and two directions."""
    for kind, cell, layers, bidirectional in itertools.product(KINDS, CELLS, (1, 2), (False, True)):
        yield TranslatorCase(kind, cell, layers, bidirectional)


def random_parameters(network: EncoderDecoder, dtype: type[np.floating] = np.float64) -> Parameters:
    """Parameters large enough that no part of the network is nearly linear."""
    p = Parameters(network.shapes, np.dtype(dtype))
    p.buffer[:] = 0.6 * np.random.default_rng(7).standard_normal(p.buffer.size)
    return p


def check_translator(case: TranslatorCase, *, tolerance: float = 1e-6) -> GradientCheck:
    """Compare the gradients of all parameters of a translator with central differences of its loss.

    Parameters
    ----------
    case : TranslatorCase
        The network and its examples.
    tolerance : float
        The largest relative error that passes.

    Returns
    -------
    GradientCheck

    Examples
    --------
    >>> check_translator(TranslatorCase("additive", "rnn")).passed
    True
    """
    network, batch, draw = case.network(), case.batch(), Draw(case.dropout, 1, 2)
    p = random_parameters(network)
    gradients, unused = p.zeros(), p.zeros()
    gradients.buffer[:] = 9  # must be overwritten
    network.loss_and_gradients(p, batch, gradients, normalizer=NORMALIZER, draw=draw)
    masks: tuple[Masks, ...] = (NO_MASKS, NO_MASKS)
    if any(case.dropout):
        masks = network.masks(draw, batch, np.arange(batch.rows), np.float64)

    def loss() -> float:
        return network.slice_loss(network.pack(p), batch, NORMALIZER, unused, masks=masks)

    return gradcheck(loss, dict(p), dict(gradients), tolerance=tolerance)
