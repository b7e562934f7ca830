"""Sweeps: a space made from the configs, trials that share a folder, and nothing lost when one is stopped."""

import json
import shlex
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elman.cli.flags import parse
from elman.cli.train import Train
from elman.config import OPTIONS, Config, Optimizer
from elman.data import open_corpus
from elman.errors import ArgumentError, CheckpointError, RangeError, RunError, StorageError, UnknownNameError
from elman.models import LanguageModel
from elman.models.sweep import DEFAULTS, STARTUP_TRIALS, Sweep
from elman.models.sweep_space import USUAL, Dimension, searchable, space
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
        Dimension("hidden", 8, 64, log=True),
        Dimension("batch_size", choices=(4, 8)),
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
    assert (dimension.low, dimension.high, type(dimension.low)) == (low, high, int)


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
    ended = [trial for trial in s.study.get_trials() if trial.state.name in ("COMPLETE", "PRUNED")]
    return [(trial.params, trial.value, way(trial)) for trial in ended]


def study_of(s: Sweep) -> optuna.Study:
    """The study as another program opens it."""
    return optuna.load_study(study_name=None, storage=s.url.render_as_string())


def way(trial: optuna.trial.FrozenTrial) -> str:
    """How a trial ended: done, pruned, diverged or impossible."""
    why: str = trial.user_attrs.get("why", "pruned" if trial.state.name == "PRUNED" else "done")
    return why.partition(":")[0]


def begun(seen: list[Any]) -> list[optuna.Trial]:
    return [event for event in seen if isinstance(event, optuna.Trial)]


def ended(seen: list[Any]) -> list[optuna.trial.FrozenTrial]:
    return [event for event in seen if isinstance(event, optuna.trial.FrozenTrial)]


def options_of(trial: optuna.Trial) -> dict[str, Any]:
    """The options in the command that repeats a trial."""
    words = ["cat.txt", *shlex.split(trial.user_attrs["flags"])]
    options: dict[str, Any] = parse(Train, "train", words).options
    return options


def test_a_sweep_finds_the_best_and_keeps_its_run(text: Path) -> None:
    s, seen = sweep(text), list[Any]()
    assert s.run(6, seen.append)
    assert [trial.number for trial in begun(seen)] == [trial.number for trial in ended(seen)] == list(range(6))
    best, *others = s.ranking()
    assert best.value == min(trial.value for trial in ended(seen) if trial.state.name == "COMPLETE")
    assert [trial.value for trial in others] == sorted(trial.value for trial in others)
    assert sorted(path.name for path in s.folder.iterdir()) == ["sweep.json", f"trial-{best.number}", "trials.db"]
    model = LanguageModel.load(s.run_folder(best.number))
    assert len(model.sample(20)) == 20
    assert model.get_params()["learning_rate"] == best.params["learning_rate"]


def test_optuna_opens_the_study(text: Path) -> None:
    s = sweep(text)
    s.run(2)
    study = study_of(s)
    assert str(s.url) == f"sqlite:///{s.folder / 'trials.db'}"
    assert [trial.params for trial in study.trials] == [params for params, *_ in told(s)]
    assert study.study_name == s.name
    assert study.best_value == s.ranking()[0].value


def test_the_importance_of_an_option(text: Path) -> None:
    s = sweep(text, "lr=1e-4..1e-1", "seed=0..1")
    assert s.run(1)
    assert s.importance() == {}  # one trial says nothing
    s.run(8)
    assert s.importance()["learning_rate"] > s.importance()["seed"]
    assert sum(s.importance().values()) == pytest.approx(1)


def test_the_first_trial_has_the_default_options(text: Path) -> None:
    s = sweep(text, learning_rate=0.02)
    s.run(2)
    first, second = s.study.get_trials()
    assert (first.params, first.user_attrs[DEFAULTS]) == ({"learning_rate": 0.02}, True)
    assert second.params != first.params
    assert DEFAULTS not in second.user_attrs
    outside = sweep(text, "lr=1e-3..1e-2", "hidden=4..8", out="outside", learning_rate=0.02)
    outside.run(1)
    assert outside.study.get_trials()[0].user_attrs[DEFAULTS] is False
    assert outside.study.get_trials()[0].params["hidden"] == 4


