# A solution. In a student's copy gaps.py replaces the lines from "# gap" to "# end" by NotImplementedError; no copy has
# this comment.
"""A recurrent network by hand: fill in the gaps, in this order, and check them with

    elman lab check rnn.py

The equations and their numbers are those of docs/maths.md, section 18. Rows are examples, time comes first, and h has
one entry more than x: h[0] is the initial state, h[t+1] the state after step t. Only NumPy is needed.
"""

import numpy as np


def softmax(o):
    """(4) Probabilities from logits, over the last axis.

    o: (T, B, Y)    returns y_hat: (T, B, Y). Each row adds up to 1. Logits of 1000 must not overflow.
    """
    # gap
    e = np.exp(o - o.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)
    # end


def cross_entropy(o, y):
    """(5) and (6) The loss, and its gradient on the logits.

    o: (T, B, Y) logits    y: (T, B) ids of the right classes
    returns L: a number, the sum over all steps and rows, in nats    d_o: (T, B, Y)
    Adding 1000 to every logit must not overflow: call your softmax.
    """
    # gap
    y_hat = softmax(o)
    target = np.eye(o.shape[-1])[y]  # one-hot rows
    L = -np.sum(target * np.log(y_hat))
    d_o = y_hat - target
    return L, d_o
    # end


def forward_step(x_t, h_t, W_xh, W_hh, b_h):
    """(1) and (2) One step forward.

    x_t: (B, X)    h_t: (B, H)    W_xh: (X, H)    W_hh: (H, H)    b_h: (H,)
    returns h_next: (B, H), the state after the step
    """
    # gap
    a = x_t @ W_xh + h_t @ W_hh + b_h
    return np.tanh(a)
    # end


def hidden_gradient(d_o_t, d_a_next, W_hy, W_hh):
    """(7) The gradient on the state h[t+1], from both of its uses.

    d_o_t: (B, Y), the gradient on the logits of step t, o[t] = h[t+1] @ W_hy + b_y
    d_a_next: (B, H), the gradient on a[t+1] = x[t+1] @ W_xh + h[t+1] @ W_hh + b_h; zeros at the last step
    W_hy: (H, Y)    W_hh: (H, H)    returns d_h: (B, H)
    """
    # gap
    return d_o_t @ W_hy.T + d_a_next @ W_hh.T
    # end


def preactivation_gradient(d_h, h_next):
    """(8) Back through h[t+1] = tanh(a[t]).

    d_h: (B, H), the gradient on h[t+1]    h_next: (B, H), h[t+1] itself    returns d_a: (B, H)
    """
    # gap
    return d_h * (1 - h_next**2)
    # end


def weight_gradients(x, h, d_a, d_o):
    """(9) to (13) The gradients of all weights: sums over the steps.

    x: (T, B, X)    h: (T+1, B, H)    d_a: (T, B, H)    d_o: (T, B, Y)
    returns d_W_xh: (X, H)    d_W_hh: (H, H)    d_b_h: (H,)    d_W_hy: (H, Y)    d_b_y: (Y,)
    """
    # gap
    steps = range(len(x))
    d_W_xh = sum(x[t].T @ d_a[t] for t in steps)
    d_W_hh = sum(h[t].T @ d_a[t] for t in steps)
    d_b_h = d_a.sum(axis=(0, 1))
    d_W_hy = sum(h[t + 1].T @ d_o[t] for t in steps)
    d_b_y = d_o.sum(axis=(0, 1))
    return d_W_xh, d_W_hh, d_b_h, d_W_hy, d_b_y
    # end


def backward(x, h, d_o, W_xh, W_hh, W_hy):
    """(7) to (11) and (14) The whole loop: backpropagation through time. You may call your functions above.

    x: (T, B, X)    h: (T+1, B, H)    d_o: (T, B, Y)    W_xh: (X, H)    W_hh: (H, H)    W_hy: (H, Y)
    returns d_W_xh: (X, H)    d_W_hh: (H, H)    d_b_h: (H,)    d_h0: (B, H), the gradient on h[0]
    """
    # gap
    d_W_xh, d_W_hh, d_b_h = np.zeros_like(W_xh), np.zeros_like(W_hh), np.zeros(len(W_hh))
    d_h_next = np.zeros_like(h[0])  # no step follows the last one
    for t in reversed(range(len(x))):
        d_direct = d_o[t] @ W_hy.T
        d_h = d_direct + d_h_next
        d_a = d_h * (1 - h[t + 1] ** 2)
        d_W_xh += x[t].T @ d_a
        d_W_hh += h[t].T @ d_a
        d_b_h += d_a.sum(axis=0)
        d_h_next = d_a @ W_hh.T
    return d_W_xh, d_W_hh, d_b_h, d_h_next
    # end


def truncated_backward(x, h, d_o, W_xh, W_hh, W_hy, k):
    """Truncated backpropagation. The loss of each step is backpropagated over at most k steps: its own and the k - 1
    before it.

    x, h, d_o, W_xh, W_hh, W_hy as above    k: a number, at least 1; with k = 1 nothing goes through W_hh, and from
    k = T on nothing is cut. In docs/maths.md, section 8, this is k1 = 1, k2 = k: a block for each loss.
    returns d_W_xh: (X, H)    d_W_hh: (H, H)    d_b_h: (H,). The state before the k steps is held fixed.
    """
    # gap
    d_W_xh, d_W_hh, d_b_h = np.zeros_like(W_xh), np.zeros_like(W_hh), np.zeros(len(W_hh))
    for t in range(len(x)):  # the loss of step t
        d_h = d_o[t] @ W_hy.T
        for s in range(t, max(-1, t - k), -1):  # steps t, t-1, …: at most k of them
            d_a = d_h * (1 - h[s + 1] ** 2)
            d_W_xh += x[s].T @ d_a
            d_W_hh += h[s].T @ d_a
            d_b_h += d_a.sum(axis=0)
            d_h = d_a @ W_hh.T
    return d_W_xh, d_W_hh, d_b_h
    # end


def clip(gradients, limit):
    """(16) Clipping by norm: all gradients together are one vector; if it is longer than the limit, shorten it.

    gradients: a list of arrays    limit: a number
    returns the list of arrays after clipping. The vector keeps its direction; a vector of zeros does not change.
    """
    # gap
    norm = np.sqrt(sum(np.sum(g**2) for g in gradients))
    factor = limit / norm if norm > limit else 1.0
    return [g * factor for g in gradients]
    # end
