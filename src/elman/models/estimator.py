"""The base class of the models that are scikit-learn estimators.

A constructor only stores its arguments, which are the options of elman.config with the defaults of the model's task
(models/options.py).
"""

from __future__ import annotations

import inspect
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from elman.config import BUDGET, BY_FORM, OPTIONS, Config, DataForm, is_whole, rate_for, resolve
from elman.data.checks import shortened
from elman.data.examples import Examples
from elman.data.inputs import data_form, form_of, number_sequences
from elman.errors import ArgumentError, NotFiniteError
from elman.maths.arrays import Array
from elman.models import fine_tuning, runs
from elman.models.class_weights import from_pairs, to_pairs
from elman.models.fine_tuning import Origin
from elman.models.fitted import FittedModel, new_model
from elman.models.options import Options
from elman.models.predictors import Predictor
from elman.models.runs import ExampleSetup, RowSplit
from elman.models.task_spec import TaskSpec
from elman.training.events import Listener
from elman.training.signals import raise_if_interrupted, stop_on_interrupt
from elman.training.trainer import Trainer

FIXED = {name for name, option in OPTIONS.items() if option.fixed}  # options that partial_fit cannot change
PARTIAL_FIT_OPTIONS = {"schedule": "constant", "warmup_steps": 0, "validation_fraction": 0.0}
OVERRULED = ("epochs", *PARTIAL_FIT_OPTIONS)  # after partial_fit, the config may have other values of these arguments


