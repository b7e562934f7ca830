"""The interface between the training loop and a model: the loop can train anything that has these attributes and
methods."""

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
    """A model with its data, as the training loop sees it."""

    parameters: Parameters
    steps_per_epoch: float
    tokens_per_step: int
    baseline_loss: float  # of a trivial prediction; divergence.py explains it
    # world: World, only of a task whose batch is split among ranks: loss_and_gradients then computes the part of this
    # rank, validate returns the result of all ranks, and state the state of all ranks

    def loss_and_gradients(self, gradients: Parameters, step: int) -> float:
        """Overwrite `gradients` with those of the mean loss of the batches of this step, and return the loss."""

    def validate(self) -> Validation | None:
        """The loss on the held-out part, and the accuracy if the task has one; None if there is no held-out part."""

    def sample(self, step: int) -> str | None:
        """A sample of generated text to show during training; None if the model cannot generate."""

    def state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Everything besides the parameters that the next update depends on: arrays, and metadata for JSON."""

    def restore(self, arrays: dict[str, Array], metadata: dict[str, Any]) -> None:
        """Restore what state() has returned."""


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
