"""Mean and max pooling of states over time, from h (T, B, H) to one vector for each row, without its padding.

Pooling by the last state needs no function: past its length a row's state is carried, so it is h[-1] for each row.
A row of length 0 has no steps: its vector is 0, and so is its gradient.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from elman.maths.arrays import Array


class Pooled(NamedTuple):
    """Pooled states, and what the backward pass needs."""

    vector: Array  # (B, H)
    places: Array | None  # (B, H), the step of the maximum; None for the mean


def mean_forward(h: Array, lengths: Array | None) -> Pooled:
    T = len(h)
    if lengths is None:
        return Pooled(h.mean(axis=0), None)
    # mean = Σ over the row's valid steps / their number
    valid = np.arange(T)[:, np.newaxis] < lengths  # (T, B)
    total = np.einsum("tbh,tb->bh", h, valid.astype(h.dtype))  # (B, H)
    return Pooled(total / np.maximum(lengths, 1)[:, np.newaxis].astype(h.dtype), None)


def mean_backward(d_vector: Array, T: int, lengths: Array | None) -> Array:
    # each valid step receives d_vector / the number of valid steps
    if lengths is None:
        return np.broadcast_to(d_vector / T, (T, *d_vector.shape)).copy()  # (T, B, H)
    valid = (np.arange(T)[:, np.newaxis] < lengths).astype(d_vector.dtype)  # (T, B)
    share = d_vector / np.maximum(lengths, 1)[:, np.newaxis].astype(d_vector.dtype)  # (B, H)
    return np.asarray(valid[:, :, np.newaxis] * share)  # (T, B, H)


def max_forward(h: Array, lengths: Array | None) -> Pooled:
    T, B, _ = h.shape
    # max over the row's valid steps; of equal ones the first
    valid = np.ones((T, B), bool) if lengths is None else np.arange(T)[:, np.newaxis] < lengths  # (T, B)
    places = np.where(valid[:, :, np.newaxis], h, -np.inf).argmax(axis=0)  # (B, H)
    vector = np.take_along_axis(h, places[np.newaxis], axis=0)[0]  # (B, H)
    if lengths is not None:
        vector[lengths == 0] = 0
    return Pooled(vector, places)


def max_backward(d_vector: Array, T: int, lengths: Array | None, places: Array) -> Array:
    # the step of the maximum receives all of d_vector
    d_h = np.zeros((T, *d_vector.shape), d_vector.dtype)  # (T, B, H)
    has_steps = 1 if lengths is None else (lengths > 0).astype(d_vector.dtype)[:, np.newaxis]
    np.put_along_axis(d_h, places[np.newaxis], (d_vector * has_steps)[np.newaxis], axis=0)
    return d_h
