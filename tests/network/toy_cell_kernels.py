"""The toy cell, compiled. A row of a step holds q = r_n + b_r, then u, then n, each of H numbers."""

from __future__ import annotations

from elman.kernels.cells import make_kernels
from elman.kernels.compile import inline
from elman.kernels.vectors import Vector, pointwise, tanhs


@pointwise
def gates(q: Vector, u: Vector, n: Vector, h: Vector, c: Vector) -> tuple[Vector, ...]:
    (u,) = tanhs(u * 0.5)
    u = u * 0.5 + 0.5
    (n,) = tanhs(n + u * q)
    c_next = u * c + n
    (tanh_c,) = tanhs(c_next)
    return u, n, c_next, tanh_c + (1 - u) * h * 0.5


@pointwise
def gates_backward(
    q: Vector, u: Vector, n: Vector, h: Vector, c: Vector, c_next: Vector, d_h: Vector, d_c: Vector, d_h_before: Vector
) -> tuple[Vector, ...]:
    (tanh_c,) = tanhs(c_next)
    d_c = d_c + (1 - tanh_c * tanh_c) * d_h
    d_n = (1 - n * n) * d_c
    d_u = u * (1 - u) * (c * d_c - h * d_h * 0.5 + q * d_n)
    return u * d_n, d_u, d_n, u * d_c, d_h_before + (1 - u) * d_h * 0.5


@inline
def step_forward(option, a, at, s, before, after, stride, rows, H):
    for row in range(rows):
        q, h, c = at + row * 3 * H, row * H, stride + row * H
        u, n = q + H, q + 2 * H
        gates((a, a, a, s, s), (q, u, n, before + h, before + c), (a, a, s, s), (u, n, after + c, after + h), (), H)


@inline
def step_backward(option, a, at, d, d_at, d_s, d_s_at, d_stride, s, before, after, stride, to, to_at, rows, H):
    for row in range(rows):
        q, h, c, d_c = at + row * 3 * H, row * H, stride + row * H, d_s_at + d_stride + row * H
        u, n = q + H, q + 2 * H
        gates_backward(
            (a, a, a, s, s, s, d, d_s, to),
            (q, u, n, before + h, before + c, after + c, d_at + h, d_c, to_at + h),
            (a, a, a, d_s, to), (q, u, n, d_c, to_at + h), (), H,
        )  # fmt: skip


KERNELS = make_kernels(step_forward, step_backward, gated=1)
