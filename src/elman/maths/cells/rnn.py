"""The vanilla cell, h[t+1] = f(a[t]): G = 1, one state part.

rnn_forward and rnn_backward compute a whole layer: the time loop of recurrence.py with this cell.
Names in brackets at the ends of comments, such as [a], mark quoted lines: see elman/maths/__init__.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from elman.maths.activations import ActivationLike, get_activation
from elman.maths.arrays import Array
from elman.maths.cells.base import Cell, Kept, StepGradients, Weights
from elman.maths.recurrence import CellGradients, CellTrace, cell_backward, cell_forward


class RNNCell(Cell):
    """h[t+1] = f(a[t]) for any activation f."""

    name = "rnn"

    def __init__(self, activation: ActivationLike = "tanh") -> None:
        get_activation(activation)  # raises an error for an unknown name
        self.activation = activation

    def forward(self, a_x: Array, a_h: Array, s: Array, p: Weights) -> tuple[Array, Kept]:
        # a[t] = x[t] @ W_xh + h[t] @ W_hh + b_h
        a = a_x + a_h  # (B, H) [a]
        # h[t+1] = tanh(a[t])
        h = get_activation(self.activation).function(a)  # (B, H) [h]
        return h[np.newaxis], ()

    def backward(self, d_s: Array, s: Array, s_next: Array, kept: Kept, p: Weights) -> StepGradients:
        (d_h,), (h,) = d_s, s_next
        # d_a[t] = (1 - h[t+1]²) ⊙ d_h[t+1]
        d_a = get_activation(self.activation).derivative(h) * d_h  # (B, H) [d_a]
        return StepGradients(d_a, d_a, np.zeros_like(d_s), {})

    def jacobian(self, s: Array, s_next: Array, kept: Kept, p: Weights) -> Array:
        return step_jacobian(s_next[0, 0], p["W_hh"], activation=self.activation)  # (H, H)


def step_jacobian(h: Array, W_hh: Array, *, activation: ActivationLike = "tanh") -> Array:
    """∂h[t+1]/∂h[t] (…, H, H), given h[t+1] (…, H): row i has the derivatives with respect to entry i of h[t]."""
    # ∂h[t+1]/∂h[t] = W_hh @ diag(1 - h[t+1]²)
    return np.asarray(W_hh * get_activation(activation).derivative(h)[..., np.newaxis, :])  # (…, H, H) [jacobian]


class RNNGradients(NamedTuple):
    """Gradients of the loss for a vanilla layer.

    Attributes
    ----------
    d_W_xh, d_W_hh, d_b_h : arrays (X, H), (H, H), (H,)
        Of the weights and the bias.
    d_x : array (T, B, X) or None
        Of the input; None if x has token ids.
    d_h0 : array (B, H)
        Of the initial state.
    """

    d_W_xh: Array  # (X, H)
    d_W_hh: Array  # (H, H)
    d_b_h: Array  # (H,)
    d_x: Array | None  # (T, B, X)
    d_h0: Array  # (B, H)

    @classmethod
    def zeros(cls, x: Array, W_xh: Array) -> RNNGradients:
        """Gradients of zero.

        Parameters
        ----------
        x : array (T, B, X), or (T, B) token ids
            The input of the layer.
        W_xh : array (X, H)
            Its input weights.

        Returns
        -------
        RNNGradients
        """
        B, H = x.shape[1], W_xh.shape[1]
        d_x = None if x.ndim == 2 else np.zeros_like(x)
        d_W_hh, d_b_h, d_h0 = (np.zeros(shape, W_xh.dtype) for shape in ((H, H), (H,), (B, H)))
        return cls(np.zeros_like(W_xh), d_W_hh, d_b_h, d_x, d_h0)


def rnn_forward(
    x: Array,  # (T, B, X), or (T, B) token ids
    h0: Array | None,  # (B, H); None is zeros
    W_xh: Array,  # (X, H)
    W_hh: Array,  # (H, H)
    b_h: Array,  # (H,)
    *,
    activation: ActivationLike = "tanh",
    lengths: Array | None = None,  # (B,)
    reverse: bool = False,
    h_mask: Array | None = None,  # (B, H), multiplies the state that enters W_hh
    out: Array | None = None,  # (T+1, B, H)
    forward: Callable[..., CellTrace] = cell_forward,  # the time loop
) -> Array:
    """Run a layer of vanilla cells: h[t+1] = f(x[t] @ W_xh + h[t] @ W_hh + b_h).

    Parameters
    ----------
    x : array (T, B, X), or (T, B) of token ids
        Inputs. A token id stands for its one-hot row.
    h0 : array (B, H) or None
        Initial state; None is zeros.
    W_xh, W_hh, b_h : arrays (X, H), (H, H), (H,)
        Input weights, recurrent weights and bias.
    activation : str or pair
        tanh, relu, sigmoid, identity, or your own pair of f(a) and f' in terms of h.
    lengths : array (B,) of int, optional
        Steps of each row; past them a row keeps its state. All rows have T steps unless given.
    reverse : bool
        Read from the last step to the first.
    h_mask : array (B, H), optional
        Multiplies the state that enters W_hh: recurrent dropout.
    out : array (T+1, B, H), optional
        Where the result is written.
    forward : function
        The time loop: `cell_forward`, or a compiled one.

    Returns
    -------
    array (T+1, B, H)
        All states: h[0] is the initial state, h[t+1] the state after the step that reads x[t].

    Examples
    --------
    >>> import numpy as np
    >>> from elman import maths
    >>> x = np.array([[[1.0, 0.0]], [[0.0, 1.0]]])  # T = 2, B = 1, X = 2
    >>> h = maths.rnn_forward(x, None, np.eye(2), np.zeros((2, 2)), np.zeros(2))
    >>> h.shape
    (3, 1, 2)
    >>> h[1].round(3)
    array([[0.762, 0.   ]])
    """
    p = {"W_xh": W_xh, "W_hh": W_hh, "b_h": b_h}
    s0 = None if h0 is None else h0[np.newaxis]
    h: Array = forward(RNNCell(activation), x, s0, p, lengths=lengths, reverse=reverse, h_mask=h_mask).s[0]
    if out is None:
        return h
    out[...] = h
    return out


def rnn_backward(
    d_h_direct: Array,  # (T, B, H), the loss's direct gradient on the state after each step
    x: Array,
    h: Array,  # (T+1, B, H), from rnn_forward
    W_xh: Array,
    W_hh: Array,
    *,
    activation: ActivationLike = "tanh",
    lengths: Array | None = None,
    reverse: bool = False,
    h_mask: Array | None = None,
    out: RNNGradients | None = None,  # gradients to which these are added
    backward: Callable[..., CellGradients] = cell_backward,  # the time loop
) -> RNNGradients:
    """Compute the gradients of a layer of vanilla cells: backpropagation through time.

    Parameters
    ----------
    d_h_direct : array (T, B, H)
        The direct gradient of the loss on the state after each step: d_o[t] @ W_hy.T.
    x : array (T, B, X), or (T, B) of token ids
        The inputs of the forward pass.
    h : array (T+1, B, H)
        The states, from `rnn_forward`.
    W_xh, W_hh : arrays (X, H), (H, H)
        The weights of the forward pass.
    activation : str or pair
        As in the forward pass.
    lengths : array (B,) of int, optional
        Steps of each row; past them a row keeps its state. All rows have T steps unless given.
    reverse : bool
        Read from the last step to the first.
    h_mask : array (B, H), optional
        Multiplies the state that enters W_hh: recurrent dropout.
    out : RNNGradients, optional
        Gradients to which these are added; its d_x may be None, and then d_x is not returned.
    backward : function
        The time loop: `cell_backward`, or a compiled one.

    Returns
    -------
    RNNGradients
        d_W_xh, d_W_hh, d_b_h, d_x (None for token ids) and d_h0.

    Examples
    --------
    >>> import numpy as np
    >>> from elman import maths
    >>> x, W_xh, W_hh = np.ones((3, 1, 2)), np.eye(2), 0.5 * np.eye(2)
    >>> h = maths.rnn_forward(x, None, W_xh, W_hh, np.zeros(2))
    >>> d = maths.rnn_backward(np.ones((3, 1, 2)), x, h, W_xh, W_hh)
    >>> d.d_W_hh.shape, d.d_x.shape, d.d_h0.shape
    ((2, 2), (3, 1, 2), (1, 2))
    """
    p = {"W_xh": W_xh, "W_hh": W_hh}
    options = {"lengths": lengths, "reverse": reverse, "h_mask": h_mask}
    found = backward(RNNCell(activation), d_h_direct, CellTrace(h[np.newaxis]), x, p, **options)
    d = RNNGradients(found.d_p["W_xh"], found.d_p["W_hh"], found.d_p["b_h"], found.d_x, found.d_s0[0])
    if out is None:
        return d
    for total, part in zip(out, d, strict=True):
        if total is not None and part is not None:
            total[...] += part  # [add]
    return out
