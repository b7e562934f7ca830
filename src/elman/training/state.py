"""The state of a training: everything that the next update depends on, and its form in a checkpoint."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from elman.maths.arrays import Array
from elman.maths.optimizers import OPTIMIZERS
from elman.training.progress import Progress
from elman.training.run import Checkpoint
from elman.training.task import Task


class Snapshot(NamedTuple):
    """The state of a training at one step."""

    arrays: dict[str, Array]
    metadata: dict[str, Any]  # what JSON can hold


class State:
    """The current state of a training, its best parameters, and the snapshot to roll back to."""

    def __init__(self, task: Task, optimizer: str) -> None:
        self.task, self.progress = task, Progress()
        # the state of the optimizer, such as the moments of Adam
        self.memory = {name: np.zeros_like(task.parameters.buffer) for name in OPTIMIZERS[optimizer].memory}
        self.best = task.parameters.buffer.copy()
        self.good: Snapshot | None = None  # the snapshot to which a diverged training returns
        self.retries, self.rate_factor = 0, 1.0  # a rollback does not restore these two

    def now(self) -> Snapshot:
        """The current state, with the arrays themselves, not copies: they change with the next step."""
        arrays, metadata = self.task.state()
        memory = {f"optimizer.{name}": buffer for name, buffer in self.memory.items()}
        own = {"parameters": self.task.parameters.buffer, "best": self.best, **memory}
        task = {f"task.{name}": array for name, array in arrays.items()}
        return Snapshot(own | task, {"progress": asdict(self.progress), "task": metadata})

    def capture(self) -> Snapshot:
        """A copy of the current state."""
        arrays, metadata = self.now()
        copies = {name: array.copy() for name, array in arrays.items()}
        return Snapshot(copies, metadata)

    def restore(self, snapshot: Snapshot) -> None:
        arrays, metadata = snapshot
        self.task.parameters.buffer[:] = arrays["parameters"]
        self.best[:] = arrays["best"]
        for name, buffer in self.memory.items():
            buffer[:] = arrays[f"optimizer.{name}"]
        task = {name.removeprefix("task."): array for name, array in arrays.items() if name.startswith("task.")}
        self.task.restore(task, metadata["task"])
        self.progress = Progress.from_json(metadata["progress"])

    def go_back(self, good: Snapshot) -> None:
        """Roll back to an earlier step after divergence, with half the learning rate."""
        self.restore(good)
        self.retries, self.rate_factor = self.retries + 1, self.rate_factor / 2

    def reset_patience(self) -> None:
        """Let a training continue although early stopping has ended it, or would end it soon."""
        self.progress.finished, self.progress.worse = None, 0
        if self.good is not None:
            self.good.metadata["progress"]["worse"] = 0

    def whole(self) -> Snapshot:
        """The content of a checkpoint: the current state and the snapshot to roll back to, without copies."""
        now = self.now()
        good = self.good or now
        arrays = now.arrays | {f"snapshot.{name}": array for name, array in good.arrays.items()}
        metadata = {"snapshot": good.metadata, "retries": self.retries, "rate_factor": self.rate_factor}
        return Snapshot(arrays, now.metadata | metadata)

    def load(self, checkpoint: Checkpoint) -> None:
        """Restore what whole() has returned; KeyError, TypeError, ValueError or OverflowError if it is damaged."""
        shapes = {name: (a.shape, a.dtype) for name, a in self.now().arrays.items()}
        arrays = checkpoint.arrays(shapes | {f"snapshot.{n}": s for n, s in shapes.items()})
        metadata = checkpoint.metadata
        good = {name.removeprefix("snapshot."): a for name, a in arrays.items() if name.startswith("snapshot.")}
        self.good = Snapshot(good, metadata["snapshot"])
        self.restore(self.good)  # so that an error in it is found now
        self.restore(Snapshot(arrays, metadata))
        self.retries, self.rate_factor = int(metadata["retries"]), float(metadata["rate_factor"])
        if self.progress.step != checkpoint.step or not 0 < self.rate_factor <= 1:
            raise ValueError(f"step {self.progress.step}, rate factor {self.rate_factor}")
