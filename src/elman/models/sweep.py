"""A sweep: hyperparameter search for a language model with Optuna (extra: sweep). Each trial is a training.

Optuna chooses the options of a trial, prunes it, and records all trials in a database. Several processes may work on a
sweep at once, and one that was stopped or killed can be resumed. The folder of a sweep has:

sweep.json      the text, the options that are the same for all trials, and the search space
trials.db       the database (SQLite), unless `storage` is the URL of another one
trial-N         the runs of the best trial and of running trials; all others are deleted
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import platform
import re
import shlex
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from elman.config import BUDGET, BY_FORM, Config, defaults, rate_for, to_json
from elman.data import Corpus
from elman.errors import ArgumentError, DataError, DivergenceError, MissingExtraError, RunError, StorageError, option
from elman.models import runs
from elman.models.sweep_space import Dimension
from elman.training.events import Event, Stepped
from elman.training.run import refuse_existing
from elman.training.storage import as_json, read_json, write_file

try:
    import optuna
    import sqlalchemy
    from optuna.trial import TrialState
except ImportError:
    raise MissingExtraError("Sweeps need Optuna", do="Install it: pip install 'elman[sweep]'") from None

if sys.platform != "win32":
    import fcntl

SETTINGS = "sweep.json"
DEFAULTS = "defaults"  # the attribute of the trial that has the default options
VALIDATIONS = 10  # the most validations of a trial, at equal intervals but perhaps the last
STARTUP_TRIALS = 5  # no trial is pruned until this many are complete: fewer are too few to compare with
HEARTBEAT = 10  # seconds between the signs of life of a trial; after three times as long another process retries it

optuna.logging.set_verbosity(optuna.logging.ERROR)  # the command prints its own messages


SweepListener: TypeAlias = Callable[[Event | optuna.Trial | optuna.trial.FrozenTrial], None]


class Sweep:
    """The sweep in a folder, which is created if it does not exist; an existing one must have the same settings."""

    def __init__(
        self,
        folder: Path,
        corpus: Corpus,
        config: Config,
        dimensions: Sequence[Dimension],
        *,
        storage: str | None = None,
    ) -> None:
        if not dimensions:
            raise ArgumentError(
                "there is nothing to search", do=f"Name an option: {option('search', 'learning_rate')}, for example."
            )
        if not config.validation_fraction:
            expected = "a number above 0, because a sweep compares validation losses"
            raise ArgumentError(option("validation_fraction"), expected=expected, got=0)
        self.folder = folder
        self.corpus = corpus
        self.config = config
        self.dimensions = dimensions
        self.here = None if storage is None else f"{platform.node()}:{folder.resolve()}"
        settings = {"text": corpus.name, "sha256": corpus.sha256, "search": list(map(str, dimensions))}
        settings |= to_json(config)
        # processes with the same settings share a study, even those of other folders if these have the same database
        self.name = f"{corpus.name}-{hashlib.sha256(as_json(settings)).hexdigest()[:8]}"
        with _database(folder):
            self.url = sqlalchemy.URL.create("sqlite", database=str(folder / "trials.db"))
            if storage is not None:
                self.url = sqlalchemy.make_url(storage)
                sqlalchemy.create_engine(self.url).connect().close()  # if this fails, nothing is created
        with _database(folder), _locked(folder, shared=False) as alone:
            _claim(folder, settings | {"storage": storage and self.url.render_as_string()})  # without the password
            self.study = _study(self.url, self.name)
            if not self.study.get_trials(deepcopy=False):  # the first has the defaults that are in the search space
                known = {one.name: value for one in dimensions if one.has(value := getattr(config, one.name))}
                self.study.enqueue_trial(known, user_attrs={DEFAULTS: len(known) == len(dimensions)})
            if alone:  # no process is left that could run the trials of this folder
                for trial in self._trials(TrialState.RUNNING):
                    if trial.user_attrs.get("folder") == self.here:
                        self._retry(trial)

    def run(
        self, trials: int, listener: SweepListener = lambda event: None, stopping: Callable[[], bool] = lambda: False
    ) -> bool:
        """Run trials until there are `trials` in all; returns False if it was stopped before.

        The listener is called with the events of all trainings, and with each trial when it begins and when it ends.
        """
        with _database(self.folder), _locked(self.folder, shared=True), contextlib.suppress(KeyboardInterrupt):
            self._delete_other_runs()  # those that killed processes have left
            while not stopping():
                optuna.storages.fail_stale_trials(self.study)
                if self.finished() + self.running() >= trials:
                    return True
                self._run_trial(trials, listener, stopping)
        return False

    def finished(self) -> int:
        return len(self._trials(TrialState.COMPLETE, TrialState.PRUNED))

    def running(self) -> int:
        return len(self._trials(TrialState.RUNNING))

    def ranking(self) -> list[Any]:
        """The trials that were trained to their end, the best first."""
        return sorted(self._trials(TrialState.COMPLETE), key=lambda trial: trial.value)

    def importance(self) -> dict[str, float]:
        """The share of the differences in loss that each option explains; empty if there are too few trials."""
        with warnings.catch_warnings(), contextlib.suppress(UserWarning):
            warnings.simplefilter("error", UserWarning)
            return optuna.importance.get_param_importances(self.study)
        return {}

    def run_folder(self, number: int) -> Path:
        return self.folder / f"trial-{number}"

    def _trials(self, *states: TrialState) -> list[Any]:
        return self.study.get_trials(deepcopy=False, states=states)

    # -- one trial ----------------------------------------------------------------------------------------------------

    def _run_trial(self, total: int, listener: SweepListener, stopping: Callable[[], bool]) -> None:
        number = None

        def objective(trial: optuna.Trial) -> float:
            nonlocal number
            number = trial.number
            return self._loss(trial, total, listener, stopping)

        def ended(study: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
            if trial.state != TrialState.FAIL:
                listener(trial)

        try:
            self.study.optimize(objective, n_trials=1, catch=_Surplus, callbacks=[ended])
        except (Exception, KeyboardInterrupt):  # Optuna has marked the trial as failed
            if number is None:
                raise
            trials = self.study.get_trials(deepcopy=False)
            if not any(number in trial.system_attrs.get("retry_history", []) for trial in trials):
                self._retry(trials[number])
                raise  # else this process was suspended, and another one has taken its trial over
        finally:
            self._delete_other_runs()

    def _loss(self, trial: optuna.Trial, total: int, listener: SweepListener, stopping: Callable[[], bool]) -> float:
        """The best validation loss of a trial; TrialPruned if it has none."""
        earlier = [t for t in self.study.get_trials(deepcopy=False)[: trial.number] if t.state != TrialState.FAIL]
        if len(earlier) >= total:
            raise _Surplus
        # The seed depends on the number of trials before it: two processes draw different options, and a resumed sweep
        # continues as it would have without the interruption.
        self.study.sampler = optuna.samplers.TPESampler(seed=(1000 * self.config.seed + len(earlier)) % 2**32)
        trial.set_user_attr("folder", self.here)
        params = {dimension.name: dimension.suggest(trial) for dimension in self.dimensions}
        reported = 0

        def report(event: Event) -> None:
            nonlocal reported
            if isinstance(event, Stepped) and event.validation_loss is not None:
                number = math.ceil(event.step / setup.config.validate_every)  # of this validation
                if number > reported:  # else it was reported before the training was rolled back
                    reported = number
                    trial.report(event.validation_loss, number)
                    if event.step != setup.config.steps and trial.should_prune():
                        raise optuna.TrialPruned

        try:
            setup = self._setup(params)
            trial.set_user_attr("flags", shlex.join(flags(setup.config)))
            listener(trial)
            out = self.run_folder(trial.number)
            finished = runs.start(setup, out=out, listeners=[report, listener], stopping=stopping).finished
            assert finished is not None
            if finished.why == "interrupted":
                raise KeyboardInterrupt
            if finished.best_loss is None:
                raise DivergenceError("no validation loss is a finite number")
        except (DivergenceError, ArgumentError, DataError) as error:
            why = "diverged" if isinstance(error, DivergenceError) else "impossible"
            trial.set_user_attr("why", f"{why}: {error}")
            raise optuna.TrialPruned from error
        return finished.best_loss

    def _setup(self, params: dict[str, Any]) -> runs.TextSetup:
        """The setup of a trial, with a budget in steps, so that it is reproducible.

        It has at most VALIDATIONS validations, unless validate_every has another value than its default.
        """
        rate = rate_for(self.config, params.get("optimizer", self.config.optimizer), params.get("cell"))
        setup = runs.text_setup(self.corpus, self.config.with_options(**{"learning_rate": rate, **params}))
        steps = runs.step_budget(setup, setup.new_task(setup.new_model()))
        options: dict[str, Any] = {"steps": steps, "epochs": None, "seconds": None}
        if self.config.validate_every == Config().validate_every:
            options["validate_every"] = math.ceil(steps / VALIDATIONS)
        if self.config.save_every == Config().save_every:
            options["save_every"] = steps
        return replace(setup, config=setup.config.with_options(**options))

    # -- all trials ---------------------------------------------------------------------------------------------------

    def _retry(self, trial: optuna.trial.FrozenTrial) -> None:
        """Mark a trial as failed, unless it is finished; its options will be tried again from the beginning."""
        failed = self.study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)
        if failed.state == TrialState.FAIL:
            optuna.storages.RetryHeartbeatStaleTrialCallback()(self.study, failed)

    def _delete_other_runs(self) -> None:
        """Delete all runs except that of the best trial and those of running trials."""
        paths = list(self.folder.iterdir())  # listed first: a trial that starts later is not in the list
        kept = {trial.number for trial in [*self.ranking()[:1], *self._trials(TrialState.RUNNING)]}
        for path in paths:
            match = re.fullmatch(r"\.?trial-(\d+)(\.[0-9a-f]+(\.old)?)?", path.name)
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


class _Surplus(Exception):
    """Several processes asked for the last trial at once."""


# -- the database -----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _database(folder: Path) -> Iterator[None]:
    """Raise StorageError if the database of the sweep in this folder fails."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # heartbeats
            yield
    except (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.StorageInternalError, ModuleNotFoundError) as error:
        cause = error.__cause__ or error
        raise StorageError(f"The database of {folder} cannot be used: {getattr(cause, 'orig', cause)}") from error


