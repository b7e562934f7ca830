"""The gradient of a weight matrix: a.T @ b, summed over all rows of a and b (steps times examples).

On CPUs with vectors of 512 bits a and b are packed by blocks of about the size of the L2 cache, and the register
tile multiplies them. Every entry of the result is then one chain of multiply-adds over the rows in their order: its
bits do not depend on how many other entries are computed. On other CPUs, and for small products, it is that of BLAS.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from elman.kernels.compile import FLOATS, VECTOR_BYTES, inline, kernel
from elman.kernels.product import copy, panel_width, width_of
from elman.kernels.reference import Workspace
from elman.kernels.tile import MIDDLE, ROWS, VECTORS, make_tile
from elman.maths.arrays import Array

BY_TILE = VECTOR_BYTES == 64  # with narrower vectors BLAS is as fast
FEWEST, SMALL = 16, 4096  # with fewer columns of a, or fewer weights, BLAS is faster
# in float32 a block of a and one of b take 1.1 MB, about the size of an L2 cache
DEPTH = 384  # rows of a block
HEIGHT = 224 // ROWS * ROWS  # columns of a block of a
PANELS = 512 // panel_width(4)  # panels of columns of a block of b
# a packed panel of a holds ROWS or MIDDLE columns side by side, row after row
tall, middle = make_tile(ROWS, VECTORS, a_next=ROWS), make_tile(MIDDLE, VECTORS, a_next=MIDDLE)
narrow_tall, narrow_middle = make_tile(ROWS, 1, a_next=ROWS), make_tile(MIDDLE, 1, a_next=MIDDLE)


@lru_cache(256)
def space_size(rows: int, M: int, N: int, itemsize: int) -> int:
    """The size of `space`, the scratch array of `transposed_product`: an edge, a packed block of b and one of a."""
    width = panel_width(itemsize)
    return ROWS * width + min(DEPTH, rows) * (min(PANELS, -(-N // width)) * width + min(HEIGHT, M) + MIDDLE)


@inline
def tall_columns(M):
    """How many of M columns are packed ROWS at a time; the others are packed MIDDLE at a time.

    It is the number that leaves the fewest columns of the last panel unused; of several, the largest.
    """
    best, fewest = 0, MIDDLE
    for count in range(M // ROWS, -1, -1):
        unused = -(M - count * ROWS) % MIDDLE
        if unused < fewest:
            best, fewest = count * ROWS, unused
    return best


@inline
def pack_tall(a, at, step, depth, M, first, packed):
    """Columns of a as panels, the first `first` of them ROWS in a panel, the others MIDDLE, with zeros beyond M.

    The result does not need these zeros, but what happens to lie there may be denormal numbers, which are slow. Row k
    of a starts at at + k · step. Each row is read from its first column to its last, in the order of the memory.
    """
    whole = first + (M - first) // MIDDLE * MIDDLE
    for k in range(depth):
        row = a[at + k * step :]
        for i in range(0, first, ROWS):
            source, to = row[i:], packed[i * depth + k * ROWS :]
            for j in range(ROWS):
                to[j] = source[j]
        for i in range(first, whole, MIDDLE):
            source, to = row[i:], packed[i * depth + k * MIDDLE :]
            for j in range(MIDDLE):
                to[j] = source[j]
        if whole < M:
            to = packed[whole * depth + k * MIDDLE :]
            copy(row[whole:], to, M - whole)
            to[M - whole : MIDDLE] = 0


@inline
def pack_wide(b, at, step, depth, N, packed, width):
    """Columns of b as panels of `width`, with zeros beyond N."""
    whole = N // width * width
    for k in range(depth):
        row = b[at + k * step :]
        for j in range(0, whole, width):
            copy(row[j:], packed[j * depth + k * width :], width)
        if whole < N:
            to = packed[whole * depth + k * width :]
            copy(row[whole:], to, N - whole)
            to[N - whole : width] = 0


@kernel
def transposed_product(a, a_step, rows, M, b, b_at, b_step, N, c, c_at, c_step, space, add):
    """c[i, j] = Σ over k of a[k, i] · b[k, j], or with `add` c[i, j] += this sum.

    The arrays are flat: a[k, i] is entry k · a_step + i, b[k, j] entry b_at + k · b_step + j, c[i, j] entry
    c_at + i · c_step + j. `space` has space_size numbers.
    """
    for i in range(0 if add else M):
        c[c_at + i * c_step : c_at + i * c_step + N] = 0
    width = width_of(space)
    lanes = width // VECTORS
    edge, wide = space[: ROWS * width], space[ROWS * width :]  # a tile that c does not fill; a packed block of b
    high = wide[min(DEPTH, rows) * min(PANELS, (N + width - 1) // width) * width :]  # a packed block of a
    for start in range(0, rows, DEPTH):
        depth = min(DEPTH, rows - start)
        for side in range(0, N, PANELS * width):
            breadth = min(PANELS * width, N - side)
            pack_wide(b, b_at + start * b_step + side, b_step, depth, breadth, wide, width)
            for top in range(0, M, HEIGHT):
                height = min(HEIGHT, M - top)
                first = tall_columns(height)
                pack_tall(a, start * a_step + top, a_step, depth, height, first, high)
                for left in range(0, breadth, width):
                    used, w_at = min(width, breadth - left), left * depth
                    i = 0
                    while i < height:
                        count = ROWS if i < first else MIDDLE
                        here = c_at + (top + i) * c_step + side + left
                        inside = used in (width, lanes) and i + count <= height
                        to, at, step = (c, here, c_step) if inside else (edge, 0, width)
                        if not inside:
                            for j in range(min(count, height - i)):
                                copy(c[here + j * c_step :], edge[j * width :], used)
                        if i < first and used > lanes:
                            tall(high, wide, to, i * depth, w_at, at, 1, width, step, 0, 0, depth)
                        elif used > lanes:
                            middle(high, wide, to, i * depth, w_at, at, 1, width, step, 0, 0, depth)
                        elif i < first:
                            narrow_tall(high, wide, to, i * depth, w_at, at, 1, width, step, 0, 0, depth)
                        else:
                            narrow_middle(high, wide, to, i * depth, w_at, at, 1, width, step, 0, 0, depth)
                        if not inside:
                            for j in range(min(count, height - i)):
                                copy(edge[j * width :], c[here + j * c_step :], used)
                        i += count


def weight_gradient(
    a: Array,  # (…, columns), of which the first M are used
    b: Array,  # (…, columns), of which N from b_from on are used
    out: Array,  # (M, columns), of which N from out_from on are written
    work: Workspace | None = None,
    *,
    N: int | None = None,
    b_from: int = 0,
    out_from: int = 0,
    add: bool = False,
) -> None:
    """out = a.T @ b, summed over all rows, or added to out. All arrays are contiguous."""
    a_step, b_step = a.shape[-1], b.shape[-1]
    N, rows = b_step if N is None else N, b.size // b_step
    assert out.flags.c_contiguous
    assert a.size == rows * a_step
    if not BY_TILE or len(out) < FEWEST or len(out) * N < SMALL or out.dtype not in FLOATS:
        to = out[:, out_from : out_from + N]
        left, right = a.reshape(-1, a_step)[:, : len(out)].T, b.reshape(-1, b_step)[:, b_from : b_from + N]
        if add:
            to += left @ right
        else:
            np.matmul(left, right, out=to)
        return
    work = Workspace(out.dtype) if work is None else work
    space = work.array("weight_gradient", space_size(rows, len(out), N, out.dtype.itemsize))
    transposed_product(
        a.reshape(-1), a_step, rows, len(out), b.reshape(-1), b_from, b_step, N, out.reshape(-1), out_from,
        out.shape[1], space, add,
    )  # fmt: skip
