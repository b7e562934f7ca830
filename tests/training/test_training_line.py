"""The line that shows how training gets on: on a terminal, where somebody watches, and nowhere else."""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from elman.errors import DivergenceError
from elman.models import LanguageModel, SequenceClassifier
from elman.training import Finished, ProgressLine, Started, Stepped
from elman.training.events import Event

Shown: TypeAlias = Callable[[Callable[[], object]], str]
SMALL = {"hidden": 8, "batch": 2, "window": 16, "steps": 12, "log_every": 4, "validate_every": 6}
TEXT = "the cat sat on the mat. " * 60


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shown]:
    """What a call writes to stderr where that is a real terminal, 100 characters wide."""
    pty = pytest.importorskip("pty", reason="no terminals of this kind on Windows")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("elman.training.line.EVERY", 0.0)  # every step, so that there is no chance in it
    ours, theirs = pty.openpty()
    with open(theirs, "w", encoding="utf-8") as stderr:

        def shown(call: Callable[[], object]) -> str:
            with contextlib.redirect_stderr(stderr):
                call()
            print(end="\0", file=stderr, flush=True)
            seen = b""
            while not seen.endswith(b"\0"):  # a terminal hands over piece by piece
                seen += os.read(ours, 1 << 16)
            return seen[:-1].decode()

        yield shown
    os.close(ours)


def left_standing(written: str) -> str:
    """What a person sees in the end, of what was written over and over."""
    line: list[str] = []
    place = 0
    for character in written.replace("\r\n", "\n"):
        if character in "\r\n":
            place = 0
            continue
        line[place : place + 1] = character
        place += 1
    return "".join(line).rstrip()


def test_a_language_model_shows_its_steps_and_leaves_nothing_behind(shown: Shown) -> None:
    said = shown(lambda: LanguageModel(**SMALL).fit(TEXT))
    lines = [line.strip() for line in said.split("\r")]
    steps = [int(found[1]) for line in lines if (found := re.match(r"step (\d+) of 12", line))]
    assert steps == list(range(13))
    assert re.fullmatch(r"step 11 of 12  loss \d\.\d{4}  validation \d\.\d{4}  \d+ s left", lines[steps.index(11) + 1])
    assert left_standing(said) == ""


def test_a_file_that_is_read_is_seen_as_well(shown: Shown, text: Path) -> None:
    said = shown(lambda: LanguageModel(**SMALL).fit(text))
    assert said.index("100%") < said.index("step 0 of 12")
    assert left_standing(said) == ""


def test_whoever_listens_hears_alone(shown: Shown, text: Path) -> None:
    assert shown(lambda: LanguageModel(**SMALL).fit(text, listeners=[])) == ""
    assert shown(lambda: LanguageModel(**SMALL).fit(TEXT, listeners=[lambda event: None])) == ""


def test_nothing_is_written_into_a_pipe(text: Path, capfd: pytest.CaptureFixture[str]) -> None:
    LanguageModel(**SMALL).fit(text)
    assert capfd.readouterr() == ("", "")


def test_an_error_begins_on_a_line_of_its_own(shown: Shown) -> None:
    model = LanguageModel(**SMALL, activation="identity", optimiser="sgd", learning_rate=1e15, warmup=0, retries=0)

    def diverge() -> None:
        with pytest.raises(DivergenceError):
            model.fit(TEXT)

    said = shown(diverge)
    assert "step 0 of 12" in said
    assert left_standing(said) == ""
    assert said.endswith("\r")


def test_an_estimator_shows_it_where_it_is_asked_to(shown: Shown) -> None:
    model, X, y = SequenceClassifier(hidden=4, epochs=3, validation=0.5), ["a", "b"] * 8, [0, 1] * 8
    assert shown(lambda: model.fit(X, y)) == ""
    said = shown(lambda: model.fit(X, y, listeners=[ProgressLine()]))
    assert re.search(r"step 2 of 3  loss \S+  validation \S+  accuracy [01]\.\d{4}", said)
    assert left_standing(said) == ""


# -- without a terminal -----------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Notebook(io.StringIO):
    """Of ipykernel's streams all that matters: they are no terminals, and say whose they are."""


Notebook.__module__ = "ipykernel.iostream"
EVENTS: list[Event] = [
    Started(0, 2_000_000, 100, None),
    Stepped(1, 0.1, 2.5, 0.1, 0.1, 1000.0, 1.0, validation_loss=2.0, validation_accuracy=0.25, logged=True),
    Finished(2, "budget", 2.0, 1, 1.0),
]


def written(stream: io.StringIO, columns: int, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("elman.training.line.EVERY", 0.0)
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


def test_a_notebook_sees_it_and_a_file_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    said = written(Notebook(), 200, monkeypatch)
    assert "step 1 of 2,000,000  loss 2.5000  validation 2.0000  accuracy 0.2500" in said
    assert written(io.StringIO(), 200, monkeypatch) == ""


def test_where_there_is_no_stderr_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)  # a window without a console
    line = ProgressLine()
    for event in EVENTS:
        line(event)


def test_it_is_not_written_more_often_than_an_eye_can_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elman.training.line.EVERY", 1000.0)
    stream = Terminal()
    line = ProgressLine(stream)
    for event in (EVENTS[0], *[EVENTS[1]] * 100):
        line(event)
    assert stream.getvalue() == "\rstep 0 of 2,000,000"
