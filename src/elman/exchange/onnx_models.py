"""One ONNX graph for each shape of network: text with carried state, sequences that are judged, sequences that follow.

Batches are time-major, as everywhere. `lengths` are the rows' own steps; what stands past them is never looked at.
Numbers go in as they are, in float64, and are brought to mean 0 and deviation 1 inside, as in training.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from elman.exchange.onnx_graph import Graph
from elman.exchange.onnx_layers import layer_count, linear, pooled, stack
from elman.maths.activations import ActivationLike
from elman.maths.arrays import Array
from elman.network.encoder import Encoder
from elman.network.reader import Reader
from elman.network.teller import Teller

Scale = tuple[Array, Array]  # mean and deviation (X,)


def text_graph(p: Mapping[str, Array], activation: ActivationLike, prefix: str = "") -> Graph:
    """x (T, B) ids and h0 (layers, B, H) to logits (T, B, V) and h_n (layers, B, H): one step or many."""
    H, V = p["head.W_hy"].shape
    layers = layer_count(p, prefix)
    graph = Graph("text")
    x = graph.input("x", np.int64, ("T", "B"))
    h0 = graph.input("h0", np.float32, (layers, "B", H))
    read = stack(graph, p, x, activation=activation, tokens=True, prefix=prefix, h0=h0)
    graph.output("logits", linear(graph, p, read.outputs), ("T", "B", V))
    graph.output("h_n", _joined(graph, read.final), (layers, "B", H))
    return graph


def reader_graph(
    network: Reader, p: Mapping[str, Array], *, scale: Scale | None = None, told: Scale | None = None
) -> Graph:
    """x (T, B) ids or (T, B, X) and lengths (B,) to logits (B, Y), or (T, B, Y) where every step is judged.

    Where numbers are `told`, y (B, Y) instead: float64 with their mean and deviation.
    """
    graph = Graph("reader")
    x, lengths = _sequences(graph, network.encoder, scale)
    read = stack(graph, p, x, activation=network.encoder.activation, tokens=network.encoder.tokens, lengths=lengths)
    every = network.pooling == "none"
    o = linear(graph, p, read.outputs if every else pooled(graph, read, network.pooling, lengths))
    if told is None:
        graph.output("logits", o, ("T", "B", network.outputs) if every else ("B", network.outputs))
    else:
        mean, deviation = (graph.double(name, told[i]) for i, name in enumerate(("y.mean", "y.deviation")))
        wide = graph.node("Cast", o, to=graph.onnx.TensorProto.DOUBLE)
        y = graph.node("Add", graph.node("Mul", wide, deviation), mean)
        graph.output("y", y, ("B", network.outputs), np.float64)
    return graph


def start_graph(
    network: Teller,
    p: Mapping[str, Array],
    *,
    labels: bool = False,  # that are the condition, instead of numbers
    scale: Scale | None = None,
    reverse: bool = False,  # the source is read from its end
) -> Graph:
    """A source x with lengths, or a condition x (B,) ids or (B, X), to h0 (layers, B, H), with which text begins."""
    graph, decoder, encoder = Graph("start"), network.decoder, network.encoder
    shape = (decoder.layers, "B", decoder.hidden)
    if encoder is None:
        c = graph.input("x", np.int64, ("B",)) if labels else _numbers(graph, ("B", network.conditions), scale)
    else:
        x, lengths = _sequences(graph, encoder, scale)
        if reverse:
            # the operator wants at least one step: to turn one round changes nothing
            turned = graph.node("Max", lengths, graph.whole(1))
            x = graph.node("ReverseSequence", x, turned, time_axis=0, batch_axis=1)
        read = stack(
            graph, p, x, activation=encoder.activation, tokens=encoder.tokens, prefix=encoder.prefix, lengths=lengths
        )
        states = _joined(graph, read.final)  # (L·D, B, H)
        if not network.bridged:
            graph.output("h0", states, shape)
            return graph
        c = graph.node("Flatten", graph.node("Transpose", states, perm=[1, 0, 2]))  # (B, L·D·H)
    # h[0] = c @ W_ch + b_h
    W_ch = graph.weight("bridge.W_ch", p["bridge.W_ch"])
    product = graph.node("Gather", W_ch, c) if labels else graph.node("MatMul", c, W_ch)  # (B, L·H)
    h = graph.node("Add", product, graph.weight("bridge.b_h", p["bridge.b_h"]))
    layers = graph.node("Reshape", h, graph.whole(0, decoder.layers, decoder.hidden))  # (B, L, H)
    graph.output("h0", graph.node("Transpose", layers, perm=[1, 0, 2]), shape)
    return graph


def _sequences(graph: Graph, encoder: Encoder, scale: Scale | None) -> tuple[str, str]:
    steps = ("T", "B")
    x = graph.input("x", np.int64, steps) if encoder.tokens else _numbers(graph, (*steps, encoder.inputs), scale)
    return x, graph.input("lengths", np.int64, ("B",))


def _numbers(graph: Graph, shape: tuple[int | str, ...], scale: Scale | None) -> str:
    x = graph.input("x", np.float64, shape)
    if scale is not None:
        mean, deviation = (graph.double(name, scale[i]) for i, name in enumerate(("x.mean", "x.deviation")))
        x = graph.node("Div", graph.node("Sub", x, mean), deviation)
    return graph.node("Cast", x, to=graph.onnx.TensorProto.FLOAT)


def _joined(graph: Graph, states: list[str]) -> str:
    return states[0] if len(states) == 1 else graph.node("Concat", *states, axis=0)
