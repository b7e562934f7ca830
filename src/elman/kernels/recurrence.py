"""One recurrent layer in one direction: compiled if there are kernels for its cell and dtype, else that of maths.

The states and gradients of both agree up to rounding. A compiled backward pass needs the trace of a compiled forward
pass, because the gates that a trace keeps have another layout than in maths/recurrence.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from elman.kernels.cells import cell_kernels
from elman.kernels.compile import FLOATS, kernel
from elman.kernels.gradient_product import weight_gradient
from elman.kernels.product import (
    edge_size,
    pack_backward,
    pack_forward,
    pack_from,
    pack_transposed_from,
    packed_array,
    row_products,
)
from elman.kernels.reference import Layer, ReferenceLayer, TokenGradient, Workspace
from elman.kernels.reference import token_gradient as token_gradient_reference
from elman.kernels.steps import scatter_add
from elman.kernels.threads import Turn
from elman.maths import recurrence as reference
from elman.maths.arrays import Array
from elman.maths.cells import Cell, Weights
from elman.maths.recurrence import CellGradients, CellTrace

NO_LENGTHS = np.empty(0, np.int64)
NO_IDS = np.empty(0, np.int64)
_warned: set[object] = set()  # activations of which the user was warned that they are not compiled


def compiled_for(cell: Cell, dtype: np.dtype[Any]) -> bool:
    """Whether kernels can run this cell; one with an activation of the user's own runs in NumPy, with a warning."""
    kernels = cell_kernels(cell)
    if kernels is None or dtype not in FLOATS:
        return False
    if kernels.option(cell) is not None:
        return True
    if cell.activation not in _warned:
        _warned.add(cell.activation)
        warnings.warn("an activation of your own is not compiled: it runs in NumPy, several times slower", stacklevel=4)
    return False


def make_layer(cell: Cell, X: int, H: int, dtype: np.dtype[Any]) -> Layer:
    """A compiled layer if there are kernels for this cell and dtype, else one that runs in NumPy."""
    return CompiledLayer(cell, X, H, dtype) if compiled_for(cell, dtype) else ReferenceLayer(cell)


class _Passes(NamedTuple):
    """The arrays of a pass of T steps and B rows; A = N + gated_columns."""

    trace: CellTrace  # s is (P, T+1, B, H)
    first: Array  # (P, B, H), s[:, 0]
    h_before: Array  # (T·B, H), h[:-1]
    a: Array  # (T, B, A)
    scratch: Array  # (B·H,)
    edge: Array
    d_s: Array  # (P, B, H)
    d_bias: Array  # (A,)


