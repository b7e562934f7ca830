"""rnn_forward and rnn_backward, compiled: same names, arguments and results as in maths/cell.py."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any, TypeGuard

import numpy as np

from elman.kernels.compile import FLOATS, kernel
from elman.kernels.elementwise import CODES
from elman.kernels.layers import scatter
from elman.kernels.product import add_product, pack, pack_transposed, packed_size, panel_width
from elman.kernels.steps import backward_steps, column_sums, fill_rows, forward_steps, gather
from elman.maths import cell as reference
from elman.maths.activations import ActivationLike
from elman.maths.arrays import Array
from elman.maths.cell import RNNGradients
from elman.maths.layers import input_backward
from elman.maths.truncation import truncated_backward as truncate

_said: set[object] = set()


def compiled_for(activation: ActivationLike, dtype: np.dtype[Any]) -> TypeGuard[str]:
    """Whether kernels can do it; a user's own activation runs in NumPy instead, and that is said once."""
    if isinstance(activation, str):
        return activation in CODES and dtype in FLOATS
    if activation not in _said:
        _said.add(activation)
        warnings.warn("an activation of your own is not compiled: it runs in NumPy, several times slower", stacklevel=4)
    return False


@kernel
def _forward(ids, x, W_xh, W_hh, b_h, h, lengths, reverse, h_mask, code, packed, packed_x, edge, scratch):
    T, B, H = h.shape[0] - 1, h.shape[1], h.shape[2]
    states = h[1:].reshape(T * B, H)
    if not packed_x.size:
        gather(ids, W_xh, b_h, states)
    else:
        pack(W_xh, packed_x)
        fill_rows(b_h, states)
        add_product(x.reshape(-1), 0, T * B, packed_x, W_xh.shape[0], H, states.reshape(-1), 0, edge)
    pack(W_hh, packed)
    forward_steps(h, packed, code, lengths, reverse, h_mask, scratch, edge)


@kernel
def _backward(d, h, W_hh, lengths, reverse, h_mask, code, packed, edge, d_next, carried, d_b_h):
    pack_transposed(W_hh, packed)
    backward_steps(d, h, packed, code, lengths, reverse, h_mask, d_next, carried, edge)
    column_sums(d.reshape(-1, d.shape[2]), d_b_h)


def rnn_forward(
    x: Array,
    h0: Array | None,
    W_xh: Array,
    W_hh: Array,
    b_h: Array,
    *,
    activation: ActivationLike = "tanh",
    lengths: Array | None = None,
    reverse: bool = False,
    h_mask: Array | None = None,
    out: Array | None = None,
) -> Array:
    if not compiled_for(activation, W_hh.dtype):
        options = {"lengths": lengths, "reverse": reverse, "h_mask": h_mask, "out": out}
        return reference.rnn_forward(x, h0, W_xh, W_hh, b_h, activation=activation, **options)  # type: ignore[arg-type]
    (T, B), (X, H), dtype = x.shape[:2], W_xh.shape, W_hh.dtype
    h = out if out is not None and _usable(out, dtype) else np.empty((T + 1, B, H), dtype)
    h[0] = 0 if h0 is None else h0
    empty = partial(np.empty, dtype=dtype)
    ids, dense = (_ids(x), empty((0, 0))) if x.ndim == 2 else (_ids(x[:0, :0]), _floats(x.reshape(T * B, X), dtype))
    itemsize = dtype.itemsize
    packed_x = empty(packed_size(X, H, itemsize) if x.ndim == 3 else 0)
    edge = empty((T * B if x.ndim == 3 else B) * panel_width(itemsize))
    _forward(
        ids, dense, _floats(W_xh, dtype), _floats(W_hh, dtype), _floats(b_h, dtype), h, _lengths(lengths), reverse,
        _mask(h_mask, dtype), CODES[activation], empty(packed_size(H, H, itemsize)), packed_x, edge, empty(B * H),
    )  # fmt: skip
    if out is not None and out is not h:
        out[...] = h
        return out
    return h


def rnn_backward(
    d_h_direct: Array,
    x: Array,
    h: Array,
    W_xh: Array,
    W_hh: Array,
    *,
    activation: ActivationLike = "tanh",
    lengths: Array | None = None,
    reverse: bool = False,
    h_mask: Array | None = None,
    out: RNNGradients | None = None,
) -> RNNGradients:
    if not compiled_for(activation, W_hh.dtype):
        options = {"lengths": lengths, "reverse": reverse, "h_mask": h_mask, "out": out}
        return reference.rnn_backward(d_h_direct, x, h, W_xh, W_hh, activation=activation, **options)  # type: ignore[arg-type]
    (T, B, H), dtype = d_h_direct.shape, W_hh.dtype
    out = RNNGradients.zeros(x, W_xh) if out is None else out
    d_a = np.array(d_h_direct, dtype, order="C")
    h = _floats(h, dtype)
    empty = partial(np.empty, dtype=dtype)
    d_next, carried, d_b_h = empty(B * H), empty(B * H if lengths is not None else 0), np.zeros(H, dtype)
    _backward(
        d_a, h, _floats(W_hh, dtype), _lengths(lengths), reverse, _mask(h_mask, dtype), CODES[activation],
        empty(packed_size(H, H, dtype.itemsize)), empty(B * panel_width(dtype.itemsize)), d_next, carried, d_b_h,
    )  # fmt: skip
    out.d_b_h[...] += d_b_h
    rows = d_a.reshape(T * B, H)
    before = np.concatenate([h[2:], h[:1]]) if reverse else h[:-1]
    if h_mask is not None:
        before = before * h_mask
    # the large products are BLAS's, here as in maths
    out.d_W_hh[...] += before.reshape(T * B, H).T @ rows
    if x.ndim == 2:
        scatter(_ids(x), rows, out.d_W_xh)
    else:
        input_backward(d_a, x, W_xh, d_W_xh=out.d_W_xh, d_x=out.d_x)
    out.d_h0[...] += d_next.reshape(B, H)
    return out


truncated_backward = partial(truncate, full_backward=rnn_backward)


def _ids(x: Array) -> Array:
    return np.ascontiguousarray(x, np.int64).reshape(-1)


def _floats(x: Array, dtype: np.dtype[Any]) -> Array:
    return np.ascontiguousarray(x, dtype)  # the tile reads all its arrays as numbers of one size


def _usable(out: Array, dtype: np.dtype[Any]) -> bool:
    return out.flags.c_contiguous and out.dtype == dtype


def _lengths(lengths: Array | None) -> Array:
    return np.empty(0, np.int64) if lengths is None else np.ascontiguousarray(lengths, np.int64)


def _mask(h_mask: Array | None, dtype: np.dtype[Any]) -> Array:
    return np.empty(0, dtype) if h_mask is None else _floats(h_mask, dtype).reshape(-1)
