"""ONNX's own node tests of the operator RNN, computed by elman.maths."""

import unittest
from pathlib import Path
from types import SimpleNamespace

from onnx.backend.test.case import node
from onnx_backend import names_of, node_tests

from elman import maths

TestNodes = node_tests(maths)


def test_all_node_tests_are_there():
    since_1_23 = {"test_simple_rnn_bidirectional_cpu", "test_simple_rnn_reverse_cpu"}
    assert set(names_of(TestNodes)) | since_1_23 == {
        "test_rnn_seq_length_cpu",
        "test_simple_rnn_batchwise_cpu",
        "test_simple_rnn_bidirectional_cpu",
        "test_simple_rnn_defaults_cpu",
        "test_simple_rnn_reverse_cpu",
        "test_simple_rnn_with_initial_bias_cpu",
    }


def test_no_other_file_of_onnx_tests_the_operator():
    files = Path(node.__file__).parent.glob("*.py")
    assert [file.name for file in files if '"RNN"' in file.read_text(encoding="utf-8")] == ["rnn.py"]


def test_the_judge_is_awake():
    """onnx lets a test pass whose backend raises "not supposed to implement it": a wrong state must fail them all."""

    def wrong(*args, **options):
        return maths.rnn_forward(*args, **options) + 0.01

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(node_tests(SimpleNamespace(rnn_forward=wrong))).run(result)
    count = len(names_of(TestNodes))
    assert (result.testsRun, len(result.failures), len(result.errors), len(result.skipped)) == (count, count, 0, 0)
