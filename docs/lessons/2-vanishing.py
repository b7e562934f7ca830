"""Where the gradient vanishes or explodes: W_hh orthogonal times a gain, three activations."""

from __future__ import annotations

import numpy as np
from lesson import BLUE, GREEN, ORANGE, Curve, Result, chart, run

from elman.look import gradient_flow
from elman.network import language_network

H, V, T = 32, 8, 60
GAINS = {0.5: BLUE, 1.0: GREEN, 1.5: ORANGE}
ACTIVATIONS = {"identity": "", "tanh": "7 4", "relu": "2 3"}


def verdict(left: np.ndarray) -> str:
    """In words: less than 1 % of the gradient at lag 0 is left, or more than a hundred times as much, or neither."""
    if (left < 0.01).any():
        return f"vanishes, less than 1 % after {int(np.argmax(left < 0.01))} steps"
    if (left > 100).any():
        return f"explodes, a hundredfold after {int(np.argmax(left > 100))} steps"
    return f"neither, over {len(left) - 1} steps"


def lesson(quick: bool = False) -> Result:
    lines, curves, factors = [f"{'':13}left after 10 steps   after 50 steps   verdict"], [], []
    for gain, color in GAINS.items():
        for activation, dash in ACTIVATIONS.items():
            network = language_network(V, H, activation=activation)
            rng = np.random.default_rng(0)
            p = network.initial(rng, recurrent="orthogonal", gain=gain, token_scale=0.3, dtype=np.dtype(np.float64))
            x, y = rng.integers(V, size=(2, T))
            flow = gradient_flow(network, p, x, y)
            left = np.asarray(flow.by_lag())
            lines.append(f"{activation:8} {gain:3}  {left[10]:18.2g}   {left[50]:14.2g}   {verdict(left)}")
            curves.append(Curve(f"{activation} {gain}", left[:51].tolist(), color, dash))
            if activation == "tanh":
                slope, recurrent = (float(np.exp(np.mean(np.log(part[:10])))) for part in flow.factors(0))
                factors.append(f"tanh {gain}, each step: 1 − h² × {slope:.2f}, W_hh × {recurrent:.2f}")
    title = "mean norm of ∂L[t]/∂h[t+1−lag], relative to lag 0"
    figure = chart(curves, title=title, x="lag (steps back)", y="share of the gradient", low=-10, high=10, log=True)
    return Result([*lines, "", *factors], figure)


if __name__ == "__main__":
    run(__file__, lesson())
