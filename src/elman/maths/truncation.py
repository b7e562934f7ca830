"""Truncated backpropagation through time, (k1, k2).

A window of T steps is cut into blocks of k1 steps. The losses of a block are backpropagated over at most the last k2
steps up to the block's end (or the row's, if that comes first), and not past the window's start. The gradient of the
window is the sum over its blocks: each block of each row becomes a separate row, and one backward pass over k2 steps
computes all of them. With k2 ≥ T this is the full gradient, with k2 = 1 the gradient that Elman used in 1990.
Names in brackets at the ends of comments, such as [start], mark quoted lines: see elman/maths/__init__.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from elman.maths.activations import ActivationLike
from elman.maths.arrays import Array
from elman.maths.cells.base import Cell, Weights
from elman.maths.cells.rnn import RNNGradients, rnn_backward
from elman.maths.recurrence import CellGradients, CellTrace, cell_backward


class Truncation(NamedTuple):
    """Truncation (k1, k2): the losses of each block of k1 steps are backpropagated over at most k2 steps."""

    k1: int
    k2: int


class Blocks(NamedTuple):
    """The blocks of a window, as N = ⌈T/k1⌉·B rows: for each block the steps over which its losses are backpropagated.

    Attributes
    ----------
    k1 : int
        Steps of a block.
    k2 : int
        Steps of the N rows: the most that the losses of a block are backpropagated over.
    rows : array (N,)
        The row of the batch that each block belongs to.
    first : array (N,)
        The first step of each block.
    start : array (N,)
        The step that the losses of each block are backpropagated to: the first step of its row among the N.
    lengths : array (N,)
        The number of steps that they are backpropagated over; the row is padded past them.
    """

    k1: int
    k2: int
    rows: Array  # (N,)
    first: Array  # (N,)
    start: Array  # (N,)
    lengths: Array  # (N,)

    def inputs(self, x: Array) -> Array:
        """The inputs of the steps that the losses of each block are backpropagated over.

        Parameters
        ----------
        x : array (T, B, …)
            Of the window.

        Returns
        -------
        array (k2, N, …)
        """
        return x[self._at(self.k2, len(x)), self.rows]  # (k2, N, …)

    def trace(self, trace: CellTrace) -> CellTrace:
        """The states before and after the steps that each block goes back over, and the other values kept of them.

        Parameters
        ----------
        trace : CellTrace
            Of the window.

        Returns
        -------
        CellTrace
            With s of shape (P, k2+1, N, H).
        """
        s = trace.s[:, self._at(self.k2 + 1, trace.s.shape[1]), self.rows]  # (P, k2+1, N, H) [s]
        return CellTrace(s, tuple(self.inputs(part) for part in trace.kept))  # [kept]

    def direct(self, d_h_direct: Array) -> Array:
        """The direct gradients of the losses of each block, on the states after the steps that it goes back over.

        Parameters
        ----------
        d_h_direct : array (T, B, H)
            Of the window. A gradient past the end of a row belongs to the last state of the row.

        Returns
        -------
        array (k2, N, H)
        """
        T, _, H = d_h_direct.shape
        d_block = np.zeros((self.k2, len(self.rows), H), d_h_direct.dtype)
        last = np.maximum(self.lengths - 1, 0)  # (N,)
        for t in (self.first + s for s in range(self.k1)):  # [losses]
            (n,) = np.nonzero(t < T)
            d_block[np.minimum(t - self.start, last)[n], n] += d_h_direct[t[n], self.rows[n]]  # [placed]
        return d_block  # (k2, N, H)

    def add_inputs(self, d: Array, total: Array) -> None:
        """Add the gradients of the inputs to those of the window: at each step, those of all blocks that go back to it.

        Parameters
        ----------
        d : array (k2, N, X)
            Of the blocks.
        total : array (T, B, X)
            Of the window; it is changed in place.
        """
        np.add.at(total, (self._at(self.k2, len(total)), self.rows), d)  # [d_x]

    def add_initial(self, d_s0: Array, total: Array) -> None:
        """Add the gradients of the initial state, which only blocks that go back to step 0 have.

        Parameters
        ----------
        d_s0 : array (P, N, H)
            Of the blocks.
        total : array (P, B, H)
            Of the window; it is changed in place.
        """
        from_start = self.start == 0  # [from_start]
        for part, d in zip(total, d_s0, strict=True):
            np.add.at(part, self.rows[from_start], d[from_start])  # [d_s0]

    def _at(self, steps: int, end: int) -> Array:
        """The steps of each block's row, as indices in the window; in its padding any."""
        return np.minimum(self.start + np.arange(steps)[:, np.newaxis], end - 1)  # (steps, N)


