"""The packed product: a row's bits do not depend on other rows; nothing outside the arrays is read or written."""

from __future__ import annotations

import kernels_tools as cell
import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels_tools import FLOATS, Guard, assert_close, make, same_bits

from elman.kernels import dropout, layers, loss, pooling, recurrence
from elman.kernels import gradient_product as gradients
from elman.kernels.cells import rnn
from elman.kernels.product import (
    BLOCK,
    edge_size,
    pack_backward,
    pack_forward,
    packed_size,
    panel_width,
    product,
    row_products,
)
from elman.network import Batch, Draw, Dropout, language_network, make_sampler
from elman.network import network as network_module
from elman.network import stack as stack_module

DEPTHS = (1, 2, 31, 32, 33, 100, 255, 256, 257, 300)
WIDTHS = (1, 7, 8, 15, 16, 17, 31, 32, 33, 47, 48, 49, 64, 65, 100, 128, 130, 160, 257)
SEEDS = st.integers(0, 2**32)


def packed(W, pack=pack_forward):
    K, N = W.shape if pack is pack_forward else W.shape[::-1]
    room = np.full(packed_size(K, N, W.itemsize), np.nan, W.dtype)
    pack(W, room)
    return room


def multiply(a, W, c, kernel=product):
    c = c.copy()
    kernel(a, packed(W), c, np.full(edge_size(len(a), a.itemsize), np.nan, a.dtype))
    return c


def random(seed, dtype, *shapes):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


@settings(max_examples=80, deadline=None)
@given(SEEDS, st.sampled_from(FLOATS), st.integers(1, 20), st.sampled_from(DEPTHS), st.sampled_from(WIDTHS))
def test_the_product_is_added(seed, dtype, rows, K, N):
    a, W, c = random(seed, dtype, (rows, K), (K, N), (rows, N))
    assert_close(multiply(a, W, c), c.astype(float) + a.astype(float) @ W.astype(float), dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("K", [1, 33, 256, 300])
@pytest.mark.parametrize("N", [1, 8, 31, 33, 64, 100, 128, 160, 257])
def test_a_row_has_the_same_bits_alone_and_among_others(dtype, K, N):
    a, W, c = random(K * 1000 + N, dtype, (40, K), (K, N), (40, N))
    alone = np.concatenate([multiply(a[i : i + 1], W, c[i : i + 1]) for i in range(len(a))])
    for rows in (*range(1, 21), 27, 28, 29, 40):
        assert same_bits(multiply(a[:rows], W, c[:rows]), alone[:rows]), rows
        assert same_bits(multiply(a[-rows:], W, c[-rows:]), alone[-rows:]), rows


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("H", [7, 33, 130, 300])
@pytest.mark.parametrize("ids", [None, np.int64])
def test_a_row_of_states_and_logits_does_not_depend_on_its_neighbors(dtype, H, ids):
    trial = make(H, 3, 20, 37, H, dtype, ids=ids)
    W_hy, b_y = random(H, dtype, (H, 37), (37,))
    for B in (2, 3, 5, 6, 7, 13, 14, 15, 20):
        h = cell.rnn_forward(trial.x[:, :B], trial.h0[:B], *trial.arguments[2:])
        o = layers.output_forward(h[1:], W_hy, b_y)
        for row in {0, B // 2, B - 1}:
            only = slice(row, row + 1)
            h_alone = cell.rnn_forward(trial.x[:, only], trial.h0[only], *trial.arguments[2:])
            assert same_bits(h[:, only], h_alone), (B, row)
            assert same_bits(o[:, only], layers.output_forward(h_alone[1:], W_hy, b_y)), (B, row)
            assert same_bits(o[1, row], layers.output_forward(h[2, row], W_hy, b_y)), "one vector"


def test_the_bits_tests_detect_sums_in_another_order():
    """BLAS adds in other orders for other numbers of rows or in blocks: otherwise the tests above show nothing."""
    a, W, c = random(0, np.float32, (20, 300), (300, 33), (20, 33))
    assert not same_bits(multiply(a, W, c), c + a @ W)
    assert not same_bits(multiply(a, W, c), multiply(a[:, ::-1].copy(), W[::-1].copy(), c))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("K", "N"), [(1, 1), (17, 31), (31, 17), (33, 64), (5, 130)])
def test_forward_and_backward_packing_agree_and_fill_the_last_panel_with_zeros(dtype, K, N):
    (W,) = random(3, dtype, (K, N))
    forward = packed(W)
    assert same_bits(forward, packed(W.T.copy(), pack_backward))
    panels = forward.reshape(-1, K, panel_width(W.itemsize))
    columns = panels.transpose(1, 0, 2).reshape(K, -1)
    assert same_bits(columns[:, :N], W)
    assert (columns[:, N:] == 0).all()


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.sampled_from(FLOATS), st.integers(1, 17), st.sampled_from(DEPTHS), st.sampled_from(WIDTHS))
def test_nothing_beside_the_arrays_of_a_product_is_read_or_written(seed, dtype, rows, K, N):
    a, W, c = random(seed, dtype, (rows, K), (K, N), (rows, N))
    for pack, matrix in ((pack_forward, W), (pack_backward, W.T.copy())):
        assert same_bits(packed(matrix, pack), packed_with_guard(matrix, pack))
    assert same_bits(multiply(a, W, c, Guard(product, "edge")), multiply(a, W, c))


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.sampled_from(FLOATS), st.sampled_from((1, 5, BLOCK - 1, BLOCK, 2 * BLOCK + 3)),
       st.sampled_from(DEPTHS), st.sampled_from(WIDTHS), st.booleans())  # fmt: skip
