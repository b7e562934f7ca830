"""A run as an ONNX file, or as two files for the tasks generate and translate: an encoder, which computes the initial
state, and a decoder, which computes steps.

Batches are time-major, as everywhere in Elman. `lengths` (B,) are the numbers of steps of the rows; padding past them
has no effect. Numbers enter unscaled, in float64; the graph standardizes them as training did. float64 weights become
float32: onnxruntime has no recurrent operator in float64. cells.py maps the parameters of a cell to those of an ONNX
operator.

Letters in shapes: T steps, B rows, X numbers of an input, V tokens, Y numbers of an output, H units, G gates, L layers,
D directions, P state parts (2 in an LSTM: h and c), M = D·H the size of an output of the encoder, K that of a query of
the attention. Where h0 and h_n are named, an LSTM also has c0 and c_n.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from elman.data.inputs import NumberInputs
from elman.data.targets import Labels, Numbers
from elman.errors import ArgumentError
from elman.exchange.cells import format_of, unknown_activation
from elman.exchange.model_file import KEY, ExportResult, PortableModel, load_run, refuse_existing
from elman.exchange.onnx_graph import Graph
from elman.maths.arrays import Array
from elman.maths.cells import Cell
from elman.network import EncoderDecoder, HeadNetwork, Network, Stack
from elman.training.storage import write_files

Scale = tuple[Array, Array]  # mean (X,) and standard deviation (X,)


def export_onnx(run: str | Path, out: str | Path, *, force: bool = False) -> ExportResult:
    """Export the best model of a run as ONNX (opset 22), for any ONNX runtime.

    A model of the task generate or translate becomes two files, NAME.encoder.onnx and NAME.decoder.onnx. Inputs are
    token ids, or unscaled numbers: standardization is part of the graph. float64 is rounded to float32. Needs the extra
    `onnx`.

    Parameters
    ----------
    run : str or Path
        The run folder.
    out : str or Path
        The .onnx file to write, NAME.onnx.
    force : bool
        Replace the file if it exists.

    Returns
    -------
    ExportResult

    Examples
    --------
    >>> import elman
    >>> from elman.exchange import export_onnx
    >>> model = elman.LanguageModel(hidden=8, steps=5).fit("hello world\\n" * 40, listeners=[])
    >>> folder = model.save("runs/hello")
    >>> export_onnx("runs/hello", "hello.onnx").paths[0].name
    'hello.onnx'
    """
    model, out = load_run(Path(run)).to_float32(), Path(out)
    files = {}
    signatures = []
    for part, graph in graphs(model).items():
        path = out.with_suffix(f".{part}{out.suffix}") if part else out
        refuse_existing(path, force=force)
        files[path] = graph.to_bytes({KEY: model.metadata()})
        signatures.append(f"{part} {graph.signature()}".strip())
    write_files(files)  # both files or none
    return ExportResult(list(files), f"Any ONNX runtime runs it: {'; '.join(signatures)}.")


def graphs(model: PortableModel) -> dict[str, Graph]:
    """The graph of a model under the key "", or two graphs under "encoder" and "decoder"."""
    p, network, spec = model.parameters, model.network, model.spec
    if isinstance(network, HeadNetwork) and spec.task != "lm":
        return {"": head_graph(network, p, scale=_scale(spec.inputs), target_scale=_scale(spec.targets))}
    if isinstance(network, EncoderDecoder):
        encoder = encoder_graph(network, p, labels=isinstance(spec.inputs, Labels), scale=_scale(spec.inputs))
        decoder = text_graph(network, p) if network.attention is None else attention_graph(network, p)
        return {"encoder": encoder, "decoder": decoder}
    return {"": text_graph(network, p)}


def _scale(numbers: object) -> Scale | None:
    return (numbers.mean, numbers.deviation) if isinstance(numbers, NumberInputs | Numbers) else None


# -- one graph for each kind of network -------------------------------------------------------------------------------


def text_graph(network: Network, p: Mapping[str, Array]) -> Graph:
    """From x (T, B) ids and h0 (L, B, H) to logits (T, B, V) and h_n (L, B, H), for any T."""
    stack, parts = network.stacks[-1], network.stacks[-1].cell.state_names
    shape = stack.layers, "B", stack.hidden
    graph = Graph("text")
    x = graph.input("x", np.int64, ("T", "B"))
    state = [graph.input(f"{part}0", np.float32, shape) for part in parts]
    read = recurrent(graph, stack, p, x, state=state)
    graph.output("logits", linear(graph, p, read.outputs), ("T", "B", network.outputs))
    for part, final in zip(parts, zip(*read.final, strict=True), strict=True):
        graph.output(f"{part}_n", _concatenated(graph, final), shape)
    return graph


def attention_graph(network: EncoderDecoder, p: Mapping[str, Array]) -> Graph:
    """One step of a decoder with attention (network/attention.py).

    Inputs: x (1, B) ids, h0 (L, B, H), h_tilde (B, H), which is zeros at the first step, values (T, B, M), the outputs
    of the encoder, and lengths (B,) of the source. Outputs: logits (1, B, V), h_n, h_tilde_n and alpha (T, B).
    """
    stack, parts = network.decoder, network.decoder.cell.state_names
    shape, H = (stack.layers, "B", stack.hidden), stack.hidden
    graph = Graph("attention")
    x = graph.input("x", np.int64, (1, "B"))
    state = [graph.input(f"{part}0", np.float32, shape) for part in parts]
    fed = graph.input("h_tilde", np.float32, ("B", H))
    assert network.encoder is not None
    values = graph.input("values", np.float32, ("T", "B", network.encoder.width))
    lengths = graph.input("lengths", np.int64, ("B",))
    w = {name: graph.weight(name, p[name]) for name in network.shapes if name.startswith("attention.")}
    # a[t] = x[t] @ W_xh + h_tilde[t] @ W_fh + h[t] @ W_hh + b_h
    read = recurrent(graph, stack, p, x, state=state, feed=graph.node("MatMul", fed, w["attention.W_fh"]))
    h = graph.node("Squeeze", read.outputs, graph.ints(0))  # (B, H)
    q = graph.node("MatMul", h, w["attention.W_q"])  # (B, K)
    if "attention.w_a" in w:
        # score[j] = tanh(q + values[j] @ W_k) @ w_a
        keys = graph.node("MatMul", values, w["attention.W_k"])  # (T, B, K)
        score = graph.node("MatMul", graph.node("Tanh", graph.node("Add", keys, q)), w["attention.w_a"])  # (T, B)
    else:
        # score[j] = q · values[j] / √K
        product = graph.node("ReduceSum", graph.node("Mul", values, q), graph.ints(2), keepdims=0)  # (T, B)
        score = graph.node("Div", product, graph.scalar(float(np.sqrt(network.encoder.width))))
    valid = _valid_steps(graph, values, lengths)  # (T, B)
    alpha = graph.node("Softmax", graph.node("Where", valid, score, graph.scalar(-np.inf)), axis=0)
    alpha = graph.node("Where", valid, alpha, graph.scalar(0))  # also where a row has no steps
    wide = graph.node("Unsqueeze", alpha, graph.ints(2))  # (T, B, 1)
    context = graph.node("ReduceSum", graph.node("Mul", wide, values), graph.ints(0), keepdims=0)  # (B, M)
    # h_tilde[t+1] = tanh([h[t+1], context[t]] @ W_c)
    found = graph.node("Tanh", graph.node("MatMul", _concatenated(graph, [h, context], axis=1), w["attention.W_c"]))
    logits = graph.node("Unsqueeze", linear(graph, p, found), graph.ints(0))
    graph.output("logits", logits, (1, "B", network.outputs))
    for part, final in zip(parts, zip(*read.final, strict=True), strict=True):
        graph.output(f"{part}_n", _concatenated(graph, final), shape)
    graph.output("h_tilde_n", found, ("B", H))
    graph.output("alpha", alpha, ("T", "B"))
    return graph


def head_graph(
    network: HeadNetwork, p: Mapping[str, Array], *, scale: Scale | None = None, target_scale: Scale | None = None
) -> Graph:
    """From x (T, B) ids or (T, B, X) numbers and lengths (B,) to logits (B, Y), or (T, B, Y) for a tagger.

    With `target_scale` (regression) the output is y (B, Y) in float64, in the units of the data.
    """
    graph = Graph("sequences")
    x, lengths = _sequences(graph, network.stack, scale)
    read = recurrent(graph, network.stack, p, x, lengths=lengths)
    every = network.pooling == "none"
    o = linear(graph, p, read.outputs if every else pooled(graph, read, network.pooling, lengths))
    if target_scale is None:
        graph.output("logits", o, ("T", "B", network.outputs) if every else ("B", network.outputs))
    else:
        mean, deviation = (graph.weight64(name, target_scale[i]) for i, name in enumerate(("y.mean", "y.deviation")))
        wide = graph.node("Cast", o, to=graph.onnx.TensorProto.DOUBLE)
        y = graph.node("Add", graph.node("Mul", wide, deviation), mean)
        graph.output("y", y, ("B", network.outputs), np.float64)
    return graph


def encoder_graph(
    network: EncoderDecoder,
    p: Mapping[str, Array],
    *,
    labels: bool = False,  # the condition is a label id instead of numbers
    scale: Scale | None = None,
) -> Graph:
    """From a source x with lengths (B,), or a condition x (B,) ids or (B, X), to h0 (L, B, H) of the decoder.

    For a decoder with attention the outputs of the encoder, values (T, B, M), are an output too.
    """
    graph, decoder, encoder = Graph("start"), network.decoder, network.encoder
    shape, parts = (decoder.layers, "B", decoder.hidden), decoder.cell.state_names
    if encoder is None:
        c = graph.input("x", np.int64, ("B",)) if labels else _numbers(graph, ("B", network.conditions), scale)
    else:
        x, lengths = _sequences(graph, encoder, scale)
        read = recurrent(graph, encoder, p, x, lengths=lengths)
        states = [_concatenated(graph, final) for final in zip(*read.final, strict=True)]  # (L·D, B, H) each
        if network.attention is not None:
            graph.output("values", read.outputs, ("T", "B", encoder.width))
        if not network.bridged:
            for part, value in zip(parts, states, strict=True):
                graph.output(f"{part}0", value, shape)
            return graph
        rows = [graph.node("Transpose", value, perm=[1, 0, 2]) for value in states]  # (B, L·D, H) each
        c = graph.node("Flatten", _concatenated(graph, rows, axis=2))  # (B, L·D·P·H)
    # s0 = c @ W_ch + b_h
    W_ch = graph.weight("bridge.W_ch", p["bridge.W_ch"])
    product = graph.node("Gather", W_ch, c) if labels else graph.node("MatMul", c, W_ch)  # (B, L·P·H)
    s = graph.node("Add", product, graph.weight("bridge.b_h", p["bridge.b_h"]))
    layers = graph.node("Reshape", s, graph.ints(0, decoder.layers, len(parts) * decoder.hidden))  # (B, L, P·H)
    starts = [layers]
    if len(parts) > 1:
        starts = [f"bridge.{part}0" for part in parts]
        graph.node("Split", layers, name=starts[0], also=tuple(starts[1:]), axis=2, num_outputs=len(parts))
    for part, start in zip(parts, starts, strict=True):
        graph.output(f"{part}0", graph.node("Transpose", start, perm=[1, 0, 2]), shape)
    return graph


def _sequences(graph: Graph, stack: Stack, scale: Scale | None) -> tuple[str, str]:
    """The inputs x, (T, B) ids or (T, B, X) numbers, and lengths (B,)."""
    steps = ("T", "B")
    x = graph.input("x", np.int64, steps) if stack.tokens else _numbers(graph, (*steps, stack.inputs), scale)
    return x, graph.input("lengths", np.int64, ("B",))


def _numbers(graph: Graph, shape: tuple[int | str, ...], scale: Scale | None) -> str:
    """The input x of numbers, standardized and then rounded to float32."""
    x = graph.input("x", np.float64, shape)
    if scale is not None:
        mean, deviation = (graph.weight64(name, scale[i]) for i, name in enumerate(("x.mean", "x.deviation")))
        x = graph.node("Div", graph.node("Sub", x, mean), deviation)
    return graph.node("Cast", x, to=graph.onnx.TensorProto.FLOAT)


def _concatenated(graph: Graph, values: Sequence[str], axis: int = 0) -> str:
    return values[0] if len(values) == 1 else graph.node("Concat", *values, axis=axis)


# -- layers -----------------------------------------------------------------------------------------------------------


class StackOutput(NamedTuple):
    """The values that a stack of layers computes."""

    outputs: str  # (T, B, D·H), of the last layer; meaningless past a row's length
    final: list[list[str]]  # (D, B, H) of each layer and state part, after the last step of each row


def recurrent(
    graph: Graph,
    stack: Stack,
    p: Mapping[str, Array],
    x: str,  # (T, B) ids or (T, B, X)
    *,
    lengths: str | None = None,  # (B,)
    state: Sequence[str] = (),  # (L·D, B, H) of each state part; zeros or learned unless given
    feed: str | None = None,  # (B, G·H), added to the input product of the first layer
) -> StackOutput:
    """Add the nodes of all layers of a stack."""
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
        directions = [
            {short: p[f"{name}.{short}"] for short in stack.cell.shapes(0, H)}
            for name in stack.names[layer * D : (layer + 1) * D]
        ]
        if layer == 0 and stack.tokens:
            x = _first_input(graph, stack, p, x, directions, feed)
        W, R, B = (np.stack(arrays) for arrays in zip(*map(row.to_onnx, directions), strict=True))
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
            # the operator returns 0 as the final state of a row without steps, which must be its initial state
            none = graph.node("Unsqueeze", graph.node("Equal", lengths, graph.ints(0)), graph.ints(1))  # (B, 1)
            last = [graph.node("Where", none, first, after) for first, after in zip(start, last, strict=True)]
        final.append(last)
        if D == 1:
            x = graph.node("Squeeze", f"{name}.h", graph.ints(1))  # (T, B, H)
        else:
            transposed = graph.node("Transpose", f"{name}.h", perm=[0, 2, 1, 3])  # (T, B, D, H)
            x = graph.node("Reshape", transposed, graph.ints(0, 0, D * H))  # (T, B, D·H)
    return StackOutput(x, final)


def linear(graph: Graph, p: Mapping[str, Array], h: str, prefix: str = "head.") -> str:
    """o = h @ W_hy + b_y"""
    product = graph.node("MatMul", h, graph.weight(f"{prefix}W_hy", p[f"{prefix}W_hy"]))
    return graph.node("Add", product, graph.weight(f"{prefix}b_y", p[f"{prefix}b_y"]))


def pooled(graph: Graph, read: StackOutput, how: str, lengths: str) -> str:
    """One vector (B, D·H) per row: the final state, or the mean or maximum of the outputs over the steps of the row."""
    if how == "last":
        rows = graph.node("Transpose", read.final[-1][0], perm=[1, 0, 2])  # (B, D, H)
        return graph.node("Flatten", rows)
    valid = graph.node("Unsqueeze", _valid_steps(graph, read.outputs, lengths), graph.ints(2))  # (T, B, 1)
    if how == "mean":
        own = graph.node("Where", valid, read.outputs, graph.scalar(0))
        total = graph.node("ReduceSum", own, graph.ints(0), keepdims=0)  # (B, D·H)
        steps = graph.node("Cast", graph.node("Max", lengths, graph.ints(1)), to=graph.onnx.TensorProto.FLOAT)
        return graph.node("Div", total, graph.node("Unsqueeze", steps, graph.ints(1)))
    if how != "max":
        raise ArgumentError("pooling", expected="last, mean or max", got=repr(how))
    own = graph.node("Where", valid, read.outputs, graph.scalar(-np.inf))
    largest = graph.node("ReduceMax", own, graph.ints(0), keepdims=0)  # (B, D·H)
    none = graph.node("Unsqueeze", graph.node("Equal", lengths, graph.ints(0)), graph.ints(1))  # (B, 1)
    return graph.node("Where", none, graph.scalar(0), largest)


def _valid_steps(graph: Graph, values: str, lengths: str) -> str:
    """A mask (T, B), true for the steps before the length of a row."""
    T = graph.node("Shape", values, start=0, end=1)
    counted = graph.node("Range", _scalar(graph, 0), graph.node("Squeeze", T), _scalar(graph, 1))  # (T,)
    return graph.node("Less", graph.node("Unsqueeze", counted, graph.ints(1)), lengths)


def _first_input(
    graph: Graph,
    stack: Stack,
    p: Mapping[str, Array],
    ids: str,
    directions: list[dict[str, Array]],  # the parameters of the first layer in each direction; changed in place
    feed: str | None = None,
) -> str:
    """The input of the first layer's operator for tokens.

    With an embedding it is each token's row of the embedding. For one-hot tokens, or with `feed`, it is the product
    with W_xh of all directions, plus `feed`; then the identity takes the place of W_xh in `directions`.
    """
    name = f"{stack.prefix}embedding.W"
    if stack.embedding:
        x = graph.node("Gather", graph.weight(name, p[name]), ids)
        if feed is None:
            return x
    rows = np.concatenate([weights["W_xh"] for weights in directions], axis=1)  # (V, D·G·H)
    identity = np.eye(rows.shape[1])
    for weights, columns in zip(directions, np.split(identity, len(directions), axis=1), strict=True):
        weights["W_xh"] = columns
    W_xh = graph.weight(f"{stack.prefix}layers.0.W_xh", rows)
    a = graph.node("MatMul", x, W_xh) if stack.embedding else graph.node("Gather", W_xh, ids)
    return a if feed is None else graph.node("Add", a, feed)


def _initial_states(
    graph: Graph, stack: Stack, p: Mapping[str, Array], x: str, state: Sequence[str]
) -> list[list[str]]:
    """The names of the initial states, (D, B, H) for each layer and state part; an empty name stands for zeros."""
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
    size = graph.node("Concat", graph.ints(1), B, graph.ints(1), axis=0)
    starts = []
    for layer in layers:
        ours = stack.names[layer * D : (layer + 1) * D]  # the names of the layer in each direction
        learned = [np.stack([p[f"{name}.{part}0"] for name in ours])[:, np.newaxis] for part in parts]  # (D, 1, H)
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
    return graph.node("Squeeze", graph.ints(value))
