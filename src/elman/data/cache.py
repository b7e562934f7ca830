"""Encoded texts on disk, so that a text is encoded once.

An entry is two files: KEY.ids, the token ids as in memory, and KEY.json, which is written last and has their metadata
and hash. KEY is a hash of the text and of the options of its encoding. Both files have temporary names until they are
complete. Entries that were not used for a month are deleted.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np

from elman.data.vocabulary_json import vocabulary_from_json
from elman.errors import DataError
from elman.files import cache_root, create, open_regular, read_regular, temporary_name
from elman.maths.arrays import Array

if sys.platform != "win32":
    import fcntl

MONTH = 30 * 24 * 3600.0  # seconds
MAX_FACTS = 1 << 26  # bytes of a KEY.json file that is read
# Larger files of ids, in bytes, are memory-mapped. Smaller ones are read: a process that maps a file crashes if another
# process truncates it.
MAX_READ = 1 << 26

Facts = dict[str, Any]  # metadata as JSON; "dtype" and "count" are those of the ids
Result = TypeVar("Result")


def write_atomically(path: Path, write: Callable[[BinaryIO], Result]) -> Result:
    """Write a file completely or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    name = temporary_name(path)
    try:
        with create(name) as file:
            result = write(file)
            file.flush()
            os.fsync(file.fileno())  # otherwise a power failure may leave an empty file
        os.replace(name, path)
    except BaseException:
        name.unlink(missing_ok=True)
        raise
    return result


def load(key: str) -> tuple[Array, Facts] | None:
    """The ids (N,) and the metadata of an entry; None if it is missing or damaged."""
    folder = cache_root() / "encoded"
    ids, facts = folder / f"{key}.ids", folder / f"{key}.json"
    try:
        known = json.loads(read_regular(facts, MAX_FACTS))
        if not _is_valid(known):
            return None
        with open_regular(ids) as file:
            found = _read_ids(file, known), known
        if known["sha256"] != hashlib.sha256(found[0].data).hexdigest():
            return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    for path in (ids, facts):
        with contextlib.suppress(OSError):  # the cache may be read-only for this user
            os.utime(path)
    return found


def load_or_store(
    key: str, write: Callable[[BinaryIO], Facts], waiting: Callable[[], None] = lambda: None
) -> tuple[Array, Facts]:
    """Load the entry, or make it. If files can be locked, one process makes it; the others call `waiting` and wait."""
    if found := load(key):
        return found
    with _lock(cache_root() / "locks" / key, waiting):
        return load(key) or store(key, write)


def store(key: str, write: Callable[[BinaryIO], Facts]) -> tuple[Array, Facts]:
    """Make a new entry; if the cache cannot be written to, use a temporary file, deleted when it is not needed."""
    folder = cache_root() / "encoded"
    try:
        facts = write_atomically(folder / f"{key}.ids", write)
        with open_regular(folder / f"{key}.ids") as file:
            ids = _read_ids(file, facts)
        facts["sha256"] = hashlib.sha256(ids.data).hexdigest()
        write_atomically(folder / f"{key}.json", lambda file: file.write(json.dumps(facts).encode()))
        prune(folder)
        return ids, facts
    except OSError:
        pass
    try:
        with tempfile.TemporaryFile() as file:
            facts = write(file)
            file.flush()
            return _read_ids(file, facts), facts
    except OSError as error:
        raise DataError(
            f"the encoded text can be written neither to {str(folder)!r} nor to {tempfile.gettempdir()!r}:"
            f" {error.strerror or error}",
            do="Free some space, or set ELMAN_CACHE to a folder on a disk with space.",
        ) from None


def prune(folder: Path, age: float = MONTH) -> None:
    """Delete the files of a folder that were last written, or loaded by `load`, more than `age` seconds ago."""
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < time.time() - age:
                path.unlink()


def _read_ids(file: BinaryIO, facts: Facts) -> Array:
    """The ids, read-only; ValueError if the file has another size."""
    dtype, size = np.dtype(facts["dtype"]), os.fstat(file.fileno()).st_size
    if size != facts["count"] * dtype.itemsize:
        raise ValueError(f"{size} bytes")
    if size > MAX_READ:
        return np.memmap(file, dtype, mode="r")
    file.seek(0)
    return np.frombuffer(file.read(size), dtype)


def _is_valid(facts: Facts) -> bool:
    """Whether the metadata are valid; damaged ones may also raise an error, which `load` catches."""
    counts, notes = (facts["characters"], facts["unknown"]), facts["notes"]
    if not all(isinstance(count, int) and count >= 0 for count in counts):
        return False
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        return False
    return vocabulary_from_json(facts["vocabulary"]).dtype.name == str(facts["dtype"])


@contextlib.contextmanager
def _lock(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold a lock until the block or the process ends; without file locks, several processes do the same work."""
    with contextlib.ExitStack() as opened:
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            prune(path.parent)
            file = opened.enter_context(path.open("ab"))
            if sys.platform != "win32":
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    waiting()
                    fcntl.flock(file, fcntl.LOCK_EX)
        yield