class SequenceEstimator(Options, BaseEstimator, Predictor):  # type: ignore[misc]
    """A model of any task but language modeling, as a scikit-learn estimator."""

    # kept from one partial_fit to the next
    _optimizer_state: tuple[str, dict[str, Array]]  # the name of the optimizer, and its state
    _steps: int  # updates with this optimizer
    _passes: int  # calls of partial_fit

    @classmethod
    @cache
    def defaults(cls) -> dict[str, Any]:
        """All arguments of the constructor with their defaults."""
        return {name: parameter.default for name, parameter in inspect.signature(cls).parameters.items()}

    def _given(self) -> dict[str, Any]:
        """The options that are not None, by name, and the seed; defaults of the others depend on the data."""
        given = {name: getattr(self, name) for name in self.defaults() if name in OPTIONS}
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        return {name: value for name, value in given.items() if value is not None} | {"seed": seed}

    def _form(self, X: Any, y: Any, tokens: str) -> DataForm:
        """The properties of the data that defaults depend on."""
        return data_form(X, tokens)

    # -- training -----------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        start: SequenceEstimator | str | Path | None = None,
        drop_unused: bool = False,
        out: str | Path | None = None,
        force: bool = False,
        listeners: Sequence[Listener] = (),
    ) -> Self:
        """Train from the beginning, or from a trained model.

        Parameters
        ----------
        X : sequences
            As the class describes them.
        y : targets
            One for each sequence, as the class describes them.
        sample_weight : array of shape (n,), optional
            Weight of each example, 0 or more.
        start : model or path, optional
            A trained model of the same task, or its run folder, whose weights training starts from. The options of its
            network are kept, its tokens and classes are extended by new ones, and the learning rate is a quarter of its
            learning rate unless given.
        drop_unused : bool
            With `start`: leave out its tokens and classes that these examples do not have.
        out : path, optional
            A run folder to write; `elman train --resume` can continue it.
        force : bool
            Replace a run that exists at `out`.
        listeners : sequence of callables
            Called with every event of the training (elman.training), for instance ProgressLine().

        Returns
        -------
        The model itself.
        """
        origin = self.load(start) if isinstance(start, str | Path) else start
        if origin is not None:
            fine_tuning.check_start(origin, SequenceEstimator, self)
        setup = self.make_setup(X, y, sample_weight, start=origin, drop_unused=drop_unused)
        with stop_on_interrupt() as stopping:
            where = Path(out) if out else None
            fitted = runs.start(setup, out=where, force=force, listeners=listeners, stopping=stopping)
        for name in ("_optimizer_state", "_steps", "_passes"):  # of earlier calls of partial_fit
            self.__dict__.pop(name, None)
        self._set_fitted(fitted)
        if fitted.finished is not None:
            raise_if_interrupted(fitted.finished)
        return self

    def make_setup(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        options: Mapping[str, Any] | None = None,
        source: Mapping[str, Any] | None = None,
        start: SequenceEstimator | None = None,
        drop_unused: bool = False,
    ) -> ExampleSetup:
        """The encoded and split examples that fit trains on.

        The split is drawn first: vocabularies, scales and class weights come from the training rows only.

        Parameters
        ----------
        X, y, sample_weight
            As in fit.
        options : dict, optional
            Options by name, in place of the arguments of the model; defaults of the others depend on the data.
        source : dict, optional
            The name and source of the data, for config.json.
        start : model, optional
            The trained model to start from.
        drop_unused : bool
            Leave out its tokens and classes that the examples do not have.

        Returns
        -------
        ExampleSetup
            For elman.models.runs.start.
        """
        X, y = self._checked(X, y)
        chosen = self._given() if options is None else dict(options)
        if start is not None:
            if options is None:  # an argument with its default value does not override that of the trained model
                for name in (*fine_tuning.KEPT, "learning_rate"):
                    if name in chosen and chosen[name] == self.defaults()[name]:
                        del chosen[name]
            chosen = fine_tuning.options_of(start._fitted_model(), self.task, chosen)
        form = self._form(X, y, str(chosen.get("tokens", "auto")))
        config = resolve(self.task, chosen, form=form)
        groups = self._groups(X)
        split = RowSplit.draw(len(y), config, groups)
        spec = self._spec(X, y, config, split.train)
        if start is not None:
            merged = fine_tuning.merge_specs(start._fitted_model().spec, spec, drop_unused=drop_unused)
            spec = merged.spec
        examples = replace(self._examples(spec, config, X, y, sample_weight, split.train), groups=groups)
        record = {**(source or {}), "form": form._asdict()}
        setup = ExampleSetup(spec, config, examples, split, record, self._estimator_params(config))
        if start is None:
            return setup
        path = None if start.run_ is None else start.run_.path
        old = None if path is None else runs.old_data(path)
        return setup.started_from(Origin(start._fitted_model(), merged, old, str(path or "")))

    def _groups(self, X: Any) -> Array | None:
        """The group number (n,) of each example; a split keeps groups together. None: each example is its own group."""
        return None

    @abstractmethod
    def _checked(self, X: Any, y: Any, *, reset: bool = True) -> tuple[Any, Any]:
        """Sequences and targets in a form that can be encoded."""

    @abstractmethod
    def _spec(self, X: Any, y: Any, config: Config, rows: Array, classes: Any = None) -> TaskSpec:
        """Vocabularies and scales, learned from these rows."""

    @abstractmethod
    def _examples(self, spec: TaskSpec, config: Config, X: Any, y: Any, sample_weight: Any, rows: Array) -> Examples:
        """The examples, encoded; class weights are balanced over these rows."""

    def _partial_fit(self, X: Any, y: Any, sample_weight: Any, classes: Any = None) -> Self:
        """Train for one more epoch, over these examples, at a constant learning rate.

        The state of the optimizer is kept between calls, but not saved: after load, after fit, and if another optimizer
        is chosen, it starts again. n_iter_ counts all updates.
        """
        first = not hasattr(self, "fitted_")
        X, y = self._checked(X, y, reset=first)
        given, split = self._given(), RowSplit.all_train(len(y))
        if first:
            config = resolve(self.task, given, form=self._form(X, y, str(given.get("tokens", "auto"))))
            spec = self._spec(X, y, config, split.train, classes)
        else:
            spec, epoch_config = self._fitted_model().spec, self._epoch_config(given)
            if classes is not None:
                _same_classes(classes, self.classes_)
        examples = self._examples(spec, config if first else epoch_config, X, y, sample_weight, split.train)
        if first:
            self._set_fitted(new_model(spec, config))
            epoch_config = self._epoch_config(given)
        fitted = self.fitted_
        fitted.config, fitted.estimator_params = epoch_config, self._estimator_params(epoch_config)
        task = ExampleSetup(spec, epoch_config, examples, split).new_task(fitted)
        trainer = Trainer(task, epoch_config, steps=0)
        same_optimizer = hasattr(self, "_optimizer_state") and self._optimizer_state[0] == epoch_config.optimizer
        taken = fitted.steps_before if same_optimizer else fitted.steps  # updates that the trainer does not count
        if same_optimizer:  # another one starts without a state, at step 0
            trainer.state.memory, trainer.state.progress.step = self._optimizer_state[1], self._steps
            task.batches_before = self._steps * epoch_config.accumulate
        task.passes = getattr(self, "_passes", 0)
        trainer.steps = trainer.state.progress.step + math.ceil(task.steps_per_epoch)
        fitted.steps_before, fitted.finished = taken, trainer.train()
        self._optimizer_state = epoch_config.optimizer, trainer.state.memory
        self._steps, self._passes = trainer.state.progress.step, task.passes + 1
        return self._set_fitted(fitted)

    def _epoch_config(self, given: Mapping[str, Any]) -> Config:
        """The config of one more epoch, with the options that set_params has changed; an error if one is fixed."""
        known = self.fitted_.config
        before = known.options()
        for name, value in given.items():
            if value != before[name] and name in FIXED:
                expected = f"{before[name]!r}, as in the first call"
                raise ArgumentError(name, expected=expected, got=repr(value), do="To change it, call fit.")
        seed = given["seed"] if is_whole(self.random_state) else before["seed"]
        if set(BUDGET) & set(given):
            known = known.with_options(**dict.fromkeys(BUDGET))
        rate = rate_for(known, given.get("optimizer", known.optimizer))
        return known.with_options(**{"learning_rate": rate, **given, **PARTIAL_FIT_OPTIONS, "seed": seed})

    def _estimator_params(self, config: Config) -> dict[str, Any]:
        """The arguments that the config does not have, or has with another value, for JSON."""
        given, options = {name: getattr(self, name) for name in OVERRULED}, config.options()
        params = {name: np.asarray(value).item() for name, value in given.items() if value != options[name]}
        if by_form := [name for name in BY_FORM.get(self.task, ()) if getattr(self, name) is None]:
            params["by_form"] = by_form
        if self.random_state is None or is_whole(self.random_state):
            params["random_state"] = None if self.random_state is None else int(self.random_state)
        if "class_weight" in self.defaults():
            params["class_weight"] = to_pairs(self.class_weight)
        return params

    def _set_fitted(self, fitted: FittedModel) -> Self:
        self.n_iter_ = fitted.steps
        return super()._set_fitted(fitted)

    # -- inputs -------------------------------------------------------------------------------------------------------

    def _fitted_model(self) -> FittedModel:
        check_is_fitted(self, "fitted_")
        fitted: FittedModel = self.fitted_
        return fitted

    def _sequences(self, X: Any, *, reset: bool) -> Any:
        """The sequences as lists or as an array (n, T, F).

        scikit-learn validates a table of numbers; each row is a sequence with one number for each step.
        """
        if reset:
            for name in ("n_features_in_", "feature_names_in_"):  # of an earlier fit
                self.__dict__.pop(name, None)
        if _is_table_of_texts(X):
            X = _text_column(X)
        if _is_text(X):
            X = np.asarray(X).tolist()
        if isinstance(X, str | bytes):
            form_of(X)  # raises an error
        if isinstance(X, list | tuple):
            if not len(X) or form_of(X) != "numbers":
                return X
            lengths = {len(row) for row in X if np.ndim(row) == 1}
            if reset and len(lengths) == 1 and all(np.ndim(row) == 1 for row in X):
                self.n_features_in_ = lengths.pop()  # as for a table; later lists may have other lengths
            return number_sequences(X)
        if isinstance(X, np.ndarray) and X.ndim == 3 and X.dtype.kind in "biuf":
            if not np.isfinite(X).all():
                raise NotFiniteError("X", expected="finite numbers", got="NaN or infinity")
            if reset:
                self.n_features_in_ = X.shape[2]
            return X
        checked = validate_data(self, X, reset=reset, dtype=np.float64, skip_check_array=False)
        return checked[:, :, np.newaxis]  # (n, T, 1)

    # -- saving and loading -------------------------------------------------------------------------------------------

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write a run folder without checkpoints: enough to load, predict and export. Nothing is pickled.

        Parameters
        ----------
        path : str or Path
            The folder.
        force : bool
            Replace a run that exists there.

        Returns
        -------
        Path
            The folder.
        """
        return runs.save(self._fitted_model(), Path(path), force=force).path

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Load the best model of a run, or a saved model, as an estimator.

        Parameters
        ----------
        path : str or Path
            The run folder.

        Returns
        -------
        The model, with its arguments.
        """
        run, fitted = runs.load(Path(path), cls.task)
        known = {name: value for name, value in fitted.config.options().items() if name in cls.defaults()}
        params = {"random_state": fitted.config.seed} | fitted.estimator_params
        if "class_weight" in cls.defaults():
            known["class_weight"] = from_pairs(params.get("class_weight"))
        known |= {name: params[name] for name in OVERRULED if name in params}
        known |= {name: None for name in BY_FORM.get(cls.task, ()) if name in params.get("by_form", ())}
        model = cls(**known, random_state=params["random_state"])
        model._set_fitted(fitted)
        model.run_ = run
        return model

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.three_d_array = True
        tags.non_deterministic = False
        return tags


