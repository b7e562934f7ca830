"""Softmax and the losses. `surprise` returns the loss of each target, the others the loss and its gradient on o.

A loss is a sum over all vectors o of Y outputs (one for each step of each row), each term times its weight, divided by
the normalizer. The normalizer is an argument because one call cannot know its right value: padding must not be counted,
gradients of several batches or processes may be added, and a limit for clipping means the same for batches of different
sizes only if the loss is a mean (docs/maths.md, section 4).

Names in brackets at the ends of comments, such as [scale], mark quoted lines: see elman/maths/__init__.py.
"""

from __future__ import annotations

import numpy as np

from elman.maths.arrays import Array


def softmax(o: Array, *, out: Array | None = None) -> Array:
    """Turn logits into probabilities.

    Parameters
    ----------
    o : array (…, Y)
        Logits.
    out : array (…, Y), optional
        Where the result is written.

    Returns
    -------
    array (…, Y)
        Probabilities y_hat; they add up to 1 along the last axis.

    Examples
    --------
    >>> import numpy as np
    >>> from elman import maths
    >>> maths.softmax(np.array([0.0, np.log(3.0)]))
    array([0.25, 0.75])
    """
    # y_hat = exp(o) / Σ exp(o), the same for o - max(o), which cannot overflow
    y_hat: Array = np.subtract(o, o.max(axis=-1, keepdims=True), out=out)  # (…, Y) [shifted]
    np.exp(y_hat, out=y_hat)  # [exp]
    y_hat /= y_hat.sum(axis=-1, keepdims=True)  # [y_hat]
    return y_hat


def softmax_backward(d_y_hat: Array, y_hat: Array) -> Array:
    """Compute the gradient of a softmax.

    Parameters
    ----------
    d_y_hat : array (…, Y)
        Gradient of the loss on the probabilities.
    y_hat : array (…, Y)
        The probabilities, from `softmax`.

    Returns
    -------
    array (…, Y)
        d_o, the gradient on the logits.

    Examples
    --------
    >>> import numpy as np
    >>> from elman import maths
    >>> maths.softmax_backward(np.array([1.0, 0.0]), np.array([0.25, 0.75]))
    array([ 0.1875, -0.1875])
    """
    # ∂y_hat_i/∂o_k = y_hat_i (1[i = k] - y_hat_k), so d_o = y_hat ⊙ (d_y_hat - Σ d_y_hat · y_hat)
    inner = (d_y_hat * y_hat).sum(axis=-1, keepdims=True)  # (…, 1) [inner]
    return np.asarray(y_hat * (d_y_hat - inner))  # (…, Y) [d_o]


