"""The gradient vanishes, or explodes, before your eyes: W_hh orthogonal times a gain, three activations."""

from __future__ import annotations

import numpy as np
from lesson import BLUE, GREEN, RED, Curve, Told, chart, tell

from elman.look import gradient_flow, verdict
from elman.network import language_network

H, V, T = 32, 8, 60
GAINS = {0.5: BLUE, 1.0: GREEN, 1.5: RED}
ACTIVATIONS = {"identity": "", "tanh": "6 4", "relu": "2 3"}


def lesson(quick: bool = False) -> Told:
    lines, curves, explained = [f"{'':13}what is left 10 steps back   50 steps back   verdict"], [], []
    for gain, color in GAINS.items():
        for activation, dash in ACTIVATIONS.items():
            network = language_network(V, H, activation=activation)
            rng = np.random.default_rng(0)
            p = network.initial(rng, recurrent="orthogonal", gain=gain, token_scale=0.3, dtype=np.dtype(np.float64))
            x, y = rng.integers(V, size=(2, T))
            flow = gradient_flow(network, p, x, y)
            left, judged = flow.by_lag(), verdict(flow)
            after = f", less than 1 % after {judged.lag}" if judged.kind == "vanishes" else ""
            after = f", a hundredfold after {judged.lag}" if judged.kind == "explodes" else after
            lines.append(f"{activation:8} {gain:3}  {left[10]:24.2g}   {left[50]:13.2g}   {judged.kind}{after}")
            curves.append(Curve(f"{activation} {gain}", left[:51].tolist(), color, dash))
            if activation == "tanh":
                explained.append(f"tanh {gain}: {judged}")
    title = "how much of ∂L[t]/∂h[k] is left, by the number of steps back"
    figure = chart(curves, title=title, x="steps back", y="share of the gradient", low=-20, high=10, log=True)
    return Told([*lines, "", *explained], figure)


if __name__ == "__main__":
    tell(__file__, lesson())
