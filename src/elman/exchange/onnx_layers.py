"""The layers of every model as ONNX nodes, made from nothing but the parameters' names and shapes.

ONNX's operator RNN is our cell: W = W_xh.T, R = W_hh.T, B = b_h and zeros, one of each for every direction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from elman.errors import ArgumentError
from elman.exchange.onnx_graph import Graph
from elman.maths.activations import ActivationLike
from elman.maths.arrays import Array

ACTIVATIONS = {"tanh": "Tanh", "relu": "Relu", "sigmoid": "Sigmoid", "identity": "Affine"}  # 1 · a + 0 is the identity


class Read(NamedTuple):
    """The values in which a stack of layers ends."""

    outputs: str  # (T, B, D·H), what leaves the last layer; past a row's length it means nothing
    final: list[str]  # (D, B, H) of each layer, the state after the last step that ran


def stack(
    graph: Graph,
    p: Mapping[str, Array],
    x: str,  # (T, B) ids or (T, B, X)
    *,
    activation: ActivationLike,
    tokens: bool,
    prefix: str = "",
    lengths: str | None = None,  # (B,)
    h0: str | None = None,  # (layers · D, B, H)
) -> Read:
    """All recurrent layers whose parameters begin with the prefix."""
    layers = layer_count(p, prefix)
    final: list[str] = []
    starts = _initial_states(graph, p, x, layers, prefix, h0)
    steps = None if lengths is None else graph.node("Cast", lengths, to=graph.onnx.TensorProto.INT32)
    for layer in range(layers):
        cells = [f"{prefix}layers.{layer}{end}" for end in ("", ".reverse") if f"{prefix}layers.{layer}{end}.W_hh" in p]
        W_xh, W_hh, b_h = (np.stack([p[f"{cell}.{name}"] for cell in cells]) for name in ("W_xh", "W_hh", "b_h"))
        if layer == 0 and tokens:
            x, W_xh = _rows(graph, p, x, prefix, W_xh)
        name, D, H = f"{prefix}layers.{layer}", len(cells), W_hh.shape[-1]
        graph.node(
            "RNN",
            x,
            graph.weight(f"{name}.W", W_xh.transpose(0, 2, 1)),  # (D, H, X)
            graph.weight(f"{name}.R", W_hh.transpose(0, 2, 1)),  # (D, H, H)
            graph.weight(f"{name}.B", np.concatenate([b_h, np.zeros_like(b_h)], axis=1)),  # (D, 2H)
            steps or "",
            starts[layer] or "",
            name=f"{name}.h",  # (T, D, B, H)
            also=(f"{name}.h_n",),  # (D, B, H)
            hidden_size=H,
            direction="bidirectional" if D == 2 else "forward",
            **_activations(activation, D),
        )
        last, start = f"{name}.h_n", starts[layer]
        if lengths is not None and start is not None:
            # the operator says 0 for a row without steps: it keeps the state that it had
            none = graph.node("Equal", lengths, graph.whole(0))  # (B,)
            last = graph.node("Where", graph.node("Unsqueeze", none, graph.whole(1)), start, last)
        final.append(last)
        if D == 1:
            x = graph.node("Squeeze", f"{name}.h", graph.whole(1))  # (T, B, H)
        else:
            sides = graph.node("Transpose", f"{name}.h", perm=[0, 2, 1, 3])  # (T, B, D, H)
            x = graph.node("Reshape", sides, graph.whole(0, 0, D * H))  # (T, B, D·H)
    return Read(x, final)


def linear(graph: Graph, p: Mapping[str, Array], h: str, prefix: str = "head.") -> str:
    """o = h @ W_hy + b_y"""
    product = graph.node("MatMul", h, graph.weight(f"{prefix}W_hy", p[f"{prefix}W_hy"]))
    return graph.node("Add", product, graph.weight(f"{prefix}b_y", p[f"{prefix}b_y"]))


def pooled(graph: Graph, read: Read, how: str, lengths: str) -> str:
    """From a sequence to one vector (B, D·H): its last state, or the mean or maximum over the row's own steps."""
    if how == "last":
        rows = graph.node("Transpose", read.final[-1], perm=[1, 0, 2])  # (B, D, H)
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


def layer_count(p: Mapping[str, Array], prefix: str = "") -> int:
    return sum(f"{prefix}layers.{layer}.W_hh" in p for layer in range(len(p)))


def _rows(graph: Graph, p: Mapping[str, Array], ids: str, prefix: str, W_xh: Array) -> tuple[str, Array]:
    """What enters the first layer instead of ids, and its W_xh: a token's row of the embedding, or of W_xh itself.

    A one-hot row is never built: the rows of W_xh are its products already, and the identity lets them pass.
    """
    table = p.get(f"{prefix}embedding.W")
    if table is not None:
        return graph.node("Gather", graph.weight(f"{prefix}embedding.W", table), ids), W_xh
    D, _, H = W_xh.shape
    table = np.concatenate(list(W_xh), axis=1)  # (V, D·H)
    name = f"{prefix}layers.0.W_xh"
    return graph.node("Gather", graph.weight(name, table), ids), np.eye(D * H).reshape(D * H, D, H).transpose(1, 0, 2)


def _initial_states(
    graph: Graph, p: Mapping[str, Array], x: str, layers: int, prefix: str, h0: str | None
) -> list[str | None]:
    """(D, B, H) for each layer; None where it is zeros."""
    if h0 is not None:
        if layers == 1:
            return [h0]
        names = [f"{prefix}layers.{layer}.h0" for layer in range(layers)]
        graph.node("Split", h0, name=names[0], also=tuple(names[1:]), axis=0, num_outputs=layers)
        return list(names)
    if f"{prefix}layers.0.h0" not in p:
        return [None] * layers
    B = graph.node("Shape", x, start=1, end=2)
    starts: list[str | None] = []
    for layer in range(layers):
        name = f"{prefix}layers.{layer}"
        learned = [p[f"{name}{end}.h0"] for end in ("", ".reverse") if f"{name}{end}.h0" in p]
        row = graph.weight(f"{name}.h0", np.stack(learned)[:, np.newaxis])  # (D, 1, H)
        size = graph.node("Concat", graph.whole(1), B, graph.whole(1), axis=0)
        starts.append(graph.node("Expand", row, size))
    return starts


def _activations(activation: ActivationLike, D: int) -> dict[str, Any]:
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        raise ArgumentError(
            "ONNX's RNN does not know this activation",
            expected=f"one of {', '.join(ACTIVATIONS)}",
            got="a function of your own" if not isinstance(activation, str) else repr(activation),
        )
    affine = {"activation_alpha": [1.0] * D, "activation_beta": [0.0] * D} if activation == "identity" else {}
    return {"activations": [ACTIVATIONS[activation]] * D, **affine}


def _scalar(graph: Graph, value: int) -> str:
    return graph.node("Squeeze", graph.whole(value))
