"""The vanilla cell, compiled: maths/cells/rnn.py. Pre-activations lie where the states will, and d_a where d_h was."""

from __future__ import annotations

from elman.kernels.cells import CellKernels
from elman.kernels.compile import inline, kernel
from elman.kernels.elementwise import CODES, activate, through
from elman.kernels.sample import sample_tokens
from elman.kernels.steps import backward_layer, forward_layer
from elman.maths.cells import Cell


@inline
def step_forward(option, a, at, s, before, after, stride, rows, H):
    # h[t+1] = tanh(a[t])
    activate(a[at : at + rows * H], option)


@inline
def step_backward(option, a, at, d, d_at, d_s, d_s_at, d_stride, s, before, after, stride, to, to_at, rows, H):
    # d_a[t] = (1 - h[t+1]²) ⊙ d_h[t+1]
    through(a[at : at + rows * H], s[after : after + rows * H], option)


@kernel
def forward(option, ids, x, W_xh, bias, s, a, packed_x, packed, lengths, reverse, h_mask, scratch, edge):
    forward_layer(
        step_forward, option, ids, x, W_xh, bias, s, a, packed_x, packed, lengths, reverse, h_mask, scratch, edge
    )


@kernel
def backward(option, N, d, a, d_s, s, packed, lengths, reverse, h_mask, scratch, edge, initial, d_bias):
    backward_layer(
        step_backward, option, N, d, a, d_s, s, packed, lengths, reverse, h_mask, scratch, edge, initial, d_bias
    )


@kernel
def sample(
    option, p, table, s, a, o, b_y, uniforms, out, temperature, top_k, top_p, banned, packed, head, x, scratch, edge,
    y_hat,
):  # fmt: skip
    sample_tokens(
        step_forward, True, option, p, table, s, a, o, b_y, uniforms, out, temperature, top_k, top_p, banned, packed,
        head, x, scratch, edge, y_hat,
    )  # fmt: skip


def option(cell: Cell) -> int | None:
    """The number of the activation, if it is one of the compiled ones."""
    return CODES.get(cell.activation) if isinstance(cell.activation, str) else None


KERNELS = CellKernels(forward, backward, sample, option, in_place=True)
