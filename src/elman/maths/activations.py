"""Activations: h = f(a), and f'(a) written in terms of h, because h is what the forward pass keeps.

Names in brackets at the ends of comments, such as [tanh], mark quoted lines: see elman/maths/__init__.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from elman.errors import ArgumentError, UnknownNameError
from elman.maths.arrays import Array


class Activation(NamedTuple):
    """An activation function and its derivative; your own pair can be given wherever a name can.

    Attributes
    ----------
    function : callable
        h = f(a), entry by entry.
    derivative : callable
        f'(a) as a function of h = f(a), entry by entry.
    """

    function: Callable[[Array], Array]
    derivative: Callable[[Array], Array]


ACTIVATIONS = {
    "tanh": Activation(np.tanh, lambda h: 1 - h * h),  # [tanh]
    "relu": Activation(lambda a: np.maximum(a, 0), lambda h: (h > 0).astype(h.dtype)),  # [relu]
    # tanh instead of 1 / (1 + exp(-a)), in which exp(-a) can overflow
    "sigmoid": Activation(lambda a: (1 + np.tanh(a / 2)) / 2, lambda h: h * (1 - h)),  # [sigmoid]
    "identity": Activation(lambda a: a, np.ones_like),  # [identity]
}

ActivationLike: TypeAlias = str | Activation | tuple[Callable[[Array], Array], Callable[[Array], Array]]


def get_activation(activation: ActivationLike) -> Activation:
    """Return an activation by name, or a pair of functions as an Activation.

    Parameters
    ----------
    activation : str or pair
        tanh, relu, sigmoid, identity, or a pair of f(a) and f' in terms of h.

    Returns
    -------
    Activation
        `.function` and `.derivative`.

    Examples
    --------
    >>> from elman import maths
    >>> maths.get_activation("relu").function(-2.0)
    np.float64(0.0)
    """
    if isinstance(activation, str):
        if activation not in ACTIVATIONS:
            names = ", ".join(ACTIVATIONS)
            raise UnknownNameError("activation", expected=f"one of {names}, or a pair (f, f')", got=repr(activation))
        return ACTIVATIONS[activation]
    if isinstance(activation, tuple) and len(activation) == 2 and all(map(callable, activation)):
        return Activation(*activation)
    raise ArgumentError("activation", expected="a name, or a pair (f(a), f' in terms of h)", got=repr(activation))
