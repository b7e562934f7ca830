"""Bytes to text: a stream, chunk by chunk (`decoded`), or a whole file (`read_text`).

Text is decoded strictly, and a byte order mark is dropped. In a stream, which gives the same text wherever its chunks
are cut, every line end becomes `\\n`; a NUL or a byte that does not decode is an error that gives its position in the
file, unless the codec does not report positions.
"""

from __future__ import annotations

import codecs
import io
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from elman.data.checks import also_searched, did_you_mean
from elman.errors import DataError, EncodingError, UnknownNameError, option


def codec_name(encoding: str) -> str:
    """Python's own name of a text encoding."""
    try:
        b"a".decode(encoding)  # raises an error for codecs that are no text encoding, such as hex
    except UnicodeDecodeError:
        pass  # a letter needs more bytes, as in utf-16
    except (LookupError, ValueError):  # ValueError: the codec "undefined" refuses everything
        from encodings.aliases import aliases

        raise UnknownNameError(
            "encoding",
            expected="a text encoding that Python knows, such as utf-8, latin-1 or cp1252",
            got=repr(encoding),
            do=did_you_mean(encoding.lower(), aliases) or None,
        ) from None
    name = codecs.lookup(encoding).name
    return "utf-8" if name == "utf-8-sig" else name  # utf-8-sig counts positions from after the byte order mark


def decoded(chunks: Iterable[bytes], encoding: str, shown: str) -> Iterator[str]:
    """Bytes to text; `shown` names the file in messages."""
    decoder = codecs.getincrementaldecoder(encoding)()
    newlines = io.IncrementalNewlineDecoder(None, translate=True)  # recognizes a \r\n that is split between two chunks
    offset, begun = 0, False
    for raw in chain(chunks, [b""]):
        state = decoder.getstate()
        begin = offset - len(state[0])  # the decoder may still hold the first bytes of a character
        try:
            text = decoder.decode(raw, final=not raw)
        except UnicodeDecodeError as error:
            place = f"byte {begin + error.start} (0x{error.object[error.start]:02X}) does not decode"
            raise EncodingError(f"{shown} is not {encoding}: {place}", do=_advice()) from None
        except UnicodeError as error:  # from the few codecs that do not report a position
            raise EncodingError(f"{shown} is not {encoding}: {error}", do=_advice()) from None
        if "\0" in text:
            decoder.setstate(state)
            nul = _position_of_nul(decoder, begin, offset, raw)
            raise EncodingError(
                f"{shown} is not {encoding} text: there is a NUL at byte {nul}",
                do=f"Use {option('tokens', 'byte')} to train on its bytes, or name its {option('encoding')} if it is "
                "text (such as utf-16).",
            )
        if text and not begun:
            begun, text = True, text.removeprefix("\ufeff")  # the byte order mark
        offset += len(raw)
        if text := newlines.decode(text, final=not raw):
            yield text


def _position_of_nul(decoder: codecs.IncrementalDecoder, begin: int, offset: int, raw: bytes) -> int:
    """The position of the first NUL; found byte by byte, because it may have one, two or four bytes."""
    for i in range(len(raw)):
        text = decoder.decode(raw[i : i + 1])
        if "\0" in text:
            break
        if text or not decoder.getstate()[0]:  # a character ends here, or the byte order mark of utf-16
            begin = offset + i + 1
    return begin


def _advice() -> str:
    latin, byte = option("encoding", "latin-1"), option("tokens", "byte")  # latin-1 decodes every byte
    return f"Name its encoding (for example {latin}), or use {byte} to train on its bytes."


def read_bytes(source: str) -> bytes:
    """The bytes of a whole file, or of standard input for "-"; DataError if it cannot be read."""
    try:
        return sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    except FileNotFoundError:
        do = f"Check the path. On the command line, {also_searched()}."
        raise DataError(f"there is no file {source!r}", do=do) from None
    except OSError as error:
        raise DataError(f"{source} cannot be read: {error.strerror}") from None


def read_text(source: str, encoding: str) -> str:
    """A whole file as text, or standard input for "-", line ends and NULs as they are.

    A byte that does not decode is an error that gives its line, unless the codec does not report positions.
    """
    raw = read_bytes(source)
    codec_name(encoding)  # an error for an unknown encoding
    try:
        return raw.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        bad = error.object  # not raw: utf-8-sig counts positions from after the byte order mark
        line, got = bad.count(b"\n", 0, error.start) + 1, f"the byte {bad[error.start]:#04x}"
        do = f"Name its encoding, for example {option('encoding', 'latin-1')}."  # which decodes every byte
        raise EncodingError(f"{source}, line {line}", expected=f"text in {encoding}", got=got, do=do) from None
    except UnicodeError as error:  # from the few codecs that do not report a position
        raise EncodingError(f"{source} is not {encoding}: {error}", do=f"Name its {option('encoding')}.") from None


def split_lines(text: str) -> list[str]:
    """The lines of a text. They end with \\n or \\r\\n only; str.splitlines also splits at other characters."""
    lines = text.removeprefix("\ufeff").split("\n")
    return [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]
