"""PyTorch's names for our parameters: nn.RNN, nn.Linear and nn.Embedding, whose matrices are the transposes of ours.

    layers.0.W_xh   rnn.weight_ih_l0                  head.W_hy     linear.weight
    layers.0.W_hh   rnn.weight_hh_l0                  head.b_y      linear.bias
    layers.0.b_h    rnn.bias_ih_l0, bias_hh_l0        embedding.W   embedding.weight, not transposed
    layers.0.h0     h0 (layers · directions, 1, H)    bridge.W_ch   bridge.weight

nn.RNN adds two biases: b_h leaves as the first beside zeros, and what comes in is their sum. A network that writes has
the parts encoder and decoder before these names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from elman.errors import ArgumentError, CheckpointError
from elman.maths.activations import ActivationLike
from elman.maths.arrays import Array

ACTIVATIONS = ("tanh", "relu")  # the nonlinearities of nn.RNN
OF_A_LAYER = re.compile(r"(.*)layers\.(\d+)(\.reverse)?\.(\w+)")
LAYER = {"W_xh": "weight_ih", "W_hh": "weight_hh", "b_h": "bias_ih"}
OTHERS = {
    "head.W_hy": "linear.weight",
    "head.b_y": "linear.bias",
    "bridge.W_ch": "bridge.weight",
    "bridge.b_h": "bridge.bias",
}


def to_torch(p: Mapping[str, Array], activation: ActivationLike) -> dict[str, Array]:
    """A state dict."""
    if activation not in ACTIVATIONS:
        got = repr(activation) if isinstance(activation, str) else "a function of your own"
        raise ArgumentError(
            "PyTorch's nn.RNN does not know this activation",
            expected=" or ".join(ACTIVATIONS),
            got=got,
            do="Export it with --to onnx or --to npz.",
        )
    state: dict[str, Array] = {}
    for name, array in p.items():
        theirs = torch_name(name)
        if name.endswith(".h0"):
            row = array[np.newaxis, np.newaxis]  # (1, 1, H)
            state[theirs] = np.concatenate([state[theirs], row]) if theirs in state else row
        else:
            state[theirs] = array if name.endswith("embedding.W") else array.T
        if ".bias_ih_" in theirs:
            state[theirs.replace("_ih_", "_hh_")] = np.zeros_like(array)
    return state


def from_torch(path: Path, state: Mapping[str, Array], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    """The parameters with these names and shapes, from a state dict that to_torch has made."""
    expected = torch_shapes(shapes)
    if odd := sorted(set(state) ^ set(expected)):
        raise CheckpointError(f"{path}", expected=f"{len(expected)} tensors", got=f"a difference in {odd[:6]}")
    for name, shape in expected.items():
        if state[name].shape != shape:
            raise CheckpointError(f"{path}, {name}", expected=f"shape {shape}", got=state[name].shape)
    p: dict[str, Array] = {}
    rows = dict.fromkeys(expected, 0)  # of each initial state, that are taken already
    for name in shapes:
        theirs = torch_name(name)
        if name.endswith(".h0"):
            p[name] = state[theirs][rows[theirs], 0]
            rows[theirs] += 1
        else:
            p[name] = state[theirs] if name.endswith("embedding.W") else state[theirs].T
        if ".bias_ih_" in theirs:
            p[name] = merged(p[name], state[theirs.replace("_ih_", "_hh_")])
    return p


def torch_shapes(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Of what to_torch makes; no array is, since a file may claim any size."""
    found: dict[str, tuple[int, ...]] = {}
    for name, shape in shapes.items():
        theirs = torch_name(name)
        if name.endswith(".h0"):
            found[theirs] = (found.get(theirs, (0,))[0] + 1, 1, *shape)
        else:
            found[theirs] = shape if name.endswith("embedding.W") else shape[::-1]
        if ".bias_ih_" in theirs:
            found[theirs.replace("_ih_", "_hh_")] = shape
    return found


def torch_name(name: str) -> str:
    match = OF_A_LAYER.fullmatch(name)
    if match is None:
        return OTHERS.get(name) or name.replace("embedding.W", "embedding.weight")
    prefix, layer, reverse, kind = match.groups()
    return f"{prefix}h0" if kind == "h0" else f"{prefix}rnn.{LAYER[kind]}_l{layer}{'_reverse' if reverse else ''}"


def merged(first: Array, second: Array) -> Array:
    """Two biases as one; beside a zero the other stays as it is, to the sign of its own zeros."""
    return np.where(second == 0, first, first + second)
