"""Real-time recurrent learning runs forward and must arrive where BPTT arrives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from maths_oracle import ACTIVATIONS, assert_same, make, networks

from elman import errors, maths


def both(n):
    h = maths.rnn_forward(n.x, n.h0, *n.weights, **n.options)
    arguments = (n.d_h_direct, n.x, h, n.W_xh, n.W_hh)
    return maths.rtrl(*arguments, **n.options), maths.rnn_backward(*arguments, **n.options)


@pytest.mark.parametrize("ids", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_forward_mode_equals_backward_mode(activation, ids):
    n = make(5, 8, 4, 3, 5, activation=activation, ids=ids, masked=True).with_(lengths=np.array([8, 5, 1, 0]))
    ours, theirs = both(n)
    for name, d in ours._asdict().items():
        if name != "d_x":
            np.testing.assert_allclose(d, getattr(theirs, name), rtol=0, atol=1e-12, err_msg=name)


@given(networks(reverse=False))
@settings(deadline=None, max_examples=50)
def test_forward_mode_equals_backward_mode_everywhere(n):
    assert_same(*both(n))


def test_d_x_is_not_computed_and_dtype_is_kept():
    n = make(5, 4, 2, 3, 4).astype(np.float32)
    ours, _ = both(n)
    assert ours.d_x is None
    assert {d.dtype for d in ours if d is not None} == {np.dtype(np.float32)}


def test_reverse_is_refused():
    n = make(5, 4, 2, 3, 4)
    with pytest.raises(errors.ArgumentError, match="reverse"):
        both(n.with_(reverse=True))
