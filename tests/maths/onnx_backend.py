"""ONNX's operators RNN, GRU and LSTM, computed by our functions, so that its node tests and onnxruntime can judge them.

Everything takes the module of functions on trial: whatever has an `rnn_forward` and a `cell_forward` can stand before
the same judges. Peepholes (P) are not part of our LSTM, and a GRU with linear_before_reset=0 is another cell: both are
errors here, never passed over.
"""

import importlib
import re
import unittest
from unittest import mock

import numpy as np
import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep
from onnx.backend.test import BackendTest

from elman.maths.cells import make_cell

ACTIVATIONS = {"Tanh": "tanh", "Relu": "relu", "Sigmoid": "sigmoid", "Affine": "identity"}
DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}  # reverse or not, each
ORDERS = {"RNN": (0,), "GRU": (1, 0, 2), "LSTM": (0, 2, 3, 1)}  # where ONNX has each of our gates: zrh, iofc


def recurrent(
    functions,
    operator,
    X,  # (T, B, X)
    W,  # (D, G·H, X), D directions
    R,  # (D, G·H, H)
    B=None,  # (D, 2·G·H): one bias for W, one for R
    sequence_lens=None,  # (B,)
    initial_h=None,  # (D, B, H)
    initial_c=None,  # (D, B, H)
    P=None,
    *,
    hidden_size,
    direction="forward",
    activations=None,
    activation_alpha=(),
    activation_beta=(),
    linear_before_reset=0,
    layout=0,  # 1: the batch comes first in X, initial states and the results
):
    """Y (T, D, B, H), Y_h (D, B, H) and for an LSTM Y_c. An attribute that is not listed here is an error."""
    assert P is None, "peepholes are not part of our LSTM"
    assert (operator == "GRU") == (linear_before_reset == 1), "our GRU has its reset gate after the product"
    reverses, cell = DIRECTIONS[direction], make_cell(operator.lower())
    activations = activations or ["Tanh"] * len(reverses)
    affine = activations.count("Affine")
    assert list(activation_alpha) == [1] * affine, "an Affine other than 1·a + 0 is not the identity"
    assert list(activation_beta) == [0] * affine, "an Affine other than 1·a + 0 is not the identity"
    starts = [None if s is None else s.swapaxes(0, 1) if layout else s for s in (initial_h, initial_c)][: cell.parts]
    X = X.swapaxes(0, 1) if layout else X
    T, rows = X.shape[:2]
    biases = np.zeros((len(W), 2 * len(W[0])), W.dtype) if B is None else B
    inside = np.arange(T)[:, np.newaxis] < (T if sequence_lens is None else sequence_lens)
    inside = np.broadcast_to(inside, (T, rows))[..., np.newaxis]  # (T, B, 1)

    def ours(array):
        """Gates in our order, gate below gate."""
        blocks = array.reshape(cell.gates, hidden_size, *array.shape[1:])
        return blocks[list(ORDERS[operator])].reshape(array.shape)

    Y, last = [], []
    for d, reverse in enumerate(reverses):
        first, second = map(ours, np.split(biases[d], 2))
        p = {"W_xh": ours(W[d]).T, "W_hh": ours(R[d]).T, "b_h": first + second}
        if operator == "GRU":  # the n gate's second bias stays inside of the reset gate
            p["b_h"][-hidden_size:], p["b_hn"] = first[-hidden_size:], second[-hidden_size:]
        given = [np.zeros((rows, hidden_size), X.dtype) if s is None else s[d] for s in starts]
        options = {"lengths": sequence_lens, "reverse": reverse}
        if operator == "RNN":
            h0 = None if initial_h is None else given[0]
            s = functions.rnn_forward(X, h0, *p.values(), activation=ACTIVATIONS[activations[d]], **options)[np.newaxis]
        else:
            s = functions.cell_forward(cell, X, np.stack(given), p, **options).s
        Y.append(np.where(inside, s[0, 1:], 0).astype(X.dtype))  # past its end ONNX has zeros, ours carries the state
        last.append(s[:, 1 if reverse else T])  # in reverse the step that reads x[0] is the last
    Y, last = np.stack(Y, axis=1), np.stack(last, axis=1)  # (T, D, B, H), (P, D, B, H)
    return (Y.transpose(2, 0, 1, 3), *last.swapaxes(1, 2)) if layout else (Y, *last)


def make_backend(functions):
    """A backend for models of a single recurrent node."""

    class Prepared(BackendRep):
        def __init__(self, model):
            self.graph = model.graph

        def run(self, inputs, **kwargs):
            (node,) = self.graph.node
            given = dict(zip((i.name for i in self.graph.input), inputs, strict=True))
            attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
            attributes["direction"] = attributes.get("direction", b"forward").decode()
            attributes["activations"] = [name.decode() for name in attributes.get("activations", [])]
            outputs = recurrent(functions, node.op_type, *(given.get(name) for name in node.input), **attributes)
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


def node_tests(functions, pattern="test_(simple_)?rnn_|test_lstm_(?!with_peepholes)"):
    """ONNX's node tests with these names, as a TestCase that holds these and no others.

    LSTMs with peepholes are left out. ONNX's tests of the GRU all have the reset gate before the product.
    """

    def only_recurrent(package):
        for name in ("rnn", "lstm", "gru"):
            importlib.import_module(f"{package.__name__}.{name}")

    # on import, onnx computes the data of all its node tests: ten seconds, in every process that collects tests.
    # Before 1.23 it reads them from files instead, and has no such function to replace.
    # Its data are no matter of ours: a matrix product that sets a floating-point flag for no reason, as some builds of
    # OpenBLAS do on some CPUs, must not end the collection of tests.
    quiet = np.errstate(all="ignore")
    with quiet, mock.patch("onnx.backend.test.loader.import_recursive", only_recurrent, create=True):
        runner = BackendTest(make_backend(functions), __name__).include(pattern)
    found = {
        name: test
        for case in runner.test_cases.values()
        for name, test in vars(case).items()
        # what is not included, or is for CUDA, onnx marks to be skipped: hundreds of models
        if re.match(pattern, name) and not getattr(test, "__unittest_skip__", False)
    }
    return type("NodeTests", (unittest.TestCase,), found)


def names_of(tests):
    return unittest.defaultTestLoader.getTestCaseNames(tests)
