"""Watch lines of the source while they run: what a line computed, and where it stands.

A line is named by its function and its code. It is sought in the source, so that a page which quotes it cannot drift:
a line that is not there, or there twice, is an error.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import numpy as np

from elman.errors import ElmanError
from elman.maths.arrays import Array

R = TypeVar("R")
ROOT = Path(__file__).parents[2]  # that of the package


@dataclass(frozen=True)
class Line:
    """One line of a function, or of a module."""

    home: Any
    code: str
    keeps: str = ""  # the variable that it sets

    @cached_property
    def number(self) -> int:
        """Where it stands in its file, counted from 1."""
        lines, first = inspect.getsourcelines(self.home)
        found = [i for i, line in enumerate(lines) if line.split("  #")[0].strip() == self.code]
        if len(found) != 1:
            what = f"the line {self.code!r} of {self.home.__name__}"
            raise ElmanError(what, expected="once", got=f"{len(found)} times")
        return found[0] + max(first, 1)

    def to_json(self) -> dict[str, Any]:
        path = Path(inspect.getfile(self.home)).relative_to(ROOT).as_posix()
        name = "" if inspect.ismodule(self.home) else self.home.__name__
        return {"code": self.code, "file": path, "line": self.number, "function": name}


def watch(call: Callable[[], R], lines: Sequence[Line]) -> tuple[R, list[list[Array]]]:
    """What the call returns, and for each line a copy of its variable from each time that it had run."""
    wanted = {(line.home.__code__, line.number): i for i, line in enumerate(lines)}
    functions = {function for function, _ in wanted}
    kept: list[list[Array]] = [[] for _ in lines]

    def enter(frame: FrameType, event: str, value: Any) -> Any:
        if frame.f_code not in functions:
            return None
        running: int | None = None  # a line is announced before it runs, and has run at the next announcement

        def step(frame: FrameType, event: str, value: Any) -> Any:
            nonlocal running
            if running is not None:
                kept[running].append(np.array(frame.f_locals[lines[running].keeps]))
            running = wanted.get((frame.f_code, frame.f_lineno)) if event == "line" else None
            return step

        return step

    before = sys.gettrace()  # of a debugger, or of who measures coverage
    sys.settrace(enter)
    try:
        result = call()
    finally:
        sys.settrace(before)
    if missing := [line.code for line, values in zip(lines, kept, strict=True) if not values]:
        raise ElmanError("lines that did not run", got=", ".join(map(repr, missing)))
    return result, kept
