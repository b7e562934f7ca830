"""What the figures were measured on and with."""

from __future__ import annotations

import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from crew import cores
from llvmlite import binding


def machine() -> dict[str, Any]:
    binding.initialize_native_target()
    features = binding.get_host_cpu_features()
    bits = 512 if features.get("avx512f") else 256 if features.get("avx2") else 128
    return {"cpu": cpu_model(), "cores": cores(), "vector_bits": bits, "system": platform.system()}


def cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    named = re.search(r"model name\s*:\s*(.+)", info.read_text()) if info.exists() else None
    return f"{named[1] if named else platform.processor() or 'unknown'} ({binding.get_host_cpu_name()})"


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in ("elman", "numpy", "numba", "torch", "jax"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
