"""What clipping did: to the gradient of one text, and in a run."""

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
    """The gradient of the mean loss over a text, as one window of one lane, against the longest that is allowed."""

    norm: float  # before clipping
    norms: dict[str, float]  # of each parameter
    clip_norm: float  # 0 lets all pass

    @property
    def scale(self) -> float:
        """What clipping multiplies the gradient by."""
        return min(1.0, self.clip_norm / self.norm) if self.clip_norm and self.norm > 0 else 1.0


@dataclass(frozen=True)
class ClippedSteps:
    """The same for the logged steps of a run."""

    steps: int
    clipped: int
    scale: float  # the mean over the clipped ones; 1 if there are none


def clipping(network: Network, p: Parameters, x: Array, y: Array, *, clip_norm: float) -> Clipping:
    """What happens to the gradient of a text of ids x, (T,), with targets y, (T,), read from a state of zeros."""
    gradients = p.zeros()
    x, y = (np.asarray(ids, np.int64)[:, np.newaxis] for ids in (x, y))  # (T, 1)
    network.loss_and_gradients(p, Batch(x, y), gradients, normalizer=len(y))
    norms = {name: float(np.linalg.norm(d.astype(np.float64))) for name, d in gradients.items()}
    return Clipping(float(np.linalg.norm(list(norms.values()))), norms, clip_norm)


def clipped_steps(rows: Sequence[dict[str, Any]], *, clip_norm: float) -> ClippedSteps:
    """From the rows of metrics.jsonl."""
    norms = [norm for _, norm in gradient_history(rows).total]
    clipped = [norm for norm in norms if clip_norm and norm > clip_norm]
    scale = float(np.mean([clip_norm / norm for norm in clipped])) if clipped else 1.0
    return ClippedSteps(len(norms), len(clipped), scale)
