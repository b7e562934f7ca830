"""A stack of recurrent layers with an output layer: one window forward and backward.

A batch is cut into slices by its size alone. A slice runs the whole network over the whole window in its own
workspace, and the slices' gradients are summed in their order: the result does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from elman.errors import RangeError
from elman.kernels import (
    KERNELS,
    OutputGradients,
    RNNGradients,
    compiled_for,
    cross_entropy,
    cut_blocks,
    output_backward,
    output_forward,
    rnn_backward,
    rnn_forward,
)
from elman.maths.activations import ActivationLike
from elman.maths.arrays import Array, FloatType
from elman.maths.initial import INITIALISERS, glorot, normal
from elman.network.parameters import Parameters
from elman.network.pool import Turn, run

if TYPE_CHECKING:
    from elman.network.fused import Fused
    from elman.network.speaker import Speaker

State: TypeAlias = list[Array]  # one (B, H) for each layer
ROWS_A_SLICE = 64


class Reach(NamedTuple):
    """Truncation: blocks of k1 steps whose losses reach k2 steps back."""

    k1: int
    k2: int


class Network:
    """Shapes and passes; the numbers live in Parameters that are handed in."""

    def __init__(
        self, inputs: int, hidden: int, layers: int, outputs: int, *, activation: ActivationLike = "tanh"
    ) -> None:
        self.inputs, self.hidden, self.layers, self.outputs = inputs, hidden, layers, outputs
        self.activation = activation
        self.shapes: dict[str, tuple[int, ...]] = {}
        for layer in range(layers):
            self.shapes[f"layers.{layer}.W_xh"] = (hidden if layer else inputs, hidden)
            self.shapes[f"layers.{layer}.W_hh"] = (hidden, hidden)
            self.shapes[f"layers.{layer}.b_h"] = (hidden,)
        self.shapes["head.W_hy"] = (hidden, outputs)
        self.shapes["head.b_y"] = (outputs,)
        self._work: dict[tuple[int, ...], _Workspace] = {}
        self._fused: dict[tuple[int, ...], Fused] = {}
        self._turn = Turn()

    def initial(
        self, rng: np.random.Generator, *, recurrent: str, gain: float, input_gain: float, dtype: FloatType
    ) -> Parameters:
        """W_hh as asked; W_xh of tokens normal, because one row is the whole input; other weights Glorot; biases 0."""
        p = Parameters(self.shapes, dtype)
        for name, shape in ((name, shape) for name, shape in self.shapes.items() if len(shape) == 2):
            if name.endswith("W_hh"):
                p[name][...] = INITIALISERS[recurrent](rng, shape, gain=gain, dtype=dtype)
            elif name == "layers.0.W_xh":
                p[name][...] = normal(rng, shape, gain=input_gain, dtype=dtype)
            else:
                p[name][...] = glorot(rng, shape, dtype=dtype)
        return p

    def zero_state(self, B: int, dtype: FloatType) -> State:
        return [np.zeros((B, self.hidden), dtype) for _ in range(self.layers)]

    def forward(self, p: Parameters, x: Array, state: State) -> tuple[Array, State]:
        """Logits of every step and the state after the last: no dropout, nothing kept for a backward pass."""
        check_ids("x", x, self.inputs)
        state = list(state)
        for layer, (W_xh, W_hh, b_h) in enumerate(self._cells(p)):
            h = rnn_forward(x, state[layer], W_xh, W_hh, b_h, activation=self.activation)  # (T+1, B, H)
            x, state[layer] = h[1:], h[-1]
        return output_forward(x, p["head.W_hy"], p["head.b_y"]), state

    def loss_and_gradients(
        self,
        p: Parameters,
        x: Array,  # (T, B) ids
        y: Array,  # (T, B) ids
        state: State,  # (B, H) a layer; replaced by the state after the window
        gradients: Parameters,  # added to
        *,
        normaliser: float,
        masks: Sequence[Array] | None = None,  # (T, B, H), multiplies what leaves each layer
        reach: Reach | None = None,
    ) -> float:
        check_ids("x", x, self.inputs)
        check_ids("y", y, self.outputs)
        T, B = y.shape
        truncated = reach is not None and reach.k2 < T
        with self._turn.lock:
            if KERNELS == "compiled" and not truncated and compiled_for(self.activation, p.buffer.dtype):
                fused = self._fused_for(p, T, B, masks is not None)
                return fused.loss_and_gradients(p, x, y, state, gradients, normaliser, masks)
            return self._in_slices(p, x, y, state, gradients, normaliser, masks, reach)

    def _in_slices(
        self,
        p: Parameters,
        x: Array,
        y: Array,
        state: State,
        gradients: Parameters,
        normaliser: float,
        masks: Sequence[Array] | None,
        reach: Reach | None,
    ) -> float:
        (T, B), jobs = y.shape, []
        for number, rows in enumerate(batch_slices(B)):
            key = (number, T, rows.stop - rows.start, p.buffer.dtype.itemsize)
            if key not in self._work:
                self._work[key] = _Workspace(self, p, T, rows.stop - rows.start)
            work = self._work[key]
            part = [s[rows] for s in state]
            mask = None if masks is None else [m[:, rows] for m in masks]
            job = partial(self._slice, p, x[:, rows], y[:, rows], part, work, normaliser, mask, reach)
            jobs.append((rows, work, job))
        losses = run([job for _, _, job in jobs])
        for rows, work, _ in jobs:
            gradients.buffer += work.gradients.buffer
            for whole, h in zip(state, work.h, strict=True):
                whole[rows] = h[-1]
        return sum(losses)

    def _fused_for(self, p: Parameters, T: int, B: int, masked: bool) -> Fused:
        key = (T, B, masked, p.buffer.dtype.itemsize)
        if key not in self._fused:
            from elman.network.fused import Fused

            self._fused[key] = Fused(self, p, T, batch_slices(B), masked)
        return self._fused[key]

    def _cells(self, p: Parameters) -> list[list[Array]]:
        return [[p[f"layers.{layer}.{name}"] for name in ("W_xh", "W_hh", "b_h")] for layer in range(self.layers)]

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")  # divergence is seen in the loss, not in warnings
    def _slice(
        self,
        p: Parameters,
        x: Array,
        y: Array,
        state: State,
        work: _Workspace,
        normaliser: float,
        masks: Sequence[Array] | None,
        reach: Reach | None,
    ) -> float:
        inputs = [x]  # what enters each layer, and last the output layer
        for layer, (W_xh, W_hh, b_h) in enumerate(self._cells(p)):
            h = rnn_forward(inputs[-1], state[layer], W_xh, W_hh, b_h, activation=self.activation, out=work.h[layer])
            inputs.append(h[1:] if masks is None else h[1:] * masks[layer])  # (T, B, H)
        W_hy = p["head.W_hy"]
        o = output_forward(inputs[-1], W_hy, p["head.b_y"], out=work.o)
        loss, d_o = cross_entropy(o, y, normaliser=normaliser, out=o)

        d = work.gradients
        d.buffer[:] = 0
        d_h, d_x = work.d_h, work.d_x
        d_h[...] = 0
        output_backward(d_o, inputs[-1], W_hy, out=OutputGradients(d["head.W_hy"], d["head.b_y"], d_h))
        options: dict[str, Any] = {"activation": self.activation}
        states = work.h
        if masks is not None:
            d_h *= masks[-1]
        if reach is not None and reach.k2 < len(y):
            # each block of each row becomes a row of its own, in every layer: the reach runs through the whole stack
            blocks = cut_blocks(len(y), y.shape[1], None, reach.k1, reach.k2)
            inputs, states = [blocks.inputs(i) for i in inputs[:-1]], [blocks.states(h) for h in states]
            masks = None if masks is None else [blocks.inputs(mask) for mask in masks]
            d_h, options["lengths"] = blocks.direct(d_h), blocks.lengths
            d_x = np.empty_like(d_h)
        d_h0 = np.empty_like(d_h[0])  # the carried state is a constant: what arrives there is not used
        for layer in reversed(range(self.layers)):
            W_xh, W_hh, _ = self._cells(p)[layer]
            d_x[...] = 0
            d_W_xh, d_W_hh, d_b_h = self._cells(d)[layer]
            out = RNNGradients(d_W_xh, d_W_hh, d_b_h, d_x if layer else None, d_h0)
            rnn_backward(d_h, inputs[layer], states[layer], W_xh, W_hh, out=out, **options)
            d_h, d_x = d_x, d_h
            if masks is not None and layer:
                d_h *= masks[layer - 1]
        return loss


def check_ids(name: str, ids: Array, limit: int) -> None:
    """Compiled code trusts its ids: one out of range would read, or write, somebody else's memory."""
    if ids.size and not (ids.min() >= 0 and ids.max() < limit):
        raise RangeError(name, expected=f"ids from 0 to {limit - 1}", got=f"{ids.min()} to {ids.max()}")


def new_speaker(network: Network, p: Parameters) -> Speaker | None:
    """What writes with this network in compiled code, where there is any."""
    if not compiled_for(network.activation, p.buffer.dtype):
        return None
    from elman.network.speaker import Speaker

    return Speaker(network, p)


def batch_slices(B: int) -> list[slice]:
    """Two slices from 16 rows on, and one for every 64 rows beyond 128: a function of the batch alone."""
    count = max(2 if B >= 16 else 1, -(-B // ROWS_A_SLICE))
    bounds = [round(B * i / count) for i in range(count + 1)]
    return [slice(start, stop) for start, stop in pairwise(bounds)]


class _Workspace:
    """What one slice writes into, made once: nothing large is allocated in a step."""

    def __init__(self, network: Network, p: Parameters, T: int, B: int) -> None:
        dtype, H = p.buffer.dtype, network.hidden
        self.h = [np.empty((T + 1, B, H), dtype) for _ in range(network.layers)]
        self.o = np.empty((T, B, network.outputs), dtype)
        self.d_h, self.d_x = np.empty((2, T, B, H), dtype)
        self.gradients = p.zeros()
