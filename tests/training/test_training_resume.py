"""Exact resume: a run that is killed, however and how often, ends like an uninterrupted one."""

from __future__ import annotations

import io
import itertools
import json
import os
import random
import shutil
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from training_tools import CASES, Killed, outcome, resume, rows, small_config, small_text, start

from elman.data import open_corpus
from elman.errors import CheckpointError, DivergenceError, RunError
from elman.models import runs
from elman.training import Event, Finished, RolledBack, Run, Saved, Started, Stepped

SYSTEM_CALLS = ("fsync", "rename", "replace", "mkdir", "unlink", "rmdir", "ftruncate")


def killer(when: Callable[[Event], bool]) -> Callable[[Event], None]:
    def listener(event: Event) -> None:
        if when(event):
            raise Killed

    return listener


def after_events(count: int) -> Callable[[Event], bool]:
    left = [count]

    def when(event: Event) -> bool:
        left[0] -= 1
        return left[0] == 0

    return when


@contextmanager
def killed_at_call(number: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Raise Killed in place of the system call of this number."""
    calls: list[str] = []

    def patched(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            calls.append(name)
            if len(calls) == number:
                raise Killed
            return real(*args, **options)

        return call

    with monkeypatch.context() as patch:
        for name in SYSTEM_CALLS:
            patch.setattr(os, name, patched(name, getattr(os, name)))
        yield calls


@pytest.mark.parametrize("case", CASES)
def test_a_run_killed_after_any_event_ends_as_if_it_had_not_been(case: str, text: Path, tmp_path: Path) -> None:
    events: list[Event] = []
    start(text, tmp_path / "whole", [events.append], **CASES[case])
    expected = outcome(tmp_path / "whole")
    draw = random.Random(case)
    for attempt in range(2):
        run = tmp_path / f"killed-{attempt}"
        with pytest.raises(Killed):
            start(text, run, [killer(after_events(draw.randrange(1, 15)))], **CASES[case])
        finished = False
        while not finished:
            try:
                resume(run, [killer(after_events(draw.randrange(2, len(events))))])
                finished = True
            except Killed:
                pass
        assert outcome(run) == expected


def test_each_case_does_what_its_name_says(text: Path, tmp_path: Path) -> None:
    seen: dict[str, list[Event]] = {}
    for case in ("early stop", "plateau", "divergence", "divergence, far back", "dropout"):
        seen[case] = []
        start(text, tmp_path / case, [seen[case].append], **CASES[case])
    assert seen["early stop"][-1].why == "patience"
    rates = {round(e.learning_rate, 6) for e in seen["plateau"][5:] if isinstance(e, Stepped)}
    assert len(rates) > 2
    assert any(e.sample for e in seen["dropout"] if isinstance(e, Stepped))
    saves = {e.step for e in seen["divergence, far back"] if isinstance(e, Saved)}
    rolled = [e for e in seen["divergence, far back"] if isinstance(e, RolledBack)]
    assert any(e.to < save <= e.step for e in rolled for save in saves)  # past a checkpoint
    assert any(e.to > 0 for e in seen["divergence"] if isinstance(e, RolledBack))


@pytest.mark.parametrize("case", ["plain", "divergence, far back"])
def test_a_run_killed_at_any_system_call_ends_as_if_it_had_not_been(
    case: str, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = CASES[case] | {"steps": 12 if case == "plain" else 7}
    start(text, tmp_path / "before", **options)  # so that text and kernels are in the cache, and only the run is tested
    with killed_at_call(-1, monkeypatch) as calls:
        saved: list[int] = []
        start(text, tmp_path / "whole", [lambda e: saved.append(e.step) if isinstance(e, Saved) else None], **options)
    assert saved == ([5, 10, 12] if case == "plain" else [3, 3, 6, 7])  # also in the place of an older one
    expected, total = outcome(tmp_path / "whole"), len(calls)
    assert total > 40
    assert set(calls) >= {"fsync", "rename", "replace", "mkdir", "unlink", "rmdir"}
    for number in range(1, total + 1):
        run = tmp_path / "runs" / str(number)
        with pytest.raises(Killed), killed_at_call(number, monkeypatch):
            start(text, run, **options)
        if not run.exists():  # before it was there at all: nothing stands in the way of a new start, not even what
            start(text, run, **options)  # was left by a process with this very number; numbers come again
        assert not list(run.parent.glob(".*")), f"left behind by call {number}, {calls[number - 1]}"
        resume(run)
        assert outcome(run) == expected, f"killed at call {number}, {calls[number - 1]}"
        assert not list(run.rglob(".*")), f"left behind by call {number}, {calls[number - 1]}"
        assert len(list((run / "checkpoints").iterdir())) <= 3  # the last one may have died before it could prune
        if number % 12 == 0:  # and a kill in the resumed run
            again = tmp_path / "again" / str(number)
            with pytest.raises(Killed), killed_at_call(number, monkeypatch):
                start(text, again, **options)
            if again.exists():
                for second in (3, 9, 17):
                    try:
                        with killed_at_call(second, monkeypatch):
                            resume(again)
                    except Killed:
                        pass
                resume(again)
                assert outcome(again) == expected


def test_a_finished_run_that_was_killed_before_its_model_was_written_gets_it(text: Path, tmp_path: Path) -> None:
    """The last checkpoint says that the run is over; whoever resumes must not find another model than its best."""
    options = {"steps": 10, "save_every": 100, "validate_every": 5}
    start(text, tmp_path / "whole", **options)
    with pytest.raises(Killed):
        start(text, tmp_path / "run", [killer(lambda e: isinstance(e, Saved))], **options)
    resume(tmp_path / "run")
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")


def test_a_run_killed_before_its_first_checkpoint_starts_at_0(text: Path, tmp_path: Path) -> None:
    start(text, tmp_path / "whole")
    with pytest.raises(Killed):
        start(text, tmp_path / "run", [killer(lambda e: isinstance(e, Stepped) and e.step == 4)])
    assert len(rows(tmp_path / "run")) == 1
    assert not (tmp_path / "run" / "checkpoints").exists()
    with pytest.raises(RunError, match="no model yet"):
        runs.load(tmp_path / "run")
    events: list[Event] = []
    resume(tmp_path / "run", [events.append])
    assert events[0] == Started(0, 24, events[0].parameters, tmp_path / "run")
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")


def test_an_incomplete_last_row_is_removed(text: Path, tmp_path: Path) -> None:
    start(text, tmp_path / "whole")
    with pytest.raises(Killed):
        start(text, tmp_path / "run", [killer(lambda e: isinstance(e, Stepped) and e.step == 17)])
    for torn in (b'{"step": 17, "epo', b"\xff\x00", b'{"step": 999}\n{"a'):
        with (tmp_path / "run" / "metrics.jsonl").open("ab") as file:
            file.write(torn)
        assert all(row["step"] <= 18 or row["step"] == 999 for row in Run(tmp_path / "run").metrics())
        with pytest.raises(Killed):
            resume(tmp_path / "run", [killer(lambda e: isinstance(e, Stepped) and e.step == 18)])
    resume(tmp_path / "run")
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")


def test_metrics_that_somebody_deleted_or_cut_do_not_become_nuls(text: Path, tmp_path: Path) -> None:
    start(text, tmp_path / "run")
    metrics = tmp_path / "run" / "metrics.jsonl"
    metrics.unlink()
    resume(tmp_path / "run", steps=30)
    assert [row["step"] for row in rows(tmp_path / "run")] == [28, 30]
    first = metrics.read_bytes().splitlines(keepends=True)[0]
    metrics.write_bytes(first)
    resume(tmp_path / "run", steps=34)
    assert [row["step"] for row in rows(tmp_path / "run")] == [28, 32, 34]


def test_speed_after_a_resume_counts_only_the_steps_made_since(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = itertools.count()  # a clock that advances by 1 with each call
    clock = types.SimpleNamespace(perf_counter=lambda: float(next(ticks)))
    monkeypatch.setattr("elman.training.trainer.time", clock)
    start(text, tmp_path / "run", steps=200, log_every=200, validate_every=200)
    resume(tmp_path / "run", steps=202)
    before, after = rows(tmp_path / "run")
    assert 0.2 < after["tokens_per_second"] / before["tokens_per_second"] < 5
    assert after["seconds"] > before["seconds"]


def test_a_finished_run_resumed_does_nothing(text: Path, tmp_path: Path) -> None:
    for name, options in (("budget", {}), ("patience", CASES["early stop"])):
        run = tmp_path / name
        first = start(text, run, **options)
        before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
        events: list[Event] = []
        trained = resume(run, [events.append])
        assert [type(e) for e in events] == [Started, Finished]
        assert (trained.finished.why, trained.finished.step) == (name, first.finished.step)
        assert (trained.parameters.buffer == first.parameters.buffer).all()
        assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_a_larger_budget_continues_the_run_and_is_stored(text: Path, tmp_path: Path) -> None:
    options = {"schedule": "constant", "log_every": 4, "validate_every": 8}
    start(text, tmp_path / "run", steps=16, **options)
    start(text, tmp_path / "whole", steps=32, **options)
    with pytest.raises(Killed):
        resume(tmp_path / "run", [killer(lambda e: isinstance(e, Stepped) and e.step == 27)], steps=32)
    assert json.loads((tmp_path / "run" / "config.json").read_bytes())["steps"] == 32
    assert resume(tmp_path / "run").finished.step == 32  # and need not be given again
    assert outcome(tmp_path / "run")[:2] == outcome(tmp_path / "whole")[:2]


def test_another_budget_continues_a_run_that_patience_ended(text: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    first = start(text, run, **CASES["early stop"]).finished
    assert first.why == "patience"
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    for budget in ({"steps": first.step - 1}, {"steps": first.step}, {"epochs": 200 / 67}):  # nothing left, the same
        events: list[Event] = []
        assert resume(run, [events.append], **budget).finished.why == "patience"
        assert [type(e) for e in events] == [Started, Finished]
        assert events[0].finished == "patience"
        assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    shutil.copytree(run, tmp_path / "killed")
    taken: list[Event] = []
    again = resume(run, [taken.append], steps=300).finished
    assert taken[0].finished is None
    # patience of its own: 2 validations, one every 2 steps, since the last one that was the best of all
    fresh = [e.step for e in taken if isinstance(e, Stepped) and e.best]
    assert (again.why, again.step) == ("patience", max([first.step, *fresh]) + 4)
    with pytest.raises(Killed):  # also if it is killed before it has saved anything
        resume(tmp_path / "killed", [killer(lambda e: isinstance(e, Stepped))], steps=300)
    assert resume(tmp_path / "killed").finished.step == again.step
    assert outcome(tmp_path / "killed") == outcome(run)


def test_more_epochs_and_more_seconds_continue_the_run_too(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs.seconds_per_step, "__defaults__", (0.05,))
    start(text, tmp_path / "run", steps=10)
    windows = 67
    assert resume(tmp_path / "run", epochs=0.3).finished.step == round(0.3 * windows)
    monkeypatch.setattr(runs, "seconds_per_step", lambda prepared: 0.01)
    assert resume(tmp_path / "run", seconds=0.05).finished.step == round(0.3 * windows) + 5


def test_a_changed_text_is_refused(text: Path, tmp_path: Path) -> None:
    start(text, tmp_path / "run", steps=6)
    whole = text.read_text(encoding="utf-8")
    for changed in (whole[:-1] + "?", whole + " and", whole.replace("a", "e", 1), "ω" + whole, whole[:1500]):
        text.write_text(changed, encoding="utf-8")
        with pytest.raises(RunError, match="has changed"):
            resume(tmp_path / "run", steps=9)
    text.write_text(whole, encoding="utf-8")
    assert resume(tmp_path / "run", steps=9).finished.step == 9
    text.unlink()
    with pytest.raises(Exception, match=r"text\.txt"):
        resume(tmp_path / "run", steps=12)


@pytest.mark.parametrize("tokens", ["char", "byte", "word"])
def test_standard_input_is_kept_as_ids_and_resumed_from_them(
    tokens: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def piped(out: Path, *listeners: Any) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(small_text(6000).encode())))
        config = small_config(tokens=tokens, min_count=1)
        corpus = open_corpus("-", tokens=tokens, min_count=1)
        runs.start(runs.text_setup(corpus, config), out=out, listeners=listeners)

    piped(tmp_path / "whole")
    with pytest.raises(Killed):
        piped(tmp_path / "run", killer(lambda e: isinstance(e, Stepped) and e.step == 13))
    monkeypatch.setattr(sys, "stdin", None)
    resume(tmp_path / "run")
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")

    kept = tmp_path / "run" / "data.safetensors"
    data = bytearray(kept.read_bytes())
    data[-100], data[-101] = data[-101], data[-100]
    if data != kept.read_bytes():
        kept.write_bytes(data)
        with pytest.raises(RunError):
            resume(tmp_path / "run", steps=30)
    kept.unlink()
    with pytest.raises(RunError):
        resume(tmp_path / "run", steps=30)


def test_a_run_that_diverges_to_its_end_does_so_again_when_resumed(text: Path, tmp_path: Path) -> None:
    options = CASES["divergence"] | {"retries": 2}
    for go in (lambda: start(text, tmp_path / "run", **options), lambda: resume(tmp_path / "run")):
        with pytest.raises(DivergenceError):
            go()
    assert len([row for row in rows(tmp_path / "run") if "event" in row]) == 2


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path, text: Path) -> None:
    with pytest.raises(RunError, match="no run at"):
        resume(tmp_path / "nowhere")
    with pytest.raises(RunError, match="not a run"):
        resume(tmp_path)
    with pytest.raises(RunError, match="not a run"):
        resume(text)
    with pytest.raises(RunError):
        resume(tmp_path / ("n" * 300))
    start(text, tmp_path / "run", steps=3)
    config = tmp_path / "run" / "config.json"
    good = json.loads(config.read_bytes())
    for change in (
        {"format": 1},
        {"task": "classifier"},
        {"steps": 0},
        {"steps": "3"},
        {"batch_size": 5},
        {"data": None},
    ):
        config.write_text(json.dumps(good | change))
        with pytest.raises(RunError):
            resume(tmp_path / "run")
    config.unlink()
    with pytest.raises(RunError):
        resume(tmp_path / "run")
    config.write_text("{")
    with pytest.raises(CheckpointError):
        resume(tmp_path / "run")
