"""Ratios of speeds that hold on a noisy machine.

The machine's speed may change by half from one minute to the next, but hardly from one turn of some tens of
milliseconds to the next. So each turn of one contender is compared with the nearest turn of the other, and the ratio of
their speeds is the median over all these pairs. Its 95 % interval comes from a bootstrap that resamples blocks of
consecutive pairs, because a disturbance usually lasts longer than one pair.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

WIDE = 0.07  # an interval that reaches further from its value than this share of it is marked in the tables
RESAMPLES = 2000


class Turn(NamedTuple):
    contender: Hashable
    place: int  # its number among all turns
    seconds: float  # of one step, the mean of the turn


class Estimate(NamedTuple):
    value: float
    low: float  # of the 95 % interval
    high: float

    @property
    def is_wide(self) -> bool:
        return self.high > (1 + WIDE) * self.value or self.low < (1 - WIDE) * self.value

    def times(self, factor: float) -> Estimate:
        return Estimate(*(factor * value for value in self))


def speed_ratio(turns: Sequence[Turn], contender: Hashable, other: Hashable) -> Estimate:
    """How many times as fast as the other the contender is."""
    return median(paired_ratios(turns, contender, other))


def step_seconds(turns: Sequence[Turn], contender: Hashable) -> Estimate:
    """Seconds a step takes. On a noisy machine only ratios mean something, so this is for orientation."""
    return median(np.array([turn.seconds for turn in turns if turn.contender == contender]))


def paired_ratios(turns: Sequence[Turn], contender: Hashable, other: Hashable) -> Any:
    """Seconds of the other by seconds of the contender: for each turn of the contender the other's nearest one.

    Nearest by place, not by the clock: the middle of a turn that happens to be slow is further away in time, so the
    clock would prefer the other's fast turns.
    """
    own, others = (sorted((t.place, t.seconds) for t in turns if t.contender == who) for who in (contender, other))
    if not own or not others:
        raise ValueError(f"no turns of {contender if others else other}")
    (places, seconds), (other_places, other_seconds) = np.array(own).T, np.array(others).T
    nearest = np.abs(places[:, np.newaxis] - other_places).argmin(axis=1)
    return other_seconds[nearest] / seconds


def median(values: Any) -> Estimate:
    """The median of values in the order in which they were measured, with its 95 % interval."""
    n = len(values)
    block = round(n ** (1 / 3))
    starts = np.random.default_rng(0).integers(n, size=(RESAMPLES, -(-n // block), 1))
    drawn = ((starts + np.arange(block)) % n).reshape(RESAMPLES, -1)[:, :n]
    low, high = np.quantile(np.median(values[drawn], axis=1), [0.025, 0.975])
    return Estimate(float(np.median(values)), float(low), float(high))
