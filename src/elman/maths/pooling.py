"""From a sequence to one vector: the mean or the largest entry over the steps that a row has.

The last state needs no function of its own: past its length a row's state is carried, so it stands in the last step.
A row of length 0 has no steps: its vector is 0, and no gradient comes from it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from elman.maths.arrays import Array


class Pooled(NamedTuple):
    vector: Array  # (B, H)
    places: Array | None  # (B, H), of the maximum: the step that won


def mean_forward(h: Array, lengths: Array | None) -> Pooled:
    T = len(h)
    if lengths is None:
        return Pooled(h.mean(axis=0), None)
    # mean = Σ over the row's own steps / their number
    runs = np.arange(T)[:, np.newaxis] < lengths  # (T, B)
    total = np.einsum("tbh,tb->bh", h, runs.astype(h.dtype))  # (B, H)
    return Pooled(total / np.maximum(lengths, 1)[:, np.newaxis].astype(h.dtype), None)


def mean_backward(d_vector: Array, T: int, lengths: Array | None) -> Array:
    # each of the row's own steps gets an equal share
    if lengths is None:
        return np.broadcast_to(d_vector / T, (T, *d_vector.shape)).copy()  # (T, B, H)
    runs = (np.arange(T)[:, np.newaxis] < lengths).astype(d_vector.dtype)  # (T, B)
    share = d_vector / np.maximum(lengths, 1)[:, np.newaxis].astype(d_vector.dtype)  # (B, H)
    return np.asarray(runs[:, :, np.newaxis] * share)  # (T, B, H)


def max_forward(h: Array, lengths: Array | None) -> Pooled:
    T, B, _ = h.shape
    # max over the row's own steps; of equal ones the first
    runs = np.ones((T, B), bool) if lengths is None else np.arange(T)[:, np.newaxis] < lengths  # (T, B)
    places = np.where(runs[:, :, np.newaxis], h, -np.inf).argmax(axis=0)  # (B, H)
    vector = np.take_along_axis(h, places[np.newaxis], axis=0)[0]  # (B, H)
    if lengths is not None:
        vector[lengths == 0] = 0
    return Pooled(vector, places)


def max_backward(d_vector: Array, T: int, lengths: Array | None, places: Array) -> Array:
    # all of it goes to the step that won
    d_h = np.zeros((T, *d_vector.shape), d_vector.dtype)  # (T, B, H)
    has_steps = 1 if lengths is None else (lengths > 0).astype(d_vector.dtype)[:, np.newaxis]
    np.put_along_axis(d_h, places[np.newaxis], (d_vector * has_steps)[np.newaxis], axis=0)
    return d_h
