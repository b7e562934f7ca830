"""Forecasting: predict the next point of a wave from forty points, then further points from its own forecasts.

python examples/sine.py [--quick]
"""

import numpy as np
from shared import arguments, progress

import elman

args = arguments(__doc__)
rng = np.random.default_rng(0)
PAST, FUTURE = 40, 60


def waves(n: int, steps: int) -> np.ndarray:
    """(n, steps): sines of any phase and of periods from 15 to 30 steps."""
    period, phase = rng.uniform(15, 30, (n, 1)), rng.uniform(0, 2 * np.pi, (n, 1))
    return np.sin(2 * np.pi * np.arange(steps) / period + phase)


X = waves(500 if args.quick else 4000, PAST + 1)
model = elman.SequenceRegressor(random_state=0, hidden=32, epochs=20)
model.fit(X[:, :-1], X[:, -1], listeners=[progress])

true = waves(100, PAST + FUTURE)
predicted = true[:, :PAST]
for _ in range(FUTURE):  # each forecast becomes an input of the next ones
    predicted = np.column_stack([predicted, model.predict(predicted[:, -PAST:])])
error = np.sqrt(((predicted - true)[:, PAST:] ** 2).mean(axis=0))  # (FUTURE,)
print(f"RMS error of the forecasts of waves between -1 and 1: 1 step ahead {error[0]:.3f}, "
      f"10 steps {error[9]:.3f}, {FUTURE} steps {error[-1]:.3f}\n")  # fmt: skip
canvas = np.full((13, PAST + FUTURE), " ")
for t in range(PAST + FUTURE):
    canvas[round(6 - 6 * true[0, t]), t] = "·"
    if t >= PAST:
        canvas[round(6 - 6 * np.clip(predicted[0, t], -1, 1)), t] = "o"
print("\n".join("".join(line).rstrip() for line in canvas) + "\n\n· the wave   o the forecast")
