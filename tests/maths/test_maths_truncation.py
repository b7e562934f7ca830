"""Truncation (k1, k2): against each loss sent back alone, against full BPTT, against the loops of 1990 and 2015."""

from __future__ import annotations

import maths_oracle as oracle
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from maths_oracle import assert_same, make, networks

from elman import maths


def run(n):
    return maths.rnn_forward(n.x, n.h0, *n.weights, **n.options)


def truncated(n, k1, k2, **more):
    return maths.truncated_backward(n.d_h_direct, n.x, run(n), n.W_xh, n.W_hh, k1=k1, k2=k2, **n.options, **more)


def full(n):
    return maths.rnn_backward(n.d_h_direct, n.x, run(n), n.W_xh, n.W_hh, **n.options)


@st.composite
def reaches(draw):
    n = draw(networks(reverse=False))
    k1 = draw(st.integers(1, n.shape[0]))
    return n, k1, draw(st.integers(k1, n.shape[0] + 2))


@given(reaches())
@settings(deadline=None, max_examples=120)
def test_each_loss_goes_back_k2_steps_from_the_end_of_its_block(reach):
    n, k1, k2 = reach
    assert_same(truncated(n, k1, k2), oracle.backward(n, k1, k2))


@pytest.mark.parametrize(("k1", "k2"), [(1, 1), (1, 3), (2, 2), (2, 5), (3, 4), (4, 4), (4, 7)])
@pytest.mark.parametrize("ids", [False, True])
def test_rows_that_end_before_inside_and_after_a_block(ids, k1, k2):
    n = make(9, 8, 9, 3, 4, ids=ids, masked=True).with_(lengths=np.arange(9))  # one row of every length
    assert_same(truncated(n, k1, k2), oracle.backward(n, k1, k2))


@given(networks(reverse=False), st.integers(1, 8), st.integers(0, 3))
@settings(deadline=None, max_examples=40)
def test_a_reach_over_the_whole_window_is_the_full_gradient(n, k1, more):
    T = n.shape[0]
    k1 = min(k1, T)
    assert_same(truncated(n, k1, T + more), full(n))


@given(networks(reverse=False))
@settings(deadline=None, max_examples=20)
def test_one_block_is_the_usual_window(n):
    T = n.shape[0]
    assert_same(truncated(n, T, T), full(n), atol=0)


def test_a_shorter_reach_is_another_gradient():
    n = make(2, 6, 3, 2, 4)
    assert not np.allclose(truncated(n, 1, 5).d_W_hh, full(n).d_W_hh, rtol=1e-6)


@given(networks(reverse=False))
@settings(deadline=None, max_examples=30)
def test_a_reach_of_one_step_is_elmans_network_of_1990(n):
    # plain backpropagation, the state before a step a mere input: no product with W_hh.T, but for d_h0
    T, _, X, H = n.shape
    n = n.with_(lengths=None, h_mask=None)
    h, x = run(n), n.one_hot
    d_a = maths.get_activation(n.options["activation"]).derivative(h[1:]) * n.d_h_direct
    rows = (-1, H)
    theirs = {
        "d_W_xh": x.reshape(-1, X).T @ d_a.reshape(rows),
        "d_W_hh": h[:-1].reshape(rows).T @ d_a.reshape(rows),
        "d_b_h": d_a.reshape(rows).sum(axis=0),
        "d_x": d_a @ n.W_xh.T,
        "d_h0": d_a[0] @ n.W_hh.T,
    }
    assert_same(truncated(n, 1, 1), theirs)
    if T > 1:  # W_hh plays no part in what the weights get
        ours = maths.truncated_backward(n.d_h_direct, n.x, h, n.W_xh, 0 * n.W_hh, k1=1, k2=1, **n.options)
        assert_same(ours, {**theirs, "d_h0": 0 * theirs["d_h0"]})


