"""The layers of every model as ONNX nodes. What an operator gets of its cell's parameters is in cells.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from elman.errors import ArgumentError
from elman.exchange.cells import format_of, unknown_activation
from elman.exchange.onnx_graph import Graph
from elman.maths.arrays import Array
from elman.maths.cells import Cell
from elman.network import Stack


class Read(NamedTuple):
    """The values in which a stack of layers ends."""

    outputs: str  # (T, B, D·H), what leaves the last layer; past a row's length it means nothing
    final: list[list[str]]  # (D, B, H) of each layer and state part, after the last step that ran


def recurrent(
    graph: Graph,
    stack: Stack,
    p: Mapping[str, Array],
    x: str,  # (T, B) ids or (T, B, X)
    *,
    lengths: str | None = None,  # (B,)
    state: Sequence[str] = (),  # (L·D, B, H) of each state part; zeros or learned unless given
) -> Read:
    """All layers of a stack."""
    row, D, H = format_of(stack.cell), len(stack.directions), stack.hidden
    attributes = {
        "hidden_size": H,
        "direction": "bidirectional" if D == 2 else "forward",
        **_activations(stack.cell, D),
        **row.onnx_attributes,
    }
    final: list[list[str]] = []
    starts = _initial_states(graph, stack, p, x, state)
    steps = "" if lengths is None else graph.node("Cast", lengths, to=graph.onnx.TensorProto.INT32)
    for layer, start in enumerate(starts):
        sides = [
            {short: p[f"{name}.{short}"] for short in stack.cell.shapes(0, H)}
            for name in stack.names[layer * D : (layer + 1) * D]
        ]
        if layer == 0 and stack.tokens:
            x = _rows(graph, stack, p, x, sides)
        W, R, B = (np.stack(arrays) for arrays in zip(*map(row.to_onnx, sides), strict=True))
        name = f"{stack.prefix}layers.{layer}"
        last = [f"{name}.{part}_n" for part in stack.cell.state_names]  # (D, B, H)
        graph.node(
            row.name,
            x,
            graph.weight(f"{name}.W", W),  # (D, G·H, X)
            graph.weight(f"{name}.R", R),  # (D, G·H, H)
            graph.weight(f"{name}.B", B),  # (D, 2·G·H)
            steps,
            *start,
            name=f"{name}.h",  # (T, D, B, H)
            also=tuple(last),
            **attributes,
        )
        if lengths is not None and all(start):
            # the operator says 0 for a row without steps: it keeps the state that it had
            none = graph.node("Unsqueeze", graph.node("Equal", lengths, graph.whole(0)), graph.whole(1))  # (B, 1)
            last = [graph.node("Where", none, first, after) for first, after in zip(start, last, strict=True)]
        final.append(last)
        if D == 1:
            x = graph.node("Squeeze", f"{name}.h", graph.whole(1))  # (T, B, H)
        else:
            turned = graph.node("Transpose", f"{name}.h", perm=[0, 2, 1, 3])  # (T, B, D, H)
            x = graph.node("Reshape", turned, graph.whole(0, 0, D * H))  # (T, B, D·H)
    return Read(x, final)


def linear(graph: Graph, p: Mapping[str, Array], h: str, prefix: str = "head.") -> str:
    """o = h @ W_hy + b_y"""
    product = graph.node("MatMul", h, graph.weight(f"{prefix}W_hy", p[f"{prefix}W_hy"]))
    return graph.node("Add", product, graph.weight(f"{prefix}b_y", p[f"{prefix}b_y"]))


def pooled(graph: Graph, read: Read, how: str, lengths: str) -> str:
    """From a sequence to one vector (B, D·H): its last state, or the mean or maximum over the row's own steps."""
    if how == "last":
        rows = graph.node("Transpose", read.final[-1][0], perm=[1, 0, 2])  # (B, D, H)
        return graph.node("Flatten", rows)
    T = graph.node("Shape", read.outputs, start=0, end=1)
    counted = graph.node("Range", _scalar(graph, 0), graph.node("Squeeze", T), _scalar(graph, 1))  # (T,)
    runs = graph.node("Less", graph.node("Unsqueeze", counted, graph.whole(1)), lengths)  # (T, B)
    runs = graph.node("Unsqueeze", runs, graph.whole(2))  # (T, B, 1)
    if how == "mean":
        own = graph.node("Where", runs, read.outputs, graph.number(0))
        total = graph.node("ReduceSum", own, graph.whole(0), keepdims=0)  # (B, D·H)
        steps = graph.node("Cast", graph.node("Max", lengths, graph.whole(1)), to=graph.onnx.TensorProto.FLOAT)
        return graph.node("Div", total, graph.node("Unsqueeze", steps, graph.whole(1)))
    if how != "max":
        raise ArgumentError("pooling", expected="last, mean or max", got=repr(how))
    own = graph.node("Where", runs, read.outputs, graph.number(-np.inf))
    largest = graph.node("ReduceMax", own, graph.whole(0), keepdims=0)  # (B, D·H)
    none = graph.node("Unsqueeze", graph.node("Equal", lengths, graph.whole(0)), graph.whole(1))  # (B, 1)
    return graph.node("Where", none, graph.number(0), largest)


