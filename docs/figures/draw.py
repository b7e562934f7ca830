"""Draws docs/figures/jacobians.svg: python docs/figures/draw.py"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path += [str(HERE.parent), str(HERE.parent / "lessons")]
from lesson import BLUE, GREEN, ORANGE, Curve, chart  # noqa: E402
from mistakes import GAINS, jacobian_norms  # noqa: E402

STEPS = 50


def draw() -> str:
    curves = [
        Curve(f"{activation} {gain}", [1.0, *jacobian_norms(gain, activation, STEPS)], color, dash)
        for gain, color in zip(GAINS, (BLUE, GREEN, ORANGE), strict=True)
        for activation, dash in (("identity", ""), ("tanh", "6 4"))
    ]
    title = "‖∂h[T]/∂h[T−k]‖ for H = 32 and W_hh = gain · orthogonal"
    return chart(curves, title=title, x="k (steps back)", y="spectral norm", low=-18, high=10, log=True)


if __name__ == "__main__":
    (HERE / "jacobians.svg").write_text(draw(), encoding="utf-8")
