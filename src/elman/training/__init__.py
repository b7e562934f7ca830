"""Training: the loop, its events, checkpoints and run folders.

A name loads its module when it is first used, so that the command line can use the events without loading the kernels.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elman.training.events import Event as Event
    from elman.training.events import Failed as Failed
    from elman.training.events import Finished as Finished
    from elman.training.events import Listener as Listener
    from elman.training.events import RolledBack as RolledBack
    from elman.training.events import Saved as Saved
    from elman.training.events import Started as Started
    from elman.training.events import Stepped as Stepped
    from elman.training.progress_line import ProgressLine as ProgressLine
    from elman.training.run import Run as Run
    from elman.training.task import Task as Task
    from elman.training.task import Validation as Validation
    from elman.training.task import generator as generator
    from elman.training.trainer import Trainer as Trainer

_MODULE_OF = {
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

__all__ = list(_MODULE_OF)


if not TYPE_CHECKING:  # a type checker reports names that do not exist

    def __getattr__(name: str) -> Any:
        if name not in _MODULE_OF:
            raise AttributeError(f"module 'elman.training' has no attribute {name!r}")
        return getattr(import_module(f"elman.training.{_MODULE_OF[name]}"), name)
