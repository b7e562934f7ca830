"""A sweep: hyperparameter search for a language model. Each trial is a training with options of its own.

On Linux and macOS several processes may work on a sweep at once. A sweep that was stopped or killed can be resumed. Its
folder has:

sweep.json      the text, the options that are the same for all trials, and the search space
journal.log     Optuna's record of all trials, unless `storage` names another file
locks           lock files: one for each running trial, one for the journal, one for decisions
trial-N         the runs of the best trial and of running trials; all others are deleted
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import shlex
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from elman.config import BUDGET, BY_FORM, Config, defaults, rate_for, to_json
from elman.data import Corpus
from elman.errors import ArgumentError, DataError, DivergenceError, RunError, StorageError, option
from elman.files import temporary_name
from elman.models import runs
from elman.models.sweep_space import Dimension
from elman.models.sweep_study import VALIDATIONS, Study, optuna
from elman.training.events import Event, Stepped
from elman.training.run import refuse_existing
from elman.training.storage import as_json, read_json, write_file

FORMAT = 1
SETTINGS = "sweep.json"


@dataclass(frozen=True)
class TrialStarted:
    """A trial begins."""

    number: int
    config: Config


@dataclass(frozen=True)
class TrialEnded:
    """A trial has ended."""

    number: int
    why: str  # "done", "pruned", "diverged", "impossible"
    loss: float | None  # the best validation loss; None unless `why` is "done"
    best: bool  # whether it is the best trial so far
    seconds: float
    note: str = ""  # why the trial diverged or is impossible


SweepListener: TypeAlias = Callable[[Event | TrialStarted | TrialEnded], None]


class Sweep:
    """The sweep in a folder, which is created if it does not exist; an existing one must have the same settings."""

    def __init__(
        self,
        folder: Path,
        corpus: Corpus,
        config: Config,
        dimensions: Sequence[Dimension],
        *,
        storage: Path | None = None,
    ) -> None:
        if not dimensions:
            raise ArgumentError(
                "there is nothing to search", do=f"Name an option: {option('search', 'learning_rate')}, for example."
            )
        if not config.validation_fraction:
            expected = "a number above 0, because a sweep compares validation losses"
            raise ArgumentError(option("validation_fraction"), expected=expected, got=0)
        optuna()  # raises an error if it is missing, before anything is created
        self.folder, self.corpus, self.config = folder, corpus, config
        settings = {
            "format": FORMAT,
            "corpus": {"name": corpus.name, "source": corpus.source, "sha256": corpus.sha256},
            "config": to_json(config),
            "search": {dimension.name: dimension.to_json() for dimension in dimensions},
            "storage": None if storage is None else os.path.abspath(storage),
        }
        _claim(folder, settings)
        self.study = Study(folder, dimensions, seed=config.seed, storage=storage, first=config.options())

    def run(
        self, trials: int, listener: SweepListener = lambda event: None, stopping: Callable[[], bool] = lambda: False
    ) -> bool:
        """Run trials until there are `trials` in all; returns False if it was stopped before."""
        while not stopping():
            with self.study.ask(trials) as trial:
                if trial is None:
                    return True
                self._delete_other_runs()  # those that killed processes have left
                if not self._run_trial(trial, listener, stopping):
                    return False
        return False

    def best_run(self) -> Path | None:
        best = self.study.best()
        return None if best is None else self._run_folder(best.number)

    # -- one trial ----------------------------------------------------------------------------------------------------

    def _run_trial(self, trial: Any, listener: SweepListener, stopping: Callable[[], bool]) -> bool:
        """Run a trial; returns False if it was stopped. An incomplete run folder is always deleted."""
        began, out = time.perf_counter(), self._run_folder(trial.number)
        loss, why, note, words = None, "done", "", list[str]()
        try:
            prepared = self._prepared(trial.params)
            words = flags(prepared.config)
            listener(TrialStarted(trial.number, prepared.config))
            pruner = _Pruner(trial, prepared.config)
            finished = runs.start(prepared, out=out, listeners=[pruner, listener], stopping=stopping).finished
            assert finished is not None
            if finished.why == "interrupted":
                raise _Interrupted
            loss = finished.best_loss
            if loss is None:
                why, note = "diverged", "no validation loss is a finite number"
        except optuna().TrialPruned:
            why = "pruned"
        except (DivergenceError, ArgumentError, DataError) as error:
            why, note = "diverged" if isinstance(error, DivergenceError) else "impossible", str(error)
        except BaseException as error:
            shutil.rmtree(out, ignore_errors=True)
            with contextlib.suppress(OSError):  # the disk may be full
                self.study.fail(trial)
            if isinstance(error, _Interrupted):
                return False
            raise
        seconds = time.perf_counter() - began
        if loss is None:
            shutil.rmtree(out, ignore_errors=True)
        best = self.study.tell(trial, loss, why=why, note=note, seconds=seconds, flags=shlex.join(words))
        self._delete_other_runs()
        listener(TrialEnded(trial.number, why, loss, best, seconds, note))
        return True

    def _prepared(self, params: dict[str, Any]) -> runs.TextSetup:
        """The setup of a trial, with a budget in steps, so that it is reproducible.

        It has at most VALIDATIONS validations, unless validate_every has another value than its default.
        """
        rate = rate_for(self.config, params.get("optimizer", self.config.optimizer), params.get("cell"))
        prepared = runs.text_setup(self.corpus, self.config.with_options(**{"learning_rate": rate, **params}))
        steps = runs.step_budget(prepared, prepared.new_task(prepared.new_model()))
        options: dict[str, Any] = {"steps": steps, "epochs": None, "seconds": None}
        if self.config.validate_every == Config().validate_every:
            options["validate_every"] = math.ceil(steps / VALIDATIONS)
        if self.config.save_every == Config().save_every:
            options["save_every"] = steps
        return replace(prepared, config=prepared.config.with_options(**options))

    # -- the folder ---------------------------------------------------------------------------------------------------

    def _run_folder(self, number: int) -> Path:
        return self.folder / f"trial-{number}"

    def _delete_other_runs(self) -> None:
        """Delete all runs except that of the best trial and those of running trials."""
        with self.study.decision_lock:
            best = self.study.best()
            kept = {trial.number for trial in self.study.running()} | ({best.number} if best else set())
            for path in self.folder.iterdir():
                match = re.fullmatch(r"\.?trial-(\d+)(\.\d+(\.old)?)?", path.name)
                if match and int(match[1]) not in kept:
                    shutil.rmtree(path, ignore_errors=True)


def flags(config: Config) -> list[str]:
    """The flags of elman train for this config, with all those whose default depends on the text."""
    usual, words = defaults("lm") | dict.fromkeys([*BUDGET, *BY_FORM["lm"]]), list[str]()
    for name, value in config.options().items():
        if value != usual[name]:
            words.append(f"--{name.replace('_', '-')}")
            words += [] if value is True else [str(value)]
    return words


class _Interrupted(Exception):
    """The sweep was stopped in the middle of a trial."""


class _Pruner:
    """Reports each validation loss to Optuna, and ends a trial that Optuna prunes."""

    def __init__(self, trial: Any, config: Config) -> None:
        self.trial, self.config = trial, config
        self.reported = 0

    def __call__(self, event: Event) -> None:
        if not isinstance(event, Stepped) or event.validation_loss is None:
            return
        number = math.ceil(event.step / self.config.validate_every)  # of this validation
        if number <= self.reported:  # reported before the training was rolled back
            return
        self.reported = number
        self.trial.report(event.validation_loss, number)
        if event.step != self.config.steps and self.trial.should_prune():
            raise optuna().TrialPruned


def _claim(folder: Path, settings: dict[str, Any]) -> None:
    """Create the folder with its settings atomically; an existing one must have the same settings."""
    if not (folder / SETTINGS).exists():
        refuse_existing(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = temporary_name(folder)
        try:
            temporary.mkdir()
            write_file(temporary / SETTINGS, as_json(settings))
            with contextlib.suppress(OSError):  # another process was first
                os.rename(temporary, folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        if not (folder / SETTINGS).exists():
            raise StorageError(f"{folder} could not be created")
    known = read_json(folder / SETTINGS)
    if other := _differences(known, settings):
        raise RunError(
            f"{folder} is a sweep with other settings",
            got=", ".join(other),
            do=f"Choose another folder, or continue with the same settings; {option('trials')} may differ.",
        )


def _differences(known: object, now: object, where: str = "") -> list[str]:
    """The differences between two nested dicts, in words."""
    if not isinstance(known, dict) or not isinstance(now, dict):
        return [] if known == now else [f"{where.strip('.')} was {known!r} and is {now!r}"]
    names = dict.fromkeys([*known, *now])
    return [line for name in names for line in _differences(known.get(name), now.get(name), f"{where}.{name}")]
