"""Targets of sequence models, or the conditions of a generator: labels, numbers or tokens, and their encoding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from elman.data.checks import did_you_mean, shortened
from elman.data.inputs import check_tokens, scale_from_json, too_large
from elman.data.ragged import Ragged
from elman.data.symbols import Symbols
from elman.errors import ArgumentError, CheckpointError, DtypeError, NotFiniteError, ShapeError, VocabularyError
from elman.maths.arrays import Array


class Labels:
    """Classes, or tags: each a string or a number; the id of a label is its index in the sorted list."""

    def __init__(self, classes: Array) -> None:
        self.classes = classes  # (Y,)
        self.width = len(classes)
        self._ids = {label: i for i, label in enumerate(classes.tolist())}

    @classmethod
    def of(cls, labels: Any) -> Labels:
        return cls(np.unique(np.asarray(labels)))

    def encode(self, labels: Any) -> Array:
        """The ids (n,) of labels; VocabularyError for a label that is not in the training data."""
        try:
            return np.array([self._ids[label] for label in np.asarray(labels).tolist()], np.int64)
        except KeyError as error:
            label, known = error.args[0], self.classes.tolist()
            near = did_you_mean(str(label), map(str, known)) or None
            raise VocabularyError(
                "label", expected=f"one of {shortened(known, 80)}", got=repr(label), do=near
            ) from None

    def encode_sequences(self, sequences: Any) -> Ragged:
        """The tag ids (T_i,) of each sequence."""
        return Ragged.of([self.encode(sequence) for sequence in sequences], np.empty(0, np.int64))

    def decode(self, ids: Array) -> Array:
        """The labels of ids of any shape."""
        return np.asarray(self.classes[ids])

    def to_json(self) -> dict[str, Any]:
        return {"form": "labels", "classes": self.classes.tolist(), "dtype": self.classes.dtype.str}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Labels:
        try:
            classes = np.asarray(value["classes"], np.dtype(value["dtype"]))
            dict.fromkeys(classes.tolist())  # TypeError unless each is hashable
        except (KeyError, TypeError, ValueError):
            raise CheckpointError("the classes of a run are damaged") from None
        if classes.ndim != 1 or classes.dtype.kind not in "biufUO" or len(set(classes.tolist())) != len(classes):
            raise CheckpointError("the classes of a run are damaged")
        return cls(classes)


class Numbers:
    """(n,) or (n, Y) numbers y, encoded as (y - mean) / deviation."""

    def __init__(self, mean: Array, deviation: Array, flat: bool) -> None:
        self.mean, self.deviation, self.flat = mean, deviation, flat  # (Y,), (Y,), whether values are (n,)
        self.width = len(mean)

    @classmethod
    def of(cls, values: Any, *, scale: bool = True) -> Numbers:
        rows, flat = as_rows(values), np.ndim(values) == 1
        mean, deviation = np.zeros(rows.shape[1]), np.ones(rows.shape[1])
        if scale and len(rows):
            mean, deviation = rows.mean(axis=0), rows.std(axis=0)
            deviation[deviation <= 10 * np.finfo(np.float64).eps * abs(mean)] = 1  # constant up to rounding
        return cls(mean, deviation, flat)

    def encode(self, values: Any) -> Array:
        """The standardized values (n, Y)."""
        rows = as_rows(values)
        if rows.shape[1] != self.width:
            raise ShapeError("numbers", expected=f"{self.width} in each row", got=rows.shape[1])
        return np.asarray((rows - self.mean) / self.deviation)

    def decode(self, o: Array) -> Array:
        """The values (n,) or (n, Y), as in training, of outputs o (n, Y) of the network."""
        values = np.asarray(o * self.deviation + self.mean)
        return values[:, 0] if self.flat else values

    def to_json(self) -> dict[str, Any]:
        moments = {"mean": self.mean.tolist(), "deviation": self.deviation.tolist()}
        return {"form": "numbers", **moments, "flat": self.flat}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Numbers:
        if not isinstance(value.get("flat"), bool):
            raise CheckpointError("the targets of a run are damaged")
        return cls(*scale_from_json(value, "targets"), value["flat"])


class TokenTargets:
    """Targets that are sequences of tokens: strings, or lists of tokens."""

    def __init__(self, symbols: Symbols) -> None:
        self.symbols, self.width = symbols, len(symbols)

    def encode(self, sequences: Any) -> Ragged:
        """The token ids (T_i,) of each target, without the edge token (start and end, see symbols.py)."""
        check_tokens(sequences, "tokens" if self.symbols.kind == "list" else "strings", "target")
        return Ragged.of([self.symbols.encode(sequence) for sequence in sequences], np.empty(0, np.int32))

    def to_json(self) -> dict[str, Any]:
        return {"form": "written", "symbols": self.symbols.to_json()}


Targets = Labels | Numbers | TokenTargets


def targets_from_json(value: object) -> Targets:
    form = value.get("form") if isinstance(value, Mapping) else None
    if isinstance(value, Mapping) and form == "written":
        return TokenTargets(Symbols.from_json(value.get("symbols")))
    if isinstance(value, Mapping) and form in ("labels", "numbers"):
        return Labels.from_json(value) if form == "labels" else Numbers.from_json(value)
    raise CheckpointError("the targets of a run are damaged")


def as_rows(values: Any) -> Array:
    """The values as an array (n, Y); an error if they are not finite numbers."""
    try:
        rows = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        expected = "a number, or equally many numbers, in each row"
        raise ArgumentError("numbers", expected=expected, got=shortened(values, 80)) from None
    except OverflowError:
        raise too_large("targets") from None
    if rows.ndim not in (1, 2):
        raise ShapeError("numbers", expected="(n,) or (n, Y)", got=rows.shape)
    if not np.isfinite(rows).all():
        raise NotFiniteError("numbers", expected="finite ones", got="NaN or infinity")
    return rows[:, np.newaxis] if rows.ndim == 1 else rows


def check_one_kind(labels: Any) -> None:
    """Raise DtypeError for labels that mix strings and numbers, which NumPy would turn into strings."""
    first: dict[bool, Any] = {}
    for label in labels:
        first.setdefault(isinstance(label, str), label)
    if len(first) > 1:
        raise DtypeError("labels", expected="strings or numbers, not both", got=" and ".join(map(repr, first.values())))
