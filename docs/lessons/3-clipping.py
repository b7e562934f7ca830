"""What clipping helps against, and what not: one network that explodes, one that vanishes."""

from __future__ import annotations

import numpy as np
from lesson import BLUE, ORANGE, Curve, Result, chart, run

from elman import maths
from elman.kernels import clip_in_place
from elman.network import Batch, HeadNetwork, Parameters, language_network

TEXT = "the cat sat on the mat. the dog sat on the log. a hen met ten men. " * 4
LETTERS = sorted(set(TEXT))
IDS = np.array([LETTERS.index(c) for c in TEXT[:241]])
X, Y = (np.ascontiguousarray(ids.reshape(6, 40).T) for ids in (IDS[:-1], IDS[1:]))  # (T, B): 6 rows of 40 letters
X_HOT, AT_THE_END = np.eye(len(LETTERS))[X], np.zeros(Y.shape)
AT_THE_END[-1] = 1  # weights: only the last loss counts
H, RATE, CLIP = 32, 1.0, 1.0


def initialized(gain: float) -> tuple[HeadNetwork, Parameters]:
    """A network with random parameters; W_hh is orthogonal times the gain."""
    network, rng = language_network(len(LETTERS), H), np.random.default_rng(0)
    return network, network.initial(rng, recurrent="orthogonal", gain=gain, token_scale=0.3, dtype=X_HOT.dtype)


def train(gain: float, clip: float, steps: int) -> tuple[list[float], list[float]]:
    """The loss, and the gradient norm before clipping, of each step of gradient descent."""
    (network, p), losses, norms = initialized(gain), [], []
    for _ in range(steps):
        d = p.zeros()
        losses.append(network.loss_and_gradients(p, Batch(X, Y), d, normalizer=Y.size))
        norms.append(clip_in_place(d.buffer, clip))
        p.buffer -= RATE * d.buffer
    return losses, norms


def first_to_last(gain: float, clip: float) -> float:
    """A loss at the last step only: the gradient on the first letter over that on the last, after clipping."""
    W_xh, W_hh, b_h, W_hy, b_y = initialized(gain)[1].values()
    h = maths.rnn_forward(X_HOT, None, W_xh, W_hh, b_h)
    _, d_o = maths.cross_entropy(maths.output_forward(h[1:], W_hy, b_y), Y, weights=AT_THE_END)
    d_x = maths.rnn_backward(maths.output_backward(d_o, h[1:], W_hy).d_h, X_HOT, h, W_xh, W_hh).d_x
    clip_in_place(d_x.ravel(), clip)
    return float(np.linalg.norm(d_x[0]) / np.linalg.norm(d_x[-1]))


def late(losses: list[float]) -> float:
    """The mean over the last steps: single losses depend on rounding when gradients explode."""
    return float(np.mean(losses[-40:]))


def lesson(quick: bool = False) -> Result:
    plain, norms = train(2.0, np.inf, 121)
    clipped, _ = train(2.0, CLIP, 121)
    lines = [
        f"explodes (gain 2): norm of the first gradient {norms[0]:.1f}, limit {CLIP:g}",
        f"  loss before            {plain[0]:.2f}",
        f"  after one plain step   {plain[1]:.2f}",
        f"  after one clipped step {clipped[1]:.2f}",
        f"  last 40 of 120 steps:  plain above 1: {late(plain) > 1}, clipped below 1: {late(clipped) < 1}",
        "vanishes (gain 0.5): gradient on the first letter / gradient on the last letter",
        f"  not clipped            {first_to_last(0.5, np.inf):.1e}",
        f"  clipped to 0.01        {first_to_last(0.5, 0.01):.1e}",
    ]
    curves = [Curve("plain", plain, ORANGE), Curve("clipped", clipped, BLUE, "7 4")]
    return Result(
        lines,
        chart(
            curves,
            title="loss with an initial W_hh that explodes: 2 · orthogonal",
            x="step",
            y="nats per letter",
            low=0,
            high=5,
        ),
    )


if __name__ == "__main__":
    run(__file__, lesson())