def _rows(graph: Graph, stack: Stack, p: Mapping[str, Array], ids: str, sides: list[dict[str, Array]]) -> str:
    """What enters the first layer instead of ids: a token's row of the embedding, or of W_xh itself.

    A one-hot row is never built: the rows of W_xh are its products already, and the identity, which takes the place of
    W_xh, lets them pass.
    """
    name = f"{stack.prefix}embedding.W"
    if stack.embedding:
        return graph.node("Gather", graph.weight(name, p[name]), ids)
    table = np.concatenate([side["W_xh"] for side in sides], axis=1)  # (V, D·G·H)
    identity = np.eye(table.shape[1])
    for side, columns in zip(sides, np.split(identity, len(sides), axis=1), strict=True):
        side["W_xh"] = columns
    return graph.node("Gather", graph.weight(f"{stack.prefix}layers.0.W_xh", table), ids)


def _initial_states(
    graph: Graph, stack: Stack, p: Mapping[str, Array], x: str, state: Sequence[str]
) -> list[list[str]]:
    """(D, B, H) for each layer and state part; empty names where it is zeros."""
    layers, parts = range(stack.layers), stack.cell.state_names
    names = [[f"{stack.prefix}layers.{layer}.{part}0" for part in parts] for layer in layers]
    if state and stack.layers == 1:
        return [list(state)]
    if state:
        for value, (first, *rest) in zip(state, zip(*names, strict=True), strict=True):
            graph.node("Split", value, name=first, also=tuple(rest), axis=0, num_outputs=stack.layers)
        return names
    if not stack.learned_state:
        return [[""] * len(parts) for _ in layers]
    B, D = graph.node("Shape", x, start=1, end=2), len(stack.directions)
    size = graph.node("Concat", graph.whole(1), B, graph.whole(1), axis=0)
    starts = []
    for layer in layers:
        sides = stack.names[layer * D : (layer + 1) * D]
        learned = [np.stack([p[f"{side}.{part}0"] for side in sides])[:, np.newaxis] for part in parts]  # (D, 1, H)
        rows = [graph.weight(name, row) for name, row in zip(names[layer], learned, strict=True)]
        starts.append([graph.node("Expand", row, size) for row in rows])
    return starts


def _activations(cell: Cell, D: int) -> dict[str, Any]:
    known = format_of(cell).onnx_activations
    if not isinstance(cell.activation, str) or cell.activation not in known:
        where = f"ONNX's {format_of(cell).name}"
        raise unknown_activation(where, cell, f"one of {', '.join(known)}")
    affine = {"activation_alpha": [1.0] * D, "activation_beta": [0.0] * D} if cell.activation == "identity" else {}
    return {"activations": [*known[cell.activation]] * D, **affine}


def _scalar(graph: Graph, value: int) -> str:
    return graph.node("Squeeze", graph.whole(value))
