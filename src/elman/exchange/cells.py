"""How ONNX and PyTorch write a recurrent cell. A new cell is one row here.

Both use the same names for the cells, store transposes of our matrices with the gates stacked, and have two biases, one
for each product. Our gates are in PyTorch's order; ONNX has its own. Where the two biases are added, ours is their sum,
exported as the first bias with zeros as the second. For `rnn` this means W = W_xh.T, R = W_hh.T, B = (b_h, zeros).
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
    """How other formats store one cell; each gate is one letter."""

    name: str  # of the ONNX operator and, after nn., of the PyTorch module
    gates: str  # in our order
    onnx_gates: str  # in ONNX's order
    onnx_activations: Mapping[str, tuple[str, ...]]  # our activation: ONNX's activations of all gates
    torch_activations: tuple[str, ...]
    own_biases: Mapping[str, str] = MappingProxyType({})  # gate: the parameter of its second bias, if it is separate
    onnx_attributes: Mapping[str, int] = MappingProxyType({})  # required; one that a file leaves out is 0

    # -- PyTorch ------------------------------------------------------------------------------------------------------

    def to_torch(self, p: Weights) -> dict[str, Array]:
        """The tensors of one layer and direction."""
        b_h = p["b_h"]
        second = np.broadcast_to(b_h.dtype.type(0), b_h.shape)  # zeros without memory, for when only shapes are needed
        if self.own_biases:
            second = second.copy()
            for gate, name in self.own_biases.items():
                second[self._block(gate, len(b_h))] = p[name]
        return dict(zip(TENSORS, (p["W_xh"].T, p["W_hh"].T, b_h, second), strict=True))

    def from_torch(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Our parameters."""
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
        """Our parameters."""
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
        onnx_attributes={"input_forget": 0},
    ),
}


def format_of(cell: Cell) -> CellFormat:
    return FORMATS[cell.name]


def unit_kind(cell: object, activation: object) -> str:
    """What the units are called in a sentence: "GRU", or for the vanilla cell its activation."""
    return str(activation) if cell not in FORMATS or cell == "rnn" else FORMATS[str(cell)].name


def known_names(before: str = "") -> str:
    """The names of all cells in other formats, for messages."""
    *names, last = (f"{before}{row.name}" for row in FORMATS.values())
    return f"{', '.join(names)} or {last}"


def unknown_activation(where: str, cell: Cell, expected: str, *, do: str | None = None) -> ArgumentError:
    """The error for an activation that the other format does not have."""
    got = repr(cell.activation) if isinstance(cell.activation, str) else "a function of your own"
    return ArgumentError(f"{where} does not have this activation", expected=expected, got=got, do=do)


def _merged(first: Array, second: Array) -> Array:
    """The sum of two biases; adding 0 changes nothing, not even the sign of a zero."""
    return np.where(second == 0, first, first + second)


def _reordered(array: Array, before: str, after: str) -> Array:
    """The stacked gates of an array in another order."""
    blocks = np.split(array, len(before))
    return np.concatenate([blocks[before.index(gate)] for gate in after])
