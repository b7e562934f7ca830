"""The table of cells, CELLS.

A new cell is a file here and a row of CELLS. To run compiled it also needs a file in kernels/cells and a row of
COMPILED there; to be a value of the option `cell`, an entry in CellName in config.py.
"""

from __future__ import annotations

from elman.errors import UnknownNameError
from elman.maths.activations import ActivationLike
from elman.maths.cells.base import Cell, StepGradients, Weights
from elman.maths.cells.gru import GRUCell
from elman.maths.cells.lstm import LSTMCell
from elman.maths.cells.rnn import RNNCell, RNNGradients, rnn_backward, rnn_forward

CELLS: dict[str, type[Cell]] = {"rnn": RNNCell, "gru": GRUCell, "lstm": LSTMCell}


def make_cell(name: str, activation: ActivationLike = "tanh") -> Cell:
    """Return a cell by name.

    Parameters
    ----------
    name : str
        rnn, gru or lstm.
    activation : str or pair
        Of a vanilla cell: tanh, relu, sigmoid, identity, or your own pair (f(a), f' in terms of h); gru and lstm
        have tanh only.

    Returns
    -------
    Cell
        Its shapes, and one step forward and backward.

    Examples
    --------
    >>> from elman import maths
    >>> lstm = maths.make_cell("lstm")
    >>> lstm.gate_names, lstm.state_names
    (('i', 'f', 'g', 'o'), ('h', 'c'))
    >>> lstm.shapes(X=2, H=3)
    {'W_xh': (2, 12), 'W_hh': (3, 12), 'b_h': (12,)}
    """
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
