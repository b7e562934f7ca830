"""ONNX files of other tools: we compute the same, or they are refused with the reason."""

from __future__ import annotations

import json
import sys

import numpy as np
import onnx
import pytest
from exchange_tools import random_model, random_run, session
from onnx import TensorProto, helper, numpy_helper

from elman.errors import CheckpointError, ElmanError
from elman.exchange import export_onnx
from elman.exchange.model_file import save_run
from elman.exchange.onnx_read import read_onnx
from elman.models import LanguageModel

V, E, H, T = 5, 3, 4, 6


@pytest.fixture
def letters(tmp_path):
    (tmp_path / "letters.json").write_text(json.dumps(list("abcde")))
    return tmp_path / "letters.json"


class Maker:
    """A graph by hand, as another tool would write it."""

    def __init__(self):
        self.nodes, self.weights, self.rng = [], [], np.random.default_rng(0)
        self.inputs = [("x", TensorProto.INT64, ["T", "B"])]
        self.outputs = [("y", TensorProto.FLOAT, [None] * 3)]

    def weight(self, *shape, value=None, dtype=np.float32):
        array = 0.5 * self.rng.standard_normal(shape) if value is None else np.asarray(value)
        self.weights.append(numpy_helper.from_array(array.astype(dtype), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def ints(self, *numbers):
        return self.weight(value=numbers, dtype=np.int64)

    def node(self, operator, *inputs, out=None, **attributes):
        out = out or [f"n{len(self.nodes)}"]
        self.nodes.append(helper.make_node(operator, inputs, out, **attributes))
        return out[0]

    def rnn(self, x, inputs, *, operator="RNN", gates=1, start="", D=1, **attributes):
        W, R = self.weight(D, gates * H, inputs), self.weight(D, gates * H, H)
        B = self.weight(D, 2 * gates * H)
        y = self.node(operator, x, W, R, B, "", start, hidden_size=H, **attributes)
        return self.node("Squeeze", y, self.ints(1)) if D == 1 else y

    def head(self, h):
        return self.node("Add", self.node("MatMul", h, self.weight(H, V)), self.weight(V))

    def tokens(self):
        return self.node("Gather", self.weight(V, E), "x")

    def save(self, path, y):
        self.node("Identity", y, out=["y"])
        graph = helper.make_graph(
            self.nodes,
            "theirs",
            [helper.make_tensor_value_info(*value) for value in self.inputs],
            [helper.make_tensor_value_info(*value) for value in self.outputs],
            self.weights,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
        onnx.save(model, path)
        return path


def embedded(m):
    return m.head(m.rnn(m.rnn(m.tokens(), E), H))


def one_hot(m):
    hot = m.node("OneHot", "x", m.weight(value=V, dtype=np.int64), m.weight(value=[0, 1]))
    return m.head(m.rnn(hot, V, activations=["Relu"]))


def gemm(m):
    h = m.rnn(m.tokens(), E, activations=["Sigmoid"])
    flat = m.node("Reshape", h, m.ints(-1, H))
    m.outputs = [("y", TensorProto.FLOAT, [None] * 2)]
    return m.node("Gemm", flat, m.weight(V, H), m.weight(V), transB=1)


def batch_first(m):
    m.inputs = [("x", TensorProto.INT64, ["B", "T"])]
    x = m.node("Transpose", m.tokens(), perm=[1, 0, 2])
    return m.node("Transpose", m.head(m.rnn(x, E)), perm=[1, 0, 2])


def gru(m):
    x = m.rnn(m.tokens(), E, operator="GRU", gates=3, linear_before_reset=1)
    return m.head(m.rnn(x, H, operator="GRU", gates=3, linear_before_reset=1, activations=["Sigmoid", "Tanh"]))


def lstm(m):
    return m.head(m.rnn(m.rnn(m.tokens(), E, operator="LSTM", gates=4), H, operator="LSTM", gates=4))


def no_biases(m):
    x = m.node("RNN", m.tokens(), m.weight(1, H, E), m.weight(1, H, H), hidden_size=H)
    return m.node("MatMul", m.node("Squeeze", x, m.ints(1)), m.weight(H, V))


def zero_start(m):
    zeros = m.node("ConstantOfShape", m.ints(1, 1, H))
    return m.head(m.rnn(m.tokens(), E, start=m.node("Identity", zeros)))


def numbers(m):
    m.inputs = [("x", TensorProto.FLOAT, ["T", "B", V])]
    return m.head(m.rnn("x", V))


def by_reshape(m):
    """The axis of the direction is removed in two steps, as some exporters do."""
    y = m.node("RNN", m.tokens(), m.weight(1, H, E), m.weight(1, H, H), hidden_size=H)
    y = m.node("Transpose", y, perm=[0, 2, 1, 3])
    return m.head(m.node("Reshape", y, m.ints(0, 0, -1)))


@pytest.mark.parametrize(
    "make", [embedded, one_hot, gemm, batch_first, no_biases, zero_start, numbers, by_reshape, gru, lstm]
)
def test_a_foreign_file_computes_the_same_here(tmp_path, letters, make):
    maker = Maker()
    path = maker.save(tmp_path / "theirs.onnx", make(maker))
    run = save_run(read_onnx(path, vocabulary=letters), tmp_path / "run")
    ids = np.random.default_rng(1).integers(V, size=(T, 1))
    fed = {batch_first: ids.T, numbers: np.eye(V, dtype=np.float32)[ids]}.get(make, ids)
    (theirs,) = session(path).run(None, {"x": fed})
    model = LanguageModel.load(run.path)
    network = model.network_
    ours, _ = network.read(network.pack(model.parameters_), ids, network.stack.zero_state(1, np.dtype(np.float32)))
    np.testing.assert_allclose(ours.reshape(T, V), theirs.reshape(T, V), rtol=1e-5, atol=1e-5)


def test_our_own_file_without_its_metadata_needs_a_vocabulary(tmp_path):
    export_onnx(random_run(tmp_path / "run"), tmp_path / "model.onnx")
    model = onnx.load(tmp_path / "model.onnx")
    del model.metadata_props[:]
    onnx.save(model, tmp_path / "bare.onnx")
    with pytest.raises(CheckpointError, match="does not contain its vocabulary of 12 tokens"):
        read_onnx(tmp_path / "bare.onnx")
    back = read_onnx(tmp_path / "bare.onnx", vocabulary=tmp_path / "run" / "vocabulary.json")
    assert all(np.array_equal(back.parameters[name], array) for name, array in random_model().parameters.items())


# -- refused ----------------------------------------------------------------------------------------------------------


def peepholes(m):
    weights = m.weight(1, 4 * H, E), m.weight(1, 4 * H, H), m.weight(1, 8 * H), "", "", "", m.weight(1, 3 * H)
    y = m.node("LSTM", m.tokens(), *weights, hidden_size=H)
    return m.head(m.node("Squeeze", y, m.ints(1)))


def reset_before_the_product(m):
    return m.head(m.rnn(m.tokens(), E, operator="GRU", gates=3))


def softmax(m):
    return m.node("Softmax", embedded(m))


def elementwise(m):
    return m.head(m.node("Mul", m.rnn(m.tokens(), E), m.weight(H)))


def bidirectional(m):
    y = m.node("Squeeze", m.node("ReduceSum", m.rnn(m.tokens(), E, D=2, direction="bidirectional"), m.ints(1)))
    return m.head(y)


def backwards(m):
    return m.head(m.rnn(m.tokens(), E, direction="reverse"))


def own_start(m):
    row = m.weight(1, 1, H)
    return m.head(m.rnn(m.tokens(), E, start=m.node("Expand", row, m.ints(1, 1, 1))))


def filled_start(m):
    ones = m.node("ConstantOfShape", m.ints(1, 1, H), value=helper.make_tensor("v", TensorProto.FLOAT, [1], [1.0]))
    return m.head(m.rnn(m.tokens(), E, start=ones))


def filled_in_float64(m):
    ones = m.node("ConstantOfShape", m.ints(1, 1, H), value=helper.make_tensor("v", TensorProto.DOUBLE, [1], [1.0]))
    return m.head(m.rnn(m.tokens(), E, start=m.node("Cast", ones, to=TensorProto.FLOAT)))


def started_by_another(m):
    first = m.node("RNN", m.tokens(), m.weight(1, H, E), m.weight(1, H, H), hidden_size=H, out=["Y", "Y_h"])
    return m.head(m.rnn(m.node("Squeeze", first, m.ints(1)), H, start="Y_h"))


def time_and_batch_swapped(m):
    return m.head(m.rnn(m.node("Transpose", m.rnn(m.tokens(), E), perm=[1, 0, 2]), H))


def two_heads(m):
    m.outputs.append(("z", TensorProto.FLOAT, [None] * 3))
    h = m.rnn(m.tokens(), E)
    m.node("MatMul", h, m.weight(H, V), out=["z"])
    return m.head(h)


def two_linear(m):
    h = m.node("MatMul", m.rnn(m.tokens(), E), m.weight(H, H))
    return m.head(h)


def residual(m):
    m.outputs.append(("z", TensorProto.FLOAT, [None] * 3))
    h = m.rnn(m.tokens(), E)
    m.node("Squeeze", m.rnn(m.tokens(), E), out=["z"])
    return m.head(h)


def no_rnn(m):
    return m.node("Add", m.node("MatMul", m.tokens(), m.weight(E, V)), m.weight(V))


def computed_weights(m):
    m.inputs.append(("W", TensorProto.FLOAT, [1, H, E]))
    y = m.node("RNN", m.tokens(), "W", m.weight(1, H, H), hidden_size=H)
    return m.head(m.node("Squeeze", y, m.ints(1)))


def scaled_gemm(m):
    flat = m.node("Reshape", m.rnn(m.tokens(), E), m.ints(-1, H))
    return m.node("Gemm", flat, m.weight(H, V), m.weight(V), alpha=2.0)


def two_activations(m):
    return m.head(m.rnn(m.rnn(m.tokens(), E), H, activations=["Relu"]))


def half_hot(m):
    hot = m.node("OneHot", "x", m.weight(value=V, dtype=np.int64), m.weight(value=[0.5, 1]))
    return m.head(m.rnn(hot, V))


def features_and_batch_swapped(m):
    m.inputs = [("x", TensorProto.INT64, ["T", E])]
    return m.head(m.rnn(m.node("Transpose", m.tokens(), perm=[0, 2, 1]), E))


def regrouped(m):
    return m.head(m.rnn(m.node("Reshape", m.tokens(), m.ints(1, -1, 2 * E)), 2 * E))


def states_reversed(m):
    m.inputs = [("x", TensorProto.INT64, [H, "B"])]
    return m.head(m.node("Transpose", m.rnn(m.tokens(), E)))


def states_flat(m):
    m.inputs = [("x", TensorProto.INT64, ["T", 1])]
    m.outputs = [("y", TensorProto.FLOAT, [None] * 2)]
    return m.node("Flatten", m.head(m.rnn(m.tokens(), E)), axis=0)


REFUSED = {
    features_and_batch_swapped: "the units along the last axis, got Transpose",
    regrouped: "the units along the last axis, got Reshape",
    states_reversed: "the units along the last axis, got Transpose",
    states_flat: "the units along the last axis, got Flatten",
    peepholes: "LSTM without further inputs",
    reset_before_the_product: "GRU with linear_before_reset = 1, got 0",
    lambda m: m.head(m.node("Conv", m.tokens(), m.weight(1, 1, 1))): (
        "expected operators RNN, GRU or LSTM and a linear output, got Conv"
    ),
    softmax: "got Softmax",
    elementwise: "got Mul",
    bidirectional: "got ReduceSum",
    backwards: "read forwards only.*got reverse",
    own_start: "an initial state of zeros",
    filled_start: "an initial state of zeros",
    filled_in_float64: "an initial state of zeros",
    started_by_another: "an initial state of zeros",
    time_and_batch_swapped: "Transpose of time",
    two_heads: "one output that is linear in the states, got 2",
    two_linear: "an operator RNN, GRU or LSTM before the linear output",
    residual: "one path from the tokens to the logits, got RNN outside it",
    no_rnn: "an operator RNN, GRU or LSTM before the linear output",
    computed_weights: "input 1 of RNN as a constant with 3 axes, the first of size 1, got a computed value",
    scaled_gemm: r"a Gemm that is h @ W_hy \+ b_y, got one with alpha = 2\.0",
    two_activations: "one activation in all layers, got relu, tanh",
    half_hot: "OneHot of 0 and 1",
    lambda m: m.head(m.rnn(m.tokens(), E, direction=b"\xff")): "read forwards only",
    lambda m: m.head(m.rnn(m.tokens(), E, clip=1.0)): "RNN without clip",
    lambda m: m.head(m.rnn(m.tokens(), E, activations=["Softsign"])): (
        r"an activation of Tanh, Relu, Sigmoid, Affine \(alpha 1, beta 0\), got Softsign"
    ),
    lambda m: m.head(m.rnn(m.tokens(), E, activations=["Affine"], activation_alpha=[2.0], activation_beta=[0.0])): (
        "got Affine"
    ),
    lambda m: m.head(m.rnn(m.node("Gather", m.weight(E, V), "x", axis=1), E)): "Gather of rows",
    lambda m: m.head(m.rnn(m.node("Gather", m.weight(V + 4, E), "x"), E)): "an embedding for each of the 5.*, got 9",
    lambda m: m.head(m.rnn(m.node("Gather", m.weight(V, E), m.weight(value=[[1]], dtype=np.int64)), E)): (
        "an input of tokens, got a constant"
    ),
}


@pytest.mark.parametrize("make", REFUSED)
def test_graphs_that_compute_something_else_are_refused(tmp_path, letters, make):
    maker = Maker()
    path = maker.save(tmp_path / "theirs.onnx", make(maker))
    with pytest.raises(CheckpointError, match=REFUSED[make]):
        read_onnx(path, vocabulary=letters)


def of_a_foreign_domain(model, rnn):
    rnn.domain = "com.example"


def with_a_direction_that_is_a_number(model, rnn):
    rnn.domain = "com.example"
    rnn.attribute.append(helper.make_attribute("direction", 1))


def with_too_few_inputs(model, rnn):
    rnn.domain = "com.example"
    del rnn.input[1:]


def of_the_file_s_own(model, rnn):
    inputs, body = ["X", "W", "R", "B", "lengths", "h0"], [helper.make_node("Identity", ["X"], ["Y"])]
    model.functions.append(helper.make_function("", "RNN", inputs, ["Y"], body, [helper.make_opsetid("", 22)]))


def without_activations(model, rnn):
    rnn.attribute.append(onnx.AttributeProto(name="activations", type=onnx.AttributeProto.STRINGS))


FOREIGN = {
    of_a_foreign_domain: r"expected operators of ONNX itself, got com\.example\.RNN",
    with_a_direction_that_is_a_number: r"got com\.example\.RNN",
    with_too_few_inputs: r"got com\.example\.RNN",
    of_the_file_s_own: "expected operators of ONNX itself, got the file's own RNN",
    without_activations: "RNN with activations, got an empty list",
}


@pytest.mark.parametrize("change", FOREIGN)
def test_an_operator_that_only_looks_like_rnn_is_refused(tmp_path, letters, change):
    """onnx.checker accepts these."""
    maker = Maker()
    model = onnx.load(maker.save(tmp_path / "theirs.onnx", maker.head(maker.rnn(maker.tokens(), E))))
    model.opset_import.append(helper.make_opsetid("com.example", 1))
    change(model, next(node for node in model.graph.node if node.op_type == "RNN"))
    onnx.save(model, tmp_path / "theirs.onnx")
    with pytest.raises(CheckpointError, match=FOREIGN[change]):
        read_onnx(tmp_path / "theirs.onnx", vocabulary=letters)


def test_a_transpose_without_axes_is_refused(tmp_path, letters):
    maker = Maker()
    model = onnx.load(maker.save(tmp_path / "theirs.onnx", batch_first(maker)))
    transpose = next(node for node in model.graph.node if node.op_type == "Transpose")
    del transpose.attribute[0].ints[:]
    onnx.save(model, tmp_path / "theirs.onnx")
    with pytest.raises(CheckpointError, match="Transpose with perm, got an empty list"):
        read_onnx(tmp_path / "theirs.onnx", vocabulary=letters)


@pytest.mark.parametrize("data", [b"", b"<html><body>" * 20, b"\x00" * 100])
def test_an_empty_or_foreign_file_is_refused(tmp_path, data):
    (tmp_path / "x.onnx").write_bytes(data)
    with pytest.raises(CheckpointError, match="is not a valid ONNX file"):
        read_onnx(tmp_path / "x.onnx")


def test_weights_in_another_file_are_refused_unread(tmp_path):
    maker = Maker()
    model = onnx.load(maker.save(tmp_path / "x.onnx", embedded(maker)))
    onnx.save(model, tmp_path / "y.onnx", save_as_external_data=True, location="weights", size_threshold=0)
    with pytest.raises(CheckpointError, match="keeps its weights in another file"):
        read_onnx(tmp_path / "y.onnx")


def test_a_constant_in_another_file_is_refused_unread(tmp_path, letters):
    maker = Maker()
    secret = np.ones((H, V), np.float32)
    (tmp_path / "secret").write_bytes(secret.tobytes())
    weight = numpy_helper.from_array(secret)
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="secret")
    h = maker.rnn(maker.tokens(), E)
    path = maker.save(tmp_path / "x.onnx", maker.node("MatMul", h, maker.node("Constant", value=weight)))
    with pytest.raises(CheckpointError, match="keeps its weights in another file"):
        read_onnx(path, vocabulary=letters)


@pytest.mark.parametrize("seed", range(40))
def test_a_damaged_file_is_refused_or_read_whole(tmp_path, seed):
    """Bytes are changed or removed at random: the result is CheckpointError or a model."""
    export_onnx(random_run(tmp_path / "run", layers=1), tmp_path / "model.onnx")
    data, rng = bytearray((tmp_path / "model.onnx").read_bytes()), np.random.default_rng(seed)
    for _ in range(5):
        data[rng.integers(len(data))] = rng.integers(256)
    if seed % 4 == 0:
        del data[rng.integers(len(data)) :]
    (tmp_path / "model.onnx").write_bytes(data)
    try:
        model = read_onnx(tmp_path / "model.onnx")
    except ElmanError:
        return
    assert save_run(model, tmp_path / "back").path.is_dir()


def test_without_onnx_the_message_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    run = random_run(tmp_path / "run")
    with pytest.raises(ImportError, match=r"pip install 'elman\[onnx\]'"):
        export_onnx(run, tmp_path / "model.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
