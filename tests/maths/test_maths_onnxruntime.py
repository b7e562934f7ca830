"""onnxruntime, whose RNN nobody here wrote, runs the same models in float32: ours must agree."""

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from onnx_backend import ACTIVATIONS, DIRECTIONS, make_backend

from elman import maths

TOLERANCE = 1e-5  # absolute and relative; the worst of 24,000 cases was 8e-7, and float32 itself has 1.2e-7

sizes = st.integers(1, 9) | st.sampled_from((16, 17, 33))  # around the widths of its vector code


def model_of(inputs, direction, activation):
    """A model of one RNN node, and what it is fed: the inputs that are not None."""
    directions = len(DIRECTIONS[direction])
    fed = {name: array for name, array in inputs.items() if array is not None}
    affine = {"activation_alpha": [1.0] * directions, "activation_beta": [0.0] * directions}
    node = helper.make_node(
        "RNN",
        [name if name in fed else "" for name in inputs],
        ["Y", "Y_h"],
        hidden_size=inputs["R"].shape[-1],
        direction=direction,
        activations=[activation] * directions,
        **(affine if activation == "Affine" else {}),
    )
    graph = helper.make_graph(
        [node],
        "rnn",
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in fed.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [None] * rank) for n, rank in (("Y", 4), ("Y_h", 3))],
    )
    # the newest opset and IR that onnxruntime takes; of the layouts it has 0 only, and no float64
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10), fed


def run_onnxruntime(model, fed):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # a pool of threads for each small model would cost more than the model
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, fed)


@st.composite
def cases(draw):
    T, B, X, H = draw(st.integers(1, 9)), draw(st.integers(1, 5)), draw(sizes), draw(sizes)
    direction = draw(st.sampled_from(tuple(DIRECTIONS)))
    D = len(DIRECTIONS[direction])
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def normal(*shape, deviation=1.0):
        return (deviation * rng.standard_normal(shape)).astype(np.float32)

    R = normal(D, H, H)
    lengths = draw(st.none() | st.lists(st.integers(0, T), min_size=B, max_size=B))
    return direction, {
        "X": normal(T, B, X),
        "W": normal(D, H, X, deviation=X**-0.5),
        "R": R * np.float32(0.8) / np.linalg.norm(R, 2, axis=(1, 2), keepdims=True),  # no rounding error can grow
        "B": normal(D, 2 * H) if draw(st.booleans()) else None,
        "sequence_lens": None if lengths is None else np.array(lengths, np.int32),
        "initial_h": normal(D, B, H) if draw(st.booleans()) else None,
    }


@pytest.mark.parametrize("activation", ACTIVATIONS)
@settings(max_examples=150, deadline=None)
@given(cases())
def test_agrees_with_onnxruntime(activation, case):
    direction, inputs = case
    model, fed = model_of(inputs, direction, activation)
    theirs = run_onnxruntime(model, fed)
    ours = make_backend(maths).run_model(model, list(fed.values()))
    # of a row of length 0 onnxruntime says Y_h = 0, ours says what was there: the specification is silent
    lengths = inputs["sequence_lens"]
    empty = np.zeros(inputs["X"].shape[1], bool) if lengths is None else lengths == 0
    initial = np.zeros_like(ours[1]) if inputs["initial_h"] is None else inputs["initial_h"]
    np.testing.assert_array_equal(ours[1][:, empty], initial[:, empty])
    theirs[1][:, empty] = initial[:, empty]
    for name, their, our in zip(("Y", "Y_h"), theirs, ours, strict=True):
        assert our.dtype == np.float32
        np.testing.assert_allclose(our, their, rtol=TOLERANCE, atol=TOLERANCE, err_msg=name)
