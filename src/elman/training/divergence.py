"""Detects divergence from the losses and the gradient norm, which all ranks share, so that they all decide the same.

baseline_loss is the loss of a trivial prediction. For classes and tokens that is the uniform distribution: log of their
number. For regression it is ten times the largest loss of an example if the mean is predicted, 10 · max(1, largest
squared target after standardizing), because initial outputs have no bound. With weighted examples it is multiplied by
the largest weight relative to the mean.
"""

from __future__ import annotations

import math

from elman.training.progress import Progress

EXPLODED = 2.0  # times baseline_loss, or times the best smoothed loss
MARGIN = 1.0  # added to EXPLODED · baseline_loss, which is small with few classes
GOOD = 1.1  # times the best smoothed loss: up to here a state is worth a snapshot
FLOOR = 0.25  # times baseline_loss, added to both losses of a comparison: twice a tiny loss is no divergence
IN_A_ROW = 3  # steps with a loss above the bound: a single batch may have one by chance, at any learning rate
SMOOTHING = 0.98  # decay of the moving average


def is_good(p: Progress, baseline_loss: float) -> bool:
    """Whether the current state is worth a snapshot to roll back to."""
    return p.smoothed is None or p.smoothed_best is None or not _above(GOOD, p.smoothed, p.smoothed_best, baseline_loss)


def diverged(p: Progress, loss: float, norm: float, baseline_loss: float) -> bool:
    """Whether the training has diverged after this loss and gradient norm; updates the moving averages of `p`.

    It has diverged if the loss or the norm is not finite, if the loss is above EXPLODED · baseline_loss + MARGIN for
    IN_A_ROW steps, or if the smoothed loss is above EXPLODED times its best value, with FLOOR · baseline_loss added to
    both.
    """
    if not (math.isfinite(loss) and math.isfinite(norm)):
        return True
    bound = EXPLODED * baseline_loss + MARGIN
    p.exploded = p.exploded + 1 if loss > bound else 0
    if p.exploded == IN_A_ROW:
        return True
    loss = min(loss, bound)
    p.smoothed = loss if p.smoothed is None else SMOOTHING * p.smoothed + (1 - SMOOTHING) * loss
    p.smoothed_best = p.smoothed if p.smoothed_best is None else min(p.smoothed_best, p.smoothed)
    return _above(EXPLODED, p.smoothed, p.smoothed_best, baseline_loss)


def _above(times: float, loss: float, best: float, baseline_loss: float) -> bool:
    floor = FLOOR * baseline_loss
    return loss + floor > times * (best + floor)
