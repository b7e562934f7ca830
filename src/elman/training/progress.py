"""What the loop remembers from step to step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any


@dataclass
class Progress:
    """Counts and losses, as plain numbers that JSON holds."""

    step: int = 0
    finished: str | None = None  # why, once it is over
    best_loss: float | None = None
    best_step: int = 0
    worse: int = 0  # validations since the best one
    worse_rate: int = 0  # the same, since the plateau last lowered the rate
    plateau_factor: float = 1.0
    exploded: int = 0  # steps in a row
    smoothed: float | None = None  # training loss
    smoothed_best: float | None = None
    loss_sum: float = 0.0  # since the last row of metrics
    loss_count: int = 0

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> Progress:
        """What asdict gave; ValueError for anything else."""
        progress = cls(**facts)
        for name, value in facts.items():
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
