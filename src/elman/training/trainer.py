"""The training loop: gradients, clipping, an update, and at intervals validation, a sample, metrics and a checkpoint.

Everything that the next update depends on is in the state, and all intervals are numbers of steps: a run that was
killed and resumed from any checkpoint equals an uninterrupted one, bit for bit. If several ranks train together, each
runs this loop on the sum of their gradients; rank 0 emits the events and writes the files.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict

import numpy as np

from elman.config import Config
from elman.errors import ArgumentError, CheckpointError, DivergenceError, option
from elman.kernels import Rates, clip_by_value, clip_in_place, update
from elman.training.distributed import World, world
from elman.training.divergence import diverged, is_good
from elman.training.events import Event, Failed, Finished, Listener, RolledBack, Saved, Started, Stepped
from elman.training.metrics import MetricsFile, first_row, row
from elman.training.run import Checkpoint, Run
from elman.training.schedule import rate_factor
from elman.training.signals import Stopping
from elman.training.state import State
from elman.training.task import Task, Validation


class Trainer:
    """Trains a task for a number of steps; with a `run`, it writes metrics and checkpoints to that folder.

    `validate_start` is for fine-tuning: the parameters that training starts from are validated too, and are the best
    ones until a later validation is better.
    """

    def __init__(
        self,
        task: Task,
        config: Config,
        *,
        steps: int,
        run: Run | None = None,
        validate_start: bool = False,
        listeners: Sequence[Listener] = (),
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self.task, self.config, self.steps, self.run = task, config, steps, run
        self.world, self.validate_start = _shared_by(task), validate_start
        self.listeners, self.stopping = listeners if self.world.rank == 0 else (), stopping
        self.state = State(task, config.optimizer)
        self.gradients = task.parameters.zeros()
        self.metrics: MetricsFile | None = None
        self.seconds_before, self._taken = 0.0, 0  # seconds before this trainer; steps that it has taken
        self._saved: tuple[int, int] | None = None  # the position of the last checkpoint, see _position
        self._last_loss: float | None = None  # the last validation loss

    # -- checkpoints ---------------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Write a checkpoint and the best model."""
        if self.run is None and self.world.size == 1:
            return
        self._broadcast_state()
        arrays, metadata = self.state.whole()  # on every rank, because it gathers the carried states of all ranks
        self._saved = self._position()
        if self.run is None or self.metrics is None:
            return
        metadata |= {"steps": self.steps, "metrics_offset": self.metrics.sync(), "seconds": self._seconds()}
        step = self.state.progress.step
        self._write_model()  # first, so that a complete checkpoint always has its model
        self.run.save(step, arrays, metadata)
        self._emit(Saved(step, self.run.path))

    def load(self, checkpoint: Checkpoint) -> int:
        """Restore a checkpoint and return the offset at which metrics.jsonl continues."""
        metadata = checkpoint.metadata
        try:
            self.state.load(checkpoint)
            self.seconds_before, offset = float(metadata["seconds"]), int(metadata["metrics_offset"])
            if offset < 0:
                raise ValueError(f"offset {offset}")
        except CheckpointError:
            raise  # its message names the file
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise CheckpointError(f"{checkpoint.path / 'state.json'} is damaged: {error!r}") from None
        self._saved = self._position()
        p = self.state.progress
        if p.finished == "budget" and p.step < self.steps:
            p.finished = None  # the budget is larger now
        if p.finished == "patience" and p.step < self.steps != metadata.get("steps", self.steps):
            self.state.reset_patience()  # the budget has changed
        return offset

    # -- the loop -----------------------------------------------------------------------------------------------------

    # without warnings, because divergence is detected from the loss and the gradient norm
    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def train(self) -> Finished:
        """Train until all steps are taken, the patience is used up or `stopping` returns True."""
        self._started = time.perf_counter()
        checkpoint = self.world.broadcast(self.run.newest() if self.run is not None and self.world.rank == 0 else None)
        offset = self.load(checkpoint) if checkpoint else 0
        if self.run is not None and self.world.rank == 0:
            self.metrics = MetricsFile(self.run.path / "metrics.jsonl", offset)
        p = self.state.progress
        self.world.agree({"the step of its checkpoint": p.step})
        self._broadcast_state()
        self._begin_row()
        try:
            size, where = self.gradients.buffer.size, self.run.path if self.run else None
            started = Started(p.step, self.steps, size, where, p.finished, self._validate_start())
            if self.metrics is not None and (first := first_row(started)):
                self.metrics.add(first)
            self._emit(started)
            while self.state.progress.finished is None:
                self._step()
                if self.state.progress.finished is None and self.world.stop(self.stopping):
                    if self._saved != self._position():
                        self.save()
                    return self._finish("interrupted")
            return self._finish(self.state.progress.finished)
        except BaseException as error:
            for listener in self.listeners:
                with contextlib.suppress(Exception):  # the first error is the one to report
                    listener(Failed(self.state.progress.step, error))
            raise
        finally:
            if self.metrics is not None:
                self.metrics.close()

    def _validate_start(self) -> Validation | None:
        """The validation of the parameters that training starts from, if it is wanted and no checkpoint has it yet."""
        p = self.state.progress
        if not self.validate_start or p.step or p.best_loss is not None:
            return None
        validation = self.task.validate()
        if validation is None or not math.isfinite(validation.loss):
            return None
        p.best_loss = validation.loss  # state.best holds the initial parameters
        return validation

    def _step(self) -> None:
        c, p = self.config, self.state.progress
        if p.step >= self.steps:
            p.finished = "budget"
            return
        began = time.perf_counter()
        good = self.state.capture() if p.step % c.snapshot_every == 0 and is_good(p, self.task.baseline_loss) else None
        loss = self.task.loss_and_gradients(self.gradients, p.step)
        loss = self.world.all_reduce(self.gradients.buffer, loss, self.stopping)
        norms = self._norms() if self._row_due(p.step + 1) else None
        if c.clip_value:
            clip_by_value(self.gradients.buffer, c.clip_value)
        norm = clip_in_place(self.gradients.buffer, math.inf)  # only computes the norm: the update clips by `scale`
        if diverged(p, loss, norm, self.task.baseline_loss):
            self._roll_back(loss)
            return
        if good is not None and not p.exploded:  # only after the loss of this step is known to be good
            self.state.good = good
        rate = c.learning_rate * rate_factor(c, p.step, self.steps) * p.plateau_factor * self.state.rate_factor
        scale = c.clip_norm / norm if 0 < c.clip_norm < norm else 1.0
        rates = Rates(rate, p.step + 1, c.beta1, c.beta2, c.epsilon, c.weight_decay, scale)
        update(c.optimizer, self.task.parameters.buffer, self.gradients.buffer, rates, list(self.state.memory.values()))
        p.step += 1
        if isinstance(self.stopping, Stopping):
            self.stopping.begun = True
        self._count(time.perf_counter() - began)
        p.loss_sum, p.loss_count = p.loss_sum + loss, p.loss_count + 1
        self._after_update(loss, norm, norms, rate)

    def _after_update(self, loss: float, norm: float, norms: dict[str, float] | None, rate: float) -> None:
        """Validate, sample, log and save, each at its interval."""
        c, p = self.config, self.state.progress
        last = p.step >= self.steps
        validation = self.task.validate() if last or p.step % c.validate_every == 0 else None
        best = validation is not None and self._record_validation(validation.loss)
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

    def _record_validation(self, loss: float) -> bool:
        """Keep the parameters if they are the best so far; otherwise count for patience and the plateau schedule."""
        c, p = self.config, self.state.progress
        self._last_loss = loss
        if math.isfinite(loss) and (p.best_loss is None or loss < p.best_loss):
            p.best_loss, p.best_step, p.worse, p.worse_rate = loss, p.step, 0, 0
            self.state.best[:] = self.task.parameters.buffer
            return True
        p.worse, p.worse_rate = p.worse + 1, p.worse_rate + 1
        if c.schedule == "plateau" and p.worse_rate >= c.plateau_patience:
            p.plateau_factor, p.worse_rate = p.plateau_factor * c.decay_factor, 0
        if c.patience and p.worse >= c.patience:
            p.finished = "patience"
        return False

    def _roll_back(self, loss: float) -> None:
        c, state = self.config, self.state
        at = state.progress.step
        if state.good is None or state.retries >= c.retries:
            clip = f"a lower {option('clip_norm')}" if c.clip_norm else f"a {option('clip_norm')} above 0"
            raise DivergenceError(
                f"Training diverged at step {at} (loss {loss:.4g}), after {state.retries} retries with lower learning "
                "rates",
                do=f"Start again with a {option('learning_rate')} below {c.learning_rate:g}, or with {clip}.",
            )
        state.go_back(state.good)
        self._begin_row()
        rate = c.learning_rate * state.rate_factor
        event = RolledBack(at, state.progress.step, loss, rate, c.retries - state.retries)
        if self.metrics is not None:
            self.metrics.add({"event": "rolled back", **asdict(event)})
        self._emit(event)

    # -- helpers -----------------------------------------------------------------------------------------------------

    def _broadcast_state(self) -> None:
        """Copy parameters and optimizer state of rank 0 to all ranks: on different CPUs the last bits may differ."""
        for buffer in (self.task.parameters.buffer, self.state.best, *self.state.memory.values()):
            self.world.broadcast_buffer(buffer)

    def _write_model(self) -> None:
        if self.run is not None:
            model = self.task.parameters.zeros()
            model.buffer[:] = self.task.parameters.buffer if self.state.progress.best_loss is None else self.state.best
            self.run.write_model(model)

    def _finish(self, why: str) -> Finished:
        p = self.state.progress
        if p.best_loss is not None:
            self.task.parameters.buffer[:] = self.state.best
        event = Finished(p.step, why, p.best_loss, p.best_step, self._seconds(), self._last_loss)
        self._emit(event)
        return event

    def _position(self) -> tuple[int, int]:
        """The step and the number of rollbacks, which together identify a state of the training."""
        return self.state.progress.step, self.state.retries

    def _row_due(self, step: int) -> bool:
        """Whether a row of metrics may be logged after this step; it needs the norms before the gradient is clipped."""
        intervals = self.config.log_every, self.config.validate_every, self.config.sample_every
        return step >= self.steps or any(every and step % every == 0 for every in intervals)

    def _norms(self) -> dict[str, float]:
        """The gradient norm of each parameter."""
        return {name: clip_in_place(d.reshape(-1), math.inf) for name, d in self.gradients.items()}

    def _begin_row(self) -> None:
        """Start to measure the speed between two rows of metrics, without the time of validation and saving."""
        self._row_steps, self._row_seconds = 0, 0.0

    def _count(self, seconds: float) -> None:
        """Count a step for the speed. The first one may compile: it is left out once there is a second one."""
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
    """The world whose ranks train the task; ArgumentError if the task does not split its batch among them."""
    here = world()
    if here.size > 1 and getattr(task, "world", None) is not here:
        raise ArgumentError(f"{type(task).__name__} trains in one process", got=f"{here.size} ranks")
    return here
