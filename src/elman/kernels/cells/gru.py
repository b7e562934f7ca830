"""The GRU cell, compiled; the equations are those of maths/cells/gru.py.

The array a of a step has four blocks of H columns: q, r, z, n. The input product is in the last three. The recurrent
product is added to the first three, so W_hh is packed with its columns in the order n, r, z (CompiledLayer.pack): q is
the recurrent product of n, with b_hn. In the backward pass the gradients overwrite the blocks: d_a_h is the first
three, also in the order n, r, z, and d_a_x the last three.
"""

from __future__ import annotations

from elman.kernels.cells import make_kernels
from elman.kernels.compile import inline
from elman.kernels.vectors import Vector, pointwise, tanhs


@pointwise
def gates(q: Vector, r: Vector, z: Vector, n: Vector, h: Vector) -> tuple[Vector, ...]:
    # r = sigmoid(a_r) = (1 + tanh(a_r / 2)) / 2, z alike
    r, z = tanhs(r * 0.5, z * 0.5)
    r, z = r * 0.5 + 0.5, z * 0.5 + 0.5
    # n = tanh(x[t] @ W_xn + b_n + r ⊙ q)
    (n,) = tanhs(n + r * q)
    # h[t+1] = (1 - z) ⊙ n + z ⊙ h[t]
    return r, z, n, (1 - z) * n + z * h


@pointwise
def gates_backward(
    q: Vector, r: Vector, z: Vector, n: Vector, h: Vector, d_h: Vector, d_h_before: Vector
) -> tuple[Vector, ...]:
    d_a_n = (1 - n * n) * (1 - z) * d_h
    d_a_z = z * (1 - z) * (h - n) * d_h
    d_a_r = r * (1 - r) * q * d_a_n
    # d_q = r ⊙ d_a_n, and the part of d_h[t] that does not go through W_hh: z ⊙ d_h[t+1]
    return r * d_a_n, d_a_r, d_a_z, d_a_n, d_h_before + z * d_h


@inline
def step_forward(option, a, at, s, before, after, stride, rows, H):
    for row in range(rows):
        q, h = at + row * 4 * H, row * H
        r, z, n = q + H, q + 2 * H, q + 3 * H
        gates((a, a, a, a, s), (q, r, z, n, before + h), (a, a, a, s), (r, z, n, after + h), (), H)


@inline
def step_backward(option, a, at, d, d_at, d_s, d_s_at, d_stride, s, before, after, stride, to, to_at, rows, H):
    for row in range(rows):
        q, h = at + row * 4 * H, row * H
        r, z, n = q + H, q + 2 * H, q + 3 * H
        gates_backward(
            (a, a, a, a, s, d, to), (q, r, z, n, before + h, d_at + h, to_at + h), (a, a, a, a, to),
            (q, r, z, n, to_at + h), (), H,
        )  # fmt: skip


KERNELS = make_kernels(step_forward, step_backward, gated=1)
