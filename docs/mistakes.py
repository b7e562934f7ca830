"""The numbers of docs/maths.md: the errors of the common mistakes, vanishing, clipping, truncation.

    python docs/mistakes.py            print every number, by its id
    python docs/mistakes.py --write    write them into docs/maths.md, wherever <!-- id --> follows a number
    python docs/mistakes.py --cost     time RTRL against BPTT (the only numbers that depend on the machine)

The right formulas come from elman.maths; this file contains only the wrong ones. All sizes are 4 where possible: arrays
of a wrong shape can then be multiplied without an error, and only a number shows the mistake.
"""

from __future__ import annotations

import ast
import math
import re
import sys
import timeit
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from elman import maths
from elman.errors import ShapeError
from elman.maths import Array, attention, optimizers
from elman.maths.cells import CELLS, Cell
from elman.maths.recurrence import cell_backward, cell_forward

T, X, H, Y = 6, 4, 4, 4
GAINS, SPANS, BPTT_STEPS, SIZES = (0.5, 1.0, 1.5), (10, 50), (1, 2, 4, 8, 16), (8, 32, 64, 128)
HIDDEN = 32
TEXT = "the cat sat on the mat. the dog sat on the log. a hen met ten men. "


class Trial:
    """A vanilla network as in the notes, with one sequence, and the numeric derivatives to compare gradients with."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.x, self.y = rng.standard_normal((T, 1, X)), rng.integers(Y, size=(T, 1))
        shapes = {"W_xh": (X, H), "W_hh": (H, H), "b_h": (H,), "W_hy": (H, Y), "b_y": (Y,), "h0": (1, H)}
        self.p = {name: rng.standard_normal(shape) * 0.6 for name, shape in shapes.items()}
        self.W_xh, self.W_hh, self.W_hy = self.p["W_xh"], self.p["W_hh"], self.p["W_hy"]
        self.h, self.o = self.forward()
        self.y_hat = maths.softmax(self.o)
        self.L, self.d_o = maths.cross_entropy(self.o, self.y)
        self.out = maths.output_backward(self.d_o, self.h[1:], self.W_hy)
        self.right = self.backward(self.out.d_h)
        # with W_xh = I, d_x is d_a
        self.d_a = maths.rnn_backward(self.out.d_h, np.zeros((T, 1, H)), self.h, np.eye(H), self.W_hh).d_x
        self.f_prime = maths.ACTIVATIONS["tanh"].derivative(self.h[1:])
        self.d_h = self.d_a / self.f_prime

    def forward(self) -> tuple[Array, Array]:
        h = maths.rnn_forward(self.x, self.p["h0"], self.p["W_xh"], self.p["W_hh"], self.p["b_h"])
        return h, maths.output_forward(h[1:], self.p["W_hy"], self.p["b_y"])

    def loss(self) -> float:
        return maths.cross_entropy(self.forward()[1], self.y)[0]

    def backward(self, d_h_direct: Array, **changed: Array) -> maths.RNNGradients:
        return maths.rnn_backward(
            d_h_direct, **{"x": self.x, "h": self.h, "W_xh": self.W_xh, "W_hh": self.W_hh} | changed
        )

    def from_states(self, d_h: Array, **options: object) -> maths.RNNGradients:
        """The weight gradients that follow from a given d_h: with W_hh = 0 no gradient goes to the step before."""
        return maths.rnn_backward(d_h, self.x, self.h, self.W_xh, np.zeros((H, H)), **options)

    def jacobian(self, first: int, last: int) -> Array:
        """∂h[last]/∂h[first]: one row for each entry of h[last], all rows with the same states."""
        d_h_direct = np.zeros((last - first, H, H))
        d_h_direct[-1] = np.eye(H)
        x, h = (np.repeat(a, H, axis=1) for a in (self.x[first:last], self.h[first : last + 1]))
        return maths.rnn_backward(d_h_direct, x, h, self.W_xh, self.W_hh).d_h0

    def error(self, wrong: Array, name: str) -> float:
        """‖wrong - numeric‖ / ‖numeric‖."""
        if name == "o":
            return relative(wrong, numeric(lambda: maths.cross_entropy(self.o, self.y)[0], self.o))
        return relative(wrong, numeric(self.loss, self.p[name]))


def numeric(loss: Callable[[], float], array: Array, epsilon: float = 1e-5) -> Array:
    """Central differences, entry by entry."""
    d_array = np.empty_like(array)
    for index in np.ndindex(array.shape):
        kept, values = array[index], []
        for shift in (epsilon, -epsilon):
            array[index] = kept + shift
            values.append(loss())
        array[index] = kept
        d_array[index] = (values[0] - values[1]) / (2 * epsilon)
    return d_array


def relative(wrong: Array, right: Array) -> float:
    return float(np.linalg.norm(wrong - right) / np.linalg.norm(right))


def relative_norm(wrong: Array, right: Array) -> float:
    return float(np.linalg.norm(wrong) / np.linalg.norm(right))


def entropy_of(p: Array, q: Array) -> float:
    """The cross-entropy - Σ p log q."""
    return float(-(p * np.log(q)).sum())


def entropy(ids: Array) -> float:
    share = np.bincount(ids.ravel()) / ids.size
    return float(-(share * np.log(share, where=share > 0, out=np.zeros_like(share))).sum())


def below() -> dict[str, float]:
    """Errors of the right formulas, which are rounding errors: the document gives bounds for them."""
    n = Trial()
    d = n.right._asdict() | n.out._asdict()
    forward_mode = maths.rtrl(n.out.d_h, n.x, n.h, n.W_xh, n.W_hh)
    with_sums = relative(double_sum(n), n.right.d_W_hh)
    y_hat, weights = maths.softmax(np.array([0.2, 0.5, 1.0])), np.array([1.0, -2.0, 0.5])
    by_matrix = weights @ (np.diag(y_hat) - np.outer(y_hat, y_hat))
    return {
        "double-sum": with_sums,
        "jacobian": relative(maths.softmax_backward(weights, y_hat), by_matrix),
        "attention": max(AttentionTrial(kind).right() for kind in ("dot", "additive")),
        "gru": GatedTrial("gru").right(),
        "lstm": GatedTrial("lstm").right(),
        "right": max(n.error(d["d_" + name], name) for name in n.p),
        "rtrl": max(relative(getattr(forward_mode, name), d[name]) for name in ("d_W_xh", "d_W_hh", "d_b_h", "d_h0")),
    }


def above() -> dict[str, float]:
    """The result of training by the rules of note 001. It is chaotic, so the document gives bounds."""
    loss, states = train("001")
    return {"001-trained": loss, "001-saturated": float((np.abs(states) > 0.99).mean())}


def note_000() -> dict[str, float]:
    n = Trial()
    uniform, all_classes = np.full((T, 1, Y), 1 / Y), np.full((T, 1), float(Y))  # -Σ_i log y_hat_i, as a cross-entropy
    dropped, d_dropped = maths.cross_entropy(n.o, uniform, weights=all_classes)
    d_h = n.out.d_h.copy()
    for t in reversed(range(T - 1)):
        d_h[t] += n.f_prime[t + 1] * (d_h[t + 1] @ n.W_hh.T)  # WRONG: the factor belongs inside, on d_h
    past = n.h[2].copy()
    n.x[2] += 1.0  # moves h[3], and nothing before it
    moved = float(np.abs(n.forward()[0][2] - past).max())
    n.x[2] -= 1.0
    logits = np.array([0.2, 0.5, 1.0])
    ones = maths.cross_entropy(np.ones_like(n.o), n.y)[1] * 0  # ∂1/∂o = 0: no gradient passes through a constant
    constant = maths.output_backward(ones, n.h[1:], n.W_hy)
    p, q = np.array([0.5, 0.25, 0.25]), np.array([0.8, 0.1, 0.1])
    return {
        "000-minus": n.error(-n.right.d_W_hh, "W_hh"),
        "000-softmax-minus": float(-n.y_hat[0].sum()),
        "000-n": float((np.exp(logits) / np.exp(logits[: len("ca")]).sum()).sum()),
        "000-g2": relative_norm(constant.d_W_hy, n.out.d_W_hy),
        "000-g2-loss": T * math.log(Y),
        "000-entries": float((n.W_hy * n.h[1, 0, 0]).size),
        "000-distance": entropy_of(p, p),
        "000-distance-pq": entropy_of(p, q),
        "000-distance-qp": entropy_of(q, p),
        "000-logits": float(n.o.size),
        "000-logits-right": float(n.y.size),
        "000-dropped-p": dropped,
        "000-dropped-p-right": n.L,
        "000-dropped-p-error": n.error(d_dropped, "o"),
        "000-b_o": round(abs(float(n.d_o.sum())), 12),
        "000-b_o-right": float(np.linalg.norm(numeric(n.loss, n.p["b_y"]))),
        "000-diag": n.error(n.from_states(d_h).d_W_hh, "W_hh"),
        "000-x": float((n.d_a[0, 0] * n.x[0, 0]).size),
        "000-x-right": float(np.outer(n.x[0, 0], n.d_a[0, 0]).size),
        "000-W_xh": n.error(n.backward(n.out.d_h, W_hh=n.W_xh).d_W_hh, "W_hh"),
        "000-past": float(np.linalg.norm(np.linalg.inv(n.jacobian(2, 3)), 2)),
        "000-past-right": moved,
    }


def note_001() -> dict[str, float]:
    n = Trial()

    def weights(tau: int) -> int:  # the sizes as the note gives them
        return (tau - 1) * tau + (tau - 1) ** 2 + tau + tau * (tau - 1) + tau

    x, W_hh = np.zeros((4, 1, 4)), np.zeros((3, 3))  # τ = 4, so h has τ - 1 = 3 entries
    W_xh, b_h = np.zeros((4, 3)), np.zeros(3)
    W_xh_second, b_h_note = np.zeros((3, 4)), np.zeros(4)  # for rows: the note's matrices are transposed
    for fits, W, b in ((True, W_xh, b_h), (False, W_xh_second, b_h), (False, W_xh, b_h_note)):
        assert fits != raises_shape_error(maths.rnn_forward, x, None, W, W_hh, b)
    two_steps = maths.truncated_backward(n.out.d_h, n.x, n.h, n.W_xh, n.W_hh, k1=1, k2=2)
    return {
        "001-sizes-4": weights(4),
        "001-sizes-100": weights(100),
        "001-sizes-right": X * H + H * H + H + H * Y + Y,
        "001-W_xh": len(W_xh_second),
        "001-W_xh-right": len(W_xh),
        "001-b_h": len(b_h_note),
        "001-b_h-right": len(b_h),
        "001-no-y": n.error(n.y_hat, "o"),
        "001-no-y-sum": float(n.y_hat[0].sum()),
        "001-sum-inside": n.error(np.broadcast_to(n.d_o.sum(axis=0), n.d_o.shape), "o"),
        "001-recursion": n.error(two_steps.d_W_hh, "W_hh"),
        "001-frozen": train("frozen")[0],
        "001-trained-right": train("right")[0],
        "001-frequencies": entropy(text_ids()[1:]),
    }


def raises_shape_error(function: Callable[..., Array], *arguments: Array | None) -> bool:
    try:
        function(*arguments)
    except ShapeError:
        return True
    return False


def text_ids() -> Array:
    letters = sorted(set(TEXT))
    return np.array([letters.index(letter) for letter in TEXT])


def train(rule: str, *, hidden: int = HIDDEN, steps: int = 300, rate: float = 0.1) -> tuple[float, Array]:
    """Train on TEXT by the named rule; return the loss per letter and the states.

    The rate is small enough that all rules but 001 give the same three digits on every CPU.
    """
    ids = text_ids()
    x, y, letters = ids[:-1, np.newaxis], ids[1:, np.newaxis], int(ids.max()) + 1
    rng = np.random.default_rng(0)
    W_xh = maths.normal(rng, (letters, hidden), gain=0.5)
    W_hh = maths.orthogonal(rng, (hidden, hidden), gain=0.9)
    W_hy, b_h, b_y = maths.glorot(rng, (hidden, letters)), np.zeros(hidden), np.zeros(letters)
    for step in range(steps + 1):
        h = maths.rnn_forward(x, None, W_xh, W_hh, b_h)
        o = maths.output_forward(h[1:], W_hy, b_y)
        loss, d_o = maths.cross_entropy(o, y, normalizer=len(x))
        if step == steps:
            break
        out = maths.output_backward(d_o, h[1:], W_hy)
        if rule in ("right", "no biases"):
            d = maths.rnn_backward(out.d_h, x, h, W_xh, W_hh)
        elif rule == "001":
            d_o_001 = maths.softmax(o).sum(axis=0, keepdims=True) / len(x)  # WRONG: no - y, and a sum over t
            d_h_001 = maths.output_backward(d_o_001, h[:1], W_hy).d_h  # the same for every step
            # its two terms without the recursion are a truncation with k2 = 2
            d = maths.truncated_backward(np.repeat(d_h_001, len(x), axis=0), x, h, W_xh, W_hh, k1=1, k2=2)
        if rule != "frozen":
            W_xh -= rate * d.d_W_xh
            W_hh -= rate * d.d_W_hh
        W_hy -= rate * out.d_W_hy
        if rule != "no biases":
            b_y -= rate * out.d_b_y
            b_h -= rate * d.d_b_h if rule != "frozen" else 0
    return loss, h[1:]


def note_002() -> dict[str, float]:
    n, clip = Trial(), clipping()
    sent_back = n.backward(n.out.d_h[3:], x=n.x[3:], h=n.h[3:]).d_h0  # d_a[3] @ W_hh.T
    return {
        "002-activation": n.error(n.from_states(n.d_h, activation="identity").d_W_hh, "W_hh"),
        "002-products": float(np.dot(n.d_o[0, 0], n.h[1, 0]).size),
        "002-products-right": float(np.outer(n.h[1, 0], n.d_o[0, 0]).size),
        "002-last": relative(sent_back, n.d_h[3]),
        "002-own-loss": relative(n.d_h[1], n.out.d_h[1]),
        "002-one-step": n.error(maths.output_backward(n.d_o[-1], n.h[-1], n.W_hy).d_W_hy, "W_hy"),
        "002-layers": jacobian_norms(0.5, "tanh", 50)[-1],
        "002-clip": clip["clip-vanishes-first-clipped"] / clip["clip-vanishes-first"],
    }


def note_003() -> dict[str, float]:
    n = Trial()
    try:
        ast.parse("delta_o[np.arange(len(y)), y) -= 1")
        column = 0
    except SyntaxError as error:
        column = error.offset or 0
    o = n.y_hat[:, 0].copy()  # the note's o holds probabilities
    delta_o = o  # WRONG: no copy
    delta_o[np.arange(T), n.y[:, 0]] -= 1
    s = np.concatenate([n.h[-1:], n.h[1:]])  # WRONG: s[-1] of T states is the last one, not the initial one
    one, two, three = (maths.truncated_backward(n.out.d_h, n.x, n.h, n.W_xh, n.W_hh, k1=1, k2=k2) for k2 in (1, 2, 3))
    h, d_W_hh = n.h[:, 0], np.zeros((H, H))
    for t in range(T):  # the note's two loops, with bptt_truncate = 2
        delta_t = n.d_o[t, 0] @ n.W_hy.T * (1 - h[t + 1] ** 2)
        for bptt_step in range(max(0, t - 2), t + 1)[::-1]:
            d_W_hh += np.outer(h[bptt_step], delta_t)
            delta_t = delta_t @ n.W_hh.T * (1 - h[bptt_step] ** 2)
    return {
        "003-parse": column,
        "003-truncate": relative(d_W_hh, two.d_W_hh),
        "003-truncate-right": round(relative(d_W_hh, three.d_W_hh), 12),
        "003-alias": round(abs(float(o[0].sum())), 12),
        "003-alias-right": float(n.y_hat[0].sum()),
        "003-s": n.error(n.right.d_W_hh + (s[0] - n.h[0]).T @ n.d_a[0], "W_hh"),
        "003-recursion": n.error(one.d_W_xh, "W_xh"),
        "003-biases": train("no biases")[0],
        "003-biases-right": train("right")[0],
        "003-biases-uniform": math.log(len(set(TEXT))),
        "003-z": len(set(TEXT)),
        "003-z-right": HIDDEN,
        "003-W": float(np.linalg.norm(numeric(n.loss, n.p["W_hh"]))),
        "003-W-error": n.error(np.zeros((H, H)), "W_hh"),
    }


def note_004() -> dict[str, float]:
    n = Trial()
    late = np.concatenate([np.zeros((1, 1, X)), n.x[:-1]])  # WRONG: h_{t+1} reads X_t
    product, right = np.eye(H), n.jacobian(0, T)
    for j in range(T):
        product = n.jacobian(0, j + 1) @ product  # WRONG: ∂h_{j+1}/∂h_k for ∂h_{j+1}/∂h_j
    first_dropped = n.out.d_h.copy()
    first_dropped[0] = 0  # WRONG: L_{t+1} for t = 1..T
    totals = maths.rtrl(n.d_h, n.x, n.h, n.W_xh, n.W_hh)  # WRONG: each total d_h times each total ∂h_k/∂W
    h_T = n.h[-1].copy()
    moved = {}
    for name in ("W_hy", "W_hh"):
        n.p[name] += 0.001
        moved[name] = float(np.abs(n.forward()[0][-1] - h_T).max())
        n.p[name] -= 0.001
    d_y_hat = -np.eye(Y)[n.y] / n.y_hat  # ∂L/∂y_hat
    return {
        "004-depends": moved["W_hy"],
        "004-depends-W_hh": moved["W_hh"],
        "004-softmax": relative(n.d_o, d_y_hat),
        "004-x": n.error(n.backward(n.out.d_h, x=late).d_W_xh, "W_xh"),
        "004-product": relative(product, right),
        "004-product-norm": float(np.linalg.norm(product, 2)),
        "004-product-right": float(np.linalg.norm(right, 2)),
        "004-sum": n.error(n.backward(first_dropped).d_W_xh, "W_xh"),
        "004-immediate": n.error(totals.d_W_hh, "W_hh"),
        "004-b_h": float(np.linalg.norm(numeric(n.loss, n.p["b_h"]))),
        "004-b_h-error": n.error(np.zeros(H), "b_h"),
        "004-outer": n.error(n.out.d_W_hy.T, "W_hy"),
    }


def long_network(gain: float, activation: str, steps: int, rows: int = 1) -> tuple[Array, Array, Array, Array]:
    """x, h, W_xh, W_hh of a network with 32 units, an orthogonal W_hh times the gain, and small random inputs."""
    rng = np.random.default_rng(1)
    W_hh, W_xh = maths.orthogonal(rng, (32, 32), gain=gain), np.eye(32)
    x = np.repeat(0.3 * rng.standard_normal((steps, 1, 32)), rows, axis=1)
    return x, maths.rnn_forward(x, None, W_xh, W_hh, np.zeros(32), activation=activation), W_xh, W_hh


def jacobian_norms(gain: float, activation: str, steps: int) -> list[float]:
    """‖∂h[steps]/∂h[steps-k]‖ for k = 1..steps, in the spectral norm."""
    x, h, W_xh, W_hh = long_network(gain, activation, steps, rows=32)
    jacobian, norms = np.eye(32), []  # one row for each entry of h[steps], all rows with the same states
    for t in reversed(range(steps)):
        one_step = jacobian[np.newaxis], x[t : t + 1], h[t : t + 2], W_xh, W_hh
        jacobian = maths.rnn_backward(*one_step, activation=activation).d_h0
        norms.append(float(np.linalg.norm(jacobian, 2)))
    return norms


def vanishing() -> dict[str, float]:
    found = {}
    for activation in ("identity", "tanh"):
        for gain in GAINS:
            norms = jacobian_norms(gain, activation, max(SPANS))
            found |= {f"jacobian-{activation}-{gain}-{k}": norms[k - 1] for k in SPANS}
    return found


def last_loss(x: Array, W_xh: Array, W_hh: Array) -> tuple[float, maths.RNNGradients]:
    """One loss, at the last step; identity, so that nothing but W_hh acts on the gradient."""
    W_hy, b_y = maths.glorot(np.random.default_rng(2), (32, 4)), np.zeros(4)
    h = maths.rnn_forward(x, None, W_xh, W_hh, np.zeros(32), activation="identity")
    loss, d_o = maths.cross_entropy(maths.output_forward(h[-1], W_hy, b_y), np.array([1]))
    d_h_direct = np.zeros_like(h[1:])
    d_h_direct[-1] = maths.output_backward(d_o, h[-1], W_hy).d_h
    return loss, maths.rnn_backward(d_h_direct, x, h, W_xh, W_hh, activation="identity")


def clipping(steps: int = 12, rate: float = 0.01, limit: float = 5.0) -> dict[str, float]:
    found = {}
    for name, gain in (("explodes", 1.5), ("vanishes", 0.5)):
        x, _, W_xh, W_hh = long_network(gain, "identity", steps)
        loss, d = last_loss(x, W_xh, W_hh)
        norm = float(np.linalg.norm(d.d_W_hh))
        factor = min(1.0, limit / norm)
        first, last = (float(np.linalg.norm(d.d_x[t])) for t in (0, -1))
        found |= {
            f"clip-{name}-norm": norm,
            f"clip-{name}-factor": factor,
            f"clip-{name}-loss": loss,
            f"clip-{name}-plain": last_loss(x, W_xh, W_hh - rate * d.d_W_hh)[0],
            f"clip-{name}-clipped": last_loss(x, W_xh, W_hh - rate * factor * d.d_W_hh)[0],
            f"clip-{name}-first": first,
            f"clip-{name}-first-clipped": factor * first,
            f"clip-{name}-ratio": first / last,
            f"clip-{name}-ratio-clipped": (factor * first) / (factor * last),
        }
    return found


def truncation(steps: int = 32) -> dict[str, float]:
    """How far the truncated gradient is from the full one, with a loss at every step and k1 = 1."""
    x, h, W_xh, W_hh = long_network(0.95, "tanh", steps)
    d_h_direct = np.random.default_rng(3).standard_normal((steps, 1, 32))
    full = maths.rnn_backward(d_h_direct, x, h, W_xh, W_hh).d_W_hh
    return {
        f"truncation-{k2}": relative(
            maths.truncated_backward(d_h_direct, x, h, W_xh, W_hh, k1=1, k2=k2).d_W_hh, full
        )
        for k2 in BPTT_STEPS
    }  # fmt: skip


def cost(steps: int = 20) -> dict[int, float]:
    """For each H: the time of RTRL as a multiple of that of BPTT."""
    from threadpoolctl import threadpool_limits  # one thread for both: more would speed up the larger products only

    found = {}
    for size in SIZES:
        rng = np.random.default_rng(0)
        x, W_xh, W_hh = rng.standard_normal((steps, 1, X)), rng.standard_normal((X, size)), np.eye(size)
        h = maths.rnn_forward(x, None, W_xh, W_hh, np.zeros(size))
        arguments = rng.standard_normal((steps, 1, size)), x, h, W_xh, W_hh
        with threadpool_limits(1):
            backward, forward = (
                min(timeit.repeat(partial(function, *arguments), number=1, repeat=7))
                for function in (maths.rnn_backward, maths.rtrl)
            )
        found[size] = forward / backward
    return found


def edited_module(module: ModuleType, *edits: tuple[str, str]) -> ModuleType:
    """A copy of a module with parts of its source replaced."""
    text = Path(str(module.__file__)).read_text("utf-8")
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    edited = ModuleType("edited")
    exec(text, edited.__dict__)
    return edited


class GatedTrial:
    """A GRU or an LSTM with random weights, and the error of its gradients where its backward pass is edited."""

    def __init__(self, name: str) -> None:
        rng = np.random.default_rng(0)
        self.name, self.cell = name, CELLS[name]()
        shapes = self.cell.shapes(X, H)
        self.p = {key: rng.standard_normal(shape) * 0.6 for key, shape in shapes.items()}
        self.x, self.s0 = rng.standard_normal((T, 2, X)), rng.standard_normal((self.cell.parts, 2, H)) * 0.6
        self.d_h_direct = rng.standard_normal((T, 2, H))
        self.trace = cell_forward(self.cell, self.x, self.s0, self.p)

    def loss(self) -> float:
        return float((cell_forward(self.cell, self.x, self.s0, self.p).s[0, 1:] * self.d_h_direct).sum())

    def edited(self, *edits: tuple[str, str]) -> Cell:
        """The cell with parts of its source replaced."""
        module = edited_module(sys.modules[type(self.cell).__module__], *edits)
        cell: Cell = getattr(module, type(self.cell).__name__)()
        return cell

    def gradients(self, cell: Cell) -> dict[str, Array]:
        d = cell_backward(cell, self.d_h_direct, self.trace, self.x, self.p)
        return d.d_p | {"s0": d.d_s0}

    def error(self, *edits: tuple[str, str], of: str = "W_hh") -> float:
        return relative(self.gradients(self.edited(*edits))[of], numeric(self.loss, self.p[of]))

    def right(self) -> float:
        d = self.gradients(self.cell)
        arrays = self.p | {"s0": self.s0}
        return max(relative(d[name], numeric(self.loss, array)) for name, array in arrays.items())


def gates() -> dict[str, float]:
    """The classic mistakes in the backward passes of a GRU and an LSTM: the error of d_W_hh."""
    gru, lstm = GatedTrial("gru"), GatedTrial("lstm")
    # reset before the product: (r ⊙ h) @ W_hn instead of r ⊙ (h @ W_hn + b_hn)
    W_hr, W_hz, W_hn = np.split(gru.p["W_hh"], 3, axis=1)
    h, a_x = gru.s0[0], gru.x @ gru.p["W_xh"] + gru.p["b_h"]
    for t in range(T):
        x_r, x_z, x_n = np.split(a_x[t], 3, axis=1)
        r, z = (maths.ACTIVATIONS["sigmoid"].function(a) for a in (x_r + h @ W_hr, x_z + h @ W_hz))
        h = (1 - z) * np.tanh(x_n + (r * h) @ W_hn + gru.p["b_hn"]) + z * h
    f, steps = np.array([0.73, 0.95, 0.99]), 50
    return {
        "lstm-second-path": lstm.error(("d_c = d_c_next + o", "d_c = o")),
        "lstm-forget": lstm.error(("d_c_before = f * d_c", "d_c_before = d_c")),
        "lstm-pre-activation": lstm.error(("f * (1 - f) * c * d_c", "sigmoid(f) * (1 - sigmoid(f)) * c * d_c")),
        "lstm-tanh-c": lstm.error(("(1 - tanh_c * tanh_c)", "(1 - c_next * c_next)")),
        "lstm-c-next": lstm.error(("f * (1 - f) * c * d_c", "f * (1 - f) * c_next * d_c")),
        "lstm-g": lstm.error(("(1 - g * g) * i * d_c", "g * (1 - g) * i * d_c")),
        "gru-carry": gru.error(("d_h_before = z * d_h", "d_h_before = 0 * d_h")),
        "gru-recurrent": gru.error(("[d_a_r, d_a_z, d_q]", "[d_a_r, d_a_z, d_a_n]")),
        "gru-reset": gru.error(("r * (1 - r) * q * d_a_n", "r * (1 - r) * h * d_a_n")),
        "gru-update": gru.error(("(h - n) * d_h", "(n - h) * d_h")),
        "gru-before": relative(h, gru.trace.s[0, -1]),
        **{f"forget-{value:g}": float(value**steps) for value in f},
    }


class AttentionTrial:
    """A decoder of three steps with attention and input feeding, and its gradients, one step at a time."""

    S = 3

    def __init__(self, kind: str) -> None:
        rng = np.random.default_rng(0)
        shapes = {
            "values": (T, 2, H), "x": (self.S, 2, H), "h0": (2, H), "W_hh": (H, H), "W_fh": (H, H), "W_q": (H, H),
            "W_c": (2 * H, H), **({"W_k": (H, H), "w_a": (H,)} if kind == "additive" else {}),
        }  # fmt: skip
        self.p = {name: rng.standard_normal(shape) * 0.7 for name, shape in shapes.items()}
        self.d_h_tilde = rng.standard_normal((self.S, 2, H))

    def forward(self, module: ModuleType = attention) -> tuple[list[Any], list[Array], list[Array]]:
        """h, the result of attention and h_tilde of each step."""
        p, h, fed, found = self.p, self.p["h0"], np.zeros((2, H)), []
        for x in p["x"]:
            h = np.tanh(x + fed @ p["W_fh"] + h @ p["W_hh"])
            look = module.attention_forward(h, self.keys(), p["values"], p["W_q"], p.get("w_a"))
            fed = module.combine_forward(h, look.context, p["W_c"])
            found.append((h, look, fed))
        return tuple(map(list, zip(*found, strict=True)))

    def keys(self) -> Array:
        return self.p["values"] @ self.p["W_k"] if "W_k" in self.p else self.p["values"]

    def loss(self) -> float:
        return float((np.stack(self.forward()[2]) * self.d_h_tilde).sum())

    def gradients(
        self, module: ModuleType = attention, *, feeds: bool = True, queries: bool = True, from_keys: bool = True
    ) -> dict[str, Array]:
        """Each switch that is False leaves one path out."""
        p, keys, (hs, looks, outputs) = self.p, self.keys(), self.forward()
        d = {name: np.zeros_like(array) for name, array in p.items()}
        d_keys, d_a = np.zeros_like(keys), np.zeros((2, H))
        for t in reversed(range(self.S)):
            before, fed = (hs[t - 1], outputs[t - 1]) if t else (p["h0"], np.zeros((2, H)))
            d_fed = self.d_h_tilde[t] + (d_a @ p["W_fh"].T if feeds else 0)
            c = module.combine_backward(d_fed, hs[t], looks[t].context, outputs[t], p["W_c"])
            a = module.attention_backward(c.d_context, hs[t], keys, p["values"], looks[t], p["W_q"], p.get("w_a"))
            d_a = (1 - hs[t] ** 2) * (c.d_h + (a.d_h if queries else 0) + d_a @ p["W_hh"].T)
            sums = {"W_c": c.d_W_c, "W_q": a.d_W_q, "w_a": a.d_w_a, "values": a.d_values, "W_hh": before.T @ d_a,
                    "W_fh": fed.T @ d_a}  # fmt: skip
            for name in sums.keys() & d.keys():
                d[name] += sums[name]
            d["x"][t], d_keys = d_a, d_keys + a.d_keys
        d["h0"] = d_a @ p["W_hh"].T
        if "W_k" in p:
            d["W_k"] = np.tensordot(p["values"], d_keys, axes=([0, 1], [0, 1]))
            d_keys = d_keys @ p["W_k"].T
        d["values"] += d_keys if from_keys else 0
        return d

    def error(self, *edits: tuple[str, str], of: str = "W_q", **switches: bool) -> float:
        module = edited_module(attention, *edits) if edits else attention
        return relative(self.gradients(module, **switches)[of], numeric(self.loss, self.p[of]))

    def right(self) -> float:
        d = self.gradients()
        return max(relative(d[name], numeric(self.loss, array)) for name, array in self.p.items())


def attending() -> dict[str, float]:
    """Mistakes in the backward pass of attention, the scale of scores, padding, and the path to the source."""
    dot, additive = AttentionTrial("dot"), AttentionTrial("additive")
    inner = " - (d_alpha * alpha).sum(axis=0)"
    found = {
        "attention-softmax": dot.error((inner, "")),
        "attention-diagonal": dot.error((inner, " - d_alpha * alpha")),
        "attention-scale": dot.error((".sum(axis=0) * scale", ".sum(axis=0)")),
        "attention-query": dot.error(of="W_hh", queries=False),
        "attention-keys": dot.error(of="values", from_keys=False),
        "attention-feed": dot.error(of="W_hh", feeds=False),
        "attention-tanh": additive.error(("(1 - e * e)", "(1 - e)")),
        "attention-w_a": additive.error(("[:, :, np.newaxis] * e)", "[:, :, np.newaxis] * (1 - e * e))"), of="w_a"),
    }
    rng, K = np.random.default_rng(0), 512
    h, keys = rng.standard_normal((200, K)), rng.standard_normal((12, 200, K))
    alphas, norms = [], []
    for scale in (1.0, K**0.5):  # times √K: this cancels the division by √K
        look = attention.attention_forward(scale * h, keys, keys, np.eye(K))
        d = attention.attention_backward(rng.standard_normal(h.shape), scale * h, keys, keys, look, np.eye(K))
        alphas.append(float(look.alpha.max(axis=0).mean()))
        norms.append(float(np.linalg.norm(d.d_keys / scale)))  # d_keys = d_score · q / √K
    short = attention.attention_forward(h[:1, :H], keys[:4, :1, :H], keys[:4, :1, :H], np.eye(H)).context
    padded = np.concatenate([keys[:4, :1, :H], np.zeros((8, 1, H))])
    long = attention.attention_forward(h[:1, :H], padded, padded, np.eye(H)).context
    return found | {
        "attention-largest": alphas[0], "attention-largest-unscaled": alphas[1],
        "attention-saturated": norms[0] / norms[1], "attention-padding": relative(long, short),
        **path_to_the_source(),
    }  # fmt: skip


def path_to_the_source(steps: int = 30) -> dict[str, float]:
    """Norm of the gradient on an encoder's first state over that on its last, without and with attention."""
    rng, size = np.random.default_rng(0), HIDDEN
    W_hh, x = 0.8 * maths.orthogonal(rng, (size, size)), rng.standard_normal((steps, 1, size))
    h = maths.rnn_forward(x, None, np.eye(size) * 0.3, W_hh, np.zeros(size))
    state, d_context = h[-1], rng.standard_normal((1, size))
    look = attention.attention_forward(state, h[1:], h[1:], np.eye(size))
    d = attention.attention_backward(d_context, state, h[1:], h[1:], look, np.eye(size))
    fixed = np.zeros((steps, 1, size))
    fixed[-1] = d_context
    found = {}
    for name, direct in (("attention-path-fixed", fixed), ("attention-path", d.d_values + d.d_keys)):
        # with W_xh = I, d_x is d_a, which is tanh' times d_h
        d_a = maths.rnn_backward(direct, np.zeros((steps, 1, size)), h, np.eye(size), W_hh).d_x
        d_h = d_a / (1 - h[1:] ** 2)
        found[name] = float(np.linalg.norm(d_h[0]) / np.linalg.norm(d_h[-1]))
    return found


