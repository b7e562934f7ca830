"""The steps of a decoder with attention: the classes of stepwise.py and the equations of maths/attention.py, compiled.

Products and the tanh of h_tilde compute all rows together, attention itself one row at a time: a row's bits do not
depend on other rows or on padding. There are S decoder steps and T source steps. Arrays that are kept for each decoder
step have that step first, (S, B, …); alpha and d_score are (S, B, T). The gradient of the values, and for the dot
product that of the keys, is a sum over the decoder steps that is computed once, at the end; additive attention adds to
the gradient of the keys at each step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from elman.kernels.compile import FLOATS, kernel, part
from elman.kernels.elementwise import activate, activate_backward, tanh
from elman.kernels.gradient_product import weight_gradient
from elman.kernels.product import (
    add_product,
    copy,
    edge_size,
    pack,
    pack_transposed,
    packed_array,
    tall_rows,
    width_of,
)
from elman.kernels.recurrence import NO_IDS, CompiledLayer
from elman.kernels.reference import Layer, Workspace
from elman.kernels.steps import exponentials, top_of
from elman.kernels.stepwise import (
    AttentionSteps,
    LayerSteps,
    Memory,
    Product,
    ReferenceAttention,
    ReferenceLayerSteps,
)
from elman.kernels.tile import lanes
from elman.maths.arrays import Array
from elman.maths.cells import Weights

SUMS = 4  # partial sums of a dot product: in a single one, each addition would wait for the one before it


def _make_dot() -> Any:
    @intrinsic
    def dot_product(typing, a, a_at, b, b_at, count):
        """Σ a[a_at + j] · b[b_at + j] of flat arrays, in an order that depends on `count`, dtype and CPU alone."""
        size = a.dtype.bitwidth // 8
        width = lanes(size)

        def generate(context, builder, signature, args):
            number = ir.FloatType() if size == 4 else ir.DoubleType()
            vector, index = ir.VectorType(number, width), ir.IntType(64)
            left, right = (
                builder.gep(
                    cgutils.create_struct_proxy(signature.args[i])(context, builder, value=args[i]).data, [args[at]]
                )
                for i, at in ((0, 1), (2, 3))
            )
            count = args[4]
            fma = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(vector, [vector] * 3), f"llvm.fmuladd.v{width}f{8 * size}"
            )

            def vector_at(base, j):
                value = builder.load(builder.bitcast(builder.gep(base, [j]), vector.as_pointer()))
                value.align = size
                return value

            zero = ir.Constant(vector, [ir.Constant(number, 0.0)] * width)
            sums = [cgutils.alloca_once_value(builder, zero) for _ in range(SUMS)]
            start, one = ir.Constant(index, 0), ir.Constant(index, 1)
            for step, used in ((SUMS * width, sums), (width, sums[:1])):  # SUMS vectors at a time, then one
                block = ir.Constant(index, step)
                whole = builder.add(start, builder.mul(builder.sdiv(builder.sub(count, start), block), block))
                with cgutils.for_range_slice(builder, start, whole, block) as (j, _):
                    for i, total in enumerate(used):
                        at = builder.add(j, ir.Constant(index, i * width))
                        product = builder.call(fma, [vector_at(left, at), vector_at(right, at), builder.load(total)])
                        builder.store(product, total)
                start = whole
            whole = builder.fadd(
                builder.fadd(builder.load(sums[0]), builder.load(sums[1])),
                builder.fadd(builder.load(sums[2]), builder.load(sums[3])),
            )
            half, narrow = width // 2, ir.IntType(32)
            while half:
                moved = [ir.Constant(narrow, (j + half) % width) for j in range(width)]
                other = builder.shuffle_vector(whole, whole, ir.Constant(ir.VectorType(narrow, width), moved))
                whole, half = builder.fadd(whole, other), half // 2
            result = cgutils.alloca_once_value(builder, builder.extract_element(whole, ir.Constant(narrow, 0)))
            with cgutils.for_range_slice(builder, start, count, one) as (j, _):
                product = builder.fmul(builder.load(builder.gep(left, [j])), builder.load(builder.gep(right, [j])))
                builder.store(builder.fadd(builder.load(result), product), result)
            return builder.load(result)

        return a.dtype(a, types.intp, b, types.intp, types.intp), generate

    return dot_product


dot = _make_dot()


@part
def add_weighted_sums(factors, at, step, rows, w, w_at, w_step, c, c_at, c_step, depth, width, columns):
    """c[i] += Σ over k of factors[i, k] · w[k], for `rows` rows of c and `depth` rows of w, of flat arrays.

    The first rows begin at entries at, w_at and c_at; rows are step, w_step and c_step entries apart. Rows of c and w
    have `columns` entries; `width` is that of a panel.
    """
    p = 0
    while (p + 1) * width <= columns:
        tall_rows(factors, w, c, at, w_at + p * width, c_at + p * width, step, w_step, c_step, rows, depth)
        p += 1
    for i in range(rows):
        for k in range(depth):
            factor = factors[at + i * step + k]
            for j in range(p * width, columns):
                c[c_at + i * c_step + j] += factor * w[w_at + k * w_step + j]


@kernel
def attend_forward(h, keys, values, lengths, w_a, packed_q, packed_c, q, alpha, c, h_tilde, scratch, edge):
    """One decoder step. q, alpha, c = [h, context] and h_tilde are overwritten; w_a is empty for the dot product.

    packed_q and packed_c are W_q and W_c, packed.
    """
    (B, H), (T, _, K), M, F = h.shape, keys.shape, values.shape[2], h_tilde.shape[1]
    scale = h.dtype.type(1 / np.sqrt(K))
    flat_q, flat_keys, flat_values, flat_c, flat_alpha = (
        q.reshape(-1),
        keys.reshape(-1),
        values.reshape(-1),
        c.reshape(-1),
        alpha.reshape(-1),
    )
    # q = h @ W_q
    flat_q[:] = 0
    add_product(h.reshape(-1), 0, B, packed_q, H, K, flat_q, 0, edge)
    for i in range(B):
        n, row = lengths[i], alpha[i]
        for j in range(n):
            if w_a.size:
                # score[j] = tanh(q + keys[j]) @ w_a
                key, query = keys[j, i], q[i]
                for k in range(K):
                    scratch[k] = tanh(query[k] + key[k])
                row[j] = dot(scratch, 0, w_a, 0, K)
            else:
                # score[j] = q · keys[j] / √K
                row[j] = dot(flat_q, i * K, flat_keys, (j * B + i) * K, K) * scale
        row[n:] = 0
        if n:
            # alpha[j] = exp(score[j]) / Σ exp(score)
            valid = row[:n]
            inverse = alpha.dtype.type(1) / exponentials(valid, top_of(valid))
            for j in range(n):
                valid[j] *= inverse
        # context = Σ alpha[j] · values[j]
        copy(h[i], c[i], H)
        c[i, H:] = 0
        add_weighted_sums(
            flat_alpha, i * T, T, 1, flat_values, i * M, B * M, flat_c, i * (H + M) + H, H + M, n, width_of(packed_q), M
        )  # fmt: skip
    # h_tilde = tanh([h, context] @ W_c)
    out = h_tilde.reshape(-1)
    out[:] = 0
    add_product(flat_c, 0, B, packed_c, H + M, F, out, 0, edge)
    activate(out, 0)


@kernel
def attend_backward(
    d, h_tilde, q, alpha, keys, values, lengths, w_a, back_q, back_c, d_c, d_score, d_q, d_keys, d_w_a, d_h, scratch,
    edge,
):  # fmt: skip
    """d holds d_h_tilde and becomes d_a; d_c = [d_h, d_context], d_score, d_q and d_h are overwritten.

    d_keys and d_w_a, which are empty for the dot product, are added to. back_q and back_c are W_q.T and W_c.T, packed.
    """
    (B, F), (T, _, K), M, H = d.shape, keys.shape, values.shape[2], d_h.shape[1]
    one, scale = d.dtype.type(1), d.dtype.type(1 / np.sqrt(K))
    # d_a = (1 - h_tilde²) ⊙ d_h_tilde
    activate_backward(d.reshape(-1), h_tilde.reshape(-1), 0)
    # [d_h, d_context] = d_a @ W_c.T
    flat_d_c, flat_keys, flat_values, flat_d_q, flat_d_score = (
        d_c.reshape(-1),
        keys.reshape(-1),
        values.reshape(-1),
        d_q.reshape(-1),
        d_score.reshape(-1),
    )
    flat_d_c[:] = 0
    add_product(d.reshape(-1), 0, B, back_c, F, H + M, flat_d_c, 0, edge)
    flat_d_q[:] = 0
    for i in range(B):
        n, row, weights = lengths[i], d_score[i], alpha[i]
        inner = d.dtype.type(0)
        for j in range(n):
            # d_alpha[j] = values[j] · d_context
            row[j] = dot(flat_d_c, i * (H + M) + H, flat_values, (j * B + i) * M, M)
            inner += row[j] * weights[j]
        for j in range(n):
            # d_score = alpha ⊙ (d_alpha - Σ d_alpha · alpha)
            row[j] = weights[j] * (row[j] - inner)
        row[n:] = 0
        if w_a.size:
            query, d_query = q[i], d_q[i]
            for j in range(n):
                key, d_key, d_score_j = keys[j, i], d_keys[j, i], row[j]
                for k in range(K):
                    scratch[k] = tanh(query[k] + key[k])
                for k in range(K):
                    # d_keys[j] = d_score[j] · w_a ⊙ (1 - tanh(q + keys[j])²),  d_q = Σ d_keys[j]
                    d_sum = d_score_j * w_a[k] * (one - scratch[k] * scratch[k])
                    d_key[k] += d_sum
                    d_query[k] += d_sum
                for k in range(K):
                    # d_w_a = Σ d_score[j] · tanh(q + keys[j])
                    d_w_a[k] += d_score_j * scratch[k]
        else:
            # d_q = Σ d_score[j] · keys[j] / √K
            add_weighted_sums(
                flat_d_score, i * T, T, 1, flat_keys, i * K, B * K, flat_d_q, i * K, K, n, width_of(back_q), K
            )  # fmt: skip
            d_query = d_q[i]
            for k in range(K):
                d_query[k] *= scale
        copy(d_c[i], d_h[i], H)
    # d_h += d_q @ W_q.T
    add_product(flat_d_q, 0, B, back_q, K, H, d_h.reshape(-1), 0, edge)


@kernel
def sum_over_steps(factors, lengths, w, first, c, scratch, packed, scale):
    """c[j, i] = scale · Σ over decoder steps t of factors[t, i, j] · w[t, i, first:]; 0 for padded source steps j.

    `packed` is any packed array: only the width of its panels is used.
    """
    S, B, _ = factors.shape
    width, M = w.shape[2], c.shape[2]
    transposed, flat_w, out = scratch.reshape(-1), w.reshape(-1), c.reshape(-1)
    out[:] = 0
    for i in range(B):
        n = lengths[i]
        for j in range(n):
            for t in range(S):
                transposed[j * S + t] = factors[t, i, j] * scale
        add_weighted_sums(
            transposed, 0, S, n, flat_w, i * width + first, B * width, out, i * M, B * M, S, width_of(packed), M
        )  # fmt: skip


@kernel
def pack_weights(W, forward, backward):
    pack(W, forward)
    pack_transposed(W, backward)


@kernel
def add_rows(x, packed, c, edge):
    add_product(x.reshape(-1), 0, x.shape[0], packed, x.shape[1], c.shape[1], c.reshape(-1), 0, edge)


class CompiledProduct(Product):
    """Product, compiled: W and W.T are packed once for many passes."""

    def __init__(self, K: int, N: int, dtype: np.dtype[Any]) -> None:
        self.K, self.N, self.dtype = K, N, dtype
        self.forward_weights = packed_array(K, N, dtype)
        self.backward_weights = packed_array(N, K, dtype)

    def pack(self, W: Array) -> None:
        self.W = W
        pack_weights(W, self.forward_weights, self.backward_weights)

    def add(self, x: Array, c: Array) -> Array:
        add_rows(np.ascontiguousarray(x), self.forward_weights, c, self.edge(len(x)))
        return c

    def backward(self, d_c: Array) -> Array:
        d_x = np.zeros((len(d_c), self.K), self.dtype)
        add_rows(np.ascontiguousarray(d_c), self.backward_weights, d_x, self.edge(len(d_c)))
        return d_x

    def edge(self, rows: int) -> Array:
        """The scratch array of a product of this many rows."""
        return np.empty(edge_size(rows, self.dtype.itemsize), self.dtype)


class CompiledAttention(ReferenceAttention):
    """ReferenceAttention, compiled: W_q and W_c are packed once for many passes."""

    def __init__(self, H: int, K: int, M: int, F: int, dtype: np.dtype[Any]) -> None:
        super().__init__(H, K, M, F, dtype)
        self.q, self.c = CompiledProduct(H, K, dtype), CompiledProduct(H + M, F, dtype)

    def pack(self, p: Weights) -> None:
        super().pack(p)
        self.kernel_w_a = np.empty(0, self.dtype) if self.w_a is None else self.w_a  # empty for the dot product
        self.q.pack(p["W_q"])
        self.c.pack(p["W_c"])

    def steps(self, memory: Memory, S: int, work: Workspace | None = None) -> AttentionSteps:
        work = Workspace(self.dtype) if work is None else work
        return CompiledAttentionSteps(self, memory, S, work)


class _Passes(NamedTuple):
    """The arrays of a pass of S steps and B rows; scratch, edge and d_h serve every step."""

    q: Array  # (S, B, K)
    alpha: Array  # (S, B, T)
    c: Array  # (S, B, H + M), [h, context]
    h_tilde: Array  # (S, B, F)
    scratch: Array
    edge: Array
    d_a: Array  # (S, B, F)
    d_c: Array  # (S, B, H + M)
    d_score: Array  # (S, B, T)
    d_q: Array  # (S, B, K)
    d_h: Array  # (B, H)


class CompiledAttentionSteps:
    """AttentionSteps, compiled."""

    def __init__(self, layer: CompiledAttention, memory: Memory, S: int, work: Workspace) -> None:
        self.layer, self.S, self.work = layer, S, work
        keys, values, lengths = memory
        self.values = np.ascontiguousarray(values, layer.dtype)
        self.keys = self.values if keys is values else np.ascontiguousarray(keys, layer.dtype)
        self.lengths = np.ascontiguousarray(lengths[0], np.int64)
        T, B = keys.shape[:2]
        self.v: _Passes = work.once((layer, S, B, T), lambda: self._views(S, B, T))
        self.additive = layer.w_a is not None
        self.d_keys = np.zeros_like(self.keys) if self.additive else np.empty((0, 0, 0), layer.dtype)
        self.d_w_a = np.zeros_like(layer.kernel_w_a)

    def _views(self, S: int, B: int, T: int) -> _Passes:
        H, K, M, F = self.layer.H, self.layer.K, self.layer.M, self.layer.F
        shapes = {
            "q": (S, B, K), "alpha": (S, B, T), "c": (S, B, H + M), "h_tilde": (S, B, F), "scratch": (max(K, S * T),),
            "edge": (edge_size(B, self.layer.dtype.itemsize),), "d_a": (S, B, F), "d_c": (S, B, H + M),
            "d_score": (S, B, T), "d_q": (S, B, K), "d_h": (B, H),
        }  # fmt: skip
        return _Passes(**{name: self.work.array(f"attention.{name}", *shape) for name, shape in shapes.items()})

    def forward(self, t: int, h: Array) -> Array:
        v, layer = self.v, self.layer
        attend_forward(
            np.ascontiguousarray(h), self.keys, self.values, self.lengths, layer.kernel_w_a, layer.q.forward_weights,
            layer.c.forward_weights, v.q[t], v.alpha[t], v.c[t], v.h_tilde[t], v.scratch, v.edge,
        )  # fmt: skip
        return np.asarray(v.h_tilde[t])

    def backward(self, t: int, d_h_tilde: Array) -> Array:
        v, layer = self.v, self.layer
        v.d_a[t] = d_h_tilde
        attend_backward(
            v.d_a[t], v.h_tilde[t], v.q[t], v.alpha[t], self.keys, self.values, self.lengths, layer.kernel_w_a,
            layer.q.backward_weights, layer.c.backward_weights, v.d_c[t], v.d_score[t], v.d_q[t], self.d_keys,
            self.d_w_a, v.d_h, v.scratch, v.edge,
        )  # fmt: skip
        return v.d_h

    def finish(self, gradients: Mapping[str, Array]) -> tuple[Array, Array]:
        v, layer, d_keys = self.v, self.layer, self.d_keys
        H, K, M, F = layer.H, layer.K, layer.M, layer.F
        c = v.c.reshape(-1, H + M)
        # d_W_c = Σ [h, context].T @ d_a,  d_W_q = Σ h.T @ d_q, over all steps; h is the first H columns of c
        weight_gradient(c, v.d_a.reshape(-1, F), gradients["W_c"], self.work)
        weight_gradient(c, v.d_q.reshape(-1, K), gradients["W_q"], self.work)
        one = layer.dtype.type(1)
        d_values = np.empty_like(self.values)
        # d_values[j] = Σ alpha[j] · d_context
        sum_over_steps(v.alpha, self.lengths, v.d_c, H, d_values, v.scratch, layer.q.forward_weights, one)
        if self.additive:
            gradients["w_a"][...] = self.d_w_a
        else:
            # d_keys[j] = Σ d_score[j] · q / √K
            d_keys, scale = np.empty_like(self.keys), layer.dtype.type(1 / np.sqrt(K))
            sum_over_steps(v.d_score, self.lengths, v.q, 0, d_keys, v.scratch, layer.q.forward_weights, scale)
        return d_keys, d_values

    def weights(self, t: int) -> Array:
        return np.array(self.v.alpha[t].T)


def make_product(K: int, N: int, dtype: np.dtype[Any]) -> Product:
    """A product, compiled if there are kernels for its dtype."""
    return CompiledProduct(K, N, dtype) if dtype in FLOATS else Product()


def make_attention(H: int, K: int, M: int, F: int, dtype: np.dtype[Any]) -> ReferenceAttention:
    """Attention, compiled if there are kernels for its dtype."""
    return CompiledAttention(H, K, M, F, dtype) if dtype in FLOATS else ReferenceAttention(H, K, M, F, dtype)


class CompiledLayerSteps:
    """The kernels of the cell, called for one step at a time.

    As in ReferenceLayerSteps, they get the input product as W_xh, and the row numbers 0..B-1 as token ids.
    """

    def __init__(
        self,
        layer: CompiledLayer,
        S: int,
        s0: Array,
        lengths: Array | None,
        h_mask: Array | None,
        work: Workspace | None,
    ) -> None:
        self.layer, self.t, dtype, (P, B, H) = layer, 0, layer.dtype, s0.shape
        self.work = work = Workspace(dtype) if work is None else work
        name, A, in_place = f"steps{id(layer)}", layer.N + layer.gated_columns, layer.kernels.in_place
        self.s = work.array(f"{name}.s", S, P, 2, B, H)
        self.a = self.s[:, 0, 1:] if in_place else work.array(f"{name}.a", S, 1, B, A)
        # a holds the states if they are computed in place, and these must stay; else gradients overwrite it
        self.d_a = work.array(f"{name}.d", S, 1, B, H) if in_place else self.a
        self.s[0, :, 0] = s0
        self.d_s, self.d_bias = np.zeros((P, B, H), dtype), np.zeros((S, A), dtype)
        self.scratch, self.edge = work.array("scratch", B * H), work.array("edge", edge_size(B, dtype.itemsize))
        self.ids, self.biases, self.mask = np.arange(B), layer.biases(), layer.mask(h_mask)
        # of each step, the lengths that its call gets: 1 for rows that take the step, 0 for the others
        self.lengths = np.empty((S, 0), np.int64)
        if lengths is not None:
            self.lengths = (np.arange(S)[:, np.newaxis] < lengths).astype(np.int64)

    @property
    def state(self) -> Array:
        return np.asarray(self.s[self.t, :, 1])

    def forward(self, t: int, a_x: Array) -> Array:
        layer, self.t = self.layer, t
        if t:
            self.s[t, :, 0] = self.s[t - 1, :, 1]
        layer.kernels.forward(
            layer.option, self.ids, layer.no_matrix, a_x, self.biases, self.s[t], self.a[t], layer.no_vector,
            layer.forward_weights, self.lengths[t], False, self.mask, self.scratch, self.edge,
        )  # fmt: skip
        return np.asarray(self.s[t, 0, 1])

    def backward(self, t: int, d_h: Array) -> Array:
        layer = self.layer
        d = self.d_a[t] if layer.kernels.in_place else d_h[np.newaxis]
        d[0] = d_h
        layer.kernels.backward(
            layer.option, layer.N, d, self.d_a[t], self.d_s, self.s[t], layer.backward_weights, self.lengths[t], False,
            self.mask, self.scratch, self.edge, True, self.d_bias[t], NO_IDS, layer.no_matrix,
        )  # fmt: skip
        return np.asarray(self.d_a[t, 0, :, layer.gated_columns :])

    def finish(self, gradients: Mapping[str, Array]) -> Array:
        layer, h, d_bias = self.layer, self.s[:, 0, 0], self.d_bias.sum(axis=0)
        if self.mask.size:
            h = h * self.mask.reshape(h.shape[1:])
        # d_W_hh = Σ h[t].T @ d_a_h[t], over all steps
        d_a = self.d_a.reshape(-1, self.d_a.shape[3])
        layer.recurrent_gradient(np.ascontiguousarray(h).reshape(len(d_a), -1), d_a, gradients["W_hh"], self.work)
        gradients["b_h"][...] = d_bias[layer.gated_columns :]
        if layer.extra is not None:
            gradients[layer.extra][...] = d_bias[: layer.gated_columns]
        return self.d_s


def layer_steps(
    layer: Layer,
    S: int,
    s0: Array,
    *,
    lengths: Array | None = None,
    h_mask: Array | None = None,
    work: Workspace | None = None,
) -> LayerSteps:
    """S steps of a packed layer, compiled where its cell is."""
    if isinstance(layer, CompiledLayer):
        return CompiledLayerSteps(layer, S, s0, lengths, h_mask, work)
    return ReferenceLayerSteps(layer, s0, lengths, h_mask)
