"""The effect of gradient clipping by norm, on the gradient of one text and in a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from elman.errors import ArgumentError
from elman.look.history import gradient_history
from elman.look.traces import inputs_and_targets
from elman.maths.arrays import Array
from elman.models import LanguageModel
from elman.network import Batch, Network, Parameters


@dataclass(frozen=True)
class Clipping:
    """The gradient of the mean loss over a text, compared with the maximum norm.

    Attributes
    ----------
    norm : float
        The gradient norm before clipping.
    norms : dict of str to float
        The norm of the gradient of each parameter.
    clip_norm : float
        The maximum gradient norm; 0 disables clipping.
    """

    norm: float
    norms: dict[str, float]
    clip_norm: float

    @property
    def scale(self) -> float:
        """The factor by which clipping multiplies the gradient."""
        return min(1.0, self.clip_norm / self.norm) if self.clip_norm and self.norm > 0 else 1.0


@dataclass(frozen=True)
class ClippedSteps:
    """How often a run clipped its gradients by norm.

    Attributes
    ----------
    steps : int
        The number of logged steps.
    clipped : int
        The number of those that were clipped.
    scale : float
        The mean factor of the clipped steps; 1 if there are none.
    """

    steps: int
    clipped: int
    scale: float


@overload
def clipping(model: LanguageModel, text: str | Array, /, *, clip_norm: float | None = None) -> Clipping: ...
@overload
def clipping(network: Network, p: Parameters, x: Array, y: Array, /, *, clip_norm: float | None = None) -> Clipping: ...
def clipping(
    model: LanguageModel | Network,
    text: str | Array | Parameters,
    x: Array | None = None,
    y: Array | None = None,
    /,
    *,
    clip_norm: float | None = None,
) -> Clipping:
    """The effect of clipping on the gradient of the mean loss of a text: ``(model, text)``, or ``(network, p, x, y)``.

    Parameters
    ----------
    model : LanguageModel or Network
        A fitted model, or a network.
    text : str, ndarray of ids, or Parameters
        The text for a model, whose first 256 steps are read from a state of zeros; or the parameters of a network.
    x, y : ndarray of ids, shape (T,)
        Inputs and targets of a network.
    clip_norm : float, optional
        The maximum gradient norm; 0 disables clipping. Unless given, that of the model's training; 0 for a network.

    Returns
    -------
    Clipping
        Norms and the factor.

    Examples
    --------
    >>> from elman import LanguageModel, look
    >>> model = LanguageModel(hidden=8, steps=1).fit("the cat sat on the mat. " * 20, listeners=[])
    >>> look.clipping(model, "the cat", clip_norm=1e-6).scale < 1
    True
    """
    network: Network
    if isinstance(model, LanguageModel) and not isinstance(text, Parameters):
        x, y = inputs_and_targets(model, text)
        network, p = model.network_, model.parameters_
        clip_norm = model.config_.clip_norm if clip_norm is None else clip_norm
    elif isinstance(model, Network) and isinstance(text, Parameters) and x is not None and y is not None:
        network, p = model, text
    else:
        raise ArgumentError("clipping", expected="a model and a text, or a network, parameters, ids and targets")
    gradients = p.zeros()
    x, y = (np.asarray(ids, np.int64)[:, np.newaxis] for ids in (x, y))  # (T, 1)
    network.loss_and_gradients(p, Batch(x, y), gradients, normalizer=len(y))
    norms = {name: float(np.linalg.norm(d.astype(np.float64))) for name, d in gradients.items()}
    return Clipping(float(np.linalg.norm(list(norms.values()))), norms, clip_norm or 0.0)


def clipped_steps(rows: Sequence[dict[str, Any]], *, clip_norm: float) -> ClippedSteps:
    """How often a run clipped its gradients by norm.

    Parameters
    ----------
    rows : sequence of dict
        The rows of metrics.jsonl, as `Run.metrics()` reads them.
    clip_norm : float
        The maximum gradient norm of the run; 0 disables clipping.

    Returns
    -------
    ClippedSteps
        Counts and the mean factor.

    Examples
    --------
    >>> clipped_steps([{"step": 1, "gradient_norm": 2.0}, {"step": 2, "gradient_norm": 0.5}], clip_norm=1.0).clipped
    1
    """
    norms = [norm for _, norm in gradient_history(rows).total]
    clipped = [norm for norm in norms if clip_norm and norm > clip_norm]
    scale = float(np.mean([clip_norm / norm for norm in clipped])) if clipped else 1.0
    return ClippedSteps(len(norms), len(clipped), scale)
