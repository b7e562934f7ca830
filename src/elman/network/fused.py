"""The compiled way through a window: each slice of the batch is one call that holds no GIL."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from elman.kernels.elementwise import CODES
from elman.kernels.product import packed_size, panel_width
from elman.kernels.window import pack_network, window
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
        self.packed = tuple(
            np.empty((count, packed_size(H, N, size)), dtype)
            for count, N in ((L, H), (L, H), (max(L - 1, 0), H), (1, V))
        )
        self.work = [_Work(network, p, T, rows.stop - rows.start, masked) for rows in slices]
        self.none = np.empty((0, 0, 0), dtype)

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
        forward, backward, inner, head = self.packed
        pack_network(p.buffer, self.inputs, self.outputs, self.hidden, self.layers, forward, backward, inner, head[0])
        scale = p.buffer.dtype.type(1 / normaliser)
        # where nothing is in the buffer yet, the first slice needs no room of its own
        begun = bool(gradients.buffer.any())
        own = [w.room(p) if begun or number else gradients.buffer for number, w in enumerate(self.work)]
        jobs = []
        for rows, w, g in zip(self.slices, self.work, own, strict=True):
            for layer, h in enumerate(state):
                w.h[layer, 0] = h[rows]
            kept = self.none if masks is None else np.stack([m[:, rows].reshape(-1, self.hidden) for m in masks])
            job = partial(
                window, p.buffer, g, _column(x, rows), _column(y, rows), self.inputs, w.h, w.inputs, w.o,
                w.d, w.d_below, kept, forward, backward, inner, head[0], self.code, scale, w.edge, w.scratch,
            )  # fmt: skip
            jobs.append(job)
        losses = run(jobs)
        for rows, w, g in zip(self.slices, self.work, own, strict=True):
            if g is not gradients.buffer:
                gradients.buffer += g
            for layer, h in enumerate(state):
                h[rows] = w.h[layer, -1]
        return float(sum(losses))


def _column(ids: Array, rows: slice) -> Array:
    return np.ascontiguousarray(ids[:, rows], np.int64).reshape(-1)  # (T·B,)


class _Work:
    """What one slice writes into, made once: nothing large is allocated in a step."""

    def __init__(self, network: Network, p: Parameters, T: int, B: int, masked: bool) -> None:
        dtype, H, L, rows = p.buffer.dtype, network.hidden, network.layers, T * B
        self.gradients: Array | None = None
        self.h = np.empty((L, T + 1, B, H), dtype)
        self.inputs = np.empty((L, rows, H) if masked else (0, 0, 0), dtype)
        self.o = np.empty((rows, network.outputs), dtype)
        self.d, self.d_below = np.empty((rows, H), dtype), np.empty((rows, H) if L > 1 else (0, 0), dtype)
        self.edge, self.scratch = np.empty(rows * panel_width(dtype.itemsize), dtype), np.empty(B * H, dtype)

    def room(self, p: Parameters) -> Array:
        """For this slice's gradients."""
        if self.gradients is None:
            self.gradients = np.empty_like(p.buffer)
        return self.gradients
