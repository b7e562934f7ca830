"""Small checks that several modules share."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable, Sequence
from itertools import islice

from elman.errors import RangeError, UnknownNameError


def one_of(what: str, name: str, names: Sequence[str]) -> str:
    """The name, if it is one of them."""
    if name not in names:
        raise UnknownNameError(what, expected=f"one of {', '.join(names)}", got=reprlib.repr(name))
    return name


def at_least_one(what: str, number: int) -> int:
    """The number, if it counts something."""
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise RangeError(what, expected="a whole number of 1 or more", got=reprlib.repr(number))
    return number


def few(items: Iterable[object]) -> str:
    """The first of them, for an error message; lone surrogates come out escaped."""
    items = list(items)
    shown = ", ".join(map(reprlib.repr, islice(items, 5)))
    return f"{shown} and {len(items) - 5} more" if len(items) > 5 else shown


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """`Did you mean …?`, or nothing."""
    close = difflib.get_close_matches(name, list(names), n=1)
    return f"Did you mean {close[0]}?" if close else ""
