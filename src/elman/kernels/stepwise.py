"""The steps of a decoder with attention and input feeding, in plain NumPy.

The result h_tilde of a step is an input of the next step (network/attention.py), so the layers run step by step.
`LayerSteps` is one recurrent layer whose input product comes one step at a time. `AttentionSteps` is attention, and
h_tilde = tanh([h, context] @ W_c), the output of the decoder (maths/attention.py). Both keep what their backward passes
need, which run from the last step to the first; `finish` then writes the gradients of their weights, summed over all
steps. kernels/attention.py is the compiled version.

T is the number of source steps, S that of decoder steps. K is the size of keys, M that of values, F that of h_tilde,
P the number of state parts. In Product, K and N are the numbers of rows and columns of W.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from elman.kernels.reference import Layer, Workspace
from elman.maths.arrays import Array
from elman.maths.attention import attention_backward, attention_forward, combine_backward, combine_forward
from elman.maths.cells import Weights
from elman.maths.recurrence import cell_backward, cell_forward


class Memory(NamedTuple):
    """The keys and values of attention."""

    keys: Array  # (T, B, K)
    values: Array  # (T, B, M), the outputs of the encoder
    lengths: Array  # (1, B), source steps of each row


class Product:
    """A product that is added to an array: c += x @ W."""

    def pack(self, W: Array) -> None:
        """Take these weights, which must not change until the last pass with them."""
        self.W = W

    def add(self, x: Array, c: Array) -> Array:
        """c (B, N), to which x (B, K) @ W has been added in place."""
        c += x @ self.W
        return c

    def backward(self, d_c: Array) -> Array:
        """d_x (B, K), from d_c (B, N)."""
        return np.asarray(d_c @ self.W.T)


class LayerSteps(Protocol):
    """One recurrent layer, one step at a time."""

    def forward(self, t: int, a_x: Array) -> Array:
        """h[t+1] (B, H), from the input product a_x (B, G·H) of step t without its bias."""

    def backward(self, t: int, d_h: Array) -> Array:
        """d_a_x (B, G·H), from d_h (B, H), the gradient on h[t+1] without its part from step t+1 of this layer."""

    def finish(self, gradients: Mapping[str, Array]) -> Array:
        """d_s0 (P, B, H); the gradients of all parameters but W_xh are overwritten."""

    @property
    def state(self) -> Array:
        """The state (P, B, H) after the last step that has run."""


class AttentionSteps(Protocol):
    """Attention and h_tilde, one step at a time."""

    def forward(self, t: int, h: Array) -> Array:
        """h_tilde (B, F), from the state h (B, H)."""

    def backward(self, t: int, d_h_tilde: Array) -> Array:
        """d_h (B, H), from d_h_tilde (B, F).

        The compiled class returns the same array at each call, so d_h is valid only until the next call.
        """

    def finish(self, gradients: Mapping[str, Array]) -> tuple[Array, Array]:
        """d_keys (T, B, K) and d_values (T, B, M); the gradients of W_q, w_a and W_c are overwritten."""

    def weights(self, t: int) -> Array:
        """alpha (T, B) of step t."""


class ReferenceLayerSteps:
    """The time loop of maths, called for one step at a time.

    cell_forward gets the input product a_x (B, G·H) as W_xh, and the row numbers 0..B-1 as token ids: the input product
    that it looks up for row i is then a_x[i], and the gradient of "W_xh" is d_a_x.
    """

    def __init__(self, layer: Any, s0: Array, lengths: Array | None, h_mask: Array | None) -> None:
        self.cell, self.p, self.state, self.lengths, self.h_mask = layer.cell, layer.p, s0, lengths, h_mask
        self.ids = np.arange(s0.shape[1])[np.newaxis]  # (1, B)
        self.passes: list[tuple[Weights, Any]] = []
        self.d_s: Array | None = None
        self.d_p: dict[str, Array] = {}

    def _options(self, t: int) -> dict[str, Any]:
        return {"lengths": None if self.lengths is None else (t < self.lengths).astype(int), "h_mask": self.h_mask}

    def forward(self, t: int, a_x: Array) -> Array:
        p = {**self.p, "W_xh": a_x}
        trace = cell_forward(self.cell, self.ids, self.state, p, **self._options(t))
        self.passes.append((p, trace))
        self.state = trace.s[:, 1]
        return np.asarray(self.state[0])

    def backward(self, t: int, d_h: Array) -> Array:
        p, trace = self.passes[t]
        found = cell_backward(
            self.cell, d_h[np.newaxis], trace, self.ids, p, d_s_last=self.d_s, **self._options(t)
        )  # fmt: skip
        self.d_s = found.d_s0
        d_a_x = found.d_p.pop("W_xh")
        for name, d in found.d_p.items():
            self.d_p[name] = self.d_p[name] + d if name in self.d_p else d
        return d_a_x

    def finish(self, gradients: Mapping[str, Array]) -> Array:
        for name, d in self.d_p.items():
            gradients[name][...] = d
        assert self.d_s is not None
        return self.d_s


class ReferenceAttention:
    """Attention and h_tilde with the equations of maths."""

    def __init__(self, H: int, K: int, M: int, F: int, dtype: np.dtype[Any]) -> None:
        self.H, self.K, self.M, self.F, self.dtype = H, K, M, F, dtype

    def pack(self, p: Weights) -> None:
        """Take these parameters, which must not change until the last pass with them."""
        self.p, self.w_a = p, p.get("w_a")

    def steps(self, memory: Memory, S: int, work: Workspace | None = None) -> AttentionSteps:
        """S decoder steps of attention over one memory."""
        return ReferenceAttentionSteps(self, memory)


class ReferenceAttentionSteps:
    def __init__(self, layer: ReferenceAttention, memory: Memory) -> None:
        self.layer, self.memory = layer, memory
        self.found: list[Any] = []
        self.d_keys, self.d_values = np.zeros_like(memory.keys), np.zeros_like(memory.values)
        self.d_p = {name: np.zeros_like(layer.p[name]) for name in ("W_q", "W_c", "w_a") if name in layer.p}

    def forward(self, t: int, h: Array) -> Array:
        p, (keys, values, lengths) = self.layer.p, self.memory
        found = attention_forward(h, keys, values, p["W_q"], self.layer.w_a, lengths=lengths[0])
        h_tilde = combine_forward(h, found.context, p["W_c"])
        self.found.append((h, found, h_tilde))
        return h_tilde

    def backward(self, t: int, d_h_tilde: Array) -> Array:
        p, (h, found, h_tilde) = self.layer.p, self.found[t]
        combined = combine_backward(d_h_tilde, h, found.context, h_tilde, p["W_c"])
        d = attention_backward(
            combined.d_context, h, self.memory.keys, self.memory.values, found, p["W_q"], self.layer.w_a
        )
        self.d_keys += d.d_keys
        self.d_values += d.d_values
        self.d_p["W_q"] += d.d_W_q
        self.d_p["W_c"] += combined.d_W_c
        if d.d_w_a is not None:
            self.d_p["w_a"] += d.d_w_a
        return np.asarray(combined.d_h + d.d_h)

    def finish(self, gradients: Mapping[str, Array]) -> tuple[Array, Array]:
        for name, d in self.d_p.items():
            gradients[name][...] = d
        return self.d_keys, self.d_values

    def weights(self, t: int) -> Array:
        return np.asarray(self.found[t][1].alpha)


def make_product(K: int, N: int, dtype: np.dtype[Any]) -> Product:
    """A product that runs in NumPy."""
    return Product()


def make_attention(H: int, K: int, M: int, F: int, dtype: np.dtype[Any]) -> ReferenceAttention:
    """Attention that runs in NumPy."""
    return ReferenceAttention(H, K, M, F, dtype)


def layer_steps(
    layer: Layer,
    S: int,
    s0: Array,  # (P, B, H)
    *,
    lengths: Array | None = None,
    h_mask: Array | None = None,
    work: Workspace | None = None,
) -> LayerSteps:
    """S steps of a packed layer."""
    return ReferenceLayerSteps(layer, s0, lengths, h_mask)
