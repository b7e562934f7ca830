"""Training: the loop, its events, checkpoints and run folders."""

from elman.training.events import Event, Finished, Listener, RolledBack, Saved, Started, Stepped
from elman.training.run import Run
from elman.training.task import Task, generator
from elman.training.trainer import Trainer

__all__ = [
    "Event",
    "Finished",
    "Listener",
    "RolledBack",
    "Run",
    "Saved",
    "Started",
    "Stepped",
    "Task",
    "Trainer",
    "generator",
]
