"""State dicts of other makers: any module with one recurrent module and one nn.Linear, whatever it calls them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from elman.errors import CheckpointError
from elman.exchange.cells import FORMATS, known_names
from elman.maths.arrays import Array

CELL = re.compile(r"(.*?)(weight|bias)_(ih|hh)_l(\d{1,4})(_reverse)?")


def from_foreign(path: Path, state: Mapping[str, Array]) -> tuple[dict[str, Array], str]:
    """Our parameters of a language model, and its cell.

    An embedding is multiplied out: a token's row of it, times W_xh, is the token's row of the W_xh that comes back.
    """
    cells = {name: match for name in state if (match := CELL.fullmatch(name))}
    module = known_names("nn.")
    if not cells:
        raise _refused(path, f"the weights of {module} (rnn.weight_ih_l0, …)", _few(state))
    if len(parts := sorted({match[1] for match in cells.values()})) > 1:
        raise _refused(path, f"one {module}", ", ".join(parts))
    if any(match[5] for match in cells.values()):
        raise _refused(path, "a network that reads forwards, which a language model must", "both directions")
    p: dict[str, Array] = {}
    kinds, hidden = set(), 0
    for layer in range(len({match[4] for match in cells.values()})):
        ih, hh = (state.get(f"{parts[0]}weight_{part}_l{layer}") for part in ("ih", "hh"))
        if ih is None or hh is None or ih.ndim != 2 or hh.ndim != 2:
            raise _refused(path, f"weight_ih_l{layer} and weight_hh_l{layer}", _few(cells))
        hidden = hh.shape[1]
        cell = next((name for name, row in FORMATS.items() if len(row.gates) * hidden == len(hh)), None)
        if cell is None:
            raise _refused(path, module, f"{parts[0]}weight_hh_l{layer} of shape {hh.shape}")
        kinds.add(cell)
        none = np.zeros(len(hh), hh.dtype)
        biases = {f"bias_{part}": state.get(f"{parts[0]}bias_{part}_l{layer}", none) for part in ("ih", "hh")}
        if any(bias.shape != none.shape for bias in biases.values()):
            shapes = ", ".join(str(bias.shape) for bias in biases.values())
            raise _refused(path, f"biases of shape {none.shape}", shapes)
        weights = FORMATS[cell].from_torch({"weight_ih": ih, "weight_hh": hh, **biases})
        p |= {f"layers.{layer}.{name}": array for name, array in weights.items()}
    if len(kinds) > 1:
        raise _refused(path, "one cell in all layers", ", ".join(sorted(kinds)))
    embedding, W_hy, b_y = _head(path, {name: array for name, array in state.items() if name not in cells}, hidden)
    p["head.W_hy"], p["head.b_y"] = W_hy.T, b_y
    if embedding is not None:
        if embedding.shape[1:] != p["layers.0.W_xh"].shape[:1]:
            shapes = f"{embedding.shape} before {p['layers.0.W_xh'].shape}"
            raise _refused(path, "an embedding as wide as the first layer's input", shapes)
        if len(embedding) != len(W_hy):  # checked before the product, which could be of any size
            raise _refused(path, f"an embedding of {len(W_hy)} tokens, as the nn.Linear has", str(len(embedding)))
        p["layers.0.W_xh"] = embedding @ p["layers.0.W_xh"]  # (V, H)
    return p, kinds.pop()


def _head(path: Path, rest: Mapping[str, Array], hidden: int) -> tuple[Array | None, Array, Array]:
    """The embedding, if there is one, and weight and bias of nn.Linear: the only others that there may be."""
    embeddings = [name for name, array in rest.items() if array.ndim == 2 and "emb" in name.lower()]
    heads = [name for name, array in rest.items() if array.ndim == 2 and name not in embeddings]
    if len(heads) != 1 or len(embeddings) > 1 or rest[heads[0]].shape[1] != hidden:
        expected = f"beside {known_names('nn.')} one nn.Linear that reads {hidden} numbers"
        raise _refused(path, expected, _few(rest) or "nothing")
    W_hy = rest[heads[0]]
    bias = heads[0].removesuffix("weight") + "bias"
    if strange := sorted(set(rest) - {*embeddings, *heads, bias}):
        raise _refused(path, f"nothing beside nn.Embedding, {known_names('nn.')} and nn.Linear", _few(strange))
    b_y = rest.get(bias, np.zeros(len(W_hy), W_hy.dtype))
    if b_y.shape != W_hy.shape[:1]:
        raise _refused(path, f"{bias} of shape {W_hy.shape[:1]}", str(b_y.shape))
    return (rest[embeddings[0]] if embeddings else None), W_hy, b_y


def _few(names: Iterable[str]) -> str:
    names = list(names)
    return ", ".join(names[:6]) + ", …" * (len(names) > 6)


def _refused(path: Path, expected: str, got: str) -> CheckpointError:
    return CheckpointError(f"{path}", expected=expected, got=got)
