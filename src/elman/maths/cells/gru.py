"""The GRU cell (Cho et al. 2014): two gates and a candidate (G = 3), one state part.

    r = sigmoid(x[t] @ W_xr + h[t] @ W_hr + b_r)        z = sigmoid(x[t] @ W_xz + h[t] @ W_hz + b_z)
    q = h[t] @ W_hn + b_hn                              n = tanh(x[t] @ W_xn + b_n + r ⊙ q)
    h[t+1] = (1 - z) ⊙ n + z ⊙ h[t]

W_xr, W_xz and W_xn are the three blocks of columns of W_xh, and likewise for W_hh and b_h. b_hn is a separate
parameter: the reset gate multiplies b_hn and not b_n, so that one cannot replace the other. Because r multiplies the
recurrent product of n, as in PyTorch, the gradients on the two products differ: d_a_n on the input product, r ⊙ d_a_n
on the recurrent one.

Names in brackets at the ends of comments, such as [r], mark quoted lines: see elman/maths/__init__.py.
"""

from __future__ import annotations

import numpy as np

from elman.maths.activations import ACTIVATIONS
from elman.maths.arrays import Array
from elman.maths.cells.base import Cell, Kept, StepGradients, Weights

sigmoid, tanh = ACTIVATIONS["sigmoid"].function, np.tanh


class GRUCell(Cell):
    """h[t+1] = (1 - z) ⊙ n + z ⊙ h[t]."""

    name = "gru"
    gate_names = ("r", "z", "n")  # reset, update, candidate: PyTorch's order
    kept_names = ("r", "z", "n", "q")

    def extra_shapes(self, H: int) -> dict[str, tuple[int, ...]]:
        return {"b_hn": (H,)}

    def forward(self, a_x: Array, a_h: Array, s: Array, p: Weights) -> tuple[Array, Kept]:
        (h,) = s
        x_r, x_z, x_n = np.split(a_x, 3, axis=-1)  # (B, H) each [a_x]
        h_r, h_z, h_n = np.split(a_h, 3, axis=-1)  # (B, H) each [a_h]
        # r = sigmoid(x[t] @ W_xr + h[t] @ W_hr + b_r),  z = sigmoid(x[t] @ W_xz + h[t] @ W_hz + b_z)
        r = sigmoid(x_r + h_r)  # (B, H) [r]
        z = sigmoid(x_z + h_z)  # (B, H) [z]
        # q = h[t] @ W_hn + b_hn
        q = h_n + p["b_hn"]  # (B, H) [q]
        # n = tanh(x[t] @ W_xn + b_n + r ⊙ q)
        n = tanh(x_n + r * q)  # (B, H) [n]
        # h[t+1] = (1 - z) ⊙ n + z ⊙ h[t]
        h_next = (1 - z) * n + z * h  # (B, H) [h]
        return h_next[np.newaxis], (r, z, n, q)

    def backward(self, d_s: Array, s: Array, s_next: Array, kept: Kept, p: Weights) -> StepGradients:
        (d_h,), (h,), (r, z, n, q) = d_s, s, kept
        # d_n = (1 - z) ⊙ d_h[t+1],  d_a_n = (1 - n²) ⊙ d_n
        d_a_n = (1 - n * n) * (1 - z) * d_h  # (B, H) [d_a_n]
        # d_z = (h[t] - n) ⊙ d_h[t+1],  d_a_z = z ⊙ (1 - z) ⊙ d_z
        d_a_z = z * (1 - z) * (h - n) * d_h  # (B, H) [d_a_z]
        # d_r = q ⊙ d_a_n,  d_a_r = r ⊙ (1 - r) ⊙ d_r
        d_a_r = r * (1 - r) * q * d_a_n  # (B, H) [d_a_r]
        # d_q = r ⊙ d_a_n
        d_q = r * d_a_n  # (B, H) [d_q]
        d_a_x = np.concatenate([d_a_r, d_a_z, d_a_n], axis=-1)  # (B, 3·H) [d_a_x]
        d_a_h = np.concatenate([d_a_r, d_a_z, d_q], axis=-1)  # (B, 3·H) [d_a_h]
        # the part of d_h[t] that does not go through W_hh: z ⊙ d_h[t+1]
        d_h_before = z * d_h  # (B, H) [d_h_before]
        # d_b_hn = Σ of d_q over t and rows; here over rows, and the time loop adds the steps
        return StepGradients(d_a_x, d_a_h, d_h_before[np.newaxis], {"b_hn": d_q.sum(axis=0)})  # [d_b_hn]