def chain() -> dict[str, float]:
    """The scalar example: L = (y - 1)², y = tanh(u), u = w · x, at w = 0.5 and x = 2."""
    w, x = 0.5, 2.0
    y = math.tanh(w * x)
    d_y, y_u = 2 * (y - 1), 1 - y * y

    def loss(w: float) -> float:
        return (math.tanh(w * x) - 1) ** 2

    slope = (loss(w + 1e-6) - loss(w - 1e-6)) / 2e-6
    return {"chain-y": y, "chain-d_y": d_y, "chain-slope": y_u, "chain-d_w": d_y * y_u * x, "chain-numeric": slope}


def double_sum(n: Trial) -> Array:
    """d_W_hh as the double sum: every loss, every earlier use of W_hh, and the Jacobians between them."""
    d_W_hh = np.zeros((H, H))
    for t in range(T):
        for k in range(t + 1):
            d_h = n.out.d_h[t]
            for j in reversed(range(k + 1, t + 1)):
                d_h = d_h @ (n.f_prime[j, 0][:, np.newaxis] * n.W_hh.T)
            d_W_hh += n.h[k].T @ (n.f_prime[k] * d_h)
    return d_W_hh


def information() -> dict[str, float]:
    """Nats, bits and perplexity, and the effect of the temperature."""
    nats, o = 1.25, np.array([0.2, 0.5, 1.0])
    found = {"bits": nats / math.log(2), "perplexity": math.exp(nats), "uniform": math.log(65)}
    for tau in (0.5, 1.0, 2.0):
        y_hat = maths.softmax(o / tau)
        found |= {f"temperature-{tau}-{i}": float(y_hat[i]) for i in range(3)}
        found[f"temperature-{tau}-entropy"] = entropy_of(y_hat, y_hat)
    return found


