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

MANIFEST = "manifest.json"


def as_json(value: object) -> bytes:
    return (json.dumps(value, indent=1, allow_nan=False) + "\n").encode()


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise CheckpointError(f"{path} is damaged: it is not JSON") from None


def write_file(path: Path, data: bytes) -> None:
    """Replace a file as a whole."""
    write_files({path: data})


def write_files(files: Mapping[Path, bytes]) -> None:
    """Replace files that belong together, once all of them are written."""
    beside = {path: path.with_name(f".{path.name}.{os.getpid()}") for path in files}
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


def write_folder(path: Path, files: Mapping[str, bytes]) -> None:
    """Make a folder as a whole, with a manifest by which check_folder knows that nothing is missing or changed."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    manifest = {name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in files.items()}
    try:
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        for name, data in {**files, MANIFEST: as_json(manifest)}.items():
            _write(beside / name, data)
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
            data = (path / Path(name).name).read_bytes()
        except (OSError, ValueError):
            raise CheckpointError(f"{path}: {name} is missing") from None
        if not isinstance(facts, dict) or hashlib.sha256(data).hexdigest() != facts.get("sha256"):
            raise CheckpointError(f"{path / name} is not as it was written")


def sync_folder(path: Path) -> None:
    if os.name == "posix":  # elsewhere a folder cannot be flushed
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _cannot_write(path: Path, error: OSError) -> StorageError:
    do = "What was saved before is still whole. Free some space or choose another --out."
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        do = "Make its folder first, or choose another --out."
    return StorageError(f"{path} could not be written: {error.strerror or error}", do=do)
