"""The base class of recurrent cells: a cell computes the state after a step from the state before it.

A cell has G gates and P state parts. In the code each block of H columns of W_xh and W_hh counts as a gate, even that
of the candidate of a GRU or an LSTM and the only one of a vanilla cell. The time loop (recurrence.py) computes two
products for the cell, of all gates at once,

    a_x[t] = x[t] @ W_xh + b_h      (B, G·H)
    a_h[t] = h[t] @ W_hh            (B, G·H)

and the cell computes the rest entry by entry. The products are passed separately because a GRU gates the second one.
The first state part is h, which is multiplied by W_hh and is the output of the cell; an LSTM has a second one, c.
Names in brackets at the ends of comments, such as [unit], mark quoted lines: see elman/maths/__init__.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from elman.errors import ArgumentError
from elman.maths.activations import ActivationLike
from elman.maths.arrays import Array

Weights = Mapping[str, Array]  # the parameters of one cell by name
Kept = tuple[Array, ...]  # (B, …) each: what forward keeps for backward


class StepGradients(NamedTuple):
    """The gradients of one step, given the gradient of the state after it."""

    d_a_x: Array  # (B, G·H), of the input product
    d_a_h: Array  # (B, G·H), of the recurrent product; the same array if the cell only adds the two products
    d_s: Array  # (P, B, H), of the state before the step, without the part that goes through W_hh
    d_p: dict[str, Array]  # of the extra parameters of the cell


class Cell(ABC):
    """A recurrent cell: its parameters, and one step forward and backward.

    Parameters
    ----------
    activation : str or pair
        The activation function of a vanilla cell; gated cells have tanh only.

    Attributes
    ----------
    name : str
        Its name in the table of cells.
    gate_names : tuple of str
        The names of the G gates, in the order of the columns of W_xh, W_hh and b_h.
    state_names : tuple of str
        The names of the P state parts; the first is h.
    kept_names : tuple of str
        The names of the arrays that forward keeps for backward; gates come first.
    """

    name: ClassVar[str]
    gate_names: ClassVar[tuple[str, ...]] = ("a",)
    state_names: ClassVar[tuple[str, ...]] = ("h",)
    kept_names: ClassVar[tuple[str, ...]] = ()

    def __init__(self, activation: ActivationLike = "tanh") -> None:
        if activation != "tanh":
            raise ArgumentError("activation", expected=f"tanh, the only one of cell {self.name}", got=repr(activation))
        self.activation: ActivationLike = activation

    @property
    def gates(self) -> int:
        """G, the number of gates."""
        return len(self.gate_names)

    @property
    def parts(self) -> int:
        """P, the number of state parts."""
        return len(self.state_names)

    def extra_shapes(self, H: int) -> dict[str, tuple[int, ...]]:
        """The shapes of the parameters besides W_xh, W_hh and b_h.

        Parameters
        ----------
        H : int
            The number of units.

        Returns
        -------
        dict of str to tuple
            By name.
        """
        return {}

    def shapes(self, X: int, H: int) -> dict[str, tuple[int, ...]]:
        """The shapes of all parameters.

        Parameters
        ----------
        X, H : int
            The numbers of inputs and units.

        Returns
        -------
        dict of str to tuple
            By name.
        """
        G = self.gates
        return {"W_xh": (X, G * H), "W_hh": (H, G * H), "b_h": (G * H,), **self.extra_shapes(H)}

    def initial_bias(self, H: int, *, forget_bias: float = 1.0) -> Array:
        """The bias b_h before training: 0, except for a forget gate.

        Parameters
        ----------
        H : int
            The number of units.
        forget_bias : float
            The bias of a forget gate.

        Returns
        -------
        array (G·H,)
        """
        return np.zeros(self.gates * H)

    @abstractmethod
    def forward(self, a_x: Array, a_h: Array, s: Array, p: Weights) -> tuple[Array, Kept]:
        """Take one step.

        Parameters
        ----------
        a_x, a_h : arrays (B, G·H)
            The input product, with the bias, and the recurrent product.
        s : array (P, B, H)
            The state before the step.
        p : dict of arrays
            The parameters of the cell by name.

        Returns
        -------
        array (P, B, H), tuple of arrays (B, …)
            The state after the step, and what backward needs besides the states.
        """

    @abstractmethod
    def backward(self, d_s: Array, s: Array, s_next: Array, kept: Kept, p: Weights) -> StepGradients:
        """Compute the gradients of the same step.

        Parameters
        ----------
        d_s : array (P, B, H)
            The gradient of the loss with respect to the state after the step.
        s, s_next : arrays (P, B, H)
            The states before and after the step.
        kept : tuple of arrays (B, …)
            What forward has kept.
        p : dict of arrays
            The parameters of the cell by name.

        Returns
        -------
        StepGradients
        """

    def whole_backward(self, d_s: Array, s: Array, s_next: Array, kept: Kept, p: Weights) -> StepGradients:
        """Compute the gradients of the same step, with the part of d_s that goes through W_hh.

        Parameters
        ----------
        d_s, s, s_next, kept, p
            As in backward.

        Returns
        -------
        StepGradients
            Its d_s is the whole gradient of the state before the step.
        """
        step = self.backward(d_s, s, s_next, kept, p)
        d_before = step.d_s.copy()
        d_before[0] += step.d_a_h @ p["W_hh"].T  # (B, H) [through_W_hh]
        return step._replace(d_s=d_before)

    def jacobian(self, s: Array, s_next: Array, kept: Kept, p: Weights) -> Array:
        """The Jacobian ∂s[t+1]/∂s[t] of one row.

        Parameters
        ----------
        s, s_next : arrays (P, 1, H)
            The states before and after the step.
        kept : tuple of arrays (1, …)
            What forward has kept.
        p : dict of arrays
            The parameters of the cell by name.

        Returns
        -------
        array (P·H, P·H)
            Entry (i, j) is the derivative of entry j of s[t+1] with respect to entry i of s[t]. A state has
            all entries of h first, then those of the next part.
        """
        P, _, H = s.shape  # (P, 1, H)
        N = P * H
        unit = np.eye(N, dtype=s.dtype).reshape(N, P, H).swapaxes(0, 1)  # (P, N, H), unit vectors [unit]
        before, after = np.repeat(s, N, axis=1), np.repeat(s_next, N, axis=1)  # (P, N, H)
        rows = tuple(np.repeat(a, N, axis=0) for a in kept)  # (N, …)
        d_s = self.whole_backward(unit, before, after, rows, p).d_s  # (P, N, H) [step]
        return d_s.swapaxes(0, 1).reshape(N, N).T  # [jacobian]
