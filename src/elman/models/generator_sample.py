"""What a generator in training would write for a few labels."""

from __future__ import annotations

import numpy as np

from elman.data.symbols import UNKNOWN_ID, Symbols
from elman.data.targets import Labels
from elman.models.decoding import Decoder
from elman.models.sampling import Sampling
from elman.network import DecoderState, EncoderDecoder, Parameters
from elman.training.task import generator

LONGER = 2  # times the longest sequence in training: what is written ends there at the latest
SHOWN = 3  # labels
TEMPERATURE = 0.8
UNKNOWN = np.array([UNKNOWN_ID])  # which is never written


def limit_of(symbols: Symbols) -> int:
    """The number of tokens after which a sequence ends at the latest."""
    return LONGER * symbols.longest + 10


def show(network: EncoderDecoder, p: Parameters, labels: Labels, symbols: Symbols, seed: int, step: int) -> str:
    """A line for each label."""
    ids = generator(seed, "labels", step).permutation(labels.width)[:SHOWN]
    generators, decoder = [generator(seed, "sample", step + int(i)) for i in ids], Decoder(network, p, UNKNOWN)
    start = DecoderState(network.start(decoder.packed, ids).state)
    how = Sampling(temperature=TEMPERATURE)
    written = decoder.until(network.edge, start, limit=limit_of(symbols), how=how, generators=generators)
    lines = []
    for label, tokens in zip(labels.decode(ids), written, strict=True):
        text = symbols.decode(tokens)
        lines.append(f"{label}: {text if isinstance(text, str) else ' '.join(text)}")
    return "\n".join(lines)
