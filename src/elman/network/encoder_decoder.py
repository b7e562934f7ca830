"""A decoder that generates a sequence. Its initial state comes from a condition (one-to-many) or from an encoder
(many-to-many, unaligned). In training each step reads the previous token of the target, whatever the network would have
predicted (teacher forcing).

    c     the condition (a label's id, or numbers), or the final states of the encoder
    s0 =  c @ W_ch + b_h      the bridge: the initial state of all layers, with all parts (h, an LSTM's cell state)

If the encoder has one direction, there is no bridge: its final states are the initial states of the decoder.

With attention (network/attention.py) each step of the decoder also gets a weighted mean of the encoder's outputs.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from elman.kernels import (
    Memory,
    OutputGradients,
    Workspace,
    embedding_backward,
    embedding_forward,
    output_backward,
    output_forward,
)
from elman.maths.arrays import Array, FloatType
from elman.maths.initializers import glorot, normal
from elman.maths.truncation import Truncation
from elman.network.attention import AttentionDecoder, AttentionTrace
from elman.network.batch import Batch, step_weights
from elman.network.network import DecoderState, Draw, Network, PackedNetwork
from elman.network.parameters import Parameters
from elman.network.stack import NO_MASKS, NO_TABLES, Masks, Stack, StackTrace, Tables, check_ids, check_inputs


class InitialState(NamedTuple):
    """The decoder's initial state, and what its backward pass needs."""

    state: Array  # (L, P, B, H)
    trace: StackTrace | None  # of the encoder
    c: Array  # (B,) ids or (B, C), the condition or the encoder's final states; not used without a bridge


