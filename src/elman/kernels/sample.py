"""Sampling, compiled: token after token for any number of sequences; a product computes all of them together.

A sequence has a temperature, top_k and top_p of its own. Its tokens depend on these, its state and its random numbers
only: the result of a row does not depend on other rows, so a sample is the same alone or in a batch.
"""

from __future__ import annotations

import numpy as np

from elman.kernels.compile import allocating_kernel, inline
from elman.kernels.product import add_product, copy, packed_size_of
from elman.kernels.steps import fill_rows, forward_layer, sum_of, top_of
from elman.kernels.vectors import exp, pointwise

# the exponential twice: the first is written to the row, the last is not written but summed
_exponentials = pointwise(lambda x, top, sharpness: (exp((x - top) * sharpness),) * 2, "sum")


@allocating_kernel
def sort(y_hat, order):
    """order becomes the ids of all tokens, the most probable first; of equally probable ones the smaller id first."""
    order[:] = np.argsort(-y_hat, kind="mergesort")


@inline
def choose(row, u, temperature, top_k, top_p, banned, y_hat, order):
    """The token at which the cumulative probability exceeds u; at temperature 0 the most probable token."""
    Y = y_hat.size
    for j in range(Y):
        y_hat[j] = row[j]
    for j in range(banned.size):
        y_hat[banned[j]] = -np.inf
    top, sharpness = top_of(y_hat), 1 / temperature
    # the smallest temperatures above 0 have no finite inverse; beside an infinite logit all others are impossible
    if temperature == 0 or sharpness == np.inf or top == np.inf:
        for j in range(Y):
            if y_hat[j] == top:
                return j
        return 0
    cut = top_k < Y or top_p < 1
    # sorted by logit, not by probability: exp rounds different logits to equal values
    if cut:
        sort(y_hat, order)
    total = _exponentials((y_hat,), (0,), (y_hat,), (0,), (top, sharpness), Y)
    if cut:
        reached, keep, goal = 0.0, 0, top_p * (1 - 1e-12) * total  # 1e-12: for rounding in the cumulative sum
        while keep < top_k and (keep == 0 or reached < goal):
            reached += y_hat[order[keep]]
            keep += 1
        for j in range(keep, Y):
            y_hat[order[j]] = 0
        total = sum_of(y_hat)
    goal, reached, last = u * total, 0.0, 0
    for j in range(Y):
        if y_hat[j] > 0:
            last = j
            reached += y_hat[j]
            if reached > goal:
                break
    return last


@inline
def sample_tokens(
    step, in_place, option, p, table, s, a, o, b_y, uniforms, out, temperature, top_k, top_p, banned, packed, head, x,
    scratch, edge, y_hat, order,
):  # fmt: skip
    """out[n, i], the tokens of all sequences; o holds the logits before the first, and after the last one.

    s (L, P, 2, B, H) holds P state parts of each layer: [:, :, 0] before a step and [:, :, 1] after it. A row of table,
    one for each layer, has X, N and where the layer's numbers begin: W_xh in p; biases, packed W_xh (-1: inputs are
    token ids) and packed W_hh in packed. The last row has the width of an embedding (0: none) and where it begins in p.

    uniforms (n, B): random numbers from 0 to 1    banned: ids that are never drawn
    step: one step of the cell, entry by entry (kernels/cells)    option: the number of its activation
    in_place: whether the pre-activations are computed in the memory of the next state
    a (1, B, A): memory of the pre-activations otherwise
    N: G·H, the columns of W_xh and W_hh    A: N, in a GRU N + H (see `gated` in kernels/cells)
    head: packed W_hy    b_y and the rows of o have whole vectors of entries, of which the first Y count
    x (B, E): memory for the embeddings of the tokens
    scratch, edge: memory of forward_layer and of the products    y_hat, order (Y,): memory of choose
    """
    L, P, B, H = s.shape[0], s.shape[1], s.shape[3], s.shape[4]
    A, E = a.shape[2], table[L, 0]
    no_lengths, none = banned[:0], p[:0]
    for n in range(out.shape[0]):
        tokens = out[n]
        for i in range(B):
            tokens[i] = choose(o[i], uniforms[n, i], temperature[i], top_k[i], top_p[i], banned, y_hat, order)
        if E:
            for i in range(B):
                copy(p[table[L, 1] + tokens[i] * E :], x[i], E)
        for layer in range(L):
            X, N, at_x, at_b, at_packed_x, at_packed = table[layer]
            below = s[layer - 1, 0, 1] if layer else x
            size = packed_size_of(X, N, packed)
            inner = packed[at_packed_x : at_packed_x + size] if at_packed_x >= 0 else packed[:0]
            sums = s[layer, 0, 1:] if in_place else a
            forward_layer(
                step, option, tokens, below, p[at_x : at_x + X * N].reshape(X, N), packed[at_b : at_b + A], s[layer],
                sums, inner, packed[at_packed : at_packed + packed_size_of(H, N, packed)], no_lengths, False, none,
                scratch, edge,
            )  # fmt: skip
        # o[t] = h[t+1] @ W_hy + b_y
        fill_rows(b_y, o)
        add_product(s[L - 1, 0, 1].reshape(-1), 0, B, head, H, b_y.size, o.reshape(-1), 0, edge)
        for layer in range(L):
            for part in range(P):
                copy(s[layer, part, 1].reshape(-1), s[layer, part, 0].reshape(-1), B * H)
