"""Pooling over time, compiled: same names, arguments and results as in maths/pooling.py."""

from __future__ import annotations

import numpy as np

from elman.kernels.compile import FLOATS, kernel
from elman.maths import pooling as reference
from elman.maths.arrays import Array
from elman.maths.pooling import Pooled


@kernel
def _mean(h, lengths, vector):
    # mean = Σ over the row's valid steps / their number
    for t in range(h.shape[0]):
        for i in range(h.shape[1]):
            if t < lengths[i]:
                row, to = h[t, i], vector[i]
                for j in range(row.size):
                    to[j] += row[j]
    for i in range(vector.shape[0]):
        steps = vector.dtype.type(max(lengths[i], 1))
        for j in range(vector.shape[1]):
            vector[i, j] /= steps


@kernel
def _mean_backward(d_vector, lengths, d_h):
    # each valid step receives d_vector / the number of valid steps
    for t in range(d_h.shape[0]):
        for i in range(d_h.shape[1]):
            row, to = d_vector[i], d_h[t, i]
            if t < lengths[i]:
                steps = d_h.dtype.type(lengths[i])
                for j in range(to.size):
                    to[j] = row[j] / steps


@kernel
def _max(h, lengths, vector, places):
    # max over the row's valid steps; of equal ones the first, and NaN counts as the largest
    for t in range(h.shape[0]):
        for i in range(h.shape[1]):
            if t < lengths[i]:
                row, best, place = h[t, i], vector[i], places[i]
                for j in range(row.size):
                    if t == 0 or row[j] > best[j] or (row[j] != row[j] and best[j] == best[j]):
                        best[j], place[j] = row[j], t


@kernel
def _max_backward(d_vector, lengths, places, d_h):
    # the step of the maximum receives all of d_vector
    for i in range(d_vector.shape[0]):
        if lengths[i] > 0:
            for j in range(d_vector.shape[1]):
                d_h[places[i, j], i, j] = d_vector[i, j]


def mean_forward(h: Array, lengths: Array | None) -> Pooled:
    if h.dtype not in FLOATS:
        return reference.mean_forward(h, lengths)
    vector = np.zeros(h.shape[1:], h.dtype)  # (B, H)
    _mean(np.ascontiguousarray(h), _lengths(lengths, *h.shape[:2]), vector)
    return Pooled(vector, None)


def mean_backward(d_vector: Array, T: int, lengths: Array | None) -> Array:
    if d_vector.dtype not in FLOATS:
        return reference.mean_backward(d_vector, T, lengths)
    d_h = np.zeros((T, *d_vector.shape), d_vector.dtype)  # (T, B, H)
    _mean_backward(np.ascontiguousarray(d_vector), _lengths(lengths, T, len(d_vector)), d_h)
    return d_h


def max_forward(h: Array, lengths: Array | None) -> Pooled:
    if h.dtype not in FLOATS:
        return reference.max_forward(h, lengths)
    vector, places = np.zeros(h.shape[1:], h.dtype), np.zeros(h.shape[1:], np.int64)  # (B, H) both
    _max(np.ascontiguousarray(h), _lengths(lengths, *h.shape[:2]), vector, places)
    return Pooled(vector, places)


def max_backward(d_vector: Array, T: int, lengths: Array | None, places: Array) -> Array:
    if d_vector.dtype not in FLOATS:
        return reference.max_backward(d_vector, T, lengths, places)
    d_h = np.zeros((T, *d_vector.shape), d_vector.dtype)  # (T, B, H)
    where = np.ascontiguousarray(places, np.int64)
    _max_backward(np.ascontiguousarray(d_vector), _lengths(lengths, T, len(d_vector)), where, d_h)
    return d_h


def _lengths(lengths: Array | None, T: int, B: int) -> Array:
    return np.full(B, T, np.int64) if lengths is None else np.ascontiguousarray(lengths, np.int64)
