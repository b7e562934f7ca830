"""Files that are whole or not there: written beside their place, flushed to the disk, then renamed into it."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from elman.errors import CheckpointError, StorageError
from elman.files import Content, create, pieces, read_regular, sha256_of, temporary_name

MANIFEST = "manifest.json"
MOST_JSON = 1 << 26  # bytes: enough for the largest vocabulary


def as_json(value: object) -> bytes:
    return (json.dumps(value, indent=1, allow_nan=False) + "\n").encode()


def read_json(path: Path) -> Any:
    try:
        return json.loads(read_regular(path, MOST_JSON))
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise CheckpointError(f"{path} is damaged: it is not JSON") from None


def write_file(path: Path, data: Content) -> None:
    """Replace a file as a whole."""
    write_files({path: data})


def write_files(files: Mapping[Path, Content]) -> None:
    """Replace files that belong together, once all of them are written."""
    beside = {path: temporary_name(path) for path in files}
    try:
        for path, data in files.items():
            _write(beside[path], data)
        for path in files:
            beside[path].replace(path)
            sync_folder(path.parent)
    except OSError as error:
        for left in beside.values():
            left.unlink(missing_ok=True)
        raise _cannot_write(path, error) from error


def write_folder(path: Path, files: Mapping[str, Content]) -> None:
    """Make a folder as a whole, with a manifest by which check_folder knows that nothing is missing or changed."""
    beside = temporary_name(path)
    try:
        beside.mkdir(parents=True)
        manifest = {name: _write(beside / name, data) for name, data in files.items()}
        _write(beside / MANIFEST, as_json(manifest))
        sync_folder(beside)
        if path.exists():  # moved away whole: a folder that is half deleted must not stand in its place
            old = beside.with_name(f"{beside.name}.old")
            path.rename(old)
            beside.rename(path)
            shutil.rmtree(old, ignore_errors=True)
        else:
            beside.rename(path)
        sync_folder(path.parent)
        sync_folder(path.parent.parent)  # where path.parent itself may be new
    except OSError as error:
        shutil.rmtree(beside, ignore_errors=True)
        raise _cannot_write(path, error) from error


def check_folder(path: Path) -> None:
    """Raise CheckpointError unless all files of the manifest are there as they were written."""
    manifest = read_json(path / MANIFEST)
    if not isinstance(manifest, dict) or not manifest:
        raise CheckpointError(f"{path / MANIFEST} is damaged: it lists no files")
    for name, facts in manifest.items():
        try:
            sha256 = sha256_of(path / Path(name).name)
        except FileNotFoundError:
            raise CheckpointError(f"{path}: {name} is missing") from None
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{path}: {name} cannot be read: {getattr(error, 'strerror', error)}") from None
        if not isinstance(facts, dict) or sha256 != facts.get("sha256"):
            raise CheckpointError(f"{path / name} is not as it was written")


def sync_folder(path: Path) -> None:
    if os.name == "posix":  # elsewhere a folder cannot be flushed
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _write(path: Path, data: Content) -> dict[str, Any]:
    """Write a new file; its entry in a manifest."""
    digest = hashlib.sha256()
    with create(path) as file:
        for piece in pieces(data):
            file.write(piece)
            digest.update(piece)
        file.flush()
        os.fsync(file.fileno())
        return {"bytes": file.tell(), "sha256": digest.hexdigest()}


def _cannot_write(path: Path, error: OSError) -> StorageError:
    do = "What was saved before is still whole. Free some space or choose another folder."
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        do = "Make its folder first, or choose another one."
    return StorageError(f"{path} could not be written: {error.strerror or error}", do=do)
