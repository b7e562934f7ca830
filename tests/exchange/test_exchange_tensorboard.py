"""TensorBoard's own reader finds all metrics of a run, also of a resumed one."""

from __future__ import annotations

from pathlib import Path

import pytest
from exchange_pages import ENGLISH

from elman.cli import main
from elman.training.run import Run

SCALARS = ("loss", "validation_loss", "gradient_norm", "learning_rate", "tokens_per_second")
CHOICES = {
    "hidden": 8,
    "batch_size": 2,
    "window": 8,
    "warmup_steps": 0,
    "log-every": 3,
    "validate-every": 6,
    "sample-every": 9,
}


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("ELMAN_CACHE", str(tmp_path_factory.getbasetemp() / "the-cache"))


def train(*words: object) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["train", *map(str, words), "--tensorboard"])
    assert caught.value.code == 0


def test_all_scalars_and_samples_are_there(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    (tmp_path / "text.txt").write_text(ENGLISH)
    run = tmp_path / "run"
    flags = [word for name, value in CHOICES.items() for word in (f"--{name}", value)]
    train(tmp_path / "text.txt", "--out", run, *flags, "--steps", 20)
    train("--resume", run, "--steps", 30)
    rows = [row for row in Run(run).metrics() if "event" not in row]
    found = accumulator.EventAccumulator(str(run / "tensorboard"), size_guidance={"tensors": 0, "scalars": 0}).Reload()
    assert {tag for tag in found.Tags()["scalars"] if "/" not in tag} == set(SCALARS)
    for name in SCALARS:
        noted = [(row["step"], row[name]) for row in rows if row[name] is not None]
        read = [(event.step, event.value) for event in found.Scalars(name)]
        assert [step for step, _ in read] == [step for step, _ in noted]
        assert [value for _, value in read] == pytest.approx([value for _, value in noted], rel=1e-6)
    (tag,) = found.Tags()["tensors"]
    samples = {event.step: event.tensor_proto.string_val[0].decode() for event in found.Tensors(tag)}
    assert samples == {row["step"]: row["sample"] for row in rows if "sample" in row}
    assert set(samples) == {9, 18, 20, 27, 30}
