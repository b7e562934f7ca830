"""A network that writes a sequence: its state begins with a condition (one-to-many), or with what another network has
read (many-to-many, unaligned). In training it is told the right token before each step, whatever it would have said.

    c       the condition: a label's id, numbers, or the final states of the encoder
    h[0] =  c @ W_ch + b_h      for all layers at once; an encoder in one direction hands its states over as they are
"""

from __future__ import annotations

import numpy as np

from elman.kernels import (
    OutputGradients,
    cross_entropy,
    embedding_backward,
    embedding_forward,
    output_backward,
    output_forward,
)
from elman.maths.arrays import Array, FloatType
from elman.maths.initial import glorot, normal
from elman.network.encoder import Encoder, Masks, Trace
from elman.network.parameters import Parameters
from elman.network.shape import Batch, Drawn, Dropout, Dtype, Shape, check_inputs, step_weights
from elman.network.stack import check_ids


class Teller(Shape):
    """`source` is an encoder, or the width of a condition."""

    def __init__(self, source: Encoder | int, decoder: Encoder, outputs: int, *, edge: int) -> None:
        super().__init__()
        self.decoder, self.outputs, self.edge = decoder, outputs, edge  # edge: the token that begins and ends
        self.encoder = source if isinstance(source, Encoder) else None
        self.conditions = 0 if isinstance(source, Encoder) else source
        c = self.conditions if self.encoder is None else self.encoder.hidden * len(self.encoder.cells)
        self.bridged = self.encoder is None or len(self.encoder.directions) > 1
        bridge: dict[str, tuple[int, ...]] = {
            "bridge.W_ch": (c, decoder.layers * decoder.hidden),
            "bridge.b_h": (decoder.layers * decoder.hidden,),
        }
        self.shapes = {
            **(self.encoder.shapes if self.encoder else {}),
            **(bridge if self.bridged else {}),
            **decoder.shapes,
            "head.W_hy": (decoder.width, outputs),
            "head.b_y": (outputs,),
        }

    def initial(self, rng: np.random.Generator, *, recurrent: str, gain: float, dtype: FloatType) -> Parameters:
        p = Parameters(self.shapes, dtype)
        if self.encoder is not None:
            self.encoder.fill(p, rng, recurrent=recurrent, gain=gain)
        if self.bridged:
            shape = self.shapes["bridge.W_ch"]
            p["bridge.W_ch"][...] = (
                normal(rng, shape, gain=0.3, dtype=dtype) if self.encoder is None else glorot(rng, shape, dtype=dtype)
            )
        self.decoder.fill(p, rng, recurrent=recurrent, gain=gain)
        p["head.W_hy"][...] = glorot(rng, self.shapes["head.W_hy"], dtype=dtype)
        return p

    def units(self, batch: Batch) -> float:
        assert batch.y_lengths is not None
        return float(batch.weights @ (batch.y_lengths + 1))  # one more each: the end is to be told too

    def draw(self, rng: np.random.Generator, batch: Batch, dropout: Dropout, dtype: Dtype) -> Drawn:
        source = None
        if self.encoder is not None:  # its output layer is the decoder: nothing is dropped between them
            source = dropout.masks(rng, self.encoder, batch.x, dtype, True)
        told = np.zeros((len(batch.y) + 1, len(batch.weights)), np.int64)
        return source, dropout.masks(rng, self.decoder, told, dtype, False)

    def steps(self, batch: Batch) -> tuple[int, int]:
        return len(batch.x), len(batch.y) + 1

    def check(self, batch: Batch) -> None:
        tokens = batch.x.ndim == (1 if self.encoder is None else 2)
        check_inputs(batch.x, self.encoder.inputs if self.encoder else self.conditions, tokens=tokens)
        check_ids("y", batch.y, self.outputs)

    # -- the state at the start -----------------------------------------------------------------------------------

    def start(
        self, p: Parameters, x: Array, lengths: Array | None = None, masks: Masks | None = None
    ) -> tuple[list[Array], Trace | None, Array]:
        """The decoder's states, one (B, H) for each layer; what the encoder left, and the condition c."""
        trace = None
        c = x
        if self.encoder is not None:
            trace = self.encoder.forward(p, x, lengths, None, masks)
            if not self.bridged:
                return trace.final, trace, c
            c = np.concatenate(trace.final, axis=1)  # (B, L·D·H)
        # h[0] = c @ W_ch + b_h
        if c.ndim == 1:
            h = embedding_forward(c[np.newaxis], p["bridge.W_ch"])[0] + p["bridge.b_h"]  # (B, L·H)
        else:
            h = output_forward(c.astype(p.buffer.dtype), p["bridge.W_ch"], p["bridge.b_h"])  # (B, L·H)
        return [np.ascontiguousarray(part) for part in np.split(h, self.decoder.layers, axis=1)], trace, c

    def _start_backward(
        self,
        p: Parameters,
        d_states: list[Array],
        trace: Trace | None,
        c: Array,
        gradients: Parameters,
        lengths: Array | None,
        masks: Masks | None,
    ) -> None:
        """From d_h[0] of the decoder to the bridge and the encoder."""
        d_final = d_states
        if self.bridged:
            d_h = np.concatenate(d_states, axis=1)  # (B, L·H)
            if c.ndim == 1:
                embedding_backward(d_h[np.newaxis], c[np.newaxis], p["bridge.W_ch"], out=gradients["bridge.W_ch"])
                gradients["bridge.b_h"][...] += d_h.sum(axis=0)
                return
            d_c = np.zeros(c.shape, p.buffer.dtype)
            out = OutputGradients(gradients["bridge.W_ch"], gradients["bridge.b_h"], d_c)
            output_backward(d_h, c.astype(p.buffer.dtype), p["bridge.W_ch"], out=out)
            if self.encoder is None:
                return
            d_final = [np.ascontiguousarray(part) for part in np.split(d_c, len(self.encoder.cells), axis=1)]
        if self.encoder is not None and trace is not None:
            self.encoder.backward(p, trace, None, d_final, gradients, lengths, masks)

    # -- training: the right token is told --------------------------------------------------------------------------

    def slice_loss(
        self,
        p: Parameters,
        batch: Batch,
        normaliser: float,
        masks: Drawn = (None, None),
        gradients: Parameters | None = None,
    ) -> float:
        assert batch.y_lengths is not None
        decoder, mask = self.decoder, masks[1]
        told, wanted, lengths = self._shifted(batch.y, batch.y_lengths)
        states, source, c = self.start(p, batch.x, batch.x_lengths, masks[0])
        trace = decoder.forward(p, told, lengths, states, mask)
        assert trace.outputs is not None
        entered = trace.outputs if mask is None or mask.head is None else trace.outputs * mask.head  # (S+1, B, H)
        o = output_forward(entered, p["head.W_hy"], p["head.b_y"])
        weights = step_weights(batch.weights, lengths, len(o), o.dtype)
        loss, d_o = cross_entropy(o, wanted, weights=weights, normaliser=normaliser, out=o)
        if gradients is None:
            return loss

        d_outputs = np.zeros_like(entered)
        out = OutputGradients(gradients["head.W_hy"], gradients["head.b_y"], d_outputs)
        output_backward(d_o, entered, p["head.W_hy"], out=out)
        if mask is not None and mask.head is not None:
            d_outputs *= mask.head
        _, d_states = decoder.backward(p, trace, d_outputs, None, gradients, lengths, mask)
        self._start_backward(p, d_states, source, c, gradients, batch.x_lengths, masks[0])
        return loss

    def _shifted(self, y: Array, lengths: Array) -> tuple[Array, Array, Array]:
        """What is told before each step, what should follow, and in how many steps: the edge comes first, and last."""
        S, B = y.shape
        told, wanted = np.full((2, S + 1, B), self.edge, np.int64)
        told[1:] = y
        wanted[:-1] = y
        wanted[lengths, np.arange(B)] = self.edge
        return told, wanted, lengths + 1

    # -- writing ------------------------------------------------------------------------------------------------------

    def step(self, p: Parameters, ids: Array, states: list[Array]) -> tuple[Array, list[Array]]:
        """Logits (B, Y) of the next token after ids (B,), and the states then."""
        trace = self.decoder.forward(p, ids[np.newaxis], None, states)
        assert trace.outputs is not None
        return output_forward(trace.outputs[0], p["head.W_hy"], p["head.b_y"]), trace.final
