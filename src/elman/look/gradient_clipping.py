"""What gradient clipping does: to the gradient of one text, and in a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from elman.look.history import gradient_history
from elman.maths.arrays import Array
from elman.network import Batch, Network, Parameters


@dataclass(frozen=True)
class Clipping:
    """The gradient of the mean loss over a text, compared with the maximum norm.

    Attributes
    ----------
    norm : float
        Before clipping.
    norms : dict of str to float
        Of each parameter.
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
    """How often a run clipped its gradients.

    Attributes
    ----------
    steps : int
        The logged steps.
    clipped : int
        Those that were clipped.
    scale : float
        The mean factor of the clipped ones; 1 if there are none.
    """

    steps: int
    clipped: int
    scale: float


def clipping(network: Network, p: Parameters, x: Array, y: Array, *, clip_norm: float) -> Clipping:
    """What clipping does to the gradient of the mean loss over a text, read from a state of zeros.

    Parameters
    ----------
    network : Network
        The network.
    p : Parameters
        Its parameters.
    x, y : ndarray of ids, shape (T,)
        What it reads, and the targets.
    clip_norm : float
        The maximum gradient norm; 0 disables clipping.

    Returns
    -------
    Clipping
        Norms and the factor.

    Examples
    --------
    >>> from elman import LanguageModel, look
    >>> model = LanguageModel(hidden=8, steps=1).fit("the cat sat on the mat. " * 20, listeners=[])
    >>> ids = model.vocabulary_.encode("the cat")
    >>> look.clipping(model.network_, model.parameters_, ids[:-1], ids[1:], clip_norm=1e-6).scale < 1
    True
    """
    gradients = p.zeros()
    x, y = (np.asarray(ids, np.int64)[:, np.newaxis] for ids in (x, y))  # (T, 1)
    network.loss_and_gradients(p, Batch(x, y), gradients, normalizer=len(y))
    norms = {name: float(np.linalg.norm(d.astype(np.float64))) for name, d in gradients.items()}
    return Clipping(float(np.linalg.norm(list(norms.values()))), norms, clip_norm)


def clipped_steps(rows: Sequence[dict[str, Any]], *, clip_norm: float) -> ClippedSteps:
    """How often a run clipped its gradients.

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
