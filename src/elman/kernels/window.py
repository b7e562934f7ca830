"""One slice of a batch through a whole language model and back, in one call.

Parameters come as one flat buffer: W_xh, W_hh and b_h of each layer, then W_hy and b_y, each row by row. The weights
are packed once for all slices.
"""

from __future__ import annotations

import numpy as np

from elman.kernels.compile import inline, kernel
from elman.kernels.product import add_product, pack, pack_transposed
from elman.kernels.steps import (
    backward_steps,
    column_sums,
    cross_entropy_rows,
    fill_rows,
    forward_steps,
    gather,
    scatter_add,
)


@inline
def layer_at(layer, V, H):
    """Where a layer's parameters begin, and the number of its inputs."""
    first = V * H + H * H + H
    return (0, V) if layer == 0 else (first + (layer - 1) * (2 * H * H + H), H)


@kernel
def pack_network(p, V, Y, H, layers, forward, backward, inner, head):
    """W_hh of each layer both ways, W_xh of the layers above the first, and W_hy."""
    for layer in range(layers):
        at, X = layer_at(layer, V, H)
        W_hh = p[at + X * H : at + X * H + H * H].reshape(H, H)
        pack(W_hh, forward[layer])
        pack_transposed(W_hh, backward[layer])
        if layer:
            pack(p[at : at + H * H].reshape(H, H), inner[layer - 1])
    at, _ = layer_at(layers, V, H)
    pack(p[at : at + H * Y].reshape(H, Y), head)


@kernel
def window(p, g, x, y, V, h, inputs, o, d, d_below, masks, forward, backward, inner, head, code, scale, edge, scratch):
    """The loss of one slice; g becomes its gradients. h[layer, 0] is the state before it, h[layer, -1] the one after.

    h (L, T+1, B, H), inputs (L, T·B, H) what leaves each layer, o (T·B, Y), d and d_below (T·B, H), masks
    (L, T·B, H) or empty: then nothing is dropped, and what leaves a layer is its states.
    """
    L, T, B, H, Y = h.shape[0], h.shape[1] - 1, h.shape[2], h.shape[3], o.shape[1]
    rows = T * B
    none, no_mask = x[:0], h[0, 0, :0]
    for layer in range(L):
        at, X = layer_at(layer, V, H)
        b_h = p[at + X * H + H * H : at + X * H + H * H + H]
        states = h[layer, 1:].reshape(rows, H)
        # x[t] @ W_xh + b_h, of all steps at once
        if layer == 0:
            gather(x, p[at : at + V * H].reshape(V, H), b_h, states)
        else:
            fill_rows(b_h, states)
            below = inputs[layer - 1] if masks.size else h[layer - 1, 1:].reshape(rows, H)
            add_product(below.reshape(-1), 0, rows, inner[layer - 1], H, H, states.reshape(-1), 0, edge)
        forward_steps(h[layer], forward[layer], code, none, False, no_mask, scratch, edge)
        if masks.size:
            kept, mask, out = states.reshape(-1), masks[layer].reshape(-1), inputs[layer].reshape(-1)
            for i in range(out.size):
                out[i] = kept[i] * mask[i]
    # o[t] = h[t+1] @ W_hy + b_y
    at, _ = layer_at(L, V, H)
    W_hy, b_y = p[at : at + H * Y].reshape(H, Y), p[at + H * Y :]
    top = inputs[L - 1] if masks.size else h[L - 1, 1:].reshape(rows, H)
    fill_rows(b_y, o)
    add_product(top.reshape(-1), 0, rows, head, H, Y, o.reshape(-1), 0, edge)
    loss = cross_entropy_rows(o, y, p[:0], scale)

    # d_W_hy = Σ h[t+1].T @ d_o[t],  d_b_y = Σ d_o,  direct part of d_h[t+1]: d_o[t] @ W_hy.T
    g[:] = 0
    np.dot(top.T, o, g[at : at + H * Y].reshape(H, Y))
    column_sums(o, g[at + H * Y :])
    np.dot(o, W_hy.T, d)
    for layer in range(L - 1, -1, -1):
        if masks.size:
            flat, mask = d.reshape(-1), masks[layer].reshape(-1)
            for i in range(flat.size):
                flat[i] *= mask[i]
        at, X = layer_at(layer, V, H)
        backward_steps(
            d.reshape(T, B, H), h[layer], backward[layer], code, none, False, no_mask, scratch[:0], scratch[:0], edge
        )
        # d_W_hh = Σ h[t].T @ d_a[t],  d_b_h = Σ d_a,  d_W_xh = Σ x[t].T @ d_a[t],  d_x[t] = d_a[t] @ W_xh.T
        np.dot(h[layer, :-1].reshape(rows, H).T, d, g[at + X * H : at + X * H + H * H].reshape(H, H))
        column_sums(d, g[at + X * H + H * H : at + X * H + H * H + H])
        if layer == 0:
            scatter_add(x, d, g[at : at + V * H].reshape(V, H))
        else:
            below = inputs[layer - 1] if masks.size else h[layer - 1, 1:].reshape(rows, H)
            np.dot(below.T, d, g[at : at + H * H].reshape(H, H))
            np.dot(d, p[at : at + H * H].reshape(H, H).T, d_below)
            d, d_below = d_below, d
    return loss
