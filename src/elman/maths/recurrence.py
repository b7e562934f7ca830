"""The time loop, forward and backward, for every kind of cell.

Rows are examples, time comes first. The state has one entry more than x: s[:, 0] is the initial state, s[:, t+1] the
state after the step that reads x[t]. In reverse the steps run from the last to the first, so that the state before step
t is s[:, t+2], and s[:, 0] before step T-1. Past its length a row keeps its state, in either direction.

P is the number of state parts (2 in an LSTM, h and c; else 1), G the number of gates, as in cells/base.py.
Names in brackets at the ends of comments, such as [a_x], mark quoted lines: see elman/maths/__init__.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from elman.maths.arrays import Array
from elman.maths.layers import input_backward, input_forward

if TYPE_CHECKING:
    from elman.maths.cells.base import Cell, Weights


class CellTrace(NamedTuple):
    """What a forward pass keeps for the backward pass.

    Attributes
    ----------
    s : array (P, T+1, B, H)
        All states, with P parts each: h, and c in an LSTM. s[0] is h.
    kept : tuple of arrays (T, B, …)
        The other values of each step that the backward pass needs, such as gates.
    """

    s: Array  # (P, T+1, B, H)
    kept: tuple[Array, ...] = ()  # (T, B, …) each


class CellGradients(NamedTuple):
    """Gradients of the loss for a layer of any cell.

    Attributes
    ----------
    d_p : dict of arrays
        Of the parameters, by name.
    d_x : array (T, B, X) or None
        Of the input; None if x has token ids.
    d_s0 : array (P, B, H)
        Of the initial state.
    """

    d_p: dict[str, Array]
    d_x: Array | None  # (T, B, X)
    d_s0: Array  # (P, B, H)


def steps(T: int, reverse: bool) -> list[tuple[int, int]]:
    """Each step t with the index of the state before it, in the order in which they run."""
    if reverse:
        return [(t, t + 2 if t < T - 1 else 0) for t in reversed(range(T))]  # [reverse]
    return [(t, t) for t in range(T)]


def cell_forward(
    cell: Cell,
    x: Array,  # (T, B, X), or (T, B) token ids
    s0: Array | None,  # (P, B, H); None is zeros
    p: Weights,
    *,
    lengths: Array | None = None,  # (B,)
    reverse: bool = False,
    h_mask: Array | None = None,  # (B, H), multiplies the state that enters W_hh
) -> CellTrace:
    """Run a layer of any cell.

    Parameters
    ----------
    cell : Cell
        From `make_cell`.
    x : array (T, B, X), or (T, B) of token ids
        Inputs.
    s0 : array (P, B, H) or None
        Initial state with P parts: h, and c in an LSTM; None is zeros.
    p : mapping
        Parameters by name and shape as in `cell.shapes(X, H)`: W_xh, W_hh, b_h and, in a GRU, b_hn.
    lengths : array (B,) of int, optional
        Steps of each row; past them a row keeps its state. All rows have T steps unless given.
    reverse : bool
        Read from the last step to the first.
    h_mask : array (B, H), optional
        Multiplies the state that enters W_hh: recurrent dropout.

    Returns
    -------
    CellTrace
        All states, and what the backward pass needs besides them.

    Examples
    --------
    >>> import numpy as np
    >>> from elman import maths
    >>> lstm = maths.make_cell("lstm")
    >>> p = {name: np.zeros(shape) for name, shape in lstm.shapes(2, 3).items()}
    >>> maths.cell_forward(lstm, np.ones((5, 1, 2)), None, p).s.shape  # P, T+1, B, H
    (2, 6, 1, 3)
    """
    T, B = x.shape[:2]
    W_xh, W_hh, b_h = p["W_xh"], p["W_hh"], p["b_h"]
    s = np.empty((cell.parts, T + 1, B, len(W_hh)), W_hh.dtype)
    s[:, 0] = 0 if s0 is None else s0  # [initial]
    kept = []

    # a_x[t] = x[t] @ W_xh + b_h, of all steps at once
    a_x = input_forward(x, W_xh)  # (T, B, G·H) [a_x]
    a_x += b_h  # [bias]

    for t, before in steps(T, reverse):
        h = s[0, before] if h_mask is None else s[0, before] * h_mask  # (B, H) [h_mask]
        # a_h[t] = h[t] @ W_hh
        a_h = h @ W_hh  # (B, G·H) [a_h]
        s[:, t + 1], keep = cell.forward(a_x[t], a_h, s[:, before], p)  # [step]
        kept.append(keep)
        if lengths is not None:
            ended = t >= lengths  # (B,), the rows without this step [ended]
            s[:, t + 1, ended] = s[:, before, ended]  # [carried]
    in_order = kept[::-1] if reverse else kept  # [kept]
    return CellTrace(s, tuple(np.stack(part) for part in zip(*in_order, strict=True)))


def cell_backward(
    cell: Cell,
    d_h_direct: Array,  # (T, B, H), the loss's direct gradient on h after each step
    trace: CellTrace,
    x: Array,
    p: Weights,
    *,
    d_s_last: Array | None = None,  # (P, B, H), a gradient on the state after the last step that runs
    lengths: Array | None = None,
    reverse: bool = False,
    h_mask: Array | None = None,
) -> CellGradients:
    """Compute the gradients of a layer of any cell: backpropagation through time.

    Parameters
    ----------
    cell : Cell
        From `make_cell`.
    d_h_direct : array (T, B, H)
        The direct gradient of the loss on h after each step.
    trace : CellTrace
        The result of `cell_forward`.
    x : array (T, B, X), or (T, B) of token ids
        Inputs of the forward pass.
    p : mapping
        Parameters of the forward pass.
    d_s_last : array (P, B, H), optional
        A gradient on the state after the last step that runs, in addition to d_h_direct.
    lengths : array (B,) of int, optional
        Steps of each row; past them a row keeps its state. All rows have T steps unless given.
    reverse : bool
        Read from the last step to the first.
    h_mask : array (B, H), optional
        Multiplies the state that enters W_hh: recurrent dropout.

    Returns
    -------
    CellGradients
        d_p, the gradients of the parameters by name; d_x (None for token ids); d_s0, that of the initial state.

    Examples
    --------
    >>> import numpy as np
    >>> from elman import maths
    >>> gru = maths.make_cell("gru")
    >>> p = {name: np.full(shape, 0.1) for name, shape in gru.shapes(2, 3).items()}
    >>> x = np.ones((5, 1, 2))
    >>> d = maths.cell_backward(gru, np.ones((5, 1, 3)), maths.cell_forward(gru, x, None, p), x, p)
    >>> {name: gradient.shape for name, gradient in d.d_p.items()}
    {'W_xh': (2, 9), 'W_hh': (3, 9), 'b_h': (9,), 'b_hn': (3,)}
    """
    (T, B, H), s, W_xh, W_hh = d_h_direct.shape, trace.s, p["W_xh"], p["W_hh"]
    d_a_x, d_a_h = np.zeros((2, T, B, W_hh.shape[1]), W_hh.dtype)
    extra = {name: np.zeros(shape, W_hh.dtype) for name, shape in cell.extra_shapes(H).items()}
    # the part of the gradient on the state after a step that comes from later: after the last step, d_s_last or 0
    d_s_next = np.zeros((cell.parts, B, H), W_hh.dtype) if d_s_last is None else d_s_last.astype(W_hh.dtype)  # [last]

    for t, before in reversed(steps(T, reverse)):  # [backward]
        # d_h[t+1] = d_o[t] @ W_hy.T + d_a[t+1] @ W_hh.T
        d_s = d_s_next  # (P, B, H)
        d_s[0] += d_h_direct[t]  # [d_h]
        active = slice(None) if lengths is None else t < lengths  # (B,), the rows that take this step [active]
        kept = tuple(part[t][active] for part in trace.kept)  # [kept]
        step = cell.backward(d_s[:, active], s[:, before, active], s[:, t + 1, active], kept, p)  # [step]
        d_a_x[t, active], d_a_h[t, active] = step.d_a_x, step.d_a_h  # [d_a_x]
        # the part of d_h[t] that goes through W_hh: d_a[t] @ W_hh.T
        d_h_next = step.d_a_h @ W_hh.T  # (B, H) [d_h_next]
        if h_mask is not None:
            d_h_next *= h_mask[active]  # [h_mask]
        d_s_next = d_s.copy()  # past its length a row passes its gradient on unchanged [carried]
        d_s_next[:, active] = step.d_s  # [d_s]
        d_s_next[0, active] += d_h_next  # [d_h_sent]
        for name, d in step.d_p.items():
            extra[name] += d  # [extra]

    # d_W_hh = Σ h[t].T @ d_a_h[t]: one product over all steps and rows
    before_all = np.concatenate([s[0, 2:], s[0, :1]]) if reverse else s[0, :-1]  # (T, B, H) [before]
    if h_mask is not None:
        before_all = before_all * h_mask  # [before_masked]
    d_W_hh = before_all.reshape(T * B, H).T @ d_a_h.reshape(T * B, W_hh.shape[1])  # (H, G·H) [d_W_hh]
    # d_b_h = Σ of d_a_x over t and rows
    d_b_h = d_a_x.sum(axis=(0, 1))  # (G·H,) [d_b_h]
    # d_W_xh = Σ x[t].T @ d_a_x[t],  d_x[t] = d_a_x[t] @ W_xh.T
    d_W_xh, d_x = input_backward(d_a_x, x, W_xh)  # [d_x]
    # d_h[0] = d_a[0] @ W_hh.T, plus the part that does not go through W_hh
    d_s0 = d_s_next  # (P, B, H) [d_h0]
    return CellGradients({"W_xh": d_W_xh, "W_hh": d_W_hh, "b_h": d_b_h, **extra}, d_x, d_s0)
