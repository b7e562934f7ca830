"""Optuna's study of a sweep (extra: sweep): its sampler, its processes and its trials.

All processes of a sweep share its folder. A trial is held by a lock on a file, which goes with the process: a trial
that is said to run, but whose lock is free, was killed. It is given up, and its choices are tried anew.
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
DEFAULTS = "defaults"  # the attribute of the trial that has the default choices
VALIDATIONS = 10  # of each trial, at equal shares of its budget
FIRST = 5  # trials that are never cut short: there is nothing yet to judge them by


def optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise MissingExtraError("Sweeps need Optuna", do="Install it: pip install 'elman[sweep]'") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)  # what it would say, the command says
    return optuna


class Lock:
    """One process at a time; it goes with the process that holds it. On Windows, which has none such, nobody waits."""

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
    """The study in a folder that exists; the study itself is made if it is not there."""

    def __init__(
        self,
        folder: Path,
        dimensions: Sequence[Dimension],
        *,
        seed: int,
        storage: Path | None = None,
        first: Mapping[str, Any] | None = None,  # the choices of the first trial: the defaults
    ) -> None:
        self.seed, self._optuna = seed, optuna()
        self._states = self._optuna.trial.TrialState
        self._distributions = {dimension.name: self._distribution(dimension) for dimension in dimensions}
        self._locks = folder / "locks"
        self._locks.mkdir(exist_ok=True)
        self.asking = Lock(self._locks / "asking")  # held while anything is decided that depends on other trials
        with self.asking:
            self.study = self._opened(storage or folder / JOURNAL)
            if first and not self.study.get_trials(deepcopy=False):
                fitting = {dimension.name: first[dimension.name] for dimension in dimensions if dimension.has(first)}
                self.study.enqueue_trial(fitting, user_attrs={DEFAULTS: len(fitting) == len(dimensions)})

    def _opened(self, path: Path) -> Any:
        o, lock = self._optuna, Lock(self._locks / "journal")
        journal = o.storages.journal
        pruner = o.pruners.MedianPruner(n_startup_trials=FIRST, n_warmup_steps=VALIDATIONS // 5)
        try:
            with lock:
                _mend(path)
            storage = journal.JournalStorage(journal.JournalFileBackend(str(path), lock))
            # a journal that lies elsewhere may hold the sweeps of several folders
            name = "sweep" if path.parent == self._locks.parent else f"sweep in {self._locks.parent.resolve()}"
            study = o.create_study(
                storage=storage, study_name=name, direction="minimize", pruner=pruner, load_if_exists=True
            )
            if not all(isinstance(loss_of(trial), int | float) for trial in study.get_trials(deepcopy=False)):
                raise TypeError("a loss that is no number")
            return study
        except (RunError, OSError):
            raise
        except Exception:  # of many kinds: a file may hold anything
            raise CheckpointError(f"{path} is damaged, or is no journal of a sweep") from None

    def _distribution(self, dimension: Dimension) -> Any:
        kinds = self._optuna.distributions
        if dimension.choices:
            return kinds.CategoricalDistribution(dimension.choices)
        kind = kinds.IntDistribution if dimension.whole else kinds.FloatDistribution
        return kind(dimension.low, dimension.high, log=dimension.log)

    # -- trials -------------------------------------------------------------------------------------------------------

    @contextmanager
    def ask(self, total: int) -> Iterator[Any | None]:
        """The next trial, held until the block ends; None if all are done or at work. What was killed comes anew."""
        with self.asking:
            index = len(self.finished()) + len(self._at_work())
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
        # The seed follows from how many there are: two processes draw differently, and a sweep that was stopped goes on
        # as it would have.
        self.study.sampler = self._optuna.samplers.TPESampler(seed=(1000 * self.seed + index) % 2**32)
        return self.study.ask(self._distributions)

    def _at_work(self) -> list[Any]:
        """Those that other processes hold; those that nobody holds are given up."""
        found = []
        for trial in self.study.get_trials(deepcopy=False, states=(self._states.RUNNING,)):
            lock = Lock(self._locks / f"trial-{trial.number}")
            if lock.acquire(wait=False):
                self._give_up(trial)
                lock.release()
                lock.path.unlink(missing_ok=True)
            else:
                found.append(trial)
        return found

    def _give_up(self, trial: Any) -> None:
        self.study.tell(trial.number, state=self._states.FAIL)
        known = {DEFAULTS: True} if trial.user_attrs.get(DEFAULTS) else {}
        self.study.enqueue_trial(trial.params, user_attrs=known)

    def give_up(self, trial: Any) -> None:
        """It was interrupted: the same choices will be tried anew, from the beginning."""
        with self.asking:
            self._give_up(trial)

    def tell(self, trial: Any, loss: float | None, **facts: Any) -> bool:
        """How it ended, without a loss if it was cut short; whether it is the best."""
        with self.asking:  # else another process might find it running and its lock free
            for name, fact in facts.items():
                trial.set_user_attr(name, fact)
            self.study.tell(trial, loss, self._states.PRUNED if loss is None else None)
            best = self.best()
        return best is not None and bool(best.number == trial.number)

    def finished(self) -> list[Any]:
        """Trials that came to an end, the best first, those that were cut short last."""
        found = self.study.get_trials(deepcopy=False, states=(self._states.COMPLETE, self._states.PRUNED))
        return sorted(found, key=lambda trial: (trial.state != self._states.COMPLETE, loss_of(trial), trial.number))

    def running(self) -> list[Any]:
        found: list[Any] = self.study.get_trials(deepcopy=False, states=(self._states.RUNNING,))
        return found

    def with_defaults(self) -> Any | None:
        """The trial with the default choices, if it was trained to its end."""
        complete = self.study.get_trials(deepcopy=False, states=(self._states.COMPLETE,))
        return next((trial for trial in complete if trial.user_attrs.get(DEFAULTS)), None)

    def best(self) -> Any | None:
        """The best of those that were trained to their end."""
        return next((trial for trial in self.finished() if trial.state == self._states.COMPLETE), None)


def loss_of(trial: Any) -> float:
    """The lowest validation loss."""
    values = [trial.value] if trial.value is not None else list(trial.intermediate_values.values())
    return min((value for value in values if value == value), default=float("inf"))


def _mend(path: Path) -> None:
    """A full disk may have left half a line at the end: it goes."""
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
