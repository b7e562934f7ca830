"""Attention: at each step of the decoder, a weighted mean of the outputs of the encoder.

A state of fixed size cannot hold a long sentence. So the decoder uses all outputs of the encoder at each step, weighted
by how well they match its state h:

    q         = h @ W_q                                the query
    score[j]  = q · keys[j] / √K                       dot: scaled dot product (Luong et al. 2015, Vaswani et al. 2017)
    score[j]  = tanh(q + keys[j]) @ w_a                additive (Bahdanau et al. 2015)
    alpha[j]  = exp(score[j]) / Σ exp(score)           over the source steps j below the row's length
    context   = Σ alpha[j] · values[j]                 the weighted mean
    h_tilde   = tanh([h, context] @ W_c)               enters the output layer, and the next step (input feeding)

values are the encoder's outputs; keys are the same for dot, and values @ W_k for additive. Time comes first: keys are
(T, B, K) and values (T, B, M), with T source steps. Past a row's length alpha is exactly 0, so the (finite) numbers in
its padding do not affect the result. A row of length 0 has a context of 0.

Names in brackets at the ends of comments, such as [q], mark quoted lines: see elman/maths/__init__.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from elman.maths.arrays import Array


class Attention(NamedTuple):
    """The result of one step of attention, which its backward pass needs."""

    q: Array  # (B, K), queries
    alpha: Array  # (T, B), attention weights
    context: Array  # (B, M), weighted means of the values


class AttentionGradients(NamedTuple):
    """Gradients of the loss; d_w_a is None for the dot product, which has no w_a."""

    d_h: Array  # (B, H)
    d_keys: Array  # (T, B, K)
    d_values: Array  # (T, B, M), without the part through the keys that are computed from the values
    d_W_q: Array  # (H, K)
    d_w_a: Array | None  # (K,)


def attention_forward(
    h: Array, keys: Array, values: Array, W_q: Array, w_a: Array | None = None, *, lengths: Array | None = None
) -> Attention:
    """Compute one decoder step of attention for each row.

    Parameters
    ----------
    h : (B, H)
        States of the decoder.
    keys, values : (T, B, K), (T, B, M)
        Vectors that the queries are compared with, and vectors that are averaged.
    W_q : (H, K)
        Weights of the query.
    w_a : (K,), optional
        Weights of additive attention; without them scores are scaled dot products.
    lengths : (B,), optional
        The number of source steps of each row; all T unless given.

    Returns
    -------
    Attention
        Queries (B, K), weights alpha (T, B) and contexts (B, M).

    Examples
    --------
    >>> keys = np.array([[[0.0, 4.0]], [[4.0, 0.0]]])  # T = 2 source steps, B = 1 row
    >>> attention_forward(np.array([[1.0, 0.0]]), keys, keys, np.eye(2)).alpha.round(2)
    array([[0.06],
           [0.94]])
    """
    T, K = len(keys), keys.shape[2]
    # q = h @ W_q
    q = h @ W_q  # (B, K) [q]
    if w_a is None:  # noqa: SIM108 - each formula above its line
        # score[j] = q · keys[j] / √K
        score = (keys * q).sum(axis=2) / np.sqrt(K).astype(q.dtype)  # (T, B) [dot]
    else:
        # score[j] = tanh(q + keys[j]) @ w_a
        score = np.tanh(q + keys) @ w_a  # (T, B) [additive]
    valid = np.ones(score.shape, bool) if lengths is None else np.arange(T)[:, np.newaxis] < lengths  # (T, B) [valid]
    # alpha[j] = exp(score[j]) / Σ exp(score), the same for score - max(score), which cannot overflow
    top = np.where(valid, score, -np.inf).max(axis=0, initial=-np.inf)  # (B,)
    e = np.where(valid, np.exp(score - np.where(valid.any(axis=0), top, 0)), 0)  # (T, B) [exp]
    alpha = e / np.where(valid.any(axis=0), e.sum(axis=0), 1)  # (T, B) [alpha]
    # context = Σ alpha[j] · values[j]
    context = (alpha[:, :, np.newaxis] * values).sum(axis=0)  # (B, M) [context]
    return Attention(q, alpha, context)


def attention_backward(
    d_context: Array, h: Array, keys: Array, values: Array, found: Attention, W_q: Array, w_a: Array | None = None
) -> AttentionGradients:
    """The gradients of attention_forward, from d_context (B, M) and its result `found`."""
    q, alpha, _ = found
    # d_values[j] = alpha[j] · d_context
    d_values = alpha[:, :, np.newaxis] * d_context  # (T, B, M) [d_values]
    # d_alpha[j] = values[j] · d_context
    d_alpha = (values * d_context).sum(axis=2)  # (T, B) [d_alpha]
    # d_score = alpha ⊙ (d_alpha - Σ d_alpha · alpha): softmax backward
    d_score = alpha * (d_alpha - (d_alpha * alpha).sum(axis=0))  # (T, B) [d_score]
    if w_a is None:
        scale = 1 / np.sqrt(keys.shape[2]).astype(q.dtype)
        # d_keys[j] = d_score[j] · q / √K
        d_keys = d_score[:, :, np.newaxis] * q * scale  # (T, B, K) [d_keys]
        # d_q = Σ d_score[j] · keys[j] / √K
        d_q = (d_score[:, :, np.newaxis] * keys).sum(axis=0) * scale  # (B, K) [d_q]
        d_w_a = None
    else:
        e = np.tanh(q + keys)  # (T, B, K), computed again: keeping it for all decoder steps would take much memory
        # d_w_a = Σ d_score[j] · tanh(q + keys[j])
        d_w_a = (d_score[:, :, np.newaxis] * e).sum(axis=(0, 1))  # (K,) [d_w_a]
        # d_keys[j] = d_score[j] · w_a ⊙ (1 - tanh(q + keys[j])²)
        d_keys = d_score[:, :, np.newaxis] * w_a * (1 - e * e)  # (T, B, K) [d_keys_additive]
        # d_q = Σ d_keys[j]: q and keys[j] are simply added
        d_q = d_keys.sum(axis=0)  # (B, K) [d_q_additive]
    # d_W_q = h.T @ d_q,  d_h = d_q @ W_q.T
    d_W_q = h.T @ d_q  # (H, K) [d_W_q]
    d_h = d_q @ W_q.T  # (B, H) [d_h]
    return AttentionGradients(d_h, d_keys, d_values, d_W_q, d_w_a)


class CombineGradients(NamedTuple):
    """Gradients of combine_forward."""

    d_h: Array  # (B, H)
    d_context: Array  # (B, M)
    d_W_c: Array  # (H + M, F), F being the entries of h_tilde


def combine_forward(h: Array, context: Array, W_c: Array) -> Array:
    """Combine state and context into h_tilde (B, F), which enters the output layer.

    Parameters
    ----------
    h, context : (B, H), (B, M)
        The decoder's state and its context.
    W_c : (H + M, F)
        Weights.
    """
    # h_tilde = tanh([h, context] @ W_c)
    return np.asarray(np.tanh(np.concatenate([h, context], axis=1) @ W_c))  # (B, F) [h_tilde]


def combine_backward(d_h_tilde: Array, h: Array, context: Array, h_tilde: Array, W_c: Array) -> CombineGradients:
    """The gradients of combine_forward, from d_h_tilde (B, F)."""
    # d_a = (1 - h_tilde²) ⊙ d_h_tilde
    d_a = (1 - h_tilde * h_tilde) * d_h_tilde  # (B, F) [d_a]
    # d_W_c = [h, context].T @ d_a
    d_W_c = np.concatenate([h, context], axis=1).T @ d_a  # (H + M, F) [d_W_c]
    # [d_h, d_context] = d_a @ W_c.T
    d_h, d_context = np.split(d_a @ W_c.T, [h.shape[1]], axis=1)  # (B, H), (B, M) [d_c]
    return CombineGradients(d_h, d_context, d_W_c)
