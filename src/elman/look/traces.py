"""Reads a text in float64 and keeps every state: the data of gradient flow, spectra, saturation and gates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import overload

import numpy as np

from elman.data.streams import sequences_of
from elman.errors import ArgumentError, DataError
from elman.kernels.reference import ReferenceLayer
from elman.maths.arrays import Array
from elman.maths.cells import Cell, StepGradients, Weights
from elman.maths.layers import output_forward
from elman.maths.loss import surprise
from elman.maths.recurrence import CellTrace
from elman.models import LanguageModel
from elman.network import HeadNetwork, Parameters, Stack, check_ids
from elman.network.stack import Packed

STEPS = 256  # maximum number of steps of a text that are analyzed, by default


@dataclass(frozen=True, eq=False, repr=False)
class LayerTrace:
    """One layer of a trace: P state parts of H units over T steps.

    Attributes
    ----------
    cell : Cell
        The recurrent cell.
    p : mapping of str to ndarray
        The parameters of the layer by name.
    s : ndarray, shape (P, T+1, H)
        All states; s[:, 0] is the initial one. The first part is h; an LSTM has a second one, c.
    kept : tuple of ndarray
        Arrays (T, H) of values that the cell keeps for its backward pass; in a GRU or an LSTM the gates come first.
    """

    cell: Cell
    p: Weights
    s: Array
    kept: tuple[Array, ...]

    def __repr__(self) -> str:
        return f"<LayerTrace: {self.cell.name}, {self.steps} steps, {self.s.shape[2]} units>"

    @property
    def h(self) -> Array:
        """The states h, (T+1, H): the state part that is multiplied by W_hh and is the output of the layer."""
        return np.asarray(self.s[0])

    @property
    def steps(self) -> int:
        """T, the number of steps."""
        return len(self.s[0]) - 1

    @property
    def gates(self) -> dict[str, Array]:
        """The gates by name, (T, H) each; none in a vanilla cell."""
        return dict(zip(self.cell.kept_names[: self.cell.gates], self.kept, strict=False))

    @property
    def carry(self) -> Array | None:
        """The gate that multiplies the state from step to step, (T, H): f of an LSTM, z of a GRU, else None."""
        return self.gates.get(CARRY_GATES.get(self.cell.name, ""))

    def jacobian(self, t: int) -> Array:
        """The step Jacobian ∂s[t+1]/∂s[t], (P·H, P·H): entry (i, j) is ∂s[t+1]_j / ∂s[t]_i.

        Parameters
        ----------
        t : int
            The step, from 0.
        """
        before, after = (self.s[:, i, np.newaxis] for i in (t, t + 1))
        return self.cell.jacobian(before, after, tuple(part[t, np.newaxis] for part in self.kept), self.p)

    def back(self, d_s: Array, t: Array) -> StepGradients:
        """One backward step of the cell for N gradients; d_s of the result lacks the part that goes through W_hh.

        Parameters
        ----------
        d_s : ndarray, shape (P, N, H)
            Gradients on the states after the steps t.
        t : ndarray, shape (N,)
            The step of each gradient.
        """
        kept = tuple(part[t] for part in self.kept)
        return self.cell.backward(d_s, self.s[:, t], self.s[:, t + 1], kept, self.p)


CARRY_GATES = {"lstm": "f", "gru": "z"}


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """The states and logits of a network along a text, in float64.

    Attributes
    ----------
    layers : list of LayerTrace
        From the lowest.
    o : ndarray, shape (T, Y)
        The logits.
    W_hy : ndarray, shape (H, Y)
        The output weights.
    """

    layers: list[LayerTrace]
    o: Array
    W_hy: Array

    def __repr__(self) -> str:
        return f"<Trace: {len(self.o)} steps, {len(self.layers)} × {self.layers[0]!r}>"

    @property
    def h(self) -> list[Array]:
        """The states h of each layer, (T+1, H)."""
        return [layer.h for layer in self.layers]

    def losses(self, y: Array) -> Array:
        """The cross-entropy L[t] of each target in nats, (T,).

        Parameters
        ----------
        y : ndarray, shape (T,)
            The ids of the targets.
        """
        return surprise(self.o, y)


def in_float64(stack: Stack, p: Parameters) -> tuple[Packed, Parameters]:
    """The stack, packed to run the NumPy code of `elman.maths` in float64; and the parameters in float64."""
    wide = Parameters(p.shapes, np.dtype(np.float64))
    wide.buffer[:] = p.buffer
    return stack.pack(wide, [ReferenceLayer(stack.cell) for _ in stack.names]), wide


def text_ids(model: LanguageModel, text: str | Array) -> Array:
    """The ids of a text: unknown words become <unk>, another unknown token is an error; ids are checked."""
    if isinstance(text, str):
        ids = model.vocabulary_.read(text, whole=True)
    else:
        ids = np.asarray(text)
        check_ids("ids", ids, model.network_.stack.inputs)
    return np.asarray(ids, np.int64)


def inputs_and_targets(model: LanguageModel, text: str | Array, steps: int = STEPS) -> tuple[Array, Array]:
    """x and y, (T,) each, T at most `steps`: the first T tokens of a text, and the token after each."""
    ids = next(sequences_of(text_ids(model, text), model.vocabulary_.end), np.empty(0, np.int64))[: steps + 1]
    if len(ids) < 2:
        raise DataError(
            "the text",
            expected="at least two tokens: the first one is not predicted",
            got=len(ids) or "none",
            do="Give a sentence or two.",
        )
    return ids[:-1], ids[1:]


@overload
def trace(model: LanguageModel, text: str | Array, /, *, state: Array | None = None) -> Trace: ...
@overload
def trace(network: HeadNetwork, p: Parameters, x: Array, /, *, state: Array | None = None) -> Trace: ...
@np.errstate(over="ignore", invalid="ignore")  # an exploding state is a result, not an error
def trace(
    model: LanguageModel | HeadNetwork,
    text: str | Array | Parameters,
    x: Array | None = None,
    /,
    *,
    state: Array | None = None,
) -> Trace:
    """Read a text and keep every state: ``trace(model, text)``, or ``trace(network, p, x)``.

    Parameters
    ----------
    model : LanguageModel or HeadNetwork
        A fitted model, or a network.
    text : str, ndarray of ids, or Parameters
        The text for a model, or the parameters of a network.
    x : ndarray of ids, shape (T,)
        Inputs of a network.
    state : ndarray, shape (layers, P, 1, H), optional
        The initial state; zeros, or the learned initial state, unless given.

    Returns
    -------
    Trace
        States and logits in float64.

    Examples
    --------
    >>> from elman import LanguageModel, look
    >>> model = LanguageModel(hidden=8, steps=1).fit("the cat sat on the mat. " * 20, listeners=[])
    >>> look.trace(model, "the cat").h[0].shape
    (8, 8)
    """
    if isinstance(model, HeadNetwork) and isinstance(text, Parameters) and x is not None:
        network, p = model, text
    elif isinstance(model, LanguageModel) and not isinstance(text, Parameters):
        network, p, x = model.network_, model.parameters_, text_ids(model, text)
    else:
        raise ArgumentError("trace", expected="a model and a text, or a network, parameters and ids")
    if len(x) == 0:
        raise DataError("the text", expected="at least one token", got="none")
    stack = network.stack
    check_ids("x", np.asarray(x), stack.inputs)
    packed, p = in_float64(stack, p)
    read = stack.forward(packed, p, np.asarray(x, np.int64)[:, np.newaxis], state)
    layers = [_without_batch(stack.cell, p.part(name), one) for name, one in zip(stack.names, read.traces, strict=True)]
    head = p.part("head")
    return Trace(layers, output_forward(read.outputs[:, 0], head["W_hy"], head["b_y"]), head["W_hy"])


def _without_batch(cell: Cell, p: Weights, states: CellTrace) -> LayerTrace:
    """The trace of one layer without the axis of the batch, which has one row."""
    return LayerTrace(cell, p, states.s[:, :, 0], tuple(part[:, 0] for part in states.kept))
