"""The input product, the embedding and the output layer. Each backward function follows its forward function.

W_xh has G blocks of H columns, as in cells/base.py.
Names in brackets at the ends of comments, such as [o], mark quoted lines: see elman/maths/__init__.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from elman.maths.arrays import Array


class OutputGradients(NamedTuple):
    """Gradients of the output layer.

    Attributes
    ----------
    d_W_hy, d_b_y : arrays (H, Y), (Y,)
        Of the weights and the bias.
    d_h : array (…, H)
        Of the states: only the direct part, the argument d_h_direct of `rnn_backward`.
    """

    d_W_hy: Array  # (H, Y)
    d_b_y: Array  # (Y,)
    d_h: Array  # (…, H)


def output_forward(h: Array, W_hy: Array, b_y: Array, *, out: Array | None = None) -> Array:
    """Compute the output layer: o = h @ W_hy + b_y.

    Parameters
    ----------
    h : array (…, H)
        States.
    W_hy, b_y : arrays (H, Y), (Y,)
        Output weights and bias.
    out : array (…, Y), optional
        Where the result is written.

    Returns
    -------
    array (…, Y)
        Logits, or the numbers of a regression.

    Examples
    --------
    >>> import numpy as np
    >>> from elman import maths
    >>> maths.output_forward(np.ones((4, 2, 3)), np.ones((3, 5)), np.zeros(5)).shape
    (4, 2, 5)
    """
    # o[t] = h[t+1] @ W_hy + b_y
    H, Y = W_hy.shape
    o = np.empty((*h.shape[:-1], Y), W_hy.dtype) if out is None else out  # (…, Y)
    if o.flags.c_contiguous:
        np.matmul(h.reshape(-1, H), W_hy, out=o.reshape(-1, Y))  # one product instead of one for each step [o]
    else:
        np.matmul(h, W_hy, out=o)
    o += b_y  # [b_y]
    return o


def output_backward(d_o: Array, h: Array, W_hy: Array, *, out: OutputGradients | None = None) -> OutputGradients:
    """Compute the gradients of the output layer.

    Parameters
    ----------
    d_o : array (…, Y)
        Gradient of the loss on the outputs.
    h : array (…, H)
        The states of the forward pass.
    W_hy : array (H, Y)
        Output weights.
    out : OutputGradients, optional
        Gradients to which these are added.

    Returns
    -------
    OutputGradients
        d_W_hy (H, Y), d_b_y (Y,) and d_h (…, H).

    Examples
    --------
    >>> import numpy as np
    >>> from elman import maths
    >>> maths.output_backward(np.ones((4, 2, 5)), np.ones((4, 2, 3)), np.ones((3, 5))).d_b_y
    array([8., 8., 8., 8., 8.])
    """
    H, Y = W_hy.shape
    if out is None:
        out = OutputGradients(np.zeros_like(W_hy), np.zeros(Y, W_hy.dtype), np.zeros(h.shape, W_hy.dtype))
    rows = d_o.reshape(-1, Y)  # (T·B, Y)
    # d_W_hy = Σ h[t+1].T @ d_o[t]
    out.d_W_hy[...] += h.reshape(-1, H).T @ rows  # (H, Y) [d_W_hy]
    # d_b_y = Σ of d_o over t and rows
    out.d_b_y[...] += rows.sum(axis=0)  # (Y,) [d_b_y]
    # the direct part of d_h[t+1]: d_o[t] @ W_hy.T
    out.d_h[...] += (rows @ W_hy.T).reshape(h.shape)  # (…, H) [d_h]
    return out


def embedding_forward(ids: Array, W: Array, *, out: Array | None = None) -> Array:
    """Look up the vector of each token.

    Parameters
    ----------
    ids : array (…) of int
        Token ids below V.
    W : array (V, X)
        One row for each token.
    out : array (…, X), optional
        Where the result is written.

    Returns
    -------
    array (…, X)
        The rows of W.

    Examples
    --------
    >>> import numpy as np
    >>> from elman import maths
    >>> maths.embedding_forward(np.array([2, 0]), np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]))
    array([[4., 5.],
           [0., 1.]])
    """
    # one-hot row @ W is a row of W; with `out`, mode "raise" would make NumPy write to a copy first
    return np.take(W, ids, axis=0, out=out, mode="clip" if out is not None else "raise")  # (…, X) [x]


def embedding_backward(d_x: Array, ids: Array, W: Array, *, out: Array | None = None) -> Array:
    """Add up the gradients of each token's vector.

    Parameters
    ----------
    d_x : array (…, X)
        Gradient of the loss on the vectors that were looked up.
    ids : array (…) of int
        The token ids of the forward pass.
    W : array (V, X)
        The table, for its shape.
    out : array (V, X), optional
        Gradients to which these are added.

    Returns
    -------
    array (V, X)
        d_W; rows of tokens that do not occur are 0.

    Examples
    --------
    >>> import numpy as np
    >>> from elman import maths
    >>> maths.embedding_backward(np.ones((3, 1)), np.array([1, 1, 0]), np.zeros((3, 1))).ravel()
    array([1., 2., 0.])
    """
    # d_W = Σ one-hot column @ d_x: the rows of d_x, added up by id
    from scipy.sparse import csr_array  # holds only the ones, and takes a fifth of the time of a loop over ids

    d_W = np.zeros_like(W) if out is None else out  # (V, X)
    rows = d_x.reshape(-1, W.shape[1]).astype(np.result_type(W, np.float32), copy=False)  # csr has no float16
    ones, starts = np.ones(len(rows), rows.dtype), np.arange(len(rows) + 1)
    one_hot = csr_array((ones, ids.ravel(), starts), (len(rows), len(W)))  # (T·B, V) [one_hot]
    d_W += (one_hot.T @ rows).astype(W.dtype, copy=False)  # [d_W]
    return d_W


def input_forward(x: Array, W_xh: Array) -> Array:
    """The input product (T, B, G·H) of x (T, B, X) or token ids (T, B) with W_xh (X, G·H)."""
    # x[t] @ W_xh, where a token id stands for its one-hot row
    if x.ndim == 2:
        return embedding_forward(x, W_xh)  # (T, B, G·H)
    T, B, X = x.shape
    return (x.reshape(T * B, X) @ W_xh).reshape(T, B, -1)  # (T, B, G·H) [dense]


def input_backward(d_a_x: Array, x: Array, W_xh: Array) -> tuple[Array, Array | None]:
    """d_W_xh (X, G·H), and d_x (T, B, X) or None for token ids, from d_a_x (T, B, G·H)."""
    # d_W_xh = Σ x[t].T @ d_a_x[t]
    if x.ndim == 2:
        return embedding_backward(d_a_x, x, W_xh), None  # (X, G·H)
    X, N = W_xh.shape
    rows = d_a_x.reshape(-1, N)  # (T·B, G·H)
    d_W_xh = x.reshape(-1, X).T @ rows  # (X, G·H) [d_W_xh]
    # d_x[t] = d_a_x[t] @ W_xh.T
    d_x = (rows @ W_xh.T).reshape(x.shape)  # (T, B, X) [d_x]
    return d_W_xh, d_x
