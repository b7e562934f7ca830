"""Gated cells in other formats: gates are reordered, biases merged or kept, all state parts exchanged."""

from __future__ import annotations

import numpy as np
import pytest
from exchange_tools import check_onnx, session

from elman.errors import CheckpointError
from elman.exchange import export_onnx, export_torch
from elman.exchange.cells import FORMATS
from elman.exchange.model_file import save_run
from elman.exchange.onnx_read import read_onnx
from elman.exchange.onnx_write import encoder_graph, head_graph, text_graph
from elman.exchange.pytorch import from_other_module, from_torch, read_torch, to_torch
from elman.maths.cells import CELLS
from elman.models import LanguageModel
from elman.network import EncoderDecoder, HeadNetwork, Parameters, Stack, language_network

V, H, T, B = 5, 4, 6, 3

gated = pytest.mark.parametrize("cell", ["gru", "lstm"])


def filled(network):
    p = Parameters(network.shapes, np.float32)
    p.buffer[:] = 0.5 * np.random.default_rng(0).standard_normal(p.buffer.size)
    return p


def agree(theirs, ours):
    np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-5)


def same(found, p):
    assert set(found) == set(p)
    assert all(np.array_equal(found[name], array) for name, array in p.items())


def state_inputs(cell, state):
    return {f"{part}0": state[:, i] for i, part in enumerate(CELLS[cell].state_names)}


def test_every_cell_can_be_exchanged():
    assert set(CELLS) == set(FORMATS)
    for name, row in FORMATS.items():
        assert tuple(row.gates) == CELLS[name].gate_names
        assert sorted(row.gates) == sorted(row.onnx_gates)


def test_biases_that_are_added_are_merged_and_others_kept():
    row = FORMATS["gru"]
    p = {"W_xh": np.ones((2, 6)), "W_hh": np.ones((2, 6)), "b_h": np.arange(6.0), "b_hn": np.array([8.0, 9.0])}
    tensors = row.to_torch(p)
    assert tensors["bias_ih"].tolist() == [0, 1, 2, 3, 4, 5]
    assert tensors["bias_hh"].tolist() == [0, 0, 0, 0, 8, 9]
    tensors["bias_hh"] = np.array([1.0, 1, 2, 2, 8, 9])
    back = row.from_torch(tensors)
    assert back["b_h"].tolist() == [1, 2, 4, 5, 4, 5]
    assert back["b_hn"].tolist() == [8, 9]
    # ONNX's order is z, r, h
    assert row.to_onnx(p)[2].tolist() == [2, 3, 0, 1, 4, 5, 0, 0, 0, 0, 8, 9]


@gated
@pytest.mark.parametrize("layers", [1, 2])
def test_gated_text_models_equal_ours_in_onnx(cell, layers):
    network = language_network(V, H, layers, cell=cell)
    p, rng = filled(network), np.random.default_rng(1)
    data = text_graph(network, p).to_bytes({})
    check_onnx(data)
    x = rng.integers(V, size=(T, B))
    state = rng.standard_normal((layers, network.stack.cell.parts, B, H)).astype(np.float32)
    logits, *last = session(data).run(None, {"x": x, **state_inputs(cell, state)})
    o, after = network.read(network.pack(p), x, state)
    agree(logits, o)
    agree(np.stack(last, axis=1), after)


@gated
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("to", ["onnx", "torch"])
def test_a_trained_gated_model_is_imported_bit_for_bit(tmp_path, cell, layers, to):
    text = "the cat sat on the mat; the dog sat on the log\n" * 20
    options = {"hidden": 12, "layers": layers, "steps": 30, "batch_size": 4, "window": 16}
    before = LanguageModel(cell=cell, **options).fit(text)
    run = before.save(tmp_path / "run")
    if to == "onnx":
        export_onnx(run, tmp_path / "model.onnx")
        back = read_onnx(tmp_path / "model.onnx")
    else:
        export_torch(run, tmp_path / "model.safetensors")
        back = read_torch(tmp_path / "model.safetensors")
    after = LanguageModel.load(save_run(back, tmp_path / "back").path)
    assert after.parameters_.buffer.tobytes() == before.parameters_.buffer.tobytes()
    assert after.config_ == before.config_
    assert after.sample(80, seed=3) == before.sample(80, seed=3)


@gated
@pytest.mark.parametrize("learned", [False, True])
def test_gated_sequence_models_equal_ours_in_onnx(cell, learned):
    stack = Stack(V, H, 2, cell=cell, bidirectional=True, embedding=3, learned_state=learned)
    network = HeadNetwork(stack, 2, pooling="last")
    p, rng = filled(network), np.random.default_rng(1)
    data = head_graph(network, p).to_bytes({})
    check_onnx(data)
    x, lengths = rng.integers(V, size=(T, B)), np.array([T, 0, 2])
    (logits,) = session(data).run(None, {"x": x, "lengths": lengths})
    agree(logits, network.outputs_of(network.pack(p), x, lengths))


@gated
@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_gated_encoder_gives_all_parts_of_the_state(cell, bidirectional):
    encoder = Stack(V, H, 2, cell=cell, bidirectional=bidirectional, prefix="encoder.")
    network = EncoderDecoder(encoder, Stack(V, H, 2, cell=cell, prefix="decoder."), V, edge=1)
    p, rng = filled(network), np.random.default_rng(1)
    data = encoder_graph(network, p).to_bytes({})
    check_onnx(data)
    x, lengths = rng.integers(V, size=(T, B)), np.array([T, 1, 3])
    start = session(data).run(None, {"x": x, "lengths": lengths})
    agree(np.stack(start, axis=1), network.initial_state(network.pack(p), x, lengths).state)


@gated
def test_a_gated_state_dict_is_imported_exactly(tmp_path, cell):
    stack = Stack(V, H, 2, cell=cell, bidirectional=True, learned_state=True)
    network = HeadNetwork(stack, 2)
    p = filled(network)
    same(from_torch(tmp_path, to_torch(network, p), network), p)


@gated
def test_the_cell_of_a_foreign_state_dict_is_found(tmp_path, cell):
    network = language_network(V, H, 2, cell=cell)
    p = filled(network)
    found, kind = from_other_module(tmp_path, to_torch(network, p))
    assert kind == cell
    same(found, p)


def test_layers_of_several_cells_are_refused(tmp_path):
    first, second = (to_torch(net, filled(net)) for net in (language_network(V, H, 2, cell=c) for c in ("rnn", "gru")))
    mixed = first | {name: array for name, array in second.items() if name.endswith("_l1")}
    with pytest.raises(CheckpointError, match="one cell in all layers, got gru, rnn"):
        from_other_module(tmp_path, mixed)
