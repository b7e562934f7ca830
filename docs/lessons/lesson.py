"""Shared by all lessons: charts as SVG, and the printed lines of a script in its page.

python docs/lessons/1-next-step.py            print the lines
python docs/lessons/1-next-step.py --write    also write them, and the figure, into the page
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
# the colors of Okabe and Ito, which color-blind readers can distinguish; each with a lighter one for dark pages
COLORS = {"blue": ("#0072b2", "#5cb8ee"), "orange": ("#c05a00", "#f2a65a"), "green": ("#00785a", "#4fd1ab"),
          "purple": ("#a64d83", "#e3a3c8"), "gray": ("#666666", "#aaaaaa")}  # fmt: skip
BLUE, ORANGE, GREEN, PURPLE, GRAY = COLORS
LEFT, TOP, WIDTH, HEIGHT = 70, 44, 460, 300
BLOCK = re.compile(r"(<!-- printed -->\n```\n).*?(```\n)", re.DOTALL)
SUPERSCRIPT = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


class Result(NamedTuple):
    """The lines that the script of a lesson prints, and its figure."""

    lines: list[str]
    figure: str  # SVG


class Curve(NamedTuple):
    name: str
    y: Sequence[float]
    color: str = BLUE
    dash: str = ""
    x: Sequence[float] | None = None  # 0, 1, 2 … unless given


def label(x: float, y: float, words: str, anchor: str = "middle", color: str = "") -> str:
    words = words.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" class="{color}">{words}</text>'


def svg(parts: list[str], width: int = 690, height: int = 395) -> str:
    """A drawing that is readable in light and dark."""
    rules = [[f".{name} {{ fill: {pair[i]} }} .{name}-line {{ stroke: {pair[i]} }}" for name, pair in COLORS.items()]
             for i in (0, 1)]  # fmt: skip
    light = "text { fill: #222 } .paper { fill: #fff } .grid { stroke: #ddd } " + " ".join(rules[0])
    dark = "text { fill: #e6e6e6 } .paper { fill: #14171c } .grid { stroke: #3a3f47 } " + " ".join(rules[1])
    style = f"<style>{light}\n@media (prefers-color-scheme: dark) {{ {dark} }}</style>"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    body = "\n".join(parts)
    paper = f'<rect class="paper" width="{width}" height="{height}"/>'
    return f'{head} font-family="sans-serif" font-size="12">\n{style}\n{paper}\n{body}\n</svg>\n'


def stack(*drawings: str) -> str:
    """Drawings one below the other."""
    heights = [int(re.search(r'height="(\d+)"', drawing)[1]) for drawing in drawings]
    parts = [d.strip().replace("<svg ", f'<svg y="{sum(heights[:i])}" ', 1) for i, d in enumerate(drawings)]
    return svg(parts, height=sum(heights))


def power(exponent: int) -> str:
    return "1" if exponent == 0 else f"10{str(exponent).translate(SUPERSCRIPT)}"


def ticks(low: float, high: float, log: bool) -> list[float]:
    """At most eight values at round distances."""
    steps = (1, 2, 5, 10, 20) if log else (0.1, 0.2, 0.25, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
    step = next(step for step in steps if (high - low) / step <= 7)
    return [step * i for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def chart(
    curves: Sequence[Curve],
    *,
    title: str,
    x: str,
    y: str,
    low: float,
    high: float,
    log: bool = False,
    mark: float | None = None,
) -> str:
    """Curves with their names at their ends; with log=True low and high are powers of ten.

    What lies outside of the frame is not drawn. `mark` is a position on the x axis with a vertical line.
    """
    places = [list(curve.x or range(len(curve.y))) for curve in curves]
    first, right = min(min(p) for p in places), max(max(p) for p in places)

    def across(at: float) -> float:
        return LEFT + WIDTH * (at - first) / ((right - first) or 1)

    def down(value: float) -> float:
        return TOP + HEIGHT * (high - value) / (high - low)

    parts = [label(LEFT + WIDTH / 2, 24, title), label(LEFT + WIDTH / 2, TOP + HEIGHT + 40, x)]
    parts.append(f'<text transform="translate(14 {TOP + HEIGHT / 2:.0f}) rotate(-90)" text-anchor="middle">{y}</text>')
    parts.append(
        f'<clipPath id="frame"><rect x="{LEFT}" y="{TOP - 2}" width="{WIDTH}" height="{HEIGHT + 4}"/></clipPath>'
    )
    for value in ticks(low, high, log):
        level = down(value)
        parts.append(f'<line class="grid" x1="{LEFT}" y1="{level:.1f}" x2="{LEFT + WIDTH}" y2="{level:.1f}"/>')
        parts.append(label(LEFT - 8, level + 4, power(round(value)) if log else f"{value:g}", "end"))
    for value in ticks(first, right, False):
        parts.append(label(across(value), TOP + HEIGHT + 20, f"{value:,g}"))
    if mark is not None:
        at = across(mark)
        ends = f'x1="{at:.1f}" y1="{TOP}" x2="{at:.1f}" y2="{TOP + HEIGHT}"'
        parts.append(f'<line class="gray-line" {ends} stroke-dasharray="2 3"/>')
    ends = []
    for curve, place in zip(curves, places, strict=True):
        values = [(math.log10(v) if v > 0 else math.nan) if log else v for v in curve.y]
        points = [(across(a), down(v)) for a, v in zip(place, values, strict=True)]
        dash = f' stroke-dasharray="{curve.dash}"' if curve.dash else ""
        for drawn, group in groupby(points, key=lambda point: math.isfinite(point[1])):
            if drawn:
                path = " ".join(f"{a:.1f},{b:.1f}" for a, b in group)
                line = f'fill="none" stroke-width="2" clip-path="url(#frame)"{dash}'
                parts.append(f'<polyline class="{curve.color}-line" points="{path}" {line}/>')
        inside = [point for point in points if TOP <= point[1] <= TOP + HEIGHT]
        ends.append((inside[-1] if inside else (LEFT, TOP), curve))
    leaving = [end for end in ends if end[0][0] < LEFT + WIDTH - 20]  # curves that leave the frame, named at its bottom
    beside = max((end[0] for end, _ in leaving), default=0) + 10
    for i, (_, curve) in enumerate(sorted(leaving, key=lambda one: one[0][0])):
        parts.append(label(beside, TOP + HEIGHT - 6 - 14 * i, curve.name, "start", curve.color))
    lowest = -math.inf
    for (end, level), curve in sorted((e for e in ends if e not in leaving), key=lambda one: one[0][1]):
        lowest = max(level + 4, lowest + 14)  # names that would cover each other move down
        parts.append(label(end + 6, lowest, curve.name, "start", curve.color))
    return svg(parts)


def run(file: str, result: Result) -> None:
    """Print the lines; with --write also write them into the page of the same name."""
    print("\n".join(result.lines))
    if "--write" in sys.argv:
        page = Path(file).with_suffix(".md")
        printed = "\n".join(result.lines)
        text = BLOCK.sub(lambda m: f"{m[1]}{printed}\n{m[2]}", page.read_text("utf-8"))
        page.write_text(text, encoding="utf-8")
        (HERE / "figures" / page.with_suffix(".svg").name).write_text(result.figure, encoding="utf-8")
