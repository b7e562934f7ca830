"""Real-time recurrent learning (Williams and Zipser 1989): the same gradient, computed forward in time.

Each step updates not only the state but also its derivative with respect to every weight. So the gradient of a loss is
known as soon as the loss is, and no past states are needed. RTRL keeps B·(X+H+1)·H² numbers where backpropagation
through time keeps B·T·H, and a step takes about B·(X+H+1)·H³ multiplications instead of B·(X+2H+1)·H. Here it serves
as an independent check of the backward pass.

Names in brackets at the ends of comments, such as [P], mark quoted lines: see elman/maths/__init__.py.
"""

from __future__ import annotations

import numpy as np

from elman.maths.activations import ActivationLike, get_activation
from elman.maths.arrays import Array
from elman.maths.cells.rnn import RNNGradients


def rtrl(
    d_h_direct: Array,  # (T, B, H)
    x: Array,
    h: Array,
    W_xh: Array,
    W_hh: Array,
    *,
    activation: ActivationLike = "tanh",
    lengths: Array | None = None,
    h_mask: Array | None = None,
) -> RNNGradients:
    """Compute the gradients of `rnn_backward` forward in time, by real-time recurrent learning.

    Parameters
    ----------
    d_h_direct, x, h, W_xh, W_hh, activation, lengths, h_mask
        As in `rnn_backward`.

    Returns
    -------
    RNNGradients
        The same gradients; d_x is not computed and None.

    Examples
    --------
    >>> import numpy as np
    >>> from elman import maths
    >>> x, W = np.ones((4, 1, 1)), np.full((1, 1), 0.5)
    >>> h, d_h = maths.rnn_forward(x, None, W, W, np.zeros(1)), np.ones((4, 1, 1))
    >>> bool(np.isclose(maths.rtrl(d_h, x, h, W, W).d_W_hh, maths.rnn_backward(d_h, x, h, W, W).d_W_hh)[0, 0])
    True
    """
    T, B, H = d_h_direct.shape
    X = len(W_xh)
    derivative = get_activation(activation).derivative
    x = np.eye(X, dtype=W_xh.dtype)[x] if x.ndim == 2 else x  # small networks only: one-hot rows are written out
    mask = np.ones((B, H), W_hh.dtype) if h_mask is None else h_mask
    # W stacks W_xh, W_hh and b_h, so that a = [x, h, 1] @ W;   P = ∂h/∂W,   R = ∂h/∂h[0]
    P = np.zeros((B, X + H + 1, H, H), W_hh.dtype)  # (B, entry of [x, h, 1], column of W, entry of h)
    R = np.tile(np.eye(H, dtype=W_hh.dtype), (B, 1, 1))  # (B, entry of h[0], entry of h)
    d_W = np.zeros((X + H + 1, H), W_hh.dtype)
    d_h0 = np.zeros((B, H), W_hh.dtype)

    for t in range(T):
        inputs = np.concatenate([x[t], h[t] * mask, np.ones((B, 1), W_hh.dtype)], axis=1)  # (B, X+H+1)
        f_prime = derivative(h[t + 1])  # (B, H)
        # ∂h[t+1]_j/∂W_ik = f'_j · (1[j = k] · [x, h, 1]_i + Σ_l ∂h[t]_l/∂W_ik · mask_l · W_hh_lj)
        immediate = inputs[:, :, np.newaxis, np.newaxis] * np.eye(H, dtype=W_hh.dtype)  # [immediate]
        P_next = f_prime[:, np.newaxis, np.newaxis] * (immediate + (P * mask[:, np.newaxis, np.newaxis]) @ W_hh)  # [P]
        # ∂h[t+1]_j/∂h[0]_i = f'_j · Σ_l ∂h[t]_l/∂h[0]_i · mask_l · W_hh_lj
        R_next = f_prime[:, np.newaxis] * ((R * mask[:, np.newaxis]) @ W_hh)  # [R]
        active = np.ones(B, bool) if lengths is None else t < lengths  # (B,)
        P[active], R[active] = P_next[active], R_next[active]
        d_W += np.einsum("bikj,bj->ik", P, d_h_direct[t])  # [d_W]
        d_h0 += np.einsum("bij,bj->bi", R, d_h_direct[t])
    return RNNGradients(d_W[:X], d_W[X : X + H], d_W[X + H], None, d_h0)
