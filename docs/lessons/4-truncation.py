"""What truncation throws away: from k2 = 1, Elman's network of 1990, to the full gradient."""

from __future__ import annotations

import numpy as np
from lesson import BLUE, GREY, RED, Curve, Told, chart, tell

from elman import LanguageModel, maths

T, H, DELAY = 32, 32, 5
REACHES = (1, 2, 4, 6, 8, 16)


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


def recalled(k2: int, steps: int) -> float:
    """What the last letter of a line costs after training with this reach: ln 4 = 1.39 is a guess."""
    options = {
        "hidden": 32,
        "window": 32,
        "batch_size": 16,
        "validation_fraction": 0,
        "learning_rate": 0.01,
        "dtype": "float64",
    }
    model = LanguageModel(**options, bptt_steps=k2, bptt_block=1, steps=steps).fit(lines_to_recall(1500, 0))
    return float(np.mean(model.surprise(lines_to_recall(100, 1))[DELAY + 1 :: DELAY + 3]))


def lesson(quick: bool = False) -> Told:
    full = gradient(T)
    lines, losses, costs = ["reach k2   error of d_W_hh   cosine with the full gradient"], [], []
    for k2 in (*REACHES, T):
        short = gradient(k2)
        losses.append(float(np.linalg.norm(short - full) / np.linalg.norm(full)))
        cosine = (short * full).sum() / np.linalg.norm(short) / np.linalg.norm(full)
        lines.append(f"{k2:8}   {losses[-1]:15.3f}   {cosine:29.3f}")
    for k2 in (1, 8) if quick else REACHES:
        costs.append(recalled(k2, 20 if quick else 400))
        lines.append(f"trained with reach {k2}: the letter {DELAY + 1} steps back costs {costs[-1]:.2f} nats")
    error = Curve("error of d_W_hh", losses[:-1], BLUE, x=REACHES)
    cost = Curve("cost of the letter", costs[: len(REACHES)], RED, "6 4", x=REACHES[: len(costs)])
    guess = Curve("a guess", [np.log(4)] * 2, GREY, "2 3", x=(1, 16))
    title = f"what is lost with a reach of k2; the letter to recall is {DELAY + 1} steps back"
    return Told(lines, chart([error, cost, guess], title=title, x="reach k2", y="share; nats", low=0, high=1.5))


if __name__ == "__main__":
    tell(__file__, lesson())
