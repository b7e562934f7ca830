"""PyTorch as the judge of what we write for it and read from it. Run by scripts/crosscheck."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from elman.config import Config
from elman.data import CharVocabulary
from elman.errors import CheckpointError
from elman.exchange import export_torch
from elman.exchange.model_file import PortableModel, save_run
from elman.exchange.pytorch import read_torch, to_torch
from elman.models import LanguageModel
from elman.models.fitted import build_network
from elman.models.task_spec import TaskSpec
from elman.network import Batch, EncoderDecoder, HeadNetwork, Parameters, Stack

LETTERS = "abcdefg\n"
V, H, T, B = len(LETTERS), 6, 9, 3
TOLERANCE = 1e-6


class Module(nn.Module):
    """What the README shows."""

    def __init__(self, tokens, hidden, layers, nonlinearity="tanh"):
        super().__init__()
        self.rnn = nn.RNN(tokens, hidden, layers, nonlinearity=nonlinearity)
        self.linear = nn.Linear(hidden, tokens)

    def forward(self, x, h=None):
        x = nn.functional.one_hot(x, self.linear.out_features).to(self.linear.weight.dtype)
        outputs, h = self.rnn(x, h)
        return self.linear(outputs), h


def random_run(path, **options):
    config, spec = Config().with_options(hidden=H, **options), TaskSpec.language_model(CharVocabulary(LETTERS))
    network = build_network(spec, config)
    p = Parameters(network.shapes, np.dtype(config.dtype))
    p.buffer[:] = 0.4 * np.random.default_rng(0).standard_normal(p.buffer.size)
    return save_run(PortableModel(p, config, spec), path).path


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_torch_loads_it_strictly_and_computes_the_same(tmp_path, activation, layers, precision):
    run = random_run(tmp_path / "run", activation=activation, layers=layers, dtype=precision)
    export_torch(run, tmp_path / "model.safetensors")
    module = Module(V, H, layers, activation).to(getattr(torch, precision))
    module.load_state_dict(load_file(tmp_path / "model.safetensors"))
    rng = np.random.default_rng(1)
    x, h0 = rng.integers(V, size=(T, B)), rng.standard_normal((layers, B, H)).astype(precision)
    with torch.no_grad():
        logits, h_n = module(torch.tensor(x), torch.tensor(h0))
    model = LanguageModel.load(run)
    network = model.network_
    o, state = network.read(network.pack(model.parameters_), x, h0[:, np.newaxis])
    np.testing.assert_allclose(logits.numpy(), o, rtol=TOLERANCE, atol=TOLERANCE)
    np.testing.assert_allclose(h_n.numpy(), state[:, 0], rtol=TOLERANCE, atol=TOLERANCE)


def test_both_directions_and_an_embedding():
    """A tagger: the parts embedding, rnn and linear."""
    network = HeadNetwork(Stack(V, H, 2, bidirectional=True, embedding=3), 4)
    p = Parameters(network.shapes, np.float32)
    p.buffer[:] = 0.4 * np.random.default_rng(0).standard_normal(p.buffer.size)
    module = nn.ModuleDict({
        "embedding": nn.Embedding(V, 3),
        "rnn": nn.RNN(3, H, 2, bidirectional=True),
        "linear": nn.Linear(2 * H, 4),
    })  # fmt: skip
    state = to_torch(network, p)
    module.load_state_dict({name: torch.tensor(np.ascontiguousarray(array)) for name, array in state.items()})
    x = np.random.default_rng(1).integers(V, size=(T, B))
    with torch.no_grad():
        theirs = module["linear"](module["rnn"](module["embedding"](torch.tensor(x)))[0])
    ours = network.outputs_of(network.pack(p), x)
    np.testing.assert_allclose(theirs.numpy(), ours, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_gates_are_in_torch_s_order(cell):
    network = HeadNetwork(Stack(V, H, 2, cell=cell, bidirectional=True, tokens=False), 4)
    p = Parameters(network.shapes, np.float32)
    p.buffer[:] = 0.4 * np.random.default_rng(0).standard_normal(p.buffer.size)
    kind = {"gru": nn.GRU, "lstm": nn.LSTM}[cell]
    module = nn.ModuleDict({"rnn": kind(V, H, 2, bidirectional=True), "linear": nn.Linear(2 * H, 4)})
    state = to_torch(network, p)
    module.load_state_dict({name: torch.tensor(np.ascontiguousarray(array)) for name, array in state.items()})
    x = np.random.default_rng(1).standard_normal((T, B, V)).astype(np.float32)
    with torch.no_grad():
        theirs = module["linear"](module["rnn"](torch.tensor(x))[0])
    ours = network.outputs_of(network.pack(p), x)
    np.testing.assert_allclose(theirs.numpy(), ours, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("wrap", [lambda s: s, lambda s: {"epoch": 3, "model": s}], ids=["alone", "wrapped"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_pt_file_of_torch_s_own_weights_computes_the_same_here(tmp_path, wrap, dtype):
    torch.manual_seed(0)
    module = Module(V, H, 2).to(dtype)
    torch.save(wrap(module.state_dict()), tmp_path / "x.pt")
    (tmp_path / "letters.json").write_text(json.dumps(list(LETTERS)))
    run = save_run(read_torch(tmp_path / "x.pt", vocabulary=tmp_path / "letters.json"), tmp_path / "run")
    model = LanguageModel.load(run.path)
    text = "abgf\ncc"
    ids = torch.tensor([[LETTERS.index(c)] for c in text])
    with torch.no_grad():
        logits, _ = module.to(torch.float64 if dtype is torch.float64 else torch.float32)(ids)
    o, _ = model.text_sampler.read(model.vocabulary_.encode(text))
    theirs = {c: logits[-1, 0, i].item() for i, c in enumerate(LETTERS)}
    for c, ours in zip(model.vocabulary_.tokens, o, strict=True):
        assert abs(ours - theirs[c]) < TOLERANCE


def test_there_through_torch_and_back_to_the_bit(tmp_path):
    run = random_run(tmp_path / "run", layers=2)
    export_torch(run, tmp_path / "model.safetensors")
    module = Module(V, H, 2)
    module.load_state_dict(load_file(tmp_path / "model.safetensors"))
    torch.save(module.state_dict(), tmp_path / "x.pt")
    back = read_torch(tmp_path / "x.pt", vocabulary=run / "vocabulary.json")
    for name, array in LanguageModel.load(run).parameters_.items():
        assert np.ascontiguousarray(back.parameters[name]).tobytes() == array.tobytes()


class Evil:
    def __reduce__(self):
        return (open, ("opened", "w"))


@pytest.mark.parametrize("content", [Evil(), nn.Linear(2, 2), {"a": 1}, [1]], ids=["code", "module", "numbers", "list"])
def test_a_pickle_of_anything_else_is_refused_unrun(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    torch.save(content, "x.pt")
    with pytest.raises(CheckpointError, match=r"x\.pt"):
        read_torch(tmp_path / "x.pt")
    assert not (tmp_path / "opened").exists()


@pytest.mark.parametrize("data", [b"", b"<html>", b"PK\x03\x04 cut"])
def test_an_empty_or_foreign_pt_file_is_refused(tmp_path, data):
    (tmp_path / "x.pt").write_bytes(data)
    with pytest.raises(CheckpointError, match="contains more than weights"):
        read_torch(tmp_path / "x.pt")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_expanded_tensor_is_refused_before_it_is_multiplied_out(tmp_path, dtype):
    """A file of a few kilobytes that asks for terabytes."""
    state = Module(V, H, 1).to(dtype).state_dict()
    for name in ("rnn.weight_ih_l0", "linear.weight"):
        state[name] = torch.zeros(1, 1, dtype=dtype).expand(10**6, 10**6)
    torch.save(state, tmp_path / "x.pt")
    assert (tmp_path / "x.pt").stat().st_size < 10_000
    with pytest.raises(CheckpointError, match=r"weight_ih_l0: expected \d+ bytes of numbers, got \d for shape"):
        read_torch(tmp_path / "x.pt")


def test_weights_that_are_shared_are_read(tmp_path):
    """The same tensor as embedding and as nn.Linear lies in the file once."""
    embedding = torch.randn(V, H)
    state = {**nn.RNN(H, H).state_dict(prefix="rnn."), "emb.weight": embedding, "out.weight": embedding}
    torch.save(state, tmp_path / "x.pt")
    (tmp_path / "letters.json").write_text(json.dumps(list(LETTERS)))
    model = read_torch(tmp_path / "x.pt", vocabulary=tmp_path / "letters.json")
    assert model.parameters["layers.0.W_xh"].shape == (V, H)


@pytest.mark.parametrize("additive", [False, True], ids=["dot", "additive"])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_the_module_of_the_docs_translates(cell, layers, additive):
    """docs/translation.md: a strict state dict, and the same logits for sources of several lengths."""
    text = (Path(__file__).parents[2] / "docs" / "translation.md").read_text("utf-8")
    namespace: dict = {}
    exec(text.split("## In PyTorch")[1].split("```python")[1].split("```")[0], namespace)
    stacks = [Stack(V, H, layers, cell=cell, bidirectional=both, embedding=5, prefix=prefix)
              for both, prefix in ((True, "encoder."), (False, "decoder."))]  # fmt: skip
    network = EncoderDecoder(*stacks, V, edge=1, attention="additive" if additive else "dot")
    p = Parameters(network.shapes, np.float64)
    p.buffer[:] = 0.4 * np.random.default_rng(0).standard_normal(p.buffer.size)
    kind = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}[cell]
    module = namespace["Translator"](V, V, H, 5, layers, kind, additive).double()
    state = to_torch(network, p)
    module.load_state_dict({name: torch.tensor(np.ascontiguousarray(array)) for name, array in state.items()})
    rng = np.random.default_rng(1)
    x, lengths, y = rng.integers(V, size=(T, B)), np.array([T, 1, 4]), rng.integers(V, size=(4, B))
    o, _, _ = network.forward(network.pack(p), Batch(x, y, None, lengths, np.full(B, 4)))
    given = np.concatenate([np.ones((1, B), np.int64), y])
    with torch.no_grad():
        theirs = module(torch.tensor(x), torch.tensor(lengths), torch.tensor(given))
    np.testing.assert_allclose(theirs.numpy(), o, rtol=1e-9, atol=1e-9)
