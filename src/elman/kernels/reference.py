"""What networks call, in plain NumPy: layers with the passes of maths, without Numba.

A Layer is one recurrent layer in one direction: `forward` gives a CellTrace, `backward` writes the gradients of its
parameters and returns that of its initial state. A compiled layer has its arrays in a Workspace that the caller keeps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from elman.maths import recurrence
from elman.maths.arrays import Array
from elman.maths.cells import Cell, Weights
from elman.maths.layers import embedding_backward, output_forward
from elman.maths.loss import cross_entropy, mean_squared_error
from elman.maths.recurrence import CellTrace

LOSSES: dict[str, Callable[..., tuple[float, Array]]] = {
    "cross_entropy": cross_entropy,
    "squared": mean_squared_error,
}


def aligned(size: int, dtype: np.dtype[Any]) -> Array:
    """Uninitialized memory that begins at a cache line, so that no vector lies across two of them."""
    line = 64 // dtype.itemsize  # entries of a cache line
    memory = np.empty(size + line, dtype)
    first = -(memory.ctypes.data // dtype.itemsize) % line
    return memory[first : first + size]


class Workspace:
    """Memory that passes compute in, by name, made for the largest pass so far: a smaller one uses its beginning."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        self._buffers: dict[str, Array] = {}
        self._views: dict[tuple[object, ...], Any] = {}

    def array(self, name: str, *shape: int) -> Array:
        """An uninitialized array of this shape; the same memory each time for the same name."""
        key = name, shape
        found: Array | None = self._views.get(key)
        return self._keep(key, self._array(name, shape)) if found is None else found

    def _array(self, name: str, shape: tuple[int, ...]) -> Array:
        size = math.prod(shape)
        buffer = self._buffers.get(name)
        if buffer is None or buffer.size < size:
            buffer = self._buffers[name] = aligned(size, self.dtype)
            self._views.clear()
        return buffer[:size].reshape(shape)

    def once(self, key: tuple[object, ...], make: Any) -> Any:
        """The result of make(), kept for the next call with this key."""
        found = self._views.get(key)
        return self._keep(key, make()) if found is None else found

    def _keep(self, key: tuple[object, ...], view: Any) -> Any:
        if len(self._views) > 256:  # the number of cached views; the buffers stay allocated
            self._views.clear()
        self._views[key] = view
        return view


class TokenGradient(NamedTuple):
    """Gradients of the rows of W_xh, or of an embedding, that token ids select."""

    ids: Array  # (…)
    d: Array  # (…, N); if it has more columns, the last N are used


class Layer(Protocol):
    """What networks call of a layer."""

    def pack(self, p: Weights) -> None:
        """Take these parameters, which must not change until the last pass with them."""

    def forward(
        self,
        x: Array,  # (T, B) ids, or (T, B, X)
        s0: Array | None,  # (P, B, H)
        *,
        lengths: Array | None = None,
        reverse: bool = False,
        h_mask: Array | None = None,
        work: Workspace | None = None,
    ) -> CellTrace:
        """The states of all steps, and what the backward pass needs besides them."""

    def backward(
        self,
        d_h: Array,  # (T, B, H), overwritten
        trace: CellTrace,
        x: Array,
        gradients: Mapping[str, Array],  # by parameter, overwritten
        *,
        d_s_last: Array | None = None,  # (P, B, H)
        d_x: Array | None = None,  # (T, B, X), overwritten
        add_x: bool = False,  # d_x is added to instead
        initial: bool = True,
        lengths: Array | None = None,
        reverse: bool = False,
        h_mask: Array | None = None,
        work: Workspace | None = None,
        tokens: list[TokenGradient] | None = None,
    ) -> Array:
        """d_s0 (P, B, H); without `initial` its first part, d_h[0], may lack the term through W_hh. If x are token ids
        and `tokens` is given, the gradient of W_xh is appended to it, and gradients["W_xh"] must not be used."""


