"""Sweeps: a space made from the configs, trials that share a folder, and nothing lost when one is stopped."""

import dataclasses
import json
import re
import sys
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elman.config import OPTIONS, Config, Optimizer
from elman.data import open_corpus
from elman.errors import ArgumentError, CheckpointError, MissingExtraError, RangeError, RunError, UnknownNameError
from elman.models import LanguageModel
from elman.models.sweep import Sweep, TrialEnded, TrialStarted
from elman.models.sweep_space import USUAL, Dimension, searchable, space
from elman.models.sweep_study import STARTUP_TRIALS, Lock
from elman.training.events import Saved, Stepped

TEXT = "The cat sat on the mat, and the dog sat on the log.\n" * 40
SMALL = {"hidden": 4, "batch_size": 2, "window": 8, "warmup_steps": 0, "steps": 20, "learning_rate": 0.01}


# -- the space --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", searchable())
def test_every_name_has_a_usual_range_that_the_config_takes(name: str) -> None:
    (dimension,) = space([name])
    values = dimension.choices or (dimension.low, dimension.high)
    free = {"window": 1 << 20, "bptt_steps": 1 << 20, "cell": OPTIONS[name].cells[0]}
    for value in values:
        config = Config().with_options(**{**free, name: value})
        assert type(config.options()[name]) is type(value)


def test_the_table_names_fields_and_nothing_else() -> None:
    assert set(USUAL) <= set(searchable()) <= set(OPTIONS)
    assert [dimension.name for dimension in space([])] == list(USUAL)
    assert [dimension.name for dimension in space([], fixed={"hidden": 8, "batch_size": 4, "seed": 1})] == [
        name for name in USUAL if name not in ("hidden", "batch_size")
    ]


def test_ways_to_name_a_range() -> None:
    assert space(["lr=1e-3..1e-2", "hidden=8..64", "--batch-size=4,8", "clip-norm=0..2", "optimizer=adam,sgd"]) == [
        Dimension("learning_rate", 1e-3, 1e-2, log=True),
        Dimension("hidden", 8, 64, log=True, whole=True),
        Dimension("batch_size", whole=True, choices=(4, 8)),
        Dimension("clip_norm", 0.0, 2.0),  # from 0 no factor leads up
        Dimension("optimizer", choices=("adam", "sgd")),
    ]
    assert space(["optimizer"])[0].choices == get_args(Optimizer)


@pytest.mark.parametrize(("word", "kind", "message"), [
    ("hiden", UnknownNameError, "Did you mean hidden"),
    ("lerning_rate=1..2", UnknownNameError, "Did you mean learning_rate"),
    ("xyzzy", UnknownNameError, "one of hidden, layers"),
    ("tokens=char,word", ArgumentError, "cannot be compared"),
    ("validation_fraction=0.1..0.2", ArgumentError, "cannot be compared"),
    ("steps=10..20", ArgumentError, "All trials have the same value: set steps"),
    ("dtype=float16", UnknownNameError, "one of float32, float64"),
    ("hidden=8.5..9", ArgumentError, "whole numbers: low..high"),
    ("hidden=many", ArgumentError, "got 'many'"),
    ("hidden=64..8", RangeError, "low..high with low < high, got 64..8"),
    ("hidden=0..8", RangeError, "above 0, got 0"),
    ("dropout=0..1.5", RangeError, "below 1"),
    ("dropout=nan..1", RangeError, "low..high"),
    ("batch_size=4,4", ArgumentError, "each value once"),
])  # fmt: skip
def test_what_cannot_be_searched_is_refused(word: str, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        space([word])


def test_a_name_is_searched_once_and_not_fixed_too() -> None:
    with pytest.raises(ArgumentError, match="each option once"):
        space(["lr", "learning_rate=1..2"])
    with pytest.raises(ArgumentError, match="none with a fixed value"):
        space(["lr"], fixed={"learning_rate": 0.1})


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 1000), st.integers(1, 1000))
def test_any_two_numbers_are_a_range(one: int, other: int) -> None:
    low, high = sorted((one, other + 1001))
    (dimension,) = space([f"window={low}..{high}"])
    assert (dimension.low, dimension.high, dimension.whole) == (low, high, True)


# -- trials -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ELMAN_CACHE", str(tmp_path / "the-cache"))
    (tmp_path / "cat.txt").write_text(TEXT)
    return tmp_path / "cat.txt"


def sweep(text: Path, *search: str, out: str = "sweep", **options: object) -> Sweep:
    config = Config().with_options(**{**SMALL, **options})
    return Sweep(text.parent / out, open_corpus(text), config, space(search or ["lr=1e-3..1e-1"]))


def folders(s: Sweep) -> list[str]:
    return sorted(path.name for path in s.folder.iterdir() if path.is_dir())


def told(s: Sweep) -> list[tuple[dict[str, object], float | None, str]]:
    """The finished trials in order: options, loss, and how each ended."""
    ended = sorted(s.study.finished(), key=lambda trial: trial.number)
    return [(trial.params, trial.value, trial.user_attrs["why"]) for trial in ended]


