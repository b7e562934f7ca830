"""A cell that uses everything a cell may have: two gates, two state parts, a gated recurrent product, an own parameter.

u  = sigmoid(z_u + r_u)          g  = tanh(z_g + u ⊙ r_g)
c' = u ⊙ c + v ⊙ g               h' = tanh(c') + h / 2
"""

from __future__ import annotations

import numpy as np

from elman.maths.cells import Cell, StepGradients


class ToyCell(Cell):
    name = "toy"
    gate_names = ("u", "g")
    state_names = ("h", "c")

    def extra_shapes(self, H):
        return {"v": (H,)}

    def forward(self, a_x, a_h, s, p):
        (z_u, z_g), (r_u, r_g), (h, c) = np.split(a_x, 2, axis=1), np.split(a_h, 2, axis=1), s
        u = 1 / (1 + np.exp(-z_u - r_u))
        g = np.tanh(z_g + u * r_g)
        c_next = u * c + p["v"] * g
        return np.stack([np.tanh(c_next) + h / 2, c_next]), (u, g, r_g)

    def backward(self, d_s, s, s_next, kept, p):
        (d_h, d_c_next), (_, c), (_, c_next), (u, g, r_g) = d_s, s, s_next, kept
        d_c = d_c_next + (1 - np.tanh(c_next) ** 2) * d_h
        d_a_g = p["v"] * d_c * (1 - g * g)
        d_a_u = (c * d_c + r_g * d_a_g) * u * (1 - u)
        d_a_x, d_a_h = np.concatenate([d_a_u, d_a_g], axis=1), np.concatenate([d_a_u, u * d_a_g], axis=1)
        return StepGradients(d_a_x, d_a_h, np.stack([d_h / 2, u * d_c]), {"v": (g * d_c).sum(axis=0)})
