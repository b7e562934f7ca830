"""What truncation leaves out: from k2 = 1, Elman's network of 1990, to the full gradient."""

from __future__ import annotations

import numpy as np
from lesson import BLUE, GRAY, ORANGE, Curve, Result, chart, run, stack

from elman import LanguageModel, maths

T, H, DELAY, SEEDS = 32, 32, 5, 3
STEPS_BACK = (1, 2, 4, 6, 8, 16)


def gradient(k2: int) -> np.ndarray:
    """d_W_hh of a random network with a loss at every step."""
    rng = np.random.default_rng(0)
    W_xh, W_hh = maths.normal(rng, (8, H), gain=0.3), maths.orthogonal(rng, (H, H))
    x, d_h_direct = rng.integers(8, size=(T, 1)), rng.standard_normal((T, 1, H))
    h = maths.rnn_forward(x, None, W_xh, W_hh, np.zeros(H))
    return maths.truncated_backward(d_h_direct, x, h, W_xh, W_hh, k1=1, k2=k2).d_W_hh


def lines_to_recall(count: int, seed: int) -> str:
    """Lines such as b.....b: the last letter is the first one, DELAY dots later."""
    letters = np.random.default_rng(seed).choice(list("abcd"), count)
    return "".join(f"{letter}{'.' * DELAY}{letter}\n" for letter in letters)


def recalled(k2: int, steps: int, seed: int) -> float:
    """The loss of the last letter of a line after training with this k2; a guess has ln 4 = 1.39."""
    options = {
        "hidden": 32,
        "embedding": 0,
        "window": 32,
        "batch_size": 16,
        "validation_fraction": 0,
        "learning_rate": 0.01,
        "dtype": "float64",
    }
    model = LanguageModel(**options, bptt_steps=k2, bptt_block=1, steps=steps, seed=seed).fit(lines_to_recall(1500, 0))
    return float(np.mean(model.surprise(lines_to_recall(100, 1))[DELAY + 1 :: DELAY + 3]))


def lesson(quick: bool = False) -> Result:
    full = gradient(T)
    lines, errors, costs = ["      k2   error of d_W_hh   cosine with the full gradient"], [], []
    for k2 in (*STEPS_BACK, T):
        truncated = gradient(k2)
        errors.append(float(np.linalg.norm(truncated - full) / np.linalg.norm(full)))
        cosine = (truncated * full).sum() / np.linalg.norm(truncated) / np.linalg.norm(full)
        lines.append(f"{k2:8}   {errors[-1]:15.3f}   {cosine:29.3f}")
    for k2 in (1, 8) if quick else STEPS_BACK:
        found = [recalled(k2, 20 if quick else 400, seed) for seed in range(1 if quick else SEEDS)]
        costs.append(float(np.mean(found)))
        each = ", ".join(f"{cost:.2f}" for cost in found)
        lines.append(f"trained with k2 = {k2}: the letter {DELAY + 1} steps back costs {costs[-1]:.2f} nats ({each})")
    error = Curve("error of d_W_hh", errors[:-1], BLUE, x=STEPS_BACK)
    gradients = chart([error], title="relative error of the truncated gradient", x="k2", y="error", low=0, high=1)
    cost = Curve("trained", costs[: len(STEPS_BACK)], ORANGE, x=STEPS_BACK[: len(costs)])
    guess = Curve("a guess", [np.log(4)] * 2, GRAY, "2 3", x=(1, 16))
    title = f"loss of a letter to recall after {DELAY + 1} steps (mean of {SEEDS} seeds)"
    return Result(
        lines, stack(gradients, chart([cost, guess], title=title, x="k2", y="nats", low=0, high=1.5, mark=DELAY + 1))
    )


if __name__ == "__main__":
    run(__file__, lesson())
