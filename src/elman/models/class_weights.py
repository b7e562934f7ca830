"""Weights of examples and of classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from elman.data.checks import shortened
from elman.data.inputs import too_large
from elman.errors import ArgumentError, CheckpointError, RangeError, ShapeError
from elman.maths.arrays import Array


def as_weights(sample_weight: Any, n: int) -> Array:
    """The weights (n,) of n examples from numbers (n,), or one number for all; 1 if none are given. Checks them."""
    if sample_weight is None:
        return np.ones(n)
    try:
        weights = np.asarray(sample_weight, np.float64)
    except OverflowError:  # Python's integers may be too large for NumPy
        raise too_large("sample_weight") from None
    if weights.ndim == 0:
        weights = np.full(n, float(weights))
    if weights.shape != (n,):
        raise ShapeError("sample_weight", expected=f"({n},)", got=weights.shape)
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        raise RangeError("sample_weight", expected="finite numbers, 0 or more", got=f"{weights[wrong][0]:g}")
    if not weights.any():
        raise RangeError("sample_weight", expected="a weight above zero", got="only zero")
    return weights


def class_weights(class_weight: Any, classes: Array, seen: Array) -> Array:
    """The weights (Y,) of the classes; a class that a dict does not name has weight 1.

    "balanced" uses the frequencies of `seen`, the class ids of the training targets.
    """
    weights = np.ones(len(classes))
    if isinstance(class_weight, Mapping):
        labels = classes.tolist()
        unknown, unnamed = set(class_weight) - set(labels), set(labels) - set(class_weight)
        if unknown and unnamed:  # if all classes are named, the unknown ones may be those of other data
            raise ArgumentError("class_weight", expected=f"classes of {shortened(labels)}", got=repr(unknown.pop()))
        try:
            given = {label: float(weight) for label, weight in class_weight.items()}
        except (TypeError, ValueError, OverflowError):
            raise ArgumentError(
                "class_weight", expected="a number for each class", got=shortened(class_weight)
            ) from None
        if not all(0 <= weight < np.inf for weight in given.values()):
            raise RangeError("class_weight", expected="finite numbers, 0 or more", got=shortened(class_weight))
        weights[:] = [given.get(label, 1) for label in labels]
    elif isinstance(class_weight, str) and class_weight == "balanced":
        counts = np.bincount(seen, minlength=len(classes))
        present = counts > 0
        weights[present] = len(seen) / (present.sum() * counts[present])  # all classes have the same total weight
    elif class_weight is not None:
        raise ArgumentError("class_weight", expected='None, "balanced" or {class: weight}', got=repr(class_weight))
    return weights


def to_pairs(class_weight: Any) -> Any:
    """Pairs of class and weight, for JSON, whose keys can only be strings."""
    if not isinstance(class_weight, Mapping):
        return class_weight
    return [[np.asarray(label).item(), float(weight)] for label, weight in class_weight.items()]


def from_pairs(value: Any) -> Any:
    """The class_weight that to_pairs was given."""
    try:
        return dict(value) if isinstance(value, list) else value
    except (TypeError, ValueError):
        raise CheckpointError("the class_weight of a run is damaged") from None
