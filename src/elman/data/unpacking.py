"""Compressed files as streams: .gz, and .zst with the extra `zstd`. One that is cut off or damaged is an error."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from elman.errors import DataError, MissingExtraError

PIECE = 1 << 8  # compressed bytes at a time: they unpack to 8 MB at most, 64 repeated blocks of 128 KB in a .zst
WHOLE = 1 << 20  # bytes, from where on a chunk is handed out


def unpacked(chunks: Iterable[bytes], suffix: str, shown: str) -> Iterator[bytes]:
    """The bytes in a file with this ending; as they are, unless it is .gz or .zst. `shown` is what messages call it."""
    if suffix not in (".gz", ".zst"):
        yield from chunks
        return
    new, mistake = (_gzip, zlib.error) if suffix == ".gz" else _zstandard()
    held, size = [], 0
    try:
        for piece in _unpacked(chunks, new, shown):
            held.append(piece)
            size += len(piece)
            if size >= WHOLE:
                yield b"".join(held)
                held, size = [], 0
    except mistake as error:
        raise DataError(f"{shown} is damaged, or is no {suffix} file: {error}", do="Get the file again.") from None
    yield b"".join(held)


def _unpacked(chunks: Iterable[bytes], new: Callable[[], Any], shown: str) -> Iterator[bytes]:
    """Both kinds may hold several streams, one after the other; what follows the last may be padding of zeros."""
    stream, begun = new(), False
    for chunk in chunks:
        for start in range(0, len(chunk), PIECE):
            piece = chunk[start : start + PIECE]
            while piece:
                if stream.eof:
                    stream, begun = new(), False
                if not begun and not (piece := piece.lstrip(b"\0")):
                    break
                begun = True
                yield stream.decompress(piece)
                piece = stream.unused_data
    if begun and not stream.eof:
        raise DataError(f"{shown} is cut off: its compressed data has no end", do="Get the file again.")


def _gzip() -> Any:
    return zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)  # 16: with gzip's header and checksum


def _zstandard() -> tuple[Callable[[], Any], type[Exception]]:
    try:
        import zstandard
    except ImportError:
        do = "Install it: pip install 'elman[zstd]'"
        raise MissingExtraError("Files that end in .zst need zstandard", do=do) from None
    return lambda: zstandard.ZstdDecompressor().decompressobj(), zstandard.ZstdError
