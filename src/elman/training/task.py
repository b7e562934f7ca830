"""What the loop asks of a model in training: any shape of network can be trained by it."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from elman.maths.arrays import Array
from elman.network import Parameters


class Validation(NamedTuple):
    """The result of a validation.

    Parameters
    ----------
    loss : float
        The mean loss.
    accuracy : float or None
        The share of correct classes or tags.
    """

    loss: float
    accuracy: float | None = None


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
    """A random generator that depends on nothing but its arguments, so that a checkpoint keeps no generator state.

    Parameters
    ----------
    seed : int
        The seed of the training.
    purpose : str
        What the numbers are for.
    step : int
        The step or batch.

    Examples
    --------
    >>> from elman.training import generator
    >>> bool(generator(0, "order", 3).integers(10) == generator(0, "order", 3).integers(10))
    True
    """
    return np.random.default_rng([seed, *purpose.encode(), step])
