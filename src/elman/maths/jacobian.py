"""One step of the state, linear: what a small change of h[t] becomes in h[t+1], and a gradient on its way back.

For looking at a network; training needs neither, because rnn_backward does both in passing.
"""

from __future__ import annotations

import numpy as np

from elman.maths.activations import ActivationLike, get_activation
from elman.maths.arrays import Array


def step_jacobian(h: Array, W_hh: Array, *, activation: ActivationLike = "tanh") -> Array:
    """∂h[t+1]/∂h[t], given h[t+1]: row i says what entry i of h[t] does to every entry of h[t+1]."""
    # ∂h[t+1]/∂h[t] = W_hh @ diag(1 - h[t+1]²)
    derivative = get_activation(activation).derivative
    return np.asarray(W_hh * derivative(h)[..., np.newaxis, :])  # (…, H, H)


def step_backward(d_h: Array, h: Array, W_hh: Array, *, activation: ActivationLike = "tanh") -> tuple[Array, Array]:
    """From d_h[t+1] and h[t+1] to d_a[t] and the part of d_h[t] that step t sends: d_h[t+1] @ step_jacobian.T."""
    # d_a[t] = (1 - h[t+1]²) ⊙ d_h[t+1]
    d_a = get_activation(activation).derivative(h) * d_h  # (…, H)
    # d_h[t] = d_a[t] @ W_hh.T
    return d_a, d_a @ W_hh.T  # (…, H), (…, H)
