"""Learning-rate schedules: a factor of at most 1 for each step."""

from __future__ import annotations

import math
from collections.abc import Callable

from elman.config import Config


def _constant(c: Config, step: int, steps: int) -> float:
    return 1.0


def _step(c: Config, step: int, steps: int) -> float:
    return c.decay_factor ** (step // c.decay_every)


def _cosine(c: Config, step: int, steps: int) -> float:
    done = min(1.0, max(0, step - c.warmup_steps) / max(1, steps - c.warmup_steps))
    return c.final_rate_fraction + (1 - c.final_rate_fraction) * (1 + math.cos(math.pi * done)) / 2


SCHEDULES: dict[str, Callable[[Config, int, int], float]] = {
    "constant": _constant,
    "step": _step,
    "cosine": _cosine,
    "plateau": _constant,  # the trainer lowers the rate after validations, see Progress.plateau_factor
}


def rate_factor(config: Config, step: int, steps: int) -> float:
    """The factor of the update after `step` updates, of `steps` in all: the warm-up times the schedule."""
    warm = min(1.0, (step + 1) / config.warmup_steps) if config.warmup_steps else 1.0
    return warm * SCHEDULES[config.schedule](config, step, steps)
