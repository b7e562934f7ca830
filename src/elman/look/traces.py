"""One reading of a text in float64, with every state kept: every view of a network starts from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from elman.errors import DataError
from elman.kernels.reference import ReferenceLayer
from elman.maths.arrays import Array
from elman.maths.cells import Cell, StepGradients, Weights
from elman.maths.layers import output_forward
from elman.maths.loss import surprise
from elman.maths.recurrence import CellTrace
from elman.network import HeadNetwork, Parameters, Stack, check_ids
from elman.network.stack import Packed


@dataclass(frozen=True, eq=False)
class LayerTrace:
    """One layer: P state parts of H units over T steps."""

    cell: Cell
    p: Weights
    s: Array  # (P, T+1, H); s[:, 0] is the initial state
    kept: tuple[Array, ...]  # (T, …) each, what else the cell keeps of each step

    @property
    def h(self) -> Array:
        """(T+1, H), the state part that enters W_hh and leaves the layer."""
        return np.asarray(self.s[0])

    @property
    def steps(self) -> int:
        """T"""
        return len(self.s[0]) - 1

    def jacobian(self, t: int) -> Array:
        """∂s[t+1]/∂s[t], (P·H, P·H): entry (i, j) is the derivative of entry j of s[t+1] by entry i of s[t]."""
        before, after = (self.s[:, i, np.newaxis] for i in (t, t + 1))
        return self.cell.jacobian(before, after, tuple(part[t, np.newaxis] for part in self.kept), self.p)

    def back(self, d_s: Array, t: Array) -> StepGradients:
        """One step back for N gradients: d_s (P, N, H) on the states after steps t (N,), each a step of its own."""
        kept = tuple(part[t] for part in self.kept)
        return self.cell.whole_backward(d_s, self.s[:, t], self.s[:, t + 1], kept, self.p)


@dataclass(frozen=True, eq=False)
class Trace:
    """All in float64, whatever precision the network was trained in."""

    layers: list[LayerTrace]
    o: Array  # (T, Y)
    W_hy: Array  # (H, Y)

    @property
    def h(self) -> list[Array]:
        """(T+1, H) for each layer."""
        return [layer.h for layer in self.layers]

    def losses(self, y: Array) -> Array:
        """L[t] of each target, in nats."""
        return surprise(self.o, y)  # (T,)


def exact(stack: Stack, p: Parameters) -> tuple[Packed, Parameters]:
    """The layers of a stack as `elman.maths` computes them, in float64, and their parameters."""
    wide = Parameters(p.shapes, np.dtype(np.float64))
    wide.buffer[:] = p.buffer
    return stack.pack(wide, [ReferenceLayer(stack.cell) for _ in stack.names]), wide


@np.errstate(over="ignore", invalid="ignore")  # a state may explode: that is worth seeing
def trace(network: HeadNetwork, p: Parameters, x: Array, *, state: Array | None = None) -> Trace:
    """The states and logits of a text x of T ids, read from zeros or from a given state (L, P, 1, H)."""
    if len(x) == 0:
        raise DataError("the text", expected="at least two tokens: the first one is not predicted", got="fewer")
    stack = network.stack
    check_ids("x", x, stack.inputs)
    packed, p = exact(stack, p)
    read = stack.forward(packed, p, np.asarray(x, np.int64)[:, np.newaxis], state)
    layers = [_alone(stack.cell, p.part(name), one) for name, one in zip(stack.names, read.traces, strict=True)]
    head = p.part("head")
    return Trace(layers, output_forward(read.outputs[:, 0], head["W_hy"], head["b_y"]), head["W_hy"])


def _alone(cell: Cell, p: Weights, states: CellTrace) -> LayerTrace:
    """The trace of a batch of one row."""
    return LayerTrace(cell, p, states.s[:, :, 0], tuple(part[:, 0] for part in states.kept))
