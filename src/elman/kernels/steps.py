"""The recurrence, forward and backward, over a window: the equations of maths/cell.py, compiled once, for all kernels.

`lengths` of size 0 and `h_mask` of size 0 mean that there are none. Arrays are contiguous.
"""

from __future__ import annotations

import numpy as np

from elman.kernels.compile import inline
from elman.kernels.elementwise import activate, exp, through
from elman.kernels.product import add_product, copy


@inline
def gather(ids, W, b, out):
    # x[t] @ W_xh + b_h, where a token id stands for its one-hot row
    for i in range(ids.size):
        row, to = W[ids[i]], out[i]
        for j in range(row.size):
            to[j] = row[j] + b[j]


@inline
def scatter_add(ids, d, d_W):
    # d_W_xh = Σ one-hot column @ d_a
    for i in range(ids.size):
        row, to = d[i], d_W[ids[i]]
        for j in range(row.size):
            to[j] += row[j]


@inline
def column_sums(d, out):
    # d_b = Σ of d over t and rows
    for i in range(d.shape[0]):
        row = d[i]
        for j in range(row.size):
            out[j] += row[j]


@inline
def fill_rows(b, out):
    for i in range(out.shape[0]):
        copy(b, out[i], b.size)


@inline
def forward_steps(h, packed, code, lengths, reverse, h_mask, scratch, edge):
    """h[0] is the initial state and h[1:] holds x @ W_xh + b_h; h[1:] becomes the states."""
    T, B, H = h.shape[0] - 1, h.shape[1], h.shape[2]
    size = B * H
    flat = h.reshape(-1)
    for s in range(T):
        t = T - 1 - s if reverse else s
        before = t if not reverse else (t + 2 if t < T - 1 else 0)
        state = flat[before * size : (before + 1) * size]
        a = flat[(t + 1) * size : (t + 2) * size]
        # a[t] = x[t] @ W_xh + h[t] @ W_hh + b_h
        if h_mask.size:
            mask = h_mask.reshape(-1)
            for i in range(size):
                scratch[i] = state[i] * mask[i]
            add_product(scratch, 0, B, packed, H, H, a, 0, edge)
        else:
            add_product(state, 0, B, packed, H, H, a, 0, edge)
        # h[t+1] = tanh(a[t])
        activate(a, code)
        if lengths.size:
            for i in range(B):
                if t >= lengths[i]:
                    copy(state[i * H :], a[i * H :], H)


@inline
def backward_steps(d, h, packed, code, lengths, reverse, h_mask, d_next, carried, edge):
    """d (T, B, H) holds d_h_direct and becomes d_a; d_next (B·H), unless it is empty, becomes d_h[0]."""
    T, B, H = d.shape
    size = B * H
    flat, states = d.reshape(-1), h.reshape(-1)
    plain = lengths.size == 0 and h_mask.size == 0
    d_next[:] = 0
    for s in range(T):
        t = s if reverse else T - 1 - s
        d_t, h_t = flat[t * size : (t + 1) * size], states[(t + 1) * size : (t + 2) * size]
        # d_h[t+1] = d_o[t] @ W_hy.T + d_a[t+1] @ W_hh.T
        if not plain:
            for i in range(size):
                d_t[i] += d_next[i]
            if lengths.size:
                copy(d_t, carried, size)
        # d_a[t] = (1 - h[t+1]²) ⊙ d_h[t+1]
        through(d_t, h_t, code)
        if plain and s < T - 1:  # straight to where it is needed
            before = (t + 1 if reverse else t - 1) * size
            add_product(d_t, 0, B, packed, H, H, flat[before : before + size], 0, edge)
            continue
        if d_next.size == 0:
            continue
        if lengths.size:
            for i in range(B):
                if t >= lengths[i]:
                    d_t[i * H : (i + 1) * H] = 0
        d_next[:] = 0
        add_product(d_t, 0, B, packed, H, H, d_next, 0, edge)
        if h_mask.size:
            mask = h_mask.reshape(-1)
            for i in range(size):
                d_next[i] *= mask[i]
        if lengths.size:
            for i in range(B):
                if t >= lengths[i]:
                    copy(carried[i * H :], d_next[i * H :], H)


@inline
def sum_of(row):
    """Four sums side by side, because one would wait for itself."""
    s0 = s1 = s2 = s3 = row.dtype.type(0)
    quarter = row.size // 4
    for j in range(quarter):
        s0 += row[j]
        s1 += row[quarter + j]
        s2 += row[2 * quarter + j]
        s3 += row[3 * quarter + j]
    for j in range(4 * quarter, row.size):
        s0 += row[j]
    return (s0 + s1) + (s2 + s3)


@inline
def top_of(row):
    top = row[0]
    for j in range(1, row.size):
        top = row[j] if row[j] > top or row[j] != row[j] else top  # NaN wins, so that it is seen
    return top


@inline
def exponentials(row, top):
    """row becomes exp(row - top); their sum."""
    for j in range(row.size):
        row[j] = exp(row[j] - top)
    return sum_of(row)


@inline
def cross_entropy_rows(o, y, weights, scale):
    """The loss of all rows; o becomes d_o. One pass over each row while it is in the first cache."""
    one = o.dtype.type(1)
    loss = 0.0
    for i in range(o.shape[0]):
        row, top = o[i], top_of(o[i])
        target = row[y[i]] - top
        total = exponentials(row, top)
        share = scale * weights[i] if weights.size else scale
        # L = - Σ weight · y · log y_hat / normaliser
        loss += np.float64(share) * (np.log(np.float64(total)) - np.float64(target))
        # d_o = weight · (y_hat - y) / normaliser
        factor = share * (one / total)
        for j in range(row.size):
            row[j] *= factor
        row[y[i]] -= share
    return loss