def test_a_sweep_finds_the_best_and_keeps_its_run(text: Path) -> None:
    s, seen = sweep(text), []
    assert s.run(6, seen.append)
    ended = [event for event in seen if isinstance(event, TrialEnded)]
    assert [event.number for event in ended] == list(range(6))
    losses = [event.loss for event in ended if event.loss is not None]
    best = s.study.best()
    assert best is not None
    assert best.value == min(losses)
    assert folders(s) == ["locks", f"trial-{best.number}"]
    assert sorted(path.name for path in (s.folder / "locks").iterdir()) == ["asking", "journal"]
    assert [event.best for event in ended] == [
        event.loss is not None and event.loss == min(losses[: n + 1]) for n, event in enumerate(ended)
    ]
    assert s.best_run() == s.folder / f"trial-{best.number}"
    model = LanguageModel.load(s.best_run())
    assert len(model.sample(20)) == 20
    assert model.get_params()["learning_rate"] == best.params["learning_rate"]


def test_the_first_trial_has_the_default_options(text: Path) -> None:
    s = sweep(text, learning_rate=0.02)
    s.run(2, lambda event: None)
    trial = s.study.with_defaults()
    assert trial is not None
    assert (trial.number, trial.params) == (0, {"learning_rate": 0.02})
    assert told(s)[1][0] != told(s)[0][0]


def test_the_config_of_a_trial_reproduces_it_to_the_bit(text: Path) -> None:
    s, seen = sweep(text, "lr", "hidden=4..8", seed=3), []
    s.run(2, seen.append)
    ends = {event.number: event.loss for event in seen if isinstance(event, TrialEnded)}
    for event in seen:
        if isinstance(event, TrialStarted):
            known = {name: event.config.options()[name] for name in set(LanguageModel().get_params()) - {"preset"}}
            again = LanguageModel(**known).fit(text)
            assert again.fitted_.finished.best_loss == ends[event.number]
            assert event.config.validate_every == 2  # ten of them
            assert event.config.epochs is event.config.seconds is None


@pytest.mark.parametrize("budget", [{"epochs": 0.5, "steps": None}, {"seconds": 0.01, "steps": None}])
def test_a_budget_of_epochs_or_seconds_becomes_steps(text: Path, budget: dict[str, object]) -> None:
    s, seen = sweep(text, **budget), []
    s.run(1, seen.append)
    config = next(event.config for event in seen if isinstance(event, TrialStarted))
    assert config.steps == max(event.step for event in seen if isinstance(event, Stepped))
    assert sum(isinstance(event, Saved) for event in seen) == 1


def test_bad_trials_are_cut_short_and_leave_nothing(text: Path) -> None:
    s = sweep(text, "lr=1e-7..0.1")
    s.run(14)
    ended = told(s)
    ways = [why for *_, why in ended]
    assert set(ways) == {"done", "pruned"}
    assert "pruned" not in ways[:STARTUP_TRIALS]
    rates = {why: [params["learning_rate"] for params, _, w in ended if w == why] for why in ("done", "pruned")}
    assert max(rates["pruned"]) < max(rates["done"])  # type: ignore[type-var]
    assert len(folders(s)) == 2


def test_a_trial_that_diverges_or_is_invalid_counts_as_a_trial(text: Path) -> None:
    wild = sweep(text, "lr=1e5,1e6", optimizer="sgd", clip_norm=0.0, retries=0)
    seen: list[object] = []
    assert wild.run(2, seen.append)
    assert [event.why for event in seen if isinstance(event, TrialEnded)] == ["diverged", "diverged"]
    assert wild.best_run() is None
    assert folders(wild) == ["locks"]
    last = sweep(text, "lr=1e3,1e4", out="last", steps=1, warmup_steps=0, activation="relu")
    seen.clear()
    assert last.run(2, seen.append)
    ended = [(event.why, event.loss, event.note) for event in seen if isinstance(event, TrialEnded)]
    assert ended == [("diverged", None, "no validation loss is a finite number")] * 2
    assert last.best_run() is None
    blocks = sweep(text, "bptt_block=4,5000", out="blocks")
    assert blocks.run(4)
    assert {why for *_, why in told(blocks)} == {"done", "impossible"}


def test_a_stopped_sweep_goes_on_as_if_nothing_had_happened(text: Path) -> None:
    search = ("lr", "hidden=4..8", "activation")
    whole = sweep(text, *search, out="whole")
    whole.run(13)
    for number, (trial, step) in enumerate([(0, 1), (4, 7), (11, 19)]):
        seen: list[object] = []

        def stopping(seen: list[object] = seen, trial: int = trial, step: int = step) -> bool:
            last = seen[-1] if seen else None
            return (
                isinstance(last, Stepped)
                and last.step == step
                and sum(isinstance(event, TrialStarted) for event in seen) > trial
            )

        part = sweep(text, *search, out=f"part-{number}")
        assert not part.run(13, seen.append, stopping)
        assert len(folders(part)) <= 2  # what was interrupted is gone
        again = sweep(text, *search, out=f"part-{number}")
        assert again.run(13)
        assert told(again) == told(whole)
        assert again.run(13)  # nothing is left to do
        assert len(told(again)) == 13


