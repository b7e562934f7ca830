"""Truncated backpropagation through time, (k1, k2).

A window of T steps is cut into blocks of k1 steps. The losses of a block send gradients back over at most the last k2
steps up to the block's end (or the row's, if that comes first), and not past the window's start. The gradient of the
window is the sum over its blocks: each block of each row becomes a row of its own, and one backward pass over k2 steps
serves them all. With k2 ≥ T this is the full gradient, with k2 = 1 it is what Elman computed in 1990.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from elman.maths.activations import ActivationLike
from elman.maths.arrays import Array
from elman.maths.cell import RNNGradients, rnn_backward


class Blocks(NamedTuple):
    """Each block of each row, as a row: N = ⌈T/k1⌉·B of them, k2 steps long."""

    k1: int
    k2: int
    rows: Array  # (N,) the row of the batch
    first: Array  # (N,) the block's own first step
    start: Array  # (N,) the first step within reach
    lengths: Array  # (N,) the number of steps within reach

    def inputs(self, x: Array) -> Array:
        """x[t] of the steps within reach."""
        return x[self._at(self.k2, len(x)), self.rows]  # (k2, N, …)

    def states(self, h: Array) -> Array:
        """h[t] of the steps within reach: the first one is held fixed."""
        return h[self._at(self.k2 + 1, len(h)), self.rows]  # (k2+1, N, H)

    def direct(self, d_h_direct: Array) -> Array:
        """The direct gradients of the block's own losses; one past the row's end belongs to its last state."""
        T, _, H = d_h_direct.shape
        d_block = np.zeros((self.k2, len(self.rows), H), d_h_direct.dtype)
        last = np.maximum(self.lengths - 1, 0)  # (N,)
        for t in (self.first + s for s in range(self.k1)):
            (n,) = np.nonzero(t < T)
            d_block[np.minimum(t - self.start, last)[n], n] += d_h_direct[t[n], self.rows[n]]
        return d_block  # (k2, N, H)

    def _at(self, steps: int, end: int) -> Array:
        return np.minimum(self.start + np.arange(steps)[:, np.newaxis], end - 1)  # (steps, N)


def cut_blocks(T: int, B: int, lengths: Array | None, k1: int, k2: int) -> Blocks:
    first = np.repeat(np.arange(0, T, k1), B)  # (N,)
    rows = np.tile(np.arange(B), len(first) // B)  # (N,)
    end = np.minimum(first + k1, T if lengths is None else lengths[rows].astype(np.intp))  # (N,)
    start = np.maximum(end - k2, 0)  # (N,)
    return Blocks(k1, min(k2, T), rows, first, start, end - start)


def truncated_backward(
    d_h_direct: Array,  # (T, B, H)
    x: Array,
    h: Array,
    W_xh: Array,
    W_hh: Array,
    *,
    k1: int,
    k2: int,
    activation: ActivationLike = "tanh",
    lengths: Array | None = None,
    h_mask: Array | None = None,
    out: RNNGradients | None = None,
    full_backward: Callable[..., RNNGradients] = rnn_backward,  # the pass that runs over the blocks
) -> RNNGradients:
    T, B, _ = d_h_direct.shape
    backward = partial(full_backward, W_xh=W_xh, W_hh=W_hh, activation=activation)
    if k2 >= T:
        return backward(d_h_direct, x, h, lengths=lengths, h_mask=h_mask, out=out)
    out = RNNGradients.zeros(x, W_xh) if out is None else out
    blocks = cut_blocks(T, B, lengths, k1, k2)
    inputs = blocks.inputs(x)  # (k2, N, X), or ids
    d_x = None if out.d_x is None or x.ndim == 2 else np.zeros_like(inputs)
    d_h0 = np.zeros((len(blocks.rows), len(W_hh)), W_hh.dtype)  # (N, H)
    backward(
        blocks.direct(d_h_direct),
        inputs,
        blocks.states(h),
        lengths=blocks.lengths,
        h_mask=None if h_mask is None else h_mask[blocks.rows],
        out=RNNGradients(out.d_W_xh, out.d_W_hh, out.d_b_h, d_x, d_h0),
    )
    # a step within reach of several blocks gets the sum of what they send
    if out.d_x is not None and d_x is not None:
        np.add.at(out.d_x, (blocks._at(blocks.k2, T), blocks.rows), d_x)
    from_start = blocks.start == 0  # the state before any other start is held fixed
    np.add.at(out.d_h0, blocks.rows[from_start], d_h0[from_start])
    return out
