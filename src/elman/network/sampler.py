"""Sampling by compiled code: weights are packed once, and the state is carried from token to token."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from elman.kernels import compiled_for
from elman.kernels.reference import aligned
from elman.kernels.threads import run
from elman.maths.arrays import Array
from elman.network.batch import Batch
from elman.network.parameters import Parameters
from elman.network.stack import Stack


def make_sampler(stack: Stack, p: Parameters) -> Sampler | None:
    """A sampler for a stack with an output at every step; None if no kernels run its cell."""
    return Sampler(stack, p) if compiled_for(stack.cell, p.buffer.dtype) else None


class Sampler:
    """Samples any number of sequences at a time. A sequence is the same alone and in a batch."""

    def __init__(self, stack: Stack, p: Parameters) -> None:
        from elman.kernels.cells import cell_kernels
        from elman.kernels.layers import CompiledOutput
        from elman.kernels.recurrence import CompiledLayer, make_layer

        kernels = cell_kernels(stack.cell)
        assert kernels is not None
        self.stack, self.p, self.kernels, self.option = stack, p, kernels, kernels.option(stack.cell)
        dtype, H = p.buffer.dtype, stack.hidden
        # N, A and the table are as in kernels/sample.py
        N, self.Y = stack.cell.gates * H, len(p["head.b_y"])
        self.A = N + kernels.gated * H
        rows, parts = [], dict[int, Array]()  # parts: biases and packed weights, by where they begin
        end, line = 0, 64 // dtype.itemsize  # each part begins at a cache line
        for number, (name, X) in enumerate(zip(stack.names, stack.input_sizes, strict=True)):
            layer, offsets = make_layer(stack.cell, X, H, dtype), []
            assert isinstance(layer, CompiledLayer)
            layer.pack(p.part(name))
            dense = number > 0 or stack.embedding
            for packed in (layer.biases(), layer.packed_inputs() if dense else None, layer.forward_weights):
                offsets.append(-1 if packed is None else end)
                if packed is not None:
                    parts[end] = packed
                    end += -(-packed.size // line) * line
            rows.append([X, N, p.offsets[f"{name}.W_xh"], *offsets])
        embedding = p.offsets[f"{stack.prefix}embedding.W"] if stack.embedding else 0
        self.table = np.array([*rows, [stack.embedding, embedding, 0, 0, 0, 0]], np.int64)
        self.packed = aligned(end, dtype)
        for start, packed in parts.items():
            self.packed[start : start + packed.size] = packed
        output = CompiledOutput(H, self.Y, dtype)
        output.pack(p.part("head"))
        self.head, self.bias = output.packed, output.bias

    def write(
        self,
        o: Array,  # (B, Y), the logits of the first token; overwritten with those after the last
        state: Array,  # (L, P, B, H); overwritten with the state after the last token
        uniforms: Array,  # (n, B), random numbers from 0 to 1
        *,
        temperature: Array,  # (B,)
        top_k: Array,  # (B,)
        top_p: Array,  # (B,)
        banned: Array,  # ids that are never drawn
    ) -> Array:
        """n tokens for each sequence, (n, B)."""
        jobs = [
            partial(
                self._write, o[rows], state[:, :, rows], np.ascontiguousarray(uniforms[:, rows]), temperature[rows],
                top_k[rows], top_p[rows], np.asarray(banned, np.int64),
            )
            for rows in Batch(uniforms, uniforms).slices()
        ]  # fmt: skip
        return np.concatenate(run(jobs), axis=1)

    def _write(self, o: Array, state: Array, uniforms: Array, *options: Any) -> Array:
        """The tokens (n, B) of a slice of the sequences; o and state are views and are overwritten."""
        from elman.kernels.product import edge_size

        n, B = uniforms.shape
        L, P, _, H = state.shape
        dtype, kernels = self.p.buffer.dtype, self.kernels
        s = np.empty((L, P, 2, B, H), dtype)
        s[:, :, 0] = state
        tokens, logits = np.empty((n, B), np.int64), np.empty((B, self.bias.size), dtype)
        logits[:, : self.Y] = o
        kernels.sample(
            self.option, self.p.buffer, self.table, s, np.empty((1, B, self.A), dtype), logits, self.bias,
            uniforms, tokens, *options, self.packed, self.head, np.empty((B, self.stack.embedding or H), dtype),
            np.empty(B * H, dtype), np.empty(edge_size(B, dtype.itemsize), dtype), np.empty(self.Y),
            np.empty(self.Y, np.int64),
        )  # fmt: skip
        o[...], state[...] = logits[:, : self.Y], s[:, :, 0]
        return tokens
