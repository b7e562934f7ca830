"""The progress of a run: lines, and on a terminal also a bar."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from elman.cli.console import console
from elman.training.events import Event, Finished, RolledBack, Started, Stepped
from elman.training.progress_line import rolled_back

LINE_SECONDS = 0.2  # least time between two lines about validations: small data sets are validated every few steps
LINE_STEPS = 100  # steps from one line to the next if there is no terminal


class TrainingReport:
    """A listener that prints the progress of a run; `epochs` is the new budget of a resumed run."""

    def __init__(self, epochs: float | None = None) -> None:
        self.epochs = epochs
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20 if console.rich.width >= 100 else 6),
            TextColumn("{task.fields[at]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[figures]}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")),
            expand=True,  # the figures get the width that the other columns leave
            console=console.rich,
            transient=True,
            disable=not console.is_terminal,
        )
        self.job = self.bar.add_task("getting ready", total=None, at="", figures="")
        self.validation = ""  # the figures of the last validation
        self.held = ""  # the line of the best step, if it was held back
        self.steps, self.printed = -1, -math.inf  # steps of the run; time of the last line

    def __enter__(self) -> TrainingReport:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def __call__(self, event: Event) -> None:
        if isinstance(event, Started):
            self.steps = event.steps
            self.bar.update(self.job, description="training", total=event.steps, **self._at(event.step))
            patient = event.finished == "patience"
            if event.step >= event.steps or patient:
                why = (
                    self._why_done(event) if event.step >= event.steps else "validation stopped improving (--patience)"
                )
                more = "A larger --steps or --epochs, or --seconds for more time, continues the run."
                console.print(f"Nothing is left to do: {why}. {more}")
            else:
                begin = f"Continuing from step {event.step}" if event.step else "Training"
                console.print(f"{begin}: {event.parameters:,} parameters, {event.steps:,} steps.")
            if event.validation is not None:
                loss = _number(event.validation.loss)
                console.print(f"step {0:6}  epoch {0:5.1f}  validation {loss}  the model that training starts from")
        elif isinstance(event, Stepped):
            self._stepped(event)
        elif isinstance(event, RolledBack):
            self._print_held()
            console.print(rolled_back(event), style="yellow")
        elif isinstance(event, Finished):
            self._print_held()
            self.bar.update(self.job, **self._at(event.step))

    def _why_done(self, event: Started) -> str:
        """Why no step is left."""
        if event.step == event.steps:
            return f"all {event.steps:,} steps are taken"
        asked = f"{event.steps:,} steps"
        if self.epochs is not None:
            asked = f"{self.epochs:g} epoch{'s' * (self.epochs != 1)} ({asked})"
        return f"it has already taken {event.step:,} steps, more than {asked}"

    def _stepped(self, event: Stepped) -> None:
        self.validation = _validation(event) or self.validation
        if event.logged:
            self.bar.update(self.job, **self._at(event.step), figures=self._figures(event))
        last, now = event.step == self.steps, time.monotonic()
        due = event.validation_loss is not None or (not console.is_terminal and event.step % LINE_STEPS == 0)
        best = "  best so far" if event.best else ""
        line = f"step {event.step:6}  epoch {event.epoch:5.1f}  {self._line(event)}{best}"
        if event.best:
            self.held = ""  # an earlier one is no longer the best
        if last or event.sample is not None or (due and now - self.printed >= LINE_SECONDS):
            self._print_held()
            self.printed = now
            console.print(line)
        elif event.best:
            self.held = line
        if event.sample is not None:
            console.print(Text(event.sample.strip(), style="dim italic"))
            console.print()

    def _print_held(self) -> None:
        """Print the line of the best step if it was held back, because it came too soon after another line."""
        if self.held:
            console.print(self.held)
        self.held = ""

    def _at(self, step: int) -> dict[str, Any]:
        return {"completed": step, "at": f"{step}/{self.steps}"}

    def _figures(self, event: Stepped) -> str:
        speed = f"{event.tokens_per_second / 1000:.0f}k tokens/s"
        return f"loss {_number(event.loss)}{self.validation}  {speed}"

    def _line(self, event: Stepped) -> str:
        speed = f"{event.tokens_per_second / 1000:5.0f}k tokens/s"
        return f"loss {_number(event.loss)}  gradient {_number(event.gradient_norm)}  {speed}{_validation(event)}"


def _validation(event: Stepped) -> str:
    """The validation loss and accuracy, if this step was validated."""
    loss = "" if event.validation_loss is None else f"  validation {_number(event.validation_loss)}"
    return loss if event.validation_accuracy is None else f"{loss}  accuracy {event.validation_accuracy:.4f}"


def _number(value: float) -> str:
    return f"{value:.4f}" if math.isfinite(value) and abs(value) < 1e4 else f"{value:.3g}"


@contextmanager
def reading() -> Iterator[Callable[[str, int, int], None]]:
    """A progress bar for reading files, which disappears at the end; yields progress(what, done, total)."""
    with Progress(console=console.rich, transient=True, disable=not console.is_terminal) as bar:
        jobs: dict[str, int] = {}

        def progress(what: str, done: int, total: int) -> None:
            if what not in jobs:
                jobs[what] = bar.add_task(what, total=total or None)
            bar.update(jobs[what], completed=done)  # type: ignore[arg-type]

        yield progress
