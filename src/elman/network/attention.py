"""A decoder with attention and input feeding: each step gets a weighted mean of all outputs of the encoder.

    a[t] = x[t] @ W_xh + h_tilde[t] @ W_fh + h[t] @ W_hh + b_h      of the first layer; h_tilde[0] = 0
    h[t+1] of the top layer is the query of attention, whose result is context[t]
    h_tilde[t+1] = tanh([h[t+1], context[t]] @ W_c)                 enters the output layer and step t+1

(Luong et al. 2015, "Effective Approaches to Attention-based Neural Machine Translation").

Because a step needs h_tilde of the step before it, the layers run step by step; the gradients of the input weights are
computed for all steps at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from elman.kernels import (
    AttentionSteps,
    LayerSteps,
    Memory,
    Product,
    ReferenceAttention,
    Workspace,
    embedding_backward,
    embedding_forward,
    layer_steps,
    make_attention,
    make_product,
    output_forward,
    weight_gradient,
)
from elman.maths.arrays import Array
from elman.maths.initializers import glorot
from elman.network.parameters import Parameters
from elman.network.stack import NO_MASKS, Masks, Packed, Stack, scratch


class PackedAttention(NamedTuple):
    """Weights in the layout that the kernels read, packed once for any number of passes."""

    attention: ReferenceAttention
    feed: Product  # W_fh
    inputs: tuple[Product, ...]  # W_xh of the layers above the first


class AttentionTrace(NamedTuple):
    """What a forward pass keeps for the backward pass."""

    ids: Array  # (S, B)
    x: Array  # (S, B) ids or (S, B, E), the input of the first layer
    inputs: list[Array]  # (S, B, H) each, the inputs of the other layers
    layers: list[LayerSteps]
    attention: AttentionSteps
    outputs: Array  # (S, B, H), h_tilde after dropout

    @property
    def final(self) -> Array:
        """The state (L, P, B, H) after the last step."""
        return np.stack([layer.state for layer in self.layers])

    @property
    def alpha(self) -> Array:
        """(S, T, B), the attention weights over the source steps at each step."""
        return np.stack([self.attention.weights(t) for t in range(len(self.outputs))])


class AttentionDecoder:
    """Attention's parameter shapes, and the passes of a stack with attention; the parameters are arguments."""

    def __init__(self, stack: Stack, width: int, kind: str) -> None:
        self.stack, self.kind, self.width = stack, kind, width  # width: M, of the encoder's outputs
        H, self.K = stack.hidden, width if kind == "dot" else stack.hidden  # K: width of queries and keys
        self.shapes: dict[str, tuple[int, ...]] = {"attention.W_q": (H, self.K)}
        if kind == "additive":
            self.shapes |= {"attention.W_k": (width, self.K), "attention.w_a": (self.K,)}
        self.shapes |= {"attention.W_c": (H + width, H), "attention.W_fh": (H, stack.cell.gates * H)}

    def fill(self, p: Parameters, rng: np.random.Generator) -> None:
        """Draw the initial parameters of attention: Glorot, W_fh gate by gate."""
        for name, shape in self.shapes.items():
            blocks = np.split(p[name], self.stack.cell.gates, axis=1) if name.endswith("W_fh") else [p[name]]
            for block in blocks:
                drawn = glorot(rng, block.shape if len(shape) == 2 else (*shape, 1), dtype=p.buffer.dtype)
                block[...] = drawn.reshape(block.shape)

    def pack(self, p: Parameters, packed: PackedAttention | None = None) -> PackedAttention:
        """Pack the parameters, into `packed` if given; they must not change until the last pass with the result."""
        H, N, dtype = self.stack.hidden, self.stack.cell.gates * self.stack.hidden, p.buffer.dtype
        if packed is None:
            packed = PackedAttention(
                make_attention(H, self.K, self.width, H, dtype),
                make_product(H, N, dtype),
                tuple(make_product(H, N, dtype) for _ in range(self.stack.layers - 1)),
            )
        packed.attention.pack(p.part("attention"))
        packed.feed.pack(p["attention.W_fh"])
        for product, name in zip(packed.inputs, self.stack.names[1:], strict=True):
            product.pack(p[f"{name}.W_xh"])
        return packed

    def memory(self, p: Parameters, values: Array, lengths: Array | None) -> Memory:
        """Keys and values, from the encoder's outputs (T, B, M), and the length of each row."""
        T, B = values.shape[:2]
        own = np.full((1, B), T) if lengths is None else lengths[np.newaxis]
        if self.kind == "dot":
            return Memory(values, values, own)
        # keys[j] = values[j] @ W_k
        return Memory(output_forward(values, p["attention.W_k"], np.zeros(self.K, values.dtype)), values, own)

    def forward(
        self,
        packed: PackedAttention,
        layers: Packed,
        p: Parameters,
        ids: Array,  # (S, B)
        state: Array,  # (L, P, B, H)
        memory: Memory,
        h_tilde: Array | None = None,  # (B, H), the h_tilde that enters the first step; 0 unless given
        *,
        lengths: Array | None = None,
        masks: Masks = NO_MASKS,
        work: Workspace | None = None,
    ) -> AttentionTrace:
        """The states and outputs of all steps."""
        stack, (S, B), dtype = self.stack, ids.shape, p.buffer.dtype
        x, W_xh = ids, p[f"{stack.names[0]}.W_xh"]
        if stack.embedding:
            x = embedding_forward(ids, p[f"{stack.prefix}embedding.W"])
        if masks.inputs is not None and x.ndim == 3:
            x = x * masks.inputs
        # x[t] @ W_xh, of all steps at once
        a = embedding_forward(x, W_xh) if x.ndim == 2 else output_forward(x, W_xh, np.zeros(W_xh.shape[1], dtype))
        steps = [
            layer_steps(
                layer, S, state[number], lengths=lengths, work=work,
                h_mask=None if masks.states is None else masks.states[number],
            )
            for number, layer in enumerate(layers)
        ]  # fmt: skip
        attention = packed.attention.steps(memory, S, work)
        inputs = [scratch(work, f"decoder.x{i}", (S, B, stack.hidden), dtype) for i in range(stack.layers - 1)]
        outputs = scratch(work, "decoder.h_tilde", (S, B, stack.hidden), dtype)
        for t in range(S):
            # a[t] = x[t] @ W_xh + h_tilde[t] @ W_fh + …
            a_x = a[t] if h_tilde is None else packed.feed.add(h_tilde, a[t])  # (B, G·H) [fed]
            h = steps[0].forward(t, a_x)  # (B, H)
            for number, product in enumerate(packed.inputs):
                inputs[number][t] = h if masks.layers is None else h * masks.layers[number][t]
                h = steps[number + 1].forward(t, product.add(inputs[number][t], np.zeros_like(a[t])))
            combined = attention.forward(t, h)  # h_tilde[t+1] before dropout
            outputs[t] = combined if masks.head is None else combined * masks.head[t]
            h_tilde = outputs[t]
        return AttentionTrace(ids, x, inputs, steps, attention, outputs)

    def backward(
        self,
        packed: PackedAttention,
        p: Parameters,
        trace: AttentionTrace,
        memory: Memory,
        d_outputs: Array,  # (S, B, H), overwritten
        gradients: Parameters,  # those of this decoder are overwritten
        *,
        masks: Masks = NO_MASKS,
        work: Workspace | None = None,
    ) -> tuple[Array, Array]:
        """The gradient on the initial state (L, P, B, H), and that on the encoder's outputs (T, B, M).

        The forward pass must have been called without h_tilde, which gets no gradient.
        """
        stack, S, d_a = self.stack, len(d_outputs), np.empty(0)
        d_a_of_layers: list[list[Array]] = [[] for _ in range(stack.layers)]  # of each layer, the last step first
        for t in reversed(range(S)):
            d = d_outputs[t]
            if t < S - 1:
                d += packed.feed.backward(d_a)  # d_a[t+1] @ W_fh.T [d_fed]
            if masks.head is not None:
                d *= masks.head[t]
            d = trace.attention.backward(t, d)
            for number in reversed(range(stack.layers)):
                d_a = trace.layers[number].backward(t, d)
                d_a_of_layers[number].append(d_a)
                if number:
                    d = packed.inputs[number - 1].backward(d_a)
                    if masks.layers is not None:
                        d *= masks.layers[number - 1][t]
        d_state = np.stack(
            [steps.finish(gradients.part(name)) for steps, name in zip(trace.layers, stack.names, strict=True)]
        )
        self._weight_gradients(p, trace, [np.stack(d_a[::-1]) for d_a in d_a_of_layers], gradients, masks, work)
        d_keys, d_values = trace.attention.finish(gradients.part("attention"))
        if self.kind == "additive":
            d_rows = d_keys.reshape(-1, self.K)
            # d_W_k = Σ values[j].T @ d_keys[j],  d_values[j] += d_keys[j] @ W_k.T
            weight_gradient(memory.values, d_rows, gradients["attention.W_k"], work)
            d_keys = np.dot(d_rows, p["attention.W_k"].T).reshape(d_values.shape)
        d_values += d_keys
        return d_state, d_values

    def _weight_gradients(
        self,
        p: Parameters,
        trace: AttentionTrace,
        d_a: list[Array],  # (S, B, G·H) of each layer
        gradients: Parameters,
        masks: Masks,
        work: Workspace | None,
    ) -> None:
        """The gradients of W_fh, of every W_xh and of the embedding: sums over all steps and rows."""
        N = d_a[0].shape[2]
        # d_W_fh = Σ h_tilde[t].T @ d_a[t]; h_tilde[0] is 0
        weight_gradient(trace.outputs[:-1], d_a[0][1:], gradients["attention.W_fh"], work)  # (H, G·H) [d_W_fh]
        first, *above = (gradients.part(name)["W_xh"] for name in self.stack.names)
        for d_W, x, d in zip(above, trace.inputs, d_a[1:], strict=True):
            weight_gradient(x, d, d_W, work)
        if trace.x.ndim == 2:
            first[...] = 0
            embedding_backward(d_a[0], trace.ids, p[f"{self.stack.names[0]}.W_xh"], out=first)
            return
        rows, W_xh = d_a[0].reshape(-1, N), p[f"{self.stack.names[0]}.W_xh"]
        weight_gradient(trace.x, rows, first, work)
        d_x = np.dot(rows, W_xh.T).reshape(trace.x.shape)
        if masks.inputs is not None:
            d_x *= masks.inputs
        d_W = gradients[f"{self.stack.prefix}embedding.W"]
        d_W[...] = 0
        embedding_backward(d_x, trace.ids, p[f"{self.stack.prefix}embedding.W"], out=d_W)
