"""Networks whose gradient has a known fate."""

from __future__ import annotations

import numpy as np

from elman.maths.arrays import Array
from elman.network import HeadNetwork, Parameters, language_network

X = 4  # tokens


def random_network(
    seed: int = 0, *, H: int = 6, layers: int = 1, activation="tanh", scale: float = 0.6, cell: str = "rnn"
) -> tuple[HeadNetwork, Parameters]:
    """Every weight drawn, biases too."""
    network = language_network(X, H, layers, activation=activation, cell=cell)
    p = Parameters(network.shapes, np.float64)
    p.buffer[:] = scale * np.random.default_rng(seed).standard_normal(p.buffer.size)
    return network, p


def scaled_orthogonal(
    gain: float, *, H: int = 16, activation="identity", seed: int = 0
) -> tuple[HeadNetwork, Parameters]:
    network = language_network(X, H, activation=activation)
    rng = np.random.default_rng(seed)
    dtype = np.dtype(np.float64)
    return network, network.initial(rng, recurrent="orthogonal", gain=gain, token_scale=1e-3, dtype=dtype)


def random_text(T: int, seed: int = 1) -> tuple[Array, Array]:
    """x and y."""
    ids = np.random.default_rng(seed).integers(0, X, T + 1)
    return ids[:-1], ids[1:]