def cut_blocks(T: int, B: int, lengths: Array | None, k1: int, k2: int) -> Blocks:
    """Cut a window into blocks.

    Parameters
    ----------
    T, B : int
        Steps and rows of the window.
    lengths : array (B,) of int or None
        Steps of each row.
    k1, k2 : int
        Steps of a block, and the most steps over which its losses are backpropagated.

    Returns
    -------
    Blocks
        Each block of each row as a separate row.

    Examples
    --------
    >>> from elman import maths
    >>> maths.cut_blocks(6, 1, None, k1=2, k2=3).start
    array([0, 1, 3])
    """
    first = np.repeat(np.arange(0, T, k1), B)  # (N,) [first]
    rows = np.tile(np.arange(B), len(first) // B)  # (N,) [rows]
    end = np.minimum(first + k1, T if lengths is None else lengths[rows].astype(np.intp))  # (N,) [end]
    start = np.maximum(end - k2, 0)  # (N,) [start]
    return Blocks(k1, min(k2, T), rows, first, start, end - start)


def truncated_cell_backward(
    cell: Cell,
    d_h_direct: Array,  # (T, B, H)
    trace: CellTrace,
    x: Array,
    p: Weights,
    *,
    k1: int,
    k2: int,
    lengths: Array | None = None,
    h_mask: Array | None = None,
    backward: Callable[..., CellGradients] = cell_backward,  # the pass over the blocks
) -> CellGradients:
    """Compute the truncated gradients of a layer of any cell.

    Parameters
    ----------
    cell, d_h_direct, trace, x, p, lengths, h_mask
        As in `cell_backward`.
    k1, k2 : int
        The losses of a block of k1 steps are backpropagated over at most k2 steps; k2 ≥ T is the full gradient.
    backward : function
        The backward pass that is applied to the blocks, or if k2 ≥ T to the window: `cell_backward`, or a compiled one.

    Returns
    -------
    CellGradients
        The sum of the gradients of all blocks. The state (all parts) before the first step that a block goes back to is
        held fixed, except the initial state, whose gradient is d_s0.
    """
    T, B, H = d_h_direct.shape
    if k2 >= T:  # [whole]
        return backward(cell, d_h_direct, trace, x, p, lengths=lengths, h_mask=h_mask)  # [full]
    blocks = cut_blocks(T, B, lengths, k1, k2)
    masks = None if h_mask is None else h_mask[blocks.rows]  # [h_mask]
    direct, inputs = blocks.direct(d_h_direct), blocks.inputs(x)
    d = backward(cell, direct, blocks.trace(trace), inputs, p, lengths=blocks.lengths, h_mask=masks)  # [blocks]
    d_x, d_s0 = None if d.d_x is None else np.zeros_like(x), np.zeros((cell.parts, B, H), trace.s.dtype)
    if d_x is not None and d.d_x is not None:
        blocks.add_inputs(d.d_x, d_x)
    blocks.add_initial(d.d_s0, d_s0)
    return CellGradients(d.d_p, d_x, d_s0)


def truncated_backward(
    d_h_direct: Array,  # (T, B, H)
    x: Array,
    h: Array,
    W_xh: Array,
    W_hh: Array,
    *,
    k1: int,
    k2: int,
    activation: ActivationLike = "tanh",
    lengths: Array | None = None,
    h_mask: Array | None = None,
    out: RNNGradients | None = None,
    backward: Callable[..., CellGradients] = cell_backward,
) -> RNNGradients:
    """Compute the gradients of a layer of vanilla cells by truncated backpropagation through time.

    Parameters
    ----------
    d_h_direct, x, h, W_xh, W_hh, activation, lengths, h_mask, out, backward
        As in `rnn_backward`.
    k1, k2 : int
        The losses of a block of k1 steps are backpropagated over at most k2 steps; k2 ≥ T is the full gradient.

    Returns
    -------
    RNNGradients
        The sum of the gradients of all blocks.

    Examples
    --------
    >>> import numpy as np
    >>> from elman import maths
    >>> x, W = np.ones((4, 1, 1)), np.full((1, 1), 0.5)
    >>> h = maths.rnn_forward(x, None, W, W, np.zeros(1))
    >>> d_h = np.ones((4, 1, 1))
    >>> short = maths.truncated_backward(d_h, x, h, W, W, k1=1, k2=1)
    >>> bool(short.d_W_hh < maths.rnn_backward(d_h, x, h, W, W).d_W_hh)
    True
    """

    def truncated(cell: Cell, *args: object, reverse: bool = False, **options: object) -> CellGradients:
        return truncated_cell_backward(cell, *args, k1=k1, k2=k2, backward=backward, **options)  # type: ignore[arg-type]

    return rnn_backward(
        d_h_direct, x, h, W_xh, W_hh,
        activation=activation, lengths=lengths, h_mask=h_mask, out=out, backward=truncated,
    )  # fmt: skip
