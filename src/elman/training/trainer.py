"""The loop: gradients, clipping, an update, and at their times validation, a sample, a row of metrics, a checkpoint.

Everything that the next update depends on is in capture(), and all cadences count steps: a run that was killed and
resumed from any checkpoint follows an uninterrupted one to the bit. Where several ranks train together, each runs this
same loop on the sums of their gradients; rank 0 tells the events and writes the files.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from elman.config import TrainingConfig
from elman.errors import ArgumentError, CheckpointError, DivergenceError
from elman.kernels import Rates, clip_by_norm, clip_by_value, update
from elman.maths.arrays import Array
from elman.maths.optimise import OPTIMISERS
from elman.training.distributed import World, world
from elman.training.divergence import diverged, is_good
from elman.training.events import Event, Finished, Listener, RolledBack, Saved, Started, Stepped
from elman.training.line import clear_lines
from elman.training.metrics import MetricsFile, row
from elman.training.progress import Progress
from elman.training.run import Checkpoint, Run
from elman.training.schedule import rate_factor
from elman.training.task import Task


class Snapshot(NamedTuple):
    arrays: dict[str, Array]
    facts: dict[str, Any]


class Trainer:
    def __init__(
        self,
        task: Task,
        config: TrainingConfig,
        *,
        steps: int,
        run: Run | None = None,
        listeners: Sequence[Listener] = (),
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self.task, self.config, self.steps, self.run = task, config, steps, run
        self.world = _shared_by(task)
        self.listeners, self.stopping = listeners if self.world.rank == 0 else (), stopping
        self.progress = Progress()
        self.retries, self.rate_factor = 0, 1.0  # a rollback keeps these two
        self.gradients = task.parameters.zeros()
        self.memory = {name: np.zeros_like(task.parameters.buffer) for name in OPTIMISERS[config.optimiser].memory}
        self.best = task.parameters.buffer.copy()
        self.snapshot: Snapshot | None = None
        self.metrics: MetricsFile | None = None
        self.seconds_before, self._taken = 0.0, 0  # by trainers before this one; steps, by this one
        self._saved: tuple[int, int] | None = None  # step and retries of the last checkpoint

    # -- what is kept -------------------------------------------------------------------------------------------------

    def capture(self) -> Snapshot:
        arrays, facts = self.task.state()
        memory = {f"optimiser.{name}": buffer for name, buffer in self.memory.items()}
        own = {"parameters": self.task.parameters.buffer, "best": self.best, **memory}
        task = {f"task.{name}": array for name, array in arrays.items()}
        copies = {name: array.copy() for name, array in {**own, **task}.items()}
        return Snapshot(copies, {"progress": asdict(self.progress), "task": facts})

    def restore(self, snapshot: Snapshot) -> None:
        arrays, facts = snapshot
        self.task.parameters.buffer[:] = arrays["parameters"]
        self.best[:] = arrays["best"]
        for name, buffer in self.memory.items():
            buffer[:] = arrays[f"optimiser.{name}"]
        task = {name.removeprefix("task."): array for name, array in arrays.items() if name.startswith("task.")}
        self.task.restore(task, facts["task"])
        self.progress = Progress.from_json(facts["progress"])

    def save(self) -> None:
        if self.run is None and self.world.size == 1:
            return
        self._copy_first()
        now, kept = self.capture(), self.snapshot or self.capture()
        self._saved = self.progress.step, self.retries
        if self.run is None or self.metrics is None:
            return
        arrays = now.arrays | {f"snapshot.{name}": array for name, array in kept.arrays.items()}
        facts = now.facts | {
            "snapshot": kept.facts,
            "retries": self.retries,
            "rate_factor": self.rate_factor,
            "steps": self.steps,
            "metrics_offset": self.metrics.sync(),
            "seconds": self._seconds(),
        }
        self._write_model()  # first: a checkpoint that says "finished" is never without its model
        self.run.save(self.progress.step, arrays, facts)
        self._emit(Saved(self.progress.step, self.run.path))

    def load(self, checkpoint: Checkpoint) -> int:
        """Go on from a checkpoint; the offset at which metrics.jsonl goes on."""
        shapes = {name: (a.shape, a.dtype) for name, a in self.capture().arrays.items()}
        arrays, facts = checkpoint.arrays(shapes | {f"snapshot.{n}": s for n, s in shapes.items()}), checkpoint.facts
        kept = {name.removeprefix("snapshot."): a for name, a in arrays.items() if name.startswith("snapshot.")}
        try:
            self.snapshot = Snapshot(kept, facts["snapshot"])
            self.restore(self.snapshot)  # a damaged one is found now, not when it is needed
            self.restore(Snapshot(arrays, facts))
            p = self.progress
            if p.finished == "patience" and p.step < self.steps != facts.get("steps", self.steps):
                p.finished, p.worse = None, 0  # another budget than it had: patience begins anew
            self.retries, self.rate_factor = int(facts["retries"]), float(facts["rate_factor"])
            self.seconds_before = float(facts["seconds"])
            self._saved = self.progress.step, self.retries
            offset = int(facts["metrics_offset"])
            if self.progress.step != checkpoint.step or not 0 < self.rate_factor <= 1 or offset < 0:
                raise ValueError(f"step {self.progress.step}, rate factor {self.rate_factor}, offset {offset}")
            return offset
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise CheckpointError(f"{checkpoint.path / 'state.json'} is damaged: {error!r}") from None

    # -- the loop -----------------------------------------------------------------------------------------------------

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")  # divergence is seen in the loss, not in warnings
    def train(self) -> Finished:
        """Run until the budget is spent, patience ends or somebody stops it."""
        self._started = time.perf_counter()
        checkpoint = self.world.first(self.run.newest() if self.run is not None and self.world.rank == 0 else None)
        offset = self.load(checkpoint) if checkpoint else 0
        if self.run is not None and self.world.rank == 0:
            self.metrics = MetricsFile(self.run.path / "metrics.jsonl", offset)
        p = self.progress
        self.world.agree({"the step of its checkpoint": p.step})
        self._copy_first()
        if p.finished == "budget" and p.step < self.steps:
            p.finished = None  # a larger budget than it had
        self._begin_row()
        try:
            size, where = self.gradients.buffer.size, self.run.path if self.run else None
            self._emit(Started(p.step, self.steps, size, where, p.finished))
            while self.progress.finished is None:
                self._step()
                if self.progress.finished is None and self.world.stop(self.stopping):
                    if self._saved != (self.progress.step, self.retries):
                        self.save()
                    return self._finish("interrupted")
            return self._finish(self.progress.finished)
        finally:
            clear_lines(self.listeners)
            if self.metrics is not None:
                self.metrics.close()

    def _step(self) -> None:
        c, p = self.config, self.progress
        if p.step >= self.steps:
            p.finished = "budget"
            return
        began = time.perf_counter()
        snapshot = self.capture() if p.step % c.snapshot_every == 0 and is_good(p, self.task.ignorance) else None
        self.gradients.buffer[:] = 0
        loss = self.task.add_gradients(self.gradients, p.step)
        loss = self.world.add_up(self.gradients.buffer, loss, self.stopping)
        norms = self._norms() if self._row_due(p.step + 1) else None
        if c.clip_value:
            clip_by_value(self.gradients.buffer, c.clip_value)
        norm = clip_by_norm(self.gradients.buffer, c.clip_norm or math.inf)
        if diverged(p, loss, norm, self.task.ignorance):
            self._roll_back(loss)
            return
        self.snapshot = snapshot or self.snapshot  # only now: its own loss is good
        rate = c.learning_rate * rate_factor(c, p.step, self.steps) * p.plateau_factor * self.rate_factor
        rates = Rates(rate, p.step + 1, c.momentum, c.second_moment, c.epsilon, c.weight_decay)
        update(c.optimiser, self.task.parameters.buffer, self.gradients.buffer, rates, list(self.memory.values()))
        p.step += 1
        self._count(time.perf_counter() - began)
        p.loss_sum, p.loss_count = p.loss_sum + loss, p.loss_count + 1
        self._after_update(loss, norm, norms, rate)

    def _after_update(self, loss: float, norm: float, norms: dict[str, float] | None, rate: float) -> None:
        """Validation, sample, row and checkpoint, each at its time."""
        c, p = self.config, self.progress
        last = p.step >= self.steps
        validation = self.task.validate() if last or p.step % c.validate_every == 0 else None
        best = validation is not None and self._judge(validation.loss)
        if last:
            p.finished = p.finished or "budget"
        sample = self.task.sample(p.step) if c.sample_every and (last or p.step % c.sample_every == 0) else None
        logged = p.finished is not None or p.step % c.log_every == 0 or validation is not None or sample is not None
        event = Stepped(
            step=p.step,
            epoch=p.step / self.task.steps_per_epoch,
            loss=p.loss_sum / p.loss_count if logged else loss,
            gradient_norm=norm,
            gradient_norms=norms if logged else None,
            learning_rate=rate,
            tokens_per_second=self._row_steps * self.task.tokens_per_step / max(self._row_seconds, 1e-9),
            seconds=self._seconds(),
            validation_loss=validation and validation.loss,
            validation_accuracy=validation and validation.accuracy,
            best=best,
            sample=sample,
            logged=logged,
        )
        if logged:
            p.loss_sum, p.loss_count = 0.0, 0
            self._begin_row()
            if self.metrics is not None:
                self.metrics.add(row(event))
        self._emit(event)
        if p.finished is not None or p.step % c.save_every == 0:
            self.save()

    def _judge(self, loss: float) -> bool:
        """Keep the best; count what is not better, for patience and for the plateau."""
        c, p = self.config, self.progress
        if math.isfinite(loss) and (p.best_loss is None or loss < p.best_loss):
            p.best_loss, p.best_step, p.worse, p.worse_rate = loss, p.step, 0, 0
            self.best[:] = self.task.parameters.buffer
            return True
        p.worse, p.worse_rate = p.worse + 1, p.worse_rate + 1
        if c.schedule == "plateau" and p.worse_rate >= c.plateau:
            p.plateau_factor, p.worse_rate = p.plateau_factor * c.decay, 0
        if c.patience is not None and p.worse >= c.patience:
            p.finished = "patience"
        return False

    def _roll_back(self, loss: float) -> None:
        at, c = self.progress.step, self.config
        if self.snapshot is None or self.retries >= c.retries:
            raise DivergenceError(
                f"The loss diverged at step {at} ({loss:.4g}), after {self.retries} tries with lower rates",
                do=f"Start again with a lower --learning-rate than {c.learning_rate:g}, or a lower --clip-norm.",
            )
        self.restore(self.snapshot)
        self._begin_row()
        self.retries, self.rate_factor = self.retries + 1, self.rate_factor / 2
        event = RolledBack(at, self.progress.step, loss, c.learning_rate * self.rate_factor, c.retries - self.retries)
        if self.metrics is not None:
            self.metrics.add({"event": "rolled back", **asdict(event)})
        self._emit(event)

    # -- the rest -----------------------------------------------------------------------------------------------------

    def _copy_first(self) -> None:
        """All ranks go on from rank 0's numbers, the saved ones: on another kind of CPU the last bits may drift."""
        for buffer in (self.task.parameters.buffer, self.best, *self.memory.values()):
            self.world.copy_first(buffer)

    def _write_model(self) -> None:
        if self.run is not None:
            model = self.task.parameters.zeros()
            model.buffer[:] = self.task.parameters.buffer if self.progress.best_loss is None else self.best
            self.run.write_model(model)

    def _finish(self, why: str) -> Finished:
        p = self.progress
        if why != "interrupted" and p.best_loss is not None:
            self.task.parameters.buffer[:] = self.best
        event = Finished(p.step, why, p.best_loss, p.best_step, self._seconds())
        self._emit(event)
        return event

    def _row_due(self, step: int) -> bool:
        """Whether the update of this number may end in a row: known before, because its gradient is then clipped."""
        each = self.config.log_every, self.config.validate_every, self.config.sample_every
        return step >= self.steps or any(every and step % every == 0 for every in each)

    def _norms(self) -> dict[str, float]:
        return {name: clip_by_norm(d.reshape(-1), math.inf) for name, d in self.gradients.items()}  # clips nothing

    def _begin_row(self) -> None:
        """Speed is that of the steps from one row to the next, without what is done between them."""
        self._row_steps, self._row_seconds = 0, 0.0

    def _count(self, seconds: float) -> None:
        """One step more. The first one may have to compile: as soon as there is another it is not counted."""
        self._taken += 1
        if self._taken == 2:
            self._begin_row()
        self._row_steps, self._row_seconds = self._row_steps + 1, self._row_seconds + seconds

    def _seconds(self) -> float:
        return self.seconds_before + time.perf_counter() - self._started

    def _emit(self, event: Event) -> None:
        for listener in self.listeners:
            listener(event)


def _shared_by(task: Task) -> World:
    """The world whose ranks train the task; a task that deals nothing to them would be trained n times over."""
    here = world()
    if here.size > 1 and getattr(task, "world", None) is not here:
        raise ArgumentError(f"{type(task).__name__} trains in one process", got=f"{here.size} ranks")
    return here
