"""The results as small SVG files, written without a library: a diff can be read."""

from __future__ import annotations

import math
from typing import Any

from contenders import NAMES, RIVALS, Size

COLORS = {"elman": "#1f5fa8", "numpy": "#8fb3d9", "torch": "#c0392b", "compile": "#e59866", "jax": "#2e7d32"}
DARK = {  # the color that replaces each in dark mode
    "#fff": "#14171c", "#333": "#e6e6e6", "#ddd": "#3a3f47", "#999": "#8a9099", "#000": "#fff", "#1f5fa8": "#7db4f0",
    "#8fb3d9": "#4d7099", "#c0392b": "#f08a7d", "#e59866": "#c98a5e", "#2e7d32": "#7fcf86",
}  # fmt: skip
MOST = 2.5  # a longer bar is cut, and its label gets an arrow


def text(x: float, y: float, words: str, anchor: str = "middle", color: str = "#333") -> str:
    words = words.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}">{words}</text>'


def line(x: float, y: float, x2: float, y2: float, color: str = "#ddd") -> str:
    return f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}"/>'


def svg(width: float, height: float, parts: list[str]) -> str:
    box, size = f'viewBox="0 0 {width:.0f} {height:.0f}"', f'width="{width:.0f}" height="{height:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {box} {size} font-family="sans-serif" font-size="12">'
    rules = [f'[{kind}="{light}"] {{ {kind}: {dark} }}' for light, dark in DARK.items() for kind in ("fill", "stroke")]
    style = f"<style>@media (prefers-color-scheme: dark) {{ {' '.join(rules)} }}</style>"
    return "\n".join([head, style, '<rect width="100%" height="100%" fill="#fff"/>', *parts, "</svg>\n"])


def bars(part: dict[str, Any]) -> str:
    """Time of a step in units of the best rival's; the limit is a tick across each group."""
    left, unit, thick, gap = 150, 200, 13, 14
    rows = [row for row in part["rows"] if any(c in row["milliseconds"] for c in RIVALS)]
    group = thick * len(NAMES) + gap
    bottom = 56 + group * len(rows)
    parts = [text(left, 18, "Time of a training step; the best rival is 1, shorter is better", "start")]
    for index, (contender, name) in enumerate(NAMES.items()):
        x = left + 110 * index
        parts.append(f'<rect x="{x}" y="28" width="10" height="10" fill="{COLORS[contender]}"/>')
        parts.append(text(x + 14, 37, name, "start"))
    for tick in (0, 0.5, 1, 1.5, 2, 2.5):
        x = left + unit * tick
        parts += [line(x, 50, x, bottom, "#999" if tick == 1 else "#ddd"), text(x, bottom + 16, f"{tick:g}")]
    for number, row in enumerate(rows):
        top, ms = 56 + group * number, {name: value for name, (value, *_) in row["milliseconds"].items()}
        best = min(ms[c] for c in RIVALS if c in ms)
        B, T, H, V, L, cell = Size(*row["size"])
        label = ("" if cell == "rnn" else f"{cell.upper()} ") + f"{B}, {T}, {H}, {V}" + (f" × {L}" if L > 1 else "")
        parts.append(text(left - 8, top + group / 2 - 4, label, "end"))
        for index, contender in enumerate(NAMES):
            if contender not in ms:
                continue
            ratio, y = ms[contender] / best, top + thick * index
            length = unit * min(ratio, MOST)
            color = COLORS[contender]
            parts.append(f'<rect x="{left}" y="{y}" width="{length:.1f}" height="{thick - 2}" fill="{color}"/>')
            label = f"{ratio:.2f}" + (" →" if ratio > MOST else "")
            parts.append(text(left + length + 4, y + thick - 3, label, "start"))
        x = left + unit * row["share"][0] * ms["elman"] / best
        parts.append(line(x, top - 3, x, top + group - gap + 1, "#000"))
    parts.append(text(left, bottom + 34, "B, T, H, V on the left; the thin line is the machine's limit", "start"))
    return svg(720, bottom + 46, parts)


def curves(part: dict[str, Any]) -> str:
    """Milliseconds a step along each dimension, both axes logarithmic, with the slope that was expected, dashed."""
    powers = {"T": 1, "B": 1, "H": 2, "threads": -1}
    side, space, top = 190, 60, 40
    shown = {axis: measured["points"] for axis, measured in part.items() if len(measured["points"]) > 1}
    parts = [text(10, 20, "Milliseconds a step; dashed: in proportion to T, B, H² and 1/threads", "start")]
    for index, (axis, points) in enumerate(shown.items()):
        left = 50 + index * (side + space)
        low, high = log_range([ms for _, ms in points])
        first, last = math.log2(points[0][0]), math.log2(points[-1][0])

        def place(n: float, ms: float, left=left, low=low, high=high, first=first, last=last) -> tuple[float, float]:
            x = left + side * (math.log2(n) - first) / (last - first)
            return x, top + side * (high - math.log2(ms)) / (high - low)

        for k in range(low, high + 1, max(1, (high - low) // 5)):
            _, y = place(points[0][0], 2.0**k)
            parts += [line(left, y, left + side, y), text(left - 5, y + 4, f"{2.0**k:g}", "end")]
        parts += [text(place(n, 1)[0], top + side + 20, f"{n:g}") for n, _ in points]
        parts.append(text(left + side / 2, top + side + 38, axis))
        n, ms = points[-1]  # overheads are smallest at the large end
        if axis == "threads":
            n, ms = points[0]
        wanted = [place(m, ms * (m / n) ** powers[axis]) for m, _ in points]
        parts.append(polyline([p for p in wanted if p[1] <= top + side], "#999", ' stroke-dasharray="5 4"'))
        parts.append(polyline([place(*p) for p in points], COLORS["elman"]))
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{COLORS["elman"]}"/>' for x, y in
                  (place(*p) for p in points)]  # fmt: skip
    return svg(50 + len(shown) * (side + space), top + side + 50, parts)


def polyline(points: list[tuple[float, float]], color: str, more: str = "") -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"{more}/>'


def log_range(values: list[float]) -> tuple[int, int]:
    """The exponents of the powers of two around the values."""
    low, high = math.floor(math.log2(min(values))), math.ceil(math.log2(max(values)))
    return low, max(high, low + 1)
