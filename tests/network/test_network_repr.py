"""What a network prints: a line with cell, layers, units, inputs → outputs and the number of its parameters."""

import numpy as np
import pytest

from elman.maths.activations import Activation
from elman.maths.cells import make_cell
from elman.network import EncoderDecoder, HeadNetwork, Parameters, Stack
from elman.network.network import language_network

GRU = {"cell": "gru", "bidirectional": True, "prefix": "encoder."}
OWN = make_cell("rnn", Activation(np.tanh, lambda h: 1 - h**2))
CASES = [
    (language_network(75, 256), "HeadNetwork(75 tokens → 1 layer of 256 tanh units → 75 outputs; 104,267 parameters)"),
    (
        language_network(1200, 64, 2, cell="lstm", embedding=32),
        "HeadNetwork(1,200 tokens → embedding of 32 → 2 layers of 64 LSTM units → 1,200 outputs; 174,256 parameters)",
    ),
    (
        HeadNetwork(Stack(3, 8, cell="gru", bidirectional=True, tokens=False), 1, pooling="mean", loss="squared"),
        "HeadNetwork(3 numbers → 1 layer of 8 GRU units, two directions → 1 output; 609 parameters)",
    ),
    (
        HeadNetwork(Stack(2, 4, cell=OWN), 2),
        "HeadNetwork(2 tokens → 1 layer of 4 RNN units → 2 outputs; 38 parameters)",
    ),
    (
        EncoderDecoder(18, Stack(30, 4, prefix="decoder."), 30, edge=0),
        "EncoderDecoder(condition of 18; decoder: 30 tokens → 1 layer of 4 tanh units → 30 outputs; 366 parameters)",
    ),
    (
        EncoderDecoder(Stack(20, 8, **GRU), Stack(30, 8, prefix="decoder."), 30, edge=0, attention="dot"),
        "EncoderDecoder(encoder: 20 tokens → 1 layer of 8 GRU units, two directions; decoder: 30 tokens → 1 layer of 8 "
        "tanh units, dot attention → 30 outputs; 2,510 parameters)",
    ),
]


@pytest.mark.parametrize(("network", "line"), CASES)
def test_a_network_is_described_in_one_line(network, line):
    assert repr(network) == line
    assert f"; {Parameters(network.shapes, np.float32).buffer.size:,} parameters)" in line


def test_a_stack_is_described_too():
    assert repr(Stack(75, 256, 2, cell="gru")) == "75 tokens → 2 layers of 256 GRU units"
    assert repr(Stack(1, 8, tokens=False)) == "1 number → 1 layer of 8 tanh units"