def _is_table_of_texts(X: Any) -> bool:
    """Whether this is a DataFrame, of pandas or another library, with a text in its first cell."""
    return hasattr(X, "columns") and hasattr(X, "__array__") and getattr(X, "ndim", 2) == 2 and _is_text(np.asarray(X))


def _text_column(X: Any) -> list[Any]:
    """The texts of a DataFrame with one column."""
    names = [str(name) for name in X.columns]
    if len(names) != 1:
        do = f"Pass the column with the texts: X[{names[0]!r}], for instance."
        raise ArgumentError("X", expected="one column of texts", got=f"columns {shortened(names)}", do=do)
    return [row[0] for row in np.asarray(X)]


def _is_text(X: Any) -> bool:
    """Whether this is an array, or a column of a table, of strings; of Python objects only the first is checked."""
    if isinstance(X, list | tuple) or not hasattr(X, "__array__") or getattr(X, "ndim", 0) not in (1, 2):
        return False
    array = np.asarray(X)
    return array.dtype.kind == "U" or (array.dtype.kind == "O" and array.size > 0 and isinstance(array.flat[0], str))


def no_targets(what: str) -> ArgumentError:
    return ArgumentError(f"y should be {what}: learning requires y to be passed, but the target y is None")


def _same_classes(classes: Any, known: Array) -> None:
    """Raise an error if a later call of partial_fit names other classes than the first one."""
    if np.unique(classes).tolist() != known.tolist():
        expected = f"{shortened(known.tolist())}, as in the first call"
        raise ArgumentError("classes", expected=expected, got=shortened(classes), do="To change them, call fit.")
