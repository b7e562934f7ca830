"""What the models of whole sequences share as scikit-learn estimators.

A constructor only stores its arguments, which are the options of elman.config with the defaults of the model's task
(models/signatures.py, made by scripts/generate).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from elman.config import OPTIONS, Config, is_whole, resolve
from elman.data.examples import Examples
from elman.data.inputs import few, form_of, number_sequences
from elman.errors import ArgumentError, NotFiniteError
from elman.maths.arrays import Array
from elman.models import sequence_run
from elman.models.class_weights import from_pairs, to_pairs
from elman.models.predictors import Predictor
from elman.models.sequence_run import Fitted
from elman.models.task_spec import Terms
from elman.training.events import Listener
from elman.training.signals import raise_if_interrupted, stop_on_interrupt
from elman.training.trainer import Trainer

FIXED = {name for name, option in OPTIONS.items() if option.fixed}  # what a model is made of: partial_fit keeps it
PASS = {"schedule": "constant", "warmup_steps": 0, "validation_fraction": 0.0}  # one pass has no plan for the next ones
OVERRULED = ("epochs", *PASS)  # arguments of which a config may say otherwise


class SequenceEstimator(BaseEstimator, Predictor):  # type: ignore[misc]
    random_state: Any

    _memory: tuple[str, dict[str, Array]]  # an optimizer and its own, from one partial_fit to the next
    _steps: int
    _passes: int

    @classmethod
    @cache
    def defaults(cls) -> dict[str, Any]:
        """All arguments of the constructor with their defaults."""
        return {name: each.default for name, each in inspect.signature(cls).parameters.items()}

    def _config(self) -> Config:
        given = {name: getattr(self, name) for name in self.defaults() if name in OPTIONS}
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        return resolve(self.task, given | {"seed": seed})

    # -- learning -----------------------------------------------------------------------------------------------------

    def _learn(
        self,
        terms: Terms,
        examples: Examples,
        config: Config,
        *,
        out: str | Path | None = None,
        force: bool = False,
        source: dict[str, Any] | None = None,
        listeners: Sequence[Listener] = (),
        stopping: Callable[[], bool] | None = None,  # None: Ctrl-C
    ) -> Self:
        sequence_run.check_size(terms, config, examples)
        fitted = sequence_run.new_fitted(terms, config)
        fitted.told = self._told(config)
        with stop_on_interrupt() if stopping is None else nullcontext(stopping) as asked:
            sequence_run.start(
                fitted, examples, out=Path(out) if out else None, force=force, source=source,
                listeners=listeners, stopping=asked,
            )  # fmt: skip
        for name in ("_memory", "_steps", "_passes"):  # of partial_fit: this is a new beginning
            self.__dict__.pop(name, None)
        self._take(fitted)
        if stopping is None and fitted.finished is not None:
            raise_if_interrupted(fitted.finished)
        return self

    def _learn_more(self, terms: Terms, examples: Examples, config: Config) -> Self:
        """One pass over the examples, from where the last one ended, at the full rate.

        The optimizer's memory is not saved: after a load, as after a fit, it begins with none; n_iter_ counts on.
        """
        if not hasattr(self, "fitted_"):
            self._take(sequence_run.new_fitted(terms, config))
        fitted = self.fitted_
        fitted.config = self._config_now(config)
        fitted.told = self._told(fitted.config)
        task = sequence_run.new_task(fitted, examples)
        trainer = Trainer(task, fitted.config.training, steps=0)
        optimizer = fitted.config.training.optimizer
        same = hasattr(self, "_memory") and self._memory[0] == optimizer
        taken = fitted.before if same else fitted.steps  # which the trainer does not count
        if same:  # another one begins with no memory, at its first step
            trainer.state.memory, trainer.state.progress.step = self._memory[1], self._steps
            task.numbered = self._steps * fitted.config.training.accumulate
        task.passes = getattr(self, "_passes", 0)
        trainer.steps = trainer.state.progress.step + math.ceil(task.steps_per_epoch)
        fitted.before, fitted.finished = taken, trainer.train()
        self._memory = optimizer, trainer.state.memory
        self._steps, self._passes = trainer.state.progress.step, task.passes + 1
        return self._take(fitted)

    def _config_now(self, config: Config) -> Config:
        """Of one more pass: what set_params has changed since the first one counts, unless the model is made of it."""
        before, now = self.fitted_.config.options(), config.options()
        own = [name for name in now if name in self.defaults()]
        for name in own:
            if now[name] != before[name] and name in FIXED:
                expected = f"{before[name]!r}, as when learning began"
                raise ArgumentError(name, expected=expected, got=repr(now[name]), do="fit begins anew.")
        seed = now["seed"] if is_whole(self.random_state) else before["seed"]
        return self.fitted_.config.with_options(**{name: now[name] for name in own} | PASS, seed=seed)

    def _told(self, config: Config) -> dict[str, Any]:
        """What the config does not say of the arguments, as JSON can keep it."""
        given, said = {name: getattr(self, name) for name in OVERRULED}, config.options()
        told = {name: np.asarray(value).item() for name, value in given.items() if value != said[name]}
        if self.random_state is None or is_whole(self.random_state):
            told["random_state"] = None if self.random_state is None else int(self.random_state)
        if "class_weight" in self.defaults():
            told["class_weight"] = to_pairs(self.class_weight)
        return told

    def _take(self, fitted: Fitted) -> Self:
        self.n_iter_ = fitted.steps
        return super()._take(fitted)

    # -- using --------------------------------------------------------------------------------------------------------

    def _is_fitted(self) -> Fitted:
        check_is_fitted(self, "fitted_")
        fitted: Fitted = self.fitted_
        return fitted

    def _sequences(self, X: Any, *, reset: bool) -> Any:
        """The sequences as lists; a table of numbers is checked as scikit-learn checks it: one number a step."""
        if reset:
            for name in ("n_features_in_", "feature_names_in_"):  # of an earlier fit
                self.__dict__.pop(name, None)
        if _is_text(X):
            X = np.asarray(X).tolist()
        if isinstance(X, str | bytes):
            form_of(X)  # which refuses it
        if isinstance(X, list | tuple):
            if not len(X) or form_of(X) != "numbers":
                return X
            lengths = {len(row) for row in X if np.ndim(row) == 1}
            if reset and len(lengths) == 1 and all(np.ndim(row) == 1 for row in X):
                self.n_features_in_ = lengths.pop()  # a table, to which tables are held; lists may have any length
            return number_sequences(X)
        if isinstance(X, np.ndarray) and X.ndim == 3 and X.dtype.kind in "biuf":
            if not np.isfinite(X).all():
                raise NotFiniteError("X", expected="finite numbers", got="NaN or infinity")
            if reset:
                self.n_features_in_ = X.shape[2]
            return X
        checked = validate_data(self, X, reset=reset, dtype=np.float64, skip_check_array=False)
        return checked[:, :, np.newaxis]  # (n, T, 1)

    # -- keeping ------------------------------------------------------------------------------------------------------

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write a run folder: enough to load, use and export, without the optimizer's memory. Nothing is pickled."""
        return sequence_run.save(self._is_fitted(), Path(path), force=force).path

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The best model of a run, or a saved one."""
        run, fitted = cls._found(path)
        known = {name: value for name, value in fitted.config.options().items() if name in cls.defaults()}
        told = {"random_state": fitted.config.training.seed} | fitted.told
        if "class_weight" in cls.defaults():
            known["class_weight"] = from_pairs(told.get("class_weight"))
        known |= {name: told[name] for name in OVERRULED if name in told}
        model = cls(**known, random_state=told["random_state"])
        model._take(fitted)
        model.run_ = run
        return model

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.three_d_array = True
        tags.non_deterministic = False
        return tags


def _is_text(X: Any) -> bool:
    """Strings, or rows of strings, in an array or in a column of a table."""
    if isinstance(X, list | tuple) or not hasattr(X, "__array__") or getattr(X, "ndim", 0) not in (1, 2):
        return False
    array = np.asarray(X)
    return array.dtype.kind == "U" or (array.dtype.kind == "O" and array.size > 0 and isinstance(array.flat[0], str))


def no_targets(what: str) -> ArgumentError:
    return ArgumentError(f"y should be {what}: learning requires y to be passed, but the target y is None")


def same_classes(classes: Any, known: Array) -> None:
    """Later calls of partial_fit may name them again, but no others."""
    if classes is not None and np.unique(classes).tolist() != known.tolist():
        expected = f"{few(known.tolist())}, as when learning began"
        raise ArgumentError("classes", expected=expected, got=few(classes), do="fit begins anew.")
