"""A GRU and an LSTM, forward only, with their rows: what other formats do with gates is tested before Elman has any."""

from __future__ import annotations

import numpy as np

from elman.exchange.cells import FORMATS, CellFormat
from elman.maths.cells import CELLS, Cell


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


class GRU(Cell):
    name, gate_names = "gru", ("r", "z", "n")

    def extra_shapes(self, H):
        return {"b_hn": (H,)}

    def forward(self, z, r, s, p):
        H = s.shape[2]
        reset, update = np.split(sigmoid(z[:, : 2 * H] + r[:, : 2 * H]), 2, axis=1)
        n = np.tanh(z[:, 2 * H :] + reset * (r[:, 2 * H :] + p["b_hn"]))
        return (1 - update) * n + update * s, ()

    def backward(self, d_s, s, s_next, kept, p):
        raise NotImplementedError


class LSTM(Cell):
    name, gate_names, state_names = "lstm", ("i", "f", "g", "o"), ("h", "c")

    def forward(self, z, r, s, p):
        i, f, g, o = np.split(z + r, 4, axis=1)
        c = sigmoid(f) * s[1] + sigmoid(i) * np.tanh(g)
        return np.stack([sigmoid(o) * np.tanh(c), c]), ()

    def backward(self, d_s, s, s_next, kept, p):
        raise NotImplementedError


ROWS = {
    "gru": CellFormat(
        "GRU", "rzn", "zrn", {"tanh": ("Sigmoid", "Tanh")}, ("tanh",), {"n": "b_hn"}, {"linear_before_reset": 1}
    ),
    "lstm": CellFormat(
        "LSTM", "ifgo", "iofg", {"tanh": ("Sigmoid", "Tanh", "Tanh")}, ("tanh",), onnx_attributes={"input_forget": 0}
    ),
}


def know_gated_cells(monkeypatch):
    """A row in each of the two tables, for one test."""
    for cell in (GRU, LSTM):
        monkeypatch.setitem(CELLS, cell.name, cell)
        monkeypatch.setitem(FORMATS, cell.name, ROWS[cell.name])
