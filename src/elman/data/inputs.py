"""Inputs of sequence models: strings, lists of tokens, or steps of numbers, and how they are encoded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from elman.config import Config, DataForm
from elman.data.checks import shortened
from elman.data.ragged import Ragged
from elman.data.symbols import Symbols, kind_of
from elman.errors import ArgumentError, CheckpointError, DtypeError, NotFiniteError, RangeError, ShapeError
from elman.maths.arrays import Array


class TokenInputs:
    """Strings or lists of tokens."""

    def __init__(self, symbols: Symbols) -> None:
        self.symbols, self.width = symbols, len(symbols)

    def encode(self, sequences: Any) -> Ragged:
        """The token ids (T_i,) of each sequence."""
        form = form_of(sequences)
        wanted = "tokens" if self.symbols.kind == "list" else "strings"
        if form not in (wanted, "nothing"):
            raise DtypeError("sequences", expected=f"{wanted}, as in training", got=form)
        check_tokens(sequences, form)
        return Ragged.of([self.symbols.encode(sequence) for sequence in sequences], np.empty(0, np.int32))

    def to_json(self) -> dict[str, Any]:
        return {"form": "tokens", "symbols": self.symbols.to_json()}


class NumberInputs:
    """Steps of numbers x, encoded as (x - mean) / deviation."""

    def __init__(self, mean: Array, deviation: Array) -> None:
        self.mean, self.deviation = mean, deviation  # (X,)
        self.width = len(mean)

    def encode(self, sequences: Any) -> Ragged:
        """The standardized numbers (T_i, X) of each sequence."""
        arrays = number_sequences(sequences)
        for i, array in enumerate(arrays):
            if len(array) and array.shape[1] != self.width:
                raise ShapeError(f"sequence {i}", expected=f"{self.width} numbers per step", got=array.shape[1])
        scaled = [(array - self.mean) / self.deviation for array in arrays if len(array)]  # (T_i, X)
        lengths = np.array([len(array) for array in arrays], np.int64)
        return Ragged(np.concatenate([np.empty((0, self.width)), *scaled]), lengths)

    def to_json(self) -> dict[str, Any]:
        return {"form": "numbers", "mean": self.mean.tolist(), "deviation": self.deviation.tolist()}


Inputs = TokenInputs | NumberInputs


def learn_inputs(sequences: Any, config: Config, rows: Array) -> Inputs:
    """The encoder for these sequences; its vocabulary or scale is learned from `rows`, the training examples, only."""
    form = form_of(sequences)
    if form == "nothing":
        raise ArgumentError("sequences", expected="at least one", got="none")
    if form == "numbers":
        arrays = number_sequences(sequences)
        widths = sorted({array.shape[1] for array in arrays if len(array)})
        if len(widths) > 1:
            raise ShapeError("sequences", expected="the same number of values in each step", got=widths)
        steps = np.concatenate([arrays[0][:0], *(arrays[i] for i in rows)])  # (Σ T_i, X)
        mean, deviation = np.zeros(steps.shape[1]), np.ones(steps.shape[1])
        if config.standardize and len(steps):
            mean, deviation = steps.mean(axis=0), steps.std(axis=0)
            deviation[deviation <= 10 * np.finfo(np.float64).eps * abs(mean)] = 1  # constant up to rounding
        return NumberInputs(mean, deviation)
    check_tokens(sequences, form)
    seen = [sequences[i] for i in rows]
    kind = "list" if form == "tokens" else kind_of(seen, config.tokens)
    sizes = {"vocabulary_size": config.vocabulary_size, "min_count": config.min_count}
    return TokenInputs(Symbols.of(seen, kind, **sizes, lowercase=config.lowercase))


def inputs_from_json(value: object) -> Inputs:
    if isinstance(value, Mapping) and value.get("form") == "tokens":
        return TokenInputs(Symbols.from_json(value.get("symbols")))
    if isinstance(value, Mapping) and value.get("form") == "numbers":
        return NumberInputs(*scale_from_json(value, "inputs"))
    raise CheckpointError("the inputs of a run are damaged")


def scale_from_json(value: Mapping[str, Any], what: str) -> tuple[Array, Array]:
    """Mean and deviation of numbers, each (X,)."""
    try:
        mean, deviation = (np.asarray(value[name], np.float64) for name in ("mean", "deviation"))
    except (KeyError, TypeError, ValueError, OverflowError):
        raise CheckpointError(f"the {what} of a run are damaged") from None
    finite = np.isfinite(mean).all() and np.isfinite(deviation).all()
    if mean.ndim != 1 or mean.shape != deviation.shape or not finite or not (deviation > 0).all():
        raise CheckpointError(f"the {what} of a run are damaged")
    return mean, deviation


def form_of(sequences: Any) -> str:
    """strings, tokens, numbers or nothing (no sequences).

    Sequences in an array of numbers are numbers; others are judged by the first that is not an empty list. Empty lists
    alone are tokens.
    """
    if isinstance(sequences, str | bytes):
        raise DtypeError("sequences", expected="a list of them", got=f"one {type(sequences).__name__}")
    if isinstance(sequences, np.ndarray) and sequences.dtype.kind in "biufc":
        return "nothing" if sequences.shape[:1] == (0,) else "numbers"
    if not isinstance(sequences, Sequence | np.ndarray):
        raise DtypeError(
            "sequences", expected="a list of strings, of token lists or of arrays", got=type(sequences).__name__
        )
    for i, sequence in enumerate(sequences):
        if isinstance(sequence, str):
            return "strings"
        if not isinstance(sequence, Sequence | np.ndarray) or np.ndim(sequence) == 0:
            raise DtypeError(f"sequence {i}", expected="a string, a list or an array", got=shortened(sequence))
        if len(sequence):
            return "tokens" if isinstance(sequence[0], str) else "numbers"
    return "tokens" if len(sequences) else "nothing"


def data_form(sequences: Any, tokens: str, classes: int = 0) -> DataForm:
    """The properties of the data that the default options depend on.

    >>> data_form(["a fine day", "a bad one"], "auto", classes=2)
    DataForm(kind='word', examples=2, length=3.0, classes=2, words=0, speed=0.0)
    """
    form = form_of(sequences)
    kind = {"strings": "", "numbers": "numbers"}.get(form, "list")
    if not kind:
        sequences = [sequence for sequence in sequences if isinstance(sequence, str)]
        kind = kind_of(sequences, tokens)
    steps = [len(one.split() if kind == "word" else one) for one in sequences if hasattr(one, "__len__")]
    return DataForm(kind, len(sequences), float(np.mean(steps)) if steps else 0.0, classes)


def too_large(what: str) -> RangeError:
    return RangeError(what, expected="numbers up to 1.8e308", got="a larger one")


def number_sequences(sequences: Any) -> list[Array]:
    """Each sequence as an array (T_i, X); a flat list of numbers has X = 1."""
    arrays = []
    for i, sequence in enumerate(sequences):
        try:
            array = np.asarray(sequence, np.float64)
        except (TypeError, ValueError):
            expected = "numbers, as in the sequences before it" if i else "numbers"
            raise DtypeError(f"sequence {i}", expected=expected, got=shortened(sequence)) from None
        except OverflowError:  # a Python int has no upper limit
            raise too_large(f"sequence {i}") from None
        if array.ndim not in (1, 2):
            raise ShapeError(f"sequence {i}", expected="(T,) or (T, X) numbers", got=f"{array.ndim} dimensions")
        if not np.isfinite(array).all():
            raise NotFiniteError(f"sequence {i}", expected="finite numbers", got="NaN or infinity")
        arrays.append(array[:, np.newaxis] if array.ndim == 1 else array)
    width = next((array.shape[1] for array in arrays if len(array)), 1)
    return [array if len(array) else np.empty((0, width)) for array in arrays]


def check_tokens(sequences: Any, form: str, what: str = "sequence") -> None:
    """Raise DtypeError for a sequence that is not a string (form strings) or a list of strings (form tokens)."""
    for i, sequence in enumerate(sequences):
        before = f", as in the {what}s before it" * (i > 0)
        is_string = isinstance(sequence, str)
        if form == "strings" and not is_string:
            raise DtypeError(f"{what} {i}", expected=f"a string{before}", got=shortened(sequence))
        is_list = isinstance(sequence, Sequence | np.ndarray) and not is_string
        if form == "tokens" and not (is_list and all(isinstance(token, str) for token in sequence)):
            raise DtypeError(f"{what} {i}", expected=f"tokens that are strings{before}", got=shortened(sequence))
