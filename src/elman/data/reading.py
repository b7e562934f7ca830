"""Files to text, as streams: nothing here holds more than a chunk.

Text is decoded strictly, a byte order mark dropped, and every line end made `\\n`. A byte that does not decode, and a
NUL, which no text has, are errors that give its place in the file.
"""

from __future__ import annotations

import codecs
import hashlib
import io
import os
import stat
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from elman.data.checks import did_you_mean
from elman.errors import DataError, EncodingError, UnknownNameError

CHUNK = 1 << 20  # bytes, or characters
Progress = Callable[[str, int, int], None]  # what is being done, bytes done, bytes in all


class Source(ABC):
    """Something to be read several times, each time from its start."""

    shown: str  # what messages call it

    @abstractmethod
    def raw(self, what: str) -> Iterator[bytes]:
        """Its bytes; `what` is the word that progress gets for this reading."""

    @abstractmethod
    def text(self, what: str, encoding: str) -> Iterator[str]:
        """Its text."""

    def sha256(self) -> str:
        """Of its bytes as they are."""
        digest = hashlib.sha256()
        for chunk in self.raw("hashing"):
            digest.update(chunk)
        return digest.hexdigest()


class TextSource(Source):
    """A text in memory; its bytes are UTF-8."""

    shown = "the text"

    def __init__(self, text: str) -> None:
        self._text = text

    def raw(self, what: str) -> Iterator[bytes]:
        return (chunk.encode("utf-8", "surrogatepass") for chunk in self._chunks())

    def text(self, what: str, encoding: str) -> Iterator[str]:
        newlines = io.IncrementalNewlineDecoder(None, translate=True)
        for chunk in self._chunks():
            yield newlines.decode(chunk)
        yield newlines.decode("", final=True)

    def _chunks(self) -> Iterator[str]:
        return (self._text[i : i + CHUNK] for i in range(0, len(self._text), CHUNK))


class FileSource(Source):
    """A file, or standard input for None; what cannot be read twice is first kept in a temporary file."""

    def __init__(self, path: Path | None, progress: Progress | None = None) -> None:
        self.shown = "standard input" if path is None else repr(str(path))
        self._progress = progress
        try:
            self._file = _spooled(sys.stdin.buffer) if path is None else _opened(path)
            self._state = self._now()
        except IsADirectoryError:
            raise DataError(f"{self.shown} is a folder", expected="a text file", do="Name a file in it.") from None
        except FileNotFoundError:
            raise DataError(f"there is no file {self.shown}", do="Check the path.") from None
        except (OSError, ValueError, AttributeError) as error:  # AttributeError: a process without standard input
            raise DataError(f"{self.shown} cannot be read: {getattr(error, 'strerror', None) or error}") from None

    def __enter__(self) -> FileSource:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def raw(self, what: str) -> Iterator[bytes]:
        done, (total, _) = 0, self._state
        try:
            self._file.seek(0)
            while chunk := self._file.read(min(CHUNK, total - done)):  # no further, or a growing file might never end
                done += len(chunk)
                if self._progress:
                    self._progress(what, done, total)
                yield chunk
        except OSError as error:
            raise DataError(f"{self.shown} cannot be read past byte {done}: {error.strerror or error}") from None
        if self._now() != self._state:  # the hash, the vocabulary and the ids would be of different texts
            raise DataError(f"{self.shown} changed while it was read", do="Try again when nothing writes to it.")

    def text(self, what: str, encoding: str) -> Iterator[str]:
        return decoded(self.raw(what), encoding, self.shown)

    def _now(self) -> tuple[int, int]:
        status = os.fstat(self._file.fileno())
        return status.st_size, status.st_mtime_ns


def _opened(path: Path) -> BinaryIO:
    file = path.open("rb")
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    with file:  # a pipe, say
        return _spooled(file)


def _spooled(pipe: BinaryIO) -> BinaryIO:
    kept: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 - the source closes it
    while chunk := pipe.read(CHUNK):
        kept.write(chunk)
    kept.flush()
    return kept


def codec_name(encoding: str) -> str:
    """Python's own name of a text encoding."""
    try:
        b"a".decode(encoding)  # refuses what is no text encoding, such as hex
    except UnicodeError:
        pass
    except (LookupError, ValueError):
        from encodings.aliases import aliases

        raise UnknownNameError(
            "encoding",
            expected="a text encoding that Python knows, such as utf-8, latin-1 or cp1252",
            got=repr(encoding),
            do=did_you_mean(encoding.lower(), aliases) or None,
        ) from None
    name = codecs.lookup(encoding).name
    return "utf-8" if name == "utf-8-sig" else name  # whose offsets are counted from behind the mark


def decoded(chunks: Iterable[bytes], encoding: str, shown: str) -> Iterator[str]:
    """Bytes to text; `shown` is what messages call the file."""
    decoder = codecs.getincrementaldecoder(encoding)()
    newlines = io.IncrementalNewlineDecoder(None, translate=True)  # knows a \r\n that lies across two chunks
    offset, begun = 0, False
    for raw in chain(chunks, [b""]):
        state = decoder.getstate()
        begin = offset - len(state[0])  # the decoder may still hold the first bytes of a character
        try:
            text = decoder.decode(raw, final=not raw)
        except UnicodeDecodeError as error:
            place = f"byte {begin + error.start} (0x{error.object[error.start]:02X}) does not decode"
            raise EncodingError(f"{shown} is not {encoding}: {place}", do=_way_out(encoding)) from None
        except UnicodeError as error:  # from the few codecs that do not say where
            raise EncodingError(f"{shown} is not {encoding}: {error}", do=_way_out(encoding)) from None
        if "\0" in text:
            decoder.setstate(state)
            raise EncodingError(
                f"{shown} is no {encoding} text: there is a NUL at byte {_place_of_nul(decoder, begin, offset, raw)}",
                do="Say --tokens byte to train on its bytes, or name its --encoding if it is text (utf-16, say).",
            )
        if text and not begun:
            begun, text = True, text.removeprefix("\ufeff")  # the byte order mark
        offset += len(raw)
        if text := newlines.decode(text, final=not raw):
            yield text


def _place_of_nul(decoder: codecs.IncrementalDecoder, begin: int, offset: int, raw: bytes) -> int:
    """Where the bytes begin that decode to the first NUL; byte by byte, since it may be one, two or four."""
    for i in range(len(raw)):
        text = decoder.decode(raw[i : i + 1])
        if "\0" in text:
            break
        if text:
            begin = offset + i + 1
    return begin


def _way_out(encoding: str) -> str:
    other = "utf-8" if encoding == "iso8859-1" else "latin-1"
    return f"Name its encoding (--encoding {other}, say), or say --tokens byte to train on its bytes."
