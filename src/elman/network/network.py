"""Networks: a recurrent stack with an output layer at every step, or once for a whole sequence.

A language model has an output at every step and a state that is carried from window to window; a tagger has an output
at every step of whole sequences; a classifier or regressor has one output, for the pooled states of all steps.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple

import numpy as np

from elman.kernels import (
    ReferenceOutput,
    Workspace,
    add_up,
    cross_entropy,
    make_output,
    max_backward,
    max_forward,
    mean_backward,
    mean_forward,
    mean_squared_error,
    token_gradient,
)
from elman.kernels.threads import Turn, run
from elman.maths.activations import ActivationLike
from elman.maths.arrays import Array, FloatType
from elman.maths.cells import make_cell
from elman.maths.initializers import glorot
from elman.maths.pooling import Pooled
from elman.maths.truncation import Truncation
from elman.network.batch import Batch, Rows, step_weights
from elman.network.parameters import Parameters
from elman.network.stack import (
    NO_MASKS,
    NO_TABLES,
    Dropout,
    Masks,
    Packed,
    Stack,
    StackTrace,
    Tables,
    check_ids,
    check_inputs,
    scratch,
)

Pooling = Literal["last", "mean", "max", "none"]  # none: an output at every step
LOSSES: dict[str, Callable[..., tuple[float, Array]]] = {
    "cross_entropy": cross_entropy,
    "squared": mean_squared_error,
}


class Draw(NamedTuple):
    """The dropout of one batch. Its masks depend on these values and a row's index, not on how the batch is split."""

    dropout: Dropout
    seed: int
    step: int  # the number of the batch: with gradient accumulation a training step has several

    def keys(self, name: str, count: int) -> list[int]:
        """`count` random keys for the masks of the stack with the prefix `name`."""
        text = f"{self.seed} {self.step} {name}"
        digest = hashlib.shake_128(text.encode()).digest(8 * count)
        return [int.from_bytes(digest[8 * i : 8 * i + 8], "little") for i in range(count)]


class PackedNetwork(NamedTuple):
    """Weights in the layout that the kernels read, packed once for any number of passes."""

    p: Parameters
    stacks: tuple[Packed, ...]
    output: ReferenceOutput
    attention: Any = None  # PackedAttention; None without attention


class DecoderState(NamedTuple):
    """Everything that the next token depends on, except the last token."""

    state: Array  # (L, P, B, H)
    memory: tuple[Array, ...] = ()  # of attention: keys, values, lengths and h_tilde; axis 1 of each has the rows

    def take(self, rows: Rows) -> DecoderState:
        """The state of these rows; beam search takes some of them more than once."""
        return DecoderState(self.state[:, :, rows], tuple(part[:, rows] for part in self.memory))

    @staticmethod
    def join(states: Sequence[DecoderState]) -> DecoderState:
        """The rows of several states, one after another."""
        memories = zip(*(one.memory for one in states), strict=True)
        return DecoderState(
            np.concatenate([one.state for one in states], axis=2),
            tuple(np.concatenate(parts, axis=1) for parts in memories),
        )


