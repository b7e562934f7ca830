"""Weights as bytes: float32, float16, or int8 with one scale for each column."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np

from elman.errors import RunError, UnknownNameError, option
from elman.maths.arrays import Array
from elman.network import Parameters

Precision = Literal["float32", "float16", "int8"]


class Stored(NamedTuple):
    """Weights as bytes, array after array, and the weights that the bytes decode to."""

    data: bytes
    parameters: Parameters  # float32


def store(p: Parameters, precision: Precision) -> Stored:
    """The weights as bytes. In int8 a matrix is its scales, then its entries row by row, and vectors are float32."""
    if precision not in get_args(Precision):
        raise UnknownNameError("precision", expected=f"one of {', '.join(get_args(Precision))}", got=repr(precision))
    decoded = Parameters(p.shapes, np.float32)
    parts = []
    for name, array in p.items():
        if precision == "int8" and array.ndim == 2:
            scales, q = quantize(array)
            parts += [scales, q]
            decoded[name][...] = q * scales
        else:
            parts.append(_rounded(name, array, "float16" if precision == "float16" else "float32"))
            decoded[name][...] = parts[-1]
    return Stored(b"".join(part.astype(part.dtype.newbyteorder("<")).tobytes() for part in parts), decoded)


def quantize(W: Array) -> tuple[Array, Array]:
    """Scales (N,) in float32 and integers q (K, N) from -127 to 127: W is about q * scales."""
    scales = (np.abs(W).max(axis=0) / 127).astype(np.float32)  # (N,)
    scales[scales == 0] = 1  # a column of zeros
    return scales, np.clip(np.rint(W / scales), -127, 127).astype(np.int8)


def _rounded(name: str, array: Array, dtype: str) -> Array:
    with np.errstate(over="ignore"):
        rounded = array.astype(dtype)
    if not np.isfinite(rounded).all():
        raise RunError(
            f"{name} has numbers that are too large for {dtype}", do=f"Choose another {option('precision')}."
        )
    return rounded