def test_products_by_blocks_of_rows_have_the_bits_of_one_product(seed, dtype, rows, K, N, add):
    wide, W, c = random(seed, dtype, (rows, K + 3), (K, N), (rows, N))
    expected = multiply(wide[:, 2 : K + 2].copy(), W, c if add else np.zeros_like(c))
    edge = np.full(edge_size(rows, c.itemsize), np.nan, dtype)
    Guard(row_products, "edge")(wide.reshape(-1), 2, K + 3, packed(W), K, c, edge, add)
    assert same_bits(c, expected)


def tile_only(patch):
    """Every weight gradient by the tile, whatever the CPU and the shape."""
    for name, value in {"BY_TILE": True, "SMALL": 0, "FEWEST": 0}.items():
        patch.setattr(gradients, name, value)


COLUMNS = (1, 7, 8, 13, 14, 15, 22, 100, 128, 223, 224, 225, 300)  # around the panels and blocks of the left side


@settings(max_examples=120, deadline=None)
@given(SEEDS, st.sampled_from(FLOATS), st.sampled_from((0, *DEPTHS, 383, 384, 385, 769)), st.sampled_from(COLUMNS),
       st.sampled_from((*WIDTHS, 520)), st.booleans(), st.booleans())  # fmt: skip
def test_a_weight_gradient_is_the_transposed_product(seed, dtype, rows, M, N, add, by_tile):
    """Of some columns of a and b into some columns of the result; nothing else is read or written."""
    a, b, out = random(seed, dtype, (rows, M + 2), (rows, N + 5), (M, N + 3))
    before = out.copy()
    with pytest.MonkeyPatch.context() as patch:
        tile_only(patch)
        patch.setattr(gradients, "BY_TILE", by_tile)
        patch.setattr(gradients, "transposed_product", Guard(gradients.transposed_product, "space"))
        gradients.weight_gradient(a, b, out, N=N, b_from=4, out_from=2, add=add)
    expected = a[:, :M].astype(float).T @ b[:, 4 : 4 + N].astype(float) + (before[:, 2 : 2 + N] if add else 0)
    assert_close(out[:, 2 : 2 + N], expected, dtype)
    assert same_bits(out[:, :2], before[:, :2])
    assert same_bits(out[:, 2 + N :], before[:, 2 + N :])


@pytest.mark.parametrize("dtype", FLOATS)
def test_an_entry_of_a_weight_gradient_does_not_depend_on_the_others(dtype, monkeypatch):
    tile_only(monkeypatch)
    a, b = random(11, dtype, (300, 240), (300, 70))
    whole, part = np.empty((240, 70), dtype), np.empty((9, 33), dtype)
    gradients.weight_gradient(a, b, whole)
    gradients.weight_gradient(a[:, 200:209].copy(), b[:, 20:53].copy(), part)
    assert same_bits(whole[200:209, 20:53], part)


def packed_with_guard(W, pack):
    room = np.empty(packed_size(*(W.shape if pack is pack_forward else W.shape[::-1]), W.itemsize), W.dtype)
    Guard(pack, "packed")(W, room)
    return room