class Network(ABC):
    """The shapes of the parameters, and the forward and backward pass; the parameters themselves are arguments."""

    shapes: dict[str, tuple[int, ...]]
    stacks: tuple[Stack, ...]  # the last one feeds the output layer
    outputs: int  # Y, the number of logits or of predicted numbers
    loss_name: str = "cross_entropy"

    def __init__(self) -> None:
        self._buffers: dict[np.dtype[Any], _Buffers] = {}
        self._turn = Turn()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_buffers": {}}  # allocated again when needed

    def __repr__(self) -> str:
        size = sum(map(math.prod, self.shapes.values()))
        outputs = f"{self.outputs:,} output{'s' * (self.outputs > 1)}"
        return f"{type(self).__name__}({self._layers()} → {outputs}; {size:,} parameters)"

    @abstractmethod
    def _layers(self) -> str:
        """What is between the input and the outputs, in words."""

    def initial(
        self, rng: np.random.Generator, *, recurrent: str, gain: float, dtype: FloatType, token_scale: float = 0.1,
        forget_bias: float = 1.0,
    ) -> Parameters:  # fmt: skip
        """Initial parameters: those of the stacks as in Stack.fill, W_hy Glorot, b_y 0."""
        p = Parameters(self.shapes, dtype)
        for stack in self.stacks:
            stack.fill(p, rng, recurrent=recurrent, gain=gain, token_scale=token_scale, forget_bias=forget_bias)
        p["head.W_hy"][...] = glorot(rng, self.shapes["head.W_hy"], dtype=dtype)
        return p

    def pack(self, p: Parameters, packed: PackedNetwork | None = None) -> PackedNetwork:
        """Pack the parameters, into `packed` if given; they must not change until the last pass with the result."""
        if packed is None:
            output = make_output(self.stacks[-1].width, self.outputs, p.buffer.dtype)
            packed = PackedNetwork(p, tuple(stack.pack(p) for stack in self.stacks), output)
        else:
            for stack, layers in zip(self.stacks, packed.stacks, strict=True):
                stack.pack(p, layers)
            packed = packed if packed.p is p else packed._replace(p=p)
        packed.output.pack(p.part("head"))
        return packed

    def next_logits(self, packed: PackedNetwork, ids: Array, state: DecoderState) -> tuple[Array, DecoderState]:
        """Logits (B, Y) of the token after ids (B,), and the state after ids."""
        trace = self.stacks[-1].forward(packed.stacks[-1], packed.p, ids[np.newaxis], state.state)
        return packed.output.forward(trace.outputs[0]), state._replace(state=trace.final)

    @abstractmethod
    def loss_count(self, batch: Batch) -> float:
        """The sum of the weights of all losses of a batch; without weights, their number."""

    @abstractmethod
    def check(self, batch: Batch) -> None:
        """Raise RangeError for ids out of range, with which a kernel would read other memory, or x of another width."""

    @abstractmethod
    def masks(self, draw: Draw, batch: Batch, rows: Array, dtype: FloatType) -> tuple[Masks, ...]:
        """The dropout masks of a slice for each stack; `rows`: indices of its rows within the batch of all ranks."""

    @abstractmethod
    def slice_loss(
        self,
        packed: PackedNetwork,
        batch: Batch,
        normalizer: float,
        gradients: Parameters,  # overwritten
        *,
        masks: tuple[Masks, ...],
        truncation: Truncation | None = None,
        work: Workspace | None = None,
        tables: Tables = NO_TABLES,  # as in Stack.backward
    ) -> float:
        """The loss of the rows of a slice, given as a batch; their gradients are written to `gradients`."""

    @abstractmethod
    def forward(self, packed: PackedNetwork, batch: Batch) -> tuple[Array, Array, Array | None]:
        """Outputs (…, Y) without dropout, their targets, and the weight (…) of each loss; None: all 1."""

    def loss_and_gradients(
        self,
        p: Parameters,
        batch: Batch,
        gradients: Parameters,
        *,
        normalizer: float,
        draw: Draw | None = None,
        truncation: Truncation | None = None,
        add: bool = False,  # add to the values in `gradients` instead of overwriting them
    ) -> float:
        """The loss of a batch; writes its gradients to `gradients`, and the state after it to batch.state."""
        self.check(batch)
        dtype = p.buffer.dtype
        with self._turn.lock:
            buffers = self._buffers.get(dtype) or self._buffers.setdefault(dtype, _Buffers())
            packed = buffers.packed = self.pack(p, buffers.packed)
            jobs, parts, tables = [], [], []
            for number, rows in enumerate(batch.slices()):
                work = buffers.workspace(number, dtype)
                part = gradients if number == 0 and not add else buffers.gradients(number, p)
                parts.append(part)
                tables.append({name: [] for name in self.tables} if self.tables else NO_TABLES)
                job = partial(self._slice, packed, batch, rows, normalizer, part, draw, truncation, work, tables[-1])
                jobs.append(job)
            losses = run(jobs)
            self._add_up(gradients, [part for part in parts if part is not gradients], tables, add)
        return sum(losses)

    @cached_property
    def tables(self) -> list[str]:
        """Names of the large parameters with one row per token: only the rows of tokens that occur are added up."""
        return [name for stack in self.stacks for name in stack.large_tables()]

    def _add_up(self, gradients: Parameters, parts: list[Parameters], tables: list[Tables], add: bool) -> None:
        """Add up the gradients of all slices, in the order of the slices."""
        start = 0
        for name in [*self.tables, None] if parts else []:  # what lies before each table, and after the last
            stop = gradients.buffer.size if name is None else gradients.offsets[name]
            if stop > start:
                add_up(gradients.buffer[start:stop], [part.buffer[start:stop] for part in parts])
            start = stop if name is None else stop + gradients[name].size
        if self.tables:
            rows = {name: [part for table in tables for part in table[name]] for name in self.tables}
            run([partial(token_gradient, rows[name], gradients[name], add=add) for name in self.tables])

    def head_loss(
        self,
        packed: PackedNetwork,
        h: Array,  # (…, H)
        y: Array,  # (…) ids, or (…, Y)
        weights: Array | None,  # (…)
        normalizer: float,
        gradients: Parameters,  # those of the output layer are overwritten
        *,
        mask: Array | None = None,  # dropout of h
        work: Workspace | None = None,
    ) -> tuple[float, Array]:
        """The loss of the output layer, and d_h (…, H). If y are ids, rows of weight 0 (padding) are skipped."""
        d, shape = gradients.part("head"), h.shape
        if mask is not None:
            h = h * mask
        counted = None
        if weights is not None and y.shape == weights.shape and not weights.all():
            counted = np.flatnonzero(weights)
            h, y, weights = h.reshape(-1, shape[-1])[counted], y.reshape(-1)[counted], weights.reshape(-1)[counted]
        loss, d_o = packed.output.loss(
            h, y, self.loss_name, weights=weights, normalizer=normalizer, d_b_y=d["b_y"], work=work
        )
        d_h = scratch(work, "d_head", h.shape, h.dtype)
        packed.output.backward(d_o, h, d["W_hy"], d_h, work)
        if counted is not None:
            d_rows, d_h = d_h, scratch(work, "d_vector", shape, h.dtype)
            d_h[...] = 0
            d_h.reshape(-1, shape[-1])[counted] = d_rows
        if mask is not None:
            d_h *= mask
        return loss, d_h

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")  # divergence is seen in the loss, not in warnings
    def _slice(
        self,
        packed: PackedNetwork,
        batch: Batch,
        rows: Rows,
        normalizer: float,
        gradients: Parameters,
        draw: Draw | None,
        truncation: Truncation | None,
        work: Workspace,
        tables: Tables,
    ) -> float:
        """The loss of some rows of a batch, with the dropout masks of these rows."""
        part, masks = batch.take(rows), (NO_MASKS,) * len(self.stacks)
        if draw is not None and any(draw.dropout):
            indices = batch.first + np.arange(batch.rows)[rows]
            masks = self.masks(draw, part, indices, packed.p.buffer.dtype)
        loss = self.slice_loss(
            packed, part, normalizer, gradients, masks=masks, truncation=truncation, work=work, tables=tables
        )
        if batch.state is not None and part.state is not None:
            batch.state[:, :, rows] = part.state  # rows that are picked by their indices are a copy
        return loss

    def evaluate(self, packed: PackedNetwork, batch: Batch) -> tuple[float, int]:
        """The sum of the weighted losses without dropout, and the number of correct ids, without weights."""
        self.check(batch)
        found = run([partial(self._evaluate, packed, batch.take(rows)) for rows in batch.slices()])
        return sum(loss for loss, _ in found), sum(correct for _, correct in found)

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def _evaluate(self, packed: PackedNetwork, batch: Batch) -> tuple[float, int]:
        o, y, weights = self.forward(packed, batch)
        correct = 0
        if self.loss_name == "cross_entropy":
            counted = True if batch.y_lengths is None else np.arange(len(o))[:, np.newaxis] < batch.y_lengths
            correct = int(((o.argmax(axis=-1) == y) & counted).sum())
        loss, _ = LOSSES[self.loss_name](o, y, weights=weights, normalizer=1.0, out=o)
        return loss, correct


