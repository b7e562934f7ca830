"""The numbers of docs/maths.md: the common mistakes against numeric derivatives, vanishing, clipping, truncation.

    python docs/mistakes.py            print every number, by its id
    python docs/mistakes.py --write    write them into docs/maths.md, wherever <!-- id --> follows a number
    python docs/mistakes.py --cost     time RTRL against BPTT (the only numbers that depend on the machine)

What is right comes from elman.maths; only what is wrong is written here. The sizes are all 4 where they can be: a wrong
shape then multiplies without complaint, and only a number can show the mistake.
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

import numpy as np

from elman import maths
from elman.errors import ShapeError
from elman.maths import Array

T, X, H, Y = 6, 4, 4, 4
GAINS, SPANS, REACHES, SIZES = (0.5, 1.0, 1.5), (10, 50), (1, 2, 4, 8, 16), (8, 32, 64, 128)
TEXT = "the cat sat on the mat. the dog sat on the log. a hen met ten men. "


class Trial:
    """A network of the notes' kind, one sequence long, with the numeric derivative that judges all of them."""

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
        """The weight gradients that follow from a given d_h: with W_hh = 0 nothing is sent on."""
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


def entropy(ids: Array) -> float:
    share = np.bincount(ids.ravel()) / ids.size
    return float(-(share * np.log(share, where=share > 0, out=np.zeros_like(share))).sum())


def below() -> dict[str, float]:
    """What is right, as far as rounding allows: the document gives a bound for these."""
    n = Trial()
    d = n.right._asdict() | n.out._asdict()
    forward_mode = maths.rtrl(n.out.d_h, n.x, n.h, n.W_xh, n.W_hh)
    return {
        "right": max(n.error(d["d_" + name], name) for name in n.p),
        "rtrl": max(relative(getattr(forward_mode, name), d[name]) for name in ("d_W_xh", "d_W_hh", "d_b_h", "d_h0")),
    }


def above() -> dict[str, float]:
    """What training by note 001's rules comes to: it is chaotic, so the document gives bounds."""
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
    return {
        "000-minus": n.error(-n.right.d_W_hh, "W_hh"),
        "000-softmax-minus": float(-n.y_hat[0].sum()),
        "000-n": float(maths.softmax(np.array([0.2, 0.5, 1.0]))[: len("ca")].sum()),
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
    W_xh_second, b_h_note = np.zeros((3, 4)), np.zeros(4)  # as rows: the note's matrices stand the other way
    for fits, W, b in ((True, W_xh, b_h), (False, W_xh_second, b_h), (False, W_xh, b_h_note)):
        assert fits != is_refused(maths.rnn_forward, x, None, W, W_hh, b)
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


def is_refused(function: Callable[..., Array], *arguments: Array | None) -> bool:
    try:
        function(*arguments)
    except ShapeError:
        return True
    return False


def text_ids() -> Array:
    letters = sorted(set(TEXT))
    return np.array([letters.index(letter) for letter in TEXT])


def train(rule: str, *, hidden: int = 32, steps: int = 300, rate: float = 0.1) -> tuple[float, Array]:
    """Loss per letter and states after training on TEXT: right, hidden weights frozen, or by note 001's rules.

    The rate is small enough that the first two come to the same three digits on every CPU.
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
        if rule == "right":
            d = maths.rnn_backward(out.d_h, x, h, W_xh, W_hh)
        elif rule == "001":
            d_o_001 = maths.softmax(o).sum(axis=0, keepdims=True) / len(x)  # WRONG: no - y, and a sum over t
            d_h_001 = maths.output_backward(d_o_001, h[:1], W_hy).d_h  # the same for every step
            # its two terms without recursion are a reach of two steps
            d = maths.truncated_backward(np.repeat(d_h_001, len(x), axis=0), x, h, W_xh, W_hh, k1=1, k2=2)
        if rule != "frozen":
            for weight, d_weight in zip((W_xh, W_hh, b_h), d[:3], strict=True):
                weight -= rate * d_weight
        W_hy -= rate * out.d_W_hy
        b_y -= rate * out.d_b_y
    return loss, h[1:]


def note_002() -> dict[str, float]:
    n, clip = Trial(), clipping()
    sent_back = n.backward(n.out.d_h[3:], x=n.x[3:], h=n.h[3:]).d_h0  # d_a[3] @ W_hh.T
    return {
        "002-activation": n.error(n.from_states(n.d_h, activation="identity").d_W_hh, "W_hh"),
        "002-products": float(np.dot(n.d_o[0, 0], n.h[1, 0]).size),
        "002-products-right": float(np.outer(n.h[1, 0], n.d_o[0, 0]).size),
        "002-last": relative(sent_back, n.d_h[3]),
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
    one_step = maths.truncated_backward(n.out.d_h, n.x, n.h, n.W_xh, n.W_hh, k1=1, k2=1)
    return {
        "003-parse": column,
        "003-alias": round(abs(float(o[0].sum())), 12),
        "003-alias-right": float(n.y_hat[0].sum()),
        "003-s": n.error(n.right.d_W_hh + (s[0] - n.h[0]).T @ n.d_a[0], "W_hh"),
        "003-recursion": n.error(one_step.d_W_xh, "W_xh"),
        "003-biases": math.log(len(set(TEXT))),
        "003-biases-right": entropy(text_ids()[1:]),
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
    return {
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
        for k2 in REACHES
    }  # fmt: skip


def cost(steps: int = 20) -> dict[int, float]:
    """For each H: the time of RTRL as a multiple of that of BPTT."""
    from threadpoolctl import threadpool_limits  # one thread for both, or the larger products would win by cores

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


def kept(steps: int = 20) -> dict[str, float]:
    """The numbers that RTRL carries, as a multiple of the states that BPTT keeps."""
    return {f"rtrl-kept-{size}": (X + size + 1) * size**2 / (steps * size) for size in SIZES}


def mistakes() -> dict[str, float]:
    return note_000() | note_001() | note_002() | note_003() | note_004()


def numbers() -> dict[str, float]:
    """Every number of the document that does not depend on the machine: id → value."""
    return mistakes() | vanishing() | clipping() | truncation() | kept()


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
