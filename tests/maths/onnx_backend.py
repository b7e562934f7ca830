"""ONNX's RNN operator, computed by our functions: so ONNX's own node tests and onnxruntime can judge them.

Everything takes the module of functions on trial: whatever has an `rnn_forward` can stand before the same judges.
"""

import importlib
import unittest
from unittest import mock

import numpy as np
import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep
from onnx.backend.test import BackendTest

ACTIVATIONS = {"Tanh": "tanh", "Relu": "relu", "Sigmoid": "sigmoid", "Affine": "identity"}
DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}  # reverse or not, each


def rnn(
    functions,
    X,  # (T, B, X)
    W,  # (D, H, X), D directions
    R,  # (D, H, H)
    B=None,  # (D, 2H): one bias for W, one for R
    sequence_lens=None,  # (B,)
    initial_h=None,  # (D, B, H)
    *,
    hidden_size,
    direction="forward",
    activations=None,
    activation_alpha=(),
    activation_beta=(),
    layout=0,  # 1: the batch comes first in X, initial_h and the results
):
    """Y (T, D, B, H) and Y_h (D, B, H). An attribute that is not listed here is an error, never passed over."""
    reverses = DIRECTIONS[direction]
    activations = activations or ["Tanh"] * len(reverses)
    affine = activations.count("Affine")
    assert list(activation_alpha) == [1] * affine, "an Affine other than 1·a + 0 is not the identity"
    assert list(activation_beta) == [0] * affine, "an Affine other than 1·a + 0 is not the identity"
    if layout == 1:
        X = X.swapaxes(0, 1)
        initial_h = None if initial_h is None else initial_h.swapaxes(0, 1)
    T, rows = X.shape[:2]
    biases = np.zeros((len(W), 2 * hidden_size), W.dtype) if B is None else B
    inside = np.arange(T)[:, np.newaxis] < (T if sequence_lens is None else sequence_lens)
    inside = np.broadcast_to(inside, (T, rows))[..., np.newaxis]  # (T, B, 1)

    Y, Y_h = [], []
    for d, reverse in enumerate(reverses):
        h = functions.rnn_forward(
            X,
            None if initial_h is None else initial_h[d],
            W[d].T,
            R[d].T,
            biases[d].reshape(2, -1).sum(axis=0),
            activation=ACTIVATIONS[activations[d]],
            lengths=sequence_lens,
            reverse=reverse,
        )
        Y.append(np.where(inside, h[1:], 0).astype(X.dtype))  # past its end ONNX has zeros where ours carries the state
        Y_h.append(h[1 if reverse else T])  # in reverse the step that reads x[0] is the last
    Y, Y_h = np.stack(Y, axis=1), np.stack(Y_h)
    return (Y.transpose(2, 0, 1, 3), Y_h.swapaxes(0, 1)) if layout == 1 else (Y, Y_h)


def make_backend(functions):
    """A backend for models of a single RNN node."""

    class Prepared(BackendRep):
        def __init__(self, model):
            self.graph = model.graph

        def run(self, inputs, **kwargs):
            (node,) = self.graph.node
            assert node.op_type == "RNN"
            given = dict(zip((i.name for i in self.graph.input), inputs, strict=True))
            attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
            attributes["direction"] = attributes.get("direction", b"forward").decode()
            attributes["activations"] = [name.decode() for name in attributes.get("activations", [])]
            outputs = rnn(functions, *(given.get(name) for name in node.input), **attributes)
            named = dict(zip(node.output, outputs, strict=False))
            return [named[o.name] for o in self.graph.output]

    class ElmanBackend(Backend):
        @classmethod
        def prepare(cls, model, device="CPU", **kwargs):
            onnx.checker.check_model(model)
            return Prepared(model)

        @classmethod
        def supports_device(cls, device):
            return device == "CPU"

    return ElmanBackend


def node_tests(functions):
    """ONNX's node tests of the operator RNN, as a TestCase that holds these and no others."""

    def only_rnn(package):
        importlib.import_module(f"{package.__name__}.rnn")

    # on import, onnx computes the data of all its node tests: ten seconds, in every process that collects tests.
    # Before 1.23 it reads them from files instead, and has no such function to replace.
    with mock.patch("onnx.backend.test.loader.import_recursive", only_rnn, create=True):
        runner = BackendTest(make_backend(functions), __name__).include("test_(simple_)?rnn_")
    found = {
        name: test
        for case in runner.test_cases.values()
        for name, test in vars(case).items()
        # what is not included, or is for CUDA, onnx marks to be skipped: hundreds of models
        if name.startswith("test_") and not getattr(test, "__unittest_skip__", False)
    }
    return type("NodeTests", (unittest.TestCase,), found)


def names_of(tests):
    return unittest.defaultTestLoader.getTestCaseNames(tests)
