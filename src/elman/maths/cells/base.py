"""What a recurrent cell is: the part of the network that turns the state before a step into the state after it.

A cell has G gates and P state parts. The time loop (recurrence.py) computes two products for it, of all gates at once,

    a_x[t] = x[t] @ W_xh + b_h      (B, G·H)
    a_h[t] = h[t] @ W_hh            (B, G·H)

and the cell does the rest, entry by entry. They stay apart because some cells gate the second one. The first state part
is h, the one that enters W_hh and leaves the cell; an LSTM has a second one, c.
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
Kept = tuple[Array, ...]  # (B, …) each


class StepGradients(NamedTuple):
    """Gradients of one step, given that of the state after it."""

    d_a_x: Array  # (B, G·H), on the input product
    d_a_h: Array  # (B, G·H), on the recurrent product; the same array where both products are simply added
    d_s: Array  # (P, B, H), on the state before the step, without what goes through W_hh
    d_p: dict[str, Array]  # on the cell's extra parameters


class Cell(ABC):
    """One row of the table of cells."""

    name: ClassVar[str]
    gate_names: ClassVar[tuple[str, ...]] = ("a",)  # of the G gates, in the order of the columns of W_xh, W_hh and b_h
    state_names: ClassVar[tuple[str, ...]] = ("h",)  # of the P state parts; h is the first
    kept_names: ClassVar[tuple[str, ...]] = ()  # of what forward keeps for backward; where there are any, gates first

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
        """Parameters besides W_xh, W_hh and b_h."""
        return {}

    def shapes(self, X: int, H: int) -> dict[str, tuple[int, ...]]:
        """All parameters of a cell with X inputs and H units."""
        G = self.gates
        return {"W_xh": (X, G * H), "W_hh": (H, G * H), "b_h": (G * H,), **self.extra_shapes(H)}

    def initial_bias(self, H: int, *, forget_bias: float = 1.0) -> Array:
        """b_h (G·H,) before training: 0, except that of a forget gate."""
        return np.zeros(self.gates * H)

    @abstractmethod
    def forward(self, a_x: Array, a_h: Array, s: Array, p: Weights) -> tuple[Array, Kept]:
        """One step: the state (P, B, H) after it, and what backward needs besides the states."""

    @abstractmethod
    def backward(self, d_s: Array, s: Array, s_next: Array, kept: Kept, p: Weights) -> StepGradients:
        """The same step backward, from d_s (P, B, H) on the state after it, s_next."""

    def whole_backward(self, d_s: Array, s: Array, s_next: Array, kept: Kept, p: Weights) -> StepGradients:
        """backward, with d_s complete: what goes through W_hh is added."""
        step = self.backward(d_s, s, s_next, kept, p)
        d_before = step.d_s.copy()
        d_before[0] += step.d_a_h @ p["W_hh"].T  # (B, H) [through_W_hh]
        return step._replace(d_s=d_before)

    def jacobian(self, s: Array, s_next: Array, kept: Kept, p: Weights) -> Array:
        """∂s[t+1]/∂s[t] of one row, (P·H, P·H): entry (i, j) says how entry i of s[t] moves entry j of s[t+1]."""
        P, _, H = s.shape  # (P, 1, H)
        every = P * H
        unit = np.eye(every, dtype=s.dtype).reshape(every, P, H).swapaxes(0, 1)  # a row for each entry of s[t+1] [unit]
        before, after = np.repeat(s, every, axis=1), np.repeat(s_next, every, axis=1)
        rows = tuple(np.repeat(a, every, axis=0) for a in kept)
        d_s = self.whole_backward(unit, before, after, rows, p).d_s  # [step]
        return d_s.swapaxes(0, 1).reshape(every, every).T  # [jacobian]
