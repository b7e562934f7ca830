"""What happens in a run, as plain data. Whatever a person sees is made from these by a listener."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias


@dataclass(frozen=True)
class Started:
    step: int  # 0, or where a resumed run goes on
    steps: int
    parameters: int
    run: Path | None
    finished: str | None = None  # why a resumed run was over, if nothing makes it go on: as in Finished


@dataclass(frozen=True)
class Stepped:
    """One update; what was validated only where it was measured, sample only where one was drawn."""

    step: int
    epoch: float
    loss: float
    gradient_norm: float  # before it was clipped
    learning_rate: float
    tokens_per_second: float
    seconds: float
    validation_loss: float | None = None
    validation_accuracy: float | None = None  # of classes and tags: the share that is right
    best: bool = False  # the best validation so far
    sample: str | None = None
    gradient_norms: dict[str, float] | None = None  # of each parameter, before any clipping; only where it is logged
    logged: bool = False  # a row of metrics.jsonl


@dataclass(frozen=True)
class RolledBack:
    """The loss diverged: back to an earlier step, with a lower rate."""

    step: int
    to: int
    loss: float
    learning_rate: float
    retries_left: int


@dataclass(frozen=True)
class Saved:
    step: int
    path: Path


@dataclass(frozen=True)
class Finished:
    step: int
    why: str  # "budget", "patience", "interrupted"
    best_loss: float | None
    best_step: int
    seconds: float


@dataclass(frozen=True)
class Failed:
    """An exception ends the training, and whoever started it gets it: the last event, in place of Finished, or after
    it where a listener failed there."""

    step: int
    error: BaseException


Event: TypeAlias = Started | Stepped | RolledBack | Saved | Finished | Failed
Listener: TypeAlias = Callable[[Event], None]
