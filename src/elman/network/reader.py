"""A network that reads a sequence and judges it: once at its end (many-to-one), or at every step (aligned)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np

from elman.kernels import (
    OutputGradients,
    cross_entropy,
    max_backward,
    max_forward,
    mean_backward,
    mean_forward,
    mean_squared_error,
    output_backward,
    output_forward,
)
from elman.maths.arrays import Array, FloatType
from elman.maths.initial import glorot
from elman.maths.pooling import Pooled
from elman.network.encoder import Encoder, Masks, Trace
from elman.network.parameters import Parameters
from elman.network.pool import run
from elman.network.shape import Batch, Drawn, Dropout, Dtype, Shape, check_inputs, step_weights
from elman.network.stack import batch_slices, check_ids

Pooling = Literal["last", "mean", "max", "none"]  # none: every step is judged
LOSSES: dict[str, Callable[..., tuple[float, Array]]] = {
    "cross_entropy": cross_entropy,
    "squared": mean_squared_error,
}


class Reader(Shape):
    def __init__(self, encoder: Encoder, outputs: int, *, pooling: Pooling, loss: str = "cross_entropy") -> None:
        super().__init__()
        self.encoder, self.outputs, self.pooling, self.loss_name = encoder, outputs, pooling, loss
        self.shapes = {**encoder.shapes, "head.W_hy": (encoder.width, outputs), "head.b_y": (outputs,)}

    def initial(self, rng: np.random.Generator, *, recurrent: str, gain: float, dtype: FloatType) -> Parameters:
        p = Parameters(self.shapes, dtype)
        self.encoder.fill(p, rng, recurrent=recurrent, gain=gain)
        p["head.W_hy"][...] = glorot(rng, self.shapes["head.W_hy"], dtype=dtype)
        return p

    def units(self, batch: Batch) -> float:
        if self.pooling == "none" and batch.x_lengths is not None:
            if batch.y_weights is None:
                return float(batch.weights @ batch.x_lengths)
            rows = step_weights(batch.weights, batch.x_lengths, len(batch.y_weights), np.float64)  # (T, B)
            return float((rows * batch.y_weights).sum())
        return float(batch.weights.sum()) * (self.outputs if self.loss_name == "squared" else 1)

    def draw(self, rng: np.random.Generator, batch: Batch, dropout: Dropout, dtype: Dtype) -> Drawn:
        return dropout.masks(rng, self.encoder, batch.x, dtype, self.pooling != "none"), None

    def check(self, batch: Batch) -> None:
        check_inputs(batch.x, self.encoder.inputs, tokens=batch.x.ndim == 2)
        if self.loss_name == "cross_entropy":
            check_ids("y", batch.y, self.outputs)

    def forward(self, p: Parameters, x: Array, lengths: Array | None = None, masks: Masks | None = None) -> Array:
        """Logits, or numbers: (B, Y), or (T, B, Y) where every step is judged."""
        trace = self.encoder.forward(p, x, lengths, None, masks)
        return self._head(p, self._vector(trace, lengths).vector, masks)

    def slice_loss(
        self,
        p: Parameters,
        batch: Batch,
        normaliser: float,
        masks: Drawn = (None, None),
        gradients: Parameters | None = None,
    ) -> float:
        encoder, lengths, mask = self.encoder, batch.x_lengths, masks[0]
        trace = encoder.forward(p, batch.x, lengths, None, mask)
        pooled = self._vector(trace, lengths)
        o = self._head(p, pooled.vector, mask)
        loss, d_o = LOSSES[self.loss_name](o, batch.y, weights=self._weights(batch, o), normaliser=normaliser, out=o)
        if gradients is None:
            return loss

        entered = pooled.vector if mask is None or mask.head is None else pooled.vector * mask.head
        d_vector = np.zeros_like(entered)
        out = OutputGradients(gradients["head.W_hy"], gradients["head.b_y"], d_vector)
        output_backward(d_o, entered, p["head.W_hy"], out=out)
        if mask is not None and mask.head is not None:
            d_vector *= mask.head
        d_outputs, d_final = self._vector_backward(d_vector, trace, lengths, pooled)
        encoder.backward(p, trace, d_outputs, d_final, gradients, lengths, mask)
        return loss

    def loss_and_right(self, p: Parameters, batch: Batch) -> tuple[float, int]:
        """The loss, as it is weighted, and how many classes or tags are right, each counted once: of one pass."""
        self.check(batch)
        found = run([partial(self._judge, p, batch.rows(rows)) for rows in batch_slices(len(batch.weights))])
        return sum(loss for loss, _ in found), sum(right for _, right in found)

    def _judge(self, p: Parameters, batch: Batch) -> tuple[float, int]:
        o = self.forward(p, batch.x, batch.x_lengths)  # (B, Y), or (T, B, Y)
        right = o.argmax(axis=-1) == batch.y
        if self.pooling == "none" and batch.x_lengths is not None:
            right &= np.arange(len(o))[:, np.newaxis] < batch.x_lengths
        loss, _ = cross_entropy(o, batch.y, weights=self._weights(batch, o), normaliser=1.0, out=o)
        return loss, int(right.sum())

    def _weights(self, batch: Batch, o: Array) -> Array:
        """Of each loss: (B), or (T, B) where every step is judged."""
        weights = batch.weights.astype(o.dtype)
        if self.pooling == "none" and batch.x_lengths is not None:
            weights = step_weights(weights, batch.x_lengths, len(o), o.dtype)
            if batch.y_weights is not None:
                weights *= batch.y_weights.astype(o.dtype)
        return weights

    def _head(self, p: Parameters, vector: Array, masks: Masks | None) -> Array:
        dropped = vector if masks is None or masks.head is None else vector * masks.head
        return output_forward(dropped, p["head.W_hy"], p["head.b_y"])

    def _vector(self, trace: Trace, lengths: Array | None) -> Pooled:
        """What the output layer sees: (B, D·H), or (T, B, D·H)."""
        assert trace.outputs is not None
        if self.pooling == "none":
            return Pooled(trace.outputs, None)
        if self.pooling == "mean":
            return mean_forward(trace.outputs, lengths)
        if self.pooling == "max":
            return max_forward(trace.outputs, lengths)
        last = trace.final[-len(self.encoder.directions) :]  # of the last layer
        return Pooled(last[0] if len(last) == 1 else np.concatenate(last, axis=1), None)

    def _vector_backward(
        self, d_vector: Array, trace: Trace, lengths: Array | None, pooled: Pooled
    ) -> tuple[Array | None, list[Array] | None]:
        """From what the output layer wants changed to the outputs of the steps, and to the final states."""
        assert trace.outputs is not None
        T = len(trace.outputs)
        if self.pooling == "none":
            return d_vector, None
        if self.pooling == "mean":
            return mean_backward(d_vector, T, lengths), None
        if self.pooling == "max":
            assert pooled.places is not None
            return max_backward(d_vector, T, lengths, pooled.places), None
        sides = np.split(d_vector, len(self.encoder.directions), axis=1)
        below = [np.zeros_like(final) for final in trace.final[: -len(sides)]]
        return None, [*below, *map(np.ascontiguousarray, sides)]
