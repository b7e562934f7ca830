"""The one place from which the rooms below take the equations: the functions of `maths`, unchecked."""

from elman.maths.cell import RNNGradients, rnn_backward, rnn_forward
from elman.maths.layers import (
    OutputGradients,
    embedding_backward,
    embedding_forward,
    output_backward,
    output_forward,
)
from elman.maths.loss import cross_entropy, mean_squared_error, softmax
from elman.maths.optimise import Rates, clip_by_norm, clip_by_value, update
from elman.maths.truncation import Blocks, cut_blocks, truncated_backward

__all__ = [
    "Blocks",
    "OutputGradients",
    "RNNGradients",
    "Rates",
    "clip_by_norm",
    "clip_by_value",
    "cross_entropy",
    "cut_blocks",
    "embedding_backward",
    "embedding_forward",
    "mean_squared_error",
    "output_backward",
    "output_forward",
    "rnn_backward",
    "rnn_forward",
    "softmax",
    "truncated_backward",
    "update",
]
