"""ONNX files that elman export did not write, or that were changed since, are refused with the reason."""

from __future__ import annotations

import json
import re
import sys

import numpy as np
import onnx
import pytest
from exchange_tools import random_run
from onnx import TensorProto, helper, numpy_helper

from elman.errors import CheckpointError, ElmanError
from elman.exchange import export_onnx
from elman.exchange.model_file import save_run
from elman.exchange.onnx_read import read_onnx

FOREIGN = r"is not an ONNX file of elman export, and Elman reads no others\. Import the PyTorch state dict"


@pytest.fixture
def file(tmp_path):
    export_onnx(random_run(tmp_path / "run", layers=1, cell="gru"), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def test_a_file_of_another_project_is_refused(tmp_path):
    """A language model in operators of ONNX, as another tool would write it."""
    V, E, H = 5, 3, 4
    rng = np.random.default_rng(0)
    shapes = {"embedding": (V, E), "W": (1, H, E), "R": (1, H, H), "W_hy": (H, V)}
    weights = [numpy_helper.from_array(rng.random(shape, np.float32), name) for name, shape in shapes.items()]
    nodes = [
        helper.make_node("Gather", ["embedding", "x"], ["x_t"]),
        helper.make_node("RNN", ["x_t", "W", "R"], ["h"], hidden_size=H),
        helper.make_node("MatMul", ["h", "W_hy"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.INT64, ["T", "B"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * 4)
    onnx.save(helper.make_model(helper.make_graph(nodes, "theirs", [x], [y], weights)), tmp_path / "theirs.onnx")
    with pytest.raises(CheckpointError, match=FOREIGN):
        read_onnx(tmp_path / "theirs.onnx")


def test_our_own_file_without_its_metadata_is_refused(file):
    model = onnx.load(file)
    del model.metadata_props[:]
    onnx.save(model, file)
    with pytest.raises(CheckpointError, match=FOREIGN):
        read_onnx(file)


def recurrent(model):
    return next(node for node in model.graph.node if node.op_type == "GRU")


def weight(model, name):
    return next(weight for weight in model.graph.initializer if weight.name == name)


def replace(model, name, array):
    weight(model, name).CopyFrom(numpy_helper.from_array(array, name))


def with_other_options(model, **options):
    facts = json.loads(model.metadata_props[0].value)
    facts["config"] |= options
    model.metadata_props[0].value = json.dumps(facts)


def another_operator(model):
    next(node for node in model.graph.node if node.op_type == "Add").op_type = "Mul"


def an_operator_more(model):
    model.graph.node[-1].output[0] = "before"
    model.graph.node.append(helper.make_node("Neg", ["before"], ["h_n"]))


def a_foreign_operator(model):
    model.opset_import.append(helper.make_opsetid("com.example", 1))
    recurrent(model).domain = "com.example"


def an_operator_of_its_own(model):
    inputs, body = ["X", "W", "R", "B", "lengths", "h0"], [helper.make_node("Identity", ["X"], ["Y"])]
    model.functions.append(helper.make_function("", "GRU", inputs, ["Y"], body, [helper.make_opsetid("", 22)]))


def another_gru(model):
    next(a for a in recurrent(model).attribute if a.name == "linear_before_reset").i = 0


def clipped(model):
    recurrent(model).attribute.append(helper.make_attribute("clip", 1.0))


def two_biases(model):
    """Their sum would be our bias, and the file ours no longer."""
    replace(model, "layers.0.B", np.ones((1, 72), np.float32))


def a_changed_identity(model):
    replace(model, "layers.0.W", 2 * np.eye(36, dtype=np.float32)[np.newaxis])


def other_axes(model):
    replace(model, "ints.1", np.array([0]))


def a_weight_too_many(model):
    model.graph.initializer.append(numpy_helper.from_array(np.ones(3, np.float32), "more"))


def another_opset(model):
    model.opset_import[0].version = 21


def another_cell(model):
    with_other_options(model, cell="lstm")


def another_number_of_units(model):
    with_other_options(model, hidden=13)


def more_units_than_fit_in_memory(model):
    with_other_options(model, hidden=2**19)


def no_weights(model):
    del model.graph.initializer[:]


def a_weight_of_another_shape(model):
    replace(model, "layers.0.R", np.ones((1, 36, 13), np.float32))


def a_weight_of_another_rank(model):
    replace(model, "layers.0.R", np.float32(1))


def a_short_weight(model):
    weight(model, "layers.0.R").raw_data = b"\0" * 7


def not_a_number(model):
    replace(model, "head.b_y", np.full(12, np.nan, np.float32))


def no_json(model):
    model.metadata_props[0].value = "{"


GRAPH = "expected the graph that elman export writes, got another graph. Export the run again."
DAMAGED = "is damaged: weights are missing, or of another shape"
CHANGES = {
    another_operator: GRAPH,
    an_operator_more: GRAPH,
    a_foreign_operator: GRAPH,
    an_operator_of_its_own: GRAPH,
    another_gru: GRAPH,
    clipped: GRAPH,
    two_biases: GRAPH,
    a_changed_identity: GRAPH,
    other_axes: GRAPH,
    a_weight_too_many: GRAPH,
    another_opset: GRAPH,
    another_cell: "expected shape",
    another_number_of_units: "expected shape",
    more_units_than_fit_in_memory: "expected at most",
    no_weights: DAMAGED,
    a_weight_of_another_shape: "expected shape (12, 36), got (13, 36)",
    a_weight_of_another_rank: DAMAGED,
    a_short_weight: DAMAGED,
    not_a_number: "expected finite numbers",
    no_json: "is damaged: its metadata are not JSON",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_file_is_refused(file, change):
    model = onnx.load(file)
    change(model)
    onnx.save(model, file)
    with pytest.raises(ElmanError) as caught:
        read_onnx(file)
    assert CHANGES[change] in str(caught.value)


def test_a_file_whose_metadata_name_another_activation_is_refused(tmp_path):
    export_onnx(random_run(tmp_path / "run", activation="relu"), tmp_path / "model.onnx")
    model = onnx.load(tmp_path / "model.onnx")
    with_other_options(model, activation="tanh")
    onnx.save(model, tmp_path / "model.onnx")
    with pytest.raises(CheckpointError, match=re.escape(GRAPH)):
        read_onnx(tmp_path / "model.onnx")


def test_files_of_two_kinds_of_model_are_not_mixed(tmp_path, file):
    """One that has both parts, and a decoder without its encoder."""
    (tmp_path / "x.encoder.onnx").write_bytes(file.read_bytes())
    (tmp_path / "x.decoder.onnx").write_bytes(file.read_bytes())
    with pytest.raises(CheckpointError, match=re.escape(GRAPH)):
        read_onnx(tmp_path / "x.onnx")
    (tmp_path / "x.encoder.onnx").unlink()
    with pytest.raises(FileNotFoundError, match=r"x\.encoder\.onnx"):
        read_onnx(tmp_path / "x.decoder.onnx")


def test_a_file_saved_again_is_read(file):
    before = read_onnx(file)
    onnx.save(onnx.load(file), file)
    after = read_onnx(file)
    assert all(np.array_equal(after.parameters[name], array) for name, array in before.parameters.items())


@pytest.mark.parametrize("data", [b"<html><body>" * 20, b"\x00" * 100])
def test_a_file_of_another_format_is_refused(tmp_path, data):
    (tmp_path / "x.onnx").write_bytes(data)
    with pytest.raises(CheckpointError, match="is not a valid ONNX file"):
        read_onnx(tmp_path / "x.onnx")


def test_weights_in_another_file_are_refused_unread(file, monkeypatch):
    onnx.save(onnx.load(file), file, save_as_external_data=True, location="weights", size_threshold=0)
    assert (file.parent / "weights").is_file()
    monkeypatch.chdir(file.parent)  # where onnx would look for it
    with pytest.raises(CheckpointError, match=DAMAGED):
        read_onnx(file)


@pytest.mark.parametrize("seed", range(40))
def test_a_damaged_file_is_refused_or_read_whole(file, seed):
    """Bytes are changed or removed at random: the result is an error of ours, or a model."""
    data, rng = bytearray(file.read_bytes()), np.random.default_rng(seed)
    for _ in range(5):
        data[rng.integers(len(data))] = rng.integers(256)
    if seed % 4 == 0:
        del data[rng.integers(len(data)) :]
    file.write_bytes(data)
    try:
        model = read_onnx(file)
    except ElmanError:
        return
    assert save_run(model, file.parent / "back").path.is_dir()


def test_without_onnx_the_message_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    run = random_run(tmp_path / "run")
    with pytest.raises(ImportError, match=r"pip install 'elman\[onnx\]'"):
        export_onnx(run, tmp_path / "model.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
