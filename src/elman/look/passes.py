"""One short text through the network and back, with every number kept as the lines of `elman.maths` computed it."""

from __future__ import annotations

from functools import partial

import numpy as np

from elman.look.equations import D_A, D_H, D_H_NEXT, READ, REMEMBERED, SUM, Y_HAT
from elman.look.watch import watch
from elman.maths.activations import get_activation
from elman.maths.arrays import Array
from elman.maths.cell import RNNGradients, rnn_backward, rnn_forward
from elman.maths.layers import output_backward, output_forward
from elman.maths.loss import cross_entropy, surprise
from elman.network import Network, Parameters


class LayerPasses:
    """One layer, forward; backward once the layers above have been."""

    def __init__(self, x: Array, W_xh: Array, W_hh: Array, b_h: Array, activation: str) -> None:
        self.x, self.W_xh, self.W_hh, self.b_h, self.activation = x, W_xh, W_hh, b_h, activation
        run = partial(rnn_forward, x, None, W_xh, W_hh, b_h, activation=activation)
        self.h, (read, remembered, sums) = watch(run, (READ, REMEMBERED, SUM))  # (T+1, 1, H)
        self.read, self.remembered, self.a = read[0], np.stack(remembered), np.stack(sums)  # (T, 1, H)
        self.f_prime = get_activation(activation).derivative(self.h[1:])  # (T, 1, H)

    def backward(self, d_h_direct: Array) -> None:
        self.d_h_direct = d_h_direct  # (T, 1, H)
        run = partial(rnn_backward, d_h_direct, self.x, self.h, self.W_xh, self.W_hh, activation=self.activation)
        self.d: RNNGradients
        self.d, (d_h, d_a, d_h_next) = watch(run, (D_H, D_A, D_H_NEXT))
        self.d_h = np.stack(d_h[::-1])  # (T, 1, H): they ran from the last step to the first
        self.d_a = d_a[-1]  # (T, 1, H), complete once the first step was reached
        nothing = np.zeros_like(d_h[0])  # is sent to the last step
        self.d_h_next = np.stack([*d_h_next[-2::-1], nothing])  # (T, 1, H)


class Passes:
    """T tokens, one row (B = 1), everything in float64, the loss divided by T."""

    def __init__(self, network: Network, p: Parameters, x: Array, y: Array) -> None:
        w = {name: np.asarray(array, np.float64) for name, array in p.items()}
        self.activation = str(network.activation)
        self.W_hy, self.b_y = w["head.W_hy"], w["head.b_y"]
        ids, targets = (np.asarray(i, np.int64)[:, np.newaxis] for i in (x, y))  # (T, 1)
        self.T = len(ids)
        self.layers: list[LayerPasses] = []
        entering: Array = ids
        for layer in range(network.layers):
            W_xh, W_hh, b_h = (w[f"layers.{layer}.{name}"] for name in ("W_xh", "W_hh", "b_h"))
            self.layers.append(LayerPasses(entering, W_xh, W_hh, b_h, self.activation))
            entering = self.layers[-1].h[1:]
        self.o = output_forward(entering, self.W_hy, self.b_y)  # (T, 1, Y)
        run = partial(cross_entropy, self.o, targets, normaliser=self.T)
        (self.L, self.d_o), ((self.y_hat,),) = watch(run, (Y_HAT,))
        self.costs = surprise(self.o, targets)  # (T, 1)
        self.d_output = output_backward(self.d_o, entering, self.W_hy)
        d_h_direct: Array | None = self.d_output.d_h
        for one in reversed(self.layers):
            assert d_h_direct is not None  # only ids have no d_x, and they enter the first layer
            one.backward(d_h_direct)
            d_h_direct = one.d.d_x
        # one-hot rows, to be looked at only
        self.x, self.y = _one_hot(ids, network.inputs), _one_hot(targets, network.outputs)  # (T, 1, X), (T, 1, Y)


def _one_hot(ids: Array, size: int) -> Array:
    """Only the rows that are there: the identity matrix of a large vocabulary fills the memory."""
    rows = np.zeros((*ids.shape, size))
    np.put_along_axis(rows, ids[..., np.newaxis], 1.0, axis=-1)
    return rows
