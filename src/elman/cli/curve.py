"""A plot of curves in the terminal, drawn with characters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

WIDTH, HEIGHT = 64, 12
MARKS = "·o+x"  # one for each line; a later line is drawn over an earlier one

Points = Sequence[tuple[float, float]]


def curve(lines: Mapping[str, Points]) -> str:
    """All lines in one frame, with the range of both axes, as text."""
    points = [point for line in lines.values() for point in line]
    left, right = min(x for x, _ in points), max(x for x, _ in points)
    low, high = min(y for _, y in points), max(y for _, y in points)
    canvas = [[" "] * WIDTH for _ in range(HEIGHT)]
    for mark, line in zip(MARKS, lines.values(), strict=False):
        for x, y in line:
            column = round((x - left) / ((right - left) or 1) * (WIDTH - 1))
            row = round((high - y) / ((high - low) or 1) * (HEIGHT - 1))
            canvas[row][column] = mark
    labels = {0: f"{high:.3f}", HEIGHT - 1: f"{low:.3f}"}
    drawn = [f"{labels.get(i, ''):>8} │{''.join(row).rstrip()}" for i, row in enumerate(canvas)]
    axis = f"{'':8} └{'─' * WIDTH}"
    ends = f"{'':10}{left:<{WIDTH // 2}g}{right:>{WIDTH // 2}g}"
    legend = "   ".join(f"{mark} {name}" for mark, (name, line) in zip(MARKS, lines.items(), strict=False) if line)
    return "\n".join([*drawn, axis, ends, f"{'':10}{legend}"])
