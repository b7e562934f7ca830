"""Which entries dropout keeps: a hash of where they stand, so that nothing has to be drawn in an order.

An entry is kept or not by its key (seed, step and layer), time step, row of the whole batch and unit alone. Slices,
ranks and a resumed run see the same masks.
"""

from __future__ import annotations

import numpy as np

from elman.maths.arrays import Array, FloatType


def mix(x: Array) -> Array:
    """A hash of 32 bits (multiplications and shifts that spread every bit over all)."""
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x21F0AAAD)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0xD35A2D97)
    return np.asarray(x ^ (x >> np.uint32(15)))


def dropout_mask(key: int, share: float, T: int, rows: Array, width: int, dtype: FloatType) -> Array:
    """A mask (T, rows, width): 0 with probability `share`, otherwise 1 / (1 - share), so that its mean is 1.

    key : whole number below 2^64 that stands for the seed, the step and the layer
    rows : (B,) numbers of the rows within the whole batch
    """
    low, high = np.uint32(key & 0xFFFFFFFF), np.uint32(key >> 32)
    with np.errstate(over="ignore"):  # arithmetic modulo 2^32
        t = mix(np.arange(T, dtype=np.uint32) ^ low)  # (T,)
        row = mix(t[:, np.newaxis] + rows.astype(np.uint32) * np.uint32(0x9E3779B9) ^ high)  # (T, B)
        unit = np.arange(width, dtype=np.uint32) * np.uint32(0x85EBCA6B)
        bits = mix(row[:, :, np.newaxis] ^ unit)  # (T, B, width)
    kept = bits >= np.uint32(min(int(share * 2**32), 2**32 - 1))
    return np.asarray(kept.astype(dtype) * np.dtype(dtype).type(1 / (1 - share)))
