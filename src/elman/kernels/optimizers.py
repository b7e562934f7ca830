"""Clipping and the optimizers: the equations of maths/optimizers.py, compiled; an update is one pass over flat arrays.

A large buffer is divided among the threads. Chunks have a fixed size, and their sums are added in a fixed order:
results do not depend on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from elman.kernels.compile import CHUNK, FLOATS, allocating_kernel, kernel
from elman.kernels.threads import run
from elman.maths import optimizers as reference
from elman.maths.arrays import Array
from elman.maths.optimizers import OPTIMIZERS, Rates, clip_by_value


def _chunks(size: int) -> Iterator[slice]:
    return (slice(start, min(start + CHUNK, size)) for start in range(0, max(size, 1), CHUNK))


def _in_chunks(function: Callable[..., Any], arrays: Sequence[Array], *numbers: Any) -> list[Any]:
    """The results of a kernel on each chunk of flat arrays of the same size, in the order of the chunks."""
    if arrays[0].size <= CHUNK:
        return [function(*arrays, *numbers)]
    return run([partial(function, *(a[part] for a in arrays), *numbers) for part in _chunks(arrays[0].size)])


@allocating_kernel
def _square(g):
    # Σ g² in 64 partial sums: in a single one, each addition would wait for the one before it; in double precision, in
    # which no square of a float32 overflows or underflows
    sums, whole = np.zeros(64), g.size // 64 * 64
    for start in range(0, whole, 64):
        part = g[start : start + 64]
        for j in range(64):
            sums[j] += np.float64(part[j]) * np.float64(part[j])
    for i in range(whole, g.size):
        sums[0] += np.float64(g[i]) * np.float64(g[i])
    half = 32
    while half:  # add the upper half to the lower one, until one number is left
        for j in range(half):
            sums[j] += sums[half + j]
        half //= 2
    return sums[0]


@kernel
def _scale(g, factor):
    for i in range(g.size):
        g[i] *= factor


def clip_in_place(g: Array, limit: float) -> float:
    norm = math.sqrt(sum(_in_chunks(_square, [g])))
    # g ← g · limit / ‖g‖
    if norm > limit:
        _in_chunks(_scale, [g], g.dtype.type(limit / norm))
    return norm


@kernel
def _add(total, part):
    for i in range(total.size):
        total[i] += part[i]


def add_up(total: Array, parts: Sequence[Array]) -> None:
    """Add flat arrays to `total`, one after another."""
    for part in parts:
        _in_chunks(_add, [total, part])


# In the formulas below g stands for scale · g + λ p: the clipped gradient with the weight decay that is not decoupled.


@kernel
def _sgd(p, g, scale, rate, decay):
    # p ← p - rate · g
    for i in range(p.size):
        p[i] -= rate * (scale * g[i] + decay * p[i])


@kernel
def _momentum(p, g, v, scale, rate, mu, decay):
    # v ← μ v + g,   p ← p - rate · v
    for i in range(p.size):
        v[i] = mu * v[i] + (scale * g[i] + decay * p[i])
        p[i] -= rate * v[i]


@kernel
def _rmsprop_or_adagrad(p, g, s, scale, rate, keep, add, epsilon, decay):
    # s ← keep · s + add · g²,   p ← p - rate · g / (√s + ε)
    for i in range(p.size):
        d = scale * g[i] + decay * p[i]
        s[i] = keep * s[i] + add * (d * d)
        p[i] -= rate * d / (np.sqrt(s[i]) + epsilon)


@kernel
def _adam(p, g, m, v, scale, rate, beta1, add1, beta2, add2, root, epsilon, decay, shrink):
    # m ← β1 m + (1 - β1) g,   v ← β2 v + (1 - β2) g²,   p ← shrink · p - rate · m / (√(v · root) + ε)
    for i in range(p.size):
        d = scale * g[i] + decay * p[i]
        m[i] = beta1 * m[i] + add1 * d
        v[i] = beta2 * v[i] + add2 * (d * d)
        p[i] = shrink * p[i] - rate * (m[i] / (np.sqrt(v[i] * root) + epsilon))


def update(name: str, p: Array, g: Array, r: Rates, memory: list[Array]) -> None:
    """maths.optimizers.update, compiled; the kernels do not change g."""
    if p.dtype not in FLOATS:
        reference.update(name, p, g, r, memory)
        return
    n = p.dtype.type
    decay, scale = n(0 if OPTIMIZERS[name].decoupled else r.weight_decay), n(r.scale)
    if name == "sgd":
        _in_chunks(_sgd, [p, g], scale, n(r.rate), decay)
    elif name == "momentum":
        _in_chunks(_momentum, [p, g, *memory], scale, n(r.rate), n(r.momentum), decay)
    elif name in ("rmsprop", "adagrad"):
        keep, add = (r.decay, 1 - r.decay) if name == "rmsprop" else (1, 1)
        _in_chunks(_rmsprop_or_adagrad, [p, g, *memory], scale, n(r.rate), n(keep), n(add), n(r.epsilon), decay)
    else:
        # rate / (1 - β1^t) and 1 / (1 - β2^t) correct for m and v starting at zero
        rate, root = r.rate / (1 - r.momentum**r.t), 1 / (1 - r.decay**r.t)
        shrink = 1 - r.rate * r.weight_decay if OPTIMIZERS[name].decoupled else 1
        # 1 - β in double precision: float32(1) - float32(0.999) is off in the fifth digit
        betas = n(r.momentum), n(1 - r.momentum), n(r.decay), n(1 - r.decay)
        _in_chunks(_adam, [p, g, *memory], scale, n(rate), *betas, n(root), n(r.epsilon), decay, n(shrink))


__all__ = ["Rates", "add_up", "clip_in_place", "clip_by_value", "update"]
