"""Parts of kernels: the time loop of maths/recurrence.py, forward and backward, for every cell; the loss of logits.

`step` is what a cell does entry by entry, and `option` the number of its activation (kernels/cells). `packed` weights
and the scratch array `edge` are those of a product (kernels/product.py). `lengths` and `h_mask` of size 0 mean that
there are none. Arrays are contiguous. N = G·H is the number of columns of W_xh and W_hh, A that of the array a of a
cell, which may be larger (CellKernels in kernels/cells). Rows that take a step are computed in runs of neighbors: if
the rows are sorted by length, longest first, there is one run.
"""

from __future__ import annotations

import numpy as np

from elman.kernels.compile import inline
from elman.kernels.product import add_strided_product, copy
from elman.kernels.vectors import exp, pointwise

AHEAD = 128  # rows of an input product: enough for the tile, and few enough to stay in the cache


@inline
def gather(ids, W, b, out):
    # x[t] @ W_xh + b_h, where a token id stands for its one-hot row; columns of out before those of W get b alone
    first = out.shape[1] - W.shape[1]
    bias = b[first:]
    for i in range(ids.size):
        row, to = W[ids[i]], out[i, first:]
        copy(b, out[i], first)
        for j in range(row.size):
            to[j] = row[j] + bias[j]


@inline
def scatter_add(ids, d, d_W):
    # d_W_xh = Σ one-hot column @ d_a
    first = d.shape[1] - d_W.shape[1]
    for i in range(ids.size):
        row, to = d[i, first:], d_W[ids[i]]
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
def run_from(lengths, t, start, B):
    """The next rows, from `start` on, that take step t: the first of them, and the one after the last."""
    if not lengths.size:
        return start, B
    while start < B and t >= lengths[start]:
        start += 1
    stop = start
    while stop < B and t < lengths[stop]:
        stop += 1
    return start, stop


@inline
def input_products(ids, x, W_xh, bias, packed_x, a, begin, end, edge):
    """a_x[t] = x[t] @ W_xh + b_h of the steps from begin to end, in the last N columns of a (T, B, A).

    The columns before them get their bias.
    """
    _, B, A = a.shape
    N, rows = W_xh.shape[1], (end - begin) * B
    to = a[begin:end].reshape(rows, A)
    if packed_x.size:
        X = x.shape[1]
        fill_rows(bias, to)
        add_strided_product(x.reshape(-1), begin * B * X, X, rows, packed_x, X, N, to.reshape(-1), A - N, A, edge)
    else:
        gather(ids[begin * B : end * B], W_xh, bias, to)


