"""The software versions and the CPU of a run. If one of them differs, sums may round differently, and a resumed run may
not equal an uninterrupted one."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import version
from typing import Any

from elman.kernels import KERNELS


def environment() -> dict[str, Any]:
    """The versions, and the CPU that the kernels are compiled for."""
    cpu, features, vector_bytes = _cpu()
    present = sorted(feature[1:] for feature in features.split(",") if feature.startswith("+"))
    return {**versions(), "cpu": cpu, "vector_bytes": vector_bytes, "features": present}


def versions() -> dict[str, str]:
    """The versions of the software, and whether the kernels are compiled."""
    names = ("elman", "numpy", "scipy", "numba", "llvmlite")
    return {**{name: _version(name) for name in names}, "python": platform.python_version(), "kernels": KERNELS}


_version = cache(version)  # `version` reads a file at each call


def _cpu() -> tuple[str, str, int | None]:
    """Name, features and vector width that the kernels are compiled for; else name and features of this CPU."""
    if KERNELS == "compiled":
        from elman.kernels.compile import VECTOR_BYTES, target

        return *target(), VECTOR_BYTES
    from llvmlite import binding

    return binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten(), None


def resume_note(recorded: object) -> str:
    """One line about the differences from the environment in which the run began; empty if there are none."""
    recorded, now = recorded if isinstance(recorded, dict) else {}, environment()
    changed = [name for name, value in now.items() if recorded.get(name) != value]
    if "kernels" in changed and "vector_bytes" in changed:
        changed.remove("vector_bytes")  # follows from the kernels
    texts = [
        "the CPU has other features" if name == "features" else f"{name} was {recorded.get(name)} and is {now[name]}"
        for name in changed
    ]
    return f"Note: {', '.join(texts)}: the model may differ from that of an uninterrupted run." if texts else ""
