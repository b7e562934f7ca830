"""The compiled part of each cell, imported only when that cell runs: nothing else is compiled.

A file here has the name of its cell and holds `forward`, `backward` and `sample`: the shared loops of steps.py and
sample.py with the cell's own pointwise steps. They are module-level functions, so that Numba's disk cache finds them.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

from elman.errors import ElmanError
from elman.maths.cells import Cell


class CellKernels(NamedTuple):
    """What the layers above need to know of a compiled cell."""

    forward: Callable[..., None]
    backward: Callable[..., None]
    sample: Callable[..., None]
    option: Callable[[Cell], int | None] = lambda cell: 0  # the number of its activation; None: not compiled
    in_place: bool = False  # pre-activations lie in the state's own memory, and d_a in that of d
    gated: int = 0  # of how many gates, the last ones, the cell gets both products apart, because it gates the second


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