@pytest.mark.parametrize("bptt_truncate", [0, 1, 2, 4, 9])
def test_bptt_truncate_of_the_notes_is_k2_less_one(bptt_truncate):
    """The loop that learners meet everywhere (seed 003), its mistakes corrected: s[-1] is h0, o is kept, biases."""
    n = make(8, 6, 1, 5, 4, ids=True)
    W_hy = np.random.default_rng(0).standard_normal((4, 3))
    y = [2, 0, 1, 1, 2, 0]
    h = run(n)
    s, x = h[:, 0], n.x[:, 0]  # s[t + 1] is the state after step t
    o = np.exp(s[1:] @ W_hy)
    delta_o = o / o.sum(axis=1, keepdims=True)
    delta_o[np.arange(6), y] -= 1
    dLdU, dLdW, dLdb = np.zeros_like(n.W_xh), np.zeros_like(n.W_hh), np.zeros(4)
    for t in range(6)[::-1]:
        delta_t = W_hy @ delta_o[t] * (1 - s[t + 1] ** 2)
        for step in range(max(0, t - bptt_truncate), t + 1)[::-1]:
            dLdW += np.outer(s[step], delta_t)
            dLdU[x[step]] += delta_t
            dLdb += delta_t
            delta_t = n.W_hh @ delta_t * (1 - s[step] ** 2)
    _, d_o = maths.cross_entropy(maths.output_forward(h[1:], W_hy, np.zeros(3)), np.array(y)[:, np.newaxis])
    n = n.with_(d_h_direct=maths.output_backward(d_o, h[1:], W_hy).d_h)
    ours = truncated(n, 1, bptt_truncate + 1)
    for name, d in (("d_W_xh", dLdU), ("d_W_hh", dLdW), ("d_b_h", dLdb)):
        np.testing.assert_allclose(getattr(ours, name), d, rtol=1e-12, atol=1e-13, err_msg=name)


def test_only_blocks_that_reach_the_start_move_the_initial_state():
    n = make(4, 6, 2, 3, 4)
    n.d_h_direct[:3] = 0  # the blocks of steps 0..2 want nothing; those of 3..5 reach back to step 2 at most
    assert not truncated(n, 1, 2).d_h0.any()
    assert truncated(n, 1, 4).d_h0.any()


@given(reaches())
@settings(deadline=None, max_examples=25)
def test_gradients_are_added_to_out(reach):
    n, k1, k2 = reach
    once = truncated(n, k1, k2)
    out = maths.RNNGradients.zeros(n.x, n.W_xh)
    for _ in range(2):
        assert truncated(n, k1, k2, out=out) is out
    assert_same(out, {name: None if d is None else 2 * d for name, d in once._asdict().items()})


def test_what_padding_holds_does_not_matter():
    n = make(4, 6, 3, 3, 4).with_(lengths=np.array([6, 3, 0]))
    garbage = n.x.copy()
    garbage[np.arange(6)[:, np.newaxis] >= n.lengths] = 1e6
    assert_same(truncated(n, 2, 3), truncated(n.with_(x=garbage), 2, 3), atol=0)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.longdouble])
@pytest.mark.parametrize("ids", [False, True])
def test_dtype_is_kept(dtype, ids):
    n = make(4, 6, 3, 3, 4, ids=ids, ragged=True, masked=True).astype(dtype)
    assert {d.dtype for d in truncated(n, 1, 3) if d is not None} == {np.dtype(dtype)}


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64", "int8", "int32"])
def test_ids_and_lengths_of_every_integer_dtype(dtype):
    n = make(4, 6, 3, 3, 4, ids=True, ragged=True)
    m = n.with_(x=n.x.astype(dtype), lengths=n.lengths.astype(dtype))
    assert_same(truncated(n, 2, 3), truncated(m, 2, 3), atol=0)


@given(st.integers(1, 9), st.integers(1, 3), st.integers(1, 9), st.integers(0, 4), st.booleans())
@settings(deadline=None, max_examples=40)
def test_blocks_cover_every_step_of_every_row_once(T, B, k1, more, ragged):
    k1 = min(k1, T)
    lengths = np.arange(B) % (T + 1) if ragged else None
    blocks = maths.cut_blocks(T, B, lengths, k1, k1 + more)
    own = [
        (row, t) for row, first in zip(blocks.rows, blocks.first, strict=True) for t in range(first, min(first + k1, T))
    ]
    assert sorted(own) == [(row, t) for row in range(B) for t in range(T)]
    end = np.full(B, T) if lengths is None else lengths
    assert (blocks.start + blocks.lengths == np.minimum(blocks.first + k1, end[blocks.rows])).all()
    assert (blocks.lengths <= blocks.k2).all()
    assert ((blocks.lengths == blocks.k2) | (blocks.start == 0)).all()
