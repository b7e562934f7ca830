"""Softmax and the losses, compiled: same names, arguments and results as in maths/loss.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from elman.kernels.compile import FLOATS, allocating_kernel, kernel
from elman.kernels.steps import cross_entropy_rows, exponentials, scale_row, top_of
from elman.maths import loss as reference
from elman.maths.arrays import Array


@kernel
def _softmax(o):
    for i in range(o.shape[0]):
        row = o[i]
        # y_hat = exp(o) / Σ exp(o), the same for o - max(o), which cannot overflow
        scale_row(row, o.dtype.type(1) / exponentials(row, top_of(row)))


@kernel
def _softmax_backward(d, y_hat):
    # d_o = y_hat ⊙ (d_y_hat - Σ d_y_hat · y_hat)
    for i in range(d.shape[0]):
        inner = d.dtype.type(0)
        for j in range(d.shape[1]):
            inner += d[i, j] * y_hat[i, j]
        for j in range(d.shape[1]):
            d[i, j] = y_hat[i, j] * (d[i, j] - inner)


@kernel
def _cross_entropy(o, y, weights, scale):
    return cross_entropy_rows(o, y, weights, scale, o.reshape(-1)[:0])


@kernel
def _cross_entropy_of_distributions(o, y, weights, scale):
    loss = 0.0
    for i in range(o.shape[0]):
        row, top = o[i], top_of(o[i])
        sum_y = sum_y_o = 0.0
        for j in range(row.size):
            sum_y += np.float64(y[i, j])
            sum_y_o += np.float64(y[i, j]) * np.float64(row[j] - top)
        total = exponentials(row, top)
        weight = scale * weights[i] if weights.size else scale
        # L = - Σ weight · y · log y_hat / normalizer
        loss += np.float64(weight) * (sum_y * np.log(np.float64(total)) - sum_y_o)
        # d_o = weight · (y_hat - y) / normalizer
        for j in range(row.size):
            row[j] = weight * (row[j] / total - y[i, j])
    return loss


@allocating_kernel
def _surprise(o, y, losses):
    row = np.empty(o.shape[1], o.dtype)
    for i in range(o.shape[0]):
        for j in range(row.size):
            row[j] = o[i, j]
        top = top_of(row)
        target = row[y[i]] - top
        # -log y_hat[y] = log Σ exp(o) - o[y], shifted by max(o)
        losses[i] = np.log(np.float64(exponentials(row, top))) - np.float64(target)


@kernel
def _squared(d, y, weights, scale):
    loss = 0.0
    for i in range(d.shape[0]):
        weight = scale * weights[i] if weights.size else scale
        for j in range(d.shape[1]):
            difference = d[i, j] - y[i, j]
            # L = Σ weight · (o - y)² / normalizer,  d_o = 2 · weight · (o - y) / normalizer
            loss += np.float64(weight) * np.float64(difference) * np.float64(difference)
            d[i, j] = (weight + weight) * difference
    return loss


def softmax(o: Array, *, out: Array | None = None) -> Array:
    if not _fits(o, out) or o.shape[-1] == 0:
        return reference.softmax(o, out=out)
    y_hat = _copy_of(o, out)
    _softmax(_rows(y_hat))
    return _in_out(y_hat, out)


def softmax_backward(d_y_hat: Array, y_hat: Array) -> Array:
    if not _fits(y_hat, d_y_hat) or d_y_hat.dtype != y_hat.dtype:
        return reference.softmax_backward(d_y_hat, y_hat)
    d_o = np.array(d_y_hat, order="C")
    _softmax_backward(_rows(d_o), _rows(np.ascontiguousarray(y_hat)))
    return d_o


def cross_entropy(
    o: Array, y: Array, *, weights: Array | None = None, normalizer: float | None = None, out: Array | None = None
) -> tuple[float, Array]:
    if not _fits(o, out) or y.shape not in (o.shape, o.shape[:-1]):
        return reference.cross_entropy(o, y, weights=weights, normalizer=normalizer, out=out)
    d_o, row_weights, scale = _copy_of(o, out), _weights(weights, o), _scale(normalizer, o.dtype)
    if y.ndim == o.ndim:
        targets = _rows(np.ascontiguousarray(y, o.dtype))
        value = _cross_entropy_of_distributions(_rows(d_o), targets, row_weights, scale)
    else:
        value = _cross_entropy(_rows(d_o), np.ascontiguousarray(y, np.int64).reshape(-1), row_weights, scale)
    return value, _in_out(d_o, out)


def surprise(o: Array, y: Array) -> Array:
    if not _fits(o) or y.shape != o.shape[:-1]:
        return reference.surprise(o, y)
    losses = np.empty(y.shape)
    _surprise(_rows(np.ascontiguousarray(o)), np.ascontiguousarray(y, np.int64).reshape(-1), losses.reshape(-1))
    return losses


def mean_squared_error(
    o: Array, y: Array, *, weights: Array | None = None, normalizer: float | None = None, out: Array | None = None
) -> tuple[float, Array]:
    if not _fits(o, out) or y.shape != o.shape:
        return reference.mean_squared_error(o, y, weights=weights, normalizer=normalizer, out=out)
    d_o = _copy_of(o, out)
    targets = _rows(np.ascontiguousarray(y, o.dtype))
    value = _squared(_rows(d_o), targets, _weights(weights, o), _scale(normalizer, o.dtype))
    return value, _in_out(d_o, out)


def _fits(o: Array, other: Array | None = None) -> bool:
    """Whether a kernel can be used: kernels check no shapes, so arrays that NumPy would broadcast are left to NumPy."""
    return o.dtype in FLOATS and (other is None or other.shape == o.shape)


def _copy_of(o: Array, out: Array | None) -> Array:
    """o as a contiguous array that a kernel may overwrite: copied to `out` if that is contiguous and has the dtype of o
    (if `out` is o, it is o itself), else to a new array."""
    result = out if out is not None and out.flags.c_contiguous and out.dtype == o.dtype else np.empty(o.shape, o.dtype)
    if result is not o:
        result[...] = o
    return result


def _in_out(result: Array, out: Array | None) -> Array:
    """The result; in `out` if that is given."""
    if out is None or out is result:
        return result
    out[...] = result
    return out


def _rows(o: Array) -> Array:
    return o.reshape(-1, o.shape[-1])


def _weights(weights: Array | None, o: Array) -> Array:
    if weights is None:
        return np.empty(0, o.dtype)
    return np.ascontiguousarray(np.broadcast_to(weights, o.shape[:-1]), o.dtype).reshape(-1)


def _scale(normalizer: float | None, dtype: np.dtype[Any]) -> Any:
    return dtype.type(1 / (1.0 if normalizer is None else normalizer))
