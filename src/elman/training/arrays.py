"""Reads and writes arrays in the safetensors format. A file is checked completely: it may come from anywhere.

The format: 8 bytes with the size of the header, the header in JSON (dtype, shape and offsets of each array), the data.
Arrays are read and written one by one; the safetensors library holds all of them in memory two or three times.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from elman.errors import CheckpointError
from elman.files import open_regular
from elman.maths.arrays import Array

MAX_HEADER = 1 << 20  # bytes; a header of names and shapes needs a few thousand
DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "C64": "<c8", "BOOL": "?",
    "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1",
}  # fmt: skip
_NAMES = {np.dtype(code): name for name, code in DTYPES.items()}

ExpectedArrays = Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]  # name: shape and dtype
Entry = tuple[np.dtype[Any], tuple[int, ...], int, int]  # dtype, shape, start, end


def to_pieces(arrays: Mapping[str, Array]) -> Iterator[bytes | memoryview]:
    """The bytes of a file with these arrays, in pieces."""
    ordered = sorted(arrays.items(), key=lambda item: (-item[1].dtype.itemsize, item[0]))  # so that all are aligned
    header, end = {}, 0
    for name, array in ordered:
        start, end = end, end + array.nbytes
        dtype = _NAMES[array.dtype.newbyteorder("<")]
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for _, array in ordered:
        little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))  # a copy only if it must be converted
        yield little.reshape(-1).view(np.uint8).data


def to_bytes(arrays: Mapping[str, Array]) -> bytes:
    return b"".join(to_pieces(arrays))


def read_arrays(
    path: Path, expected: ExpectedArrays | None = None, *, finite: bool = True, max_header: int = MAX_HEADER
) -> dict[str, Array]:
    """The arrays in a file by name; CheckpointError if the file is damaged or does not have the expected arrays.

    With `finite`, NaN and infinity are an error too.
    """
    try:
        with open_regular(path) as file:
            entries = _header(path, file, max_header)
            if expected is not None:
                _compare(path, entries, expected)
            return {name: _array(path, file, name, entry, finite) for name, entry in entries.items()}
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from None
    except MemoryError as error:
        raise CheckpointError(f"{path} does not fit into memory: {error}") from None


def _compare(path: Path, entries: Mapping[str, Entry], expected: ExpectedArrays) -> None:
    if set(entries) != set(expected):
        differing = sorted(set(entries) ^ set(expected))
        raise CheckpointError(f"{path}", expected=f"arrays {sorted(expected)}", got=f"a difference in {differing}")
    for name, (shape, dtype) in expected.items():
        got_dtype, got_shape = entries[name][:2]
        if got_shape != shape or got_dtype != dtype:
            got = f"{got_dtype} of shape {got_shape}"
            raise CheckpointError(f"{path}, {name}", expected=f"{dtype} of shape {shape}", got=got)


def _array(path: Path, file: BinaryIO, name: str, entry: Entry, finite: bool) -> Array:
    """Read one array, at the current position of the file."""
    dtype, shape, start, end = entry
    try:
        array = np.empty(shape, dtype)
    except ValueError as error:  # a shape that NumPy does not allow, such as one of 100 axes
        raise damaged(path, str(error)) from None
    if file.readinto(array.reshape(-1).view(np.uint8).data) != end - start:  # type: ignore[attr-defined]
        raise damaged(path, "it became shorter while it was read")
    if finite and dtype.kind in "fc" and not np.isfinite(array).all():
        raise CheckpointError(f"{path}, {name}", expected="finite numbers", got="NaN or infinity")
    return array


def _header(path: Path, file: BinaryIO, max_size: int) -> dict[str, Entry]:
    """The entries of the header, in the order of their data, which must fill the file without gaps."""
    left = os.fstat(file.fileno()).st_size - 8
    size = int.from_bytes(file.read(8), "little")
    if left < 0 or size > min(max_size, left):
        raise damaged(path, "its header is too large or cut off")

    def without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        if len(set(names)) < len(names):
            raise damaged(path, "a name occurs twice in its header")
        return dict(pairs)

    try:
        header: Any = json.loads(file.read(size), object_pairs_hook=without_duplicates)
        header.pop("__metadata__", None)
        entries = sorted(((name, _entry(value)) for name, value in header.items()), key=lambda item: item[1][2:])
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        if isinstance(error, CheckpointError):  # which is a ValueError
            raise
        raise damaged(path, f"its header cannot be read ({error!r:.100})") from None
    end = 0
    for name, (dtype, shape, start, stop) in entries:
        if start != end or stop - start != math.prod(shape) * dtype.itemsize:
            raise damaged(path, f"{name} has the wrong size or offset")
        end = stop
    if end != left - size:
        raise damaged(path, f"it holds {left - size:,} bytes of data instead of {end:,}")
    return dict(entries)


def _entry(value: dict[str, Any]) -> Entry:
    shape, (start, end) = tuple(value["shape"]), value["data_offsets"]
    if not all(type(number) is int and 0 <= number < 1 << 62 for number in (*shape, start, end)):
        raise ValueError("a shape or offset is not a valid integer")
    return np.dtype(DTYPES[value["dtype"]]), shape, start, end


def damaged(path: Path, why: str) -> CheckpointError:
    return CheckpointError(f"{path} is damaged: {why}", do="Use another checkpoint or a backup.")
