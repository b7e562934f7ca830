"""Many-to-one: a class (SequenceClassifier) or numbers (SequenceRegressor) for each sequence."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_y, column_or_1d

from elman.config import Config, DataForm
from elman.data.examples import Examples
from elman.data.inputs import data_form, learn_inputs, too_large
from elman.data.ragged import Ragged
from elman.data.targets import Labels, Numbers, check_one_kind
from elman.errors import ArgumentError
from elman.maths.arrays import Array
from elman.models.class_weights import as_weights, class_weights
from elman.models.estimator import SequenceEstimator, no_targets
from elman.models.options import takes_options
from elman.models.predictors import ClassPredictor, NumberPredictor, same_number
from elman.models.task_spec import TaskSpec


class ManyToOne(TransformerMixin, SequenceEstimator):  # type: ignore[misc]
    """The base class of SequenceClassifier and SequenceRegressor, which are scikit-learn transformers too."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # states have the dtype of the network
        return tags


@takes_options("classify", "class_weight", "random_state")
class SequenceClassifier(ClassifierMixin, ManyToOne, ClassPredictor):  # type: ignore[misc]
    """Predict the class of a sequence.

    X is one of these: strings (tokens are characters, bytes, words or subwords), lists of tokens, a list of (T, F)
    arrays, or one array of numbers of shape (n, T) or (n, T, F).
    y has one class for each sequence: strings or numbers.

    The arguments are the options of this task: `help(SequenceClassifier.__init__)` and docs/options.md explain them.

    Attributes
    ----------
    classes_ : array
        The classes, sorted.
    history_ : list of dict
        Rows of metrics: step, epoch, loss, validation_loss and so on.
    summary_ : str
        One line about the training.
    n_iter_ : int
        The number of updates.

    Examples
    --------
    >>> from elman import SequenceClassifier
    >>> X, y = ["ab", "abab", "ba", "baba"] * 10, ["a first", "a first", "b first", "b first"] * 10
    >>> model = SequenceClassifier(hidden=16, epochs=20, batch_size=4, random_state=0).fit(X, y)
    >>> model.predict(["ababab", "bababa"]).tolist()
    ['a first', 'b first']
    """

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Train for one more epoch, over these examples.

        The learning rate is constant, and there is no warm-up and no validation. Options changed by set_params apply
        from the next call on; those of the network, except dropout, and of the encoding of the data cannot change.
        A loaded model begins with a new optimizer.

        Parameters
        ----------
        X : sequences
            New sequences, as in fit.
        y : targets
            As in fit.
        classes : array, optional
            All classes that later calls may contain; needed in the first call if y does not have them all.
        sample_weight : array of shape (n,), optional
            Weight of each example, 0 or more.

        Returns
        -------
        The model itself.
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

    def _form(self, X: Any, y: Any, tokens: str) -> DataForm:
        return data_form(X, tokens, classes=len(np.unique(y)))

    def _spec(self, X: Any, y: Array, config: Config, rows: Array, classes: Any = None) -> TaskSpec:
        labels = _labels("labels", y) if classes is None else _labels("classes", classes)
        return TaskSpec(self.task, learn_inputs(X, config, rows), labels)

    def _examples(self, spec: TaskSpec, config: Config, X: Any, y: Array, sample_weight: Any, rows: Array) -> Examples:
        assert isinstance(spec.targets, Labels)
        ids = spec.targets.encode(y)
        weight_of_class = class_weights(self.class_weight, spec.targets.classes, ids[rows])
        return Examples(_ragged(spec, X), ids, as_weights(sample_weight, len(y)) * weight_of_class[ids])


@takes_options("regress", "random_state")
class SequenceRegressor(RegressorMixin, ManyToOne, NumberPredictor):  # type: ignore[misc]
    """Predict a number, or numbers, from a sequence.

    X is one of these: strings (tokens are characters, bytes, words or subwords), lists of tokens, a list of (T, F)
    arrays, or one array of numbers of shape (n, T) or (n, T, F).
    y has shape (n,) or (n, Y). It is standardized for training; predictions are on the original scale.

    The arguments are the options of this task: `help(SequenceRegressor.__init__)` and docs/options.md explain them.

    Attributes
    ----------
    history_ : list of dict
        Rows of metrics: step, epoch, loss, validation_loss and so on.
    summary_ : str
        One line about the training.
    n_iter_ : int
        The number of updates.

    Examples
    --------
    >>> from elman import SequenceRegressor
    >>> model = SequenceRegressor(hidden=16, epochs=5, random_state=0).fit(["a", "aa", "aaa"] * 10, [1, 2, 3] * 10)
    >>> model.predict(["aa"]).shape
    (1,)
    """

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train for one more epoch, over these examples.

        The learning rate is constant, and there is no warm-up and no validation. Options changed by set_params apply
        from the next call on; those of the network, except dropout, and of the encoding of the data cannot change.
        A loaded model begins with a new optimizer.

        Parameters
        ----------
        X : sequences
            New sequences, as in fit.
        y : targets
            As in fit.
        sample_weight : array of shape (n,), optional
            Weight of each example, 0 or more.

        Returns
        -------
        The model itself.
        """
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
        raise ArgumentError(what, expected="at least two classes", got=f"{len(classes)} class: {classes.tolist()!r}")
    return Labels(classes)


def _ragged(spec: TaskSpec, X: Any) -> Ragged:
    encoded = spec.encode_inputs(X)
    assert isinstance(encoded, Ragged)
    return encoded
