"""The line that shows the progress of a training: on a terminal and in a notebook, and nowhere else."""

from __future__ import annotations

import contextlib
import io
import os
import re
import struct
import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from elman.errors import DivergenceError
from elman.models import LanguageModel, SequenceClassifier
from elman.training import Finished, ProgressLine, RolledBack, Started, Stepped
from elman.training.events import Event

Shown: TypeAlias = Callable[[Callable[[], object]], str]
SMALL = {"hidden": 8, "batch_size": 2, "window": 16, "steps": 12, "log_every": 4, "validate_every": 6}
TEXT = "the cat sat on the mat. " * 60


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shown]:
    """What a call writes to stderr if that is a real terminal, 100 characters wide."""
    pty = pytest.importorskip("pty", reason="no terminals of this kind on Windows")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("elman.training.progress_line.UPDATE_EVERY", 0.0)  # write at every step
    ours, theirs = pty.openpty()
    with open(theirs, "w", encoding="utf-8") as stderr:

        def shown(call: Callable[[], object]) -> str:
            with contextlib.redirect_stderr(stderr):
                call()
            print(end="\0", file=stderr, flush=True)
            seen = b""
            while not seen.endswith(b"\0"):  # a terminal returns the output in pieces
                seen += os.read(ours, 1 << 16)
            return seen[:-1].decode()

        yield shown
    os.close(ours)


def left_standing(written: str) -> str:
    """The text that is visible in the end, after lines were overwritten."""
    line: list[str] = []
    place = 0
    for character in written.replace("\r\n", "\n"):
        if character in "\r\n":
            place = 0
            continue
        line[place : place + 1] = character
        place += 1
    return "".join(line).rstrip()


def test_a_language_model_shows_its_steps_and_leaves_a_summary(shown: Shown) -> None:
    said = shown(lambda: LanguageModel(**SMALL).fit(TEXT))
    lines = [line.strip() for line in said.split("\r")]
    steps = [int(found[1]) for line in lines if (found := re.match(r"step (\d+) of 12", line))]
    assert steps == list(range(13))
    assert re.fullmatch(r"step 11 of 12  loss \d\.\d{4}  validation \d\.\d{4}  \d+ s left", lines[steps.index(11) + 1])
    assert left_standing(said).startswith("12 steps in ")


def test_reading_a_file_is_shown_as_well(shown: Shown, text: Path) -> None:
    said = shown(lambda: LanguageModel(**SMALL).fit(text))
    assert said.index("100%") < said.index("step 0 of 12")
    assert left_standing(said).startswith("12 steps in ")


def test_nothing_is_shown_if_the_caller_passes_listeners(shown: Shown, text: Path) -> None:
    assert shown(lambda: LanguageModel(**SMALL).fit(text, listeners=[])) == ""
    assert shown(lambda: LanguageModel(**SMALL).fit(TEXT, listeners=[lambda event: None])) == ""


def test_nothing_is_written_into_a_pipe(text: Path, capfd: pytest.CaptureFixture[str]) -> None:
    LanguageModel(**SMALL).fit(text)
    assert capfd.readouterr() == ("", "")


def test_an_error_begins_on_a_line_of_its_own(shown: Shown) -> None:
    model = LanguageModel(
        **SMALL, activation="identity", optimizer="sgd", learning_rate=1e15, warmup_steps=0, retries=0
    )

    def diverge() -> None:
        with pytest.raises(DivergenceError):
            model.fit(TEXT)

    said = shown(diverge)
    assert "step 0 of 12" in said
    assert left_standing(said) == ""
    assert said.endswith("\r")


def test_an_error_of_an_estimator_begins_on_a_line_of_its_own(shown: Shown) -> None:
    model = SequenceClassifier(activation="identity", optimizer="sgd", learning_rate=1e15, warmup_steps=0, retries=0)

    def diverge() -> None:
        with pytest.raises(DivergenceError):
            model.fit(["ab", "cd"] * 8, [0, 1] * 8, listeners=[ProgressLine()])

    said = shown(diverge)
    assert "step 0 of" in said
    assert left_standing(said) == ""
    assert said.endswith("\r")


