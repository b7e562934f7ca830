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
    arrays: dict[str, Array]
    facts: dict[str, Any]


class State:
    def __init__(self, task: Task, optimizer: str) -> None:
        self.task, self.progress = task, Progress()
        self.memory = {name: np.zeros_like(task.parameters.buffer) for name in OPTIMIZERS[optimizer].memory}
        self.best = task.parameters.buffer.copy()
        self.good: Snapshot | None = None  # the state to which a diverged training returns
        self.retries, self.rate_factor = 0, 1.0  # these two are kept when it returns

    def now(self) -> Snapshot:
        """The arrays themselves, not copies: they change with the next step."""
        arrays, facts = self.task.state()
        memory = {f"optimizer.{name}": buffer for name, buffer in self.memory.items()}
        own = {"parameters": self.task.parameters.buffer, "best": self.best, **memory}
        task = {f"task.{name}": array for name, array in arrays.items()}
        return Snapshot(own | task, {"progress": asdict(self.progress), "task": facts})

    def capture(self) -> Snapshot:
        arrays, facts = self.now()
        copies = {name: array.copy() for name, array in arrays.items()}
        return Snapshot(copies, facts)

    def restore(self, snapshot: Snapshot) -> None:
        arrays, facts = snapshot
        self.task.parameters.buffer[:] = arrays["parameters"]
        self.best[:] = arrays["best"]
        for name, buffer in self.memory.items():
            buffer[:] = arrays[f"optimizer.{name}"]
        task = {name.removeprefix("task."): array for name, array in arrays.items() if name.startswith("task.")}
        self.task.restore(task, facts["task"])
        self.progress = Progress.from_json(facts["progress"])

    def go_back(self, good: Snapshot) -> None:
        """Return to an earlier step after divergence, with half the learning rate."""
        self.restore(good)
        self.retries, self.rate_factor = self.retries + 1, self.rate_factor / 2

    def reset_patience(self) -> None:
        self.progress.finished, self.progress.worse = None, 0
        if self.good is not None:
            self.good.facts["progress"]["worse"] = 0

    def whole(self) -> Snapshot:
        """The content of a checkpoint: the current state and the one to roll back to, without copies."""
        now = self.now()
        good = self.good or now
        arrays = now.arrays | {f"snapshot.{name}": array for name, array in good.arrays.items()}
        facts = {"snapshot": good.facts, "retries": self.retries, "rate_factor": self.rate_factor}
        return Snapshot(arrays, now.facts | facts)

    def load(self, checkpoint: Checkpoint) -> None:
        """Restore what whole() has returned; KeyError, TypeError, ValueError or OverflowError if it is damaged."""
        shapes = {name: (a.shape, a.dtype) for name, a in self.now().arrays.items()}
        arrays, facts = checkpoint.arrays(shapes | {f"snapshot.{n}": s for n, s in shapes.items()}), checkpoint.facts
        good = {name.removeprefix("snapshot."): a for name, a in arrays.items() if name.startswith("snapshot.")}
        self.good = Snapshot(good, facts["snapshot"])
        self.restore(self.good)  # so that damage is found now
        self.restore(Snapshot(arrays, facts))
        self.retries, self.rate_factor = int(facts["retries"]), float(facts["rate_factor"])
        if self.progress.step != checkpoint.step or not 0 < self.rate_factor <= 1:
            raise ValueError(f"step {self.progress.step}, rate factor {self.rate_factor}")
