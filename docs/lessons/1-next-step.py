"""The gradient that arrives from the next step, measured: it is what all later losses have to say about a state."""

from __future__ import annotations

import numpy as np
from lesson import BLUE, GREY, RED, Curve, Told, chart, tell

from elman import maths

T, V, H = 25, 6, 16
EPSILON = 1e-5


def lesson(quick: bool = False) -> Told:
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
    d_h_direct = maths.output_backward(d_o, h[1:], W_hy).d_h  # what each step's own loss says
    full = maths.rnn_backward(d_h_direct, x, h, W_xh, W_hh)

    def from_next(t: int) -> np.ndarray:
        """d_h_next: what is sent back to h[t+1]. It is the d_h0 of the steps that follow."""
        return maths.rnn_backward(d_h_direct[t + 1 :], x[t + 1 :], h[t + 1 :], W_xh, W_hh).d_h0

    t = 10
    shifts = EPSILON * np.eye(H)[:, np.newaxis]  # one entry of the state at a time
    measured = [(later_loss(t, h[t + 1] + s) - later_loss(t, h[t + 1] - s)) / (2 * EPSILON) for s in shifts]
    error = np.linalg.norm(from_next(t)[0] - measured) / np.linalg.norm(measured)
    lines = [
        f"the state h[{t + 1}], after step {t} of {T}",
        f"  its own loss says              ‖d_h_direct‖ = {np.linalg.norm(d_h_direct[t]):.3f}",
        f"  the {T - t - 1} later losses say, together  ‖d_h_next‖ = {np.linalg.norm(from_next(t)):.3f}",
        f"  the same, measured             ‖∂(later losses)/∂h[{t + 1}]‖ = {np.linalg.norm(measured):.3f}",
        f"  they differ by less than 1e-7, relatively: {error < 1e-7}",
        "without it, the error of",
    ]
    alone = maths.truncated_backward(d_h_direct, x, h, W_xh, W_hh, k1=1, k2=1)
    for name in ("d_W_hh", "d_W_xh", "d_b_h"):
        right, wrong = getattr(full, name), getattr(alone, name)
        lines.append(f"  {name:7} is {np.linalg.norm(wrong - right) / np.linalg.norm(right):.2f} of its length")
    own = [float(np.linalg.norm(d_h_direct[t])) for t in range(T)]
    sent = [float(np.linalg.norm(from_next(t))) for t in range(T - 1)] + [0.0]
    both = [float(np.linalg.norm(d_h_direct[t] + (from_next(t) if t < T - 1 else 0))) for t in range(T)]
    curves = [Curve("d_h_direct", own, BLUE), Curve("d_h_next", sent, RED), Curve("d_h, the sum", both, GREY, "4 4")]
    title = "norm of what arrives at h[t+1]: from its own loss, from the next step, in all"
    return Told(lines, chart(curves, title=title, x="step t", y="norm", low=0, high=3.5))


if __name__ == "__main__":
    tell(__file__, lesson())
