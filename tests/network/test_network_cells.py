"""Networks of every cell, also of one that only tests define: a cell in the table CELLS is all that networks need."""

from __future__ import annotations

import itertools
from typing import Literal

import numpy as np
import pytest
import toy_cell_kernels
from toy_cell import ToyCell

from elman import LanguageModel, Seq2Seq, SequenceTagger, config
from elman.kernels.cells import COMPILED, cell_kernels
from elman.maths import cells
from elman.maths.gradient_check import gradcheck
from elman.maths.recurrence import cell_forward
from elman.maths.truncation import Truncation, cut_blocks, truncated_cell_backward
from elman.models import runs
from elman.network import Batch, Draw, Dropout, EncoderDecoder, HeadNetwork, Stack
from elman.network.stack import NO_MASKS

X, H, Y, T, B = 2, 2, 3, 4, 3
LENGTHS = np.array([4, 2, 0])
compiled_toy = pytest.param("compiled_toy", marks=pytest.mark.nightly)  # it takes a minute to compile
every_cell = pytest.mark.parametrize("cell", ["gru", "lstm", "toy", compiled_toy])


class CompiledToyCell(ToyCell):
    name = "compiled_toy"


@pytest.fixture(autouse=True)
def toy(monkeypatch):
    for cell in (ToyCell, CompiledToyCell):
        monkeypatch.setitem(cells.CELLS, cell.name, cell)
    monkeypatch.setitem(COMPILED, "compiled_toy", "toy_cell_kernels")
    monkeypatch.setitem(config._hints(), "cell", Literal["rnn", "gru", "lstm", "toy", "compiled_toy"])


@pytest.mark.nightly
def test_the_compiled_toy_cell_is_the_one_that_runs():
    assert cell_kernels(CompiledToyCell()) is toy_cell_kernels.KERNELS
    assert cell_kernels(ToyCell()) is None


def filled(network, seed=0):
    rng = np.random.default_rng(seed)
    p = network.initial(rng, recurrent="orthogonal", gain=1.0, dtype=np.float64)
    p.buffer[:] = 0.6 * rng.standard_normal(p.buffer.size)
    return p


def check(network, batch, dropout):
    p, draw = filled(network), Draw(dropout, 1, 2)
    gradients, unused = p.zeros(), p.zeros()
    loss = network.loss_and_gradients(p, batch, gradients, normalizer=2.0, draw=draw)
    masks = network.masks(draw, batch, np.arange(B), np.float64) if any(dropout) else (NO_MASKS,) * len(network.stacks)

    def whole():
        return network.slice_loss(network.pack(p), batch, 2.0, unused, masks=masks)

    assert loss == pytest.approx(whole(), rel=1e-12)
    gradcheck(whole, dict(p), dict(gradients)).expect()


@every_cell
def test_weights_start_gate_by_gate(cell):
    network = HeadNetwork(Stack(X, 8, 2, cell=cell), Y)
    for forget_bias in (1.0, -0.5):
        p = network.initial(
            np.random.default_rng(0), recurrent="orthogonal", gain=0.9, dtype=np.float64, forget_bias=forget_bias
        )
        for name in network.stack.names:
            gates = network.stack.cell.gate_names
            blocks = np.split(p[f"{name}.W_hh"], len(gates), axis=1)
            for i, block in enumerate(blocks):
                np.testing.assert_allclose(block @ block.T, 0.81 * np.eye(8), atol=1e-12)
                assert not any(np.array_equal(block, other) for other in blocks[:i])
            for gate, bias in zip(gates, np.split(p[f"{name}.b_h"], len(gates)), strict=True):
                assert (bias == (forget_bias if (cell, gate) == ("lstm", "f") else 0)).all()


DROPOUTS = [Dropout(), Dropout(0.2, 0.2, 0.2)]


@every_cell
@pytest.mark.parametrize(("layers", "bidirectional"), [*itertools.product((1, 2), (False, True))])
@pytest.mark.parametrize("dropout", DROPOUTS)
@pytest.mark.parametrize("pooling", ["none", "last"])
@pytest.mark.parametrize("learned_state", [False, True])
def test_every_gradient_of_a_stack(cell, layers, bidirectional, dropout, pooling, learned_state):
    rng = np.random.default_rng(1)
    stack = Stack(X, H, layers, cell=cell, bidirectional=bidirectional, learned_state=learned_state)
    y = rng.integers(Y, size=(T, B) if pooling == "none" else B)
    batch = Batch(
        rng.integers(X, size=(T, B)), y, rng.uniform(0.5, 2, B), LENGTHS, LENGTHS if pooling == "none" else None
    )
    check(HeadNetwork(stack, Y, pooling=pooling), batch, dropout)