def test_the_width_is_that_of_its_own_terminal(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS")
    stdout = "elman.training.progress_line.shutil.get_terminal_size"
    monkeypatch.setattr(stdout, lambda: os.terminal_size((int(os.environ.get("COLUMNS", "200")), 24)))

    def narrow() -> None:
        fcntl = pytest.importorskip("fcntl")
        termios = pytest.importorskip("termios")
        fcntl.ioctl(sys.stderr.fileno(), termios.TIOCSWINSZ, struct.pack("HHHH", 24, 30, 0, 0))
        line = ProgressLine()
        for event in EVENTS:
            line(event)

    said = shown(narrow)
    assert max(map(len, said.split("\r"))) == 29
    monkeypatch.setenv("COLUMNS", "25")
    assert max(map(len, shown(narrow).split("\r"))) == 24


def test_an_estimator_shows_the_line_if_asked_to(shown: Shown) -> None:
    model, X, y = SequenceClassifier(hidden=4, epochs=3, validation_fraction=0.5), ["a", "b"] * 8, [0, 1] * 8
    assert shown(lambda: model.fit(X, y)) == ""
    said = shown(lambda: model.fit(X, y, listeners=[ProgressLine()]))
    assert re.search(r"step 2 of 3  loss \S+  validation \S+  accuracy [01]\.\d{4}", said)
    assert left_standing(said) == ""


# -- without a terminal -----------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Notebook(io.StringIO):
    """As a stream of ipykernel: not a terminal, and its class belongs to a module of ipykernel."""


Notebook.__module__ = "ipykernel.iostream"
EVENTS: list[Event] = [
    Started(0, 2_000_000, 100, None),
    Stepped(1, 0.1, 2.5, 0.1, 0.1, 1000.0, 1.0, validation_loss=2.0, validation_accuracy=0.25, logged=True),
    Finished(2, "budget", 2.0, 1, 1.0),
]


def written(stream: io.StringIO, columns: int, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("elman.training.progress_line.UPDATE_EVERY", 0.0)
    monkeypatch.setenv("COLUMNS", str(columns))
    line = ProgressLine(stream)
    for event in EVENTS:
        line(event)
    return stream.getvalue()


@pytest.mark.parametrize("columns", [10, 40, 200])
def test_the_line_is_never_longer_than_the_terminal_is_wide(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    said = written(Terminal(), columns, monkeypatch)
    assert max(map(len, said.split("\r"))) < columns
    assert "step 1" in said
    assert left_standing(said) == ""


def test_the_line_is_shown_in_a_notebook_and_not_written_to_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    cells: list[list[str]] = []  # the texts that each output of a cell showed; an export has the last of each

    class Handle:
        def __init__(self) -> None:
            self.shown = cells[-1]

        def update(self, content: dict[str, str], raw: bool) -> None:
            self.shown.append(content["text/plain"])

    def display(content: dict[str, str], raw: bool, display_id: bool) -> Handle:
        cells.append([content["text/plain"]])
        return Handle()

    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    module = types.ModuleType("IPython.display")
    module.display = display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    stream = Notebook()
    assert written(stream, 200, monkeypatch) == ""
    assert len(cells) == 1
    assert "step 1 of 2,000,000  loss 2.5000  validation 2.0000  accuracy 0.2500" in cells[0][-1]
    monkeypatch.setattr("sys.stderr", stream)
    model = LanguageModel(**SMALL).fit(TEXT)
    assert len(cells) == 2
    assert cells[1][-1] == model.summary_
    assert written(io.StringIO(), 200, monkeypatch) == ""


class Writer:
    """A stream with only the methods that print needs."""

    def write(self, text: str) -> None:
        raise AssertionError(text)

    def flush(self) -> None: ...


CLOSED = io.StringIO()
CLOSED.close()


@pytest.mark.parametrize("stderr", [None, Writer(), CLOSED])  # None: a window without a console
def test_without_stderr_nothing_is_shown(stderr: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", stderr)
    line = ProgressLine()
    for event in EVENTS:
        line(event)


def test_the_line_is_not_written_more_often_than_update_every(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elman.training.progress_line.UPDATE_EVERY", 1000.0)
    stream = Terminal()
    line = ProgressLine(stream)
    for event in (EVENTS[0], *[EVENTS[1]] * 100):
        line(event)
    assert stream.getvalue() == "\rstep 0 of 2,000,000"


# -- the time that is left --------------------------------------------------------------------------------------------


class Clock:
    """A clock that the test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, first: int, steps: int) -> None:
        monkeypatch.setattr("elman.training.progress_line.UPDATE_EVERY", 0.0)
        monkeypatch.setenv("COLUMNS", "200")
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)
        self.now, self.stream = 1000.0, Terminal()
        self.line = ProgressLine(self.stream)
        self.line(Started(first, steps, 100, None))

    def step(self, number: int, seconds: float, *, loss: float = 2.5, logged: bool = False) -> str:
        """The line that is shown after this event."""
        self.now += seconds
        self.line(Stepped(number, 0.1, loss, 0.1, 0.1, 1000.0, 1.0, logged=logged))
        return self.stream.getvalue().split("\r")[-1].rstrip()


@pytest.mark.parametrize("first", [0, 100])
def test_the_time_left_does_not_count_the_first_step_which_compiles(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch, first, first + 41)
    assert clock.step(first + 1, 20.0) == f"step {first + 1} of {first + 41}"
    assert clock.step(first + 2, 1.0) == f"step {first + 2} of {first + 41}  39 s left"
    assert clock.step(first + 3, 2.0) == f"step {first + 3} of {first + 41}  57 s left"
    assert clock.step(first + 4, 60.0) == f"step {first + 4} of {first + 41}  13 min left"


def test_the_loss_is_that_of_the_last_row(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, 0, 9)
    assert "loss" not in clock.step(1, 1.0, loss=4.0)
    assert "loss 3.0000" in clock.step(2, 1.0, loss=3.0, logged=True)
    assert "loss 3.0000" in clock.step(3, 1.0, loss=5.0)


def test_a_rollback_is_a_line_that_stays_and_starts_the_clock_again(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, 100, 200)
    for number in range(101, 111):
        clock.step(number, 50.0)
    clock.line(RolledBack(111, 50, float("inf"), 0.0005, 2))
    *before, cleared, said = clock.stream.getvalue().split("\r")
    assert cleared == " " * len(before[-1])
    assert said == (
        "step 111: training diverged (loss inf). "
        "Back to step 50 with the learning rate halved to 0.0005; retries left: 2.\n"
    )
    assert clock.step(51, 50.0) == "step 51 of 200"
    assert clock.step(52, 1.0) == "step 52 of 200  2 min left"
    assert clock.step(53, 1.0) == "step 53 of 200  2 min left"
