"""The gradient checks of `elman gradcheck` for cells, with combinations of options, and for the losses, softmax and the
embedding. The checks of translators with attention are in network/cases.py.

A truncated gradient is not the derivative of the loss. It is the sum of one derivative for each block, with the state
before the first step that the block goes back to held fixed, unless this is the initial state. The loss of each block
is computed here from that state and differentiated numerically.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from elman.maths import layers, loss
from elman.maths.activations import ACTIVATIONS, Activation, ActivationLike
from elman.maths.arrays import Array
from elman.maths.cells import CELLS, Cell, make_cell
from elman.maths.gradient_check import GradientCheck, gradcheck
from elman.maths.recurrence import CellGradients, CellTrace, cell_backward, cell_forward
from elman.maths.truncation import truncated_cell_backward

B, X, H, Y = 3, 2, 3, 3
SOFTSIGN = Activation(lambda a: a / (1 + abs(a)), lambda h: (1 - abs(h)) ** 2)  # f and f' as a user may give them
CHECKED: dict[str, tuple[str, ActivationLike]] = {  # cell and activation of each check
    **{f"rnn, {name}": ("rnn", name) for name in ACTIVATIONS},
    "rnn, own pair": ("rnn", SOFTSIGN),
    **{name: (name, "tanh") for name in CELLS if name != "rnn"},
}


class Functions(NamedTuple):
    """The functions to check: those of this package, or compiled ones."""

    cell_forward: Callable[..., CellTrace] = cell_forward
    cell_backward: Callable[..., CellGradients] = cell_backward
    output_forward: Callable[..., Array] = layers.output_forward
    output_backward: Callable[..., layers.OutputGradients] = layers.output_backward
    embedding_forward: Callable[..., Array] = layers.embedding_forward
    embedding_backward: Callable[..., Array] = layers.embedding_backward
    cross_entropy: Callable[..., tuple[float, Array]] = loss.cross_entropy
    mean_squared_error: Callable[..., tuple[float, Array]] = loss.mean_squared_error
    softmax: Callable[..., Array] = loss.softmax
    softmax_backward: Callable[..., Array] = loss.softmax_backward


class Case(NamedTuple):
    """One combination of options to check."""

    cell: str  # a key of CHECKED
    passes: str  # "full", "reverse", or "k1, k2 = …"
    k: tuple[int, int] | None  # truncation (k1, k2)
    T: int
    ids: bool  # x has token ids instead of floats
    ragged: bool  # rows have different lengths
    masked: bool  # with recurrent dropout


def is_telling(case: Case) -> bool:
    """Whether a quick check takes the case: several steps, rows of different lengths, and a mask if x has ids."""
    return case.T > 1 and case.ragged and case.masked == case.ids


def all_cases() -> Iterator[Case]:
    truncations = {f"k1, k2 = {k1}, {k2}": (k1, k2) for k1, k2 in ((1, 1), (1, 3), (2, 3))}
    for cell, name in itertools.product(CHECKED, ("full", "reverse", *truncations)):
        for T, ids, ragged, masked in itertools.product((1, 4), *[(False, True)] * 3):
            if name in truncations and T == 1 < truncations[name][1]:
                continue  # the same as k2 = 1, because a window of one step has nothing to truncate
            yield Case(cell, name, truncations.get(name), T, bool(ids), bool(ragged), bool(masked))


def check_case(case: Case, functions: Functions | None = None, *, tolerance: float = 1e-6) -> GradientCheck:
    """Check the gradients of a small network: of all parameters, the initial state and the input, unless it has ids."""
    f = Functions() if functions is None else functions
    rng = np.random.default_rng(11)
    T, cell = case.T, make_cell(*CHECKED[case.cell])
    shapes = {**cell.shapes(X, H), "W_hy": (H, Y), "b_y": (Y,)}
    p: dict[str, Array] = {name: rng.standard_normal(shape) * 0.7 for name, shape in shapes.items()}
    s0 = rng.standard_normal((cell.parts, B, H)) * 0.7
    p |= {f"{name}0": part for name, part in zip(cell.state_names, s0, strict=True)}  # h0, c0: views of s0
    x = rng.integers(X, size=(T, B)) if case.ids else rng.standard_normal((T, B, X))
    y, weights = rng.integers(Y, size=(T, B)), rng.uniform(0.5, 1.5, (T, B))
    lengths = np.array([T, (T + 2) // 2, 0]) if case.ragged else None
    h_mask = rng.integers(2, size=(B, H)) * 2.0 if case.masked else None
    options: dict[str, Any] = {
        "lengths": lengths,
        "h_mask": h_mask,
        **({"reverse": True} if case.passes == "reverse" else {}),
    }

    def forward() -> tuple[CellTrace, float, Array]:
        trace = f.cell_forward(cell, x, s0, p, **options)
        o = f.output_forward(trace.s[0, 1:], p["W_hy"], p["b_y"])
        return trace, *f.cross_entropy(o, y, weights=weights, normalizer=B)

    trace, _, d_o = forward()
    output = f.output_backward(d_o, trace.s[0, 1:], p["W_hy"])
    backward = f.cell_backward
    differentiated: Callable[[], float] = lambda: forward()[1]  # noqa: E731
    if case.k is not None:
        k1, k2 = case.k
        backward, options = truncated_cell_backward, {**options, "k1": k1, "k2": k2, "backward": backward}
        differentiated = _block_losses(case.k, x, y, weights, lengths, h_mask, cell, p, s0, trace.s.copy())
    found = backward(cell, output.d_h, trace, x, p, **options)
    gradients = {**found.d_p, "W_hy": output.d_W_hy, "b_y": output.d_b_y}
    gradients |= {f"{name}0": d for name, d in zip(cell.state_names, found.d_s0, strict=True)}
    if found.d_x is not None:
        p, gradients["x"] = {**p, "x": x}, found.d_x
    return gradcheck(differentiated, p, gradients, tolerance=tolerance)


def _block_losses(
    k: tuple[int, int],
    x: Array,
    y: Array,
    weights: Array,
    lengths: Array | None,
    h_mask: Array | None,
    cell: Cell,
    p: dict[str, Array],
    s0: Array,
    fixed: Array,  # (P, T+1, B, H), the states of the forward pass, for the blocks that do not go back to step 0
) -> Callable[[], float]:
    """A function that computes the sum of the losses of all blocks, from the states that they start from."""
    T = len(y)
    blocks = []  # row, first and last step (exclusive) of its backward pass, steps of its losses
    for row, first in itertools.product(range(B), range(0, T, k[0])):
        loss_steps = range(first, min(first + k[0], T))
        end = min(loss_steps.stop, T if lengths is None else int(lengths[row]))
        blocks.append((row, max(0, end - k[1]), end, loss_steps))
    rows, starts, ends = (np.array(column) for column in list(zip(*blocks, strict=True))[:3])
    # (steps, N): step i of the backward pass of block n is this step of the window; past its end any step
    at = np.minimum(starts + np.arange(max(1, *(ends - starts)))[:, np.newaxis], T - 1)
    n, t = np.array([(n, t) for n, block in enumerate(blocks) for t in block[3]]).T  # block and step of each loss

    def losses() -> float:
        start = np.where((starts == 0)[:, np.newaxis], s0[:, rows], fixed[:, starts, rows])
        masks = None if h_mask is None else h_mask[rows]
        h = cell_forward(cell, x[at, rows], start, p, lengths=ends - starts, h_mask=masks).s[0]
        o = layers.output_forward(h[np.minimum(t + 1, ends[n]) - starts[n], n], p["W_hy"], p["b_y"])
        return loss.cross_entropy(o, y[t, rows[n]], weights=weights[t, rows[n]], normalizer=B)[0]

    return losses


def check_losses(functions: Functions | None = None, *, tolerance: float = 1e-6) -> dict[str, GradientCheck]:
    """Check the losses, softmax and the embedding, each separately; returns the results by name."""
    f = Functions() if functions is None else functions
    rng = np.random.default_rng(5)
    o, v = rng.standard_normal((2, B, Y))
    ids, weights = rng.integers(Y, size=B), rng.uniform(0.5, 1.5, B)
    distributions, numbers = loss.softmax(rng.standard_normal((B, Y))), rng.standard_normal((B, Y))
    E, tokens, d_x = rng.standard_normal((Y, X)), rng.integers(Y, size=(4, B)), rng.standard_normal((4, B, X))
    options = {"weights": weights, "normalizer": 1.7}
    trials: dict[str, tuple[Array, Callable[[], float], Array]] = {
        "cross-entropy, ids": (o, lambda: f.cross_entropy(o, ids, **options)[0], f.cross_entropy(o, ids, **options)[1]),
        "cross-entropy, distributions": (
            o, lambda: f.cross_entropy(o, distributions, **options)[0],
            f.cross_entropy(o, distributions, **options)[1],
        ),
        "mean squared error": (
            o, lambda: f.mean_squared_error(o, numbers, **options)[0], f.mean_squared_error(o, numbers, **options)[1],
        ),
        "softmax": (o, lambda: float((f.softmax(o) * v).sum()), f.softmax_backward(v, f.softmax(o))),
        "embedding": (
            E, lambda: float((f.embedding_forward(tokens, E) * d_x).sum()), f.embedding_backward(d_x, tokens, E),
        ),
    }  # fmt: skip
    return {
        name: gradcheck(differentiated, {"o": array}, {"o": gradient}, tolerance=tolerance)
        for name, (array, differentiated, gradient) in trials.items()
    }
