"""Sources of text, read in chunks, so that memory does not grow with the size of a file."""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import sys
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from elman.data.decoding import decoded
from elman.data.unpacking import unpacked
from elman.errors import ArgumentError, DataError

CHUNK = 1 << 20  # bytes, or characters
Progress = Callable[[str, int, int], None]  # activity, bytes done, total bytes; 0 and 0 if unknown


class Source(ABC):
    """A text that can be read several times, each time from its start."""

    shown: str  # its name in messages

    @abstractmethod
    def raw(self, what: str) -> Iterator[bytes]:
        """Its bytes, uncompressed; `what` names this pass in the progress."""

    @abstractmethod
    def text(self, what: str, encoding: str) -> Iterator[str]:
        """Its text, with \\n as the only line end."""

    def sha256(self) -> str:
        """The hash of its unpacked bytes."""
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


class ListSource(Source):
    """Sequences in memory: each chunk of the text is one of them."""

    shown = "the list"

    def __init__(self, sequences: Sequence[Any]) -> None:
        for number, sequence in enumerate(sequences):
            if not isinstance(sequence, str):
                got = f"{type(sequence).__name__} as item {number}"
                raise ArgumentError("text", expected="a list of str, one for each sequence", got=got)
        self._sequences = sequences

    def raw(self, what: str) -> Iterator[bytes]:
        yield json.dumps(list(self._sequences)).encode()  # the hash depends on where each sequence ends

    def text(self, what: str, encoding: str) -> Iterator[str]:
        return iter(self._sequences)


class Stopped(Exception):
    """Raised in a thread whose work is no longer needed."""


class Meter:
    """The progress of reading, over all files and threads."""

    def __init__(self, progress: Progress | None = None) -> None:
        self._progress, self._lock = progress, threading.Lock()
        self._done: dict[str, int] = {}
        self.total = 0  # bytes of all files
        self.stopped = False

    def add(self, what: str, size: int) -> None:
        with self._lock:
            if self.stopped:
                raise Stopped
            self._done[what] = self._done.get(what, 0) + size
            if self._progress:
                self._progress(what, self._done[what], self.total)

    def report_waiting(self) -> None:
        if self._progress:
            self._progress("waiting for another process, which encodes the same text", 0, 0)


class FileSource(Source):
    """A file, or standard input for None.

    Standard input or a pipe is copied to a temporary file, so that it can be read several times.
    """

    def __init__(self, path: Path | None, meter: Meter | None = None) -> None:
        self.path, self._meter = path, meter or Meter()
        self.shown = "standard input" if path is None else repr(str(path))
        self._copy: BinaryIO | None = None
        self._state: tuple[int, int, int] | None = None
        with self._as_data_error():
            if path is None:
                self._copy = _spooled(sys.stdin.buffer)
            elif not stat.S_ISREG(path.stat().st_mode):
                with path.open("rb") as pipe:  # a folder is an error here
                    self._copy = _spooled(pipe)
        with self._opened() as file:
            self._state = _state(file)
        self._meter.total += self._state[0]

    @property
    def rereadable(self) -> bool:
        """Whether another process can read it again."""
        return self._copy is None

    def close(self) -> None:
        if self._copy:
            self._copy.close()

    def raw(self, what: str) -> Iterator[bytes]:
        return unpacked(self._file_bytes(what), self.path.suffix.lower() if self.path else "", self.shown)

    def text(self, what: str, encoding: str) -> Iterator[str]:
        return decoded(self.raw(what), encoding, self.shown)

    @contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        """The file, open only while it is read: there may be more files than a process may open."""
        if self._copy:
            yield self._copy
            return
        assert self.path is not None
        with self._as_data_error():
            file = self.path.open("rb")
        with file:
            yield file

    def _file_bytes(self, what: str) -> Iterator[bytes]:
        """The bytes of the file, as stored."""
        with self._opened() as file:
            done, total = 0, _state(file)[0]
            try:
                file.seek(0)
                while chunk := file.read(min(CHUNK, total - done)):  # no further: a file that grows might never end
                    done += len(chunk)
                    self._meter.add(what, len(chunk))
                    yield chunk
            except OSError as error:
                raise DataError(f"{self.shown} cannot be read past byte {done}: {error.strerror or error}") from None
            if _state(file) != self._state:  # the hash, the vocabulary and the ids would be of different texts
                raise DataError(f"{self.shown} changed while it was read", do="Try again when nothing writes to it.")

    @contextmanager
    def _as_data_error(self) -> Iterator[None]:
        """Raise DataError if the file cannot be opened."""
        try:
            yield
        except IsADirectoryError:
            raise DataError(f"{self.shown} is a folder", expected="a text file", do="Name a file in it.") from None
        except FileNotFoundError:
            if self._state is not None:
                do = "Restore it, or leave it out."
                raise DataError(f"{self.shown} was deleted while the text was read", do=do) from None
            raise DataError(f"there is no file {self.shown}", do="Check the path.") from None
        except (OSError, ValueError, AttributeError) as error:  # AttributeError: a process without standard input
            raise DataError(f"{self.shown} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _state(file: BinaryIO) -> tuple[int, int, int]:
    """Size, modification time and inode of the file, to notice changes."""
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns, status.st_ino


def _spooled(pipe: BinaryIO) -> BinaryIO:
    """A temporary file with the content of a pipe."""
    copy: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 - the source closes it
    while chunk := pipe.read(CHUNK):
        copy.write(chunk)
    copy.flush()
    return copy
