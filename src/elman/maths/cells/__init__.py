"""The table of cells. A new cell is one file here, one in kernels/cells, and one row."""

from __future__ import annotations

from elman.errors import UnknownNameError
from elman.maths.activations import ActivationLike
from elman.maths.cells.base import Cell, StepGradients, Weights
from elman.maths.cells.gru import GRUCell
from elman.maths.cells.lstm import LSTMCell
from elman.maths.cells.rnn import RNNCell, RNNGradients, rnn_backward, rnn_forward

CELLS: dict[str, type[Cell]] = {"rnn": RNNCell, "gru": GRUCell, "lstm": LSTMCell}


def make_cell(name: str, activation: ActivationLike = "tanh") -> Cell:
    """A row of the table, with its activation."""
    if name not in CELLS:
        raise UnknownNameError("cell", expected=f"one of {', '.join(CELLS)}", got=repr(name))
    return CELLS[name](activation)


__all__ = [
    "CELLS",
    "Cell",
    "GRUCell",
    "LSTMCell",
    "RNNCell",
    "RNNGradients",
    "StepGradients",
    "Weights",
    "make_cell",
    "rnn_backward",
    "rnn_forward",
]