class EncoderDecoder(Network):
    """A decoder with an encoder or a condition.

    source: the encoder, or the size of the condition: the number of labels, or of numbers in a vector
    edge: the id of the token before the first and after the last token of a target
    attention: none, dot or additive
    """

    def __init__(
        self, source: Stack | int, decoder: Stack, outputs: int, *, edge: int, attention: str = "none"
    ) -> None:
        super().__init__()
        self.decoder, self.outputs, self.edge = decoder, outputs, edge
        self.encoder = source if isinstance(source, Stack) else None
        self.conditions = 0 if isinstance(source, Stack) else source
        self.stacks = (decoder,) if self.encoder is None else (self.encoder, decoder)
        parts = decoder.cell.parts
        c = self.conditions if self.encoder is None else self.encoder.hidden * len(self.encoder.names) * parts
        # whether s0 = c @ W_ch + b_h; otherwise s0 is the final state of the encoder
        self.bridged = self.encoder is None or len(self.encoder.directions) > 1
        self.attention = None
        if attention != "none":
            assert self.encoder is not None
            self.attention = AttentionDecoder(decoder, self.encoder.width, attention)
        width = decoder.layers * parts * decoder.hidden
        bridge: dict[str, tuple[int, ...]] = {"bridge.W_ch": (c, width), "bridge.b_h": (width,)}
        self.shapes = {
            **(self.encoder.shapes if self.encoder else {}),
            **(bridge if self.bridged else {}),
            **decoder.shapes,
            **(self.attention.shapes if self.attention else {}),
            "head.W_hy": (decoder.width, outputs),
            "head.b_y": (outputs,),
        }

    def _layers(self) -> str:
        source = f"condition of {self.conditions}" if self.encoder is None else f"encoder: {self.encoder}"
        attention = f", {self.attention.kind} attention" if self.attention else ""
        return f"{source}; decoder: {self.decoder}{attention}"

    def initial(
        self, rng: np.random.Generator, *, recurrent: str, gain: float, dtype: FloatType, token_scale: float = 0.1,
        forget_bias: float = 1.0,
    ) -> Parameters:  # fmt: skip
        p = Parameters(self.shapes, dtype)
        if self.encoder is not None:
            self.encoder.fill(p, rng, recurrent=recurrent, gain=gain, token_scale=token_scale, forget_bias=forget_bias)
        if self.bridged:
            shape = self.shapes["bridge.W_ch"]
            p["bridge.W_ch"][...] = (
                normal(rng, shape, gain=0.3, dtype=dtype) if self.encoder is None else glorot(rng, shape, dtype=dtype)
            )
        self.decoder.fill(p, rng, recurrent=recurrent, gain=gain, token_scale=token_scale, forget_bias=forget_bias)
        if self.attention is not None:
            self.attention.fill(p, rng)
        p["head.W_hy"][...] = glorot(rng, self.shapes["head.W_hy"], dtype=dtype)
        return p

    def pack(self, p: Parameters, packed: PackedNetwork | None = None) -> PackedNetwork:
        ready = super().pack(p, packed)
        return ready if self.attention is None else ready._replace(attention=self.attention.pack(p, ready.attention))

    @cached_property
    def tables(self) -> list[str]:
        """As in Network, without those of a decoder with attention: its backward pass does not take `tables`."""
        return [
            name
            for stack in self.stacks
            if not self.attention or stack is self.encoder
            for name in stack.large_tables()
        ]

    def loss_count(self, batch: Batch) -> float:
        assert batch.y_lengths is not None
        weights = np.ones(len(batch.y_lengths)) if batch.weights is None else batch.weights
        return float(weights @ (batch.y_lengths + 1))  # one more per row: the end is predicted too

    def check(self, batch: Batch) -> None:
        tokens = batch.x.ndim == (1 if self.encoder is None else 2)
        check_inputs(batch.x, self.encoder.inputs if self.encoder else self.conditions, tokens=tokens)
        check_ids("y", batch.y, self.outputs)

    def masks(self, draw: Draw, batch: Batch, rows: Array, dtype: FloatType) -> tuple[Masks, ...]:
        masks, steps = [], [len(batch.x)] * (len(self.stacks) - 1) + [len(batch.y) + 1]
        for stack, T in zip(self.stacks, steps, strict=True):
            keys = draw.keys(stack.prefix, stack.mask_count)
            # the encoder has no head, so its head mask is never used; pooled draws it for one step instead of T
            masks.append(stack.masks(draw.dropout, keys, T, rows, dtype, pooled=stack is not self.decoder))
        return tuple(masks)

    # -- the initial state --------------------------------------------------------------------------------------------

    def initial_state(
        self,
        packed: PackedNetwork,
        x: Array,
        lengths: Array | None = None,
        masks: Masks = NO_MASKS,
        work: Workspace | None = None,
    ) -> InitialState:
        """The decoder's initial state, from x: source sequences or conditions."""
        p, c, trace = packed.p, x, None
        if self.encoder is not None:
            trace = self.encoder.forward(packed.stacks[0], p, x, lengths=lengths, masks=masks, work=work)
            if not self.bridged:
                return InitialState(trace.final, trace, c)
            c = trace.final.transpose(2, 0, 1, 3).reshape(trace.final.shape[2], -1)  # (B, L·D·P·H)
        # s0 = c @ W_ch + b_h
        if c.ndim == 1:
            s = embedding_forward(c[np.newaxis], p["bridge.W_ch"])[0] + p["bridge.b_h"]  # (B, L·P·H)
        else:
            s = output_forward(c.astype(p.buffer.dtype), p["bridge.W_ch"], p["bridge.b_h"])  # (B, L·P·H)
        shape = len(s), self.decoder.layers, self.decoder.cell.parts, self.decoder.hidden
        return InitialState(np.ascontiguousarray(s.reshape(shape).transpose(1, 2, 0, 3)), trace, c)

    def begin(self, packed: PackedNetwork, x: Array, lengths: Array | None = None) -> DecoderState:
        """The DecoderState before the first token."""
        initial = self.initial_state(packed, x, lengths)
        if self.attention is None or initial.trace is None:
            return DecoderState(initial.state)
        memory = self.attention.memory(packed.p, initial.trace.outputs, lengths)
        h_tilde = np.zeros((1, *initial.state.shape[2:]), initial.state.dtype)
        return DecoderState(initial.state, (*memory, h_tilde))

    def next_logits(self, packed: PackedNetwork, ids: Array, state: DecoderState) -> tuple[Array, DecoderState]:
        if self.attention is None:
            return super().next_logits(packed, ids, state)
        *memory, h_tilde = state.memory
        trace = self._attend(packed, ids[np.newaxis], state.state, Memory(*memory), h_tilde[0])
        return packed.output.forward(trace.outputs[0]), DecoderState(trace.final, (*memory, trace.outputs))

    def attention_weights(self, packed: PackedNetwork, x: Array, lengths: Array | None, y: Array) -> Array:
        """alpha (S+1, T, B): the attention weights at the prediction of each token of y (S, B), and of the end."""
        assert self.attention is not None
        initial = self.initial_state(packed, x, lengths)
        assert initial.trace is not None
        memory = self.attention.memory(packed.p, initial.trace.outputs, lengths)
        ids = np.concatenate([np.full((1, y.shape[1]), self.edge), y])
        return self._attend(packed, ids, initial.state, memory).alpha

    def _attend(
        self,
        packed: PackedNetwork,
        ids: Array,
        state: Array,
        memory: Memory,
        h_tilde: Array | None = None,
        **options: Any,
    ) -> AttentionTrace:
        """The forward pass of the decoder with attention over ids (S, B)."""
        assert self.attention is not None
        return self.attention.forward(
            packed.attention, packed.stacks[-1], packed.p, ids, state, memory, h_tilde, **options
        )  # fmt: skip

    def _initial_state_backward(
        self,
        packed: PackedNetwork,
        d_state: Array,  # (L, P, B, H)
        initial: InitialState,
        gradients: Parameters,
        lengths: Array | None,
        masks: Masks,
        work: Workspace | None,
        tables: Tables,
        d_outputs: Array | None = None,  # (T, B, D·H), the gradient on the encoder's outputs
    ) -> None:
        """Write the gradients of the bridge and the encoder, from that on the decoder's initial state."""
        p, d_final = packed.p, d_state
        if self.bridged:
            d_s = d_state.transpose(2, 0, 1, 3).reshape(d_state.shape[2], -1)  # (B, L·P·H)
            d_W, d_b = gradients["bridge.W_ch"], gradients["bridge.b_h"]
            d_W[...], d_b[...] = 0, 0
            if initial.c.ndim == 1:
                embedding_backward(d_s[np.newaxis], initial.c[np.newaxis], p["bridge.W_ch"], out=d_W)
                d_b[...] = d_s.sum(axis=0)
                return
            d_c = np.zeros(initial.c.shape, p.buffer.dtype)
            output_backward(d_s, initial.c.astype(p.buffer.dtype), p["bridge.W_ch"], out=OutputGradients(d_W, d_b, d_c))
            if self.encoder is None:
                return
            shape = len(d_c), len(self.encoder.names), self.encoder.cell.parts, self.encoder.hidden
            d_final = np.ascontiguousarray(d_c.reshape(shape).transpose(1, 2, 0, 3))
        if self.encoder is not None and initial.trace is not None:
            if d_outputs is None:
                d_outputs = np.zeros(initial.trace.outputs.shape, p.buffer.dtype)
            self.encoder.backward(
                packed.stacks[0], p, initial.trace, d_outputs, gradients, d_final=d_final, lengths=lengths,
                masks=masks, initial=False, work=work, tables=tables,
            )  # fmt: skip

    # -- training -----------------------------------------------------------------------------------------------------

    def slice_loss(
        self,
        packed: PackedNetwork,
        batch: Batch,
        normalizer: float,
        gradients: Parameters,
        *,
        masks: tuple[Masks, ...],
        truncation: Truncation | None = None,  # not used
        work: Workspace | None = None,
        tables: Tables = NO_TABLES,
    ) -> float:
        p, mask, d_memory = packed.p, masks[-1], None
        inputs, targets, lengths, weights = self._inputs_and_targets(batch, p.buffer.dtype)
        initial = self.initial_state(packed, batch.x, batch.x_lengths, masks[0], work)
        options: dict[str, Any] = {"lengths": lengths, "masks": mask, "work": work}
        if self.attention is not None and initial.trace is not None:
            memory = self.attention.memory(p, initial.trace.outputs, batch.x_lengths)
            attended = self._attend(packed, inputs, initial.state, memory, **options)
            loss, d_h = self.head_loss(packed, attended.outputs, targets, weights, normalizer, gradients, work=work)
            d_state, d_memory = self.attention.backward(
                packed.attention, p, attended, memory, d_h, gradients, masks=mask, work=work
            )
        else:
            trace = self.decoder.forward(packed.stacks[-1], p, inputs, initial.state, **options)
            loss, d_h = self.head_loss(
                packed, trace.outputs, targets, weights, normalizer, gradients, mask=mask.head, work=work
            )
            _, d_state = self.decoder.backward(packed.stacks[-1], p, trace, d_h, gradients, tables=tables, **options)
        self._initial_state_backward(
            packed, d_state, initial, gradients, batch.x_lengths, masks[0], work, tables, d_memory
        )
        return loss

    def forward(self, packed: PackedNetwork, batch: Batch) -> tuple[Array, Array, Array | None]:
        inputs, targets, lengths, weights = self._inputs_and_targets(batch, packed.p.buffer.dtype)
        initial, p = self.initial_state(packed, batch.x, batch.x_lengths), packed.p
        if self.attention is not None and initial.trace is not None:
            memory = self.attention.memory(p, initial.trace.outputs, batch.x_lengths)
            h = self._attend(packed, inputs, initial.state, memory, lengths=lengths).outputs
        else:
            h = self.decoder.forward(packed.stacks[-1], p, inputs, initial.state, lengths=lengths).outputs
        return packed.output.forward(h), targets, weights

    def _inputs_and_targets(self, batch: Batch, dtype: FloatType) -> tuple[Array, Array, Array, Array]:
        """The decoder's inputs and targets (S+1, B), the steps of each row (B,), and the targets' weights (S+1, B).

        Inputs are the edge token, then y; targets are y, then the edge token.
        """
        assert batch.y_lengths is not None
        (S, B), lengths = batch.y.shape, batch.y_lengths
        inputs, targets = np.full((2, S + 1, B), self.edge, np.int64)
        inputs[1:] = batch.y
        targets[:-1] = batch.y
        targets[lengths, np.arange(B)] = self.edge
        weights = np.ones(B) if batch.weights is None else batch.weights
        return inputs, targets, lengths + 1, step_weights(weights, lengths + 1, S + 1, dtype)
