"""What networks and training import: the equations of `maths` as kernels, that is functions compiled by Numba.

With ELMAN_KERNELS=reference they are the plain NumPy of `maths` instead, with the same names and arguments. The few
functions for which compilation gains nothing, such as embedding_forward, are those of `maths` in both cases.
"""

import os

from elman.errors import UnknownNameError
from elman.kernels.reference import Layer, ReferenceOutput, TokenGradient, Workspace
from elman.kernels.stepwise import AttentionSteps, LayerSteps, Memory, Product, ReferenceAttention
from elman.maths.layers import OutputGradients
from elman.maths.optimizers import Rates

KERNELS = os.environ.get("ELMAN_KERNELS") or "compiled"

if KERNELS == "reference":
    from elman.kernels.reference import (
        add_up,
        compiled_for,
        make_layer,
        make_output,
        token_gradient,
        weight_gradient,
    )
    from elman.kernels.stepwise import layer_steps, make_attention, make_product
    from elman.maths.dropout import dropout_mask
    from elman.maths.layers import embedding_backward, embedding_forward, output_backward, output_forward
    from elman.maths.loss import cross_entropy, mean_squared_error, softmax, softmax_backward, surprise
    from elman.maths.optimizers import clip_by_value, clip_in_place, update
    from elman.maths.pooling import max_backward, max_forward, mean_backward, mean_forward
    from elman.maths.recurrence import cell_backward, cell_forward
elif KERNELS == "compiled":
    from elman.kernels.attention import layer_steps, make_attention, make_product
    from elman.kernels.dropout import dropout_mask
    from elman.kernels.gradient_product import weight_gradient
    from elman.kernels.layers import (
        embedding_backward,
        embedding_forward,
        make_output,
        output_backward,
        output_forward,
    )
    from elman.kernels.loss import cross_entropy, mean_squared_error, softmax, softmax_backward, surprise
    from elman.kernels.optimizers import add_up, clip_by_value, clip_in_place, update
    from elman.kernels.pooling import max_backward, max_forward, mean_backward, mean_forward
    from elman.kernels.recurrence import cell_backward, cell_forward, compiled_for, make_layer, token_gradient
else:
    raise UnknownNameError("ELMAN_KERNELS", expected="compiled or reference", got=repr(KERNELS))

__all__ = [
    "KERNELS",
    "AttentionSteps",
    "Layer",
    "LayerSteps",
    "Memory",
    "OutputGradients",
    "Product",
    "Rates",
    "ReferenceAttention",
    "ReferenceOutput",
    "TokenGradient",
    "Workspace",
    "add_up",
    "cell_backward",
    "cell_forward",
    "clip_in_place",
    "clip_by_value",
    "compiled_for",
    "cross_entropy",
    "dropout_mask",
    "embedding_backward",
    "embedding_forward",
    "layer_steps",
    "make_attention",
    "make_layer",
    "make_output",
    "make_product",
    "max_backward",
    "max_forward",
    "mean_backward",
    "mean_forward",
    "mean_squared_error",
    "output_backward",
    "output_forward",
    "softmax",
    "softmax_backward",
    "surprise",
    "token_gradient",
    "update",
    "weight_gradient",
]
