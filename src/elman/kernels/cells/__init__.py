"""The compiled part of each cell, imported only when that cell runs: nothing else is compiled.

A file here has the name of its cell and holds what its steps do entry by entry, forward and backward; make_kernels puts
them into the shared loops of steps.py and sample.py.
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
    """What the layers above need to know of a compiled cell."""

    forward: Callable[..., None]
    backward: Callable[..., None]
    sample: Callable[..., None]
    option: Callable[[Cell], int | None] = lambda cell: 0  # the number of its activation; None: not compiled
    in_place: bool = False  # pre-activations lie in the state's own memory, and d_a in that of d
    gated: int = 0  # of how many gates, the last ones, the cell gets both products apart, because it gates the second


def make_kernels(
    step_forward: Callable[..., None],
    step_backward: Callable[..., None],
    *,
    option: Callable[[Cell], int | None] = lambda cell: 0,
    in_place: bool = False,
    gated: int = 0,
) -> CellKernels:
    """The loops with these steps in them."""

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
        edge, y_hat,
    ):  # fmt: skip
        sample_tokens(
            step_forward, in_place, option, p, table, s, a, o, b_y, uniforms, out, temperature, top_k, top_p, banned,
            packed, head, x, scratch, edge, y_hat,
        )  # fmt: skip

    return CellKernels(forward, backward, sample, option, in_place, gated)


# A step has G + `gated` numbers a unit. The input product of all gates is added to the last G of them; the recurrent
# product, first that of the gated ones, to the first G. A cell's extra parameters are the biases of the gated ones.
COMPILED: dict[str, str] = {name: f"elman.kernels.cells.{name}" for name in ("rnn", "gru", "lstm")}  # cell: its module


def cell_kernels(cell: Cell) -> CellKernels | None:
    """The compiled part of a cell, or None for one that runs in NumPy alone."""
    if cell.name not in COMPILED:
        return None
    kernels = import_module(COMPILED[cell.name]).KERNELS
    if not isinstance(kernels, CellKernels):
        raise ElmanError(f"{COMPILED[cell.name]}.KERNELS", expected="CellKernels", got=type(kernels).__name__)
    return kernels
