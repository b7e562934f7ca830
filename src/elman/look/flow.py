"""Gradient flow: ‖∂L[t]/∂h[k]‖ of every loss L[t] by every state h[k] that it depends on, and how long it lasts.

L[t] = -log y_hat[t] of the right token alone, in nats; h[k] is the state after k steps, h[0] the initial one. The lag
of h[k] from L[t] is t+1-k: lag 0 is the state from which o[t] was computed. All losses go back together, lag by lag:
one row for each, one backward step of the cell for each lag and layer.

In a stack ∂L[t]/∂h[k] of a layer counts every path through the whole stack: along the layer's own time, and up into the
layer above and along its time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from elman.look.traces import Trace, trace
from elman.maths.activations import ActivationLike
from elman.maths.arrays import Array
from elman.maths.loss import cross_entropy
from elman.network import HeadNetwork, Parameters, check_ids
from elman.network.pool import run

Progress = Callable[[str, int, int], None]  # what is being done, how much is done, how much there is
GONE = 0.01  # of the gradient at lag 0: less than this is as good as nothing


@dataclass(frozen=True, eq=False)
class GradientFlow:
    """Norms by layer, loss t and state k; NaN where L[t] does not depend on h[k], which is k > t+1."""

    d_h: Array  # (layers, T, T+1) ‖∂L[t]/∂h[k]‖
    d_a: Array  # (layers, T, T+1) ‖that ⊙ f'(h[k])‖, on the product with W_hh; NaN for k = 0, which no step made
    d_h_back: Array  # (layers, T, T+1) ‖that @ W_hh.T‖: what goes on from h[k] to h[k-1]; NaN for k = 0
    losses: Array  # (T,) nats
    activation: ActivationLike

    @property
    def steps(self) -> int:
        return len(self.losses)

    @property
    def layers(self) -> int:
        return len(self.d_h)

    def by_lag(self, layer: int = -1) -> Array:
        """How much of the gradient is left at each lag: its mean norm, relative to lag 0 of the same losses.

        NaN where these have no gradient at all, infinity where it outgrows all numbers.
        """
        first = self.d_h[layer].diagonal(1)
        left = [self.d_h[layer].diagonal(1 - lag) for lag in range(self.steps + 1)]
        return _ratio([part.sum() for part in left], [first[-len(part) :].sum() for part in left])  # (T+1,)

    def factors(self, layer: int = -1) -> tuple[Array, Array]:
        """What the step back from each lag multiplies the mean norm by: f'(h), which is diagonal, and W_hh."""
        three = (
            norms[layer, :, 1:] for norms in (self.d_h, self.d_a, self.d_h_back)
        )  # without h[0]: it goes no further
        d_h, d_a, back = ([norms.diagonal(-lag).sum() for lag in range(self.steps)] for norms in three)  # (T,)
        return _ratio(d_a, d_h), _ratio(back, d_a)


def gradient_flow(
    network: HeadNetwork,
    p: Parameters,
    x: Array,  # (T,) ids
    y: Array,  # (T,) ids
    *,
    state: Array | None = None,  # (L, P, 1, H); zeros unless given
    progress: Progress | None = None,
) -> GradientFlow:
    """The whole matrix, in float64: T²/2 · H² multiplications for each layer, twice as many between two layers."""
    check_ids("y", y, network.outputs)
    return flow_of(trace(network, p, x, state=state), y, progress=progress)


def flow_of(text: Trace, y: Array, *, progress: Progress | None = None) -> GradientFlow:
    """The same for a text that has been read already."""
    # by the pool, where BLAS has one thread: two that share a busy machine take twenty times as long
    return run([partial(_follow, text, y, progress)])[0]


@np.errstate(over="ignore", invalid="ignore")  # an explosion is what we are looking for
def _follow(text: Trace, y: Array, progress: Progress | None) -> GradientFlow:
    T, layers = len(y), len(text.layers)
    d_h, d_a, d_h_back = (np.full((layers, T, T + 1), np.nan) for _ in range(3))
    losses, (_, d_o) = text.losses(y), cross_entropy(text.o, y)  # (T,), (T, Y): each row of its own loss alone
    sent = [np.zeros_like(layer.s[:, 1:]) for layer in text.layers]  # (P, losses, H): what the step after sends back
    for lag in range(T + 1):
        if progress:
            progress("following the gradient", lag, T)
        first = max(lag - 1, 0)  # the first loss that reaches so far back: at lag > 0 it has come to h[0]
        all_t, t = np.arange(first, T), np.arange(lag, T)  # all losses that do, and those that go on from here
        # the direct part of d_h[t+1]: d_o[t] @ W_hy.T
        from_above: Array | float = d_o @ text.W_hy.T if lag == 0 else 0.0  # (losses that go on, H)
        for layer in reversed(range(layers)):
            d, of_layer = sent[layer], text.layers[layer]  # (P, losses, H)
            d[0, lag - first :] += from_above
            d_h[layer, all_t, all_t + 1 - lag] = _norms(d[0])
            k = t + 1 - lag
            step = of_layer.back(d[:, lag - first :], k - 1)
            sent[layer] = step.d_s
            d_a[layer, t, k], d_h_back[layer, t, k] = _norms(step.d_a_h), _norms(step.d_s[0])
            if layer:  # d_x[t] = d_a_x[t] @ W_xh.T: the layer below made this layer's input
                from_above = step.d_a_x @ of_layer.p["W_xh"].T
    return GradientFlow(d_h, d_a, d_h_back, losses, text.layers[-1].cell.activation)


def memory_horizon(flow: GradientFlow, layer: int = -1, *, gone: float = GONE) -> int | None:
    """Steps back until the gradient falls below 1 % of what it is at lag 0; None if it never does within the text."""
    below = np.flatnonzero(flow.by_lag(layer) < gone)
    return int(below[0]) if len(below) else None


def _norms(rows: Array) -> Array:
    return np.asarray(np.sqrt(np.einsum("th,th->t", rows, rows)))


def _ratio(part: Sequence[float], whole: Sequence[float]) -> Array:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(np.isfinite(part), np.divide(part, whole), np.inf)
