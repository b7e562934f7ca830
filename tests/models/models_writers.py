"""Text samplers with random weights, which need no training."""

from __future__ import annotations

import numpy as np

from elman.data import ByteVocabulary, CharVocabulary, Vocabulary, WordVocabulary
from elman.models.sampling import TextSampler
from elman.network import language_network

VOCABULARIES = {
    "char": CharVocabulary("abcde .\n"),
    "byte": ByteVocabulary(),
    "word": WordVocabulary(["<unk>", "\n", " and", " the", " cat", "the"]),
}


def random_writer(vocabulary: Vocabulary, *, layers: int = 1, seed: int = 0, sure: float = 4) -> TextSampler:
    """`sure` scales the output weights: 0 makes every token equally likely."""
    network = language_network(len(vocabulary), 12, layers)
    parameters = network.initial(
        np.random.default_rng(seed), recurrent="orthogonal", gain=1.0, token_scale=1.0, dtype=np.dtype(np.float64)
    )
    parameters["head.W_hy"][...] *= sure
    return TextSampler(network, parameters, vocabulary)
