"""One slice of a batch through a whole language model, and back through each of its layers.

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
def forward_window(p, x, y, V, h, inputs, o, masks, forward, inner, head, code, scale, edge, d_b_y):
    """The loss of one slice; o becomes d_o. h[layer, 0] is the state before it, h[layer, -1] becomes the one after.

    h (L, T+1, B, H), inputs (L, T·B, H) what leaves each layer, o (T·B, Y), masks (L, T·B, H) or empty: then nothing
    is dropped, and what leaves a layer is its states.
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
        forward_steps(h[layer], forward[layer], code, none, False, no_mask, no_mask, edge)
        if masks.size:
            kept, mask, out = states.reshape(-1), masks[layer].reshape(-1), inputs[layer].reshape(-1)
            for i in range(out.size):
                out[i] = kept[i] * mask[i]
    # o[t] = h[t+1] @ W_hy + b_y
    at, _ = layer_at(L, V, H)
    top = inputs[L - 1] if masks.size else h[L - 1, 1:].reshape(rows, H)
    fill_rows(p[at + H * Y :], o)
    add_product(top.reshape(-1), 0, rows, head, H, Y, o.reshape(-1), 0, edge)
    loss = cross_entropy_rows(o, y, p[:0], scale)
    column_sums(o, d_b_y)
    return loss


@kernel
def backward_layer(d, h, packed, code, mask, edge, d_b_h):
    """d (T·B, H) holds the gradient of what leaves a layer, and becomes d_a."""
    T, B, H = h.shape[0] - 1, h.shape[1], h.shape[2]
    flat, kept = d.reshape(-1), mask.reshape(-1)
    for i in range(kept.size):
        flat[i] *= kept[i]
    none = h[0, 0, :0]
    backward_steps(d.reshape(T, B, H), h, packed, code, np.empty(0, np.int64), False, none, none, none, edge)
    column_sums(d, d_b_h)
