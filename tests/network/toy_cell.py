"""A cell that only tests define, with everything that a cell may have: two gates, two state parts, a recurrent product
that is gated, and an extra parameter.

    u = sigmoid(z_u + r_u)                     n = tanh(z_n + u ⊙ (r_n + b_r))
    c[t+1] = u ⊙ c[t] + n                      h[t+1] = tanh(c[t+1]) + (1 - u) ⊙ h[t] / 2
"""

from __future__ import annotations

import numpy as np

from elman.maths.cells import Cell, StepGradients


def sigmoid(a):
    return (1 + np.tanh(a / 2)) / 2


class ToyCell(Cell):
    name = "toy"
    gate_names = ("u", "n")
    state_names = ("h", "c")

    def extra_shapes(self, H):
        return {"b_r": (H,)}

    def forward(self, a_x, a_h, s, p):
        (h, c), (z_u, z_n), (r_u, r_n) = s, np.split(a_x, 2, axis=-1), np.split(a_h, 2, axis=-1)
        u = sigmoid(z_u + r_u)
        inner = r_n + p["b_r"]
        n = np.tanh(z_n + u * inner)
        c_next = u * c + n
        return np.stack([np.tanh(c_next) + (1 - u) * h / 2, c_next]), (u, n, inner)

    def backward(self, d_s, s, s_next, kept, p):
        (d_h, d_c), (h, c), (_, c_next), (u, n, inner) = d_s, s, s_next, kept
        d_c = d_c + d_h * (1 - np.tanh(c_next) ** 2)
        d_n = d_c * (1 - n * n)
        d_u = (d_c * c - d_h * h / 2 + d_n * inner) * u * (1 - u)
        d_a_x = np.concatenate([d_u, d_n], axis=-1)
        d_a_h = np.concatenate([d_u, d_n * u], axis=-1)
        return StepGradients(d_a_x, d_a_h, np.stack([d_h * (1 - u) / 2, d_c * u]), {"b_r": (d_n * u).sum(axis=0)})