def test_the_flags_of_a_trial_reproduce_it_to_the_bit(text: Path) -> None:
    s, seen = sweep(text, "lr", "hidden=4..8", seed=3), list[Any]()
    s.run(2, seen.append)
    losses = {trial.number: trial.value for trial in ended(seen)}
    for trial in begun(seen):
        options = options_of(trial)
        again = LanguageModel(**options).fit(text)
        assert again.fitted_.finished.best_loss == losses[trial.number]
        assert options["validate_every"] == 2  # ten of them
        assert not {"epochs", "seconds"} & set(options)


@pytest.mark.parametrize("budget", [{"epochs": 0.5, "steps": None}, {"seconds": 0.01, "steps": None}])
def test_a_budget_of_epochs_or_seconds_becomes_steps(text: Path, budget: dict[str, object]) -> None:
    s, seen = sweep(text, **budget), list[Any]()
    s.run(1, seen.append)
    (trial,) = begun(seen)
    assert options_of(trial)["steps"] == max(event.step for event in seen if isinstance(event, Stepped))
    assert sum(isinstance(event, Saved) for event in seen) == 1


def test_bad_trials_are_cut_short_and_leave_nothing(text: Path) -> None:
    s = sweep(text, "lr=1e-7..0.1")
    s.run(14)
    ways = [why for *_, why in told(s)]
    assert set(ways) == {"done", "pruned"}
    assert "pruned" not in ways[:STARTUP_TRIALS]
    rates = {why: [params["learning_rate"] for params, _, w in told(s) if w == why] for why in ("done", "pruned")}
    assert max(rates["pruned"]) < max(rates["done"])  # type: ignore[type-var]
    assert len(folders(s)) == 1


def test_a_trial_that_diverges_or_is_invalid_counts_as_a_trial(text: Path) -> None:
    wild = sweep(text, "lr=1e5,1e6", optimizer="sgd", clip_norm=0.0, retries=0)
    seen: list[Any] = []
    assert wild.run(2, seen.append)
    assert [way(trial) for trial in ended(seen)] == ["diverged", "diverged"]
    assert wild.ranking() == []
    assert folders(wild) == []
    last = sweep(text, "lr=1e3,1e4", out="last", steps=1, warmup_steps=0, activation="relu")
    seen.clear()
    assert last.run(2, seen.append)
    why = "diverged: no validation loss is a finite number"
    assert [trial.user_attrs["why"] for trial in ended(seen)] == [why, why]
    assert last.ranking() == []
    blocks = sweep(text, "bptt_block=4,5000", out="blocks")
    assert blocks.run(4)
    assert {why for *_, why in told(blocks)} == {"done", "impossible"}


def test_a_stopped_sweep_goes_on_as_if_nothing_had_happened(text: Path) -> None:
    search = ("lr", "hidden=4..8", "activation")
    whole = sweep(text, *search, out="whole")
    whole.run(13)
    for number, (trial, step) in enumerate([(0, 1), (4, 7), (11, 19)]):
        seen: list[Any] = []

        def stopping(seen: list[Any] = seen, trial: int = trial, step: int = step) -> bool:
            last = seen[-1] if seen else None
            return isinstance(last, Stepped) and last.step == step and len(begun(seen)) > trial

        part = sweep(text, *search, out=f"part-{number}")
        assert not part.run(13, seen.append, stopping)
        assert len(folders(part)) <= 1  # what was interrupted is gone
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
    assert folders(s) == []
    again = sweep(text)
    assert again.run(3)
    assert len(told(again)) == 3


def test_a_trial_that_nobody_runs_is_retried_by_the_next_start(text: Path) -> None:
    """As if the process had been killed when it had chosen the first option: the trial is running in the database."""
    one = sweep(text, "lr=1e-3..1e-1", "hidden=4..8")
    one.run(1)
    killed = study_of(one).ask({"learning_rate": optuna.distributions.FloatDistribution(1e-3, 1e-1, log=True)})
    again = sweep(text, "lr=1e-3..1e-1", "hidden=4..8")
    assert again.running() == 0
    assert again.run(2)
    failed, retried = again.study.get_trials()[1:]
    assert (failed.number, failed.state.name, retried.state.name) == (killed.number, "FAIL", "COMPLETE")
    assert retried.params["learning_rate"] == killed.params["learning_rate"]


@pytest.mark.skipif(sys.platform == "win32", reason="no such locks")
def test_a_trial_of_another_process_is_left_alone(text: Path) -> None:
    """Which works on the sweep while a second one starts."""
    others: list[Sweep] = []

    def start_another(event: object) -> None:
        if isinstance(event, Stepped) and event.step == 5:
            others.append(sweep(text))

    one = sweep(text)
    assert one.run(2, start_another)
    assert len(others) == 2
    assert [trial.state.name for trial in one.study.get_trials()] == ["COMPLETE", "COMPLETE"]


