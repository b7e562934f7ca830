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
    option: Callable[[Cell], int | None]  # the number by which the cell's activation is known; None: not compiled
    in_place: bool = False  # pre-activations lie in the state's own memory, and d_z in that of d
    merged: bool = True  # the recurrent product is added to z; otherwise the cell gets it apart
    kept: int = 0  # numbers a unit that the forward pass keeps of each step besides the gates


COMPILED: dict[str, str] = {"rnn": "elman.kernels.cells.rnn"}  # cell: its module


def cell_kernels(cell: Cell) -> CellKernels | None:
    """The compiled part of a cell, or None for one that runs in NumPy alone."""
    if cell.name not in COMPILED:
        return None
    kernels = import_module(COMPILED[cell.name]).KERNELS
    if not isinstance(kernels, CellKernels):
        raise ElmanError(f"{COMPILED[cell.name]}.KERNELS", expected="CellKernels", got=type(kernels).__name__)
    return kernels
