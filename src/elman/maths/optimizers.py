"""Clipping of gradients, and the optimizers.

clip_by_norm and sgd_step take arrays by name and return new ones: they are to be read beside their equations. All other
functions serve training. They change the parameters p in place, given the gradient g and their own state: flat arrays
(N,) with the entries of all parameters. t counts updates from 1.

Names in brackets at the ends of comments, such as [p], mark quoted lines: see elman/maths/__init__.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from elman.maths.arrays import Array


def global_norm(g: Array) -> float:
    """The Euclidean norm of the gradient of all parameters."""
    # ‖g‖ = √ Σ g²
    return float(np.sqrt(np.dot(g, g)))


class Clipped(NamedTuple):
    """The result of `clip_by_norm`.

    Attributes
    ----------
    gradients : dict of arrays
        The clipped gradients by name.
    norm : float
        The norm of all gradients together before clipping.
    scale : float
        The factor by which all of them were multiplied; 1 if the norm is not above the limit.
    """

    gradients: dict[str, Array]
    norm: float
    scale: float


def clip_by_norm(gradients: Mapping[str, Array], limit: float) -> Clipped:
    """Shorten the gradients of all parameters, taken as one vector, to a norm of at most `limit`.

    Parameters
    ----------
    gradients : mapping of arrays
        The gradient of each parameter by its name; arrays of any shapes.
    limit : float
        The largest norm that is left as it is.

    Returns
    -------
    Clipped
        New arrays, the norm before clipping, and the factor.

    Examples
    --------
    >>> import numpy as np
    >>> from elman import maths
    >>> clipped = maths.clip_by_norm({"W_hh": np.array([[3.0]]), "b_h": np.array([4.0])}, limit=1.0)
    >>> clipped.norm, clipped.scale
    (5.0, 0.2)
    """
    # norm = ‖d‖ = √ Σ d², over all entries of all gradients
    norm = global_norm(np.concatenate([d.ravel() for d in gradients.values()]))
    # scale = min(1, limit / norm); a norm of 0 divides nothing
    scale = limit / norm if norm > limit else 1.0  # [scale]
    # d_p ← scale · d_p
    return Clipped({name: scale * d for name, d in gradients.items()}, norm, scale)


def sgd_step(parameters: Mapping[str, Array], gradients: Mapping[str, Array], rate: float) -> dict[str, Array]:
    """Move every parameter against its gradient: one step of gradient descent.

    Parameters
    ----------
    parameters : mapping of arrays
        The parameters by name; arrays of any shapes.
    gradients : mapping of arrays
        Their gradients by the same names, of the same shapes.
    rate : float
        The learning rate η.

    Returns
    -------
    dict of arrays
        The parameters after the step, in new arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from elman import maths
    >>> maths.sgd_step({"b_h": np.array([1.0, 2.0])}, {"b_h": np.array([1.0, -1.0])}, rate=0.5)
    {'b_h': array([0.5, 2.5])}
    """
    # p ← p - η · d_p
    return {name: p - rate * gradients[name] for name, p in parameters.items()}  # [p]


def clip_in_place(g: Array, limit: float) -> float:
    """Scale g in place to the norm `limit` if its norm is larger, and return the norm before."""
    norm = global_norm(g)
    # g ← g · limit / ‖g‖
    if norm > limit:
        g *= limit / norm
    return norm


def clip_by_value(g: Array, limit: float) -> None:
    """Clip each entry of g in place to [-limit, limit]."""
    np.clip(g, -limit, limit, out=g)


class Rates(NamedTuple):
    """The hyperparameters of one update."""

    rate: float  # learning rate
    t: int  # number of the update, from 1
    momentum: float  # μ of momentum; β1 of Adam
    decay: float  # ρ of RMSProp; β2 of Adam
    epsilon: float  # ε
    weight_decay: float  # λ
    scale: float = 1.0  # the gradient is multiplied by it first: below 1 if it is clipped


def sgd(p: Array, g: Array, r: Rates) -> None:
    # p ← p - rate · g
    p -= r.rate * g  # [p]


def momentum(p: Array, g: Array, r: Rates, v: Array) -> None:
    # v ← μ v + g,   p ← p - rate · v
    v *= r.momentum
    v += g
    p -= r.rate * v  # [p]


def rmsprop(p: Array, g: Array, r: Rates, s: Array) -> None:
    # s ← ρ s + (1 - ρ) g²,   p ← p - rate · g / (√s + ε)
    s *= r.decay
    s += (1 - r.decay) * g * g
    p -= r.rate * g / (np.sqrt(s) + r.epsilon)  # [p]


def adagrad(p: Array, g: Array, r: Rates, s: Array) -> None:
    # s ← s + g²,   p ← p - rate · g / (√s + ε)
    s += g * g
    p -= r.rate * g / (np.sqrt(s) + r.epsilon)  # [p]


def adam(p: Array, g: Array, r: Rates, m: Array, v: Array) -> None:
    # m ← β1 m + (1 - β1) g,   v ← β2 v + (1 - β2) g²
    m *= r.momentum
    m += (1 - r.momentum) * g
    v *= r.decay
    v += (1 - r.decay) * g * g
    # p ← p - rate · (m / (1 - β1^t)) / (√(v / (1 - β2^t)) + ε)
    step = m / (np.sqrt(v / (1 - r.decay**r.t)) + r.epsilon)  # [step]
    p -= r.rate / (1 - r.momentum**r.t) * step  # [p]


def adamw(p: Array, g: Array, r: Rates, m: Array, v: Array) -> None:
    # p ← p - rate · λ p: decoupled weight decay, not part of the gradient
    p *= 1 - r.rate * r.weight_decay  # [decay]
    adam(p, g, r, m, v)


class Optimizer(NamedTuple):
    """A row of the table of optimizers."""

    update: Callable[..., None]
    memory: tuple[str, ...]  # names of its state arrays, which have the size of p and start at zero
    decoupled: bool = False  # applies weight decay itself


OPTIMIZERS = {
    "sgd": Optimizer(sgd, ()),
    "momentum": Optimizer(momentum, ("v",)),
    "rmsprop": Optimizer(rmsprop, ("s",)),
    "adagrad": Optimizer(adagrad, ("s",)),
    "adam": Optimizer(adam, ("m", "v")),
    "adamw": Optimizer(adamw, ("m", "v"), decoupled=True),
}


def update(name: str, p: Array, g: Array, r: Rates, memory: list[Array]) -> None:
    """Update p with the optimizer of this name; weight decay adds λ p to the gradient unless it is decoupled.

    g is changed, too: by r.scale, and by weight decay that is not decoupled.
    """
    optimizer = OPTIMIZERS[name]
    if r.scale != 1:
        # g ← g · limit / ‖g‖
        g *= r.scale
    if r.weight_decay and not optimizer.decoupled:
        # g ← g + λ p
        g += r.weight_decay * p
    optimizer.update(p, g, r, *memory)
