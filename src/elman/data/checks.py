"""Small checks that several modules share."""

from __future__ import annotations

import difflib
import os
import reprlib
from collections.abc import Iterable, Sequence
from itertools import islice

from elman.errors import RangeError, UnknownNameError


def one_of(what: str, name: str, names: Sequence[str]) -> str:
    """The name, if it is one of the names; UnknownNameError otherwise."""
    if name not in names:
        raise UnknownNameError(what, expected=f"one of {', '.join(names)}", got=reprlib.repr(name))
    return name


def at_least_one(what: str, number: int) -> int:
    """The number, if it is an integer of at least 1; RangeError otherwise."""
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise RangeError(what, expected="a whole number of 1 or more", got=reprlib.repr(number))
    return number


def few(items: Iterable[object]) -> str:
    """The first five items, for an error message; lone surrogates are escaped."""
    items = list(items)
    shown = ", ".join(map(reprlib.repr, islice(items, 5)))
    return f"{shown} and {len(items) - 5} more" if len(items) > 5 else shown


def shortened(value: object, most: int = 60) -> str:
    """The repr of a value, for an error message, cut to `most` characters."""
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 3]}…"


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """`Did you mean …?` with the most similar name, or an empty string."""
    close = difflib.get_close_matches(name, list(names), n=1)
    return f"Did you mean {close[0]}?" if close else ""


def also_searched() -> str:
    """Where else a file that was not found was searched for, as part of a sentence."""
    folder = os.environ.get("ELMAN_DATA")
    but = f", but there is no folder {folder!r}" if folder and not os.path.isdir(folder) else ""
    return f"files are also searched for in $ELMAN_DATA{but}"
