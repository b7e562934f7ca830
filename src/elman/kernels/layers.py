"""The output layer and the embedding, compiled where that is more than a call of BLAS."""

from __future__ import annotations

import numpy as np

from elman.kernels.compile import FLOATS, kernel
from elman.kernels.product import add_product, pack, packed_size, panel_width
from elman.kernels.steps import fill_rows, scatter_add
from elman.maths import layers
from elman.maths.arrays import Array


@kernel
def _output(h, W_hy, b_y, o, packed, edge):
    pack(W_hy, packed)
    fill_rows(b_y, o)
    add_product(h.reshape(-1), 0, h.shape[0], packed, h.shape[1], o.shape[1], o.reshape(-1), 0, edge)


@kernel
def scatter(ids, d, d_W):
    scatter_add(ids, d, d_W)


def output_forward(h: Array, W_hy: Array, b_y: Array, *, out: Array | None = None) -> Array:
    if W_hy.dtype not in FLOATS:
        return layers.output_forward(h, W_hy, b_y, out=out)
    H, Y = W_hy.shape
    rows = np.ascontiguousarray(h, W_hy.dtype).reshape(-1, H)
    usable = out is not None and out.flags.c_contiguous and out.dtype == W_hy.dtype
    o = out if out is not None and usable else np.empty((*h.shape[:-1], Y), W_hy.dtype)
    size = W_hy.dtype.itemsize
    packed, edge = np.empty(packed_size(H, Y, size), W_hy.dtype), np.empty(len(rows) * panel_width(size), W_hy.dtype)
    _output(rows, np.ascontiguousarray(W_hy), np.ascontiguousarray(b_y, W_hy.dtype), o.reshape(-1, Y), packed, edge)
    if out is not None and out is not o:
        out[...] = o
        return out
    return o


output_backward = layers.output_backward  # three products of BLAS
embedding_forward = layers.embedding_forward  # a copy of rows


def embedding_backward(d_x: Array, ids: Array, W: Array, *, out: Array | None = None) -> Array:
    d_W = np.zeros_like(W) if out is None else out
    if W.dtype not in FLOATS or not d_W.flags.c_contiguous:
        return layers.embedding_backward(d_x, ids, W, out=d_W)
    scatter(np.ascontiguousarray(ids, np.int64).reshape(-1), np.ascontiguousarray(d_x).reshape(-1, W.shape[1]), d_W)
    return d_W