def cross_entropy(
    o: Array,  # (…, Y) logits
    y: Array,  # (…) ids, or (…, Y) distributions
    *,
    weights: Array | None = None,  # (…)
    normalizer: float | None = None,  # 1 unless given
    out: Array | None = None,  # d_o, may be o itself
) -> tuple[float, Array]:
    """Compute the cross-entropy of a softmax, and its gradient on the logits.

    Parameters
    ----------
    o : array (…, Y)
        Logits.
    y : array (…) of int, or (…, Y)
        Targets: ids, or distributions over the Y classes.
    weights : array (…), optional
        Weight of each vector of logits, 0 for padding; 1 unless given.
    normalizer : float, optional
        What the sum is divided by; 1 unless given.
    out : array (…, Y), optional
        Where d_o is written; may be o itself.

    Returns
    -------
    loss : float
        The weighted sum, divided by the normalizer.
    d_o : array (…, Y)
        Its gradient on o.

    Examples
    --------
    >>> import numpy as np
    >>> from elman import maths
    >>> loss, d_o = maths.cross_entropy(np.zeros((1, 4)), np.array([2]))
    >>> round(loss, 4), d_o.tolist()  # log 4; y_hat - y
    (1.3863, [[0.25, 0.25, -0.75, 0.25]])
    """
    scale = _scale(weights, normalizer, o.dtype)  # (…, 1) or ()
    # log y_hat = o - log Σ exp(o), shifted by max(o)
    shifted = o - o.max(axis=-1, keepdims=True)  # (…, Y) [shifted]
    y_hat = np.exp(shifted, out=out)  # [exp]
    total = y_hat.sum(axis=-1, keepdims=True)  # (…, 1)
    log_total = np.log(total)  # [log_total]
    y_hat /= total  # [y_hat]
    # L = - Σ weight · y · log y_hat / normalizer
    # d_o = weight · (y_hat - y) / normalizer
    d_o = y_hat  # [d_o]
    if y.ndim == o.ndim:
        loss = (scale * y * (log_total - shifted)).sum(dtype=np.float64)  # [loss_of_distributions]
        d_o -= y  # [minus_y]
    else:
        ids = y[..., np.newaxis]  # (…, 1)
        loss = (scale * (log_total - np.take_along_axis(shifted, ids, axis=-1))).sum(dtype=np.float64)  # [loss]
        np.put_along_axis(d_o, ids, np.take_along_axis(d_o, ids, axis=-1) - 1, axis=-1)  # [minus_one]
    d_o *= scale  # [scale]
    return float(loss), d_o


def surprise(o: Array, y: Array) -> Array:
    """The loss -log y_hat[y] of each target in nats (…), from logits (…, Y) and ids (…)."""
    # -log y_hat[y] = log Σ exp(o) - o[y], shifted by max(o)
    shifted = o - np.max(o, axis=-1, keepdims=True)  # (…, Y)
    target = np.take_along_axis(shifted, y[..., np.newaxis], axis=-1)[..., 0]  # (…)
    return np.asarray(np.log(np.exp(shifted).sum(axis=-1)) - target, np.float64)  # (…)


def mean_squared_error(
    o: Array,  # (…, Y)
    y: Array,  # (…, Y)
    *,
    weights: Array | None = None,  # (…)
    normalizer: float | None = None,  # 1 unless given; the number of values makes it the mean
    out: Array | None = None,
) -> tuple[float, Array]:
    """Compute the sum of squared differences divided by the normalizer, and its gradient on the outputs.

    Parameters
    ----------
    o : array (…, Y)
        Outputs.
    y : array (…, Y)
        Targets.
    weights : array (…), optional
        Weight of each vector of outputs, 0 for padding; 1 unless given.
    normalizer : float, optional
        What the sum is divided by; 1 unless given. The number of values makes the loss the mean.
    out : array (…, Y), optional
        Where d_o is written; may be o itself.

    Returns
    -------
    loss : float
        The weighted sum, divided by the normalizer.
    d_o : array (…, Y)
        Its gradient on o.

    Examples
    --------
    >>> import numpy as np
    >>> from elman import maths
    >>> loss, d_o = maths.mean_squared_error(np.array([[1.0, 2.0]]), np.array([[0.0, 2.0]]), normalizer=2)
    >>> loss, d_o.tolist()
    (0.5, [[1.0, 0.0]])
    """
    scale = _scale(weights, normalizer, o.dtype)
    d_o = np.subtract(o, y, out=out)  # (…, Y)
    # L = Σ weight · (o - y)² / normalizer
    loss = (scale * d_o * d_o).sum(dtype=np.float64)  # [loss]
    # d_o = 2 · weight · (o - y) / normalizer
    d_o *= 2 * scale  # [d_o]
    return float(loss), d_o


def _scale(weights: Array | None, normalizer: float | None, dtype: np.dtype[np.floating]) -> Array:
    """weight / normalizer, (…, 1), or () without weights."""
    scale = 1 / (1.0 if normalizer is None else normalizer)  # [normalizer]
    return np.asarray(scale if weights is None else weights[..., np.newaxis] * scale, dtype)  # [scale]
