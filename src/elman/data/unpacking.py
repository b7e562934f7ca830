"""Compressed files as streams: .gz, and .zst with the extra `zstd`.

A file that ends within a stream, or is damaged, is an error; one that is empty or has only zeros gives no bytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from elman.errors import DataError, MissingExtraError

# Compressed bytes that are unpacked at a time. They give at most 8 MB: in a .zst file a block of 4 bytes can stand for
# 128 KB that repeat one byte.
PIECE = 1 << 8
CHUNK = 1 << 20  # bytes: least size of a returned chunk, except the last


def unpacked(chunks: Iterable[bytes], suffix: str, shown: str) -> Iterator[bytes]:
    """The uncompressed bytes of a file with this suffix, which may be .gz or .zst; `shown` names it in messages."""
    if suffix not in (".gz", ".zst"):
        yield from chunks
        return
    new, codec_error = (_gzip, zlib.error) if suffix == ".gz" else _zstandard()
    held, size = [], 0
    try:
        for piece in _unpacked(chunks, new, shown):
            held.append(piece)
            size += len(piece)
            if size >= CHUNK:
                yield b"".join(held)
                held, size = [], 0
    except codec_error as error:
        raise DataError(
            f"{shown} is damaged, or not a {suffix} file: {error}", do="Download or copy the file again."
        ) from None
    yield b"".join(held)


def _unpacked(chunks: Iterable[bytes], new: Callable[[], Any], shown: str) -> Iterator[bytes]:
    """Unpack the compressed streams of a file, one after the other; zeros before or after a stream are padding."""
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
        raise DataError(f"{shown} is truncated: its compressed data has no end", do="Download or copy the file again.")


def _gzip() -> Any:
    return zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)  # 16: with gzip's header and checksum


def _zstandard() -> tuple[Callable[[], Any], type[Exception]]:
    try:
        import zstandard
    except ImportError:
        do = "Install it: pip install 'elman[zstd]'"
        raise MissingExtraError("Files that end in .zst need zstandard", do=do) from None
    return lambda: zstandard.ZstdDecompressor().decompressobj(), zstandard.ZstdError
