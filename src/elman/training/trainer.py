"""The loop: gradients, clipping, an update, and at their times validation, a sample, a row of metrics, a checkpoint.

Everything that the next update depends on is in capture(), and all cadences count steps: a run that was killed and
resumed from any checkpoint follows an uninterrupted one to the bit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from elman.config import TrainingConfig
from elman.errors import CheckpointError, DivergenceError
from elman.kernels import Rates, clip_by_norm, clip_by_value, update
from elman.maths.arrays import Array
from elman.maths.optimise import OPTIMISERS
from elman.training.events import Event, Finished, Listener, RolledBack, Saved, Started, Stepped
from elman.training.progress import Progress
from elman.training.run import Checkpoint, MetricsFile, Run
from elman.training.schedule import rate_factor
from elman.training.task import Task

EXPLODED = 2.0  # times the loss of ignorance, or times the best smoothed loss
GOOD = 1.1  # times the best smoothed loss: a state worth going back to
NOTHING = 0.1  # times the loss of ignorance: next to it a loss is so small that its double is no explosion
SMOOTHING = 0.98


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
        self.listeners, self.stopping = listeners, stopping
        self.progress = Progress()
        self.retries, self.rate_factor = 0, 1.0  # a rollback keeps these two
        self.gradients = task.parameters.zeros()
        memory = OPTIMISERS[config.optimiser].memory
        self.memory = {name: np.zeros_like(task.parameters.buffer) for name in memory}
        self.best = task.parameters.buffer.copy()
        self.snapshot: Snapshot | None = None
        self.metrics: MetricsFile | None = None
        self.seconds_before = 0.0
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
        if self.run is None or self.metrics is None:
            return
        now, kept = self.capture(), self.snapshot or self.capture()
        arrays = now.arrays | {f"snapshot.{name}": array for name, array in kept.arrays.items()}
        facts = now.facts | {
            "snapshot": kept.facts,
            "retries": self.retries,
            "rate_factor": self.rate_factor,
            "metrics_offset": self.metrics.sync(),
            "seconds": self._seconds(),
        }
        self._write_model()  # first: a checkpoint that says "finished" is never without its model
        self.run.save(self.progress.step, arrays, facts)
        self._saved = self.progress.step, self.retries
        self._emit(Saved(self.progress.step, self.run.path))

    def load(self, checkpoint: Checkpoint) -> int:
        """Go on from a checkpoint; the offset at which metrics.jsonl goes on."""
        own = self.capture().arrays
        shapes = {name: (a.shape, a.dtype) for name, a in own.items()}
        arrays = checkpoint.arrays(shapes | {f"snapshot.{name}": facts for name, facts in shapes.items()})
        facts = checkpoint.facts
        kept = {name.removeprefix("snapshot."): a for name, a in arrays.items() if name.startswith("snapshot.")}
        try:
            self.snapshot = Snapshot(kept, facts["snapshot"])
            self.restore(self.snapshot)  # a damaged one is found now, not when it is needed
            self.restore(Snapshot(arrays, facts))
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
        offset = 0
        if self.run is not None:
            checkpoint = self.run.newest()
            offset = self.load(checkpoint) if checkpoint else 0
            self.metrics = MetricsFile(self.run.path / "metrics.jsonl", offset)
        p = self.progress
        if p.finished == "budget" and p.step < self.steps:
            p.finished = None  # a larger budget than it had
        self._begin_row()
        try:
            where = self.run.path if self.run else None
            self._emit(Started(p.step, self.steps, self.task.parameters.buffer.size, where))
            while self.progress.finished is None:
                self._step()
                if self.progress.finished is None and self.stopping():
                    if self._saved != (self.progress.step, self.retries):
                        self.save()
                    return self._finish("interrupted")
            return self._finish(self.progress.finished)
        finally:
            if self.metrics is not None:
                self.metrics.close()

    def _step(self) -> None:
        c, p = self.config, self.progress
        if p.step >= self.steps:
            p.finished = "budget"
            return
        snapshot = self.capture() if p.step % c.snapshot_every == 0 and self._is_good() else None
        self.gradients.buffer[:] = 0
        loss = self.task.add_gradients(self.gradients, p.step)
        if c.clip_value:
            clip_by_value(self.gradients.buffer, c.clip_value)
        norm = clip_by_norm(self.gradients.buffer, c.clip_norm or math.inf)
        if self._diverged(loss, norm):
            self._roll_back(loss)
            return
        self.snapshot = snapshot or self.snapshot  # only now: its own loss is good
        rate = c.learning_rate * rate_factor(c, p.step, self.steps) * p.plateau_factor * self.rate_factor
        rates = Rates(rate, p.step + 1, c.momentum, c.second_moment, c.epsilon, c.weight_decay)
        update(c.optimiser, self.task.parameters.buffer, self.gradients.buffer, rates, list(self.memory.values()))
        p.step += 1
        p.loss_sum, p.loss_count = p.loss_sum + loss, p.loss_count + 1
        self._after_update(loss, norm, rate)

    def _after_update(self, loss: float, norm: float, rate: float) -> None:
        """Validation, sample, row and checkpoint, each at its time."""
        c, p = self.config, self.progress
        last = p.step >= self.steps
        validation = self.task.validate() if last or p.step % c.validate_every == 0 else None
        best = validation is not None and self._judge(validation)
        if last:
            p.finished = p.finished or "budget"
        sample = self.task.sample(p.step) if c.sample_every and (last or p.step % c.sample_every == 0) else None
        logged = p.finished is not None or p.step % c.log_every == 0 or validation is not None or sample is not None
        now = time.perf_counter()
        event = Stepped(
            step=p.step,
            epoch=p.step / self.task.steps_per_epoch,
            loss=p.loss_sum / p.loss_count if logged else loss,
            gradient_norm=norm,
            learning_rate=rate,
            tokens_per_second=(p.step - self._row_step) * self.task.tokens_per_step / max(now - self._row_time, 1e-9),
            seconds=self._seconds(),
            validation_loss=validation,
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

    def _judge(self, validation: float) -> bool:
        """Keep the best; count what is not better, for patience and for the plateau."""
        c, p = self.config, self.progress
        if math.isfinite(validation) and (p.best_loss is None or validation < p.best_loss):
            p.best_loss, p.best_step, p.worse, p.worse_rate = validation, p.step, 0, 0
            self.best[:] = self.task.parameters.buffer
            return True
        p.worse, p.worse_rate = p.worse + 1, p.worse_rate + 1
        if c.schedule == "plateau" and p.worse_rate >= c.plateau:
            p.plateau_factor, p.worse_rate = p.plateau_factor * c.decay, 0
        if c.patience is not None and p.worse >= c.patience:
            p.finished = "patience"
        return False

    # -- divergence ---------------------------------------------------------------------------------------------------

    def _is_good(self) -> bool:
        p = self.progress
        return p.smoothed is None or p.smoothed_best is None or not self._above(GOOD, p.smoothed, p.smoothed_best)

    def _above(self, times: float, loss: float, best: float) -> bool:
        floor = NOTHING * self.task.ignorance
        return loss + floor > times * (best + floor)

    def _diverged(self, loss: float, norm: float) -> bool:
        """Not finite, twice as bad as knowing nothing, or, smoothed, twice as bad as it has been."""
        p = self.progress
        if not (math.isfinite(loss) and math.isfinite(norm)) or loss > EXPLODED * self.task.ignorance + 1:
            return True
        p.smoothed = loss if p.smoothed is None else SMOOTHING * p.smoothed + (1 - SMOOTHING) * loss
        p.smoothed_best = p.smoothed if p.smoothed_best is None else min(p.smoothed_best, p.smoothed)
        return self._above(EXPLODED, p.smoothed, p.smoothed_best)

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

    def _begin_row(self) -> None:
        """Speed is measured from one row to the next."""
        self._row_time, self._row_step = time.perf_counter(), self.progress.step

    def _seconds(self) -> float:
        return self.seconds_before + time.perf_counter() - self._started

    def _emit(self, event: Event) -> None:
        for listener in self.listeners:
            listener(event)


def row(event: Stepped) -> dict[str, Any]:
    """A row of metrics.jsonl."""
    names = (
        "step",
        "epoch",
        "loss",
        "validation_loss",
        "gradient_norm",
        "learning_rate",
        "tokens_per_second",
        "seconds",
    )
    values = {name: getattr(event, name) for name in names}
    return values if event.sample is None else {**values, "sample": event.sample}
