"""The search space of a sweep, as the arguments of `elman sweep --search`:

learning_rate                               in the range of the table of options
hidden=64..256 lr=1e-3..1e-2                in the given ranges
optimizer=adam,adamw batch_size=16,32,64    among the given values
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from elman.config import OPTIONS, Config, check_value, choices_of, kind_of, rate_scale, suggestion
from elman.errors import ArgumentError, RangeError, UnknownNameError, option

USUAL = tuple(name for name, option in OPTIONS.items() if option.sweep and option.sweep.usual)  # searched by default


@dataclass(frozen=True)
class Dimension:
    """One option that is searched: a range of numbers, or a list of values."""

    name: str
    low: float = 0  # an int if only whole numbers are tried
    high: float = 0
    log: bool = False
    choices: tuple[Any, ...] = ()

    def suggest(self, trial: Any) -> Any:
        """The value that Optuna chooses for a trial."""
        if self.choices:
            return trial.suggest_categorical(self.name, self.choices)
        suggest = trial.suggest_int if isinstance(self.low, int) else trial.suggest_float
        return suggest(self.name, self.low, self.high, log=self.log)

    def has(self, value: Any) -> bool:
        """Whether this value is in the range or the list."""
        if self.choices or value is None:
            return value in self.choices
        return bool(self.low <= value <= self.high)

    def __str__(self) -> str:
        what = ", ".join(map(str, self.choices)) if self.choices else f"{self.low:g} to {self.high:g}"
        return f"{self.name}: {what}{' (log)' * self.log}"


def searchable(task: str = "lm") -> dict[str, Any]:
    """The options that a sweep may search, with their types: those with a search range or a list of choices, except
    those of the data, because losses on other data cannot be compared."""
    return {
        name: str if choices_of(name) else kind_of(name)[0]
        for name, option in OPTIONS.items()
        if task in option.tasks and option.group != "data" and (option.sweep or choices_of(name))
    }


def space(
    words: Sequence[str], fixed: Mapping[str, Any] = MappingProxyType({}), config: Config | None = None
) -> list[Dimension]:
    """The dimensions of these arguments, or the default ones without the options in `fixed`.

    The default range of learning rates is that of Adam, rescaled for the optimizer and the cell of the config.
    """
    config = config or Config()
    parsed = [_parsed(word) for word in words] or [(name, "") for name in USUAL if name not in fixed]
    names = [name for name, _ in parsed]
    if twice := {name for name in names if names.count(name) > 1} | (set(fixed) & set(names)):
        expected = "each option once, and none with a fixed value"
        raise ArgumentError(option("search"), expected=expected, got=", ".join(twice))
    searched = {name: _dimension(name, values).choices for name, values in parsed if choices_of(name)}
    optimizers, cells = searched.get("optimizer", (config.optimizer,)), searched.get("cell", (config.cell,))
    scale, *others = {rate_scale(optimizer, cell) for optimizer in optimizers for cell in cells}
    if others and ("learning_rate", "") in parsed:
        expected = "a range, because the optimizers and cells that are searched have different ones"
        raise ArgumentError(option("search", "learning_rate"), expected=expected, got="none")
    return [_dimension(name, values, scale) for name, values in parsed]


def _parsed(word: str) -> tuple[str, str]:
    """The full name of the option in `NAME` or `NAME=VALUES`, and the values."""
    name, _, values = word.partition("=")
    name = name.strip().lstrip("-").replace("-", "_")
    name = next((known for known, option in OPTIONS.items() if option.alias == name), name)
    known = searchable()
    if name in known:
        return name, values.strip()
    if name in OPTIONS and OPTIONS[name].group == "data":
        raise ArgumentError(
            f"{option('search', name)} is not possible", do="Losses on other data or tokens cannot be compared."
        )
    if name in OPTIONS:
        advice = f"All trials have the same value: set {option(name)}."
        raise ArgumentError(f"{option('search', name)} is not possible", do=advice)
    near = suggestion(name, known)
    do = f"Did you mean {near}?" if near else None
    raise UnknownNameError(option("search"), expected=f"one of {', '.join(known)}", got=repr(name), do=do)


def _dimension(name: str, values: str, scale: float = 1) -> Dimension:
    kind = searchable()[name]
    names = choices_of(name)
    usual = OPTIONS[name].sweep
    low, dots, high = values.partition("..")
    if names or (values and not dots):
        choices = tuple(_value(name, word, kind) for word in (values.split(",") if values else names))
        if len(set(choices)) != len(choices):
            raise ArgumentError(option("search", name), expected="each value once", got=list(choices))
        dimension = Dimension(name, choices=choices)
    elif values:
        first = _value(name, low, kind)
        last = _value(name, high, kind)
        if not first < last:
            raise RangeError(option("search", name), expected="low..high with low < high", got=values)
        dimension = Dimension(name, first, last, log=bool(usual and usual.log and first > 0))
    else:
        assert usual is not None
        scale = scale if name == "learning_rate" else 1
        dimension = Dimension(name, kind(usual.low * scale), kind(usual.high * scale), usual.log)
    for value in dimension.choices or (dimension.low, dimension.high):
        check_value(name, value)
    return dimension


def _value(name: str, text: str, kind: type) -> Any:
    try:
        return kind(text.strip())
    except ValueError:
        wanted = "whole numbers" if kind is int else "numbers"
        raise ArgumentError(option("search", name), expected=f"{wanted}: low..high, or a,b,c", got=repr(text)) from None