class CompiledLayer:
    """A Layer, compiled: W_hh and W_hh.T are packed for the register tile."""

    def __init__(self, cell: Cell, X: int, H: int, dtype: np.dtype[Any]) -> None:
        kernels = cell_kernels(cell)
        assert kernels is not None
        option = kernels.option(cell)
        assert option is not None
        self.cell, self.kernels, self.option = cell, kernels, option
        self.X, self.H, self.N, self.dtype = X, H, cell.gates * H, dtype
        self.gated_columns = kernels.gated * H  # columns of the gates whose two products are separate (CellKernels)
        self.forward_weights = packed_array(H, self.N, dtype)
        self.backward_weights = packed_array(self.N, H, dtype)
        self.input_weights: dict[bool, Array] = {}  # packed W_xh (False) and W_xh.T (True), if an input is dense
        self.turn = Turn()
        self.no_vector, self.no_matrix = np.empty(0, dtype), np.empty((0, 0), dtype)  # arguments that are not used
        self.extra = next(iter(cell.extra_shapes(H)), None)  # the name of the cell's extra parameter: b_hn of a GRU

    def pack(self, p: Weights) -> None:
        self.p, self.packed = p, set[bool]()  # the keys of input_weights that hold the weights of p
        # the columns of the gated gates, the last ones of W_hh, come first (CellKernels)
        pack_both(p["W_hh"], self.forward_weights, self.backward_weights, (self.N - self.gated_columns) % self.N)

    def forward(
        self,
        x: Array,
        s0: Array | None,
        *,
        lengths: Array | None = None,
        reverse: bool = False,
        h_mask: Array | None = None,
        work: Workspace | None = None,
    ) -> CellTrace:
        T, B = x.shape[:2]
        work = Workspace(self.dtype) if work is None else work
        v: _Passes = work.once((self, T, B), lambda: self._views(work, T, B))
        v.first[...] = 0 if s0 is None else s0
        ids, dense, weights = NO_IDS, self.no_matrix, self.no_vector
        if x.ndim == 2:
            ids = np.ascontiguousarray(x, np.int64).reshape(-1)
        else:
            dense, weights = np.ascontiguousarray(x, self.dtype).reshape(T * B, self.X), self.packed_inputs()
        self.kernels.forward(
            self.option, ids, dense, self.p["W_xh"], self.biases(), v.trace.s, v.a, weights, self.forward_weights,
            _lengths(lengths), reverse, self.mask(h_mask), v.scratch, v.edge,
        )  # fmt: skip
        return v.trace

    def backward(
        self,
        d_h: Array,
        trace: CellTrace,
        x: Array,
        gradients: Mapping[str, Array],
        *,
        d_s_last: Array | None = None,
        d_x: Array | None = None,
        add_x: bool = False,
        initial: bool = True,
        lengths: Array | None = None,
        reverse: bool = False,
        h_mask: Array | None = None,
        work: Workspace | None = None,
        tokens: list[TokenGradient] | None = None,
    ) -> Array:
        (T, B, _), N = d_h.shape, self.N
        work = Workspace(self.dtype) if work is None else work
        v: _Passes = work.once((self, T, B), lambda: self._views(work, T, B))
        s = np.ascontiguousarray(trace.s)  # with truncation and P = 2 it is not contiguous
        a = d_h if self.kernels.in_place else np.ascontiguousarray(trace.kept[0])  # overwritten by gradients
        v.d_s[...] = 0 if d_s_last is None else d_s_last
        d_bias = gradients["b_h"] if self.extra is None else v.d_bias
        ids, d_W_xh = NO_IDS, self.no_matrix
        if x.ndim == 2 and tokens is None:
            ids, d_W_xh = np.ascontiguousarray(x, np.int64).reshape(-1), gradients["W_xh"]
        self.kernels.backward(
            self.option, N, d_h, a, v.d_s, s, self.backward_weights, _lengths(lengths), reverse, self.mask(h_mask),
            v.scratch, v.edge, initial, d_bias, ids, d_W_xh,
        )  # fmt: skip
        if self.extra is not None:
            gradients[self.extra][...] = d_bias[: self.gated_columns]
            gradients["b_h"][...] = d_bias[self.gated_columns :]
        d_a = a.reshape(T * B, N + self.gated_columns)
        # d_W_hh = Σ h[t].T @ d_a_h[t],  d_W_xh = Σ x[t].T @ d_a_x[t],  d_x[t] = d_a_x[t] @ W_xh.T
        if trace is v.trace and not reverse and h_mask is None:
            self.recurrent_gradient(v.h_before, d_a, gradients["W_hh"], work)
        else:
            self._recurrent_gradient(s[0], d_a, h_mask, reverse, gradients["W_hh"], work)
        if tokens is not None:
            tokens.append(TokenGradient(x, d_a))
        elif x.ndim == 3:
            dense = np.ascontiguousarray(x, self.dtype).reshape(T * B, self.X)
            weight_gradient(dense, d_a, gradients["W_xh"], work, N=N, b_from=self.gated_columns)
            if d_x is not None:
                row_products(
                    d_a.reshape(-1), self.gated_columns, N + self.gated_columns, self.packed_inputs(backward=True), N,
                    d_x.reshape(T * B, self.X), v.edge, add_x,
                )  # fmt: skip
        return v.d_s

    def _recurrent_gradient(
        self, h: Array, d_a: Array, h_mask: Array | None, reverse: bool, out: Array, work: Workspace
    ) -> None:
        """recurrent_gradient of all steps, from h (T+1, B, H) in either direction, with or without a mask."""
        T, B, H = h.shape[0] - 1, h.shape[1], h.shape[2]
        if T == 0:
            out[...] = 0
        elif h_mask is not None:
            before = (np.concatenate([h[2:], h[:1]]) if reverse else h[:-1]) * self.mask(h_mask).reshape(B, H)
            self.recurrent_gradient(before.reshape(T * B, H), d_a, out, work)
        elif not reverse:
            self.recurrent_gradient(h[:-1].reshape(T * B, H), d_a, out, work)
        else:  # the state before step t is h[t+2], except h[0] before step T-1
            self.recurrent_gradient(h[2:].reshape(-1, H), d_a[: (T - 1) * B], out, work)
            self.recurrent_gradient(h[0], d_a[(T - 1) * B :], out, work, add=True)

    def recurrent_gradient(self, h: Array, d_a: Array, out: Array, work: Workspace, *, add: bool = False) -> None:
        """out = h.T @ d_a_h, with the states h (rows, H) before the steps.

        The gated gates have the first columns of d_a and the last of out.
        """
        gated, rest = self.gated_columns, self.N - self.gated_columns
        if gated:
            weight_gradient(h, d_a, out, work, N=gated, out_from=rest, add=add)
        weight_gradient(h, d_a, out, work, N=rest, b_from=gated, add=add)

    def _views(self, work: Workspace, T: int, B: int) -> _Passes:
        P, H, A, size = self.cell.parts, self.H, self.N + self.gated_columns, self.dtype.itemsize
        name = f"{id(self)}"
        s = work.array(f"{name}.s", P, T + 1, B, H)
        a = s[0, 1:] if self.kernels.in_place else work.array(f"{name}.a", T, B, A)
        return _Passes(
            CellTrace(s, () if self.kernels.in_place else (a,)),
            s[:, 0],
            s[0, :-1].reshape(T * B, H),
            a,
            work.array("scratch", B * H),
            work.array("edge", edge_size(T * B, size)),
            work.array(f"{name}.d_s", P, B, H),
            work.array("d_bias", A),
        )

    def biases(self) -> Array:
        """The biases (A,) of the columns of a step, to which the products are added."""
        return self.p["b_h"] if self.extra is None else np.concatenate([self.p[self.extra], self.p["b_h"]])

    def packed_inputs(self, *, backward: bool = False) -> Array:
        """W_xh, or its transpose, packed when a dense input needs it: by the first thread, while others wait."""
        with self.turn.lock:
            if backward not in self.input_weights:
                K, N = (self.N, self.X) if backward else (self.X, self.N)
                self.input_weights[backward] = packed_array(K, N, self.dtype)
            if backward not in self.packed:
                (pack_backward if backward else pack_forward)(self.p["W_xh"], self.input_weights[backward])
                self.packed.add(backward)
            return self.input_weights[backward]

    def mask(self, h_mask: Array | None) -> Array:
        return self.no_vector if h_mask is None else np.ascontiguousarray(h_mask, self.dtype).reshape(-1)


