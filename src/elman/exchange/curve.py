"""The loss of a run as a picture: SVG, a few lines of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from elman.look.history import is_number

LEFT, TOP, WIDTH, HEIGHT = 60, 34, 560, 260
COLORS = {"loss": "#1f5fa8", "validation_loss": "#c0392b"}
NAMES = {"loss": "training", "validation_loss": "validation"}
MOST_POINTS = 600  # of a line: more are not seen


def curve(rows: Sequence[Mapping[str, Any]], title: str) -> str | None:
    """Both losses over the steps; None where there is no line to draw."""
    lines = {name: _thinned([(row["step"], row[name]) for row in rows if is_number(row.get(name))]) for name in COLORS}
    points = [point for line in lines.values() for point in line]
    steps, losses = [step for step, _ in points], [loss for _, loss in points]
    if len(set(steps)) < 2:
        return None
    first, last, low, high = min(steps), max(steps), min(losses), max(losses)
    high = high if high > low else low + 1

    def place(step: float, loss: float) -> tuple[float, float]:
        return LEFT + WIDTH * (step - first) / (last - first), TOP + HEIGHT * (high - loss) / (high - low)

    parts = [_text(LEFT, 20, title, "start")]
    for i in range(5):
        loss = low + (high - low) * i / 4
        _, y = place(first, loss)
        parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{LEFT + WIDTH}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(_text(LEFT - 8, y + 4, f"{loss:.3g}", "end"))
        step = first + (last - first) * i / 4
        parts.append(_text(place(step, low)[0], TOP + HEIGHT + 20, f"{step:.0f}"))
    for i, (name, line) in enumerate(lines.items()):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in line))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{COLORS[name]}" stroke-width="2"/>')
        if line:
            parts.append(_text(LEFT + WIDTH - 110 * (1 - i), 20, NAMES[name], "end", COLORS[name]))
    size = f'viewBox="0 0 {LEFT + WIDTH + 30} {TOP + HEIGHT + 34}" width="{LEFT + WIDTH + 30}"'
    style = 'font-family="sans-serif" font-size="12"'
    body = "\n".join(parts)
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n{_PAPER}\n{body}\n</svg>\n'


_PAPER = '<rect width="100%" height="100%" fill="#fff"/>'


def _text(x: float, y: float, words: str, anchor: str = "middle", color: str = "#333") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" fill="{color}">{words}</text>'


def _thinned(line: list[tuple[float, float]]) -> list[tuple[float, float]]:
    every = -(-len(line) // MOST_POINTS) or 1
    return line if every == 1 else [*line[:-1:every], line[-1]]
