"""How kernels are compiled, and where what was compiled is kept.

Numba's own cache does not notice an edit in a callee or an intrinsic, nor other flags. So the folder's name is a hash
of every kernel source, Numba's version, the CPU, the vector width and the flags: old code can never run.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
from llvmlite import binding
from numba import njit

FLOATS = (np.float32, np.float64)  # what there are kernels for; other precisions are left to maths
# contract a * b + c into one operation, but never reorder a sum, and never assume that there is no NaN
FASTMATH = {"contract"}


def vector_bytes() -> int:
    """Bytes of the widest vectors that this CPU computes with; ELMAN_VECTOR_BYTES=16, 32 or 64 overrides it."""
    forced = os.environ.get("ELMAN_VECTOR_BYTES", "")
    if forced in ("16", "32", "64"):
        return int(forced)
    features = binding.get_host_cpu_features()
    return 64 if features.get("avx512f") else 32 if features.get("avx2") else 16


VECTOR_BYTES = vector_bytes()
REGISTERS = 32 if VECTOR_BYTES == 64 or not binding.get_host_cpu_features().get("sse2") else 16  # NEON has 32 as well


def cache_key() -> str:
    sources = sorted(Path(__file__).parent.glob("*.py"))
    facts = (numba.__version__, sys.version, binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten(),
             str(VECTOR_BYTES), str(numba.config.BOUNDSCHECK), str(sorted(FASTMATH)))  # fmt: skip
    digest = hashlib.sha256("\0".join(facts).encode())
    for path in sources:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def cache_folder() -> Path:
    base = os.environ.get("ELMAN_CACHE")
    if base:
        root = Path(base)
    elif sys.platform == "win32":
        root = Path(os.environ.get("LOCALAPPDATA", Path.home())) / "elman"
    elif sys.platform == "darwin":
        root = Path.home() / "Library" / "Caches" / "elman"
    else:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "elman"
    return root / "kernels" / cache_key()


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


FOLDER = cache_folder()
CACHED = _writable(FOLDER)


def kernel(function: Callable[..., Any], **options: Any) -> Any:
    """Compile for any signature, without the GIL, kept on disk where that is possible."""
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(FOLDER)  # read once, when the decorator runs
    try:
        settings = {"nogil": True, "cache": CACHED, "error_model": "numpy", "fastmath": FASTMATH}
        return njit(**(settings | options))(function)
    finally:
        numba.config.CACHE_DIR = before


def inline(function: Callable[..., Any]) -> Any:
    """A part of other kernels, written out in them: what is compiled on its own is compiled again in each caller."""
    return njit(error_model="numpy", fastmath=FASTMATH, inline="always", nogil=True)(function)


def part(function: Callable[..., Any]) -> Any:
    """A part of other kernels that is too large to be written out at every call."""
    return njit(error_model="numpy", fastmath=FASTMATH, nogil=True)(function)