@pytest.mark.skipif(bool(numba.config.BOUNDSCHECK), reason="Numba itself raises before the guard can look")
def test_the_guard_detects_errors():
    """A panel packed one column too wide, a c one row too short: the guard must see both."""
    a, W, c = random(5, np.float32, (6, 9), (9, 33), (6, 33))
    width = panel_width(4)
    with pytest.raises(AssertionError, match="written outside of packed"):
        Guard(pack_forward)(W, np.empty(packed_size(9, 33, 4) - width, np.float32))
    with pytest.raises(AssertionError, match="written outside of edge"):
        Guard(product)(a, packed(W), c.copy(), np.empty(5 * width, np.float32))
    short = c.copy()
    Guard(product)(a[:, :8].copy(), packed(W[:8])[: -8 * width], short, np.empty(6 * width, np.float32))
    assert np.isnan(short).any(), "weights past the end of the packed ones were not seen as NaN"


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("T", "B", "H"), [(1, 1, 1), (3, 7, 33), (2, 14, 47), (4, 3, 100)])
def test_kernels_of_a_layer_read_and_write_only_their_arrays(dtype, T, B, H, monkeypatch):
    tile_only(monkeypatch)

    def results():
        for ids in (None, np.int64):
            trial = make(H, T, B, 5, H, dtype, ids=ids, ragged=True, masked=True)
            h = cell.rnn_forward(*trial.arguments, **trial.options)
            yield h
            yield from cell.rnn_backward(trial.d_h_direct, trial.x, h, trial.W_xh, trial.W_hh, **trial.options)
            o = layers.output_forward(h[1:], trial.W_xh.T, trial.W_xh[:, 0])
            yield o
            y = np.arange(T * B).reshape(T, B) % 5
            yield from loss.cross_entropy(o, y, weights=np.ones((T, B), dtype))
            yield layers.embedding_backward(trial.d_h_direct, y, trial.W_xh)
            y_hat = loss.softmax(o)
            yield from (y_hat, loss.softmax_backward(o, y_hat), loss.surprise(o, y))
            yield from loss.cross_entropy(o, y_hat, weights=np.ones((T, B), dtype))
            yield from loss.mean_squared_error(o, y_hat, weights=np.ones((T, B), dtype))
            d, lengths = trial.d_h_direct[0], np.arange(B) % (T + 1)
            yield pooling.mean_forward(h[1:], lengths).vector
            yield pooling.mean_backward(d, T, lengths)
            top = pooling.max_forward(h[1:], lengths)
            yield from (*top, pooling.max_backward(d, T, lengths, top.places))

    expected = [r for r in results() if r is not None]
    guards = {
        (recurrence, "pack_both"): "forward backward",
        (recurrence, "pack_forward"): "packed",
        (recurrence, "pack_backward"): "packed",
        (recurrence, "row_products"): "edge",
        (gradients, "transposed_product"): "space",
        (layers, "_output"): "o packed edge",
        (loss, "_cross_entropy"): "",
        (loss, "_cross_entropy_of_distributions"): "",
        (loss, "_softmax"): "",
        (loss, "_softmax_backward"): "",
        (loss, "_surprise"): "losses",
        (loss, "_squared"): "",
        (pooling, "_mean"): "",
        (pooling, "_mean_backward"): "",
        (pooling, "_max"): "",
        (pooling, "_max_backward"): "",
        (layers, "scatter"): "",
    }
    for (module, name), scratch in guards.items():
        monkeypatch.setattr(module, name, Guard(getattr(module, name), scratch))
    passes = guarded_cell(monkeypatch)
    for ours, theirs in zip((r for r in results() if r is not None), expected, strict=True):
        assert same_bits(ours, theirs)
    assert all(getattr(module, name).calls for module, name in guards)
    assert passes.forward.calls == passes.backward.calls == 2


def guarded_cell(monkeypatch):
    """The kernels of the vanilla cell, guarded."""
    passes = rnn.KERNELS._replace(
        forward=Guard(rnn.KERNELS.forward, "scratch edge"),
        backward=Guard(rnn.KERNELS.backward, "scratch edge d_bias"),
        sample=Guard(rnn.KERNELS.sample, "a out x scratch edge y_hat"),
    )
    monkeypatch.setattr(rnn, "KERNELS", passes)
    return passes


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("layers_", [1, 3])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("T", "B", "H", "V"), [(1, 1, 1, 1), (3, 5, 33, 9), (2, 17, 16, 65)])
def test_kernels_of_a_network_read_and_write_only_their_arrays(dtype, layers_, masked, T, B, H, V, monkeypatch):
    monkeypatch.setattr(stack_module, "make_layer", recurrence.make_layer)
    monkeypatch.setattr(network_module, "make_output", layers.make_output)
    tile_only(monkeypatch)

    def results():
        rng = np.random.default_rng(H)
        network = language_network(V, H, layers_)
        p = network.initial(rng, recurrent="orthogonal", gain=0.9, token_scale=0.8, dtype=dtype)
        x, y = rng.integers(V, size=(2, T, B))
        state, d = rng.standard_normal((layers_, 1, B, H)).astype(dtype), p.zeros()
        draw = Draw(Dropout(layers=0.5, states=0.5), 1, 2) if masked else None
        yield network.loss_and_gradients(p, Batch(x, y, state=state), d, normalizer=7.0, draw=draw)
        yield from (d.buffer, state.copy())
        o = rng.standard_normal((B, V)).astype(dtype)
        options = {"temperature": np.full(B, 0.9), "top_k": np.full(B, 3), "top_p": np.full(B, 0.9)}
        options["banned"] = np.array([], np.int64)
        yield make_sampler(network.stack, p).write(o, state, rng.random((3, B)), **options)
        yield from (o, state)

    expected, slices = list(results()), len(Batch(np.zeros((T, B)), np.zeros((T, B))).slices())
    guards = {
        (recurrence, "pack_both"): "forward backward",
        (layers, "_logits_and_loss"): "o edge d_b_y",
        (layers, "_pack"): "packed transposed",
        (layers, "row_products"): "edge",
        (gradients, "transposed_product"): "space",
        (dropout, "_mask"): "mask",
    }
    for (module, name), scratch in guards.items():
        monkeypatch.setattr(module, name, Guard(getattr(module, name), scratch))
    passes = guarded_cell(monkeypatch)
    for ours, theirs in zip(list(results()), expected, strict=True):
        assert same_bits(ours, theirs)
    assert passes.forward.calls == passes.backward.calls == layers_ * slices
    assert layers._logits_and_loss.calls == slices
    assert passes.sample.calls >= 1