def test_the_last_trial_has_one_taker(text: Path) -> None:
    """Two processes may ask for it at once: the surplus one is not trained, and not counted."""
    one, other = sweep(text), sweep(text)

    def take_the_last(event: object) -> None:
        if isinstance(event, optuna.Trial) and event.number == 1:
            study_of(other).ask()

    one.run(1)
    assert one.run(3, take_the_last)
    assert [trial.state.name for trial in one.study.get_trials()] == ["COMPLETE", "COMPLETE", "RUNNING"]
    surplus: list[Any] = []
    other._run_trial(3, surplus.append, lambda: False)
    assert surplus == []
    assert one.study.get_trials()[-1].state.name == "FAIL"
    assert one.finished() == 2


# -- the folder -------------------------------------------------------------------------------------------------------


def test_a_sweep_with_other_choices_is_not_mixed_in(text: Path) -> None:
    sweep(text).run(1)
    with pytest.raises(RunError, match=r"other settings: got hidden was 4 and is 5.*another folder"):
        sweep(text, hidden=5)
    with pytest.raises(RunError, match=r"0\.001 to 0\.1 \(log\)'\] and is \['learning_rate: 0\.001 to 0\.2"):
        sweep(text, "lr=1e-3..0.2")
    text.write_text(TEXT + "changed")
    with pytest.raises(RunError, match=r"sha256 was"):
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


def test_a_damaged_database_is_refused(text: Path) -> None:
    s = sweep(text)
    s.run(2)
    database = s.folder / "trials.db"
    whole = database.read_bytes()
    for damaged in (b"no database\n" + whole, b"SQLite format 3\0" + bytes(5000)):
        database.write_bytes(damaged)
        with pytest.raises(StorageError, match=r"The database of .*sweep cannot be used: .*database"):
            sweep(text)
    database.unlink()
    database.mkdir()
    with pytest.raises(StorageError, match="unable to open"):
        sweep(text)
    (s.folder / "sweep.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"sweep\.json is damaged"):
        sweep(text)


def test_another_database(text: Path) -> None:
    config, storage = Config().with_options(**SMALL), text.parent / "elsewhere.db"

    def stored(url: str, out: str = "sweep") -> Sweep:
        return Sweep(text.parent / out, open_corpus(text), config, space(["lr"]), storage=url)

    for wrong, message in (("trials.log", "Could not parse"), ("wrong://x", "wrong"), ("sqlite:////no/x.db", "unable")):
        with pytest.raises(StorageError, match=message):
            stored(wrong)
    assert not (text.parent / "sweep").exists()
    s = stored(f"sqlite:///{storage}")
    s.run(2)
    assert not (s.folder / "trials.db").exists()
    assert json.loads((s.folder / "sweep.json").read_text())["search"] == ["learning_rate: 0.0005 to 0.03 (log)"]
    with pytest.raises(RunError, match="storage was 'sqlite"):
        Sweep(s.folder, open_corpus(text), config, space(["lr"]))
    other = stored(f"sqlite:///{storage}", "other")  # as on another machine: the same settings, the same study
    assert other.finished() == 2
    running = study_of(s).ask()
    running.set_user_attr("folder", s.here)
    assert stored(f"sqlite:///{storage}", "other").running() == 1  # not the trial of this folder
    assert stored(f"sqlite:///{storage}").running() == 0
    assert other.run(3)
    assert len(list(s.folder.glob("trial-*"))) == 1


def test_a_full_disk_is_reported(text: Path) -> None:
    s = sweep(text)
    s.run(1)
    with sqlite3.connect(s.folder / "trials.db") as database:
        database.execute("CREATE TRIGGER full BEFORE INSERT ON trials BEGIN SELECT RAISE(ABORT, 'disk is full'); END")
    database.close()
    with pytest.raises(StorageError, match="disk is full"):
        s.run(2)


def test_without_optuna_its_install_line_is_given() -> None:
    script = """
import sys
sys.modules["optuna"] = None
from elman.errors import MissingExtraError
try:
    import elman.models.sweep
except MissingExtraError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "Sweeps need Optuna. Install it: pip install 'elman[sweep]'\n"


def test_dimensions_are_readable() -> None:
    assert str(space(["lr=0.001..0.1"])[0]) == "learning_rate: 0.001 to 0.1 (log)"
    assert str(space(["optimizer=adam,sgd"])[0]) == "optimizer: adam, sgd"
