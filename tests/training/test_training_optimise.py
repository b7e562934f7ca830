"""Optimizers, clipping and schedules against formulas written out for single numbers."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest

from elman.config import Config
from elman.maths.optimizers import OPTIMIZERS, Rates, clip_by_value, clip_in_place, global_norm, update
from elman.training.schedule import rate_factor

MU, RHO, EPS = 0.8, 0.95, 1e-3


def sgd(p: float, g: float, rate: float, t: int, s: dict[str, float]) -> float:
    return p - rate * g


def momentum(p: float, g: float, rate: float, t: int, s: dict[str, float]) -> float:
    s["v"] = MU * s.get("v", 0.0) + g
    return p - rate * s["v"]


def rmsprop(p: float, g: float, rate: float, t: int, s: dict[str, float]) -> float:
    s["s"] = RHO * s.get("s", 0.0) + (1 - RHO) * g**2
    return p - rate * g / (math.sqrt(s["s"]) + EPS)


def adagrad(p: float, g: float, rate: float, t: int, s: dict[str, float]) -> float:
    s["s"] = s.get("s", 0.0) + g**2
    return p - rate * g / (math.sqrt(s["s"]) + EPS)


def adam(p: float, g: float, rate: float, t: int, s: dict[str, float]) -> float:
    s["m"] = MU * s.get("m", 0.0) + (1 - MU) * g
    s["v"] = RHO * s.get("v", 0.0) + (1 - RHO) * g**2
    m_hat, v_hat = s["m"] / (1 - MU**t), s["v"] / (1 - RHO**t)
    return p - rate * m_hat / (math.sqrt(v_hat) + EPS)


BY_HAND: dict[str, Callable[..., float]] = {
    "sgd": sgd, "momentum": momentum, "rmsprop": rmsprop, "adagrad": adagrad, "adam": adam, "adamw": adam,
}  # fmt: skip


@pytest.mark.parametrize("weight_decay", [0.0, 0.3])
@pytest.mark.parametrize("name", BY_HAND)
def test_ten_steps_are_those_of_the_formula(name: str, weight_decay: float) -> None:
    rng = np.random.default_rng(1)
    p = rng.standard_normal(5)
    expected, memory_by_hand = p.tolist(), [{} for _ in p]
    memory = [np.zeros_like(p) for _ in OPTIMIZERS[name].memory]
    for t in range(1, 11):
        g, rate = rng.standard_normal(5) * 10.0 ** rng.integers(-4, 2), 0.1 / t
        for i, (old, slope) in enumerate(zip(expected, g.tolist(), strict=True)):
            if name == "adamw":  # decoupled: beside the step, scaled by the rate, not in the moments
                expected[i] = adam(old, slope, rate, t, memory_by_hand[i]) - rate * weight_decay * old
            else:
                expected[i] = BY_HAND[name](old, slope + weight_decay * old, rate, t, memory_by_hand[i])
        update(name, p, g, Rates(rate, t, MU, RHO, EPS, weight_decay), memory)
        np.testing.assert_allclose(p, expected, rtol=1e-10)


def test_every_optimizer_works_in_place_on_float32_and_keeps_it() -> None:
    for name, optimizer in OPTIMIZERS.items():
        p = np.ones(3, np.float32)
        view, memory = p[:], [np.zeros_like(p) for _ in optimizer.memory]
        update(name, p, np.full(3, 0.5, np.float32), Rates(0.1, 1, MU, RHO, EPS, 0.1), memory)
        assert (view < 1).all()
        assert {a.dtype for a in (p, *memory)} == {np.dtype(np.float32)}


def test_clipping_by_norm_shortens_and_keeps_the_direction() -> None:
    g = np.array([3.0, -4.0, 12.0])
    assert global_norm(g) == pytest.approx(13)
    assert clip_in_place(g, 13.5) == pytest.approx(13)
    assert g.tolist() == [3, -4, 12]
    assert clip_in_place(g, 6.5) == pytest.approx(13)  # the length before
    np.testing.assert_allclose(g, [1.5, -2, 6])
    assert clip_in_place(g, math.inf) == pytest.approx(6.5)
    assert clip_in_place(np.zeros(3), 1.0) == 0


def test_clipping_by_value_cuts_each_entry() -> None:
    g = np.array([0.2, -0.7, 0.5, 9.0, np.nan])
    clip_by_value(g, 0.5)
    assert g[:4].tolist() == [0.2, -0.5, 0.5, 0.5]
    assert np.isnan(g[4])  # divergence stays visible


def factors(steps: int, **options: object) -> list[float]:
    config = dataclasses.replace(Config(), **options)
    return [rate_factor(config, step, steps) for step in range(steps)]


def test_the_warm_up_rises_in_a_line_and_multiplies_every_schedule() -> None:
    assert factors(6, schedule="constant", warmup_steps=4) == [0.25, 0.5, 0.75, 1, 1, 1]
    assert factors(3, schedule="constant", warmup_steps=0) == [1, 1, 1]
    assert factors(4, schedule="plateau", warmup_steps=2) == [0.5, 1, 1, 1]
    assert factors(5, schedule="step", decay_factor=0.5, decay_every=2, warmup_steps=2) == [0.5, 1, 0.5, 0.5, 0.25]


def test_cosine_falls_from_one_to_the_final_rate() -> None:
    falling = factors(101, schedule="cosine", warmup_steps=0, final_rate_fraction=0.2)
    assert falling[0] == 1
    assert falling[50] == pytest.approx(0.2 + 0.8 * (1 + math.cos(math.pi * 50 / 101)) / 2)
    assert all(a > b for a, b in itertools.pairwise(falling))
    assert falling[-1] == pytest.approx(0.2, abs=2e-3)
    config = dataclasses.replace(Config(), schedule="cosine", warmup_steps=10, final_rate_fraction=0.2)
    assert rate_factor(config, 9, 100) == 1  # the highest, when the warm-up is over
    assert rate_factor(config, 55, 100) == pytest.approx(0.6)  # halfway
    assert rate_factor(config, 100, 100) == pytest.approx(0.2)  # after the last step
    assert rate_factor(config, 500, 100) == pytest.approx(0.2)
    assert 0 < rate_factor(config, 3, 5) <= 1  # a budget shorter than the warm-up


def test_step_decay_multiplies_at_each_so_many_steps() -> None:
    assert factors(7, schedule="step", decay_factor=0.1, decay_every=3, warmup_steps=0) == pytest.approx(
        [1, 1, 1, 0.1, 0.1, 0.1, 0.01]
    )
