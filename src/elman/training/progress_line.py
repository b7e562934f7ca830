"""One line that shows the progress of a training: on stderr of a terminal, or as one output of a notebook cell."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from typing import Any, Self, TextIO

from elman.training.events import Event, Failed, Finished, RolledBack, Started, Stepped

UPDATE_EVERY = 0.1  # seconds


class ProgressLine:
    """A listener that shows the progress of a training in one line, which is overwritten.

    On a terminal the line goes to stderr. In a notebook it is one output of the cell that is updated in place, so that
    an exported notebook has one line. If stderr is a file or a pipe, nothing is written.

    Parameters
    ----------
    stream : text stream, optional
        Where to write; stderr unless given.

    Examples
    --------
    >>> from elman import SequenceClassifier
    >>> from elman.training import ProgressLine
    >>> model = SequenceClassifier(hidden=4, epochs=1)
    >>> model = model.fit(["ab", "ba"] * 4, ["x", "y"] * 4, listeners=[ProgressLine()])
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._cell: Any = None  # the output of a notebook cell
        self._shown, self._written = 0, 0.0  # characters of the line that is shown; when it was written
        self._loss = self._validation = ""  # texts with the last training loss and the last validation
        self._first: int | None = None  # the step from which time is measured: the first step may compile

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def __call__(self, event: Event) -> None:
        if isinstance(event, Started):
            self._first, self._steps = None, event.steps
            self._loss = self._validation = ""
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
        """Show how much of a file has been read, before training begins.

        Parameters
        ----------
        what : str
            What is being done.
        done : int
            Bytes so far.
        total : int
            All bytes; 0 if unknown.
        """
        if self._is_due():
            self._show(f"{what} {done / total:.0%}" if total else what)

    def clear(self) -> None:
        """Remove the line; in a notebook the last text stays."""
        if self._shown and not self._in_notebook():
            self._show("")
            self._write("\r")

    def end(self, summary: str) -> None:
        """Replace the line by a summary that stays.

        Parameters
        ----------
        summary : str
            One line.
        """
        self.clear()
        self._write(f"{summary}\n")

    def _stepped(self, event: Stepped) -> None:
        if self._first is None:
            self._first, self._began = event.step, time.perf_counter()
        if event.logged:
            self._loss = f"  loss {event.loss:.4f}"
        if event.validation_loss is not None:
            self._validation = f"  validation {event.validation_loss:.4f}"
        if event.validation_accuracy is not None:
            self._validation += f"  accuracy {event.validation_accuracy:.4f}"
        if self._is_due():
            time_left = self._time_left(event.step - self._first, self._steps - event.step)
            self._show(f"step {event.step:,} of {self._steps:,}{self._loss}{self._validation}{time_left}")

    def _time_left(self, taken: int, left: int) -> str:
        if not taken:
            return ""
        seconds = (time.perf_counter() - self._began) / taken * left
        return f"  {seconds:.0f} s left" if seconds < 120 else f"  {seconds / 60:.0f} min left"

    def _is_due(self) -> bool:
        return time.perf_counter() - self._written >= UPDATE_EVERY

    def _show(self, text: str) -> None:
        if self._in_notebook():
            self._update_cell(text)
        else:
            text = text[: _columns(self._stream) - 1]  # a line that wraps cannot be overwritten
            self._write("\r" + text.ljust(self._shown))
        self._shown, self._written = len(text), time.perf_counter()

    def _update_cell(self, text: str) -> None:
        from IPython.display import display

        if self._cell is None:
            self._cell = display({"text/plain": text}, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._cell.update({"text/plain": text}, raw=True)

    def _in_notebook(self) -> bool:
        return type(self._stream).__module__.startswith("ipykernel.")

    def _write(self, text: str) -> None:
        if self._in_notebook():
            self._update_cell(text.strip())
            self._cell = None  # a message stays: the next line is another output
        elif _is_terminal(self._stream):
            self._stream.write(text)
            self._stream.flush()


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except (AttributeError, ValueError):  # a stream without isatty, or a closed one
        return False


def _columns(stream: TextIO | None) -> int:
    """The width of the terminal of the stream, which may differ from that of stdout; $COLUMNS overrides it."""
    if stream is not None and not os.environ.get("COLUMNS"):
        with contextlib.suppress(AttributeError, OSError, ValueError):  # a notebook has none
            if columns := os.get_terminal_size(stream.fileno()).columns:
                return columns
    return shutil.get_terminal_size().columns


def rolled_back(event: RolledBack) -> str:
    """The message about a diverged training."""
    return (
        f"step {event.step}: training diverged (loss {event.loss:.4g}). Back to step {event.to} with the learning rate "
        f"halved to {event.learning_rate:.2g}; retries left: {event.retries_left}."
    )
