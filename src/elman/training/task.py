"""What the loop asks of a model in training: any shape of network can be trained by it."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from elman.maths.arrays import Array
from elman.network import Parameters


class Validation(NamedTuple):
    """What the held-out part says."""

    loss: float
    accuracy: float | None = None  # the share that is right, of a task that tells classes


class Task(Protocol):
    parameters: Parameters
    steps_per_epoch: float
    tokens_per_step: int
    baseline_loss: float  # the loss of one who knows nothing: above twice of it a run has exploded
    # world: World, only of a task that deals its batch to ranks: it adds its own rank's share of gradients and loss,
    # validates together with the others, and its state is that of all ranks

    def add_gradients(self, gradients: Parameters, step: int) -> float:
        """Take the next batches of one update, add the gradients of their mean loss, return it."""

    def validate(self) -> Validation | None:
        """How good it is on the held-out part; None where there is none."""

    def sample(self, step: int) -> str | None:
        """Something to look at."""

    def state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Everything besides the parameters that the next update depends on: arrays, and facts for JSON."""

    def restore(self, arrays: dict[str, Array], facts: dict[str, Any]) -> None:
        """Go back to what state() gave."""


def generator(seed: int, purpose: str, step: int = 0) -> np.random.Generator:
    """Random numbers that depend on nothing but these three: no generator's state has to be kept."""
    return np.random.default_rng([seed, *purpose.encode(), step])
