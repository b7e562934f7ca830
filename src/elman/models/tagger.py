"""Many-to-many, aligned: a tag for every step of a sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from elman.config import Config
from elman.data.checks import shortened
from elman.data.examples import Examples
from elman.data.inputs import learn_inputs
from elman.data.ragged import Ragged
from elman.data.targets import Labels, check_one_kind
from elman.errors import ArgumentError, ShapeError
from elman.maths.arrays import Array
from elman.models.class_weights import as_weights, class_weights
from elman.models.estimator import SequenceEstimator, no_targets
from elman.models.options import takes_options
from elman.models.predictors import TagPredictor, same_number
from elman.models.task_spec import TaskSpec


@takes_options("tag", "class_weight", "random_state")
class SequenceTagger(SequenceEstimator, TagPredictor):
    """Predict a tag for every step of a sequence.

    X is one of these: strings (tokens are characters, bytes or words), lists of tokens, a list of (T, F) arrays, or
    one array of numbers of shape (n, T) or (n, T, F).
    y has a list of tags for each sequence, one tag for each step; a string is read as a list of one-character tags. The
    weight of a step is the class_weight of its tag times the sample_weight of its sequence.

    The arguments are the options of this task: `help(SequenceTagger.__init__)` and docs/options.md explain them.

    Attributes
    ----------
    classes_ : array
        The tags, sorted.
    history_ : list of dict
        Rows of metrics: step, epoch, loss, validation_loss and so on.
    summary_ : str
        One line about the training.
    n_iter_ : int
        The number of updates.

    Examples
    --------
    >>> from elman import SequenceTagger
    >>> X, y = [["the", "dog"], ["a", "cat"]] * 10, [["DET", "NOUN"]] * 20
    >>> model = SequenceTagger(hidden=8, epochs=5, batch_size=4, random_state=0).fit(X, y)
    >>> model.predict([["the", "cat"]])
    [['DET', 'NOUN']]
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

    def _checked(self, X: Any, y: Any, *, reset: bool = True) -> tuple[Any, list[list[Any]]]:
        if y is None:
            raise no_targets("the tags of each sequence")
        X = self._sequences(X, reset=reset)
        tags = as_tags(y)
        same_number(X, tags)
        return X, tags

    def _spec(self, X: Any, y: list[list[Any]], config: Config, rows: Array, classes: Any = None) -> TaskSpec:
        labels = Labels(_all_tags(y) if classes is None else np.unique(classes))
        return TaskSpec(self.task, learn_inputs(X, config, rows), labels)

    def _examples(
        self, spec: TaskSpec, config: Config, X: Any, y: list[list[Any]], sample_weight: Any, rows: Array
    ) -> Examples:
        assert isinstance(spec.targets, Labels)
        x, tags = spec.encode_inputs(X), spec.targets.encode_sequences(y)
        assert isinstance(x, Ragged)
        check_aligned(x, tags)
        weight_of_tag = None
        if self.class_weight is not None:
            weight_of_tag = class_weights(self.class_weight, spec.targets.classes, tags.take(rows).values)
        return Examples(x, tags, as_weights(sample_weight, len(tags)), weight_of_tag)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of correct tags.

        Parameters
        ----------
        X : sequences
            As in fit.
        y : targets
            As in fit.
        sample_weight : array of shape (n,), optional
            Weight of each example, 0 or more.

        Returns
        -------
        float
        """
        predicted, y = self.predict(X), as_tags(y)
        same_number(predicted, y)
        weights = as_weights(sample_weight, len(predicted))
        for i, (tags, targets) in enumerate(zip(predicted, y, strict=True)):
            if len(tags) != len(targets):
                raise ShapeError(f"sequence {i}", expected=f"{len(tags)} tags", got=len(targets))
        right = sum(
            w * sum(a == b for a, b in zip(t, r, strict=True)) for t, r, w in zip(predicted, y, weights, strict=True)
        )
        return float(right / max(sum(w * len(t) for t, w in zip(predicted, weights, strict=True)), 1e-30))


def check_aligned(x: Ragged, tags: Ragged) -> None:
    """Raise ShapeError unless every sequence has as many tags as steps."""
    wrong = np.flatnonzero(x.lengths != tags.lengths)
    if len(wrong):
        i = wrong[0]
        expected = f"{x.lengths[i]} tags, one for each step"
        raise ShapeError(f"sequence {i}", expected=expected, got=int(tags.lengths[i]))


def as_tags(y: Any) -> list[list[Any]]:
    """The tags of each sequence as a list; a string is read as a list of one-character tags."""
    if isinstance(y, str | bytes):
        raise ArgumentError("y", expected="the tags of each sequence", got=f"one {type(y).__name__}")
    for i, tags in enumerate(y):
        if not isinstance(tags, str | Sequence | np.ndarray) or isinstance(tags, bytes):
            raise ArgumentError(f"y, sequence {i}", expected="a list of tags, one for each step", got=shortened(tags))
    lists = [tags.tolist() if isinstance(tags, np.ndarray) else list(tags) for tags in y]
    check_one_kind(tag for tags in lists for tag in tags)
    return lists


def _all_tags(y: list[list[Any]]) -> Array:
    tags = [tag for tags in y for tag in tags]
    if not tags:
        raise ArgumentError("y", expected="at least one tag", got="none")
    return np.unique(np.asarray(tags))
