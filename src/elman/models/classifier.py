"""Many-to-one: a sequence goes in, a class (SequenceClassifier) or numbers (SequenceRegressor) come out."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_y, column_or_1d

from elman.config import Config
from elman.data.examples import Examples
from elman.data.inputs import learn_inputs, too_large
from elman.data.ragged import Ragged
from elman.data.targets import Labels, Numbers, check_one_kind
from elman.errors import ArgumentError
from elman.maths.arrays import Array
from elman.models.class_weights import as_weights, class_weights
from elman.models.estimator import SequenceEstimator, no_targets
from elman.models.predictors import ClassPredictor, NumberPredictor, same_number
from elman.models.signatures import ClassifierOptions, RegressorOptions
from elman.models.task_spec import TaskSpec


class ManyToOne(TransformerMixin, SequenceEstimator):  # type: ignore[misc]
    """What scikit-learn is told of both."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # states have the network's precision
        return tags


class SequenceClassifier(ClassifierOptions, ClassifierMixin, ManyToOne, ClassPredictor):  # type: ignore[misc]
    """Which class a sequence belongs to.

        model = SequenceClassifier(epochs=20).fit(["Rossi", "Schmidt", …], ["Italian", "German", …])
        model.predict(["Bianchi"])

    X: strings, lists of tokens, (T, F) arrays, or one (n, T) or (n, T, F) array of numbers. The arguments are
    explained in `help(SequenceClassifier.__init__)` and docs/options.md.
    """

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """One more pass, over these sequences; the first time `classes` names all classes that will ever come.

        What set_params changes counts from the next pass on, except what the network is made of. A pass is at the full
        rate: schedule, warmup and validation are of fit. A loaded model begins without the optimizer's memory.
        """
        return self._partial_fit(X, y, sample_weight, classes)

    def _checked(self, X: Any, y: Any, *, reset: bool = True) -> tuple[Any, Array]:
        if y is None:
            raise no_targets("the class of each sequence")
        X = self._sequences(X, reset=reset)
        if isinstance(y, list | tuple):
            check_one_kind(y)
        y = _check_y(y, estimator=self)
        check_classification_targets(y)
        same_number(X, y)
        return X, y

    def _spec(self, X: Any, y: Array, config: Config, rows: Array, classes: Any = None) -> TaskSpec:
        labels = _labels("y", y) if classes is None else _labels("classes", classes)
        return TaskSpec(self.task, learn_inputs(X, config, rows), labels)

    def _examples(self, spec: TaskSpec, config: Config, X: Any, y: Array, sample_weight: Any, rows: Array) -> Examples:
        assert isinstance(spec.targets, Labels)
        ids = spec.targets.encode(y)
        each = class_weights(self.class_weight, spec.targets.classes, ids[rows])
        return Examples(_ragged(spec, X), ids, as_weights(sample_weight, len(y)) * each[ids])


class SequenceRegressor(RegressorOptions, RegressorMixin, ManyToOne, NumberPredictor):  # type: ignore[misc]
    """Which number, or numbers, a sequence stands for. X as in SequenceClassifier, y: (n,) or (n, Y)."""

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """One more pass, over these sequences, at the full rate; set_params as in SequenceClassifier."""
        return self._partial_fit(X, y, sample_weight)

    def _checked(self, X: Any, y: Any, *, reset: bool = True) -> tuple[Any, Array]:
        if y is None:
            raise no_targets("the numbers of each sequence")
        X = self._sequences(X, reset=reset)
        try:
            y = _check_y(y, multi_output=True, y_numeric=True, estimator=self)
        except OverflowError:
            raise too_large("y") from None
        same_number(X, y)
        return X, column_or_1d(y, warn=True) if y.ndim == 2 and y.shape[1] == 1 else y

    def _spec(self, X: Any, y: Array, config: Config, rows: Array, classes: Any = None) -> TaskSpec:
        return TaskSpec(self.task, learn_inputs(X, config, rows), Numbers.of(y[rows]))

    def _examples(self, spec: TaskSpec, config: Config, X: Any, y: Array, sample_weight: Any, rows: Array) -> Examples:
        return Examples(_ragged(spec, X), spec.encode_targets(y), as_weights(sample_weight, len(y)))


def _labels(what: str, labels: Any) -> Labels:
    classes = np.unique(labels)
    if len(classes) < 2:
        raise ArgumentError(what, expected="two classes at least", got=f"{len(classes)} class: {classes.tolist()!r}")
    return Labels(classes)


def _ragged(spec: TaskSpec, X: Any) -> Ragged:
    encoded = spec.encode_inputs(X)
    assert isinstance(encoded, Ragged)
    return encoded