class _Buffers:
    """Packed weights, and a workspace and gradients for each slice: allocated once per dtype, and grown as needed."""

    def __init__(self) -> None:
        self.packed: PackedNetwork | None = None
        self._work: dict[int, Workspace] = {}
        self._gradients: dict[int, Parameters] = {}

    def workspace(self, number: int, dtype: np.dtype[Any]) -> Workspace:
        if number not in self._work:
            self._work[number] = Workspace(dtype)
        return self._work[number]

    def gradients(self, number: int, p: Parameters) -> Parameters:
        if number not in self._gradients:
            self._gradients[number] = p.zeros()
        return self._gradients[number]


class HeadNetwork(Network):
    """A stack with an output layer, at every step or for the pooled states."""

    def __init__(
        self,
        stack: Stack,
        outputs: int,
        *,
        pooling: Pooling = "none",
        loss: str = "cross_entropy",
        end: int | None = None,  # of a language model: the token before and after each sequence; None: it reads a text
    ) -> None:
        super().__init__()
        self.end = end
        self.stack, self.outputs, self.pooling, self.loss_name = stack, outputs, pooling, loss
        self.stacks = (stack,)
        self.shapes = {**stack.shapes, "head.W_hy": (stack.width, outputs), "head.b_y": (outputs,)}

    def _layers(self) -> str:
        return repr(self.stack)

    def loss_count(self, batch: Batch) -> float:
        if self.pooling == "none" and batch.x_lengths is not None:
            weights = np.ones(len(batch.x_lengths)) if batch.weights is None else batch.weights
            if batch.y_weights is None:
                return float(weights @ batch.x_lengths)
            rows = step_weights(weights, batch.x_lengths, len(batch.y_weights), np.float64)  # (T, B)
            return float((rows * batch.y_weights).sum())
        if batch.weights is None:
            return float(batch.y.size)
        return float(batch.weights.sum()) * (self.outputs if self.loss_name == "squared" else 1)

    def check(self, batch: Batch) -> None:
        check_inputs(batch.x, self.stack.inputs, tokens=batch.x.ndim == 2)
        if self.loss_name == "cross_entropy":
            check_ids("y", batch.y, self.outputs)

    def masks(self, draw: Draw, batch: Batch, rows: Array, dtype: FloatType) -> tuple[Masks, ...]:
        keys, pooled = draw.keys("", self.stack.mask_count), self.pooling != "none"
        return (self.stack.masks(draw.dropout, keys, len(batch.x), rows, dtype, pooled=pooled),)

    def forward(self, packed: PackedNetwork, batch: Batch) -> tuple[Array, Array, Array | None]:
        o = self.outputs_of(packed, batch.x, batch.x_lengths)
        return o, batch.y, self._weights(batch, len(o), o.dtype)

    def outputs_of(self, packed: PackedNetwork, x: Array, lengths: Array | None = None) -> Array:
        """Logits, or the numbers of a regressor: (B, Y), or (T, B, Y) with an output at every step."""
        trace = self.stack.forward(packed.stacks[0], packed.p, x, lengths=lengths)
        return packed.output.forward(self._pool(trace, lengths).vector)

    def read(self, packed: PackedNetwork, x: Array, state: Array) -> tuple[Array, Array]:
        """Logits (T, B, Y) of every step of x (T, B), from the initial state (L, P, B, H), and the state after x."""
        check_ids("x", x, self.stack.inputs)
        trace = self.stack.forward(packed.stacks[0], packed.p, x, state)
        return packed.output.forward(trace.outputs), trace.final

    def slice_loss(
        self,
        packed: PackedNetwork,
        batch: Batch,
        normalizer: float,
        gradients: Parameters,
        *,
        masks: tuple[Masks, ...],
        truncation: Truncation | None = None,
        work: Workspace | None = None,
        tables: Tables = NO_TABLES,
    ) -> float:
        stack, p, lengths, mask = self.stack, packed.p, batch.x_lengths, masks[0]
        trace = stack.forward(packed.stacks[0], p, batch.x, batch.state, lengths=lengths, masks=mask, work=work)
        if batch.state is not None:
            batch.state[...] = trace.final
        pooled = self._pool(trace, lengths)
        weights = self._weights(batch, len(pooled.vector), p.buffer.dtype)
        loss, d_vector = self.head_loss(
            packed, pooled.vector, batch.y, weights, normalizer, gradients, mask=mask.head, work=work
        )
        d_outputs, d_final = self._pool_backward(d_vector, trace, lengths, pooled)
        stack.backward(
            packed.stacks[0], p, trace, d_outputs, gradients, d_final=d_final, lengths=lengths, masks=mask,
            truncation=truncation, initial=False, work=work, tables=tables,
        )  # fmt: skip
        return loss

    def _weights(self, batch: Batch, T: int, dtype: FloatType) -> Array | None:
        """The weight of each loss, (B,), or (T, B) with an output at every step; None: all 1."""
        weights = None if batch.weights is None else batch.weights.astype(dtype)
        if self.pooling == "none" and batch.x_lengths is not None:
            weights = np.ones(batch.rows) if weights is None else weights
            weights = step_weights(weights, batch.x_lengths, T, dtype)
            if batch.y_weights is not None:
                weights *= batch.y_weights.astype(dtype)
        return weights

    def _pool(self, trace: StackTrace, lengths: Array | None) -> Pooled:
        """The input of the output layer: (B, D·H), or (T, B, D·H) with an output at every step."""
        if self.pooling == "none":
            return Pooled(trace.outputs, None)
        if self.pooling == "mean":
            return mean_forward(trace.outputs, lengths)
        if self.pooling == "max":
            return max_forward(trace.outputs, lengths)
        return Pooled(np.concatenate(trace.final[-len(self.stack.directions) :, 0], axis=1), None)

    def _pool_backward(
        self, d_vector: Array, trace: StackTrace, lengths: Array | None, pooled: Pooled
    ) -> tuple[Array, Array | None]:
        """Gradients on the outputs of all steps and on the final state (None: 0), from that on the pooled vector."""
        T = len(trace.outputs)
        if self.pooling == "none":
            return d_vector, None
        if self.pooling == "mean":
            return mean_backward(d_vector, T, lengths), None
        if self.pooling == "max":
            assert pooled.places is not None
            return max_backward(d_vector, T, lengths, pooled.places), None
        d_final = np.zeros(trace.final.shape, d_vector.dtype)
        D = len(self.stack.directions)
        d_final[-D:, 0] = d_vector.reshape(-1, D, self.stack.hidden).swapaxes(0, 1)
        return np.zeros(trace.outputs.shape, d_vector.dtype), d_final


def language_network(
    tokens: int, hidden: int, layers: int = 1, *, activation: ActivationLike = "tanh", cell: str = "rnn", **options: Any
) -> HeadNetwork:
    """A network that predicts the next token at every step; `tokens` is the size of the vocabulary."""
    return HeadNetwork(Stack(tokens, hidden, layers, cell=make_cell(cell, activation), **options), tokens)