def powers() -> dict[str, float]:
    """Norms of the powers of a matrix with spectral radius below 1 and largest singular value above 1."""
    W = np.array([[0.5, 4.0], [0.0, 0.5]])
    norms = {k: float(np.linalg.norm(np.linalg.matrix_power(W, k), 2)) for k in (1, 2, 5, 10, 20)}
    radius = float(np.abs(np.linalg.eigvals(W)).max())
    return {"radius": radius, "largest": norms[1]} | {f"power-{k}": norm for k, norm in norms.items()}


def first_steps() -> dict[str, float]:
    """How far each optimizer moves a parameter on its first step, for gradients of three sizes."""
    found = {}
    for name, optimizer in optimizers.OPTIMIZERS.items():
        for g in (0.001, 1.0, 1000.0):
            p, memory = np.zeros(1), [np.zeros(1) for _ in optimizer.memory]
            rates = optimizers.Rates(rate=0.1, t=1, momentum=0.9, decay=0.999, epsilon=1e-8, weight_decay=0.0)
            optimizers.update(name, p, np.array([g]), rates, memory)
            found[f"step-{name}-{g:g}"] = float(-p[0])
    return found


def kept(steps: int = 20) -> dict[str, float]:
    """How many numbers RTRL keeps, as a multiple of those that BPTT keeps."""
    return {f"rtrl-kept-{size}": (X + size + 1) * size**2 / (steps * size) for size in SIZES}


