"""The counters and losses of the training loop, which every checkpoint stores."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any


@dataclass
class Progress:
    """Counters and losses, as numbers that can be stored as JSON."""

    step: int = 0
    finished: str | None = None  # the reason: budget or patience
    best_loss: float | None = None
    best_step: int = 0
    worse: int = 0  # validations since the best one, for early stopping
    worse_rate: int = 0  # validations since the best one or the last reduction by the plateau schedule
    plateau_factor: float = 1.0
    exploded: int = 0  # steps in a row whose loss is above the bound of divergence.py
    smoothed: float | None = None  # exponential moving average of the training loss
    smoothed_best: float | None = None
    loss_sum: float = 0.0  # since the last row of metrics
    loss_count: int = 0

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Progress:
        """The Progress with these values, as dataclasses.asdict returns them; ValueError if one is invalid."""
        progress = cls(**values)
        for name, value in values.items():
            known = getattr(cls, name)
            if name == "finished":
                fits = value in (None, "budget", "patience")
            elif type(known) is int:
                fits = type(value) is int and value >= 0
            else:
                fits = value is known or (type(value) in (int, float) and math.isfinite(value))
            if not fits:
                raise ValueError(f"{name}: {value!r}")
        return progress
