"""PyTorch's names for our parameters: nn.RNN, nn.Linear and nn.Embedding, whose matrices are the transposes of ours.

    layers.0.W_xh   rnn.weight_ih_l0                  head.W_hy     linear.weight
    layers.0.W_hh   rnn.weight_hh_l0                  head.b_y      linear.bias
    layers.0.b_h    rnn.bias_ih_l0, bias_hh_l0        embedding.W   embedding.weight, not transposed
    layers.0.h0     h0 (layers · directions, 1, H)    bridge.W_ch   bridge.weight

What is in a layer is up to its cell (cells.py). A network that writes has the parts encoder and decoder before these
names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from elman.errors import CheckpointError
from elman.exchange.cells import TENSORS, format_of, unknown_activation
from elman.maths.arrays import Array
from elman.network import Network, Stack

OTHERS = {
    "head.W_hy": "linear.weight",
    "head.b_y": "linear.bias",
    "bridge.W_ch": "bridge.weight",
    "bridge.b_h": "bridge.bias",
}


def to_torch(network: Network, p: Mapping[str, Array]) -> dict[str, Array]:
    """A state dict."""
    for cell in (stack.cell for stack in network.stacks):
        row = format_of(cell)
        if cell.activation not in row.torch_activations:
            do = "Export it with --to onnx or --to npz."
            raise unknown_activation(f"PyTorch's nn.{row.name}", cell, " or ".join(row.torch_activations), do=do)
    return _state_dict(network, p)


def from_torch(path: Path, state: Mapping[str, Array], network: Network) -> dict[str, Array]:
    """The parameters of a network, from a state dict that to_torch has made."""
    # no array is made, since a file may claim any size
    none = {name: np.broadcast_to(np.float32(0), shape) for name, shape in network.shapes.items()}
    expected = {name: array.shape for name, array in _state_dict(network, none).items()}
    if odd := sorted(set(state) ^ set(expected)):
        raise CheckpointError(f"{path}", expected=f"{len(expected)} tensors", got=f"a difference in {odd[:6]}")
    for name, shape in expected.items():
        if state[name].shape != shape:
            raise CheckpointError(f"{path}, {name}", expected=f"shape {shape}", got=state[name].shape)
    p = {ours: state[theirs].T for ours, theirs in OTHERS.items() if theirs in state}
    for stack in network.stacks:
        cell, prefix = stack.cell, stack.prefix
        if stack.embedding:
            p[f"{prefix}embedding.W"] = state[f"{prefix}embedding.weight"]
        for number, (name, end) in enumerate(_layers(stack)):
            tensors = {kind: state[f"{prefix}rnn.{kind}{end}"] for kind in TENSORS}
            p |= {f"{name}.{short}": array for short, array in format_of(cell).from_torch(tensors).items()}
            if stack.learned_state:
                p |= {f"{name}.{part}0": state[f"{prefix}{part}0"][number, 0] for part in cell.state_names}
    return p


def _state_dict(network: Network, p: Mapping[str, Array]) -> dict[str, Array]:
    state: dict[str, Array] = {}
    for stack in network.stacks:
        cell, prefix = stack.cell, stack.prefix
        if stack.embedding:
            state[f"{prefix}embedding.weight"] = p[f"{prefix}embedding.W"]
        for name, end in _layers(stack):
            weights = {short: p[f"{name}.{short}"] for short in cell.shapes(0, stack.hidden)}
            tensors = format_of(cell).to_torch(weights)
            state |= {f"{prefix}rnn.{kind}{end}": array for kind, array in tensors.items()}
        if stack.learned_state:
            for part in cell.state_names:
                rows = np.stack([p[f"{name}.{part}0"] for name in stack.names])
                state[f"{prefix}{part}0"] = rows[:, np.newaxis]  # (L·D, 1, H)
    return state | {theirs: p[ours].T for ours, theirs in OTHERS.items() if ours in p}


def _layers(stack: Stack) -> Iterator[tuple[str, str]]:
    """Our name of each layer and direction, and how PyTorch's names end there."""
    D = len(stack.directions)
    for number, name in enumerate(stack.names):
        yield name, f"_l{number // D}{'_reverse' if stack.directions[number % D] else ''}"
