"""What a sweep may search: fields of the configs, with their kinds and bounds; sensible ranges are in one table.

--search learning_rate                  the table's range
--search hidden=64..256 lr=1e-3..1e-2   a range of one's own
--search optimizer=adam,adamw batch_size=16,32,64
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from elman.config import Config, DataConfig, NetworkConfig, TrainingConfig
from elman.data.checks import did_you_mean
from elman.errors import ArgumentError, RangeError, UnknownNameError


class Range(NamedTuple):
    low: float
    high: float
    log: bool = False  # equal factors count alike, not equal differences


RANGES = {
    "hidden": Range(32, 512, log=True),
    "layers": Range(1, 3),
    "dropout": Range(0.0, 0.5),
    "recurrent_init_scale": Range(0.5, 1.5),
    "input_init_scale": Range(0.03, 1.0, log=True),
    "batch_size": Range(16, 256, log=True),
    "window": Range(16, 256, log=True),
    "bptt_block": Range(1, 64, log=True),
    "bptt_steps": Range(1, 256, log=True),
    "learning_rate": Range(5e-4, 3e-2, log=True),
    "warmup_steps": Range(0, 500),
    "final_rate_fraction": Range(1e-3, 1.0, log=True),
    "decay_factor": Range(0.1, 0.9),
    "decay_every": Range(100, 5000, log=True),
    "plateau_patience": Range(1, 10),
    "beta1": Range(0.5, 0.99),
    "beta2": Range(0.9, 0.9999),
    "epsilon": Range(1e-10, 1e-5, log=True),
    "weight_decay": Range(1e-6, 1e-1, log=True),
    "clip_norm": Range(0.1, 10.0, log=True),
    "clip_value": Range(0.01, 10.0, log=True),
    "accumulate": Range(1, 4),
    "seed": Range(0, 9),
}
USUAL = ("hidden", "layers", "dropout", "learning_rate", "batch_size", "window")  # searched where nothing is said
ALIASES = {"lr": "learning_rate", "optimizer": "optimizer"}


@dataclass(frozen=True)
class Dimension:
    """One choice that is searched: a range of numbers, or a list."""

    name: str
    low: float = 0
    high: float = 0
    log: bool = False
    whole: bool = False  # numbers without a fraction
    choices: tuple[Any, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return (
            {"choices": list(self.choices)} if self.choices else {"low": self.low, "high": self.high, "log": self.log}
        )

    def __str__(self) -> str:
        what = ", ".join(map(str, self.choices)) if self.choices else f"{self.low:g} to {self.high:g}"
        return f"{self.name}: {what}{' (log)' * self.log}"


def searchable() -> dict[str, Any]:
    """Names and kinds: what changes neither the text nor the budget."""
    found = {}
    for part in (NetworkConfig, TrainingConfig):
        hints = get_type_hints(part)
        for field in dataclasses.fields(part):
            hint = hints[field.name]
            kind = get_args(hint)[0] if get_origin(hint) in (UnionType, Union) else hint
            if field.name in RANGES or get_origin(kind) is Literal:
                found[field.name] = kind
    return found


def space(words: Sequence[str], fixed: Iterable[str] = ()) -> list[Dimension]:
    """The dimensions that the words name, or the usual ones; those that are fixed are not searched."""
    fixed = set(fixed)
    if not words:
        return [_dimension(name, "") for name in USUAL if name not in fixed]
    parsed = [_dimension(*_named(word)) for word in words]
    names = [dimension.name for dimension in parsed]
    if twice := {name for name in names if names.count(name) > 1} | (fixed & set(names)):
        raise ArgumentError("--search", expected="each name once, and not as a flag of its own", got=", ".join(twice))
    return sorted(parsed, key=lambda dimension: names.index(dimension.name))


def _named(word: str) -> tuple[str, str]:
    name, _, values = word.partition("=")
    name = name.strip().lstrip("-").replace("-", "_")
    name = ALIASES.get(name, name)
    known = searchable()
    if name in known:
        return name, values.strip()
    if name in {field.name for field in dataclasses.fields(DataConfig)}:
        raise ArgumentError(f"--search {name}", do="Losses on another text, or of other tokens, cannot be compared.")
    if name in Config().options():
        raise ArgumentError(f"--search {name}", do="It is the same for all trials: give it as a flag.")
    raise UnknownNameError(
        "--search", expected=f"one of {', '.join(known)}", got=repr(name), do=did_you_mean(name, known) or None
    )


def _dimension(name: str, values: str) -> Dimension:
    kind = searchable()[name]
    if get_origin(kind) is Literal:
        chosen = tuple(map(str.strip, values.split(","))) if values else get_args(kind)
        return _checked(Dimension(name, choices=chosen))
    usual = RANGES[name]
    if not values:
        return Dimension(name, kind(usual.low), kind(usual.high), usual.log, kind is int)
    low, dots, high = values.partition("..")
    if not dots:
        return _checked(
            Dimension(name, whole=kind is int, choices=tuple(_number(name, v, kind) for v in values.split(",")))
        )
    ends = _number(name, low, kind), _number(name, high, kind)
    if not ends[0] < ends[1]:
        raise RangeError(f"--search {name}", expected="low..high", got=values)
    return _checked(Dimension(name, *ends, log=usual.log and ends[0] > 0, whole=kind is int))


def _number(name: str, text: str, kind: type) -> Any:
    try:
        return kind(text.strip())
    except ValueError:
        wanted = "whole numbers" if kind is int else "numbers"
        raise ArgumentError(f"--search {name}", expected=f"{wanted}: low..high, or a,b,c", got=repr(text)) from None


def _checked(dimension: Dimension) -> Dimension:
    """The dimension, if the config would take every value."""
    if len(set(dimension.choices)) != len(dimension.choices):
        raise ArgumentError(f"--search {dimension.name}", expected="each value once", got=list(dimension.choices))
    alone = Config().with_options(window=1 << 20)  # so that no block and no reach is too long
    for value in dimension.choices or (dimension.low, dimension.high):
        alone.with_options(
            **{dimension.name: value, **({"bptt_steps": 1 << 20} if dimension.name == "bptt_block" else {})}
        )
    return dimension
