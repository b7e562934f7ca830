"""Recurrent layers over whole sequences of any lengths: one direction or both, one above the other.

Every mask, length and initial state is optional. What goes forward is kept in a Trace, and backward goes through it.
The layers' parameters are `layers.0.W_xh` …, those that read from the end `layers.0.reverse.W_xh` …, a learned initial
state `layers.0.h0`, an embedding `embedding.W`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from elman.kernels import RNNGradients, embedding_backward, embedding_forward, rnn_backward, rnn_forward
from elman.maths.activations import ActivationLike
from elman.maths.arrays import Array
from elman.maths.initial import INITIALISERS, glorot, normal
from elman.network.parameters import Parameters

TOKENS = 0.1  # deviation of their rows at the start


@dataclass(frozen=True)
class Masks:
    """Dropout of one pass, drawn beforehand: each mask multiplies, 0 or 1 / (1 - dropout)."""

    inputs: Array | None = None  # (T, B, X), what enters the first layer
    layers: tuple[Array, ...] | None = None  # (T, B, D·H), what goes from each layer to the next
    states: tuple[Array, ...] | None = None  # (B, H) for each cell, the same at all steps
    head: Array | None = None  # (B, D·H) or (T, B, D·H), what enters the output layer

    def rows(self, rows: slice, T: int) -> Masks:
        """Those of some rows, for T steps."""
        return Masks(
            None if self.inputs is None else self.inputs[:T, rows],
            None if self.layers is None else tuple(mask[:T, rows] for mask in self.layers),
            None if self.states is None else tuple(mask[rows] for mask in self.states),
            None if self.head is None else self.head[:T, rows] if self.head.ndim == 3 else self.head[rows],
        )


@dataclass
class Trace:
    """What a forward pass leaves for the backward pass."""

    ids: Array | None
    inputs: list[Array]  # what entered each layer
    states: list[Array] = field(default_factory=list)  # (T+1, B, H) of each cell
    outputs: Array | None = None  # (T, B, D·H), what left the last layer
    final: list[Array] = field(default_factory=list)  # (B, H), the last state of each cell


class Encoder:
    """Shapes and passes; the numbers live in Parameters that are handed in."""

    def __init__(
        self,
        inputs: int,  # tokens, or numbers a step
        hidden: int,
        layers: int = 1,
        *,
        both_ways: bool = False,
        embedding: int = 0,  # width; 0: a token is its one-hot row
        learned_state: bool = False,
        activation: ActivationLike = "tanh",
        prefix: str = "",
        tokens: bool = True,  # that enter, or numbers
    ) -> None:
        self.inputs, self.tokens = inputs, tokens
        self.hidden, self.layers, self.activation, self.prefix = hidden, layers, activation, prefix
        self.embedding, self.learned_state = embedding, learned_state
        self.directions = (False, True) if both_ways else (False,)
        self.width = hidden * len(self.directions)  # of an output
        self.cells = [(layer, reverse) for layer in range(layers) for reverse in self.directions]
        self.shapes: dict[str, tuple[int, ...]] = {}
        if embedding:
            self.shapes[f"{prefix}embedding.W"] = (inputs, embedding)
        for layer, reverse in self.cells:
            below = self.width if layer else embedding or inputs
            cell = self.name(layer, reverse)
            self.shapes[f"{cell}.W_xh"] = (below, hidden)
            self.shapes[f"{cell}.W_hh"] = (hidden, hidden)
            self.shapes[f"{cell}.b_h"] = (hidden,)
            if learned_state:
                self.shapes[f"{cell}.h0"] = (hidden,)

    def name(self, layer: int, reverse: bool) -> str:
        return f"{self.prefix}layers.{layer}{'.reverse' if reverse else ''}"

    def fill(self, p: Parameters, rng: np.random.Generator, *, recurrent: str, gain: float) -> None:
        """Draw the parameters: W_hh as asked; rows of tokens normal, other weights Glorot, the rest 0.

        Tokens start small: large ones drive tanh to where it no longer remembers, and most words of a language are too
        rare to unlearn what chance gave them.
        """
        dtype = p.buffer.dtype
        for name, shape in self.shapes.items():
            one_hot = self.tokens and not self.embedding and f"{self.prefix}layers.0" in name
            if name.endswith("W_hh"):
                p[name][...] = INITIALISERS[recurrent](rng, shape, gain=gain, dtype=dtype)
            elif name.endswith("embedding.W") or (name.endswith("W_xh") and one_hot):
                p[name][...] = normal(rng, shape, gain=TOKENS, dtype=dtype)
            elif name.endswith("W_xh"):
                p[name][...] = glorot(rng, shape, dtype=dtype)

    def forward(
        self,
        p: Parameters,
        x: Array,  # (T, B) ids or (T, B, X)
        lengths: Array | None = None,
        h0: list[Array] | None = None,  # (B, H) for each cell
        masks: Masks | None = None,
    ) -> Trace:
        masks = masks or Masks()
        trace = Trace(x if x.ndim == 2 else None, [x])
        if self.embedding:
            trace.inputs = [embedding_forward(x, p[f"{self.prefix}embedding.W"])]
        if masks.inputs is not None and trace.inputs[0].ndim == 3:
            trace.inputs = [trace.inputs[0] * masks.inputs]
        for layer in range(self.layers):
            outputs = []
            for reverse in self.directions:
                cell, number = self.name(layer, reverse), len(trace.states)
                start = h0[number] if h0 is not None else self._learned(p, cell, x.shape[1])
                h = rnn_forward(
                    trace.inputs[-1], start, p[f"{cell}.W_xh"], p[f"{cell}.W_hh"], p[f"{cell}.b_h"],
                    activation=self.activation, lengths=lengths, reverse=reverse,
                    h_mask=None if masks.states is None else masks.states[number],
                )  # fmt: skip
                trace.states.append(h)
                trace.final.append(h[1] if reverse else h[-1])  # the state after the last step that ran
                outputs.append(h[1:])
            joined = outputs[0] if len(outputs) == 1 else np.concatenate(outputs, axis=2)  # (T, B, D·H)
            between = masks.layers is not None and layer < self.layers - 1
            trace.inputs.append(joined * masks.layers[layer] if between else joined)  # type: ignore[index]
        trace.outputs = trace.inputs[-1]
        return trace

    def backward(
        self,
        p: Parameters,
        trace: Trace,
        d_outputs: Array | None,  # (T, B, D·H)
        d_final: list[Array] | None,  # (B, H) for each cell
        gradients: Parameters,  # added to
        lengths: Array | None = None,
        masks: Masks | None = None,
    ) -> tuple[Array | None, list[Array]]:
        """d_x, None for ids, and d_h0 of each cell."""
        masks = masks or Masks()
        T, B = trace.states[0].shape[0] - 1, trace.states[0].shape[1]
        d = np.zeros((T, B, self.width), p.buffer.dtype) if d_outputs is None else d_outputs.copy()
        d_h0: list[Array] = [np.empty(0)] * len(self.cells)
        for layer in reversed(range(self.layers)):
            if masks.layers is not None and layer < self.layers - 1:
                d *= masks.layers[layer]
            x = trace.inputs[layer]
            d_x = None if x.ndim == 2 else np.zeros_like(x)
            for side, reverse in enumerate(self.directions):
                number, cell = layer * len(self.directions) + side, self.name(layer, reverse)
                direct = np.ascontiguousarray(d[:, :, side * self.hidden : (side + 1) * self.hidden])
                if d_final is not None:
                    direct[0 if reverse else -1] += d_final[number]
                start = np.zeros((B, self.hidden), p.buffer.dtype)
                out = RNNGradients(
                    gradients[f"{cell}.W_xh"], gradients[f"{cell}.W_hh"], gradients[f"{cell}.b_h"], d_x, start
                )
                rnn_backward(
                    direct, x, trace.states[number], p[f"{cell}.W_xh"], p[f"{cell}.W_hh"],
                    activation=self.activation, lengths=lengths, reverse=reverse, out=out,
                    h_mask=None if masks.states is None else masks.states[number],
                )  # fmt: skip
                d_h0[number] = start
                if self.learned_state:
                    gradients[f"{cell}.h0"][...] += start.sum(axis=0)
            d = d_x  # type: ignore[assignment]
        if d is not None and masks.inputs is not None:
            d *= masks.inputs
        if self.embedding and trace.ids is not None and d is not None:
            embedding_backward(d, trace.ids, p[f"{self.prefix}embedding.W"], out=gradients[f"{self.prefix}embedding.W"])
            d = None  # type: ignore[assignment]
        return d, d_h0

    def _learned(self, p: Parameters, cell: str, B: int) -> Array | None:
        return np.tile(p[f"{cell}.h0"], (B, 1)) if self.learned_state else None
