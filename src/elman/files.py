"""Safe access to files that may come from somebody else: only regular files are opened.

A run folder may come from anywhere. A link in place of a file could lead to any file of the user, a pipe could block
the reader forever, and a device could fill the memory. Such links are followed on Windows only. New files are created
exclusively under random names, so that nobody can put a link in their place.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, TypeAlias

# a link is not followed, a pipe does not block, no child process inherits the file, Windows translates no line ends;
# no system has all of these flags
_SAFE_FLAGS = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
_REFUSED_ERRORS = (errno.ELOOP, errno.EMLINK, errno.ENXIO, errno.EISDIR)  # a link (EMLINK: FreeBSD), a socket, a folder

Content: TypeAlias = bytes | Iterable[bytes | memoryview]  # the content of a file, whole or in pieces


def open_regular(path: Path, *, write: bool = False) -> BinaryIO:
    """Open a file to read it or, with `write`, to change it in place (it is created if it is missing).

    OSError if it is not a regular file or, with `write`, if it has a second hard link, whose content would change too.
    """
    flags = os.O_RDWR | os.O_CREAT if write else os.O_RDONLY
    try:
        descriptor = os.open(path, flags | _SAFE_FLAGS, 0o666)
    except OSError as error:
        if error.errno in _REFUSED_ERRORS:
            raise _not_regular(path) from None
        raise
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _not_regular(path)
        if write and found.st_nlink > 1:
            raise OSError(errno.EMLINK, "it has a second hard link, which would change too; copy the file", str(path))
        return os.fdopen(descriptor, "r+b" if write else "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _not_regular(path: Path) -> OSError:
    return OSError(errno.EINVAL, "it is not a regular file (links are not followed)", str(path))


def read_regular(path: Path, most: int) -> bytes:
    """The content of a regular file; OSError if it has more than `most` bytes."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise OSError(errno.EFBIG, f"it has {size:,} bytes, more than {most:,}", str(path))
        return file.read(size)


def sha256_of(path: Path) -> str:
    """The SHA-256 hash of a regular file, which is not read into memory as a whole."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


def temporary_name(path: Path) -> Path:
    """A hidden, random name in the same folder: .NAME.0123456789abcdef."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}")


def create(path: Path) -> BinaryIO:
    """Create a new file, with permissions by the umask; FileExistsError if the name exists, even as a link."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _SAFE_FLAGS, 0o666)
    return os.fdopen(descriptor, "w+b")


def pieces(content: Content) -> Iterable[bytes | memoryview]:
    """The content in pieces; bytes are one piece."""
    return [content] if isinstance(content, bytes) else content


def cache_root() -> Path:
    """The folder of all caches of Elman: `$ELMAN_CACHE`, or one in the cache folder of the operating system."""
    if folder := os.environ.get("ELMAN_CACHE"):
        return Path(folder).absolute()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home()) / "elman"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "elman"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "elman"
