"""Writing, compiled: token after token for any number of sequences, one product a step for all of them.

A sequence has a temperature, top_k and top_p of its own. Its tokens depend on these, its state and its random numbers
only: the tile gives a row the same bits whatever stands beside it, so a sample is the same alone or among others.
"""

from __future__ import annotations

import numpy as np

from elman.kernels.compile import inline, kernel
from elman.kernels.elementwise import activate, exp
from elman.kernels.product import add_product
from elman.kernels.steps import fill_rows, gather, sum_of
from elman.kernels.window import layer_at


@inline
def next_states(p, tokens, V, state, below, forward, inner, code, edge):
    """One step of all layers: state (L, B, H) becomes the one after the tokens; `below` (B, H) is overwritten."""
    L, B, H = state.shape
    for layer in range(L):
        at, X = layer_at(layer, V, H)
        b_h = p[at + X * H + H * H : at + X * H + H * H + H]
        # a[t] = x[t] @ W_xh + h[t] @ W_hh + b_h
        if layer == 0:
            gather(tokens, p[: V * H].reshape(V, H), b_h, below)
        else:
            fill_rows(b_h, below)
            add_product(state[layer - 1].reshape(-1), 0, B, inner[layer - 1], H, H, below.reshape(-1), 0, edge)
        a, h = below.reshape(-1), state[layer].reshape(-1)
        add_product(h, 0, B, forward[layer], H, H, a, 0, edge)
        # h[t+1] = tanh(a[t])
        activate(a, code)
        for i in range(a.size):
            h[i] = a[i]


@inline
def choose(row, u, temperature, top_k, top_p, banned, y_hat):
    """The token at u on the line on which each token's stretch is its probability; temperature 0: the likeliest."""
    Y = row.size
    for j in range(Y):
        y_hat[j] = row[j]
    for j in range(banned.size):
        y_hat[banned[j]] = -np.inf
    best = 0
    for j in range(1, Y):
        if y_hat[j] > y_hat[best]:
            best = j
    if temperature == 0:
        return best
    top, sharpness = y_hat[best], 1 / temperature
    cut = top_k < Y or top_p < 1
    order = np.argsort(-y_hat, kind="mergesort") if cut else banned[:0]  # of logits: exp makes ties
    for j in range(Y):
        y_hat[j] = exp((y_hat[j] - top) * sharpness)
    total = sum_of(y_hat)
    if cut:
        reached, keep, goal = 0.0, 0, top_p * (1 - 1e-12) * total
        while keep < top_k and (keep == 0 or reached < goal):
            reached += y_hat[order[keep]]
            keep += 1
        for j in range(keep, Y):
            y_hat[order[j]] = 0
        total = sum_of(y_hat)
    goal, reached, last = u * total, 0.0, best
    for j in range(Y):
        if y_hat[j] > 0:
            last = j
            reached += y_hat[j]
            if reached > goal:
                break
    return last


@kernel
def write_tokens(
    p, V, state, o, uniforms, out, temperature, top_k, top_p, banned, forward, inner, head, code, below, edge, y_hat
):
    """out[s, i], the tokens of all sequences; o (B, Y) holds the logits before the first, and after the last one."""
    L, B, H = state.shape
    at, _ = layer_at(L, V, H)
    Y = o.shape[1]
    b_y = p[at + H * Y :]
    for s in range(out.shape[0]):
        tokens = out[s]
        for i in range(B):
            tokens[i] = choose(o[i], uniforms[s, i], temperature[i], top_k[i], top_p[i], banned, y_hat)
        next_states(p, tokens, V, state, below, forward, inner, code, edge)
        # o[t] = h[t+1] @ W_hy + b_y
        fill_rows(b_y, o)
        add_product(state[L - 1].reshape(-1), 0, B, head, H, Y, o.reshape(-1), 0, edge)
