"""The output layer and the embedding, compiled."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from elman.kernels.compile import CHUNK, FLOATS, VECTOR_BYTES, kernel
from elman.kernels.gradient_product import weight_gradient
from elman.kernels.product import (
    add_product,
    edge_size,
    pack,
    pack_panels,
    pack_transposed_panels,
    packed_array,
    panel_width,
    row_products,
)
from elman.kernels.recurrence import scatter
from elman.kernels.reference import ReferenceOutput, Workspace
from elman.kernels.steps import cross_entropy_rows, fill_rows
from elman.kernels.threads import run
from elman.maths import layers
from elman.maths.arrays import Array

BLOCK = 1 << 18  # entries of o or of h in a block of rows: 1 MB in float32


@kernel
def _output(h, W_hy, b_y, o, packed, edge):
    pack(W_hy, packed)
    fill_rows(b_y, o)
    add_product(h.reshape(-1), 0, h.shape[0], packed, h.shape[1], o.shape[1], o.reshape(-1), 0, edge)


@kernel
def _pack(W, packed, begin, end, transposed, begin_transposed, end_transposed):
    """Some panels of W and of W.T."""
    pack_panels(W, packed, 0, begin, end)
    pack_transposed_panels(W, transposed, 0, begin_transposed, end_transposed)


@kernel
def _logits(h, packed, b_y, o, edge):
    # o[t] = h[t+1] @ W_hy + b_y
    fill_rows(b_y, o)
    add_product(h.reshape(-1), 0, h.shape[0], packed, h.shape[1], o.shape[1], o.reshape(-1), 0, edge)


@kernel
def _logits_and_loss(h, packed, b_y, o, edge, y, weights, scale, d_b_y):
    """The loss; o becomes d_o, and d_b_y its sum over rows. Logits are computed by blocks of rows, which stay in the
    cache."""
    (rows, H), Y = h.shape, o.shape[1]
    block = max(BLOCK // max(Y, H), 112)  # rows: 112 is a multiple of both heights of the tile on AVX-512, 14 and 8
    loss = 0.0
    d_b_y[:] = 0
    for start in range(0, rows, block):
        stop = min(start + block, rows)
        part = o[start:stop]
        fill_rows(b_y, part)
        add_product(h.reshape(-1), start * H, stop - start, packed, H, Y, part.reshape(-1), 0, edge)
        loss += cross_entropy_rows(part, y[start:stop], weights[start:stop], scale, d_b_y)
    return loss


class CompiledOutput(ReferenceOutput):
    """ReferenceOutput, compiled: W_hy is packed once for many passes."""

    def __init__(self, H: int, Y: int, dtype: np.dtype[Any]) -> None:
        super().__init__(H, Y)
        self.dtype, lanes = dtype, VECTOR_BYTES // dtype.itemsize
        self.packed = packed_array(H, Y, dtype)
        self.transposed = packed_array(Y, H, dtype)
        self.bias = np.full(-(-Y // lanes) * lanes, -np.inf, dtype)  # exp(-inf) = 0 in the columns beyond Y
        self.no_weights = np.empty(0, dtype)
        width = panel_width(dtype.itemsize)
        self.panels = -(-Y // width), -(-H // width)  # of W_hy and of W_hy.T
        # how many of each one call of _pack packs
        self.panels_per_task = max(CHUNK // max(H * width, 1), 1), max(CHUNK // max(Y * width, 1), 1)

    def pack(self, p: Mapping[str, Array]) -> None:
        super().pack(p)
        self.bias[: self.Y] = self.b_y
        (n, n_transposed), (step, step_transposed) = self.panels, self.panels_per_task
        if n <= step and n_transposed <= step_transposed:
            _pack(self.W_hy, self.packed, 0, n, self.transposed, 0, n_transposed)
            return
        starts = range(0, n_transposed, step_transposed)
        parts = [(0, 0, start, min(start + step_transposed, n_transposed)) for start in starts]
        parts += [(start, min(start + step, n), 0, 0) for start in range(0, n, step)]
        run([partial(_pack, self.W_hy, self.packed, *part[:2], self.transposed, *part[2:]) for part in parts])

    def forward(self, h: Array, work: Workspace | None = None) -> Array:
        rows = np.ascontiguousarray(h, self.dtype).reshape(-1, self.H)
        work = Workspace(self.dtype) if work is None else work
        o, edge = work.array("o", len(rows), self.Y), self._edge(work, len(rows))
        _logits(rows, self.packed, self.b_y, o, edge)
        return o.reshape(*h.shape[:-1], self.Y)

    def loss(
        self,
        h: Array,
        y: Array,
        kind: str,
        *,
        weights: Array | None,
        normalizer: float,
        d_b_y: Array,
        work: Workspace | None = None,
    ) -> tuple[float, Array]:
        if kind != "cross_entropy" or y.ndim == h.ndim:
            return super().loss(h, y, kind, weights=weights, normalizer=normalizer, d_b_y=d_b_y, work=work)
        rows = h.reshape(-1, self.H)
        work = Workspace(self.dtype) if work is None else work
        d_o, sums, edge = work.once(("output", len(rows)), lambda: self._views(work, len(rows)))
        row_weights = self.no_weights if weights is None else np.ascontiguousarray(weights, self.dtype).reshape(-1)
        ids, scale = np.ascontiguousarray(y, np.int64).reshape(-1), self.dtype.type(1 / normalizer)
        value = _logits_and_loss(rows, self.packed, self.bias, d_o, edge, ids, row_weights, scale, sums)
        d_b_y[...] = sums[: self.Y]
        return value, d_o

    def backward(self, d_o: Array, h: Array, d_W_hy: Array, d_h: Array, work: Workspace | None = None) -> None:
        work = Workspace(self.dtype) if work is None else work
        rows = d_o.reshape(-1, d_o.shape[-1])  # Y columns; in the d_o of _logits_and_loss, zeros after them
        # d_W_hy = Σ h[t+1].T @ d_o[t],  direct part of d_h[t+1]: d_o[t] @ W_hy.T
        weight_gradient(h, rows, d_W_hy, work, N=self.Y)
        row_products(
            rows.reshape(-1), 0, rows.shape[1], self.transposed, self.Y, d_h.reshape(-1, self.H),
            self._edge(work, len(rows)), False,
        )  # fmt: skip

    def _views(self, work: Workspace, rows: int) -> tuple[Array, Array, Array]:
        """d_o, its sums over rows, and `edge`, the scratch array of a product (product.py).

        Rows of d_o are as long as the bias, which is whole vectors: this is faster than rows that begin in the middle
        of one. _logits_and_loss makes the columns beyond Y 0, because their bias is -inf.
        """
        return work.array("o", rows, self.bias.size), work.array("d_b_y", self.bias.size), self._edge(work, rows)

    def _edge(self, work: Workspace, rows: int) -> Array:
        return work.array("edge", edge_size(rows, self.dtype.itemsize))


def make_output(H: int, Y: int, dtype: np.dtype[Any]) -> ReferenceOutput:
    """An output layer, compiled if there are kernels for its dtype."""
    return CompiledOutput(H, Y, dtype) if dtype in FLOATS else ReferenceOutput(H, Y)


def output_forward(h: Array, W_hy: Array, b_y: Array, *, out: Array | None = None) -> Array:
    if W_hy.dtype not in FLOATS:
        return layers.output_forward(h, W_hy, b_y, out=out)
    H, Y = W_hy.shape
    rows = np.ascontiguousarray(h, W_hy.dtype).reshape(-1, H)
    usable = out is not None and out.flags.c_contiguous and out.dtype == W_hy.dtype
    o = out if out is not None and usable else np.empty((*h.shape[:-1], Y), W_hy.dtype)
    packed, edge = packed_array(H, Y, W_hy.dtype), np.empty(edge_size(len(rows), W_hy.itemsize), W_hy.dtype)
    _output(rows, np.ascontiguousarray(W_hy), np.ascontiguousarray(b_y, W_hy.dtype), o.reshape(-1, Y), packed, edge)
    if out is not None and out is not o:
        out[...] = o
        return out
    return o


output_backward = layers.output_backward  # two products of BLAS and a sum
embedding_forward = layers.embedding_forward  # a copy of rows


def embedding_backward(d_x: Array, ids: Array, W: Array, *, out: Array | None = None) -> Array:
    d_W = np.zeros_like(W) if out is None else out
    if W.dtype not in FLOATS or not d_W.flags.c_contiguous:
        return layers.embedding_backward(d_x, ids, W, out=d_W)
    scatter(np.ascontiguousarray(ids, np.int64).reshape(-1), np.ascontiguousarray(d_x).reshape(-1, W.shape[1]), d_W)
    return d_W
