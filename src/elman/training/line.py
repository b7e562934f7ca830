"""One line on stderr that shows how training gets on: written over and over, and gone in the end.

    SequenceClassifier().fit(X, y, listeners=[ProgressLine()])

It shows where somebody watches, on a terminal or in a notebook, and nowhere else.
"""

from __future__ import annotations

import shutil
import sys
import time
from typing import Self, TextIO

from elman.training.events import Event, Finished, Started, Stepped

EVERY = 0.1  # seconds


class ProgressLine:
    """A listener."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._shown, self._written = 0, 0.0  # characters that stand there; since when
        self._loss = self._held = ""  # of the last row, and of the last validation

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def __call__(self, event: Event) -> None:
        if isinstance(event, Started):
            self._began, self._first, self._steps = time.perf_counter(), event.step, event.steps
            self._loss = self._held = ""
            self._show(f"step {event.step:,} of {event.steps:,}")
        elif isinstance(event, Stepped):
            self._stepped(event)
        elif isinstance(event, Finished):
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
        if event.logged:
            self._loss = f"  loss {event.loss:.4f}"
        if event.validation_loss is not None:
            self._held = f"  validation {event.validation_loss:.4f}"
        if event.validation_accuracy is not None:
            self._held += f"  accuracy {event.validation_accuracy:.4f}"
        if self._is_due():
            taken, left = event.step - self._first, self._steps - event.step
            seconds = (time.perf_counter() - self._began) / max(taken, 1) * left
            time_left = f"{seconds:.0f} s left" if seconds < 120 else f"{seconds / 60:.0f} min left"
            self._show(f"step {event.step:,} of {self._steps:,}{self._loss}{self._held}  {time_left}")

    def _is_due(self) -> bool:
        return time.perf_counter() - self._written >= EVERY

    def _show(self, text: str) -> None:
        text = text[: shutil.get_terminal_size().columns - 1]  # a line that is broken in two cannot be written over
        self._write("\r" + text.ljust(self._shown))
        self._shown, self._written = len(text), time.perf_counter()

    def _write(self, text: str) -> None:
        if _is_watched(self._stream):
            self._stream.write(text)
            self._stream.flush()


def _is_watched(stream: TextIO | None) -> bool:
    """A terminal, or a notebook, which is none but can write a line over."""
    return stream is not None and (stream.isatty() or type(stream).__module__.startswith("ipykernel."))