def mistakes() -> dict[str, float]:
    return note_000() | note_001() | note_002() | note_003() | note_004()


def numbers() -> dict[str, float]:
    """Every number of the document that does not depend on the machine: id → value."""
    parts = (mistakes, chain, information, vanishing, powers, clipping, first_steps, truncation, kept, gates, attending)
    return {name: value for part in parts for name, value in part().items()}


def shown(value: float) -> str:
    """Three digits, as the document writes them."""
    return f"{value:.0f}" if value == int(value) and abs(value) < 1e6 else f"{value:#.3g}".removesuffix(".")


NUMBER = re.compile(r"(?P<number>[-\d.e+?]+)<!-- (?P<id>[\w.-]+) -->")


if __name__ == "__main__":
    if "--cost" in sys.argv:
        for size, ratio in cost().items():
            print(f"H = {size:3}   RTRL takes {ratio:7.1f} times as long as BPTT")
    else:
        values = numbers()
        for name, value in values.items():
            print(f"{name:32} {shown(value)}")
        for name, value in (below() | above()).items():
            print(f"{name:32} {value:.1e}  (the document gives a bound)")
        if "--write" in sys.argv:
            document = Path(__file__).with_name("maths.md")
            text = NUMBER.sub(lambda m: f"{shown(values[m['id']])}<!-- {m['id']} -->", document.read_text("utf-8"))
            document.write_text(text, encoding="utf-8")
