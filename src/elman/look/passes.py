"""One short text through the network and back, with every number kept as the lines of `elman.maths` computed it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from elman.look.equations import D_A, D_H, D_H_DIRECT, D_H_NEXT, READ, REMEMBERED, SUM, Y_HAT
from elman.look.line_tracer import watch
from elman.look.traces import exact
from elman.maths.activations import get_activation
from elman.maths.arrays import Array
from elman.maths.cells import Weights
from elman.maths.layers import output_backward, output_forward
from elman.maths.loss import cross_entropy, surprise
from elman.network import HeadNetwork, Parameters


@dataclass(frozen=True, eq=False)
class LayerPasses:
    """One layer, forward and backward; arrays of steps are (T, 1, H)."""

    p: Weights
    x: Array  # (T, 1) ids, or the states of the layer below
    h: Array  # (T+1, 1, H)
    read: Array  # x[t] @ W_xh
    remembered: Array  # h[t] @ W_hh
    a: Array
    f_prime: Array
    d_h_direct: Array
    d_h_next: Array
    d_h: Array
    d_a: Array
    d: Weights  # gradients by parameter
    d_h0: Array  # (1, H)


class Passes:
    """T tokens, one row (B = 1), everything in float64, the loss divided by T."""

    def __init__(self, network: HeadNetwork, p: Parameters, x: Array, y: Array) -> None:
        stack = network.stack
        packed, p = exact(stack, p)
        self.activation = str(stack.cell.activation)
        self.W_hy, self.b_y = p["head.W_hy"], p["head.b_y"]
        ids, targets = (np.asarray(i, np.int64)[:, np.newaxis] for i in (x, y))  # (T, 1)
        self.T = len(ids)
        run = partial(stack.forward, packed, p, ids)
        trace, (read, remembered, sums) = watch(run, (READ, REMEMBERED, SUM))
        self.o = output_forward(trace.outputs, self.W_hy, self.b_y)  # (T, 1, Y)
        compare = partial(cross_entropy, self.o, targets, normalizer=self.T)
        (self.L, self.d_o), ((self.y_hat,),) = watch(compare, (Y_HAT,))
        self.costs = surprise(self.o, targets)  # (T, 1)
        self.d_output = output_backward(self.d_o, trace.outputs, self.W_hy)
        gradients = p.zeros()
        back = partial(stack.backward, packed, p, trace, self.d_output.d_h, gradients)
        (_, d_state), (direct, *of_steps) = watch(back, (D_H_DIRECT, D_H, D_A, D_H_NEXT))
        # they ran from the last layer to the first, and from the last step to the first
        d_s, d_a, sent = (self._by_layer(values)[::-1, ::-1] for values in of_steps)
        d_h_next = np.concatenate([sent[:, 1:], np.zeros_like(sent[:, :1])], axis=1)  # nothing comes to the last step
        forward = zip(trace.inputs, trace.traces, read, self._by_layer(remembered), self._by_layer(sums), strict=False)
        f_prime = get_activation(stack.cell.activation).derivative
        self.layers = [
            LayerPasses(
                p.part(name), x, one.s[0], read, remembered, a, f_prime(one.s[0, 1:]),
                direct[-1 - i], d_h_next[i], d_s[i, :, 0], d_a[i], gradients.part(name), d_state[i, 0],
            )
            for i, (name, (x, one, read, remembered, a)) in enumerate(zip(stack.names, forward, strict=True))
        ]  # fmt: skip
        # one-hot rows, to be looked at only
        self.x, self.y = _one_hot(ids, stack.inputs), _one_hot(targets, network.outputs)  # (T, 1, X), (T, 1, Y)

    def _by_layer(self, values: list[Array]) -> Array:
        """The values of T steps for each layer, (L, T, …)."""
        return np.stack(values).reshape(-1, self.T, *values[0].shape)


def _one_hot(ids: Array, size: int) -> Array:
    """Only the rows that are there: the identity matrix of a large vocabulary fills the memory."""
    rows = np.zeros((*ids.shape, size))
    np.put_along_axis(rows, ids[..., np.newaxis], 1.0, axis=-1)
    return rows
