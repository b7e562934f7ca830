"""Atomic writes: files and folders are written under a temporary name, flushed to the disk, then renamed.

At any moment a file has its old content or its new content, never a part of it. The same is true of a folder,
except that a folder that is being replaced is missing for a moment, between two renames.
"""

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
MAX_JSON = 1 << 26  # bytes: enough for the largest vocabulary


def as_json(value: object) -> bytes:
    return (json.dumps(value, indent=1, allow_nan=False) + "\n").encode()


def read_json(path: Path) -> Any:
    try:
        return json.loads(read_regular(path, MAX_JSON))
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise CheckpointError(f"{path} is damaged: it is not JSON") from None


def write_file(path: Path, data: Content) -> None:
    """Create or replace a file atomically."""
    write_files({path: data})


def write_files(files: Mapping[Path, Content]) -> None:
    """Create or replace files that belong together, once all of them are written under temporary names."""
    temporary = {path: temporary_name(path) for path in files}
    try:
        for path, data in files.items():
            _write(temporary[path], data)
        for path in files:
            temporary[path].replace(path)
            sync_folder(path.parent)
    except OSError as error:
        for left in temporary.values():
            left.unlink(missing_ok=True)
        raise _cannot_write(path, error) from error


def write_folder(path: Path, files: Mapping[str, Content]) -> None:
    """Create or replace a folder, with a manifest of hashes for check_folder; if that fails, the old folder is kept."""
    temporary = temporary_name(path)
    try:
        temporary.mkdir(parents=True)
        manifest = {name: _write(temporary / name, data) for name, data in files.items()}
        _write(temporary / MANIFEST, as_json(manifest))
        sync_folder(temporary)
        if path.exists():  # renamed before it is deleted: a crash must not leave a folder with a part of its files
            old = temporary.with_name(f"{temporary.name}.old")
            path.rename(old)
            try:
                temporary.rename(path)
            except OSError:
                old.rename(path)
                raise
            shutil.rmtree(old, ignore_errors=True)
        else:
            temporary.rename(path)
        sync_folder(path.parent)
        sync_folder(path.parent.parent)  # path.parent itself may be new
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise _cannot_write(path, error) from error


def check_folder(path: Path) -> None:
    """Raise CheckpointError if a file of the manifest is missing or has another hash."""
    manifest = read_json(path / MANIFEST)
    if not isinstance(manifest, dict) or not manifest:
        raise CheckpointError(f"{path / MANIFEST} is damaged: it lists no files")
    for name, entry in manifest.items():
        try:
            sha256 = sha256_of(path / Path(name).name)
        except FileNotFoundError:
            raise CheckpointError(f"{path}: {name} is missing") from None
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{path}: {name} cannot be read: {getattr(error, 'strerror', error)}") from None
        if not isinstance(entry, dict) or sha256 != entry.get("sha256"):
            raise CheckpointError(f"{path / name} was changed after it was written")


def sync_folder(path: Path) -> None:
    if os.name == "posix":  # elsewhere a folder cannot be flushed
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _write(path: Path, data: Content) -> dict[str, Any]:
    """Write a new file and return its entry in a manifest."""
    digest = hashlib.sha256()
    with create(path) as file:
        for piece in pieces(data):
            file.write(piece)
            digest.update(piece)
        file.flush()
        os.fsync(file.fileno())
        return {"bytes": file.tell(), "sha256": digest.hexdigest()}


def _cannot_write(path: Path, error: OSError) -> StorageError:
    do = "What was saved before is unchanged. Free some space or choose another folder."
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        do = "Create its folder first, or choose another one."
    return StorageError(f"{path} could not be written: {error.strerror or error}", do=do)
