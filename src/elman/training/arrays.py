"""Arrays in files: safetensors, which can hold nothing but arrays, read with suspicion."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from elman.errors import CheckpointError
from elman.maths.arrays import Array

MOST_HEADER = 1 << 20  # bytes; a header of names and shapes needs a few thousand

Wanted = Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]  # name: shape and dtype


def to_bytes(arrays: Mapping[str, Array]) -> bytes:
    return save({name: np.ascontiguousarray(array) for name, array in arrays.items()})


def read_arrays(
    path: Path, expected: Wanted | None = None, *, finite: bool = True, most_header: int = MOST_HEADER
) -> dict[str, Array]:
    """The arrays in a file: just the ones that are expected, if that is given, and no NaN unless asked for."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from None
    _check_header(path, data, most_header)
    try:
        arrays = load(data)
    except (SafetensorError, KeyError, ValueError, TypeError, OverflowError, MemoryError) as error:
        raise CheckpointError(f"{path} is damaged: {error}", do="Use another checkpoint or a backup.") from None
    if expected is not None:
        if set(arrays) != set(expected):
            odd = sorted(set(arrays) ^ set(expected))
            raise CheckpointError(f"{path}", expected=f"arrays {sorted(expected)}", got=f"a difference in {odd}")
        for name, (shape, dtype) in expected.items():
            got = arrays[name]
            if got.shape != shape or got.dtype != dtype:
                raise CheckpointError(
                    f"{path}, {name}", expected=f"{dtype} of shape {shape}", got=f"{got.dtype} of shape {got.shape}"
                )
    for name, array in arrays.items():
        if finite and array.dtype.kind == "f" and not np.isfinite(array).all():
            raise CheckpointError(f"{path}, {name}", expected="finite numbers", got="NaN or infinity")
    return {name: array.copy() for name, array in arrays.items()}  # load gives read-only views


def _check_header(path: Path, data: bytes, most: int) -> None:
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > min(most, len(data) - 8):
        raise CheckpointError(f"{path} is damaged: its header does not fit", do="Use another checkpoint or a backup.")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        if len(set(names)) < len(names):
            raise CheckpointError(f"{path} is damaged: a name occurs twice in its header")
        return dict(pairs)

    try:
        json.loads(data[8 : 8 + size], object_pairs_hook=once)
    except CheckpointError:
        raise
    except (ValueError, RecursionError):
        raise CheckpointError(f"{path} is damaged: its header cannot be read") from None
