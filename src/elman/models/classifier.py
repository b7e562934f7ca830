"""Many-to-one: a sequence goes in, a class (SequenceClassifier) or numbers (SequenceRegressor) come out."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_y, column_or_1d

from elman.config import SequenceConfig
from elman.data.examples import Examples
from elman.data.inputs import learn_inputs, too_large
from elman.data.ragged import Ragged
from elman.data.targets import Labels, Numbers, check_one_kind
from elman.errors import ArgumentError
from elman.maths.arrays import Array
from elman.models.class_weights import as_weights, class_weights
from elman.models.estimator import SequenceEstimator, no_targets, same_classes
from elman.models.predictors import ClassPredictor, NumberPredictor, same_number
from elman.models.sequence_run import trained_on
from elman.models.signatures import ClassifierOptions, RegressorOptions
from elman.models.task_spec import Terms


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

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, config: SequenceConfig | None = None, **options: Any
    ) -> Self:
        """Learn from sequences and their classes; out= keeps a run folder, listeners= hear of every step."""
        config = config or self._config()
        X, y = self._checked(X, y)
        labels, rows = _labels("y", y), trained_on(config, len(y))
        terms = Terms(self.task, learn_inputs(X, config.data, rows), labels)
        return self._learn(terms, self._examples(terms, X, y, sample_weight, rows), config, **options)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """One more pass, over these sequences; the first time `classes` names all classes that will ever come.

        What set_params changes counts from the next pass on, except what the network is made of. A pass is at the full
        rate: schedule, warmup and validation are of fit. A loaded model begins without the optimizer's memory.
        """
        first = not hasattr(self, "fitted_")
        X, y = self._checked(X, y, reset=first)
        config, rows = self._config(), np.arange(len(y))
        if first:
            labels = _labels("y", y) if classes is None else _labels("classes", classes)
            terms = Terms(self.task, learn_inputs(X, config.data, rows), labels)
        else:
            terms = self._is_fitted().terms
            same_classes(classes, self.classes_)
        examples = self._examples(terms, X, y, sample_weight, rows)
        return self._learn_more(terms, examples, config)

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

    def _examples(self, terms: Terms, X: Any, y: Array, sample_weight: Any, rows: Array) -> Examples:
        assert isinstance(terms.targets, Labels)
        ids = terms.targets.encode(y)
        each = class_weights(self.class_weight, terms.targets.classes, ids[rows])
        return Examples(_ragged(terms, X), ids, as_weights(sample_weight, len(y)) * each[ids])


class SequenceRegressor(RegressorOptions, RegressorMixin, ManyToOne, NumberPredictor):  # type: ignore[misc]
    """Which number, or numbers, a sequence stands for. X as in SequenceClassifier, y: (n,) or (n, Y)."""

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, config: SequenceConfig | None = None, **options: Any
    ) -> Self:
        """Learn from sequences and their numbers; out= keeps a run folder, listeners= hear of every step."""
        config = config or self._config()
        X, y = self._checked(X, y)
        terms = self._terms(X, y, config, trained_on(config, len(y)))
        return self._learn(terms, self._examples(terms, X, y, sample_weight), config, **options)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """One more pass, over these sequences, at the full rate; set_params as in SequenceClassifier."""
        first = not hasattr(self, "fitted_")
        X, y = self._checked(X, y, reset=first)
        config = self._config()
        terms = self._terms(X, y, config, np.arange(len(y))) if first else self._is_fitted().terms
        examples = self._examples(terms, X, y, sample_weight)
        return self._learn_more(terms, examples, config)

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

    def _terms(self, X: Any, y: Array, config: SequenceConfig, rows: Array) -> Terms:
        return Terms(self.task, learn_inputs(X, config.data, rows), Numbers.of(y[rows]))

    def _examples(self, terms: Terms, X: Any, y: Array, sample_weight: Any) -> Examples:
        return Examples(_ragged(terms, X), terms.targets.encode(y), as_weights(sample_weight, len(y)))


def _labels(what: str, labels: Any) -> Labels:
    classes = np.unique(labels)
    if len(classes) < 2:
        raise ArgumentError(what, expected="two classes at least", got=f"{len(classes)} class: {classes.tolist()!r}")
    return Labels(classes)


def _ragged(terms: Terms, X: Any) -> Ragged:
    encoded = terms.inputs.encode(X)
    assert isinstance(encoded, Ragged)
    return encoded
