"""Why gates: vanilla, GRU and LSTM on the same task: how far the gradient reaches, and the effect of a gate."""

from __future__ import annotations

import numpy as np
from lesson import BLUE, GRAY, GREEN, ORANGE, PURPLE, Curve, Result, chart, run

from elman import maths
from elman.maths import optimizers
from elman.maths.cells import CELLS, Cell
from elman.maths.recurrence import CellTrace, cell_backward, cell_forward

H, BATCH = 16, 32
LETTERS, NOISE = 4, 4  # numbers of different letters to remember, and of letters of noise
DELAY = 80  # letters of noise in training
T, DRAWS = 60, 11  # steps, and random networks, of the gradients before training
STARTS = {  # cell, forget bias, color and dashes of the curve
    "rnn": ("rnn", 0.0, ORANGE, ""),
    "gru": ("gru", 0.0, GREEN, "9 3"),
    "lstm, forget bias 0": ("lstm", 0.0, GRAY, "2 3"),
    "lstm, forget bias 1": ("lstm", 1.0, BLUE, ""),
    "lstm, forget bias 3": ("lstm", 3.0, PURPLE, "6 3"),
}
Parameters = dict[str, np.ndarray]


def start(name: str, forget_bias: float, rng: np.random.Generator) -> tuple[Cell, Parameters]:
    """A cell, and random parameters of it and of an output layer."""
    cell = CELLS[name]()
    p = {key: np.zeros(shape) for key, shape in cell.shapes(LETTERS + NOISE, H).items()}
    p["W_xh"][:] = maths.normal(rng, p["W_xh"].shape, gain=0.3)
    p["W_hh"][:] = np.concatenate([maths.orthogonal(rng, (H, H)) for _ in range(cell.gates)], axis=1)
    if name == "lstm":
        p["b_h"][H : 2 * H] = forget_bias  # the second block of columns is f
    return cell, p | {"W_hy": maths.glorot(rng, (H, LETTERS)), "b_y": np.zeros(LETTERS)}


def sequences(rng: np.random.Generator, rows: int, delay: int) -> np.ndarray:
    """A letter to remember, then noise: (delay + 1, rows) ids."""
    x = rng.integers(NOISE, size=(delay + 1, rows)) + LETTERS
    x[0] = rng.integers(LETTERS, size=rows)
    return x


def gradient_by_lag(name: str, forget_bias: float, seed: int) -> np.ndarray:
    """The norm of the gradient of a loss at the last step on the whole state k steps before, relative to k = 0."""
    rng = np.random.default_rng(seed)
    cell, p = start(name, forget_bias, rng)
    x, d_h = sequences(rng, 1, T - 1), rng.standard_normal((1, H))
    trace, norms = cell_forward(cell, x, None, p), [np.linalg.norm(d_h)]
    for k in range(1, T + 1):
        d_h_direct = np.zeros((k, 1, H))
        d_h_direct[-1] = d_h
        last = CellTrace(trace.s[:, -k - 1 :], tuple(part[-k:] for part in trace.kept))
        norms.append(np.linalg.norm(cell_backward(cell, d_h_direct, last, x[-k:], p).d_s0))
    return np.array(norms) / norms[0]


def loss_and_gradients(cell: Cell, p: Parameters, x: np.ndarray) -> tuple[float, Parameters]:
    """One loss, at the last step: which letter came first?"""
    trace = cell_forward(cell, x, None, p)
    h, d_h_direct = trace.s[0, -1], np.zeros((*x.shape, H))
    o = maths.output_forward(h, p["W_hy"], p["b_y"])
    loss, d_o = maths.cross_entropy(o, x[0], normalizer=x.shape[1])
    out = maths.output_backward(d_o, h, p["W_hy"])
    d_h_direct[-1] = out.d_h
    return loss, cell_backward(cell, d_h_direct, trace, x, p).d_p | {"W_hy": out.d_W_hy, "b_y": out.d_b_y}


def train(name: str, forget_bias: float, steps: int, seed: int) -> tuple[float, Cell, Parameters]:
    """The loss after training (a guess has ln 4 = 1.39), the cell and its parameters."""
    rng = np.random.default_rng(seed)
    cell, p = start(name, forget_bias, rng)
    moments = {key: [np.zeros(array.size), np.zeros(array.size)] for key, array in p.items()}  # of Adam
    for t in range(1, steps + 1):
        _, d = loss_and_gradients(cell, p, sequences(rng, BATCH, DELAY))
        norm = np.sqrt(sum((g**2).sum() for g in d.values()))
        rates = optimizers.Rates(rate=0.01, t=t, momentum=0.9, decay=0.99, epsilon=1e-8, weight_decay=0.0)
        for key, array in p.items():
            optimizers.update("adam", array.reshape(-1), d[key].ravel() * min(1, 1 / norm), rates, moments[key])
    return loss_and_gradients(cell, p, sequences(np.random.default_rng(99), 500, DELAY))[0], cell, p


def lesson(quick: bool = False) -> Result:
    lines, curves, best = (
        [f"{'before training':22}left after 10 steps   after 30 steps   less than 1 % after"],
        [],
        None,
    )
    for name, (cell, bias, color, dash) in STARTS.items():
        left = np.median([gradient_by_lag(cell, bias, seed) for seed in range(DRAWS)], axis=0)
        gone = f"{int(np.argmax(left < 0.01))} steps" if (left < 0.01).any() else f"over {T} steps"
        lines.append(f"{name:22}{left[10]:19.2g}   {left[30]:14.2g}   {gone:>19}")
        curves.append(Curve(name, left[:51].tolist(), color, dash))
    for name in ("rnn",) if quick else ("rnn", "gru", "lstm, forget bias 3"):
        found = [train(*STARTS[name][:2], 3 if quick else 300, seed) for seed in range(1 if quick else 2)]
        each = ", ".join(f"{loss:.2f}" for loss, *_ in found)
        lines.append(f"trained {name}: the letter {DELAY} steps back costs {each} nats")
        best = min(found, key=lambda one: one[0])
    if not quick:
        _, cell, p = best
        x = sequences(np.random.default_rng(99), 500, DELAY)
        forget = cell_forward(cell, x, None, p).kept[1][1:].mean(axis=(0, 1))  # (H,)
        lines.append(
            f"trained lstm, mean forget gate at the noise {forget.mean():.3f}, highest unit {forget.max():.3f}"
        )
        for lowered in (1, 2):
            p["b_h"][H : 2 * H] -= 1
            loss = loss_and_gradients(cell, p, x)[0]
            lines.append(f"trained lstm, forget bias lowered by {lowered} afterwards: the letter costs {loss:.2f} nats")
    title = f"before training: norm of the gradient on the state, relative to lag 0, median of {DRAWS}"
    figure = chart(curves, title=title, x="lag (steps back)", y="share of the gradient", low=-10, high=1, log=True)
    return Result(lines, figure)


if __name__ == "__main__":
    run(__file__, lesson())
