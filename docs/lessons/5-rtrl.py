"""RTRL and BPTT: the same gradient, computed forward and backward, and the memory that each needs."""

from __future__ import annotations

import numpy as np
from lesson import BLUE, ORANGE, Curve, Result, chart, run

from elman import maths

X, H, T = 5, 8, 30
SIZES = (8, 32, 128, 512)


def lesson(quick: bool = False) -> Result:
    rng = np.random.default_rng(0)
    W_xh, W_hh, b_h = maths.normal(rng, (X, H), gain=0.3), maths.orthogonal(rng, (H, H)), np.zeros(H)
    x, d_h_direct = rng.integers(X, size=(T, 1)), rng.standard_normal((T, 1, H))
    h = maths.rnn_forward(x, None, W_xh, W_hh, b_h)
    back, forward = (f(d_h_direct, x, h, W_xh, W_hh) for f in (maths.rnn_backward, maths.rtrl))
    names = ("d_W_xh", "d_W_hh", "d_b_h", "d_h0")
    worst = max(np.abs(getattr(back, n) - getattr(forward, n)).max() / np.abs(getattr(back, n)).max() for n in names)
    lines = [f"{T} steps, {H} units: relative difference of the two gradients below 1e-12: {worst < 1e-12}"]
    # as soon as a loss is known: RTRL's gradient after t steps is the whole gradient of those t losses
    part = maths.rtrl(d_h_direct[:10], x[:10], h[:11], W_xh, W_hh).d_W_hh
    again = maths.rnn_backward(d_h_direct[:10], x[:10], h[:11], W_xh, W_hh).d_W_hh
    lines.append(f"after 10 steps RTRL has the gradient of 10 losses, without past states: {np.allclose(part, again)}")
    lines.append("units   numbers kept by RTRL   by BPTT for each step   steps after which BPTT keeps as many")
    for size in SIZES:
        carried = (X + size + 1) * size * size
        lines.append(f"{size:5}   {carried:20,}   {size:21,}   {carried // size:36,}")
    steps = list(range(0, 2001, 20))
    curves = [Curve(f"BPTT, {H} units", [max(H * t, 1) for t in steps], BLUE, x=steps)]
    curves += [
        Curve(f"RTRL, {size} units", [(X + size + 1) * size * size] * len(steps), color, "6 4", x=steps)
        for size, color in ((8, BLUE), (32, ORANGE))
    ]
    curves.insert(1, Curve("BPTT, 32 units", [max(32 * t, 1) for t in steps], ORANGE, x=steps))
    title = "numbers that must be kept, by the length of the text"
    return Result(lines, chart(curves, title=title, x="steps", y="numbers", low=1, high=6, log=True))


if __name__ == "__main__":
    run(__file__, lesson())
