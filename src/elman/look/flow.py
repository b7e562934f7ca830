"""Gradient flow: ‖∂L[t]/∂s[k]‖ of every loss L[t] with respect to every state s[k] that it depends on.

L[t] is the loss of step t in nats, -log y_hat[t] of its target. s[k] is the state after k steps: h[k], and in an LSTM
h[k] and c[k]; s[0] is the initial state. The lag of s[k] from L[t] is t+1-k: lag 0 is the state from which o[t] is
computed. All losses are backpropagated together, lag by lag, one row for each loss: one backward step of the cell for
each lag and layer, and in a gated cell one more for each of two paths.

In a stack, ∂L[t]/∂s[k] of a layer includes every path to the loss: along the time of the layer itself, and through the
layers above it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import overload

import numpy as np

from elman.errors import ArgumentError, ShapeError, UnknownNameError
from elman.kernels.threads import run
from elman.look.traces import STEPS, Trace, inputs_and_targets, trace
from elman.maths.activations import ActivationLike
from elman.maths.arrays import Array
from elman.maths.cells import Cell
from elman.maths.loss import cross_entropy
from elman.models import LanguageModel
from elman.network import HeadNetwork, Parameters, check_ids

Progress = Callable[[str, int, int], None]  # name of the task, number of parts that are done, number of all parts
GONE = 0.01  # fraction of the gradient at lag 0; the memory horizon is the first lag at which less is left


@dataclass(frozen=True, eq=False, repr=False)
class GradientFlow:
    """Gradient norms by layer, loss t and state k; NaN where L[t] does not depend on s[k]: for k > t+1.

    Attributes
    ----------
    d_s : ndarray, shape (layers, P, T, T+1)
        The norm of each part of ∂L[t]/∂s[k]: of h, and in an LSTM of c.
    d_a : ndarray, shape (layers, T, T+1)
        ‖∂L[t]/∂a_h‖ of the recurrent product a_h = h[k-1] @ W_hh of the step that computed s[k]; NaN for k = 0, the
        initial state. In a vanilla cell and in an LSTM ∂L[t]/∂a_h equals the gradient on the pre-activations a; in a
        GRU its block of the candidate is also multiplied by the reset gate.
    d_h_back : ndarray, shape (layers, T, T+1)
        ‖∂L[t]/∂a_h @ W_hh.T‖: the part of the gradient on h[k-1] that comes through W_hh; NaN for k = 0.
    paths : dict of str to ndarray, shape (layers, T, T+1)
        In a gated cell ‖∂L[t]/∂s[k]‖ along one path only. "carry": through the gate that multiplies the state, the
        forget gate of an LSTM along c, or the update gate of a GRU. "recurrent": through h and W_hh. In a stack only
        the gradient that enters the layer at lag 0 is followed, not what the layer above adds at larger lags. Empty in
        a vanilla cell.
    losses : ndarray, shape (T,)
        L[t] in nats.
    cell : Cell
        The recurrent cell.
    """

    d_s: Array
    d_a: Array
    d_h_back: Array
    losses: Array
    cell: Cell
    paths: dict[str, Array] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<GradientFlow: {self.steps} losses, {self.layers} layers of {self.cell.name}>"

    @property
    def steps(self) -> int:
        """T, the number of losses."""
        return len(self.losses)

    @property
    def layers(self) -> int:
        """The number of layers."""
        return len(self.d_s)

    @property
    def activation(self) -> ActivationLike:
        """The activation of the cell."""
        return self.cell.activation

    @property
    def d_h(self) -> Array:
        """‖∂L[t]/∂h[k]‖, (layers, T, T+1)."""
        return np.asarray(self.d_s[:, 0])

    @property
    def norms(self) -> Array:
        """‖∂L[t]/∂s[k]‖ of the whole state, (layers, T, T+1)."""
        return self.d_h if self.d_s.shape[1] == 1 else np.linalg.norm(self.d_s, axis=1)

    def by_lag(self, layer: int = -1, *, path: str | None = None) -> Array:
        """How much of the gradient is left at each lag: its mean norm, relative to lag 0 of the same losses.

        Parameters
        ----------
        layer : int
            The layer; -1 is the last.
        path : str, optional
            "carry" or "recurrent": along this path only, in a gated cell.

        Returns
        -------
        ndarray, shape (T+1,)
            NaN where these losses have no gradient, infinity where it overflows.
        """
        if path is not None and path not in self.paths:
            names = f"one of {', '.join(self.paths)}" if self.paths else "None, because a vanilla cell has one path"
            raise UnknownNameError("path", expected=names, got=repr(path))
        norms = self.norms[layer] if path is None else self.paths[path][layer]
        first = self.norms[layer].diagonal(1)
        left = [norms.diagonal(1 - lag) for lag in range(self.steps + 1)]
        return _ratio([part.sum() for part in left], [first[-len(part) :].sum() for part in left])

    def factors(self, layer: int = -1) -> tuple[Array, Array]:
        """The factors by which one step back multiplies the mean norm at each lag, on the path through W_hh.

        Parameters
        ----------
        layer : int
            The layer; -1 is the last.

        Returns
        -------
        activation, recurrent : ndarray, shape (T,)
            The factor of the derivative of the activation (in a gated cell of the gates), and that of W_hh.
        """
        three = (norms[layer, :, 1:] for norms in (self.norms, self.d_a, self.d_h_back))  # without the initial state
        d_s, d_a, back = ([norms.diagonal(-lag).sum() for lag in range(self.steps)] for norms in three)  # (T,)
        return _ratio(d_a, d_s), _ratio(back, d_a)


@overload
def gradient_flow(
    model: LanguageModel,
    text: str | Array,
    /,
    *,
    steps: int = STEPS,
    state: Array | None = None,
    progress: Progress | None = None,
) -> GradientFlow: ...
@overload
def gradient_flow(
    network: HeadNetwork,
    p: Parameters,
    x: Array,
    y: Array,
    /,
    *,
    state: Array | None = None,
    progress: Progress | None = None,
) -> GradientFlow: ...
def gradient_flow(
    model: LanguageModel | HeadNetwork,
    text: str | Array | Parameters,
    x: Array | None = None,
    y: Array | None = None,
    /,
    *,
    steps: int = STEPS,
    state: Array | None = None,
    progress: Progress | None = None,
) -> GradientFlow:
    """How far back the gradient of every loss reaches: ``(model, text)``, or ``(network, p, x, y)``.

    Takes T²/2 · G·H² multiplications for a layer with G gates, twice as many in a gated cell, and T²/2 · G·H² more for
    each layer above the lowest.

    Parameters
    ----------
    model : LanguageModel or HeadNetwork
        A fitted model, or a network of one direction with an output at every step.
    text : str, ndarray of ids, or Parameters
        The text for a model, or the parameters of a network.
    x, y : ndarray of ids, shape (T,)
        Inputs and targets of a network.
    steps : int
        The maximum number of steps of the text.
    state : ndarray, shape (layers, P, 1, H), optional
        The initial state; zeros, or the learned initial state, unless given.
    progress : callable, optional
        Called with the name of the task, the number of parts that are done, and the number of all parts.

    Returns
    -------
    GradientFlow
        All norms, in float64.

    Examples
    --------
    >>> from elman import LanguageModel, look
    >>> model = LanguageModel(hidden=8, steps=1).fit("the cat sat on the mat. " * 20, listeners=[])
    >>> flow = look.gradient_flow(model, "the cat sat on")
    >>> flow.norms.shape, float(flow.by_lag()[0])
    ((1, 13, 14), 1.0)
    """
    if isinstance(model, LanguageModel) and not isinstance(text, Parameters):
        x, y = inputs_and_targets(model, text, steps)
        return flow_of(trace(model, x, state=state), y, progress=progress)
    if not isinstance(model, HeadNetwork) or not isinstance(text, Parameters) or x is None or y is None:
        raise ArgumentError("gradient_flow", expected="a model and a text, or a network, parameters, ids and targets")
    directions, pooling = len(model.stack.directions), model.pooling
    if directions > 1 or pooling != "none":
        got = f"directions: {directions}, pooling: {pooling}"
        raise ArgumentError("network", expected="one direction with an output at every step", got=got)
    if np.shape(y) != np.shape(x):
        raise ShapeError("y", expected=f"shape {np.shape(x)}, one target for each input", got=f"shape {np.shape(y)}")
    check_ids("y", y, model.outputs)
    return flow_of(trace(model, text, x, state=state), y, progress=progress)


def flow_of(forward: Trace, y: Array, *, progress: Progress | None = None) -> GradientFlow:
    """The gradient flow computed from the trace of a forward pass (see `trace`), with the targets y, (T,)."""
    # on the thread pool, where BLAS has one thread: with two threads on a busy machine it can take 20 times as long
    return run([partial(_follow, forward, y, progress)])[0]


@np.errstate(over="ignore", invalid="ignore")  # an exploding gradient is a result, not an error
def _follow(forward: Trace, y: Array, progress: Progress | None) -> GradientFlow:
    T, layers, cell = len(y), len(forward.layers), forward.layers[0].cell
    d_s = np.full((layers, cell.parts, T, T + 1), np.nan)
    d_a, d_h_back = (np.full((layers, T, T + 1), np.nan) for _ in range(2))
    paths = {name: np.full((layers, T, T + 1), np.nan) for name in (("carry", "recurrent") if cell.gates > 1 else ())}
    losses, (_, d_o) = forward.losses(y), cross_entropy(forward.o, y)  # (T,), (T, Y): row t is the gradient of L[t]
    from_next = [np.zeros_like(layer.s[:, 1:]) for layer in forward.layers]  # (P, losses, H): d_s from the step after
    along_path: dict[tuple[str, int], Array] = {}  # (P, losses, H) by path and layer
    for lag in range(T + 1):
        if progress:
            progress("following the gradient", lag, T)
        first = max(lag - 1, 0)  # the first loss with a state at this lag: for lag > 0 that state is s[0]
        all_t, t = np.arange(first, T), np.arange(lag, T)  # all such losses; those whose state is not s[0]
        # the direct part of d_h[t+1]: d_o[t] @ W_hy.T
        from_above: Array | float = d_o @ forward.W_hy.T if lag == 0 else 0.0  # (len(t), H)
        for layer in reversed(range(layers)):
            d, of_layer = from_next[layer], forward.layers[layer]  # (P, losses, H)
            W_hh = of_layer.p["W_hh"]
            d[0, lag - first :] += from_above
            d_s[layer, :, all_t, all_t + 1 - lag] = _norms(d).T
            k = t + 1 - lag
            step = of_layer.back(d[:, lag - first :], k - 1)
            through_W_hh = step.d_a_h @ W_hh.T  # (len(t), H)
            from_next[layer] = step.d_s
            from_next[layer][0] += through_W_hh
            d_a[layer, t, k], d_h_back[layer, t, k] = _norms(step.d_a_h), _norms(through_W_hh)
            for name, norms in paths.items():
                d_path = d.copy() if lag == 0 else along_path[name, layer]
                norms[layer, all_t, all_t + 1 - lag] = np.linalg.norm(_norms(d_path), axis=0)
                path_step = of_layer.back(d_path[:, lag - first :], k - 1)
                if name == "recurrent":
                    path_step.d_s[:] = 0
                    path_step.d_s[0] = path_step.d_a_h @ W_hh.T
                along_path[name, layer] = path_step.d_s
            if layer:  # d_x[t] = d_a_x[t] @ W_xh.T: the input of this layer is the state of the layer below
                from_above = step.d_a_x @ of_layer.p["W_xh"].T
    return GradientFlow(d_s, d_a, d_h_back, losses, cell, paths)


def memory_horizon(flow: GradientFlow, layer: int = -1, *, gone: float = GONE) -> int | None:
    """The smallest lag at which less than the fraction `gone` of the gradient is left, or None if there is none.

    Parameters
    ----------
    flow : GradientFlow
        From `gradient_flow`.
    layer : int
        The layer; -1 is the last.
    gone : float
        A fraction of the gradient at lag 0.

    Returns
    -------
    int or None
        Steps back.

    Examples
    --------
    >>> from elman import LanguageModel, look
    >>> model = LanguageModel(hidden=8, steps=1).fit("the cat sat on the mat. " * 20, listeners=[])
    >>> look.memory_horizon(look.gradient_flow(model, "the cat sat"), gone=0.999) is None
    False
    """
    below = np.flatnonzero(flow.by_lag(layer) < gone)
    return int(below[0]) if len(below) else None


def _norms(rows: Array) -> Array:
    return np.asarray(np.sqrt(np.einsum("...h,...h->...", rows, rows)))


def _ratio(part: Sequence[float], whole: Sequence[float]) -> Array:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(np.isfinite(part), np.divide(part, whole), np.inf)
