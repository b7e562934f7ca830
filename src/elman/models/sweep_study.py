"""Optuna's study of a sweep (extra: sweep): its sampler, its processes and its trials.

All processes of a sweep share its folder. A process locks a file while it runs a trial, and the lock ends with the
process. A trial that is recorded as running, but whose lock is free, was killed: it is marked as failed, and its
options are tried again.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from elman.errors import CheckpointError, MissingExtraError, RunError
from elman.files import open_regular
from elman.models.sweep_space import Dimension

if sys.platform != "win32":
    import fcntl

JOURNAL = "journal.log"
DEFAULTS = "defaults"  # the attribute of the trial that has the default options
VALIDATIONS = 10  # the most validations of a trial, at equal intervals but perhaps the last
STARTUP_TRIALS = 5  # no trial is pruned until this many are complete: fewer are too few to compare with


def optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise MissingExtraError("Sweeps need Optuna", do="Install it: pip install 'elman[sweep]'") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)  # the command prints its own messages
    return optuna


class Lock:
    """A lock on a file. One process at a time can hold it, at most until it exits. On Windows it does nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO | None = None

    def acquire(self, *, wait: bool = True) -> bool:
        file = open_regular(self.path, write=True)
        try:
            if sys.platform != "win32":
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            file.close()
            return False
        self._file = file
        return True

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Lock:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class Study:
    """The Optuna study in an existing folder; the study is created if necessary."""

    def __init__(
        self,
        folder: Path,
        dimensions: Sequence[Dimension],
        *,
        seed: int,
        storage: Path | None = None,
        first: Mapping[str, Any] | None = None,  # the options of the first trial: the defaults
    ) -> None:
        self.seed, self._optuna = seed, optuna()
        self._states = self._optuna.trial.TrialState
        self._distributions = {dimension.name: self._distribution(dimension) for dimension in dimensions}
        self._locks = folder / "locks"
        self._locks.mkdir(exist_ok=True)
        self.decision_lock = Lock(self._locks / "asking")  # held while a decision depends on other trials
        with self.decision_lock:
            self.study = self._opened(storage or folder / JOURNAL)
            if first and not self.study.get_trials(deepcopy=False):
                fitting = {dimension.name: first[dimension.name] for dimension in dimensions if dimension.has(first)}
                self.study.enqueue_trial(fitting, user_attrs={DEFAULTS: len(fitting) == len(dimensions)})

    def _opened(self, path: Path) -> Any:
        o, lock = self._optuna, Lock(self._locks / "journal")
        journal = o.storages.journal
        # no trial is pruned before a fifth of its budget
        pruner = o.pruners.MedianPruner(n_startup_trials=STARTUP_TRIALS, n_warmup_steps=VALIDATIONS // 5)
        try:
            with lock:
                _remove_incomplete_line(path)
            storage = journal.JournalStorage(journal.JournalFileBackend(str(path), lock))
            # a journal in another folder may have the sweeps of several folders
            name = "sweep" if path.parent == self._locks.parent else f"sweep in {self._locks.parent.resolve()}"
            study = o.create_study(
                storage=storage, study_name=name, direction="minimize", pruner=pruner, load_if_exists=True
            )
            if not all(isinstance(loss_of(trial), int | float) for trial in study.get_trials(deepcopy=False)):
                raise TypeError("a loss that is not a number")
            return study
        except (RunError, OSError):
            raise
        except Exception:  # of many kinds: the file may be damaged in any way
            raise CheckpointError(f"{path} is damaged, or is not the journal of a sweep") from None

    def _distribution(self, dimension: Dimension) -> Any:
        kinds = self._optuna.distributions
        if dimension.choices:
            return kinds.CategoricalDistribution(dimension.choices)
        kind = kinds.IntDistribution if dimension.whole else kinds.FloatDistribution
        return kind(dimension.low, dimension.high, log=dimension.log)

    # -- trials -------------------------------------------------------------------------------------------------------

    @contextmanager
    def ask(self, total: int) -> Iterator[Any | None]:
        """The next trial, locked until the `with` block ends; None if `total` trials are finished or running.

        Killed trials are repeated.
        """
        with self.decision_lock:
            index = len(self.finished()) + len(self._running_elsewhere())
            trial = self._next(index) if index < total else None
            held = trial and Lock(self._locks / f"trial-{trial.number}")
            if held:
                held.acquire()
        try:
            yield trial
        finally:
            if held:
                held.release()
                held.path.unlink(missing_ok=True)

    def _next(self, index: int) -> Any:
        # The seed depends on the number of finished and running trials: two processes draw different options, and a
        # resumed sweep continues as it would have without the interruption.
        self.study.sampler = self._optuna.samplers.TPESampler(seed=(1000 * self.seed + index) % 2**32)
        return self.study.ask(self._distributions)

    def _running_elsewhere(self) -> list[Any]:
        """The trials that other processes run; those whose process was killed are marked as failed."""
        found = []
        for trial in self.study.get_trials(deepcopy=False, states=(self._states.RUNNING,)):
            lock = Lock(self._locks / f"trial-{trial.number}")
            if lock.acquire(wait=False):
                self._fail(trial)
                lock.release()
                lock.path.unlink(missing_ok=True)
            else:
                found.append(trial)
        return found

    def _fail(self, trial: Any) -> None:
        self.study.tell(trial.number, state=self._states.FAIL)
        known = {DEFAULTS: True} if trial.user_attrs.get(DEFAULTS) else {}
        self.study.enqueue_trial(trial.params, user_attrs=known)

    def fail(self, trial: Any) -> None:
        """Mark an interrupted trial as failed: its options will be tried again from the beginning."""
        with self.decision_lock:
            self._fail(trial)

    def tell(self, trial: Any, loss: float | None, **attributes: Any) -> bool:
        """Record the result of a trial; one without a loss is recorded as pruned. Returns whether it is the best."""
        with self.decision_lock:  # else a process that has just listed it as running might then find its lock free
            for name, value in attributes.items():
                trial.set_user_attr(name, value)
            self.study.tell(trial, loss, self._states.PRUNED if loss is None else None)
            best = self.best()
        return best is not None and bool(best.number == trial.number)

    def finished(self) -> list[Any]:
        """Finished trials, the best first, pruned ones last."""
        found = self.study.get_trials(deepcopy=False, states=(self._states.COMPLETE, self._states.PRUNED))
        return sorted(found, key=lambda trial: (trial.state != self._states.COMPLETE, loss_of(trial), trial.number))

    def running(self) -> list[Any]:
        found: list[Any] = self.study.get_trials(deepcopy=False, states=(self._states.RUNNING,))
        return found

    def with_defaults(self) -> Any | None:
        """The trial with the default options, if it was not pruned."""
        complete = self.study.get_trials(deepcopy=False, states=(self._states.COMPLETE,))
        return next((trial for trial in complete if trial.user_attrs.get(DEFAULTS)), None)

    def best(self) -> Any | None:
        """The best trial that was not pruned."""
        return next((trial for trial in self.finished() if trial.state == self._states.COMPLETE), None)


def loss_of(trial: Any) -> float:
    """The lowest validation loss of a trial; infinity if it has none."""
    values = [trial.value] if trial.value is not None else list(trial.intermediate_values.values())
    return min((value for value in values if value == value), default=float("inf"))


def _remove_incomplete_line(path: Path) -> None:
    """Remove the last line if it is incomplete, after a full disk for example."""
    if not os.path.lexists(path):
        return
    try:
        with open_regular(path, write=True) as file:
            data = file.read()
            if data and not data.endswith(b"\n"):
                file.truncate(data.rfind(b"\n") + 1)
                os.fsync(file.fileno())
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from None
