"""The loop: accumulation, budgets, validation, best model, early stopping, plateau, divergence, rows of metrics."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training_tools import CASES, new_trainer, rows, small_config, small_text, start

from elman.config import Config
from elman.errors import ArgumentError, DivergenceError
from elman.maths.arrays import Array
from elman.models import runs
from elman.models.language_model import LanguageModel
from elman.network import Batch, Draw, Parameters
from elman.training import Event, Failed, Finished, RolledBack, Saved, Started, Stepped, Trainer, Validation
from elman.training.arrays import read_arrays
from elman.training.run import Run

KEYS = ["step", "epoch", "loss", "validation_loss", "gradient_norm", "gradient_norms", "learning_rate",
        "tokens_per_second", "seconds"]  # fmt: skip


class Descent:
    """A task with one parameter p: the gradient is p; the test gives the losses and validation losses."""

    steps_per_epoch = 10.0
    tokens_per_step = 7
    baseline_loss = 2.0

    def __init__(self, losses: Any = None, validations: Any = None) -> None:
        self.parameters = Parameters({"p": (1,)}, np.dtype(np.float64))
        self.parameters.buffer[0] = 1.0
        self.losses, self.validations = losses, validations
        self.calls = self.validated = 0
        self.seen: list[tuple[int, float]] = []

    def loss_and_gradients(self, gradients: Parameters, step: int) -> float:
        self.calls += 1
        self.seen.append((step, float(self.parameters.buffer[0])))
        gradients.buffer[:] = self.parameters.buffer
        return 1.0 if self.losses is None else float(self.losses(self.calls, step))

    def validate(self) -> Validation | None:
        if self.validations is None:
            return None
        self.validated += 1
        return Validation(float(self.validations[min(self.validated, len(self.validations)) - 1]))

    def sample(self, step: int) -> str | None:
        return f"sample {step}"

    def state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        return {"seen": np.array([0.0])}, {}

    def restore(self, arrays: dict[str, Array], metadata: dict[str, Any]) -> None:
        pass


SGD = Config(optimizer="sgd", schedule="constant", warmup_steps=0, learning_rate=0.1, clip_norm=0.0, validate_every=2)


def run_of(task: Descent, steps: int, run: Run | None = None, **options: Any) -> tuple[list[Event], Trainer]:
    events: list[Event] = []
    trainer = Trainer(task, dataclasses.replace(SGD, **options), steps=steps, run=run, listeners=[events.append])
    trainer.train()
    return events, trainer


@pytest.mark.parametrize(("clip", "steps"), [({}, (0.9, 0.81)), ({"clip_norm": 2.0}, (0.9, 0.81)),
                                             ({"clip_norm": 0.25}, (0.975, 0.95)),
                                             ({"clip_value": 0.5}, (0.95, 0.9))])  # fmt: skip
def test_an_update_takes_the_clipped_gradient(clip: dict[str, float], steps: tuple[float, float]) -> None:
    for count, expected in enumerate(steps, 1):  # SGD with a rate of 0.1 from 1, where the gradient is p itself
        task = Descent()
        run_of(task, count, **clip)
        assert task.parameters.buffer[0] == pytest.approx(expected)


def stepped(events: list[Event]) -> list[Stepped]:
    return [event for event in events if isinstance(event, Stepped)]


# -- gradients --------------------------------------------------------------------------------------------------------


def test_accumulated_windows_make_one_step_with_the_mean_gradient(text: Path) -> None:
    options = {"optimizer": "sgd", "clip_norm": 0.0, "dtype": "float64", "schedule": "constant", "warmup_steps": 0}
    task = new_trainer(text, accumulate=3, **options).task
    together = task.parameters.zeros()
    loss = task.loss_and_gradients(together, 0)
    single = new_trainer(text, **options).task
    alone = [single.parameters.zeros() for _ in range(3)]
    losses = [single.loss_and_gradients(d, step) for step, d in enumerate(alone)]
    assert loss == pytest.approx(np.mean(losses), rel=1e-12)
    assert len(set(losses)) == 3
    np.testing.assert_allclose(together.buffer, np.mean([d.buffer for d in alone], axis=0), rtol=1e-9, atol=1e-14)
    assert task.state()[1] == single.state()[1]
    for mine, theirs in zip(task.carried, single.carried, strict=True):
        assert np.array_equal(mine, theirs)
    assert task.tokens_per_step == 3 * single.tokens_per_step
    assert task.steps_per_epoch == single.steps_per_epoch / 3

    trainer = new_trainer(text, accumulate=3, steps=1, **options)
    before = trainer.task.parameters.buffer.copy()
    trainer.train()
    np.testing.assert_allclose(trainer.task.parameters.buffer, before - 0.02 * together.buffer, rtol=1e-12)


def test_the_state_is_carried_from_window_to_window_and_zero_at_the_start_of_an_epoch(text: Path) -> None:
    task = new_trainer(text, window=300, batch_size=4).task
    assert task.stream.windows_per_epoch == 2
    begin = []
    for step in range(4):
        d = task.parameters.zeros()
        first = task.stream.cursor["window"] == 0
        carried = task.carried.copy()
        x, y = task.stream.next()[:2]
        task.stream.seek({"epoch": 0, "window": step % 2})
        loss = task.loss_and_gradients(d, step)
        batch = Batch(x, y, state=np.zeros_like(carried) if first else carried)
        expected = task.network.loss_and_gradients(task.parameters, batch, task.parameters.zeros(), normalizer=y.size)
        assert loss == expected
        begin.append(loss)
    assert begin[0] == begin[2]
    assert begin[0] != begin[1]


def test_dropout_draws_masks_that_keep_the_mean_and_depend_on_seed_and_step_alone(text: Path) -> None:
    task = new_trainer(text, dropout=0.25, hidden=16, layers=2).task

    def drawn(task, step: int) -> list[Array]:
        """The masks of the first layer and of the head."""
        batch = Batch(np.zeros((50, 4), np.int64), np.zeros((50, 4), np.int64))
        draw = Draw(task.dropout, task.config.seed, step)
        (masks,) = task.network.masks(draw, batch, np.arange(4), np.float32)
        return [*masks.layers, masks.head]

    masks = drawn(task, 3)
    assert [m.shape for m in masks] == [(50, 4, 16)] * 2
    assert set(np.unique(masks[0]).tolist()) == {0.0, float(np.float32(1) / np.float32(0.75))}
    assert all(abs(m.mean() - 1) < 0.05 for m in masks)
    assert not np.array_equal(*masks)
    again = new_trainer(text, dropout=0.25, hidden=16, layers=2).task
    assert all(np.array_equal(a, b) for a, b in zip(masks, drawn(again, 3), strict=True))
    assert not np.array_equal(masks[0], drawn(task, 4)[0])
    other = new_trainer(text, dropout=0.25, hidden=16, layers=2, seed=1).task
    assert not np.array_equal(masks[0], drawn(other, 3)[0])


# -- budgets ----------------------------------------------------------------------------------------------------------


def test_steps_and_epochs_are_counted(text: Path, tmp_path: Path) -> None:
    assert start(text, tmp_path / "a", steps=7).finished.step == 7
    windows = new_trainer(text).task.stream.windows_per_epoch
    trained = start(text, tmp_path / "b", steps=None, epochs=0.25)
    assert trained.finished.step == round(0.25 * windows)
    assert json.loads((tmp_path / "b" / "config.json").read_bytes())["steps"] == trained.finished.step
    assert rows(tmp_path / "b")[-1]["epoch"] == pytest.approx(trained.finished.step / windows)
    half = start(text, None, steps=None, epochs=0.25, accumulate=2).finished
    assert half.step == round(0.25 * windows / 2)


def test_seconds_become_steps_before_the_first_one_and_then_it_is_as_with_steps(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs.seconds_per_step, "__defaults__", (0.05,))
    seen: list[int] = []

    def listener(event: Event) -> None:
        if isinstance(event, Started):
            assert event.step == 0
            seen.append(json.loads((tmp_path / "a" / "config.json").read_bytes())["steps"])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start(text, tmp_path / "a", [listener], steps=None, seconds=0.2)
    assert seen[0] > 1
    finished = runs.resume(tmp_path / "a").finished
    assert finished.step == seen[0]
    start(text, tmp_path / "b", steps=seen[0])
    assert (tmp_path / "a" / "model.safetensors").read_bytes() == (tmp_path / "b" / "model.safetensors").read_bytes()


def test_two_budgets_are_refused() -> None:
    with pytest.raises(ArgumentError, match="steps and seconds"):
        small_config(seconds=3.0)


# -- validation -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layers", [1, 2])
def test_validation_reads_one_sequence_from_a_zero_state_and_predicts_all_tokens_but_the_first(
    tmp_path: Path, layers: int
) -> None:
    text = tmp_path / "text.txt"
    text.write_text(small_text(26_000), encoding="utf-8")  # a validation part longer than two chunks
    task = new_trainer(text, layers=layers, dtype="float64").task
    p, ids = task.parameters, task.validation
    assert len(ids) == 2600
    h, total = [np.zeros(8) for _ in range(layers)], 0.0
    for token, following in itertools.pairwise(ids):
        out = np.eye(task.network.outputs)[token]
        for i in range(layers):
            h[i] = out = np.tanh(out @ p[f"layers.{i}.W_xh"] + h[i] @ p[f"layers.{i}.W_hh"] + p[f"layers.{i}.b_h"])
        o = out @ p["head.W_hy"] + p["head.b_y"]
        total -= o[following] - np.log(np.exp(o).sum())
    assert task.validate() == (pytest.approx(total / (len(ids) - 1), rel=1e-12), None)


def test_validation_uses_no_dropout_and_changes_nothing(text: Path) -> None:
    task, plain = new_trainer(text, dropout=0.5).task, new_trainer(text).task
    task.loss_and_gradients(task.parameters.zeros(), 0)
    before = task.carried.copy(), task.stream.cursor
    assert task.validate() == plain.validate() == task.validate()
    assert np.array_equal(before[0], task.carried)
    assert task.stream.cursor == before[1]


def test_the_model_of_a_run_is_its_best_by_validation_and_not_its_last(text: Path, tmp_path: Path) -> None:
    events: list[Event] = []
    trained = start(text, tmp_path / "run", [events.append], **CASES["early stop"])
    held = {e.step: e.validation_loss for e in stepped(events) if e.validation_loss is not None}
    best = min(held, key=lambda step: held[step])
    assert (trained.finished.best_step, trained.finished.best_loss) == (best, held[best])
    assert best < max(held)
    so_far = np.minimum.accumulate(list(held.values()))
    assert [e.step for e in stepped(events) if e.best] == [
        s for s, low in zip(held, so_far, strict=True) if held[s] == low
    ]
    model = LanguageModel.load(tmp_path / "run")
    validation = runs.reopen(Run(tmp_path / "run"))[0].split.validation
    text_of = model.vocabulary_.decode(validation)
    assert model.evaluate(text_of).nats_per_token == held[best]
    assert np.array_equal(trained.parameters.buffer, model.parameters_.buffer)  # fit returns the best parameters, too
    last = read_arrays(tmp_path / "run" / "checkpoints" / f"step-{max(held)}" / "state.safetensors")
    assert not np.array_equal(last["parameters"], model.parameters_.buffer)
    assert np.array_equal(last["best"], model.parameters_.buffer)


def test_without_validation_the_model_is_the_last(text: Path, tmp_path: Path) -> None:
    trained = start(text, tmp_path / "run", validation_fraction=0.0)
    assert trained.finished.best_loss is None
    last = read_arrays(tmp_path / "run" / "checkpoints" / "step-24" / "state.safetensors")["parameters"]
    model = LanguageModel.load(tmp_path / "run")
    assert np.array_equal(last, model.parameters_.buffer)
    assert {row["validation_loss"] for row in rows(tmp_path / "run")} == {None}


def test_patience_ends_a_run_after_so_many_validations_without_a_better_one() -> None:
    task = Descent(validations=[5, 4, 4, 3, 3.5, 3.0, math.nan, 1])
    events, _ = run_of(task, 100, patience=3)
    assert events[-1] == dataclasses.replace(events[-1], step=14, why="patience", best_loss=3, best_step=8)
    assert [e.best for e in stepped(events) if e.validation_loss is not None] == [True, True, False, True, *[False] * 3]
    assert task.parameters.buffer[0] == pytest.approx(0.9**8)
    assert stepped(events)[-1].logged


def test_plateau_lowers_the_rate_after_each_plateau_patience_validations_without_improvement() -> None:
    task = Descent(validations=[5, 6, 7, 4, 4, 4, 4, 4, 3])
    events, _ = run_of(task, 20, schedule="plateau", plateau_patience=2, decay_factor=0.1, validate_every=2)
    rates = [round(e.learning_rate, 9) for e in stepped(events)]
    # validations at 2, 4, …: 5, then 6 and 7 are two worse ones; 4 is better; 4 4 and 4 4 are two times two more
    assert rates == [0.1] * 6 + [0.01] * 6 + [0.001] * 4 + [0.0001] * 4
    assert task.parameters.buffer[0] == pytest.approx(np.prod(1 - np.array(rates[:18])))  # the best is step 18


# -- divergence -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e9, 2 * 2.0 + 1.1])
def test_a_diverged_loss_goes_back_to_the_snapshot_with_half_the_rate(bad: float, tmp_path: Path) -> None:
    first = 6 if math.isfinite(bad) else 8  # of three steps in a row, or of one
    task = Descent(losses=lambda call, step: bad if first <= call <= 8 else 1.0)
    run = Run.create(tmp_path / "run", {}, {})
    events, _ = run_of(task, 10, run, snapshot_every=4, log_every=1, validate_every=100)
    (rolled,) = [e for e in events if isinstance(e, RolledBack)]
    assert (rolled.step, rolled.to, rolled.learning_rate, rolled.retries_left) == (7, 4, 0.05, 4)
    assert [step for step, _ in task.seen] == [0, 1, 2, 3, 4, 5, 6, 7, 4, 5, 6, 7, 8, 9]
    p = dict(enumerate(p for _, p in task.seen))
    assert p[8] == p[4]  # the number itself went back
    assert task.parameters.buffer[0] == pytest.approx(0.9**4 * 0.95**6)
    found = [row for row in rows(tmp_path / "run") if "event" in row]
    assert found == [
        {"event": "rolled back", "step": 7, "to": 4, "loss": bad if math.isfinite(bad) else None,
         "learning_rate": 0.05, "retries_left": 4}
    ]  # fmt: skip
    assert [row["step"] for row in rows(tmp_path / "run")] == [1, 2, 3, 4, 5, 6, 7, 7, 5, 6, 7, 8, 9, 10]


@pytest.mark.parametrize("calls", [(8,), (8, 9), (8, 10), (8, 9, 11, 12)])
def test_a_single_high_loss_is_no_divergence(calls: tuple[int, ...]) -> None:
    """Few examples under one dropout mask may be very wrong, and would be so again at any rate."""
    events, _ = run_of(Descent(losses=lambda call, step: 11.0 if call in calls else 1e-9), 20, snapshot_every=1)
    assert not any(isinstance(e, RolledBack) for e in events)


def test_a_loss_that_is_high_but_within_bounds_is_no_divergence() -> None:
    events, _ = run_of(Descent(losses=lambda call, step: 4.9 if call == 8 else 4.0), 10)
    assert not any(isinstance(e, RolledBack) for e in events)


def test_a_gradient_that_is_not_finite_is_divergence_too() -> None:
    class Steep(Descent):
        def loss_and_gradients(self, gradients: Parameters, step: int) -> float:
            loss = super().loss_and_gradients(gradients, step)
            gradients.buffer[:] = math.inf if self.calls == 5 else gradients.buffer
            return loss

    for clip in ({}, {"clip_norm": 1.0}):
        task = Steep()
        events, _ = run_of(task, 8, snapshot_every=2, **clip)
        assert [(e.step, e.to) for e in events if isinstance(e, RolledBack)] == [(4, 2)]
        assert math.isfinite(task.parameters.buffer[0])


def test_retries_are_bounded_and_the_error_reports_them() -> None:
    task = Descent(losses=lambda call, step: math.nan if step >= 6 else 1.0)
    events: list[Event] = []
    config = dataclasses.replace(SGD, snapshot_every=5, retries=3)
    with pytest.raises(DivergenceError, match=r"step 6 .*after 3 retries.*learning_rate.*clip_norm above 0") as caught:
        Trainer(task, config, steps=50, listeners=[events.append]).train()
    assert isinstance(caught.value, ArithmeticError)
    assert events[-1] == Failed(6, caught.value)
    rolled = [e for e in events if isinstance(e, RolledBack)]
    assert [(e.learning_rate, e.retries_left) for e in rolled] == [(0.05, 2), (0.025, 1), (0.0125, 0)]
    assert [step for step, _ in task.seen] == [0, 1, 2, 3, 4, 5, 6, 5, 6, 5, 6, 5, 6]
    config = dataclasses.replace(SGD, retries=0, clip_norm=1.0)
    with pytest.raises(DivergenceError, match="a lower clip_norm"):
        Trainer(Descent(losses=lambda *_: math.nan), config, steps=5).train()


@pytest.mark.parametrize("broken", [Failed, Finished])
def test_a_listener_that_fails_hides_no_error_and_keeps_nothing_from_the_others(broken: type) -> None:
    def fail(event: Event) -> None:
        if isinstance(event, broken):
            raise KeyError("closing")

    events: list[Event] = []
    config = dataclasses.replace(SGD, retries=0)
    task = Descent(losses=lambda *_: math.nan if broken is Failed else 1.0)
    with pytest.raises(DivergenceError if broken is Failed else KeyError) as caught:
        Trainer(task, config, steps=2, listeners=[fail, events.append]).train()
    assert events[-1] == Failed(events[-1].step, caught.value)


def test_a_state_that_has_exploded_already_is_no_snapshot() -> None:
    """The update after step 4 ruins the weights, and step 5, where a snapshot is due, is the first to see it."""

    class Ruined(Descent):
        def loss_and_gradients(self, gradients: Parameters, step: int) -> float:
            super().loss_and_gradients(gradients, step)
            if self.calls == 5:
                gradients.buffer[:] = 1e6
            return 1e3 if abs(self.parameters.buffer[0]) > 10 else 1.0

    task = Ruined()
    events, _ = run_of(task, 12, snapshot_every=5)
    assert [(e.step, e.to) for e in events if isinstance(e, RolledBack)] == [(7, 0)]
    assert isinstance(events[-1], Finished)
    assert events[-1].why == "budget"


def test_a_slow_explosion_is_noticed_by_the_smoothed_loss() -> None:
    task = Descent(losses=lambda call, step: 4.5 if step >= 30 and call < 52 else 0.5)
    events, _ = run_of(task, 60, snapshot_every=10)
    rolled = [e for e in events if isinstance(e, RolledBack)]
    assert rolled
    assert 30 < rolled[0].step < 50
    assert rolled[0].to == 30  # from there on it was no longer good enough to go back to


def test_a_state_that_gets_slowly_worse_is_no_snapshot() -> None:
    task = Descent(losses=lambda call, step: 2.0 if step >= 30 and call < 100 else 0.5)
    events, _ = run_of(task, 160, snapshot_every=10)
    (rolled,) = [e for e in events if isinstance(e, RolledBack)]
    assert 60 < rolled.step < 100
    assert rolled.to == 30


def test_a_loss_close_to_zero_may_double_without_being_called_divergence() -> None:
    """The loss on a repetitive text is almost 0, and small changes are many times as large."""
    task = Descent(losses=lambda call, step: 1e-6 if step < 100 else 0.01)
    events, trainer = run_of(task, 150, snapshot_every=10)
    assert not [e for e in events if isinstance(e, RolledBack)]
    assert trainer.state.good.metadata["progress"]["step"] == 140  # nor is it too bad to go back to


def test_a_run_that_stopped_early_after_a_rollback_stays_finished(tmp_path: Path) -> None:
    """Checkpoints ahead of it, from before it was rolled back, must not be taken for newer ones."""
    run = Run.create(tmp_path / "run", {}, {})
    task = Descent(losses=lambda call, step: math.nan if call == 14 else 1.0, validations=[9, 8, 7, 6, 5, 4, 3, 3, 3])
    options = {"snapshot_every": 20, "save_every": 5, "patience": 2}
    events, _ = run_of(task, 30, run, **options)
    assert [e.step for e in events if isinstance(e, Saved)] == [5, 10, 5, 6]
    assert (events[-1].why, events[-1].step) == ("patience", 6)
    assert sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir()) == ["step-5", "step-6"]
    again, _ = run_of(Descent(), 30, run, **options)
    assert [type(e) for e in again] == [Started, Finished]
    assert again[-1].step == 6


def test_another_budget_resets_patience(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", {}, {})
    assert run_of(Descent(validations=[1]), 30, run, patience=2)[0][-1].step == 6  # the best one, and two others
    assert run_of(Descent(validations=[1]), 30, run, patience=2)[0][-1].step == 6
    assert run_of(Descent(validations=[1]), 31, run, patience=2)[0][-1].step == 10


def test_a_rollback_does_not_restore_the_patience_before_a_reset(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", {}, {})
    run_of(Descent(validations=[1]), 30, run, patience=2, snapshot_every=5)  # one was worse at step 5, two at step 6
    task = Descent(losses=lambda call, step: math.nan if call == 1 else 1.0, validations=[1])
    events, _ = run_of(task, 31, run, patience=2, snapshot_every=5)
    assert [(e.step, e.to) for e in events if isinstance(e, RolledBack)] == [(6, 5)]
    assert events[-1].step == 8


@pytest.mark.parametrize("case", ["divergence", "divergence, far back"])
def test_a_real_run_diverges_goes_back_and_comes_to_its_end_without_a_warning(
    case: str, text: Path, tmp_path: Path
) -> None:
    events: list[Event] = []
    trained = start(text, tmp_path / "run", [events.append], **CASES[case])
    rolled = [e for e in events if isinstance(e, RolledBack)]
    assert len(rolled) >= 2
    assert any(isinstance(e, Saved) for e in events[: events.index(rolled[-1])])
    assert trained.finished.why == "budget"
    assert trained.finished.best_loss < math.log(30)


def test_a_run_that_is_stopped_is_saved_where_it_stops(tmp_path: Path) -> None:
    run, stops = Run.create(tmp_path / "run", {}, {}), iter([False, False, True])
    events: list[Event] = []
    task = Descent()
    Trainer(task, SGD, steps=10, run=run, listeners=[events.append], stopping=lambda: next(stops)).train()
    assert [type(e) for e in events[-2:]] == [Saved, Finished]
    assert (events[-2].step, events[-1].step, events[-1].why) == (3, 3, "interrupted")
    again = run_of(Descent(), 10, run)[0]
    assert again[0].step == 3


# -- metrics ----------------------------------------------------------------------------------------------------------


def test_rows_have_the_documented_keys_and_are_written_at_their_steps(text: Path, tmp_path: Path) -> None:
    events: list[Event] = []
    start(text, tmp_path / "run", [events.append], sample_every=9)
    got = rows(tmp_path / "run")
    sampled = {9, 18, 24}
    assert [row["step"] for row in got] == [4, 6, 8, 9, 12, 16, 18, 20, 24]
    for row in got:
        assert list(row) == KEYS + (["sample"] if row["step"] in sampled else [])
        assert row["tokens_per_second"] > 0
        assert (row["validation_loss"] is not None) == (row["step"] % 6 == 0)
    assert all(len(row["sample"]) >= 200 for row in got if "sample" in row)
    assert len({row["sample"] for row in got if "sample" in row}) == 3
    logged = [e for e in stepped(events) if e.logged]
    for row, event in zip(got, logged, strict=True):
        assert {name: getattr(event, name) for name in KEYS} == {name: row[name] for name in KEYS}
    assert [e.step for e in stepped(events)] == list(range(1, 25))
    assert [row["seconds"] for row in got] == sorted(row["seconds"] for row in got)


def test_the_loss_of_a_row_is_the_mean_since_the_row_before() -> None:
    events, _ = run_of(Descent(losses=lambda call, step: 1 + 0.01 * step), 8, log_every=3, validate_every=100)
    logged = [(e.step, round(e.loss, 9)) for e in stepped(events) if e.logged]
    assert logged == [(3, 1.01), (6, 1.04), (8, 1.065)]


@pytest.mark.parametrize("clip", [{"clip_norm": 1e-3}, {"clip_norm": 0.0, "clip_value": 1e-6}])
def test_a_row_has_the_norm_of_every_gradient_before_clipping(
    clip: dict[str, float], text: Path, tmp_path: Path
) -> None:
    trainer = new_trainer(text, dtype="float64", layers=2, **clip)
    d = trainer.task.parameters.zeros()
    trainer.task.loss_and_gradients(d, 0)
    events: list[Event] = []
    start(text, tmp_path / "run", [events.append], dtype="float64", layers=2, log_every=1, steps=2, **clip)
    expected = {name: float(np.linalg.norm(part)) for name, part in d.items()}
    assert rows(tmp_path / "run")[0]["gradient_norms"] == pytest.approx(expected, rel=1e-12)
    assert len(set(expected.values())) == 8


def test_gradient_norms_are_computed_only_for_rows_that_are_written(text: Path, tmp_path: Path) -> None:
    events: list[Event] = []
    start(text, tmp_path / "run", [events.append], sample_every=9)
    assert all((e.gradient_norms is not None) == e.logged for e in stepped(events))
    for e in stepped(events):
        if e.gradient_norms is not None:
            assert math.hypot(*e.gradient_norms.values()) == pytest.approx(e.gradient_norm, rel=1e-6)


def test_a_gradient_norm_that_is_not_finite_becomes_null_too(tmp_path: Path) -> None:
    class Steep(Descent):
        def loss_and_gradients(self, gradients: Parameters, step: int) -> float:
            gradients.buffer[:] = math.inf
            return 1.0

    run_of(Steep(), 1, Run.create(tmp_path / "run", {}, {}), clip_value=1.0)
    assert [row["gradient_norms"] for row in rows(tmp_path / "run")] == [{"p": None}]


def test_numbers_that_are_not_finite_become_null(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", {}, {})
    run_of(Descent(validations=[math.nan, math.inf, 1.0]), 6, run)
    assert [row["validation_loss"] for row in rows(tmp_path / "run")] == [None, None, 1.0]
    assert "NaN" not in (tmp_path / "run" / "metrics.jsonl").read_text()


def test_tokens_per_second_are_never_negative_after_a_rollback(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", {}, {})
    run_of(Descent(losses=lambda call, step: math.nan if call == 10 else 1.0), 10, run, log_every=2, snapshot_every=20)
    speeds = [row["tokens_per_second"] for row in rows(tmp_path / "run") if "event" not in row]
    assert len(speeds) == 4 + 5
    assert min(speeds) > 0


@pytest.mark.parametrize("log_every", [1, 4, 100])
def test_speed_excludes_compiling_validating_and_saving(
    log_every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = types.SimpleNamespace(now=0.0)
    monkeypatch.setattr("elman.training.trainer.time", types.SimpleNamespace(perf_counter=lambda: clock.now))

    def taking(seconds: float) -> None:
        clock.now += seconds

    class Slow(Descent):
        def loss_and_gradients(self, gradients: Parameters, step: int) -> float:
            taking(1000 if self.calls == 0 else 2)  # the first one compiles
            return super().loss_and_gradients(gradients, step)

        def validate(self) -> Validation | None:
            taking(300)
            return super().validate()

        def sample(self, step: int) -> str | None:
            taking(70)
            return super().sample(step)

    run = Run.create(tmp_path / "run", {}, {})
    options = {"log_every": log_every, "validate_every": 4, "sample_every": 6, "save_every": 5}
    task, config = Slow(validations=[1.0]), dataclasses.replace(SGD, **options)
    Trainer(task, config, steps=16, run=run, listeners=[lambda event: taking(50)]).train()
    speeds = {row["step"]: row["tokens_per_second"] for row in rows(tmp_path / "run")}
    assert speeds.pop(1, 7 / 1000) == 7 / 1000  # a row with only the first step includes compiling
    assert set(speeds.values()) == {7 / 2}


def tensorboard(folder: Path) -> tuple[dict[str, dict[int, float]], int]:
    """The scalars in its one file, each by its step, and how many samples there are."""
    from tensorboardX.proto.event_pb2 import Event as Record

    (file,) = folder.iterdir()
    data, found, samples = file.read_bytes(), dict[str, dict[int, float]](), 0
    while data:  # length, its checksum, the record, its checksum
        size = int.from_bytes(data[:8], "little")
        record = Record.FromString(data[12 : 12 + size])
        for value in record.summary.value:
            if value.HasField("simple_value"):
                found.setdefault(value.tag, {})[record.step] = value.simple_value
            samples += value.tag.startswith("sample")
        data = data[16 + size :]
    return found, samples


def test_tensorboard_files_hold_the_accuracy_where_there_is_one(tmp_path: Path) -> None:
    from elman.training.tensorboard import TensorBoard

    class Judged(Descent):
        def validate(self) -> Validation | None:
            self.validated += 1
            return Validation(1.0, self.validated / 4)

    config, run = dataclasses.replace(SGD, log_every=1), Run.create(tmp_path / "run", {}, {})
    Trainer(Judged(), config, steps=6, run=run, listeners=[TensorBoard(tmp_path / "board")]).train()
    assert tensorboard(tmp_path / "board")[0]["validation_accuracy"] == {2: 0.25, 4: 0.5, 6: 0.75}
    got = {row["step"]: row["validation_accuracy"] for row in rows(tmp_path / "run") if "validation_accuracy" in row}
    assert got == {2: 0.25, 4: 0.5, 6: 0.75}


def test_tensorboard_files_are_complete_when_an_error_ends_the_run(tmp_path: Path) -> None:
    from elman.training.tensorboard import TensorBoard

    task = Descent(losses=lambda call, step: math.nan if step == 4 else 1.0)
    config = dataclasses.replace(SGD, log_every=1, retries=0)
    board = TensorBoard(tmp_path / "board")
    with pytest.raises(DivergenceError):
        Trainer(task, config, steps=6, listeners=[board]).train()
    assert list(tensorboard(tmp_path / "board")[0]["loss"]) == [1, 2, 3, 4]


def test_tensorboard_files_hold_the_scalars_of_every_row(text: Path, tmp_path: Path) -> None:
    from elman.training.tensorboard import TensorBoard

    start(text, tmp_path / "run", [TensorBoard(tmp_path / "run" / "tensorboard")], sample_every=12)
    found, samples = tensorboard(tmp_path / "run" / "tensorboard")
    got = rows(tmp_path / "run")
    each = {f"gradient_norms/{name}" for name in got[0]["gradient_norms"]}
    assert set(found) == {"loss", "validation_loss", "gradient_norm", "learning_rate", "tokens_per_second"} | each
    for name, values in found.items():
        value_of = {row["step"]: row["gradient_norms"] | row for row in got}
        expected = {
            step: row[name.removeprefix("gradient_norms/")]
            for step, row in value_of.items()
            if row[name.removeprefix("gradient_norms/")] is not None
        }
        assert values == pytest.approx(expected, rel=1e-6)
    assert samples == 2
