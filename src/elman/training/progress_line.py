"""One line on stderr that shows how training gets on: written over and over, and gone in the end.

    SequenceClassifier().fit(X, y, listeners=[ProgressLine()])

It shows where somebody watches, on a terminal or in a notebook, and nowhere else.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from typing import Self, TextIO

from elman.training.events import Event, Failed, Finished, RolledBack, Started, Stepped

EVERY = 0.1  # seconds


class ProgressLine:
    """A listener."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._shown, self._written = 0, 0.0  # characters that stand there; since when
        self._loss = self._held = ""  # of the last row, and of the last validation
        self._first: int | None = None  # the step that started the clock: the one before it may have to compile

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def __call__(self, event: Event) -> None:
        if isinstance(event, Started):
            self._first, self._steps = None, event.steps
            self._loss = self._held = ""
            self._show(f"step {event.step:,} of {event.steps:,}")
        elif isinstance(event, Stepped):
            self._stepped(event)
        elif isinstance(event, RolledBack):
            self._first = None
            self.clear()
            self._write(f"{rolled_back(event)}\n")
        elif isinstance(event, Finished | Failed):
            self.clear()

    def reading(self, what: str, done: int, total: int) -> None:
        """Of a file, before training begins."""
        if self._is_due():
            self._show(f"{what} {done / total:.0%}" if total else what)

    def clear(self) -> None:
        if self._shown:
            self._show("")
            self._write("\r")

    def _stepped(self, event: Stepped) -> None:
        if self._first is None:
            self._first, self._began = event.step, time.perf_counter()
        if event.logged:
            self._loss = f"  loss {event.loss:.4f}"
        if event.validation_loss is not None:
            self._held = f"  validation {event.validation_loss:.4f}"
        if event.validation_accuracy is not None:
            self._held += f"  accuracy {event.validation_accuracy:.4f}"
        if self._is_due():
            time_left = self._time_left(event.step - self._first, self._steps - event.step)
            self._show(f"step {event.step:,} of {self._steps:,}{self._loss}{self._held}{time_left}")

    def _time_left(self, taken: int, left: int) -> str:
        if not taken:
            return ""
        seconds = (time.perf_counter() - self._began) / taken * left
        return f"  {seconds:.0f} s left" if seconds < 120 else f"  {seconds / 60:.0f} min left"

    def _is_due(self) -> bool:
        return time.perf_counter() - self._written >= EVERY

    def _show(self, text: str) -> None:
        text = text[: _columns(self._stream) - 1]  # a line that is broken in two cannot be written over
        self._write("\r" + text.ljust(self._shown))
        self._shown, self._written = len(text), time.perf_counter()

    def _write(self, text: str) -> None:
        if _is_watched(self._stream):
            self._stream.write(text)
            self._stream.flush()


def _is_watched(stream: TextIO | None) -> bool:
    """A terminal, or a notebook, which is none but can write a line over."""
    try:
        return stream is not None and (stream.isatty() or type(stream).__module__.startswith("ipykernel."))
    except (AttributeError, ValueError):  # of a writer that can no more than write, of a stream that is closed
        return False


def _columns(stream: TextIO | None) -> int:
    """Of the stream's own terminal, which need not be that of stdout; $COLUMNS overrides it."""
    if stream is not None and not os.environ.get("COLUMNS"):
        with contextlib.suppress(AttributeError, OSError, ValueError):  # a notebook has none
            if columns := os.get_terminal_size(stream.fileno()).columns:
                return columns
    return shutil.get_terminal_size().columns


def rolled_back(event: RolledBack) -> str:
    return (
        f"step {event.step}: the loss diverged ({event.loss:.4g}). Back to step {event.to} with the rate "
        f"halved to {event.learning_rate:.2g}; tries left: {event.retries_left}."
    )
