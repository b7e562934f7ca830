"""The gradient from the next step, measured: it is the effect of a state on all later losses."""

from __future__ import annotations

import numpy as np
from lesson import BLUE, GRAY, ORANGE, Curve, Result, chart, run

from elman import maths

T, V, H = 25, 6, 16
EPSILON = 1e-5


def lesson(quick: bool = False) -> Result:
    rng = np.random.default_rng(0)
    W_xh, W_hh, W_hy = (rng.standard_normal(shape) * 0.3 for shape in ((V, H), (H, H), (H, V)))
    b_h, b_y = np.zeros(H), np.zeros(V)
    x, y = rng.integers(V, size=(2, T, 1))
    h = maths.rnn_forward(x, None, W_xh, W_hh, b_h)

    def later_loss(t: int, state: np.ndarray) -> float:
        """The losses of all steps after t, if the state after step t were this one."""
        rest = maths.rnn_forward(x[t + 1 :], state, W_xh, W_hh, b_h)[1:]
        return maths.cross_entropy(maths.output_forward(rest, W_hy, b_y), y[t + 1 :])[0]

    _, d_o = maths.cross_entropy(maths.output_forward(h[1:], W_hy, b_y), y)
    d_h_direct = maths.output_backward(d_o, h[1:], W_hy).d_h  # the gradient of each step's own loss
    full = maths.rnn_backward(d_h_direct, x, h, W_xh, W_hh)

    def from_next(t: int) -> np.ndarray:
        """d_h_next: the gradient of all later losses on h[t+1]. It is the d_h0 of the steps that follow."""
        return maths.rnn_backward(d_h_direct[t + 1 :], x[t + 1 :], h[t + 1 :], W_xh, W_hh).d_h0

    t = 10
    shifts = EPSILON * np.eye(H)[:, np.newaxis]  # one entry of the state at a time
    measured = [(later_loss(t, h[t + 1] + s) - later_loss(t, h[t + 1] - s)) / (2 * EPSILON) for s in shifts]
    error = np.linalg.norm(from_next(t)[0] - measured) / np.linalg.norm(measured)
    lines = [
        f"the state h[{t + 1}], after step {t} of {T}",
        f"  gradient of its own loss         ‖d_h_direct‖ = {np.linalg.norm(d_h_direct[t]):.3f}",
        f"  gradient of the {T - t - 1} later losses  ‖d_h_next‖ = {np.linalg.norm(from_next(t)):.3f}",
        f"  the same, measured               ‖∂(later losses)/∂h[{t + 1}]‖ = {np.linalg.norm(measured):.3f}",
        f"  relative difference below 1e-7: {error < 1e-7}",
        "relative error without d_h_next",
    ]
    alone = maths.truncated_backward(d_h_direct, x, h, W_xh, W_hh, k1=1, k2=1)
    for name in ("d_W_hh", "d_W_xh", "d_b_h"):
        right, wrong = getattr(full, name), getattr(alone, name)
        lines.append(f"  {name:7} {np.linalg.norm(wrong - right) / np.linalg.norm(right):.2f}")
    own = [float(np.linalg.norm(d_h_direct[t])) for t in range(T)]
    later = [float(np.linalg.norm(from_next(t))) for t in range(T - 1)] + [0.0]
    both = [float(np.linalg.norm(d_h_direct[t] + (from_next(t) if t < T - 1 else 0))) for t in range(T)]
    curves = [Curve("d_h_direct", own, BLUE), Curve("d_h_next", later, ORANGE), Curve("d_h (sum)", both, GRAY, "4 4")]
    title = "the gradient on h[t+1]: from its own loss, from the next step, and their sum"
    return Result(lines, chart(curves, title=title, x="step t", y="norm", low=0, high=3.5))


if __name__ == "__main__":
    run(__file__, lesson())
