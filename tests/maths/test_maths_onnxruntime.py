"""onnxruntime, whose cells nobody here wrote, runs the same models in float32: ours must agree."""

from types import SimpleNamespace

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from onnx_backend import ACTIVATIONS, DIRECTIONS, ORDERS, make_backend

from elman import maths
from elman.maths.recurrence import cell_forward

OURS = SimpleNamespace(rnn_forward=maths.rnn_forward, cell_forward=cell_forward)

TOLERANCE = 1e-5  # absolute and relative; the worst of 24,000 cases was 8e-7, and float32 itself has 1.2e-7

sizes = st.integers(1, 9) | st.sampled_from((16, 17, 33))  # around the widths of its vector code


def model_of(operator, inputs, direction, **attributes):
    """A model of one node, and what it is fed: the inputs that are not None."""
    fed = {name: array for name, array in inputs.items() if array is not None}
    ranks = {"Y": 4, "Y_h": 3} | ({"Y_c": 3} if operator == "LSTM" else {})
    names = [name if name in fed else "" for name in inputs]
    node = helper.make_node(
        operator, names, list(ranks), hidden_size=inputs["R"].shape[-1], direction=direction, **attributes
    )
    graph = helper.make_graph(
        [node],
        operator.lower(),
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in fed.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [None] * rank) for n, rank in ranks.items()],
    )
    # the newest opset and IR that onnxruntime takes; of the layouts it has 0 only, and no float64
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10), fed


def run_onnxruntime(model, fed):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # a pool of threads for each small model would cost more than the model
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, fed)


@st.composite
def cases(draw, operator="RNN"):
    T, B, X, H = draw(st.integers(1, 9)), draw(st.integers(1, 5)), draw(sizes), draw(sizes)
    direction = draw(st.sampled_from(tuple(DIRECTIONS)))
    D = len(DIRECTIONS[direction])
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def normal(*shape, deviation=1.0):
        return (deviation * rng.standard_normal(shape)).astype(np.float32)

    G = len(ORDERS[operator])
    R = normal(D, G * H, H)
    lengths = draw(st.none() | st.lists(st.integers(0, T), min_size=B, max_size=B))
    states = {name: normal(D, B, H) if draw(st.booleans()) else None for name in ("initial_h", "initial_c")}
    if operator != "LSTM":
        del states["initial_c"]
    return direction, {
        "X": normal(T, B, X),
        "W": normal(D, G * H, X, deviation=X**-0.5),
        "R": R * np.float32(0.8) / np.linalg.norm(R, 2, axis=(1, 2), keepdims=True),  # no rounding error can grow
        "B": normal(D, 2 * G * H) if draw(st.booleans()) else None,
        "sequence_lens": None if lengths is None else np.array(lengths, np.int32),
        **states,
    }


@pytest.mark.parametrize("activation", ACTIVATIONS)
@settings(max_examples=150, deadline=None)
@given(cases())
def test_agrees_with_onnxruntime(activation, case):
    directions = len(DIRECTIONS[case[0]])
    affine = {"activation_alpha": [1.0] * directions, "activation_beta": [0.0] * directions}
    compare("RNN", *case, activations=[activation] * directions, **(affine if activation == "Affine" else {}))


@settings(max_examples=300, deadline=None)
@given(cases("GRU"))
def test_the_gru_agrees_with_onnxruntime(case):
    compare("GRU", *case, linear_before_reset=1)


@settings(max_examples=300, deadline=None)
@given(cases("LSTM"))
def test_the_lstm_agrees_with_onnxruntime(case):
    compare("LSTM", *case)


def compare(operator, direction, inputs, **attributes):
    model, fed = model_of(operator, inputs, direction, **attributes)
    theirs = run_onnxruntime(model, fed)
    ours = make_backend(OURS).run_model(model, list(fed.values()))
    # of a row of length 0 onnxruntime says that Y_h is 0, ours says what was there: the specification is silent
    lengths = inputs["sequence_lens"]
    empty = np.zeros(inputs["X"].shape[1], bool) if lengths is None else lengths == 0
    for number, name in enumerate(("initial_h", "initial_c")[: len(ours) - 1], start=1):
        initial = np.zeros_like(ours[number]) if inputs[name] is None else inputs[name]
        np.testing.assert_array_equal(ours[number][:, empty], initial[:, empty])
        theirs[number][:, empty] = initial[:, empty]
    for name, their, our in zip(("Y", "Y_h", "Y_c"), theirs, ours, strict=False):
        assert our.dtype == np.float32
        np.testing.assert_allclose(our, their, rtol=TOLERANCE, atol=TOLERANCE, err_msg=name)
