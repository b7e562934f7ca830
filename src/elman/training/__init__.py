"""Training: the loop, its events, checkpoints and run folders.

Names load when they are first used: the command line wants the events without the kernels behind the loop.
"""

from importlib import import_module
from typing import Any

_HOME = {
    "Event": "events",
    "Failed": "events",
    "Finished": "events",
    "Listener": "events",
    "ProgressLine": "progress_line",
    "RolledBack": "events",
    "Run": "run",
    "Saved": "events",
    "Started": "events",
    "Stepped": "events",
    "Task": "task",
    "Trainer": "trainer",
    "Validation": "task",
    "generator": "task",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'elman.training' has no attribute {name!r}")
    return getattr(import_module(f"elman.training.{_HOME[name]}"), name)
