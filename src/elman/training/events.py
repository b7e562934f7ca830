"""The events of a training, as plain data. A listener is a function that is called with each of them.

>>> from elman import LanguageModel
>>> from elman.training import Stepped
>>> losses = []
>>> def listen(event):
...     if isinstance(event, Stepped):
...         losses.append(event.loss)
>>> model = LanguageModel(hidden=8, steps=5, window=8, batch_size=2).fit("hello world\\n" * 20, listeners=[listen])
>>> len(losses)
5
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from elman.training.task import Validation


@dataclass(frozen=True)
class Started:
    """Training begins, or continues.

    Parameters
    ----------
    step : int
        0, or the step from which a resumed run continues.
    steps : int
        The number of steps of the whole training.
    parameters : int
        The number of parameters of the network.
    run : Path or None
        The run folder.
    finished : str or None
        Why a resumed run is already finished, if nothing is left to do: see Finished.why.
    validation : Validation or None
        The validation of the model that training starts from, if it starts from one.
    """

    step: int
    steps: int
    parameters: int
    run: Path | None
    finished: str | None = None
    validation: Validation | None = None


@dataclass(frozen=True)
class Stepped:
    """One update of the parameters.

    Parameters
    ----------
    step : int
        The number of updates so far.
    epoch : float
        Passes over the data so far.
    loss : float
        The training loss of this update; if it is logged, the mean over the updates since the last logged one.
    gradient_norm : float
        The norm of the gradient of this update, after clipping by value and before clipping by norm.
    learning_rate : float
        The rate of this update.
    tokens_per_second : float
        The speed since the last logged update.
    seconds : float
        Time since the training began.
    validation_loss : float or None
        The validation loss, if there was a validation after this update.
    validation_accuracy : float or None
        The share of correct predictions, for classes and tags.
    best : bool
        Whether this is the best validation loss so far.
    sample : str or None
        A generated text, if one was sampled after this update.
    gradient_norms : dict or None
        The norm of the gradient of each parameter before clipping, if this update is logged.
    logged : bool
        Whether this update is a row of metrics.jsonl.
    """

    step: int
    epoch: float
    loss: float
    gradient_norm: float
    learning_rate: float
    tokens_per_second: float
    seconds: float
    validation_loss: float | None = None
    validation_accuracy: float | None = None
    best: bool = False
    sample: str | None = None
    gradient_norms: dict[str, float] | None = None
    logged: bool = False


@dataclass(frozen=True)
class RolledBack:
    """Training diverged: it returns to an earlier step and continues with half the learning rate.

    Parameters
    ----------
    step : int
        The step at which training diverged.
    to : int
        The step from which training continues.
    loss : float
        The loss at that step; finite if only the gradient is not.
    learning_rate : float
        The new maximum learning rate, before warm-up and schedule.
    retries_left : int
        How many more times training may return to an earlier step.
    """

    step: int
    to: int
    loss: float
    learning_rate: float
    retries_left: int


@dataclass(frozen=True)
class Saved:
    """A checkpoint was written.

    Parameters
    ----------
    step : int
        The step of the checkpoint.
    path : Path
        The run folder.
    """

    step: int
    path: Path


@dataclass(frozen=True)
class Finished:
    """Training is over.

    Parameters
    ----------
    step : int
        The number of updates.
    why : {"budget", "patience", "interrupted"}
        All steps were taken, validation stopped improving, or the training was stopped (Ctrl-C).
    best_loss : float or None
        The best validation loss.
    best_step : int
        The step of the best validation loss; 0 if there is none, or if no step improved on the initial model.
    seconds : float
        Time of the whole training.
    last_loss : float or None
        The last validation loss, if this process validated. If it is well above the best one, training overfitted.
    """

    step: int
    why: str
    best_loss: float | None
    best_step: int
    seconds: float
    last_loss: float | None = None

    @property
    def overfitted(self) -> bool:
        """Whether the last validation loss is at least one percent above the best one."""
        return self.best_loss is not None and self.last_loss is not None and self.last_loss > 1.01 * self.best_loss


@dataclass(frozen=True)
class Failed:
    """An exception ends the training: the last event.

    It comes in place of Finished, or after it if a listener raised the exception at Finished.

    Parameters
    ----------
    step : int
        The number of updates so far.
    error : BaseException
        The exception, which is raised after this event.
    """

    step: int
    error: BaseException


Event: TypeAlias = Started | Stepped | RolledBack | Saved | Finished | Failed
Listener: TypeAlias = Callable[[Event], None]
