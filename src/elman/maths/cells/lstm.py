"""The LSTM cell (Hochreiter and Schmidhuber 1997; forget gate: Gers et al. 2000): three gates and a candidate
(G = 4), two state parts.

    a[t] = x[t] @ W_xh + h[t] @ W_hh + b_h, split into a_i, a_f, a_g, a_o
    i, f, o = sigmoid(a_i), sigmoid(a_f), sigmoid(a_o)      g = tanh(a_g)
    c[t+1] = f ⊙ c[t] + i ⊙ g                               h[t+1] = o ⊙ tanh(c[t+1])

The gradient reaches c[t+1] on two paths: through h[t+1], and from c[t+2] through the forget gate. On the second path
each step multiplies it by f alone, without weights or tanh, which is why an LSTM remembers longer than a vanilla cell.

Names in brackets at the ends of comments, such as [c], mark quoted lines: see elman/maths/__init__.py.
"""

from __future__ import annotations

import numpy as np

from elman.maths.activations import ACTIVATIONS
from elman.maths.arrays import Array
from elman.maths.cells.base import Cell, Kept, StepGradients, Weights

sigmoid, tanh = ACTIVATIONS["sigmoid"].function, np.tanh


class LSTMCell(Cell):
    """c[t+1] = f ⊙ c[t] + i ⊙ g and h[t+1] = o ⊙ tanh(c[t+1])."""

    name = "lstm"
    gate_names = ("i", "f", "g", "o")  # input, forget, candidate, output: PyTorch's order
    state_names = ("h", "c")
    kept_names = ("i", "f", "g", "o")

    def initial_bias(self, H: int, *, forget_bias: float = 1.0) -> Array:
        b_h = np.zeros(4 * H)
        b_h[H : 2 * H] = forget_bias  # 1 makes f about 0.73 at the start of training (Gers et al. 2000) [forget_bias]
        return b_h

    def forward(self, a_x: Array, a_h: Array, s: Array, p: Weights) -> tuple[Array, Kept]:
        _, c = s
        # a[t] = x[t] @ W_xh + h[t] @ W_hh + b_h
        a_i, a_f, a_g, a_o = np.split(a_x + a_h, 4, axis=-1)  # (B, H) each [a]
        # i = sigmoid(a_i),  f = sigmoid(a_f),  g = tanh(a_g),  o = sigmoid(a_o)
        i = sigmoid(a_i)  # (B, H) [i]
        f = sigmoid(a_f)  # (B, H) [f]
        g = tanh(a_g)  # (B, H) [g]
        o = sigmoid(a_o)  # (B, H) [o]
        # c[t+1] = f ⊙ c[t] + i ⊙ g
        c_next = f * c + i * g  # (B, H) [c]
        # h[t+1] = o ⊙ tanh(c[t+1])
        h_next = o * tanh(c_next)  # (B, H) [h]
        return np.stack([h_next, c_next]), (i, f, g, o)

    def backward(self, d_s: Array, s: Array, s_next: Array, kept: Kept, p: Weights) -> StepGradients:
        (d_h, d_c_next), (_, c), (_, c_next), (i, f, g, o) = d_s, s, s_next, kept
        tanh_c = tanh(c_next)  # (B, H) [tanh_c]
        # d_c[t+1] has two parts: the gradient from c[t+2], and o ⊙ (1 - tanh(c[t+1])²) ⊙ d_h[t+1]
        d_c = d_c_next + o * (1 - tanh_c * tanh_c) * d_h  # (B, H) [d_c]
        # d_i = g ⊙ d_c,  d_f = c[t] ⊙ d_c,  d_g = i ⊙ d_c,  d_o_gate = tanh(c[t+1]) ⊙ d_h
        # d_a_i, d_a_f, d_a_g, d_a_o: these times the derivatives of their activations
        d_a_i = i * (1 - i) * g * d_c  # (B, H) [d_a_i]
        d_a_f = f * (1 - f) * c * d_c  # (B, H) [d_a_f]
        d_a_g = (1 - g * g) * i * d_c  # (B, H) [d_a_g]
        d_a_o = o * (1 - o) * tanh_c * d_h  # (B, H) [d_a_o]
        d_a = np.concatenate([d_a_i, d_a_f, d_a_g, d_a_o], axis=-1)  # (B, 4·H) [d_a]
        # d_c[t] = f ⊙ d_c[t+1]; all of d_h[t] goes through W_hh
        d_c_before = f * d_c  # (B, H) [d_c_before]
        return StepGradients(d_a, d_a, np.stack([np.zeros_like(d_h), d_c_before]), {})