def cell_forward(cell: Cell, x: Array, s0: Array | None, p: Weights, **options: Any) -> CellTrace:
    """maths.recurrence.cell_forward, compiled."""
    layer = make_layer(cell, *_sizes(p), p["W_hh"].dtype)
    layer.pack({name: np.ascontiguousarray(a, p["W_hh"].dtype) for name, a in p.items()})
    return layer.forward(x, s0, **options)


def cell_backward(
    cell: Cell, d_h_direct: Array, trace: CellTrace, x: Array, p: Weights, **options: Any
) -> CellGradients:
    """maths.recurrence.cell_backward, compiled."""
    X, H = _sizes(p)
    dtype = p["W_hh"].dtype
    layer = make_layer(cell, X, H, dtype)
    if isinstance(layer, ReferenceLayer):
        return reference.cell_backward(cell, d_h_direct, trace, x, p, **options)
    layer.pack({name: np.ascontiguousarray(a, dtype) for name, a in p.items()})
    s, kept = np.ascontiguousarray(trace.s, dtype), tuple(np.array(part, dtype) for part in trace.kept)
    d_p = {name: np.zeros(shape, dtype) for name, shape in cell.shapes(X, H).items()}
    d_x = None if x.ndim == 2 else np.zeros(x.shape, dtype)
    dense = x if x.ndim == 2 else np.ascontiguousarray(x, dtype)
    d = np.array(d_h_direct, dtype, order="C")
    d_s0 = layer.backward(d, CellTrace(s, kept), dense, d_p, d_x=d_x, **options)
    return CellGradients(d_p, d_x, d_s0)


def _sizes(p: Weights) -> tuple[int, int]:
    return len(p["W_xh"]), len(p["W_hh"])


def _lengths(lengths: Array | None) -> Array:
    return NO_LENGTHS if lengths is None else np.ascontiguousarray(lengths, np.int64)


@kernel
def pack_both(W, forward, backward, first):
    pack_from(W, forward, first)
    pack_transposed_from(W, backward, first)


@kernel
def scatter(ids, d, d_W):
    scatter_add(ids, d, d_W)


@kernel
def zero(a):
    for i in range(a.size):
        a[i] = 0


def token_gradient(parts: Sequence[TokenGradient], d_W: Array, *, add: bool = False) -> None:
    """d_W (X, N) becomes the sum of the parts, or with `add` they are added to it: in either case one after another."""
    if d_W.dtype not in FLOATS:
        token_gradient_reference(parts, d_W, add=add)
        return
    if not add:
        zero(d_W.reshape(-1))
    for ids, d in parts:
        scatter(np.ascontiguousarray(ids, np.int64).reshape(-1), d.reshape(ids.size, d.shape[-1]), d_W)
