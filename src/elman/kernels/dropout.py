"""maths/dropout.py, compiled: the same masks to the bit."""

from __future__ import annotations

import numpy as np

from elman.kernels.compile import FLOATS, inline, kernel
from elman.maths import dropout as reference
from elman.maths.arrays import Array, FloatType

u4 = np.uint32


@inline
def mix(x):
    x = u4(u4(x ^ (x >> u4(16))) * u4(0x21F0AAAD))
    x = u4(u4(x ^ (x >> u4(15))) * u4(0xD35A2D97))
    return u4(x ^ (x >> u4(15)))


@kernel
def _mask(low, high, bound, kept, rows, mask):
    zero = mask.dtype.type(0)
    for t in range(mask.shape[0]):
        at_t = mix(u4(t) ^ low)
        for i in range(mask.shape[1]):
            row, to = mix(u4(u4(at_t + u4(u4(rows[i]) * u4(0x9E3779B9))) ^ high)), mask[t, i]
            for j in range(to.size):
                to[j] = kept if mix(row ^ u4(u4(j) * u4(0x85EBCA6B))) >= bound else zero


def dropout_mask(key: int, share: float, T: int, rows: Array, width: int, dtype: FloatType) -> Array:
    dtype = np.dtype(dtype)
    if dtype not in FLOATS:
        return reference.dropout_mask(key, share, T, rows, width, dtype)
    mask = np.empty((T, len(rows), width), dtype)
    bound = u4(min(int(share * 2**32), 2**32 - 1))
    kept = dtype.type(1 / (1 - share))
    _mask(u4(key & 0xFFFFFFFF), u4(key >> 32), bound, kept, np.ascontiguousarray(rows, np.int64), mask)
    return mask