@inline
def forward_layer(
    step, option, ids, x, W_xh, bias, s, a, packed_x, packed, lengths, reverse, h_mask, scratch, edge
):  # fmt: skip
    """A whole layer in one direction. s[:, 0] is the initial state; s[:, 1:] become the states.

    The input product of a few steps is computed just before them, so that a, (T, B, A), is still in the cache. The
    recurrent product is added to its first N columns, and a step leaves in a what its backward pass needs besides the
    states. For a vanilla cell that is nothing, and its a is s[0, 1:].
    """
    P, T, B, H = s.shape[0], s.shape[1] - 1, s.shape[2], s.shape[3]
    A, N = a.shape[2], W_xh.shape[1]
    ahead = max(AHEAD // max(B, 1), 1)
    size, stride = B * H, (T + 1) * B * H  # of a state, and from one state part to the next
    flat, sums, mask = s.reshape(-1), a.reshape(-1), h_mask.reshape(-1)
    for k in range(T):
        t = T - 1 - k if reverse else k
        if k % ahead == 0:
            begin, end = (max(T - k - ahead, 0), T - k) if reverse else (k, min(k + ahead, T))
            input_products(ids, x, W_xh, bias, packed_x, a, begin, end, edge)
        before = (t if not reverse else (t + 2 if t < T - 1 else 0)) * size
        after = (t + 1) * size
        if lengths.size:  # past its length a row keeps its state
            for i in range(B):
                if t >= lengths[i]:
                    for part in range(P):
                        at = part * stride + i * H
                        copy(flat[at + before :], flat[at + after :], H)
        start, stop = run_from(lengths, t, 0, B)
        while start < stop:
            rows, at = stop - start, start * H
            h, h_at = flat, before + at
            if mask.size:
                given, kept = flat[h_at : h_at + rows * H], mask[at : at + rows * H]
                for i in range(rows * H):
                    scratch[i] = given[i] * kept[i]
                h, h_at = scratch, 0
            to = (t * B + start) * A
            # a_h[t] = h[t] @ W_hh
            add_strided_product(h, h_at, H, rows, packed, H, N, sums, to, A, edge)
            step(option, sums, to, flat, before + at, after + at, stride, rows, H)
            start, stop = run_from(lengths, t, stop, B)


@inline
def backward_layer(
    step, option, N, d, a, d_s, s, packed, lengths, reverse, h_mask, scratch, edge, initial, d_bias, ids, d_W_xh
):  # fmt: skip
    """d (T, B, H) holds the direct gradients on h and is overwritten. a (T, B, A) holds what the forward pass left, and
    becomes the gradients on the two products: on the recurrent product in its first N columns, on the input product in
    its last N. For a vanilla cell a and d are one array.

    d_s (P, B, H) holds the gradient on the last state, and becomes that on the initial one; without `initial` its first
    part, d_h[0], lacks the term through W_hh. d_bias becomes the sum of a over steps and rows. d_W_xh, unless it is
    empty, becomes the gradient of W_xh for token ids. The caller computes the products over all steps.
    """
    d_bias[:] = 0
    d_W_xh[:] = 0
    T, B, H = d.shape
    A = a.shape[2]
    size, stride = B * H, (T + 1) * B * H
    states, sums, mask = s.reshape(-1), a.reshape(-1), h_mask.reshape(-1)
    direct, flat_d_s = d.reshape(-1), d_s.reshape(-1)
    if T == 0:
        return
    last = direct[(0 if reverse else T - 1) * size :]
    for i in range(size):
        last[i] += flat_d_s[i]
        flat_d_s[i] = 0
    for k in range(T):
        t = k if reverse else T - 1 - k
        before = (t if not reverse else (t + 2 if t < T - 1 else 0)) * size
        after, here = (t + 1) * size, t * size
        # what this step sends back to the state before it is added to the direct gradient on that state, which the next
        # iteration reads
        target = flat_d_s[:size] if k == T - 1 else direct[(t + 1 if reverse else t - 1) * size :]
        if lengths.size:  # past its length a row passes its gradient on unchanged
            for i in range(B):
                if t >= lengths[i]:
                    row, to = direct[here + i * H :], target[i * H :]
                    for j in range(H):
                        to[j] += row[j]
                    sums[(t * B + i) * A : (t * B + i + 1) * A] = 0
        start, stop = run_from(lengths, t, 0, B)
        while start < stop:
            rows, at, first = stop - start, start * H, (t * B + start) * A
            step(
                option, sums, first, direct, here + at, flat_d_s, at, size, states, before + at, after + at, stride,
                target, at, rows, H,
            )  # fmt: skip
            # the part of d_h[t] that goes through W_hh: d_a_h[t] @ W_hh.T
            if k < T - 1 or initial:
                if mask.size:
                    scratch[: rows * H] = 0
                    add_strided_product(sums, first, A, rows, packed, N, H, scratch, 0, H, edge)
                    to, kept = target[at : at + rows * H], mask[at : at + rows * H]
                    for i in range(rows * H):
                        to[i] += scratch[i] * kept[i]
                else:
                    add_strided_product(sums, first, A, rows, packed, N, H, target, at, H, edge)
            start, stop = run_from(lengths, t, stop, B)
        column_sums(a[t], d_bias)  # while a[t] is in the cache
        if d_W_xh.size:
            scatter_add(ids[t * B : (t + 1) * B], a[t], d_W_xh)


_sum, _maximum = (pointwise(lambda x: (x,), name) for name in ("sum", "maximum"))
# the exponential twice: the first is written to the row, the last is not written but summed
_exponentials = pointwise(lambda x, top: (exp(x - top),) * 2, "sum")
_scaled = pointwise(lambda x, factor: (x * factor,))
_scaled_and_added = pointwise(lambda x, total, factor: (x * factor, total + x * factor))


@inline
def sum_of(row):
    return _sum((row,), (0,), (), (), (), row.size)


@inline
def top_of(row):
    """The largest entry; NaN counts as the largest, so that it is seen."""
    return _maximum((row,), (0,), (), (), (), row.size)


@inline
def exponentials(row, top):
    """row becomes exp(row - top); returns the sum of its entries."""
    return _exponentials((row,), (0,), (row,), (0,), (top,), row.size)


@inline
def scale_row(row, factor):
    _scaled((row,), (0,), (row,), (0,), (factor,), row.size)


@inline
def cross_entropy_rows(o, y, weights, scale, sums):
    """The loss of all rows, with targets y as ids; o becomes d_o, which is added to `sums` unless that is empty.

    Each row is finished before the next one, so that it stays in the cache.
    """
    one = o.dtype.type(1)
    loss = 0.0
    for i in range(o.shape[0]):
        row = o[i]
        top = top_of(row)
        target = row[y[i]] - top
        total = exponentials(row, top)
        weight = scale * weights[i] if weights.size else scale
        # L = - Σ weight · y · log y_hat / normalizer
        loss += np.float64(weight) * (np.log(np.float64(total)) - np.float64(target))
        # d_o = weight · (y_hat - y) / normalizer
        factor = weight * (one / total)
        if sums.size:
            _scaled_and_added((row, sums), (0, 0), (row, sums), (0, 0), (factor,), row.size)
            sums[y[i]] -= weight
        else:
            scale_row(row, factor)
        row[y[i]] -= weight
    return loss
