"""One ONNX graph for each shape of network: text with carried state, sequences that are judged, sequences that follow.

Batches are time-major, as everywhere. `lengths` are the rows' own steps; what stands past them is never looked at.
Numbers go in as they are, in float64, and are brought to mean 0 and deviation 1 inside, as in training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from elman.exchange.onnx_graph import Graph
from elman.exchange.onnx_layers import linear, pooled, recurrent
from elman.maths.arrays import Array
from elman.network import EncoderDecoder, HeadNetwork, Network, Stack

Scale = tuple[Array, Array]  # mean and deviation (X,)


def text_graph(network: Network, p: Mapping[str, Array]) -> Graph:
    """x (T, B) ids and h0 (L, B, H) to logits (T, B, V) and h_n (L, B, H): one step or many."""
    stack, parts = network.stacks[-1], network.stacks[-1].cell.state_names
    shape = stack.layers, "B", stack.hidden
    graph = Graph("text")
    x = graph.input("x", np.int64, ("T", "B"))
    state = [graph.input(f"{part}0", np.float32, shape) for part in parts]
    read = recurrent(graph, stack, p, x, state=state)
    graph.output("logits", linear(graph, p, read.outputs), ("T", "B", network.outputs))
    for part, final in zip(parts, zip(*read.final, strict=True), strict=True):
        graph.output(f"{part}_n", _joined(graph, final), shape)
    return graph


def head_graph(
    network: HeadNetwork, p: Mapping[str, Array], *, scale: Scale | None = None, told: Scale | None = None
) -> Graph:
    """x (T, B) ids or (T, B, X) and lengths (B,) to logits (B, Y), or (T, B, Y) where every step is judged.

    Where numbers are `told`, y (B, Y) instead: float64 with their mean and deviation.
    """
    graph = Graph("sequences")
    x, lengths = _sequences(graph, network.stack, scale)
    read = recurrent(graph, network.stack, p, x, lengths=lengths)
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
    network: EncoderDecoder,
    p: Mapping[str, Array],
    *,
    labels: bool = False,  # that are the condition, instead of numbers
    scale: Scale | None = None,
    reverse: bool = False,  # the source is read from its end
) -> Graph:
    """A source x with lengths, or a condition x (B,) ids or (B, X), to h0 (L, B, H), with which text begins."""
    graph, decoder, encoder = Graph("start"), network.decoder, network.encoder
    shape, parts = (decoder.layers, "B", decoder.hidden), decoder.cell.state_names
    if encoder is None:
        c = graph.input("x", np.int64, ("B",)) if labels else _numbers(graph, ("B", network.conditions), scale)
    else:
        x, lengths = _sequences(graph, encoder, scale)
        if reverse:
            # the operator wants at least one step: to turn one round changes nothing
            turned = graph.node("Max", lengths, graph.whole(1))
            x = graph.node("ReverseSequence", x, turned, time_axis=0, batch_axis=1)
        read = recurrent(graph, encoder, p, x, lengths=lengths)
        states = [_joined(graph, final) for final in zip(*read.final, strict=True)]  # (L·D, B, H) each
        if not network.bridged:
            for part, value in zip(parts, states, strict=True):
                graph.output(f"{part}0", value, shape)
            return graph
        rows = [graph.node("Transpose", value, perm=[1, 0, 2]) for value in states]  # (B, L·D, H) each
        c = graph.node("Flatten", _joined(graph, rows, axis=2))  # (B, L·D·P·H)
    # s[0] = c @ W_ch + b_h
    W_ch = graph.weight("bridge.W_ch", p["bridge.W_ch"])
    product = graph.node("Gather", W_ch, c) if labels else graph.node("MatMul", c, W_ch)  # (B, L·P·H)
    s = graph.node("Add", product, graph.weight("bridge.b_h", p["bridge.b_h"]))
    layers = graph.node("Reshape", s, graph.whole(0, decoder.layers, len(parts) * decoder.hidden))  # (B, L, P·H)
    starts = [layers]
    if len(parts) > 1:
        starts = [f"bridge.{part}0" for part in parts]
        graph.node("Split", layers, name=starts[0], also=tuple(starts[1:]), axis=2, num_outputs=len(parts))
    for part, start in zip(parts, starts, strict=True):
        graph.output(f"{part}0", graph.node("Transpose", start, perm=[1, 0, 2]), shape)
    return graph


def _sequences(graph: Graph, stack: Stack, scale: Scale | None) -> tuple[str, str]:
    steps = ("T", "B")
    x = graph.input("x", np.int64, steps) if stack.tokens else _numbers(graph, (*steps, stack.inputs), scale)
    return x, graph.input("lengths", np.int64, ("B",))


def _numbers(graph: Graph, shape: tuple[int | str, ...], scale: Scale | None) -> str:
    x = graph.input("x", np.float64, shape)
    if scale is not None:
        mean, deviation = (graph.double(name, scale[i]) for i, name in enumerate(("x.mean", "x.deviation")))
        x = graph.node("Div", graph.node("Sub", x, mean), deviation)
    return graph.node("Cast", x, to=graph.onnx.TensorProto.FLOAT)


def _joined(graph: Graph, values: Sequence[str], axis: int = 0) -> str:
    return values[0] if len(values) == 1 else graph.node("Concat", *values, axis=axis)
