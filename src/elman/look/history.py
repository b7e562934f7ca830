"""Gradient norms over a training run, from the rows of its metrics.jsonl."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from elman.training.metrics import kept_rows

Points: TypeAlias = list[tuple[int, float]]  # step, norm


@dataclass(frozen=True)
class GradientHistory:
    """Gradient norms, as pairs of step and norm.

    Attributes
    ----------
    total : list of (int, float)
        The norm of the gradient of all parameters together, after clipping by value and before clipping by norm.
    parameters : dict of str to list of (int, float)
        The norm of the gradient of each parameter before any clipping; empty if the run did not record them.
    """

    total: Points
    parameters: dict[str, Points]


def gradient_history(rows: Sequence[dict[str, Any]]) -> GradientHistory:
    """The gradient norms of a run, without steps that were rolled back.

    Parameters
    ----------
    rows : sequence of dict
        The rows of metrics.jsonl, as `Run.metrics()` reads them.

    Returns
    -------
    GradientHistory
        Pairs of step and norm.

    Examples
    --------
    >>> gradient_history([{"step": 1, "gradient_norm": 2.0}]).total
    [(1, 2.0)]
    """
    total: Points = []
    parameters: dict[str, Points] = {}
    for row in kept_rows(rows):
        step = row["step"]
        if is_number(row.get("gradient_norm")):
            total.append((step, row["gradient_norm"]))
        norms = row.get("gradient_norms")
        for name, norm in norms.items() if isinstance(norms, Mapping) else ():
            if is_number(norm):
                parameters.setdefault(name, []).append((step, norm))
    return GradientHistory(total, parameters)


def is_number(value: object) -> bool:
    """Whether a value read from a file is a finite number of reasonable size."""
    return isinstance(value, int | float) and abs(value) < 2**53
