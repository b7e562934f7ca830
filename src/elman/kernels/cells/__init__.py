"""The compiled part of each cell, imported when the cell is first used.

A file here has the name of its cell and holds what its steps do entry by entry, forward and backward; make_kernels puts
these steps into the shared loops of steps.py and sample.py.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

from elman.errors import ElmanError
from elman.kernels.compile import kernel
from elman.kernels.sample import sample_tokens
from elman.kernels.steps import backward_layer, forward_layer
from elman.maths.cells import Cell


class CellKernels(NamedTuple):
    """What CompiledLayer and the sampler need to know of a compiled cell.

    The array a of a step has G + `gated` blocks of H columns. The last G blocks get the input products, in the order of
    the gates. The recurrent products are added to the first G blocks: first those of the gated gates, then those of the
    others. The extra parameter of a cell (b_hn of a GRU) has the biases of the first `gated` blocks. In the backward
    pass a becomes the gradients on the products, in the same places.
    """

    forward: Callable[..., None]
    backward: Callable[..., None]
    sample: Callable[..., None]
    option: Callable[[Cell], int | None] = lambda cell: 0  # the number of a cell's activation; None: it is not compiled
    in_place: bool = False  # states overwrite the pre-activations, and d_a overwrites d_h
    gated: int = 0  # for how many gates, the last ones, the cell gets the two products separately: 1 in a GRU, for n


def make_kernels(
    step_forward: Callable[..., None],
    step_backward: Callable[..., None],
    *,
    option: Callable[[Cell], int | None] = lambda cell: 0,
    in_place: bool = False,
    gated: int = 0,
) -> CellKernels:
    """The loops of steps.py and sample.py, compiled with these steps.

    step_forward(option, a, at, s, before, after, stride, rows, H)
    step_backward(option, a, at, d, d_at, d_s, d_s_at, d_stride, s, before, after, stride, to, to_at, rows, H)

    A step computes `rows` neighboring rows of H units. All arrays are flat; at, before, after, d_at, d_s_at and to_at
    are the entries at which these rows begin: in a; in the states s before and after the step; in d, the gradients d_h;
    in d_s, the gradients of the state parts (the first part is not used); and in `to`, to which the gradient on h
    before the step is added, without the part through W_hh. From one state part to the next it is `stride` entries in s
    and `d_stride` in d_s.
    """

    @kernel
    def forward(option, ids, x, W_xh, bias, s, a, packed_x, packed, lengths, reverse, h_mask, scratch, edge):
        forward_layer(
            step_forward, option, ids, x, W_xh, bias, s, a, packed_x, packed, lengths, reverse, h_mask, scratch, edge
        )

    @kernel
    def backward(
        option, N, d, a, d_s, s, packed, lengths, reverse, h_mask, scratch, edge, initial, d_bias, ids, d_W_xh
    ):  # fmt: skip
        backward_layer(
            step_backward, option, N, d, a, d_s, s, packed, lengths, reverse, h_mask, scratch, edge, initial, d_bias,
            ids, d_W_xh,
        )  # fmt: skip

    @kernel
    def sample(
        option, p, table, s, a, o, b_y, uniforms, out, temperature, top_k, top_p, banned, packed, head, x, scratch,
        edge, y_hat, order,
    ):  # fmt: skip
        sample_tokens(
            step_forward, in_place, option, p, table, s, a, o, b_y, uniforms, out, temperature, top_k, top_p, banned,
            packed, head, x, scratch, edge, y_hat, order,
        )  # fmt: skip

    return CellKernels(forward, backward, sample, option, in_place, gated)


COMPILED: dict[str, str] = {name: f"elman.kernels.cells.{name}" for name in ("rnn", "gru", "lstm")}  # the modules


def cell_kernels(cell: Cell) -> CellKernels | None:
    """The compiled part of a cell, or None for one that runs in NumPy alone."""
    if cell.name not in COMPILED:
        return None
    kernels = import_module(COMPILED[cell.name]).KERNELS
    if not isinstance(kernels, CellKernels):
        raise ElmanError(f"{COMPILED[cell.name]}.KERNELS", expected="CellKernels", got=type(kernels).__name__)
    return kernels