def test_an_error_gives_the_trial_up_and_goes_on(text: Path) -> None:
    def fail(event: object) -> None:
        if isinstance(event, Stepped) and event.step == 5:
            raise MemoryError("no more")

    s = sweep(text)
    with pytest.raises(MemoryError):
        s.run(3, fail)
    assert folders(s) == ["locks"]
    again = sweep(text)
    assert again.run(3)
    assert len(told(again)) == 3


@pytest.mark.skipif(sys.platform == "win32", reason="no such locks")
def test_a_trial_that_is_held_is_left_alone_and_one_that_nobody_holds_is_asked_anew(text: Path) -> None:
    one, other = sweep(text), sweep(text)
    with one.study.ask(3) as trial:
        assert trial is not None
        with other.study.ask(1) as nothing:
            assert nothing is None
        with other.study.ask(3) as second:
            assert second is not None
            assert second.number == 1
            assert second.params != trial.params
            other.study.tell(second, 2.0, why="done")
        killed = trial.params
    # its lock is free now, and nobody told how it ended
    with other.study.ask(3) as again:
        assert again is not None
        assert again.params == killed
        assert again.number == 2
        assert [t.number for t in other.study.running()] == [2]


def test_a_lock_has_one_holder_at_a_time(tmp_path: Path) -> None:
    one, other = Lock(tmp_path / "lock"), Lock(tmp_path / "lock")
    assert one.acquire(wait=False)
    assert not other.acquire(wait=False)
    one.release()
    assert other.acquire(wait=False)
    other.release()


# -- the folder -------------------------------------------------------------------------------------------------------


def test_a_sweep_with_other_choices_is_not_mixed_in(text: Path) -> None:
    sweep(text).run(1)
    with pytest.raises(RunError, match=r"other settings: got config\.hidden was 4 and is 5.*another folder"):
        sweep(text, hidden=5)
    with pytest.raises(RunError, match=r"search\.learning_rate\.high was 0\.1 and is 0\.2"):
        sweep(text, "lr=1e-3..0.2")
    text.write_text(TEXT + "changed")
    with pytest.raises(RunError, match=r"corpus\.sha256 was"):
        sweep(text)


def test_a_folder_that_is_something_else_is_refused(text: Path) -> None:
    (text.parent / "sweep").mkdir()
    (text.parent / "sweep" / "thesis.txt").write_text("mine")
    with pytest.raises(RunError, match="exists already"):
        sweep(text)
    assert [path.name for path in (text.parent / "sweep").iterdir()] == ["thesis.txt"]


def test_a_sweep_without_validation_or_anything_to_search_is_refused(text: Path) -> None:
    with pytest.raises(ArgumentError, match="validation"):
        sweep(text, validation_fraction=0.0)
    with pytest.raises(ArgumentError, match="nothing to search"):
        Sweep(text.parent / "sweep", open_corpus(text), Config(), [])
    assert not (text.parent / "sweep").exists()


def test_an_incomplete_last_line_of_the_journal_is_repaired_and_other_damage_refused(text: Path) -> None:
    s = sweep(text)
    s.run(2)
    journal = s.folder / "journal.log"
    whole = journal.read_bytes()
    journal.write_bytes(whole + b'{"op_code":4,"wor')
    again = sweep(text)
    assert again.run(3)
    assert len(told(again)) == 3
    unknown = whole.replace(b'"op_code":', b'"op_code":99', 1)
    no_number = re.sub(rb'"values":\[[^]]+\]', b'"values":["x"]', whole, count=1)
    for damaged in (b"no journal\n" + whole, unknown, no_number):
        assert damaged != whole
        journal.write_bytes(damaged)
        with pytest.raises(CheckpointError, match=r"journal\.log is damaged"):
            sweep(text)
    journal.unlink()
    journal.symlink_to("/dev/zero")
    with pytest.raises(CheckpointError, match="not a regular file"):
        sweep(text)
    (s.folder / "sweep.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"sweep\.json is damaged"):
        sweep(text)


def test_the_record_may_lie_elsewhere(text: Path) -> None:
    config, storage = Config().with_options(**SMALL), text.parent / "elsewhere.log"
    s = Sweep(text.parent / "sweep", open_corpus(text), config, space(["lr"]), storage=storage)
    s.run(1)
    assert storage.stat().st_size > 0
    assert not (s.folder / "journal.log").exists()
    assert json.loads((s.folder / "sweep.json").read_text())["search"]["learning_rate"]["log"] is True


def test_without_optuna_its_install_line_is_given_and_nothing_made(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'elman\[sweep\]'"):
        sweep(text)
    assert not (text.parent / "sweep").exists()


def test_dimensions_are_plain_data() -> None:
    assert {field.name for field in dataclasses.fields(Dimension)} >= set(space(["lr"])[0].to_json())
    assert str(space(["lr=0.001..0.1"])[0]) == "learning_rate: 0.001 to 0.1 (log)"
