"""Networks whose gradient has a known fate."""

from __future__ import annotations

import numpy as np

from elman.maths.arrays import Array
from elman.network import Network, Parameters

X = 4  # tokens


def random_network(
    seed: int = 0, *, H: int = 6, layers: int = 1, activation="tanh", scale: float = 0.6
) -> tuple[Network, Parameters]:
    """Every weight drawn, biases too."""
    network = Network(X, H, layers, X, activation=activation)
    p = Parameters(network.shapes, np.float64)
    p.buffer[:] = scale * np.random.default_rng(seed).standard_normal(p.buffer.size)
    return network, p


def scaled_orthogonal(gain: float, *, H: int = 16, activation="identity", seed: int = 0) -> tuple[Network, Parameters]:
    network = Network(X, H, 1, X, activation=activation)
    rng = np.random.default_rng(seed)
    return network, network.initial(rng, recurrent="orthogonal", gain=gain, input_gain=1e-3, dtype=np.dtype(np.float64))


def random_text(T: int, seed: int = 1) -> tuple[Array, Array]:
    """x and y."""
    ids = np.random.default_rng(seed).integers(0, X, T + 1)
    return ids[:-1], ids[1:]
