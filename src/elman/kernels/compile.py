"""Compilation of kernels, and the cache of compiled kernels on disk.

Numba's own cache does not notice an edit in a callee or an intrinsic, nor other compiler flags, and raises an error for
a damaged file or a full disk. Here the folder's name is a hash of every kernel source, the versions of Numba and
Python, the CPU, the vector width and the flags, so old code can never run. Every file has a checksum: a kernel whose
file is damaged is compiled again and the file replaced, and a kernel that cannot be saved is used all the same. The
files are pickles, which can run code when they are loaded, so files that somebody else could have written are not read.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import numba
import numpy as np
from llvmlite import binding
from numba import njit
from numba.core.caching import NullCache
from numba.core.codegen import get_host_cpu_features
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from elman.files import cache_root

FLOATS = (np.float32, np.float64)  # precisions with kernels; others use maths
CHUNK = 1 << 18  # entries of a large array that one thread takes at a time
# contract a * b + c into one operation, but never reorder a sum, and never assume that there is no NaN
FASTMATH = {"contract"}


def target() -> tuple[str, str]:
    """Name and features of the CPU that Numba compiles for: this one, unless NUMBA_CPU_NAME and
    NUMBA_CPU_FEATURES name another."""
    name, features = numba.config.CPU_NAME, numba.config.CPU_FEATURES
    return (
        binding.get_host_cpu_name() if name is None else name,
        get_host_cpu_features() if features is None else features,
    )


def vector_bytes() -> int:
    """Bytes of the widest vectors of the CPU that `target` names; ELMAN_VECTOR_BYTES=16, 32 or 64 overrides it."""
    forced = os.environ.get("ELMAN_VECTOR_BYTES", "")
    if forced in ("16", "32", "64"):
        return int(forced)
    features = target()[1].split(",")
    return 64 if "+avx512f" in features else 32 if "+avx2" in features else 16


VECTOR_BYTES = vector_bytes()


def cache_key() -> str:
    """A hash of everything that compiled code depends on."""
    facts = (numba.__version__, sys.version, *target(), str(VECTOR_BYTES), str(numba.config.BOUNDSCHECK),
             str(sorted(FASTMATH)))  # fmt: skip
    digest = hashlib.sha256("\0".join(facts).encode())
    folder = Path(__file__).parent
    for path in sorted(folder.rglob("*.py")):
        digest.update(f"\0{path.relative_to(folder).as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def cache_folder() -> Path:
    """Where compiled kernels are kept: one folder for each cache_key."""
    return cache_root() / "kernels" / cache_key()


def _trusted(found: os.stat_result) -> bool:
    """Whether only this user and root can have written the file or folder."""
    return not hasattr(os, "geteuid") or (found.st_uid in (0, os.geteuid()) and not found.st_mode & 0o022)


def _why_unused(folder: Path) -> str:
    """Make the folder if necessary; return why it cannot be used, or ""."""
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        trusted = _trusted(folder.stat())
    except OSError as error:
        return f"cannot be made: {error.strerror}"
    return "" if trusted else "belongs to another user or can be written by others"


FOLDER = cache_folder()
UNUSED = _why_unused(FOLDER)  # why nothing is loaded from FOLDER or saved in it; empty if it is used
_log = logging.getLogger("elman.kernels")


class KernelCache(NullCache):
    """The compiled versions of one kernel: a file for each signature, with a SHA-256 and the data that Numba loads."""

    _warned = False  # whether the warning that kernels cannot be saved was given

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @property
    def cache_path(self) -> str:
        return str(FOLDER)

    def _path(self, signature: Any, codegen: Any) -> Path:
        facts = "\0".join((*_identity(self._function), str(signature), str(codegen.magic_tuple())))
        name = f"{self._function.__module__}.{self._function.__qualname__}".replace("<", "").replace(">", "")
        return FOLDER / f"{name}-{hashlib.sha256(facts.encode()).hexdigest()[:16]}.kernel"

    def load_overload(self, signature: Any, context: Any) -> Any:
        context.refresh()
        try:
            with self._path(signature, context.codegen()).open("rb") as file:
                content = file.read() if _trusted(os.fstat(file.fileno())) else b""
        except OSError:
            return None
        checksum, data = content[:32], content[32:]
        if hashlib.sha256(data).digest() != checksum:
            return None  # compiled again, and the file replaced
        return CompileResult._rebuild(context, *pickle.loads(data))

    def save_overload(self, signature: Any, result: Any) -> None:
        if result.library.has_dynamic_globals:  # it contains addresses that are valid in this process only
            return
        path = self._path(signature, result.codegen)
        data = dumps(result._reduce())
        temporary = path.with_name(f"{path.name}.{uuid4().hex}")
        try:
            with open(temporary, "xb", opener=partial(os.open, mode=0o644)) as file:
                file.write(hashlib.sha256(data).digest() + data)
            temporary.replace(path)
        except OSError as error:
            with suppress(OSError):
                temporary.unlink()
            if not KernelCache._warned:
                KernelCache._warned = True
                _log.warning("Compiled kernels cannot be saved in %s and are compiled again in the next run: %s.",
                             FOLDER, error.strerror)  # fmt: skip


def _identity(function: Callable[..., Any]) -> Iterator[str]:
    """What identifies a kernel within the folder: its module, name, source file and closure."""
    source = hashlib.sha256(Path(function.__code__.co_filename).read_bytes()).hexdigest()
    yield from (function.__module__, function.__qualname__, source)
    for cell in function.__closure__ or ():
        value = cell.cell_contents
        inner = getattr(value, "py_func", None) or getattr(value, "_defn", None)  # of a kernel, of an intrinsic
        yield from _identity(inner) if inner else (hashlib.sha256(dumps(value)).hexdigest(),)


# Numba would count each view of an array as a reference to it, by atomic operations that take a tenth of the time of a
# small step. No kernel keeps a reference, so references are not counted (_nrt), except in kernels that allocate memory.
SETTINGS = {"nogil": True, "error_model": "numpy", "fastmath": FASTMATH, "_nrt": False}


def kernel(function: Callable[..., Any], **options: Any) -> Any:
    """A decorator: compile for any signature, release the GIL, and cache on disk if possible."""
    made = njit(**(SETTINGS | options))(function)
    if not UNUSED:
        made._cache = KernelCache(function)
    return made


allocating_kernel = partial(kernel, _nrt=True)  # the decorator of a kernel that allocates memory


def inline(function: Callable[..., Any]) -> Any:
    """A decorator for a small part of kernels, which is inlined into its callers."""
    return njit(**SETTINGS, inline="always")(function)


def part(function: Callable[..., Any]) -> Any:
    """A decorator for a part of kernels that is too large to be inlined."""
    return njit(**SETTINGS)(function)
