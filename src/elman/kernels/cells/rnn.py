"""The vanilla cell, compiled; the equations are those of maths/cells/rnn.py.

The states overwrite the pre-activations, and d_a overwrites d_h: forward a is h, and backward a is d.
"""

from __future__ import annotations

from elman.kernels.cells import make_kernels
from elman.kernels.compile import inline
from elman.kernels.elementwise import CODES, activate, activate_backward
from elman.maths.cells import Cell


@inline
def step_forward(option, a, at, s, before, after, stride, rows, H):
    # h[t+1] = tanh(a[t])
    activate(a[at : at + rows * H], option)


@inline
def step_backward(option, a, at, d, d_at, d_s, d_s_at, d_stride, s, before, after, stride, to, to_at, rows, H):
    # d_a[t] = (1 - h[t+1]²) ⊙ d_h[t+1]
    activate_backward(a[at : at + rows * H], s[after : after + rows * H], option)


def option(cell: Cell) -> int | None:
    """The number of the activation; None if it is not one of the compiled ones."""
    return CODES.get(cell.activation) if isinstance(cell.activation, str) else None


KERNELS = make_kernels(step_forward, step_backward, option=option, in_place=True)
