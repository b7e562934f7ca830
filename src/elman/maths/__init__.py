"""The equations in plain NumPy, forward and backward side by side.

The functions that `checked` wraps here check their arguments. Elman's other packages import them without checks from
the submodules. A name in brackets at the end of a comment, such as [a_x], marks a line that docs/maths.md,
`elman steps` or a table of tests/mutations quotes.
"""

from typing import Any

from elman.maths import layers, loss, optimizers, recurrence, truncation
from elman.maths import real_time_learning as _real_time_learning
from elman.maths.activations import ACTIVATIONS, Activation, get_activation
from elman.maths.arrays import Array
from elman.maths.cells import CELLS, Cell, RNNGradients, make_cell
from elman.maths.cells import rnn as _rnn
from elman.maths.gradient_check import GradientCheck, Row, gradcheck
from elman.maths.initializers import INITIALIZERS, glorot, identity, normal, orthogonal, uniform
from elman.maths.layers import OutputGradients
from elman.maths.optimizers import Clipped
from elman.maths.recurrence import CellGradients, CellTrace
from elman.maths.truncation import Blocks, cut_blocks
from elman.maths.validation import cell_parameters, checked, distributions, named_arrays

_X = "T B X | T B :X"
_OPTIONS = {"lengths": "B :T", "h_mask": "B H"}
_BACKWARD = {"d_h_direct": "T B H", "W_xh": "X H", "W_hh": "H H", "x": _X, "h": "T+1 B H", **_OPTIONS}
_FIELDS: dict[str, Any] = {"b_h": "H", "h0": "B H", "out": RNNGradients}  # b_h and h0: for d_b_h and d_h0 in out

rnn_forward = checked(_rnn.rnn_forward, W_xh="X H", W_hh="H H", b_h="H", x=_X, h0="B H", **_OPTIONS, out="T+1 B H")
rnn_backward = checked(_rnn.rnn_backward, **_BACKWARD, **_FIELDS)
truncated_backward = checked(truncation.truncated_backward, **_BACKWARD, **_FIELDS)
rtrl = checked(_real_time_learning.rtrl, **_BACKWARD)
_CELL = {"p": {"W_xh": "X N", "W_hh": "H N", "b_h": "N"}, "x": _X, "s0": "P B H", **_OPTIONS}
_CELL_BACKWARD = {**_CELL, "p": {"W_xh": "X N", "W_hh": "H N"}, "d_h_direct": "T B H", "d_s_last": "P B H"}
cell_forward = checked(recurrence.cell_forward, cell_parameters, **_CELL)
cell_backward = checked(recurrence.cell_backward, cell_parameters, **_CELL_BACKWARD)
truncated_cell_backward = checked(truncation.truncated_cell_backward, cell_parameters, **_CELL_BACKWARD)
output_forward = checked(layers.output_forward, W_hy="H Y", b_y="Y", h="… H", out="… Y")
output_backward = checked(layers.output_backward, W_hy="H Y", d_o="… Y", h="… H", b_y="Y", out=OutputGradients)
embedding_forward = checked(layers.embedding_forward, W="V X", ids="… :V", out="… X")
embedding_backward = checked(layers.embedding_backward, W="V X", ids="… :V", d_x="… X", out="V X")
softmax = checked(loss.softmax, o="… Y", out="… Y")
softmax_backward = checked(loss.softmax_backward, d_y_hat="… Y", y_hat="… Y")
cross_entropy = checked(loss.cross_entropy, distributions, o="… Y", y="… Y | … :Y", weights="…", out="… Y")
mean_squared_error = checked(loss.mean_squared_error, o="… Y", y="… Y", weights="…", out="… Y")
clip_by_norm = checked(optimizers.clip_by_norm, named_arrays)
sgd_step = checked(optimizers.sgd_step, named_arrays)

__all__ = [
    "rnn_forward",
    "rnn_backward",
    "truncated_backward",
    "CELLS",
    "Cell",
    "make_cell",
    "cell_forward",
    "cell_backward",
    "truncated_cell_backward",
    "CellTrace",
    "CellGradients",
    "RNNGradients",
    "output_forward",
    "output_backward",
    "OutputGradients",
    "embedding_forward",
    "embedding_backward",
    "softmax",
    "softmax_backward",
    "cross_entropy",
    "mean_squared_error",
    "clip_by_norm",
    "Clipped",
    "sgd_step",
    "ACTIVATIONS",
    "Activation",
    "get_activation",
    "INITIALIZERS",
    "orthogonal",
    "identity",
    "glorot",
    "uniform",
    "normal",
    "Blocks",
    "cut_blocks",
    "rtrl",
    "gradcheck",
    "GradientCheck",
    "Row",
    "Array",
]
