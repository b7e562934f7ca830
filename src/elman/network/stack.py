"""A stack of recurrent layers: one direction or two, token ids or dense inputs, any cell, rows of any length.

The parameters of a layer are `layers.0.W_xh` …, those of the reverse direction `layers.0.reverse.W_xh` …, a learned
initial state `layers.0.h0`, an embedding `embedding.W`. The state of a stack is one array (L·D, P, B, H): layers times
directions, state parts, rows, units.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from elman.errors import RangeError
from elman.kernels import (
    Layer,
    TokenGradient,
    Workspace,
    dropout_mask,
    embedding_forward,
    make_layer,
    token_gradient,
)
from elman.maths.arrays import Array, FloatType
from elman.maths.cells import Cell, make_cell
from elman.maths.initializers import INITIALIZERS, glorot, normal
from elman.maths.recurrence import CellTrace
from elman.maths.truncation import Blocks, Truncation, cut_blocks
from elman.network.parameters import Parameters

Packed = Sequence[Layer]  # the layers of a stack, with packed weights
Tables = Mapping[str, list[TokenGradient]]  # by the name of a parameter that has one row per token
NO_TABLES: Tables = {}
LARGE = 1 << 16  # elements; of a table (one row per token) this large, only rows of tokens in the batch are added up


class Dropout(NamedTuple):
    """Dropout probabilities."""

    inputs: float = 0.0  # of what enters the first layer
    layers: float = 0.0  # of what leaves a layer
    states: float = 0.0  # of the state that enters W_hh, the same units at all steps


@dataclass(frozen=True)
class Masks:
    """The dropout masks of one pass, with entries 0 or 1 / (1 - dropout)."""

    inputs: Array | None = None  # (T, B, X), what enters the first layer
    layers: tuple[Array, ...] | None = None  # (T, B, D·H), what goes from each layer to the next
    states: tuple[Array, ...] | None = None  # (B, H) for each layer and direction
    head: Array | None = None  # (B, D·H) or (T, B, D·H), what enters the output layer

    def blocks(self, blocks: Blocks) -> Masks:
        """The masks of the blocks of a truncated backward pass."""
        return Masks(
            None if self.inputs is None else blocks.inputs(self.inputs),
            None if self.layers is None else tuple(map(blocks.inputs, self.layers)),
            None if self.states is None else tuple(mask[blocks.rows] for mask in self.states),
        )


NO_MASKS = Masks()


class StackTrace(NamedTuple):
    """What a forward pass keeps for the backward pass."""

    ids: Array | None  # (T, B)
    inputs: list[Array]  # the input of each layer after dropout, then the output of the last layer, (T, B, D·H)
    traces: list[CellTrace]  # of each layer and direction
    final: Array  # (L·D, P, B, H), the final state; of the reverse direction that after step 0

    @property
    def outputs(self) -> Array:
        """The output of the last layer, (T, B, D·H)."""
        return self.inputs[-1]


class Stack:
    """The shapes of the parameters, and the forward and backward pass; the parameters themselves are arguments."""

    def __init__(
        self,
        inputs: int,  # size of the vocabulary, or numbers per step
        hidden: int,
        layers: int = 1,
        *,
        cell: Cell | str = "rnn",
        bidirectional: bool = False,
        embedding: int = 0,  # size of a token's vector; 0: tokens are one-hot
        learned_state: bool = False,  # whether the initial state is a parameter; otherwise it is 0
        prefix: str = "",  # of the names of the parameters
        tokens: bool = True,  # whether inputs are token ids
    ) -> None:
        self.cell = make_cell(cell) if isinstance(cell, str) else cell
        self.inputs, self.hidden, self.layers, self.tokens = inputs, hidden, layers, tokens
        self.embedding, self.learned_state, self.prefix = embedding, learned_state, prefix
        self.directions = (False, True) if bidirectional else (False,)
        self.width = hidden * len(self.directions)  # of an output
        self.names = [
            f"{prefix}layers.{layer}{'.reverse' if reverse else ''}"
            for layer in range(layers)
            for reverse in self.directions
        ]
        self.shapes: dict[str, tuple[int, ...]] = {}
        if embedding:
            self.shapes[f"{prefix}embedding.W"] = (inputs, embedding)
        self.input_sizes = [  # of each layer and direction
            self.width if number >= len(self.directions) else embedding or inputs for number in range(len(self.names))
        ]
        for name, size in zip(self.names, self.input_sizes, strict=True):
            for short, shape in self.cell.shapes(size, hidden).items():
                self.shapes[f"{name}.{short}"] = shape
            if learned_state:
                self.shapes |= {f"{name}.{part}0": (hidden,) for part in self.cell.state_names}

    def __repr__(self) -> str:
        activation = self.cell.activation if self.cell.name == "rnn" else None
        units = activation if isinstance(activation, str) else self.cell.name.upper()
        inputs = f"{self.inputs:,} {'token' if self.tokens else 'number'}{'s' * (self.inputs > 1)}"
        embedding = f" → embedding of {self.embedding}" if self.embedding else ""
        both = ", two directions" if len(self.directions) > 1 else ""
        return (
            f"{inputs}{embedding} → {self.layers} layer{'s' * (self.layers > 1)} of {self.hidden} {units} units{both}"
        )

    def fill(
        self, p: Parameters, rng: np.random.Generator, *, recurrent: str, gain: float, token_scale: float = 0.1,
        forget_bias: float = 1.0,
    ) -> None:  # fmt: skip
        """Draw the initial parameters.

        W_hh comes from the initializer `recurrent` with this gain, gate by gate. Token vectors, which are the rows of
        an embedding or of the W_xh of token ids, are normal with the standard deviation token_scale. Other weights are
        Glorot; biases, except that of a forget gate, and learned initial states are 0.

        Token vectors start small: large ones saturate tanh, and most words occur too rarely to be corrected by
        training.
        """
        H, dtype = self.hidden, p.buffer.dtype
        first = self.names[: len(self.directions)]
        for name in self.names:
            p[f"{name}.b_h"][...] = self.cell.initial_bias(H, forget_bias=forget_bias)
        for name in self.shapes:
            prefix, _, short = name.rpartition(".")
            blocks = np.split(p[name], self.cell.gates, axis=-1) if short in ("W_xh", "W_hh") else [p[name]]
            for block in blocks:
                if short == "W_hh":
                    block[...] = INITIALIZERS[recurrent](rng, (H, H), gain=gain, dtype=dtype)
                elif short == "W" or (short == "W_xh" and prefix in first and self.tokens and not self.embedding):
                    block[...] = normal(rng, block.shape, gain=token_scale, dtype=dtype)
                elif short == "W_xh":
                    block[...] = glorot(rng, block.shape, dtype=dtype)

    def large_tables(self) -> list[str]:
        """Names of the parameters that have one row per token and at least LARGE elements."""
        if not self.tokens:
            return []
        first = [f"{name}.W_xh" for name in self.names[: len(self.directions)]]
        names = [f"{self.prefix}embedding.W"] if self.embedding else first
        return [name for name in names if math.prod(self.shapes[name]) >= LARGE]

    @property
    def mask_count(self) -> int:
        """The number of keys that masks() needs."""
        return 1 + self.layers + len(self.names)

    def zero_state(self, B: int, dtype: FloatType) -> Array:
        """The initial state of zeros, (L·D, P, B, H)."""
        return np.zeros((len(self.names), self.cell.parts, B, self.hidden), dtype)

    def pack(self, p: Parameters, packed: Packed | None = None) -> Packed:
        """Pack the parameters, into `packed` if given; they must not change until the last pass with the result."""
        if packed is None:
            packed = [make_layer(self.cell, size, self.hidden, p.buffer.dtype) for size in self.input_sizes]
        for layer, name in zip(packed, self.names, strict=True):
            layer.pack(p.part(name))
        return packed

    def masks(
        self, dropout: Dropout, keys: Sequence[int], T: int, rows: Array, dtype: FloatType, *, pooled: bool
    ) -> Masks:
        """The dropout masks of these rows of a batch, given by their indices.

        keys: of the inputs, of the head, of each layer but the last, and of the state of each layer and direction.
        pooled: whether the head gets one vector per row instead of one per step.
        """
        dense = self.embedding or (0 if self.tokens else self.inputs)

        def draw(key: int, probability: float, steps: int, width: int) -> Array:
            return dropout_mask(keys[key], probability, steps, rows, width, dtype)

        layers, states = range(self.layers - 1), range(len(self.names))
        head = draw(1, dropout.layers, 1 if pooled else T, self.width) if dropout.layers else None
        return Masks(
            draw(0, dropout.inputs, T, dense) if dropout.inputs and dense else None,
            tuple(draw(2 + i, dropout.layers, T, self.width) for i in layers) if dropout.layers else None,
            tuple(draw(1 + self.layers + i, dropout.states, 1, self.hidden)[0] for i in states)
            if dropout.states
            else None,
            head[0] if head is not None and pooled else head,
        )

    def forward(
        self,
        packed: Packed,
        p: Parameters,
        x: Array,  # (T, B) ids or (T, B, X)
        state: Array | None = None,  # (L·D, P, B, H), the initial state; learned or 0 unless given
        *,
        lengths: Array | None = None,
        masks: Masks = NO_MASKS,
        work: Workspace | None = None,
    ) -> StackTrace:
        """The states and outputs of all steps."""
        B, D = x.shape[1], len(self.directions)
        first_input = x
        if self.embedding:
            first_input = embedding_forward(x, p[f"{self.prefix}embedding.W"])
        if masks.inputs is not None and first_input.ndim == 3:
            first_input = first_input * masks.inputs
        inputs, traces = [first_input], []
        for number, (layer, name) in enumerate(zip(packed, self.names, strict=True)):
            initial = self._learned_state(p, name, B) if state is None else state[number]
            traces.append(
                layer.forward(
                    inputs[-1], initial, lengths=lengths, reverse=self.directions[number % D], work=work,
                    h_mask=None if masks.states is None else masks.states[number],
                )
            )  # fmt: skip
            if (number + 1) % D:
                continue
            h = [trace.s[0, 1:] for trace in traces[-D:]]  # of each direction
            output = h[0] if D == 1 else np.concatenate(h, axis=2)  # (T, B, D·H)
            depth = number // D  # of this layer
            if masks.layers is not None and depth < self.layers - 1:
                output = output * masks.layers[depth]
            inputs.append(output)
        last = [trace.s[:, 1 if self.directions[number % D] else -1] for number, trace in enumerate(traces)]
        final = last[0][np.newaxis] if len(last) == 1 else np.stack(last)
        return StackTrace(x if x.ndim == 2 else None, inputs, traces, final)

    def backward(
        self,
        packed: Packed,
        p: Parameters,
        trace: StackTrace,
        d_outputs: Array,  # (T, B, D·H), overwritten
        gradients: Parameters,  # those of this stack are overwritten
        *,
        d_final: Array | None = None,  # (L·D, P, B, H)
        lengths: Array | None = None,
        masks: Masks = NO_MASKS,
        truncation: Truncation | None = None,
        initial: bool = True,  # whether the gradient on the initial state is wanted
        work: Workspace | None = None,
        tables: Tables = NO_TABLES,
    ) -> tuple[Array | None, Array]:
        """d_x (None for ids) and the gradient on the initial state, (L·D, P, B, H).

        Without `initial` and a learned initial state the latter is empty. With truncation d_x is that of the blocks.
        The parts of the gradient of a parameter in `tables` are appended to the list there; do not use its entry in
        `gradients`.
        """
        d, D, B = d_outputs, len(self.directions), d_outputs.shape[1]
        initial = initial or self.learned_state
        blocks = None
        if truncation is not None and truncation.k2 < len(d):
            if D > 1:
                raise RangeError("k2", expected=f"{len(d)} or more for two directions", got=truncation.k2)
            # each block of each row becomes a row of its own, in every layer: truncation cuts through the whole stack
            blocks, work = cut_blocks(len(d), B, lengths, *truncation), None
            trace, d, lengths, masks = _in_blocks(blocks, trace), blocks.direct(d), blocks.lengths, masks.blocks(blocks)
        d_state = self.zero_state(B, d.dtype) if initial else _EMPTY_STATE
        d_x: Array | None = d
        for layer in reversed(range(self.layers)):
            if masks.layers is not None and layer < self.layers - 1:
                d *= masks.layers[layer]
            x = trace.inputs[layer]
            d_x = None if x.ndim == 2 else scratch(work, f"{self.prefix}d_x{layer % 2}", x.shape, d.dtype)
            for side, reverse in enumerate(self.directions):
                number = layer * D + side
                d_side = d if D == 1 else np.ascontiguousarray(d[:, :, side * self.hidden : (side + 1) * self.hidden])
                d_s0 = packed[number].backward(
                    d_side, trace.traces[number], x, gradients.part(self.names[number]),
                    d_s_last=None if d_final is None else d_final[number], d_x=d_x, add_x=side > 0,
                    initial=initial, lengths=lengths, reverse=reverse, work=work,
                    h_mask=None if masks.states is None else masks.states[number],
                    tokens=tables.get(f"{self.names[number]}.W_xh") if tables else None,
                )  # fmt: skip
                if initial and blocks is not None:
                    blocks.add_initial(d_s0, d_state[number])
                elif initial:
                    d_state[number] = d_s0
                self._learned_state_gradient(d_state, number, gradients)
            d = d if d_x is None else d_x
        if d_x is not None and masks.inputs is not None:
            d_x *= masks.inputs
        if self.embedding and d_x is not None and trace.ids is not None:
            name, part = f"{self.prefix}embedding.W", TokenGradient(trace.ids, d_x)
            if name in tables:
                tables[name].append(part)
            else:
                token_gradient([part], gradients[name])
            d_x = None
        return d_x, d_state

    def _learned_state_gradient(self, d_state: Array, number: int, gradients: Parameters) -> None:
        """Write the gradient of the learned initial state of a layer and direction."""
        if self.learned_state:
            for part, short in enumerate(self.cell.state_names):
                gradients.part(self.names[number])[f"{short}0"][...] = d_state[number, part].sum(axis=0)

    def _learned_state(self, p: Parameters, name: str, B: int) -> Array | None:
        """The learned initial state (P, B, H) of a layer and direction; None: it is 0."""
        if not self.learned_state:
            return None
        parts = [p.part(name)[f"{short}0"] for short in self.cell.state_names]
        return np.stack([np.broadcast_to(part, (B, self.hidden)) for part in parts])


_EMPTY_STATE = np.empty((0, 0, 0, 0))


def _in_blocks(blocks: Blocks, trace: StackTrace) -> StackTrace:
    """The trace with each block of each row as a row of its own."""
    ids = None if trace.ids is None else blocks.inputs(trace.ids)
    return StackTrace(
        ids, list(map(blocks.inputs, trace.inputs[:-1])), list(map(blocks.trace, trace.traces)), trace.final
    )


def scratch(work: Workspace | None, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An array to write into: part of the workspace, or new."""
    return np.empty(shape, dtype) if work is None else work.array(name, *shape)


def check_ids(name: str, ids: Array, limit: int) -> None:
    """Raise RangeError for an id out of range: compiled code does not check ids and would access other memory."""
    if not ids.size:
        return
    # negative ids viewed as unsigned numbers are the largest: one pass instead of two
    if ids.dtype == np.int64:
        in_range = np.maximum.reduce(ids.view(np.uint64), axis=None) < limit
    else:
        in_range = ids.min() >= 0 and ids.max() < limit
    if not in_range:
        raise RangeError(name, expected=f"ids from 0 to {limit - 1}", got=f"{ids.min()} to {ids.max()}")


def check_inputs(x: Array, size: int, *, tokens: bool) -> None:
    """Raise RangeError unless x has ids below `size`, or vectors of `size` numbers."""
    if tokens:
        check_ids("x", x, size)
    elif x.shape[-1] != size:
        raise RangeError("x", expected=f"vectors of {size} numbers", got=x.shape[-1])
