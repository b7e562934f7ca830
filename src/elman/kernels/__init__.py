"""The one place from which the rooms below take the equations.

Compiled unless ELMAN_KERNELS=reference asks for the plain NumPy of `maths`. Names and arguments are the same.
"""

import os
from typing import Any, TypeGuard

import numpy as np

from elman.errors import UnknownNameError
from elman.maths.activations import ActivationLike
from elman.maths.cell import RNNGradients
from elman.maths.layers import OutputGradients
from elman.maths.optimise import Rates
from elman.maths.truncation import Blocks, cut_blocks

KERNELS = os.environ.get("ELMAN_KERNELS") or "compiled"

if KERNELS == "reference":
    from elman.maths.cell import rnn_backward, rnn_forward
    from elman.maths.layers import embedding_backward, embedding_forward, output_backward, output_forward
    from elman.maths.loss import cross_entropy, mean_squared_error, softmax, softmax_backward, surprise
    from elman.maths.optimise import clip_by_norm, clip_by_value, update
    from elman.maths.pooling import max_backward, max_forward, mean_backward, mean_forward
    from elman.maths.truncation import truncated_backward

    def compiled_for(activation: ActivationLike, dtype: np.dtype[Any]) -> TypeGuard[str]:
        return False

elif KERNELS == "compiled":
    from elman.kernels.cell import compiled_for, rnn_backward, rnn_forward, truncated_backward
    from elman.kernels.layers import embedding_backward, embedding_forward, output_backward, output_forward
    from elman.kernels.loss import cross_entropy, mean_squared_error, softmax, softmax_backward, surprise
    from elman.kernels.optimise import clip_by_norm, clip_by_value, update
    from elman.kernels.pooling import max_backward, max_forward, mean_backward, mean_forward
else:
    raise UnknownNameError("ELMAN_KERNELS", expected="compiled or reference", got=repr(KERNELS))

__all__ = [
    "KERNELS",
    "Blocks",
    "OutputGradients",
    "RNNGradients",
    "Rates",
    "clip_by_norm",
    "clip_by_value",
    "compiled_for",
    "cross_entropy",
    "cut_blocks",
    "embedding_backward",
    "embedding_forward",
    "max_backward",
    "max_forward",
    "mean_backward",
    "mean_forward",
    "mean_squared_error",
    "output_backward",
    "output_forward",
    "rnn_backward",
    "rnn_forward",
    "softmax",
    "softmax_backward",
    "surprise",
    "truncated_backward",
    "update",
]
