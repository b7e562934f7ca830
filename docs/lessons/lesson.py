"""What all lessons share: a figure as SVG, and a page that quotes what its script printed.

python docs/lessons/1-next-step.py            print
python docs/lessons/1-next-step.py --write    and write what was printed, and the figure, into the page
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
BLUE, GREEN, RED, OCHRE, VIOLET, GREY = COLORS = ("#1f5fa8", "#2e7d32", "#c0392b", "#a06a00", "#6a3fa0", "#666")
LEFT, TOP, WIDTH, HEIGHT = 70, 44, 460, 300
BLOCK = re.compile(r"(<!-- printed -->\n```\n).*?(```\n)", re.DOTALL)


class Told(NamedTuple):
    """What a lesson has to say."""

    lines: list[str]
    figure: str  # SVG


class Curve(NamedTuple):
    name: str
    y: Sequence[float]
    color: str = BLUE
    dash: str = ""
    x: Sequence[float] | None = None  # 0, 1, 2 … unless given


def words(x: float, y: float, text: str, anchor: str = "middle", color: str = "#333") -> str:
    text = text.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" fill="{color}">{text}</text>'


def svg(parts: list[str], width: int = 690, height: int = 395) -> str:
    body = "\n".join(parts)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
    paper = f'<rect width="{width}" height="{height}" fill="#fff"/>'
    return f'{head} font-family="sans-serif" font-size="12">\n{paper}\n{body}\n</svg>\n'


def chart(curves: Sequence[Curve], *, title: str, x: str, y: str, low: float, high: float, log: bool = False) -> str:
    """Curves with their names at their ends, between low and high; with log=True these are powers of ten."""
    right = max((c.x or range(len(c.y)))[-1] for c in curves)
    first = min((c.x or range(len(c.y)))[0] for c in curves)

    def place(at: float, value: float) -> tuple[float, float]:
        value = (math.log10(value) if value > 0 else -math.inf) if log else value
        value = min(max(value, low), high) if value == value else high  # what has left the frame runs along it
        return LEFT + WIDTH * (at - first) / ((right - first) or 1), TOP + HEIGHT * (high - value) / (high - low)

    parts = [words(LEFT + WIDTH / 2, 24, title), words(LEFT + WIDTH / 2, TOP + HEIGHT + 40, x)]
    parts.append(f'<text transform="translate(16 {TOP + HEIGHT / 2:.0f}) rotate(-90)" text-anchor="middle">{y}</text>')
    for i in range(6):
        value = low + (high - low) * i / 5
        level = TOP + HEIGHT * (1 - i / 5)
        parts.append(f'<line x1="{LEFT}" y1="{level:.1f}" x2="{LEFT + WIDTH}" y2="{level:.1f}" stroke="#ddd"/>')
        parts.append(words(LEFT - 8, level + 4, f"1e{value:.3g}" if log else f"{value:.3g}", "end"))
    count = next((n for n in (5, 4, 6, 3) if (right - first) % n == 0), 1)  # marks at whole numbers
    for i in range(count + 1):
        mark = f"{first + (right - first) * i / count:g}"
        parts.append(words(LEFT + WIDTH * i / count, TOP + HEIGHT + 20, mark))
    ends = []
    for curve in curves:
        points = [place(a, v) for a, v in zip(curve.x or range(len(curve.y)), curve.y, strict=True)]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        dash = f' stroke-dasharray="{curve.dash}"' if curve.dash else ""
        parts.append(f'<polyline points="{path}" fill="none" stroke="{curve.color}" stroke-width="2"{dash}/>')
        ends.append((points[-1][1], *points[-1], curve))
    lowest = -math.inf
    for wanted, end, _, curve in sorted(ends, key=lambda one: one[0]):  # names that would cover each other move down
        lowest = max(wanted + 4, lowest + 14)
        parts.append(words(end + 6, lowest, curve.name, "start", curve.color))
    return svg(parts)


def tell(file: str, told: Told) -> None:
    """Print it; with --write put it into the page of the same name."""
    print("\n".join(told.lines))
    if "--write" in sys.argv:
        page = Path(file).with_suffix(".md")
        printed = "\n".join(told.lines)
        text = BLOCK.sub(lambda m: f"{m[1]}{printed}\n{m[2]}", page.read_text("utf-8"))
        page.write_text(text, encoding="utf-8")
        (HERE / "figures" / page.with_suffix(".svg").name).write_text(told.figure, encoding="utf-8")
