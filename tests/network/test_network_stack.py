"""A language network: every gradient against finite differences of a forward pass written out here step by step."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from elman.kernels.threads import set_threads
from elman.maths.gradient_check import gradcheck
from elman.maths.truncation import Truncation
from elman.network import Batch, Draw, Dropout, HeadNetwork, Parameters, Stack, language_network

V, H = 5, 3
ONE_HOT = np.eye(V)
TOLERANCE = 1e-5  # through three sigmoids a gradient is so small that rounding shows in the sixth digit

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "tanh": np.tanh,
    "relu": lambda a: a * (a > 0),
    "sigmoid": lambda a: 1 / (1 + np.exp(-a)),
    "identity": lambda a: a,
}


@pytest.fixture(autouse=True)
def default_threads() -> Iterator[None]:
    yield
    set_threads(None)


class Trial:
    """A network in float64 with a window, a carried state and, if `masked`, fixed dropout masks."""

    def __init__(self, layers: int, B: int, T: int, *, masked: bool = False, activation: str = "tanh") -> None:
        rng = np.random.default_rng([layers, B, T, masked])
        self.network = language_network(V, H, layers, activation=activation)
        self.p = self.network.initial(rng, recurrent="orthogonal", gain=0.9, token_scale=0.8, dtype=np.float64)
        self.p.buffer += 0.1 * rng.standard_normal(self.p.buffer.size)  # biases too
        self.x, self.y = rng.integers(V, size=(2, T, B))
        self.state = 0.5 * rng.standard_normal((layers, 1, B, H))
        self.draw = Draw(Dropout(layers=0.5, states=0.3), 3, 8) if masked else None
        self.masks = None
        if self.draw is not None:
            (self.masks,) = self.network.masks(self.draw, Batch(self.x, self.y), np.arange(B), np.float64)
        self.normalizer = 0.7 * T * B
        self.function = FUNCTIONS[activation]

    def gradients(
        self, truncation: Truncation | None = None, into: Parameters | None = None
    ) -> tuple[float, Parameters, Any]:
        d, state = self.p.zeros() if into is None else into, self.state.copy()
        loss = self.network.loss_and_gradients(
            self.p, Batch(self.x, self.y, state=state), d,
            normalizer=self.normalizer, draw=self.draw, truncation=truncation, add=into is not None,
        )  # fmt: skip
        return loss, d, state

    def losses(self, state: Any, steps: range, silent: int = 0) -> tuple[list[float], list[Any]]:
        """The losses of these steps, without those of the first `silent` steps, and the states after each step."""
        state, states, outs = list(state[:, 0]), [], []
        masks = None if self.masks is None else [*self.masks.layers, self.masks.head]
        weights = [[self.p[f"layers.{i}.{name}"] for name in ("W_xh", "W_hh", "b_h")] for i in range(len(state))]
        for t in steps:
            out = ONE_HOT[self.x[t]]
            for i, (W_xh, W_hh, b_h) in enumerate(weights):
                before = state[i] if self.masks is None else state[i] * self.masks.states[i]
                state[i] = self.function(out @ W_xh + before @ W_hh + b_h)
                out = state[i] if masks is None else state[i] * masks[i][t]
            states.append(np.array(state)[:, np.newaxis])
            outs.append(out)
        o = np.array(outs[silent:]) @ self.p["head.W_hy"] + self.p["head.b_y"]
        y_hat = np.exp(o) / np.exp(o).sum(axis=2, keepdims=True)
        y = ONE_HOT[self.y[steps.start + silent : steps.stop]]
        return (-np.log((y * y_hat).sum(axis=2)).sum(axis=1) / self.normalizer).tolist(), states

    def whole_loss(self) -> float:
        return sum(self.losses(self.state, range(len(self.y)))[0])

    def block_loss(self, truncation: Truncation) -> Callable[[], float]:
        """The sum of the losses of all blocks, each from the fixed states k2 steps before its end."""
        T = len(self.y)
        fixed = [self.state, *self.losses(self.state, range(T))[1]]

        def loss() -> float:
            total = 0.0
            for first in range(0, T, truncation.k1):
                end = min(first + truncation.k1, T)
                start = max(0, end - truncation.k2)
                total += sum(self.losses(fixed[start], range(start, end), silent=first - start)[0])
            return total

        return loss


@pytest.mark.parametrize("activation", FUNCTIONS)
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("masked", [False, True])
def test_every_gradient_of_the_stack_is_the_derivative(layers: int, masked: bool, activation: str) -> None:
    for T, B in ((1, 1), (4, 1), (4, 3), (1, 3)):
        trial = Trial(layers, B, T, masked=masked, activation=activation)
        loss, d, _ = trial.gradients()
        assert loss == pytest.approx(trial.whole_loss(), rel=1e-12)
        gradcheck(trial.whole_loss, trial.p, d, tolerance=TOLERANCE).expect()


@pytest.mark.parametrize(("B", "slices"), [(16, 2), (33, 2), (130, 3)])
@pytest.mark.parametrize("masked", [False, True])
def test_every_gradient_is_the_derivative_when_the_batch_is_cut_in_slices(B: int, slices: int, masked: bool) -> None:
    ids = np.zeros((1, B), np.int64)
    assert len(Batch(ids, ids).slices()) == slices
    for layers, T in ((1, 1), (2, 3)):
        trial = Trial(layers, B, T, masked=masked)
        loss, d, _ = trial.gradients()
        assert loss == pytest.approx(trial.whole_loss(), rel=1e-12)
        gradcheck(trial.whole_loss, trial.p, d, tolerance=TOLERANCE).expect()


@pytest.mark.parametrize("k", [(1, 1), (1, 3), (2, 2), (2, 3), (3, 4), (2, 5), (5, 5)])
@pytest.mark.parametrize("masked", [False, True])
def test_truncation_runs_through_the_whole_stack(k: tuple[int, int], masked: bool) -> None:
    for layers, B, activation in ((2, 2, "tanh"), (3, 1, "sigmoid"), (2, 17, "tanh"), (1, 2, "relu")):
        trial = Trial(layers, B, 7, masked=masked, activation=activation)
        loss, d, state = trial.gradients(Truncation(*k))
        gradcheck(trial.block_loss(Truncation(*k)), trial.p, d, tolerance=TOLERANCE).expect()
        whole_loss, whole, whole_state = trial.gradients()
        assert loss == whole_loss  # truncation changes the gradients, not the loss
        assert np.array_equal(state, whole_state)
        if B > 1 and activation == "tanh":
            assert np.abs(d.buffer - whole.buffer).max() > 1e-3 * np.abs(whole.buffer).max()


def test_bptt_over_the_whole_window_is_no_truncation() -> None:
    trial = Trial(2, 3, 6)
    _, whole, _ = trial.gradients()
    for k1, k2 in ((1, 6), (6, 6), (4, 60)):
        np.testing.assert_allclose(trial.gradients(Truncation(k1, k2))[1].buffer, whole.buffer, rtol=1e-12)


@pytest.mark.parametrize("truncation", [None, Truncation(2, 3)])
def test_gradients_are_added_to_the_old_ones(truncation: Truncation | None) -> None:
    trial = Trial(2, 20, 5, masked=True)
    alone = trial.gradients(truncation)[1]
    there = np.random.default_rng(3).standard_normal(alone.buffer.size)
    into = trial.p.zeros()
    into.buffer[:] = there
    trial.gradients(truncation, into)
    np.testing.assert_allclose(into.buffer, there + alone.buffer, rtol=1e-12)
    trial.gradients(truncation, into)
    np.testing.assert_allclose(into.buffer, there + 2 * alone.buffer, rtol=1e-12)


@pytest.mark.parametrize("B", [1, 16, 130])
def test_the_carried_state_is_the_final_state_of_the_forward_pass(B: int) -> None:
    trial = Trial(3, B, 5)
    before = trial.state.copy()
    o, after = trial.network.read(trial.network.pack(trial.p), trial.x, trial.state)
    assert o.shape == (5, B, V)
    assert np.array_equal(trial.state, before)  # the forward pass does not change its argument
    _, _, carried = trial.gradients()
    for mine, theirs, written_out in zip(carried, after, trial.losses(trial.state, range(5))[1][-1], strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)
        np.testing.assert_allclose(mine, written_out, rtol=1e-12)


def test_two_windows_with_carried_state_are_one_long_window() -> None:
    trial = Trial(2, 3, 8)
    loss, _, last = trial.gradients()
    state, parts = trial.state.copy(), []
    for steps in (slice(0, 5), slice(5, 8)):
        parts.append(
            trial.network.loss_and_gradients(
                trial.p,
                Batch(trial.x[steps], trial.y[steps], state=state),
                trial.p.zeros(),
                normalizer=trial.normalizer,
            )
        )
    assert sum(parts) == pytest.approx(loss, rel=1e-12)
    for mine, theirs in zip(state, last, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("truncation", [None, Truncation(3, 5)])
def test_the_bits_do_not_depend_on_the_number_of_threads(dtype: type, truncation: Truncation | None) -> None:
    rng = np.random.default_rng(0)
    network = language_network(20, 24, 2)
    p = network.initial(rng, recurrent="orthogonal", gain=1, token_scale=0.3, dtype=np.dtype(dtype))
    x, y = rng.integers(20, size=(2, 9, 150))
    results = set()
    for threads in (1, 2, 3, 8, 1):
        set_threads(threads)
        state, d = network.stack.zero_state(150, np.dtype(dtype)), p.zeros()
        batch = Batch(x, y, state=state)
        losses = [network.loss_and_gradients(p, batch, d, normalizer=9, truncation=truncation) for _ in range(3)]
        results.add((*losses, d.buffer.tobytes(), state.tobytes()))
    assert len(results) == 1


def test_slices_cover_the_batch_and_depend_on_it_alone() -> None:
    rng = np.random.default_rng(0)
    for B in range(1, 400):
        ids, lengths = np.zeros((1, B), np.int64), rng.integers(0, 9, B)
        for batch in (Batch(ids, ids), Batch(ids, ids[0], None, lengths)):
            slices = [np.arange(B)[part].tolist() for part in batch.slices()]
            assert sorted(row for part in slices for row in part) == list(range(B))
            sizes = [len(part) for part in slices]
            assert min(sizes) >= 1
            assert max(sizes) <= 64 + 1
            assert max(sizes) - min(sizes) <= 1
            for threads in (1, 7):
                set_threads(threads)
                assert [np.arange(B)[part].tolist() for part in batch.slices()] == slices
        for part in slices:  # of the ragged batch
            assert lengths[part].tolist() == sorted(lengths[part], reverse=True)
    assert [len(Batch(ids[:, :B], ids[:, :B]).slices()) for B in (1, 15, 16, 128, 129)] == [1, 1, 2, 2, 3]


def test_parameters_are_views_of_one_buffer() -> None:
    network = HeadNetwork(Stack(7, 4, 2), 5)
    p = Parameters(network.shapes, np.dtype(np.float32))
    assert list(p) == [f"layers.{i}.{name}" for i, name in itertools.product(range(2), ("W_xh", "W_hh", "b_h"))] + [
        "head.W_hy",
        "head.b_y",
    ]
    assert {name: p[name].shape for name in p} == {
        "layers.0.W_xh": (7, 4), "layers.0.W_hh": (4, 4), "layers.0.b_h": (4,),
        "layers.1.W_xh": (4, 4), "layers.1.W_hh": (4, 4), "layers.1.b_h": (4,),
        "head.W_hy": (4, 5), "head.b_y": (5,),
    }  # fmt: skip
    assert p.buffer.size == sum(p[name].size for name in p)
    assert len(p) == 8
    assert p.buffer.flags.c_contiguous
    assert not p.buffer.any()
    for number, name in enumerate(p, 1):
        assert np.shares_memory(p[name], p.buffer)
        p[name][...] = number
    assert np.array_equal(p.buffer, np.concatenate([p[name].ravel() for name in p]))
    p.buffer[:] = np.arange(p.buffer.size)
    assert np.array_equal(p["layers.0.W_xh"], np.arange(28).reshape(7, 4))
    assert p["head.b_y"][-1] == p.buffer.size - 1
    room = p.zeros()
    assert not np.shares_memory(room.buffer, p.buffer)
    assert room.buffer.dtype == np.float32
    assert not room.buffer.any()
    assert room.shapes == p.shapes


def test_initial_parameters_are_those_of_the_seed_with_orthogonal_recurrence_and_no_bias() -> None:
    network = language_network(11, 16, 2)

    def draw(seed: int, **options: Any) -> Parameters:
        options = {"recurrent": "orthogonal", "gain": 1.5, "token_scale": 0.3, "dtype": np.float64, **options}
        return network.initial(np.random.default_rng(seed), **options)

    p = draw(1)
    for i in range(2):
        W_hh = p[f"layers.{i}.W_hh"]
        np.testing.assert_allclose(W_hh @ W_hh.T, 1.5**2 * np.eye(16), atol=1e-12)
        assert not p[f"layers.{i}.b_h"].any()
    assert not p["head.b_y"].any()
    assert 0.2 < p["layers.0.W_xh"].std() < 0.4
    assert np.array_equal(p.buffer, draw(1).buffer)
    assert not np.array_equal(p.buffer, draw(2).buffer)
    assert np.array_equal(draw(1, recurrent="identity")["layers.1.W_hh"], 1.5 * np.eye(16))


def test_overflow_makes_the_loss_infinite_or_nan_without_a_warning() -> None:
    trial = Trial(2, 3, 4, activation="identity")
    trial.p.buffer *= 1e200
    loss, _, _ = trial.gradients()
    assert not np.isfinite(loss)
