"""A slow second opinion: one row and one step at a time, f' written in terms of a. Nothing here calls elman."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

# name: what the library is given, f(a), f'(a)
OWN_PAIR = (lambda a: a / (1 + abs(a)), lambda h: (1 - abs(h)) ** 2)
ACTIVATIONS: dict[str, tuple[Any, Any, Any]] = {
    "tanh": ("tanh", math.tanh, lambda a: 1 / math.cosh(a) ** 2),
    "relu": ("relu", lambda a: a if a > 0 else 0.0, lambda a: 1.0 if a > 0 else 0.0),
    "sigmoid": ("sigmoid", lambda a: 1 / (1 + math.exp(-a)), lambda a: math.exp(-a) / (1 + math.exp(-a)) ** 2),
    "identity": ("identity", lambda a: a, lambda a: 1.0),
    "own pair": (OWN_PAIR, lambda a: a / (1 + abs(a)), lambda a: 1 / (1 + abs(a)) ** 2),
}
GRADIENTS = ("d_W_xh", "d_W_hh", "d_b_h", "d_x", "d_h0")


@dataclass
class Network:
    """One call's arguments, and a direct gradient on every state."""

    x: np.ndarray
    h0: np.ndarray
    W_xh: np.ndarray
    W_hh: np.ndarray
    b_h: np.ndarray
    d_h_direct: np.ndarray
    activation: str = "tanh"
    lengths: np.ndarray | None = None
    h_mask: np.ndarray | None = None
    reverse: bool = False

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return (*self.x.shape[:2], *self.W_xh.shape)  # T, B, X, H

    @property
    def weights(self) -> tuple[np.ndarray, ...]:
        return self.W_xh, self.W_hh, self.b_h

    @property
    def options(self) -> dict[str, Any]:
        options = {"activation": ACTIVATIONS[self.activation][0], "lengths": self.lengths, "h_mask": self.h_mask}
        return {**options, "reverse": True} if self.reverse else options

    @property
    def one_hot(self) -> np.ndarray:
        return np.eye(len(self.W_xh))[self.x] if self.x.ndim == 2 else self.x

    def with_(self, **changes: Any) -> Network:
        return replace(self, **changes)

    def astype(self, dtype: Any) -> Network:
        arrays = {name: value.astype(dtype) for name, value in vars(self).items()
                  if isinstance(value, np.ndarray) and value.dtype.kind == "f"}  # fmt: skip
        return replace(self, **arrays)


def make(seed, T, B, X, H, *, activation="tanh", ids=False, ragged=False, masked=False, reverse=False) -> Network:
    rng = np.random.default_rng(seed)
    scale = 0.8 / np.sqrt(H)
    return Network(
        x=rng.integers(X, size=(T, B)) if ids else rng.standard_normal((T, B, X)),
        h0=rng.standard_normal((B, H)),
        W_xh=rng.standard_normal((X, H)),
        W_hh=rng.standard_normal((H, H)) * scale,
        b_h=rng.standard_normal(H) * 0.3,
        d_h_direct=rng.standard_normal((T, B, H)),
        activation=activation,
        lengths=rng.integers(0, T + 1, size=B) if ragged else None,
        h_mask=rng.integers(2, size=(B, H)) * 2.0 if masked else None,
        reverse=reverse,
    )


@st.composite
def networks(draw: st.DrawFn, *, reverse: bool | None = None) -> Network:
    T, B, X, H = (draw(st.integers(1, most)) for most in (7, 4, 3, 4))
    return make(
        draw(st.integers(0, 2**32)), T, B, X, H,
        activation=draw(st.sampled_from(list(ACTIVATIONS))),
        ids=draw(st.booleans()), ragged=draw(st.booleans()), masked=draw(st.booleans()),
        reverse=draw(st.booleans()) if reverse is None else reverse,
    )  # fmt: skip


def _row(n: Network, row: int) -> tuple[int, list[int], np.ndarray]:
    """A row's length, its steps in the order in which they run, and its mask."""
    T, _, _, H = n.shape
    length = T if n.lengths is None else int(n.lengths[row])
    order = list(range(length))
    return length, order[::-1] if n.reverse else order, np.ones(H) if n.h_mask is None else n.h_mask[row]


def forward(n: Network) -> np.ndarray:
    """h, where a padded state is the last valid one: in reverse, where padding comes first, the initial one."""
    T, B, _, H = n.shape
    f = ACTIVATIONS[n.activation][1]
    h = np.empty((T + 1, B, H))
    for row in range(B):
        length, order, mask = _row(n, row)
        state = h[0, row] = n.h0[row]
        for t in order:
            a = n.b_h + n.one_hot[t, row] @ n.W_xh + (mask * state) @ n.W_hh
            state = h[t + 1, row] = np.array([f(float(a_k)) for a_k in a])
        h[length + 1 :, row] = n.h0[row] if n.reverse else state
    return h


def backward(n: Network, k1: int | None = None, k2: int | None = None) -> dict[str, np.ndarray]:
    """Each loss alone, sent back step by step: to the start, or over the last k2 steps up to its block's end."""
    T, B, X, H = n.shape
    h, x = forward(n), n.one_hot
    f_prime = ACTIVATIONS[n.activation][2]
    d = dict(zip(GRADIENTS, map(np.zeros, ((X, H), (H, H), (H,), (T, B, X), (B, H))), strict=True))
    for row in range(B):
        length, order, mask = _row(n, row)
        before = {t: (order[i - 1] + 1 if i else 0) for i, t in enumerate(order)}
        for loss in range(T):
            d_h = n.d_h_direct[loss, row]
            # a padded state is a valid one, or the initial one
            last = order.index(loss) if loss < length else -1 if n.reverse else length - 1
            start = 0
            if k1 is not None and k2 is not None:
                end = min((loss // k1 + 1) * k1, length)
                start = max(0, end - k2)
            for i in range(last, start - 1, -1):
                t = order[i]
                state = mask * h[before[t], row]
                a = n.b_h + x[t, row] @ n.W_xh + state @ n.W_hh
                d_a = np.array([f_prime(float(a_k)) for a_k in a]) * d_h
                d["d_W_xh"] += np.outer(x[t, row], d_a)
                d["d_W_hh"] += np.outer(state, d_a)
                d["d_b_h"] += d_a
                d["d_x"][t, row] += n.W_xh @ d_a
                d_h = mask * (n.W_hh @ d_a)
            if start == 0:
                d["d_h0"][row] += d_h
    return d


def assert_same(ours: Any, theirs: Any, *, atol: float = 1e-12) -> None:
    """Two sets of gradients agree; where x holds ids there is no d_x."""
    ours, theirs = (g if isinstance(g, dict) else g._asdict() for g in (ours, theirs))
    for name in GRADIENTS:
        if ours[name] is not None and theirs[name] is not None:
            np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-11, atol=atol, err_msg=name)