class ReferenceLayer:
    """A Layer that calls the equations of maths."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell

    def pack(self, p: Weights) -> None:
        self.p = p

    def forward(self, x: Array, s0: Array | None, *, work: Workspace | None = None, **options: Any) -> CellTrace:
        return recurrence.cell_forward(self.cell, x, s0, self.p, **options)

    def backward(
        self,
        d_h: Array,
        trace: CellTrace,
        x: Array,
        gradients: Mapping[str, Array],
        *,
        d_x: Array | None = None,
        add_x: bool = False,
        initial: bool = True,
        work: Workspace | None = None,
        tokens: list[TokenGradient] | None = None,
        **options: Any,
    ) -> Array:
        found = recurrence.cell_backward(self.cell, d_h, trace, x, self.p, **options)
        for name, d in found.d_p.items():
            gradients[name][...] = d
        if x.ndim == 2 and tokens is not None:
            tokens.append(TokenGradient(np.arange(len(found.d_p["W_xh"])), found.d_p["W_xh"]))  # of all tokens
        if d_x is not None:
            d_x[...] = d_x + found.d_x if add_x else found.d_x
        return found.d_s0


class ReferenceOutput:
    """The output layer, o = h @ W_hy + b_y, with its loss."""

    def __init__(self, H: int, Y: int) -> None:
        self.H, self.Y = H, Y

    def pack(self, p: Weights) -> None:
        """Take these parameters, which must not change until the last pass with them."""
        self.W_hy, self.b_y = p["W_hy"], p["b_y"]

    def forward(self, h: Array, work: Workspace | None = None) -> Array:
        """Logits (…, Y) of h (…, H)."""
        return output_forward(h, self.W_hy, self.b_y)

    def loss(
        self,
        h: Array,  # (…, H)
        y: Array,  # (…) ids, or (…, Y)
        kind: str,  # cross_entropy or squared
        *,
        weights: Array | None,
        normalizer: float,
        d_b_y: Array,  # (Y,), overwritten
        work: Workspace | None = None,
    ) -> tuple[float, Array]:
        """The loss and d_o."""
        o = self.forward(h, work)
        value, d_o = LOSSES[kind](o, y, weights=weights, normalizer=normalizer, out=o)
        # d_b_y = Σ of d_o over t and rows
        d_b_y[...] = d_o.reshape(-1, self.Y).sum(axis=0)
        return value, d_o

    def backward(self, d_o: Array, h: Array, d_W_hy: Array, d_h: Array, work: Workspace | None = None) -> None:
        """d_W_hy and the direct part of d_h, both overwritten, from what `loss` returned."""
        rows = d_o.reshape(-1, self.Y)
        # d_W_hy = Σ h[t+1].T @ d_o[t],  direct part of d_h[t+1]: d_o[t] @ W_hy.T
        np.matmul(h.reshape(-1, self.H).T, rows, out=d_W_hy)
        np.matmul(rows, self.W_hy.T, out=d_h.reshape(-1, self.H))


def token_gradient(parts: Sequence[TokenGradient], d_W: Array, *, add: bool = False) -> None:
    """d_W (X, N) becomes the sum of the parts, or with `add` they are added to it: in either case one after another."""
    if not add:
        d_W[...] = 0
    for ids, d in parts:
        embedding_backward(d.reshape(*ids.shape, d.shape[-1])[..., -d_W.shape[1] :], ids, d_W, out=d_W)


def weight_gradient(a: Array, b: Array, out: Array, work: Workspace | None = None) -> None:
    """out (M, N) = a (…, M).T @ b (…, N), summed over all rows."""
    np.matmul(a.reshape(-1, len(out)).T, b.reshape(-1, out.shape[1]), out=out)


def add_up(total: Array, parts: Sequence[Array]) -> None:
    """Add flat arrays to `total`, one after another."""
    for part in parts:
        total += part


def make_layer(cell: Cell, X: int, H: int, dtype: np.dtype[Any]) -> Layer:
    """A layer that runs in NumPy."""
    return ReferenceLayer(cell)


def make_output(H: int, Y: int, dtype: np.dtype[Any]) -> ReferenceOutput:
    """An output layer that runs in NumPy."""
    return ReferenceOutput(H, Y)


def compiled_for(cell: Cell, dtype: np.dtype[Any]) -> bool:
    """Nothing is compiled here."""
    return False