def _study(url: sqlalchemy.URL, name: str) -> optuna.Study:
    """The study of this name, which is created if it does not exist."""
    sqlite = url.get_backend_name() == "sqlite"
    storage = optuna.storages.RDBStorage(
        url.render_as_string(hide_password=False),
        engine_kwargs={"connect_args": {"timeout": 60}} if sqlite else None,
        heartbeat_interval=HEARTBEAT,
        grace_period=3 * HEARTBEAT,
        heartbeat_stale_trial_callback=optuna.storages.RetryHeartbeatStaleTrialCallback(),
    )
    if sqlite:  # it cannot lock a row: without a lock from the beginning, two processes might take the same trial
        sqlalchemy.event.listen(
            storage.engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE")
        )
    # no trial is pruned before a fifth of its budget
    pruner = optuna.pruners.MedianPruner(n_startup_trials=STARTUP_TRIALS, n_warmup_steps=VALIDATIONS // 5)
    return optuna.create_study(storage=storage, study_name=name, pruner=pruner, load_if_exists=True)


# -- the folder -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _locked(folder: Path, *, shared: bool) -> Iterator[bool]:
    """Create and lock a folder, alone unless `shared` or another process has it; yields whether it is alone.

    The lock ends with the process. Windows has no such locks.
    """
    if not folder.is_dir():
        refuse_existing(folder)
        folder.mkdir(parents=True, exist_ok=True)
    if sys.platform == "win32":
        yield True
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            shared = True
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield not shared
    finally:
        os.close(descriptor)


def _claim(folder: Path, settings: dict[str, Any]) -> None:
    """Write the settings into the folder, which must be empty; a sweep that is there must have the same settings."""
    if not (folder / SETTINGS).exists():
        refuse_existing(folder)
        write_file(folder / SETTINGS, as_json(settings))
    known = read_json(folder / SETTINGS)
    if known != settings:
        names = [name for name in settings if known.get(name) != settings[name]]
        raise RunError(
            f"{folder} is a sweep with other settings",
            got=", ".join(f"{name} was {known.get(name)!r} and is {settings[name]!r}" for name in names),
            do=f"Choose another folder, or continue with the same settings; {option('trials')} may differ.",
        )
