"""The compiled way through a window: each slice of the batch is a few calls that hold no GIL."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from elman.kernels.elementwise import CODES
from elman.kernels.layers import scatter
from elman.kernels.product import packed_size, panel_width
from elman.kernels.window import backward_layer, forward_window, pack_network
from elman.maths.arrays import Array
from elman.network.parameters import Parameters
from elman.network.pool import run

if TYPE_CHECKING:
    from elman.network.stack import Network, State


class Fused:
    """Packed weights, shared by the slices, and a workspace for each slice of a batch of this size."""

    def __init__(self, network: Network, p: Parameters, T: int, slices: Sequence[slice], masked: bool) -> None:
        dtype = p.buffer.dtype
        H, V, L, size = network.hidden, network.outputs, network.layers, dtype.itemsize
        self.inputs, self.outputs, self.hidden, self.layers = network.inputs, V, H, L
        self.code, self.slices = CODES[str(network.activation)], slices
        forward, backward, inner = (np.empty((count, packed_size(H, H, size)), dtype) for count in (L, L, L - 1))
        self.packed = forward, backward, inner, np.empty(packed_size(H, V, size), dtype)
        self.work = [_Work(network, p, T, rows.stop - rows.start, masked) for rows in slices]
        self.none = np.empty((1, 0, 0), dtype)

    def loss_and_gradients(
        self,
        p: Parameters,
        x: Array,
        y: Array,
        state: State,
        gradients: Parameters,
        normaliser: float,
        masks: Sequence[Array] | None,
    ) -> float:
        pack_network(p.buffer, self.inputs, self.outputs, self.hidden, self.layers, *self.packed)
        scale = p.buffer.dtype.type(1 / normaliser)
        # where nothing is in the buffer yet, the first slice needs no room of its own
        begun = bool(gradients.buffer.any())
        own = [w.room(p) if begun or number else gradients for number, w in enumerate(self.work)]
        jobs = []
        for rows, w, g in zip(self.slices, self.work, own, strict=True):
            for layer, h in enumerate(state):
                w.h[layer, 0] = h[rows]
            kept = self.none if masks is None else np.stack([m[:, rows].reshape(-1, self.hidden) for m in masks])
            jobs.append(partial(self._slice, p, g, _column(x, rows), _column(y, rows), w, kept, scale))
        losses = run(jobs)
        for rows, w, g in zip(self.slices, self.work, own, strict=True):
            if g is not gradients:
                gradients.buffer += g.buffer
            for layer, h in enumerate(state):
                h[rows] = w.h[layer, -1]
        return float(sum(losses))

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")  # divergence is seen in the loss, not in warnings
    def _slice(self, p: Parameters, g: Parameters, x: Array, y: Array, w: _Work, masks: Array, scale: Any) -> float:
        """The loss of one slice; g becomes its gradients.

        The large products are NumPy's: its BLAS is ahead of the one that Numba calls, and holds no GIL either.
        """
        forward, backward, inner, head = self.packed
        g.buffer[:] = 0
        loss: float = forward_window(
            p.buffer, x, y, self.inputs, w.h, w.inputs, w.o, masks, forward, inner, head, self.code, scale,
            w.edge, g["head.b_y"],
        )  # fmt: skip
        states = w.h[:, 1:].reshape(self.layers, len(x), self.hidden)
        before = w.h[:, :-1].reshape(self.layers, len(x), self.hidden)
        left = w.inputs if masks.size else states  # what leaves each layer
        d, d_below = w.d, w.d_below
        # d_W_hy = Σ h[t+1].T @ d_o[t],  direct part of d_h[t+1]: d_o[t] @ W_hy.T
        np.dot(left[-1].T, w.o, out=g["head.W_hy"])
        np.dot(w.o, p["head.W_hy"].T, out=d)
        for layer in reversed(range(self.layers)):
            name, mask = f"layers.{layer}", masks[layer] if masks.size else self.none[0]
            backward_layer(d, w.h[layer], backward[layer], self.code, mask, w.edge, g[f"{name}.b_h"])
            # d_W_hh = Σ h[t].T @ d_a[t],  d_W_xh = Σ x[t].T @ d_a[t],  d_x[t] = d_a[t] @ W_xh.T
            np.dot(before[layer].T, d, out=g[f"{name}.W_hh"])
            if layer == 0:
                scatter(x, d, g[f"{name}.W_xh"])
            else:
                np.dot(left[layer - 1].T, d, out=g[f"{name}.W_xh"])
                np.dot(d, p[f"{name}.W_xh"].T, out=d_below)
                d, d_below = d_below, d
        return loss


def _column(ids: Array, rows: slice) -> Array:
    return np.ascontiguousarray(ids[:, rows], np.int64).reshape(-1)  # (T·B,)


class _Work:
    """What one slice writes into, made once: nothing large is allocated in a step."""

    def __init__(self, network: Network, p: Parameters, T: int, B: int, masked: bool) -> None:
        dtype, H, L, rows = p.buffer.dtype, network.hidden, network.layers, T * B
        self.gradients: Parameters | None = None
        self.h = np.empty((L, T + 1, B, H), dtype)
        self.inputs = np.empty((L, rows, H) if masked else (0, 0, 0), dtype)
        self.o = np.empty((rows, network.outputs), dtype)
        self.d, self.d_below = np.empty((rows, H), dtype), np.empty((rows, H) if L > 1 else (0, 0), dtype)
        self.edge = np.empty(rows * panel_width(dtype.itemsize), dtype)

    def room(self, p: Parameters) -> Parameters:
        """For this slice's gradients."""
        if self.gradients is None:
            self.gradients = p.zeros()
        return self.gradients
