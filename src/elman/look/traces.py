"""One reading of a text, with every state kept: what all the looks at a network begin with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from elman.errors import DataError
from elman.maths.activations import ActivationLike
from elman.maths.arrays import Array
from elman.maths.cell import rnn_forward
from elman.maths.layers import output_forward
from elman.maths.loss import surprise
from elman.network import Network, Parameters, State
from elman.network.stack import check_ids


@dataclass(frozen=True, eq=False)
class Trace:
    """All in float64, whatever the network was trained in."""

    h: list[Array]  # (T+1, H) a layer
    o: Array  # (T, Y)
    W_xh: list[Array]  # (X, H), then (H, H)
    W_hh: list[Array]  # (H, H) a layer
    W_hy: Array  # (H, Y)
    activation: ActivationLike

    def losses(self, y: Array) -> Array:
        """L[t] of each target, in nats."""
        return surprise(self.o, y)  # (T,)


@np.errstate(over="ignore", invalid="ignore")  # a state may explode: that is worth seeing
def trace(network: Network, p: Parameters, x: Array, *, state: State | None = None) -> Trace:
    """The states and logits of a text x of T ids, read from zeros or from a given state of (1, H) a layer."""
    if len(x) == 0:
        raise DataError("the text", expected="at least two tokens: the first one is not predicted", got="fewer")
    check_ids("x", x, network.inputs)
    weights = {name: np.asarray(array, np.float64) for name, array in p.items()}
    layers = range(network.layers)
    W_xh, W_hh, b_h = ([weights[f"layers.{layer}.{name}"] for layer in layers] for name in ("W_xh", "W_hh", "b_h"))
    states: list[Array] = []
    read: Array = np.asarray(x, np.int64)[:, np.newaxis]  # (T, 1) ids, then (T, 1, H)
    for layer in layers:
        h0 = None if state is None else np.asarray(state[layer], np.float64)
        h = rnn_forward(read, h0, W_xh[layer], W_hh[layer], b_h[layer], activation=network.activation)
        states.append(h[:, 0])
        read = h[1:]
    o = output_forward(states[-1][1:], weights["head.W_hy"], weights["head.b_y"])
    return Trace(states, o, W_xh, W_hh, weights["head.W_hy"], network.activation)
