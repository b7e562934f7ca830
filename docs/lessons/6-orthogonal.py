"""Orthogonal and Glorot initialization: how the initial W_hh affects gradients, and training."""

from __future__ import annotations

import numpy as np
from lesson import BLUE, GRAY, GREEN, ORANGE, Curve, Result, chart, run

from elman import LanguageModel, maths
from elman.look import gradient_flow, memory_horizon
from elman.network import language_network

H, V, T, DELAY, SEEDS = 64, 8, 60, 12, 3
INITIALIZATIONS = {"orthogonal 1.0": BLUE, "orthogonal 1.2": GREEN, "glorot 1.0": ORANGE, "uniform 1.0": GRAY}
DASHES = {"orthogonal 1.2": "9 3", "glorot 1.0": "6 4", "uniform 1.0": "2 3"}


def lines_to_recall(count: int, seed: int) -> str:
    """Lines such as b............b: the last letter is the first one, DELAY dots later."""
    letters = np.random.default_rng(seed).choice(list("abcd"), count)
    return "".join(f"{letter}{'.' * DELAY}{letter}\n" for letter in letters)


def recalled(initial: str, gain: float, steps: int, seed: int) -> float:
    """The loss of the last letter of a line after training; a guess has ln 4 = 1.39."""
    options = {
        "hidden": H,
        "embedding": 0,
        "window": 30,
        "batch_size": 32,
        "validation_fraction": 0,
        "learning_rate": 3e-3,
        "seed": seed,
    }
    model = LanguageModel(**options, recurrent_init=initial, recurrent_init_scale=gain, steps=steps).fit(
        lines_to_recall(3000, 0)
    )
    return float(np.mean(model.surprise(lines_to_recall(100, 1))[DELAY + 1 :: DELAY + 3]))


def lesson(quick: bool = False) -> Result:
    lines, curves = [f"{'W_hh':16}largest, smallest singular value   directions left after 30 steps   horizon"], []
    for start, color in INITIALIZATIONS.items():
        initial, gain = start.split()[0], float(start.split()[1])
        W_hh = maths.INITIALIZERS[initial](np.random.default_rng(0), (H, H), gain=gain)
        values = np.linalg.svd(W_hh, compute_uv=False)
        after = np.linalg.svd(np.linalg.matrix_power(W_hh, 30), compute_uv=False)  # the Jacobian of 30 linear steps
        network, rng = language_network(V, H), np.random.default_rng(0)
        p = network.initial(rng, recurrent=initial, gain=gain, token_scale=0.3, dtype=np.dtype(np.float64))
        flow = gradient_flow(network, p, *rng.integers(V, size=(2, T)))
        left = f"{(after > 0.01).sum()} of {H}"
        span = f"{values[0]:.2f}, {values[-1]:.3f}"
        horizon = memory_horizon(flow) or f"over {T}"
        lines.append(f"{start:16}{span:>32}   {left:>30}   {horizon} steps")
        curves.append(Curve(start, flow.by_lag()[:51].tolist(), color, DASHES.get(start, "")))
    for start in list(INITIALIZATIONS)[:1] if quick else INITIALIZATIONS:
        initial, gain = start.split()[0], float(start.split()[1])
        costs = [recalled(initial, gain, 5 if quick else 300, seed) for seed in range(1 if quick else SEEDS)]
        each = f"{np.mean(costs):.2f} nats ({', '.join(f'{cost:.2f}' for cost in costs)})"
        lines.append(f"trained from {start}: the letter {DELAY + 1} steps back costs {each}")
    title = "tanh, before training: mean norm of ∂L[t]/∂h[t+1−lag], relative to lag 0"
    return Result(
        lines, chart(curves, title=title, x="lag (steps back)", y="share of the gradient", low=-8, high=2, log=True)
    )


if __name__ == "__main__":
    run(__file__, lesson())
