"""The LSTM cell, compiled; the equations are those of maths/cells/lstm.py.

The gates i, f, g, o of a step overwrite a[t]. In the backward pass d_a[t] overwrites them, and tanh(c[t+1]) is computed
again: that costs less than keeping it.
"""

from __future__ import annotations

from elman.kernels.cells import make_kernels
from elman.kernels.compile import inline
from elman.kernels.vectors import Vector, pointwise, tanhs


@pointwise
def gates(i: Vector, f: Vector, g: Vector, o: Vector, c: Vector) -> tuple[Vector, ...]:
    # i = sigmoid(a_i) = (1 + tanh(a_i / 2)) / 2, f and o alike, g = tanh(a_g)
    i, f, o, g = tanhs(i * 0.5, f * 0.5, o * 0.5, g)
    i, f, o = i * 0.5 + 0.5, f * 0.5 + 0.5, o * 0.5 + 0.5
    # c[t+1] = f ⊙ c[t] + i ⊙ g
    c_next = f * c + i * g
    # h[t+1] = o ⊙ tanh(c[t+1])
    (tanh_c,) = tanhs(c_next)
    return i, f, g, o, c_next, o * tanh_c


@pointwise
def gates_backward(
    i: Vector, f: Vector, g: Vector, o: Vector, c: Vector, c_next: Vector, d_h: Vector, d_c_next: Vector
) -> tuple[Vector, ...]:
    (tanh_c,) = tanhs(c_next)
    # d_c[t+1] has two parts: the gradient from c[t+2], and o ⊙ (1 - tanh(c[t+1])²) ⊙ d_h[t+1]
    d_c = d_c_next + o * (1 - tanh_c * tanh_c) * d_h
    d_a_i = i * (1 - i) * g * d_c
    d_a_f = f * (1 - f) * c * d_c
    d_a_g = (1 - g * g) * i * d_c
    d_a_o = o * (1 - o) * tanh_c * d_h
    # d_c[t] = f ⊙ d_c[t+1]
    return d_a_i, d_a_f, d_a_g, d_a_o, f * d_c


@inline
def step_forward(option, a, at, s, before, after, stride, rows, H):
    for row in range(rows):
        i, c = at + row * 4 * H, stride + row * H
        f, g, o, h = i + H, i + 2 * H, i + 3 * H, row * H
        gates((a, a, a, a, s), (i, f, g, o, before + c), (a, a, a, a, s, s), (i, f, g, o, after + c, after + h), (), H)


@inline
def step_backward(option, a, at, d, d_at, d_s, d_s_at, d_stride, s, before, after, stride, to, to_at, rows, H):
    for row in range(rows):
        i, c, d_c = at + row * 4 * H, stride + row * H, d_s_at + d_stride + row * H
        f, g, o, d_h = i + H, i + 2 * H, i + 3 * H, d_at + row * H
        gates_backward(
            (a, a, a, a, s, s, d, d_s), (i, f, g, o, before + c, after + c, d_h, d_c), (a, a, a, a, d_s),
            (i, f, g, o, d_c), (), H,
        )  # fmt: skip


KERNELS = make_kernels(step_forward, step_backward)
