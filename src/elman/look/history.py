"""Gradient norms over a training run, from the rows of its metrics.jsonl."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Points: TypeAlias = list[tuple[int, float]]  # step, norm


@dataclass(frozen=True)
class GradientHistory:
    """Norms before clipping; an older run knows only the total."""

    total: Points
    parameters: dict[str, Points]


def gradient_history(rows: Sequence[dict[str, Any]]) -> GradientHistory:
    """The norms of the steps that count, each with its step."""
    total: Points = []
    parameters: dict[str, Points] = {}
    for row in kept(rows):
        step = row["step"]
        if is_number(row.get("gradient_norm")):
            total.append((step, row["gradient_norm"]))
        norms = row.get("gradient_norms")
        for name, norm in norms.items() if isinstance(norms, Mapping) else ():
            if is_number(norm):
                parameters.setdefault(name, []).append((step, norm))
    return GradientHistory(total, parameters)


def kept(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of steps that count: what came after the point to which a run was rolled back is gone."""
    found: list[dict[str, Any]] = []
    for row in rows:
        if row.get("event") == "rolled back" and is_number(row.get("to")):
            found = [earlier for earlier in found if earlier["step"] <= row["to"]]
        elif "event" not in row and is_number(row.get("step")):
            found.append(row)
    return found


def is_number(value: object) -> bool:
    """A file may hold anything."""
    return isinstance(value, int | float) and abs(value) < 2**53