@every_cell
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("dropout", DROPOUTS)
def test_every_gradient_of_a_translator(cell, bidirectional, dropout):
    rng = np.random.default_rng(2)
    encoder = Stack(X, H, 1, cell=cell, bidirectional=bidirectional, embedding=2, prefix="encoder.")
    network = EncoderDecoder(encoder, Stack(Y, H, 1, cell=cell, prefix="decoder."), Y, edge=1)
    y_lengths = np.array([3, 0, 2])
    batch = Batch(
        rng.integers(X, size=(T, B)), rng.integers(Y, size=(3, B)), rng.uniform(0.5, 2, B), LENGTHS, y_lengths
    )
    check(network, batch, dropout)


@pytest.mark.parametrize("truncation", [(1, 1), (1, 3), (2, 3)])
@pytest.mark.parametrize("ragged", [False, True])
def test_a_truncated_gradient_is_that_of_its_blocks_with_the_whole_state_held_fixed(truncation, ragged):
    rng = np.random.default_rng(3)
    cell, lengths = ToyCell(), LENGTHS if ragged else None
    p = {name: 0.6 * rng.standard_normal(shape) for name, shape in cell.shapes(X, H).items()}
    x, s0, d = rng.standard_normal((T, B, X)), rng.standard_normal((2, B, H)), rng.standard_normal((T, B, H))
    trace = cell_forward(cell, x, s0, p, lengths=lengths)
    found = truncated_cell_backward(cell, d, trace, x, p, k1=truncation[0], k2=truncation[1], lengths=lengths)
    blocks = cut_blocks(T, B, lengths, *truncation)
    fixed, direct = blocks.trace(trace).s[:, 0].copy(), blocks.direct(d)

    def loss():
        start = np.where((blocks.start == 0)[:, np.newaxis], s0[:, blocks.rows], fixed)
        h = cell_forward(cell, blocks.inputs(x), start, p, lengths=blocks.lengths).s[0, 1:]
        return float((h * direct).sum())

    gradcheck(loss, {**p, "x": x, "s0": s0}, {**found.d_p, "x": found.d_x, "s0": found.d_s0}).expect()


def test_a_window_with_carried_state_is_truncated_through_all_layers():
    rng = np.random.default_rng(4)
    network = HeadNetwork(Stack(X, H, 2, cell="toy"), X)
    p = filled(network)
    x, y = rng.integers(X, size=(2, 6, B))
    states, gradients = rng.standard_normal((2, 2, B, H)), []
    for truncation in (None, Truncation(6, 6), Truncation(2, 3)):
        d = p.zeros()
        network.loss_and_gradients(p, Batch(x, y, state=states.copy()), d, normalizer=1.0, truncation=truncation)
        gradients.append(d.buffer)
    np.testing.assert_array_equal(gradients[0], gradients[1])
    assert np.abs(gradients[0] - gradients[2]).max() > 1e-3


TEXT = "the cat sat on the mat and the dog sat on the cat. " * 30
OPTIONS = {"hidden": 12, "learning_rate": 0.02, "warmup_steps": 0}


@every_cell
def test_a_language_model_learns_and_a_resumed_run_equals_an_uninterrupted_one(cell, tmp_path):
    options = {**OPTIONS, "cell": cell, "batch_size": 4, "window": 12, "dropout": 0.1, "recurrent_dropout": 0.0,
               "save_every": 5, "layers": 2}  # fmt: skip
    whole = LanguageModel(**options, steps=60).fit(TEXT, out=tmp_path / "whole", listeners=[])
    assert whole.fitted_.finished.best_loss < 2.2 < np.log(len(set(TEXT)))
    settings, asked = config.resolve("lm", {**options, "steps": 60}), iter([False] * 22 + [True] * 9)
    prepared = runs.text_setup(runs.open_text(TEXT, settings), settings)
    stopped = runs.start(prepared, out=tmp_path / "part", stopping=lambda: next(asked))
    assert stopped.finished.why == "interrupted"
    runs.resume(tmp_path / "part")
    again = LanguageModel.load(tmp_path / "part")
    assert again.parameters_.buffer.tobytes() == LanguageModel.load(tmp_path / "whole").parameters_.buffer.tobytes()
    assert again.sample(30, seed=3) == LanguageModel.load(tmp_path / "whole").sample(30, seed=3)
    assert len(again.sample(5, prompt="the", beam=3)) == 8


@every_cell
def test_a_tagger_of_two_directions_and_a_translator_learn(cell):
    options = {**OPTIONS, "cell": cell, "random_state": 0}
    words = ["ab", "ba", "aab", "bba", "abab", "bb", "a", "bab"] * 4
    tags = [["X" if letter == "a" else "Y" for letter in word] for word in words]
    tagger = SequenceTagger(**options, embedding=4, epochs=30, dropout=0.1).fit(words, tags)
    assert tagger.score(words, tags) > 0.95
    turned = [word[::-1] for word in words]
    translator = Seq2Seq(**options, epochs=120, dropout=0.0).fit(words, turned)
    assert translator.score(words, turned) > 0.5
    assert translator.predict(["ab"], beam=2)
