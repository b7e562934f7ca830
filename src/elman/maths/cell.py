"""The recurrent cell, forward and backward through time.

Rows are examples, time comes first. h has one entry more than x: h[0] is the initial state, h[t+1] the state after
the step that read x[t]. In reverse the steps run from the last to the first, so that the state before step t is
h[t+2], and h[0] before step T-1. Past its length a row only carries its state, whichever way the steps run.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from elman.maths.activations import ActivationLike, get_activation
from elman.maths.arrays import Array
from elman.maths.layers import input_backward, input_forward


class RNNGradients(NamedTuple):
    """What a loss wants changed; d_x is None where x holds token ids."""

    d_W_xh: Array  # (X, H)
    d_W_hh: Array  # (H, H)
    d_b_h: Array  # (H,)
    d_x: Array | None  # (T, B, X)
    d_h0: Array  # (B, H)

    @classmethod
    def zeros(cls, x: Array, W_xh: Array) -> RNNGradients:
        B, H = x.shape[1], W_xh.shape[1]
        d_x = None if x.ndim == 2 else np.zeros_like(x)
        d_W_hh, d_b_h, d_h0 = (np.zeros(shape, W_xh.dtype) for shape in ((H, H), (H,), (B, H)))
        return cls(np.zeros_like(W_xh), d_W_hh, d_b_h, d_x, d_h0)


def steps(T: int, reverse: bool) -> list[tuple[int, int]]:
    """Each step t with the index of the state before it, in the order in which they run."""
    return [(t, t + 2 if t < T - 1 else 0) for t in reversed(range(T))] if reverse else [(t, t) for t in range(T)]


def rnn_forward(
    x: Array,  # (T, B, X), or (T, B) token ids
    h0: Array | None,  # (B, H); None is zeros
    W_xh: Array,  # (X, H)
    W_hh: Array,  # (H, H)
    b_h: Array,  # (H,)
    *,
    activation: ActivationLike = "tanh",
    lengths: Array | None = None,  # (B,)
    reverse: bool = False,
    h_mask: Array | None = None,  # (B, H), multiplies the state that enters W_hh
    out: Array | None = None,  # (T+1, B, H)
) -> Array:
    T, B = x.shape[:2]
    f = get_activation(activation).function
    h = np.empty((T + 1, B, len(W_hh)), W_hh.dtype) if out is None else out  # (T+1, B, H)
    h[0] = 0 if h0 is None else h0

    # x[t] @ W_xh + b_h, of all steps at once
    z = input_forward(x, W_xh)  # (T, B, H)
    z += b_h

    for t, before in steps(T, reverse):
        state = h[before] if h_mask is None else h[before] * h_mask  # (B, H)
        # a[t] = x[t] @ W_xh + h[t] @ W_hh + b_h
        a = state @ W_hh  # (B, H)
        a += z[t]
        # h[t+1] = tanh(a[t])
        h[t + 1] = f(a)  # (B, H)
        if lengths is not None:
            over = t >= lengths  # (B,)
            h[t + 1, over] = h[before, over]
    return h


def rnn_backward(
    d_h_direct: Array,  # (T, B, H), the loss's direct gradient on the state after each step
    x: Array,
    h: Array,  # (T+1, B, H), from rnn_forward
    W_xh: Array,
    W_hh: Array,
    *,
    activation: ActivationLike = "tanh",
    lengths: Array | None = None,
    reverse: bool = False,
    h_mask: Array | None = None,
    out: RNNGradients | None = None,
) -> RNNGradients:
    T, B, H = d_h_direct.shape
    derivative = get_activation(activation).derivative
    out = RNNGradients.zeros(x, W_xh) if out is None else out
    d_a = np.empty((T, B, H), W_hh.dtype)
    d_h_next = np.zeros((B, H), W_hh.dtype)  # what the step after sends back: nothing after the last

    for t, _ in reversed(steps(T, reverse)):
        # d_h[t+1] = d_o[t] @ W_hy.T + d_a[t+1] @ W_hh.T
        d_h = d_h_direct[t] + d_h_next  # (B, H)
        # d_a[t] = (1 - h[t+1]²) ⊙ d_h[t+1]
        np.multiply(derivative(h[t + 1]), d_h, out=d_a[t])  # (B, H)
        if lengths is not None:
            over = t >= lengths  # (B,)
            d_a[t, over] = 0
        d_h_next = d_a[t] @ W_hh.T  # (B, H)
        if h_mask is not None:
            d_h_next *= h_mask
        if lengths is not None:
            d_h_next[over] = d_h[over]  # a carried state passes its gradient on as it is

    # d_W_hh = Σ h[t].T @ d_a[t]: one product over all steps and rows
    before = np.concatenate([h[2:], h[:1]]) if reverse else h[:-1]  # (T, B, H)
    if h_mask is not None:
        before = before * h_mask
    out.d_W_hh[...] += before.reshape(T * B, H).T @ d_a.reshape(T * B, H)
    # d_b_h = Σ of d_a over t and rows
    out.d_b_h[...] += d_a.sum(axis=(0, 1))
    # d_W_xh = Σ x[t].T @ d_a[t],  d_x[t] = d_a[t] @ W_xh.T
    input_backward(d_a, x, W_xh, d_W_xh=out.d_W_xh, d_x=out.d_x)
    # d_h[0] = d_a[0] @ W_hh.T
    out.d_h0[...] += d_h_next
    return out
