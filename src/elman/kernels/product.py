"""c += a @ W, with W packed once into panels of a few vectors of columns.

Loops that only move numbers run over slices from 0: an index that might be negative would stop LLVM from using vectors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from elman.kernels.compile import VECTOR_BYTES, inline, kernel, part
from elman.kernels.reference import aligned
from elman.kernels.tile import MIDDLE, ROWS, VECTORS, make_tile
from elman.maths.arrays import Array

DEPTH = 256  # rows of a panel that are used before the next ones: they and a few rows of a stay in the L1 cache
BLOCK = 16 * ROWS  # rows of a that are used before the next ones: DEPTH columns of them stay in the L2 cache
tall = make_tile(ROWS, VECTORS)
middle = make_tile(MIDDLE, VECTORS)
tile5, tile4, tile3, tile2 = (make_tile(rows, VECTORS) for rows in (5, 4, 3, 2))
tile1 = make_tile(1, VECTORS)
narrow_tall, narrow4, narrow1 = (make_tile(rows, 1) for rows in (2 * ROWS, 4, 1))  # for a panel that is half empty
wide2 = make_tile(2, VECTORS, panels=2)
wide1, wide1_3, wide1_2 = (make_tile(1, VECTORS, panels) for panels in (4, 3, 2))
# for panels of which the last is half empty
short1, short1_3, short1_2 = (make_tile(1, VECTORS, panels, left_out=1) for panels in (4, 3, 2))


def panel_width(itemsize: int) -> int:
    """The number of columns of a panel."""
    return VECTORS * VECTOR_BYTES // itemsize


def packed_size(K: int, N: int, itemsize: int) -> int:
    """The number of entries of a packed matrix (K, N), the zeros of its last panel included."""
    width = panel_width(itemsize)
    return -(-N // width) * K * width


def packed_array(K: int, N: int, dtype: np.dtype[Any]) -> Array:
    """Memory for a packed matrix (K, N)."""
    return aligned(packed_size(K, N, dtype.itemsize), dtype)


def edge_size(rows: int, itemsize: int) -> int:
    """The size of `edge`, the scratch array of a product: the width of a panel for each row, or of four for one row."""
    return max(rows, 4) * panel_width(itemsize)


def _width_of(typing, packed):
    """panel_width for numbers like those of `packed`, a constant for LLVM (packed.itemsize would not be one)."""
    width = panel_width(packed.dtype.bitwidth // 8)
    return types.intp(packed), lambda context, builder, signature, args: context.get_constant(types.intp, width)


width_of: Any = intrinsic(_width_of)


@inline
def packed_size_of(K, N, packed):
    """packed_size for numbers like those of `packed`."""
    width = width_of(packed)
    return (N + width - 1) // width * K * width


@inline
def copy(source, to, count):
    for j in range(count):  # an assignment of slices would compile an error message for shapes that differ
        to[j] = source[j]


@inline
def pack_panels(W, packed, first, begin, end):
    """The panels from `begin` to `end` of W, with its columns in the order first, first + 1 …, then 0 … first - 1.

    The last panel of W is filled up with zeros.
    """
    K, N = W.shape
    width = width_of(packed)
    for p in range(begin, end):
        used = min(width, N - p * width)
        start = p * width + first
        start = start - N if start >= N else start
        whole = min(used, N - start)  # up to W's last column; the others begin again at its first
        for k in range(K):
            to = packed[(p * K + k) * width : (p * K + k + 1) * width]
            copy(W[k, start:], to, whole)
            copy(W[k], to[whole:], used - whole)
            to[used:] = 0


@inline
def pack_from(W, packed, first):
    """All panels of W, with its columns in the order first, first + 1 …, then 0 … first - 1."""
    pack_panels(W, packed, first, 0, (W.shape[1] + width_of(packed) - 1) // width_of(packed))


@inline
def pack(W, packed):
    """All panels of W, with its columns in their order."""
    pack_from(W, packed, 0)


@inline
def pack_transposed_panels(W, packed, first, begin, end):
    """The panels from `begin` to `end` of W.T, with its rows in the order first, first + 1 …, then 0 … first - 1.

    They are packed in blocks of 16 rows, so that a cache line of W, 16 numbers in float32, is read only once.
    """
    N, K = W.shape
    width = width_of(packed)
    for p in range(begin, end):
        used = min(width, N - p * width)
        panel = packed[p * K * width : (p + 1) * K * width].reshape(K, width)
        for side in range(2):  # W's columns from `first` on, then those before it
            left, right = (first, K) if side == 0 else (0, first)
            rows, place = W[p * width : p * width + used, left:right], panel[(K - first) * side :]
            for start in range(0, right - left, 16):
                block, to = rows[:, start : start + 16], place[start : start + 16]
                for k in range(block.shape[1]):
                    for j in range(used):
                        to[k, j] = block[j, k]
        panel[:, used:] = 0


@inline
def pack_transposed_from(W, packed, first):
    """All panels of W.T, with its rows in the order first, first + 1 …, then 0 … first - 1."""
    pack_transposed_panels(W, packed, first, 0, (W.shape[0] + width_of(packed) - 1) // width_of(packed))


@inline
def pack_transposed(W, packed):
    """All panels of W.T, with its rows in their order."""
    pack_transposed_from(W, packed, 0)


@inline
def tall_rows(a, packed, c, a_at, w_at, c_at, a_step, w_step, c_step, rows, depth):
    """One panel, all rows: with the tallest tiles that do not leave one or two rows for a tile of their own.

    A tile of fewer than four rows has too few independent sums to keep the multipliers busy.
    """
    i = 0
    while rows - i == ROWS or rows - i >= ROWS + 4:
        tall(a, packed, c, a_at + i * a_step, w_at, c_at + i * c_step, a_step, w_step, c_step, 0, 0, depth)
        i += ROWS
    while i < rows:
        left, at, to = rows - i, a_at + i * a_step, c_at + i * c_step
        if left == MIDDLE or left >= MIDDLE + 4:
            middle(a, packed, c, at, w_at, to, a_step, w_step, c_step, 0, 0, depth)
            i += MIDDLE
        elif left == 5 or left >= 9:
            tile5(a, packed, c, at, w_at, to, a_step, w_step, c_step, 0, 0, depth)
            i += 5
        elif left == 4 or left >= 7:
            tile4(a, packed, c, at, w_at, to, a_step, w_step, c_step, 0, 0, depth)
            i += 4
        elif left == 3 or left == 6:
            tile3(a, packed, c, at, w_at, to, a_step, w_step, c_step, 0, 0, depth)
            i += 3
        elif left == 2:
            tile2(a, packed, c, at, w_at, to, a_step, w_step, c_step, 0, 0, depth)
            i += 2
        else:
            tile1(a, packed, c, at, w_at, to, a_step, w_step, c_step, 0, 0, depth)
            i += 1


@inline
def _narrow_rows(a, packed, c, a_at, w_at, c_at, a_step, w_step, c_step, rows, depth):
    """As tall_rows, for a panel of which one vector is enough: half the work, so twice the rows at a time."""
    i = 0
    while rows - i >= 2 * ROWS:
        narrow_tall(a, packed, c, a_at + i * a_step, w_at, c_at + i * c_step, a_step, w_step, c_step, 0, 0, depth)
        i += 2 * ROWS
    while rows - i >= 4:
        narrow4(a, packed, c, a_at + i * a_step, w_at, c_at + i * c_step, a_step, w_step, c_step, 0, 0, depth)
        i += 4
    while i < rows:
        narrow1(a, packed, c, a_at + i * a_step, w_at, c_at + i * c_step, a_step, w_step, c_step, 0, 0, depth)
        i += 1


@part
def add_strided_product(a, a_at, a_step, rows, packed, K, N, c, c_at, c_step, edge):
    """c[i, :N] += a[i, :K] @ W for all rows of flat a and c.

    The first rows begin at entries a_at and c_at; rows are a_step and c_step entries apart. `edge`, of edge_size
    numbers, holds the last columns of c while a tile adds to them that would also write beyond them.
    """
    width = width_of(packed)
    full = N // width
    left = N - full * width
    for start in range(0, K, DEPTH):
        depth = min(DEPTH, K - start)
        at = a_at + start
        p = 0
        if rows == 1:  # a panel has too few sums to keep the multipliers busy: take four at a time
            while p * width < N:
                panels, w_at, last = min(4, (N + width - 1) // width - p), (p * K + start) * width, N - p * width
                short = 2 * (panels * width - last) >= width  # one vector of the last panel is enough
                inside = panels * width - (width // 2 if short else 0) <= last
                to, to_at = (c, c_at + p * width) if inside else (edge, 0)
                if not inside:
                    copy(c[c_at + p * width :], edge, last)
                if short:
                    if panels == 4:
                        short1(a, packed, to, at, w_at, to_at, a_step, width, c_step, K * width, width, depth)
                    elif panels == 3:
                        short1_3(a, packed, to, at, w_at, to_at, a_step, width, c_step, K * width, width, depth)
                    elif panels == 2:
                        short1_2(a, packed, to, at, w_at, to_at, a_step, width, c_step, K * width, width, depth)
                    else:
                        narrow1(a, packed, to, at, w_at, to_at, a_step, width, c_step, 0, 0, depth)
                elif panels == 4:
                    wide1(a, packed, to, at, w_at, to_at, a_step, width, c_step, K * width, width, depth)
                elif panels == 3:
                    wide1_3(a, packed, to, at, w_at, to_at, a_step, width, c_step, K * width, width, depth)
                elif panels == 2:
                    wide1_2(a, packed, to, at, w_at, to_at, a_step, width, c_step, K * width, width, depth)
                else:
                    tile1(a, packed, to, at, w_at, to_at, a_step, width, c_step, 0, 0, depth)
                if not inside:
                    copy(edge, c[c_at + p * width :], last)
                p += panels
        elif rows == 2:
            while p + 2 <= full:
                w_at = (p * K + start) * width
                wide2(a, packed, c, at, w_at, c_at + p * width, a_step, width, c_step, K * width, width, depth)
                p += 2
        while p * width < N:
            inside = p < full or 2 * left == width  # no tile writes beyond the end of a row
            to, to_at, to_step = (c, c_at + p * width, c_step) if inside else (edge, 0, width)
            if not inside:
                for i in range(rows):
                    copy(c[c_at + p * width + i * c_step :], edge[i * width :], left)
            w_at = (p * K + start) * width
            if p == full and 2 * left <= width:
                _narrow_rows(a, packed, to, at, w_at, to_at, a_step, width, to_step, rows, depth)
            else:
                tall_rows(a, packed, to, at, w_at, to_at, a_step, width, to_step, rows, depth)
            if not inside:
                for i in range(rows):
                    copy(edge[i * width :], c[c_at + p * width + i * c_step :], left)
            p += 1


@inline
def add_product(a, a_at, rows, packed, K, N, c, c_at, edge):
    """As add_strided_product, with contiguous rows."""
    add_strided_product(a, a_at, K, rows, packed, K, N, c, c_at, N, edge)


@kernel
def row_products(a, a_at, a_step, packed, K, c, edge, add):
    """c (rows, N) = a @ W for flat a, or with `add` c += a @ W, by blocks of rows that stay in the L2 cache."""
    rows, N = c.shape
    for start in range(0, rows, BLOCK):
        part = c[start : start + BLOCK]
        if not add:
            part[:] = 0
        at = a_at + start * a_step
        add_strided_product(a, at, a_step, part.shape[0], packed, K, N, part.reshape(-1), 0, N, edge)


@kernel
def product(a, packed, c, edge):
    """c += a @ W for contiguous a (rows, K) and c (rows, N)."""
    add_product(a.reshape(-1), 0, a.shape[0], packed, a.shape[1], c.shape[1], c.reshape(-1), 0, edge)


@kernel
def pack_forward(W, packed):
    pack(W, packed)


@kernel
def pack_backward(W, packed):
    pack_transposed(W, packed)
