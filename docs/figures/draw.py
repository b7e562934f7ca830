"""Draws docs/figures/jacobians.svg: python docs/figures/draw.py"""

from __future__ import annotations

import math
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from mistakes import GAINS, jacobian_norms  # noqa: E402

STEPS, LOW, HIGH = 50, -17, 9  # powers of ten
LEFT, TOP, WIDTH, HEIGHT = 70, 40, 520, 300
COLORS = dict(zip(GAINS, ("#1f5fa8", "#2e7d32", "#c0392b"), strict=True))


def place(k: float, power: float) -> tuple[float, float]:
    return LEFT + WIDTH * k / STEPS, TOP + HEIGHT * (HIGH - power) / (HIGH - LOW)


def text(x: float, y: float, words: str, anchor: str = "middle", color: str = "#333") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" fill="{color}">{words}</text>'


def draw() -> str:
    parts = [
        text(LEFT + WIDTH / 2, 22, "‖∂h[T]/∂h[T−k]‖, H = 32, W_hh = gain · orthogonal: lines identity, dashes tanh")
    ]
    for power in range(-16, HIGH + 1, 4):
        (x, y), (end, _) = place(0, power), place(STEPS, power)
        parts.append(f'<line x1="{x:.0f}" y1="{y:.1f}" x2="{end:.0f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(text(x - 8, y + 4, f"1e{power}", "end"))
    parts += [text(place(k, LOW)[0], TOP + HEIGHT + 18, str(k)) for k in range(0, STEPS + 1, 10)]
    parts.append(text(LEFT + WIDTH / 2, TOP + HEIGHT + 36, "k, steps back"))
    for gain, color in COLORS.items():
        for activation, dash in (("identity", ""), ("tanh", ' stroke-dasharray="5 4"')):
            norms = [1.0, *jacobian_norms(gain, activation, STEPS)]
            points = [place(k, math.log10(norm)) for k, norm in enumerate(norms)]
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"{dash}/>')
            parts.append(text(points[-1][0] + 6, points[-1][1] + 4, f"{activation} {gain}", "start", color))
    body = "\n".join(parts)
    style = 'font-family="sans-serif" font-size="12"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 690 385" width="690" {style}>\n'
        f'<rect width="690" height="385" fill="#fff"/>\n{body}\n</svg>\n'
    )


if __name__ == "__main__":
    (HERE / "jacobians.svg").write_text(draw(), encoding="utf-8")
