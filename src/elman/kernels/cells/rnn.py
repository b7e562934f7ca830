"""The vanilla cell, compiled: maths/cells/rnn.py. Pre-activations lie where the states will, and d_a where d_h was."""

from __future__ import annotations

from elman.kernels.cells import CellKernels
from elman.kernels.compile import inline, kernel
from elman.kernels.elementwise import CODES, activate, through
from elman.kernels.sample import sample_tokens
from elman.kernels.steps import backward_layer, forward_layer
from elman.maths.cells import Cell


@inline
def step_forward(option, extra, a, r, kept, s, before, after, stride, rows, H):
    # h[t+1] = tanh(a[t])
    activate(a, option)


@inline
def step_backward(
    option, extra, d_extra, d_h, d_s, d_stride, a, kept, s, before, after, stride, d_z, d_r, d_before, rows, H
):
    # d_a[t] = (1 - h[t+1]²) ⊙ d_h[t+1]
    through(d_z, s[after : after + rows * H], option)


@kernel
def forward(option, ids, x, W_xh, b_h, extra, s, a, kept, r, packed_x, packed, lengths, reverse, h_mask, scratch, edge):
    forward_layer(
        step_forward, True, option, ids, x, W_xh, b_h, extra, s, a, kept, r, packed_x, packed, lengths, reverse,
        h_mask, scratch, edge,
    )  # fmt: skip


@kernel
def backward(
    option, extra, d_extra, d, d_z, d_r, d_s, s, a, kept, packed, lengths, reverse, h_mask, scratch, edge, initial,
    d_b_h,
):  # fmt: skip
    backward_layer(
        step_backward, option, extra, d_extra, d, d_z, d_r, d_s, s, a, kept, packed, lengths, reverse, h_mask, scratch,
        edge, initial, d_b_h,
    )  # fmt: skip


@kernel
def sample(
    option, p, table, s, a, kept, r, o, b_y, uniforms, out, temperature, top_k, top_p, banned, packed, head, x, scratch,
    edge, y_hat,
):  # fmt: skip
    sample_tokens(
        step_forward, True, True, option, p, table, s, a, kept, r, o, b_y, uniforms, out, temperature, top_k, top_p,
        banned, packed, head, x, scratch, edge, y_hat,
    )  # fmt: skip


def option(cell: Cell) -> int | None:
    """The number of the activation, if it is one of the compiled ones."""
    return CODES.get(cell.activation) if isinstance(cell.activation, str) else None


KERNELS = CellKernels(forward, backward, sample, option, in_place=True)
