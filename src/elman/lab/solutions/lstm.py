# A solution. In a student's copy gaps.py replaces the lines from "# gap" to "# end" by NotImplementedError; no copy has
# this comment.
"""A step of an LSTM by hand: fill in the gaps, in this order, and check them with

    elman lab check lstm.py

The equations and their numbers are those of docs/maths.md, section 18. The four gates are side by side in the order
i, f, g, o: columns 0 to H-1 of W_xh, W_hh, b_h and a belong to i, the next H to f, and so on. Only NumPy is needed.
"""

import numpy as np


def sigmoid(a):
    """Given: 1 / (1 + exp(-a)), written so that nothing overflows."""
    return (1 + np.tanh(a / 2)) / 2


def lstm_gates(x_t, h_t, W_xh, W_hh, b_h):
    """(1) and (23) The four gates of a step.

    x_t: (B, X)    h_t: (B, H)    W_xh: (X, 4H)    W_hh: (H, 4H)    b_h: (4H,)
    returns i, f, g, o: (B, H) each. i, f and o are sigmoids, g is a tanh.
    """
    # gap
    a = x_t @ W_xh + h_t @ W_hh + b_h
    a_i, a_f, a_g, a_o = np.split(a, 4, axis=1)
    return sigmoid(a_i), sigmoid(a_f), np.tanh(a_g), sigmoid(a_o)
    # end


def lstm_state(c_t, i, f, g, o):
    """(24) and (25) The state after the step.

    c_t, i, f, g, o: (B, H) each    returns c_next: (B, H)    h_next: (B, H)
    """
    # gap
    c_next = f * c_t + i * g
    h_next = o * np.tanh(c_next)
    return c_next, h_next
    # end


def lstm_cell_gradient(d_h, d_c_next, o, c_next):
    """(26) The gradient on the cell state c[t+1], from both of its uses.

    d_h: (B, H), the gradient on h[t+1] = o * tanh(c[t+1])
    d_c_next: (B, H), the gradient on c[t+1] from step t+1
    o, c_next: (B, H)    returns d_c: (B, H)
    """
    # gap
    through_h = d_h * o * (1 - np.tanh(c_next) ** 2)
    return d_c_next + through_h
    # end


def lstm_gate_gradients(d_h, d_c, c_t, c_next, i, f, g, o):
    """(27) The gradient on a, before the sigmoids and the tanh.

    d_h, d_c: (B, H), the gradients on h[t+1] and c[t+1]    c_t, c_next, i, f, g, o: (B, H)
    returns d_a: (B, 4H), in the order i, f, g, o
    """
    # gap
    d_a_i = d_c * g * i * (1 - i)
    d_a_f = d_c * c_t * f * (1 - f)
    d_a_g = d_c * i * (1 - g**2)
    d_a_o = d_h * np.tanh(c_next) * o * (1 - o)
    return np.concatenate([d_a_i, d_a_f, d_a_g, d_a_o], axis=1)
    # end


def lstm_state_gradients(d_a, d_c, f, W_hh):
    """(28) and (29) The gradients on the state before the step.

    d_a: (B, 4H)    d_c: (B, H), the gradient on c[t+1]    f: (B, H)    W_hh: (H, 4H)
    returns d_h_before: (B, H), on h[t]    d_c_before: (B, H), on c[t]
    """
    # gap
    d_h_before = d_a @ W_hh.T
    d_c_before = d_c * f
    return d_h_before, d_c_before
    # end
