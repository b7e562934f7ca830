"""What a run was made with: where any of it differs, sums round differently and a resumed run ends in another model."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import version
from typing import Any

from elman.kernels import KERNELS


def environment() -> dict[str, Any]:
    cpu, features, vector_bytes = _cpu()
    present = sorted(feature[1:] for feature in features.split(",") if feature.startswith("+"))
    return {**versions(), "cpu": cpu, "vector_bytes": vector_bytes, "features": present}


def versions() -> dict[str, str]:
    """Of the software alone."""
    names = ("elman", "numpy", "scipy", "numba", "llvmlite")
    return {**{name: _version(name) for name in names}, "python": platform.python_version(), "kernels": KERNELS}


_version = cache(version)  # a file to be read, each time; what is installed does not change while it runs


def _cpu() -> tuple[str, str, int | None]:
    """Name, features and vector width that the kernels are compiled for; without kernels, those of this CPU."""
    if KERNELS == "compiled":
        from elman.kernels.compile import VECTOR_BYTES, target

        return *target(), VECTOR_BYTES
    from llvmlite import binding

    return binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten(), None


def resume_note(recorded: object) -> str:
    """One line on what is different from when the run began; empty if nothing is."""
    recorded, now = recorded if isinstance(recorded, dict) else {}, environment()
    changed = [name for name, value in now.items() if recorded.get(name) != value]
    if "kernels" in changed and "vector_bytes" in changed:
        changed.remove("vector_bytes")  # follows from the kernels
    said = [
        "the CPU has other features" if name == "features" else f"{name} was {recorded.get(name)} and is {now[name]}"
        for name in changed
    ]
    return f"Note: {', '.join(said)}: the model will differ from that of an uninterrupted run." if said else ""
