"""How ONNX and PyTorch store the weights of a recurrent cell. A new cell needs one entry in FORMATS.

Both use the same names for the cells, store the transposes of our matrices with the gates stacked, and have two biases,
one for each product. Our gates are in PyTorch's order; ONNX has its own. Where the two biases are only added, our bias
is their sum; it is exported as the first one, with zeros as the second. For `rnn` the inputs of the ONNX operator are
W = W_xh.T, R = W_hh.T and B = (b_h, zeros).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from elman.errors import ArgumentError
from elman.maths.arrays import Array
from elman.maths.cells import Cell, Weights

TENSORS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")  # PyTorch's tensors of one layer and direction


class CellFormat(NamedTuple):
    """How ONNX and PyTorch store one cell; each gate is one letter."""

    name: str  # of the ONNX operator and, after nn., of the PyTorch module
    gates: str  # in our order
    onnx_gates: str  # in ONNX's order
    onnx_activations: Mapping[str, tuple[str, ...]]  # our activation: the operator's attribute `activations`
    torch_activations: tuple[str, ...]  # those of our activations that the PyTorch module has
    own_biases: Mapping[str, str] = MappingProxyType({})  # gate whose biases are not added: our name of the second one
    onnx_attributes: Mapping[str, int] = MappingProxyType({})  # of the operator

    # -- PyTorch ------------------------------------------------------------------------------------------------------

    def to_torch(self, p: Weights) -> dict[str, Array]:
        """The tensors of one layer and direction."""
        b_h = p["b_h"]
        second = np.broadcast_to(b_h.dtype.type(0), b_h.shape)  # takes no memory: pytorch.py may need only its shape
        if self.own_biases:
            second = second.copy()
            for gate, name in self.own_biases.items():
                second[self._block(gate, len(b_h))] = p[name]
        return dict(zip(TENSORS, (p["W_xh"].T, p["W_hh"].T, b_h, second), strict=True))

    def from_torch(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Our parameters, from the tensors of one layer and direction."""
        W_ih, W_hh, first, second = (tensors[name] for name in TENSORS)
        p = {"W_xh": W_ih.T, "W_hh": W_hh.T, "b_h": _merged(first, second)}
        for gate, name in self.own_biases.items():
            block = self._block(gate, len(first))
            p["b_h"][block], p[name] = first[block], second[block]
        return p

    # -- ONNX ---------------------------------------------------------------------------------------------------------

    def to_onnx(self, p: Weights) -> list[Array]:
        """W (G·H, X), R (G·H, H) and B (2·G·H,) of one layer and direction."""
        W, R, *biases = (_reordered(array, self.gates, self.onnx_gates) for array in self.to_torch(p).values())
        return [W, R, np.concatenate(biases)]

    def from_onnx(self, W: Array, R: Array, B: Array) -> dict[str, Array]:
        """Our parameters, from the arrays that to_onnx returns."""
        arrays = (_reordered(array, self.onnx_gates, self.gates) for array in (W, R, *np.split(B, 2)))
        return self.from_torch(dict(zip(TENSORS, arrays, strict=True)))

    def _block(self, gate: str, size: int) -> slice:
        H, number = size // len(self.gates), self.gates.index(gate)
        return slice(number * H, (number + 1) * H)


FORMATS = {
    "rnn": CellFormat(
        "RNN",
        gates="a",
        onnx_gates="a",
        onnx_activations={
            "tanh": ("Tanh",),
            "relu": ("Relu",),
            "sigmoid": ("Sigmoid",),
            "identity": ("Affine",),  # 1 · a + 0
        },
        torch_activations=("tanh", "relu"),
    ),
    "gru": CellFormat(
        "GRU",
        gates="rzn",
        onnx_gates="zrn",
        onnx_activations={"tanh": ("Sigmoid", "Tanh")},
        torch_activations=("tanh",),
        own_biases={"n": "b_hn"},
        onnx_attributes={"linear_before_reset": 1},  # r multiplies h @ W_hn + b_hn, not h
    ),
    "lstm": CellFormat(
        "LSTM",
        gates="ifgo",
        onnx_gates="iofg",
        onnx_activations={"tanh": ("Sigmoid", "Tanh", "Tanh")},
        torch_activations=("tanh",),
    ),
}


def format_of(cell: Cell) -> CellFormat:
    return FORMATS[cell.name]


def unit_kind(cell: object, activation: object) -> str:
    """The word before "units" in a text: the name of the cell, such as "GRU", or the activation of a vanilla cell."""
    return str(activation) if cell not in FORMATS or cell == "rnn" else FORMATS[str(cell)].name


def known_modules() -> str:
    """The names of all cells in PyTorch, for messages: `nn.RNN, nn.GRU or nn.LSTM`."""
    *names, last = (f"nn.{row.name}" for row in FORMATS.values())
    return f"{', '.join(names)} or {last}"


def unknown_activation(where: str, cell: Cell, expected: str, *, do: str | None = None) -> ArgumentError:
    """The error for an activation that the other format does not have."""
    got = repr(cell.activation) if isinstance(cell.activation, str) else "a function of your own"
    return ArgumentError(f"{where} does not have this activation", expected=expected, got=got, do=do)


def _merged(first: Array, second: Array) -> Array:
    """The sum of two biases; where the second is 0 it is exactly the first, also if that is -0."""
    return np.where(second == 0, first, first + second)


def _reordered(array: Array, before: str, after: str) -> Array:
    """The stacked gates of an array in another order."""
    blocks = np.split(array, len(before))
    return np.concatenate([blocks[before.index(gate)] for gate in after])
