"""When a run has gone wrong: judged from the losses alone, so that every process of many judges the same."""

from __future__ import annotations

import math

from elman.training.progress import Progress

EXPLODED = 2.0  # times the loss of baseline_loss, or times the best smoothed loss
GOOD = 1.1  # times the best smoothed loss: a state worth going back to
NOTHING = 0.25  # times the loss of baseline_loss: next to it a loss is so small that its double is no explosion
IN_A_ROW = 3  # steps: a few examples under one dropout mask may be that wrong once, at whatever rate
SMOOTHING = 0.98


def is_good(p: Progress, baseline_loss: float) -> bool:
    """Worth going back to."""
    return p.smoothed is None or p.smoothed_best is None or not _above(GOOD, p.smoothed, p.smoothed_best, baseline_loss)


def diverged(p: Progress, loss: float, norm: float, baseline_loss: float) -> bool:
    """Not finite, twice as bad as knowing nothing and no accident, or, smoothed, twice as bad as it has been."""
    if not (math.isfinite(loss) and math.isfinite(norm)):
        return True
    bound = EXPLODED * baseline_loss + 1
    p.exploded = p.exploded + 1 if loss > bound else 0
    if p.exploded == IN_A_ROW:
        return True
    loss = min(loss, bound)
    p.smoothed = loss if p.smoothed is None else SMOOTHING * p.smoothed + (1 - SMOOTHING) * loss
    p.smoothed_best = p.smoothed if p.smoothed_best is None else min(p.smoothed_best, p.smoothed)
    return _above(EXPLODED, p.smoothed, p.smoothed_best, baseline_loss)


def _above(times: float, loss: float, best: float, baseline_loss: float) -> bool:
    floor = NOTHING * baseline_loss
    return loss + floor > times * (best + floor)
