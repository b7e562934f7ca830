"""Ratios of speeds from synthetic turns: nothing is timed here."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from ratios import Estimate, Turn, median, paired_ratios, speed_ratio, step_seconds

ELMAN, RIVAL = 0.010, 0.016  # seconds a step; the ratio is 1.6


def turns_of(
    rng: np.random.Generator,
    seconds: dict[str, float],
    count: int = 60,
    slowness: Any = lambda share: 1.0,
    noise: float = 0.02,
) -> list[Turn]:
    """Turns in random order on a machine that is slower by a factor at each share of the way."""
    turns: list[Turn] = []
    for number in range(count):
        for name in rng.permutation(list(seconds)):
            took = seconds[name] * slowness(number / count) * rng.lognormal(0, noise)
            turns.append(Turn(str(name), len(turns), took))
    return turns


def test_ratio_of_steady_machine():
    turns = turns_of(np.random.default_rng(0), {"elman": ELMAN, "rival": RIVAL})
    value, low, high = speed_ratio(turns, "elman", "rival")
    assert low < 1.6 < high
    assert 1.58 < value < 1.62
    assert step_seconds(turns, "elman").value == pytest.approx(ELMAN, rel=0.02)


@pytest.mark.parametrize(
    "slowness",
    [
        lambda share: 1.0 if share < 0.5 else 2.0,
        lambda share: 1 + 3 * share,
        lambda share: 1.5 + 0.5 * np.sin(40 * share),
    ],
    ids=["half as fast from the middle on", "slower and slower", "up and down"],
)
def test_drift_of_the_machine_does_not_change_the_ratio(slowness):
    turns = turns_of(np.random.default_rng(1), {"elman": ELMAN, "rival": RIVAL}, slowness=slowness)
    ratio = speed_ratio(turns, "elman", "rival")
    assert ratio.value == pytest.approx(1.6, rel=0.02)
    assert not ratio.is_wide
    assert step_seconds(turns, "elman").is_wide  # the seconds themselves say little


def test_contenders_that_did_not_alternate_would_show_the_drift():
    """What the random order is for: all turns of one, then all of the other, on a machine that slows in between."""
    turns = [Turn("elman", t, ELMAN) for t in range(60)] + [Turn("rival", 60 + t, 2 * RIVAL) for t in range(60)]
    assert speed_ratio(turns, "elman", "rival").value == pytest.approx(3.2)


def test_interruptions_do_not_change_the_ratio():
    """A fifth of all turns take three times as long, whoever's they are."""
    rng = np.random.default_rng(2)
    turns = turns_of(rng, {"elman": ELMAN, "rival": RIVAL}, count=100)
    turns = [turn._replace(seconds=turn.seconds * (3 if rng.random() < 0.2 else 1)) for turn in turns]
    assert speed_ratio(turns, "elman", "rival").value == pytest.approx(1.6, rel=0.03)


def test_noise_of_single_turns_favors_nobody():
    """A pairing that prefers fast turns of the other, as the distance in time does, would give 0.89."""
    turns = turns_of(np.random.default_rng(4), {"elman": ELMAN, "rival": ELMAN}, count=4000, noise=0.4)
    assert speed_ratio(turns, "elman", "rival").value == pytest.approx(1, abs=0.04)


def test_each_turn_is_paired_with_the_nearest_of_the_other():
    turns = [Turn("b", 0, 2.0), Turn("a", 4, 1.0), Turn("b", 6, 4.0), Turn("a", 9, 1.0), Turn("b", 20, 8.0)]
    assert paired_ratios(turns, "a", "b").tolist() == [4.0, 4.0]
    assert paired_ratios(turns, "b", "a").tolist() == [1 / 2, 1 / 4, 1 / 8]


def test_contender_without_turns_is_an_error():
    with pytest.raises(ValueError, match="no turns of b"):
        speed_ratio([Turn("a", 0, 1.0)], "a", "b")


@pytest.mark.parametrize("persistence", [0.0, 0.6], ids=["independent", "lasting"])
def test_interval_contains_the_true_value_about_as_often_as_it_says(persistence):
    """200 measurements with noise of 10 %, independent or lasting for some turns."""
    hits = 0
    for seed in range(200):
        noise = np.random.default_rng(seed).normal(size=60)
        for i in range(1, 60):
            noise[i] = persistence * noise[i - 1] + (1 - persistence**2) ** 0.5 * noise[i]
        _, low, high = median(1.6 * np.exp(0.1 * noise))
        hits += low <= 1.6 <= high
    assert hits >= (184 if persistence == 0 else 164)


def test_interval_is_the_same_each_time():
    values = np.random.default_rng(3).normal(size=50)
    assert median(values) == median(values)


def test_wide_interval_is_marked():
    assert not Estimate(1.0, 0.94, 1.06).is_wide
    assert Estimate(1.0, 0.92, 1.01).is_wide
    assert Estimate(1.0, 0.99, 1.08).is_wide
    assert Estimate(1.0, 0.92, 1.01).times(2) == (2.0, 1.84, 2.02)
    from report import figure

    assert figure([1.0, 0.99, 1.08], interval=True) == "1.00 (0.990 to 1.08) ?"
    assert figure([1.0, 0.99, 1.01]) == "1.00"
