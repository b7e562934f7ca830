"""A network that writes: its weights packed once, its state carried, its tokens drawn by compiled code."""

from __future__ import annotations

from functools import partial

import numpy as np

from elman.kernels.elementwise import CODES
from elman.kernels.product import packed_size, panel_width
from elman.kernels.sample import write_tokens
from elman.kernels.window import pack_network
from elman.maths.arrays import Array
from elman.network.parameters import Parameters
from elman.network.pool import run
from elman.network.stack import Network, State, batch_slices


class Speaker:
    def __init__(self, network: Network, p: Parameters) -> None:
        self.network, self.p = network, p
        dtype, H, L, Y = p.buffer.dtype, network.hidden, network.layers, network.outputs
        size = dtype.itemsize
        self.forward = np.empty((L, packed_size(H, H, size)), dtype)
        self.inner = np.empty((max(L - 1, 0), packed_size(H, H, size)), dtype)
        self.head = np.empty(packed_size(H, Y, size), dtype)
        backward = np.empty_like(self.forward)
        pack_network(p.buffer, network.inputs, Y, H, L, self.forward, backward, self.inner, self.head)

    def write(
        self,
        o: Array,  # (B, Y) logits before the first token; replaced by those after the last
        state: State,  # (B, H) a layer; replaced likewise
        uniforms: Array,  # (n, B)
        *,
        temperature: Array,  # (B,)
        top_k: Array,  # (B,) at most Y, which is all of them
        top_p: Array,  # (B,) likewise 1
        banned: Array,  # ids that no sequence may have
    ) -> Array:
        """n tokens for each of B sequences, (n, B)."""
        slices = batch_slices(uniforms.shape[1])
        jobs = [
            partial(
                self._write, o[rows], [h[rows] for h in state], np.ascontiguousarray(uniforms[:, rows]),
                temperature[rows], top_k[rows], top_p[rows], banned,
            )
            for rows in slices
        ]  # fmt: skip
        return np.concatenate(run(jobs), axis=1)

    def _write(
        self,
        o: Array,
        state: State,
        uniforms: Array,
        temperature: Array,
        top_k: Array,
        top_p: Array,
        banned: Array,
    ) -> Array:
        """A slice of the sequences; o and state are views, and written to."""
        n, B = uniforms.shape
        dtype, H, Y = self.p.buffer.dtype, self.network.hidden, self.network.outputs
        tokens, states = np.empty((n, B), np.int64), np.stack(state).astype(dtype, copy=False)
        logits = np.ascontiguousarray(o, dtype)
        write_tokens(
            self.p.buffer, self.network.inputs, states, logits, uniforms, tokens, temperature, top_k, top_p, banned,
            self.forward, self.inner, self.head, CODES[str(self.network.activation)], np.empty((B, H), dtype),
            np.empty(B * panel_width(dtype.itemsize), dtype), np.empty(Y),
        )  # fmt: skip
        o[...] = logits
        for layer, h in enumerate(state):
            h[...] = states[layer]
        return tokens
