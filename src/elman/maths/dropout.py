"""Dropout masks. Whether an entry is kept depends on a hash of its position, not on the order of random draws.

The hash takes a key (of the seed, the batch and the layer), the time step, the row in the whole batch and the unit.
So a row has the same mask whichever slice of the batch or MPI process computes it, and also after a run is resumed.
"""

from __future__ import annotations

import numpy as np

from elman.maths.arrays import Array, FloatType


def mix(x: Array) -> Array:
    """A hash of 32 bits: multiplications and shifts, so that every bit of x affects all bits of the result.

    Its constants are those of C. Wellons's hash-prospector, found by a search for the least bias.
    """
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x21F0AAAD)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0xD35A2D97)
    return np.asarray(x ^ (x >> np.uint32(15)))


def dropout_mask(key: int, share: float, T: int, rows: Array, width: int, dtype: FloatType) -> Array:
    """A mask (T, B, width): 0 with probability `share`, otherwise 1 / (1 - share), so that its mean is 1.

    key : whole number below 2^64, made of the seed, the number of the batch and the layer
    T : steps
    rows : (B,) indices of the rows in the whole batch
    width : entries of each row, such as units
    """
    low, high = np.uint32(key & 0xFFFFFFFF), np.uint32(key >> 32)
    with np.errstate(over="ignore"):  # modulo 2^32; multiplying by an odd constant keeps different numbers different
        t = mix(np.arange(T, dtype=np.uint32) ^ low)  # (T,)
        row = mix(t[:, np.newaxis] + rows.astype(np.uint32) * np.uint32(0x9E3779B9) ^ high)  # (T, B)
        unit = np.arange(width, dtype=np.uint32) * np.uint32(0x85EBCA6B)
        bits = mix(row[:, :, np.newaxis] ^ unit)  # (T, B, width)
    kept = bits >= np.uint32(min(int(share * 2**32), 2**32 - 1))
    return np.asarray(kept.astype(dtype) * np.dtype(dtype).type(1 / (1 - share)))
