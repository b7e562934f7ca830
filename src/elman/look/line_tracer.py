"""Records the values that marked lines of the source compute while they run."""

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
from elman.look.source import Marked, find_line
from elman.maths.arrays import Array

R = TypeVar("R")
ROOT = Path(__file__).parents[2]  # the folder that contains the package elman


@dataclass(frozen=True)
class Line:
    """A marked line of a function, or of a table in a module."""

    home: Any  # the function, or the module
    marker: str  # in a module: the name of the table and the marker
    keeps: str = ""  # the variable to record after the line has run

    @property
    def name(self) -> str:
        return self.marker if inspect.ismodule(self.home) else f"{self.home.__qualname__} {self.marker}"

    @property
    def path(self) -> Path:
        return Path(inspect.getfile(self.home))

    @cached_property
    def found(self) -> Marked:
        """The position and the code of the line."""
        return find_line(self.path, self.name)

    def to_json(self) -> dict[str, Any]:
        file, function = self.path.relative_to(ROOT).as_posix(), self.name.rpartition(" ")[0]
        return {"code": self.found.code, "file": file, "line": self.found.first, "function": function}


def watch(call: Callable[[], R], lines: Sequence[Line]) -> tuple[R, list[list[Array]]]:
    """Call a function; returns its result and, for each line, copies of its variable after each time the line ran."""
    wanted = {
        (line.home.__code__, number): i
        for i, line in enumerate(lines)
        for number in range(line.found.first, line.found.last + 1)
    }
    functions = {function for function, _ in wanted}
    kept: list[list[Array]] = [[] for _ in lines]

    def enter(frame: FrameType, event: str, value: Any) -> Any:
        if frame.f_code not in functions:
            return None
        running: int | None = None  # a trace event comes before a line runs; it has run when the next event comes

        def step(frame: FrameType, event: str, value: Any) -> Any:
            nonlocal running
            now = wanted.get((frame.f_code, frame.f_lineno)) if event == "line" else None
            if running is not None and now != running:
                kept[running].append(np.array(frame.f_locals[lines[running].keeps]))
            running = now
            return step

        return step

    before = sys.gettrace()  # of a debugger, or of a coverage tool
    sys.settrace(enter)
    try:
        result = call()
    finally:
        sys.settrace(before)
    if missing := [line.name for line, values in zip(lines, kept, strict=True) if not values]:
        raise ElmanError("the watched lines", expected="all to run", got=f"no run of {', '.join(map(repr, missing))}")
    return result, kept
