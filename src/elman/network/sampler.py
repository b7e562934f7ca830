"""Tokens drawn one after the other by compiled code: weights packed once, the state carried."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from elman.kernels import compiled_for
from elman.kernels.threads import run
from elman.maths.arrays import Array
from elman.network.batch import Batch
from elman.network.parameters import Parameters
from elman.network.stack import Stack


def make_sampler(stack: Stack, p: Parameters) -> Sampler | None:
    """A sampler for a stack with an output at every step; None where its cell is not compiled."""
    return Sampler(stack, p) if compiled_for(stack.cell, p.buffer.dtype) else None


class Sampler:
    """Any number of sequences at a time: each is the same alone and beside others."""

    def __init__(self, stack: Stack, p: Parameters) -> None:
        from elman.kernels.cells import cell_kernels
        from elman.kernels.product import packed_size
        from elman.kernels.recurrence import pack_forward

        kernels = cell_kernels(stack.cell)
        assert kernels is not None
        self.stack, self.p, self.kernels, self.option = stack, p, kernels, kernels.option(stack.cell)
        dtype, H = p.buffer.dtype, stack.hidden
        self.N, self.Y = stack.cell.gates * H, len(p["head.b_y"])
        rows, parts = [], []
        at = 0
        for number, (name, X) in enumerate(zip(stack.names, stack.below, strict=True)):
            extra = list(stack.cell.extra_shapes(H))
            offsets = [p.offsets[f"{name}.{short}"] for short in ("W_xh", "b_h", *extra[:1])]
            sizes = sum(p[f"{name}.{short}"].size for short in extra)
            places = []
            for short in ("W_xh", "W_hh"):
                if short == "W_xh" and number == 0 and not stack.embedding:
                    places.append(-1)
                    continue
                W = p[f"{name}.{short}"]
                packed = np.empty(packed_size(W.shape[0], W.shape[1], dtype.itemsize), dtype)
                pack_forward(W, packed)
                parts.append(packed)
                places.append(at)
                at += packed.size
            rows.append([X, offsets[0], offsets[1], offsets[2] if extra else 0, sizes, *places])
        embedding = p.offsets[f"{stack.prefix}embedding.W"] if stack.embedding else 0
        self.table = np.array([*rows, [stack.embedding, embedding, 0, 0, 0, 0, 0]], np.int64)
        self.packed = np.concatenate(parts)
        self.head = np.empty(packed_size(H, self.Y, dtype.itemsize), dtype)
        pack_forward(p["head.W_hy"], self.head)

    def write(
        self,
        o: Array,  # (B, Y), the logits before the first token; become those after the last
        state: Array,  # (L, P, B, H); becomes the state after the last
        uniforms: Array,  # (n, B), from 0 to 1
        *,
        temperature: Array,  # (B,)
        top_k: Array,
        top_p: Array,
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

    def _write(self, o: Array, state: Array, uniforms: Array, *how: Any) -> Array:
        """A slice of the sequences; o and state are views, and written to."""
        from elman.kernels.product import panel_width

        n, B = uniforms.shape
        L, P, _, H = state.shape
        dtype, kernels = self.p.buffer.dtype, self.kernels
        s = np.empty((L, P, 2, B, H), dtype)
        s[:, :, 0] = state
        tokens, logits = np.empty((n, B), np.int64), np.ascontiguousarray(o, dtype)
        kernels.sample(
            self.option, self.p.buffer, self.table, s, np.empty((1, B, self.N), dtype),
            np.empty((1, B, kernels.kept * H), dtype), np.empty(B * self.N, dtype), logits, self.p["head.b_y"],
            uniforms, tokens, *how, self.packed, self.head, np.empty((B, self.stack.embedding or H), dtype),
            np.empty(B * H, dtype), np.empty(B * panel_width(dtype.itemsize), dtype), np.empty(self.Y),
        )  # fmt: skip
        o[...], state[...] = logits, s[:, :, 0]
        return tokens
