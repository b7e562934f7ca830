"""PyTorch state dicts, exported and imported without PyTorch (tests/crosscheck compares with PyTorch itself)."""

from __future__ import annotations

import json
import re
import sys
import types

import numpy as np
import pytest
from exchange_tools import VOCABULARIES, random_model, random_run
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from elman.data import CharVocabulary
from elman.errors import ArgumentError, CheckpointError, VocabularyError
from elman.exchange import export_npz, export_torch
from elman.exchange.model_file import save_run
from elman.exchange.pytorch import from_torch, read_torch, to_torch
from elman.models import LanguageModel
from elman.models.task_spec import TaskSpec
from elman.network import HeadNetwork, Parameters, Stack, language_network

H, V, E = 4, 5, 3


def foreign(layers=1, embedding=False, bias=True, prefix="model.rnn.", dtype=np.float32):
    """The state dict of a foreign module: both biases in use, other names."""
    rng = np.random.default_rng(0)

    def normal(*shape):
        return rng.standard_normal(shape).astype(dtype)

    state = {}
    for layer in range(layers):
        state[f"{prefix}weight_ih_l{layer}"] = normal(H, H if layer else E if embedding else V)
        state[f"{prefix}weight_hh_l{layer}"] = normal(H, H)
        if bias:
            state[f"{prefix}bias_ih_l{layer}"], state[f"{prefix}bias_hh_l{layer}"] = normal(H), normal(H)
    state["model.out.weight"] = normal(V, H)
    if bias:
        state["model.out.bias"] = normal(V)
    if embedding:
        state["model.emb.weight"] = normal(V, E)
    return state


def saved(path, state, **metadata):
    save_file({name: np.ascontiguousarray(array) for name, array in state.items()}, path, metadata or None)
    return path


@pytest.fixture
def letters(tmp_path):
    (tmp_path / "letters.json").write_text(json.dumps(list("abcde")))
    return tmp_path / "letters.json"


# -- out and back -----------------------------------------------------------------------------------------------------


def test_names_and_shapes_are_those_of_nn_rnn_and_nn_linear():
    network = HeadNetwork(Stack(5, 4, 2, bidirectional=True, embedding=3), 6)
    p = Parameters(network.shapes, np.float32)
    shapes = {name: array.shape for name, array in to_torch(network, p).items()}
    ends = {f"_l{layer}{end}": layer for layer in (0, 1) for end in ("", "_reverse")}
    expected = {"embedding.weight": (5, 3), "linear.weight": (6, 8), "linear.bias": (6,)}
    for end, layer in ends.items():
        expected |= {f"rnn.weight_ih{end}": (4, 8 if layer else 3), f"rnn.weight_hh{end}": (4, 4)}
        expected |= {f"rnn.bias_ih{end}": (4,), f"rnn.bias_hh{end}": (4,)}
    assert shapes == expected


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("kind", VOCABULARIES)
@pytest.mark.parametrize(("activation", "layers"), [("tanh", 1), ("relu", 3)])
def test_it_is_imported_bit_for_bit(tmp_path, kind, activation, layers, precision):
    before = random_model(kind, activation=activation, layers=layers, dtype=precision, dropout=0.2, seed=5)
    before.parameters["layers.0.b_h"][:2] = -0.0  # whose sign a sum with 0 would lose
    run = save_run(before, tmp_path / "run")
    export_torch(run.path, tmp_path / "model.safetensors")
    save_run(read_torch(tmp_path / "model.safetensors"), tmp_path / "back")
    after = LanguageModel.load(tmp_path / "back")
    assert after.config_ == before.config
    assert after.vocabulary_ == before.spec.vocabulary
    assert after.parameters_.buffer.tobytes() == before.parameters.buffer.tobytes()


def test_the_file_contains_only_a_state_dict_and_its_metadata(tmp_path):
    run = random_run(tmp_path / "run", layers=1)
    export_torch(run, tmp_path / "model.safetensors")
    state, p = load_file(tmp_path / "model.safetensors"), LanguageModel.load(run).parameters_
    np.testing.assert_array_equal(state["rnn.weight_hh_l0"], p["layers.0.W_hh"].T)
    np.testing.assert_array_equal(state["rnn.bias_ih_l0"], p["layers.0.b_h"])
    assert not state["rnn.bias_hh_l0"].any()
    names = {f"rnn.{part}_{side}_l0" for part in ("weight", "bias") for side in ("ih", "hh")}
    assert set(state) == names | {"linear.weight", "linear.bias"}
    with safe_open(tmp_path / "model.safetensors", "numpy") as file:
        assert json.loads(file.metadata()["elman"])["vocabulary"] == VOCABULARIES["char"].to_json()
    export_torch(run, tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "model.safetensors").read_bytes()


@pytest.mark.parametrize("activation", ["sigmoid", "identity"])
def test_an_activation_that_torch_does_not_have_is_refused(tmp_path, activation):
    run = random_run(tmp_path / "run", activation=activation)
    with pytest.raises(ArgumentError, match=f"expected tanh or relu, got '{activation}'.*as onnx or npz"):
        export_torch(run, tmp_path / "model.safetensors")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_function_of_your_own_is_refused():
    network = language_network(5, 4, activation=(np.sin, np.cos))
    with pytest.raises(ArgumentError, match="a function of your own"):
        to_torch(network, Parameters(network.shapes, np.float32))


def test_a_vocabulary_of_many_long_words_fits(tmp_path):
    from elman.data import WordVocabulary

    words = WordVocabulary(["<unk>", *(f" слово-{i:06}-" + "я" * 30 for i in range(20_000))])
    model = random_model("word", hidden=1, layers=1)
    p = {"layers.0.W_xh": np.ones((20_001, 1), np.float32), "head.W_hy": np.ones((1, 20_001), np.float32)}
    p |= {"layers.0.W_hh": np.ones((1, 1), np.float32), "layers.0.b_h": np.ones(1, np.float32)}
    p |= {"head.b_y": np.ones(20_001, np.float32)}
    save_run(model._replace(parameters=p, spec=TaskSpec.language_model(words)), tmp_path / "run")
    export_torch(tmp_path / "run", tmp_path / "model.safetensors")
    assert read_torch(tmp_path / "model.safetensors").spec.vocabulary == words


# -- somebody else's --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("embedding", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_a_foreign_module_computes_the_same_here(tmp_path, letters, layers, embedding, bias):
    state = foreign(layers, embedding, bias, dtype=np.float64)
    model = read_torch(saved(tmp_path / "x.safetensors", state), activation="relu", vocabulary=letters)
    run = save_run(model, tmp_path / "run")
    loaded = LanguageModel.load(run.path)
    assert loaded.config_.activation == "relu"
    assert loaded.config_.dtype == "float64"

    x, h = [0, 3, 4, 1], np.zeros((layers, H))
    for token in x:  # nn.RNN as its documentation defines it
        value = state["model.emb.weight"][token] if embedding else np.eye(V)[token]
        for k in range(layers):
            a = state[f"model.rnn.weight_ih_l{k}"] @ value + state[f"model.rnn.weight_hh_l{k}"] @ h[k]
            if bias:
                a = a + state[f"model.rnn.bias_ih_l{k}"] + state[f"model.rnn.bias_hh_l{k}"]
            value = h[k] = np.maximum(a, 0)
    o = state["model.out.weight"] @ value + (state["model.out.bias"] if bias else 0)
    ours, _ = loaded.text_sampler.read(x)
    np.testing.assert_allclose(ours, o, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("text", [
    json.dumps(list("dbeac")), json.dumps({c: i for i, c in enumerate("dbeac")}), "dbeac", "dbeac\n", "dbeac\r\n",
])  # fmt: skip
def test_tokens_in_another_order_are_reordered(tmp_path, text):
    (tmp_path / "letters").write_bytes(text.encode())
    state = foreign()
    model = read_torch(saved(tmp_path / "x.safetensors", state), vocabulary=tmp_path / "letters")
    assert model.spec.vocabulary == CharVocabulary("abcde")
    for ours, letter in enumerate("abcde"):
        theirs = "dbeac".index(letter)
        np.testing.assert_array_equal(
            model.parameters["layers.0.W_xh"][ours], state["model.rnn.weight_ih_l0"][:, theirs]
        )
        np.testing.assert_array_equal(model.parameters["head.W_hy"][:, ours], state["model.out.weight"][theirs])
        assert model.parameters["head.b_y"][ours] == state["model.out.bias"][theirs]


def test_a_training_text_gives_its_characters_sorted(tmp_path):
    (tmp_path / "novel.txt").write_text("deadbeef cafe".replace("f", "b").replace(" ", ""))
    model = read_torch(saved(tmp_path / "x.safetensors", foreign()), vocabulary=tmp_path / "novel.txt")
    assert model.spec.vocabulary == CharVocabulary("abcde")
    np.testing.assert_array_equal(model.parameters["head.W_hy"], foreign()["model.out.weight"].T)


def test_a_vocabulary_json_of_a_run_is_used(tmp_path):
    vocabulary = VOCABULARIES["word"]
    state = foreign()
    for name in ("model.out.weight", "model.out.bias"):
        state[name] = np.concatenate([state[name], state[name][:1]])
    state["model.rnn.weight_ih_l0"] = np.ones((H, 6), np.float32)
    (tmp_path / "vocabulary.json").write_text(json.dumps(vocabulary.to_json()))
    model = read_torch(saved(tmp_path / "x.safetensors", state), vocabulary=tmp_path / "vocabulary.json")
    assert model.spec.vocabulary == vocabulary
    assert model.config.tokens == "word"


def test_half_precision_becomes_single(tmp_path, letters):
    state = foreign(dtype=np.float16)
    run = save_run(read_torch(saved(tmp_path / "x.safetensors", state), vocabulary=letters), tmp_path / "run")
    p = LanguageModel.load(run.path).parameters_
    assert p.buffer.dtype == np.float32
    np.testing.assert_array_equal(p["head.b_y"], state["model.out.bias"].astype(np.float32))


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 4), st.booleans())
def test_parameters_survive_the_names_of_torch(layers, relu):
    model = random_model(layers=layers, activation="relu" if relu else "tanh")
    network, p = model.network, model.parameters
    back = from_torch("file", to_torch(network, p), network)
    assert set(back) == set(p)
    assert all(np.array_equal(back[name], p[name]) for name in p)


# -- refused ----------------------------------------------------------------------------------------------------------


def without(state, name):
    return {key: array for key, array in state.items() if key != name}


def reversed_too(state):
    names = [name for name in state if "_l0" in name]
    return {**state, **{f"{name}_reverse": state[name] for name in names}}


REFUSED = {
    "two gates": ({**foreign(), "model.rnn.weight_hh_l0": np.ones((2 * H, H), np.float32)},
                  r"expected nn\.RNN, nn\.GRU or nn\.LSTM, got model\.rnn\.weight_hh_l0 of shape \(8, 4\)"),
    "gru": ({**foreign(), "model.rnn.weight_hh_l0": np.ones((3 * H, H), np.float32)}, r"biases of shape \(12,\)"),
    "no rnn": ({"conv.weight": np.ones((3, 3), np.float32)}, r"expected the weights of nn\.RNN.*got conv\.weight"),
    "both ways": (reversed_too(foreign()), "both directions"),
    "two": ({**foreign(), **foreign(prefix="model.second.")}, r"expected one nn\.RNN"),
    "no head": (without(without(foreign(), "model.out.weight"), "model.out.bias"), r"one nn\.Linear.*got nothing"),
    "nothing": ({}, r"expected the weights of nn\.RNN.*got nothing"),
    "two heads": ({**foreign(), "other.weight": np.ones((V, H), np.float32)}, r"one nn\.Linear"),
    "more": ({**foreign(), "norm.scale": np.ones(H, np.float32)}, r"got norm\.scale"),
    "a bias too long": ({**foreign(), "model.rnn.bias_hh_l0": np.ones(9, np.float32)}, "biases of shape"),
    "a head's bias too long": ({**foreign(), "model.out.bias": np.ones(9, np.float32)}, r"model\.out\.bias of shape"),
    "a gap": ({**foreign(2), "model.rnn.weight_ih_l3": np.ones((H, H), np.float32)}, "weight_ih_l2"),
    "nan": ({**foreign(), "model.out.bias": np.full(V, np.nan, np.float32)}, "NaN"),
    "whole numbers": ({**foreign(), "model.out.bias": np.ones(V, np.int32)}, "got I32"),
    "an embedding too wide": ({**foreign(), "emb.weight": np.ones((V, 9), np.float32)}, "an embedding as wide"),
    "an embedding of more tokens": ({**foreign(embedding=True), "model.emb.weight": np.ones((9, E), np.float32)},
                                    r"an embedding of 5 tokens, as the nn\.Linear has, got 9"),
    "other tokens": ({**foreign(), "model.rnn.weight_ih_l0": np.ones((H, 9), np.float32)}, r"W_xh: expected shape"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_language_model_is_refused(tmp_path, letters, case):
    state, why = REFUSED[case]
    with pytest.raises(CheckpointError, match=why):
        read_torch(saved(tmp_path / "x.safetensors", state), vocabulary=letters)


@pytest.mark.parametrize("data", [b"", b"<html>", b"\x00" * 64, b"\x02" + b"\x00" * 7 + b"[]", b"\xff" * 20])
def test_an_empty_or_foreign_file_is_refused(tmp_path, data):
    (tmp_path / "x.safetensors").write_bytes(data)
    with pytest.raises(CheckpointError, match="is not a safetensors file"):
        read_torch(tmp_path / "x.safetensors")


@pytest.mark.parametrize("dtype", [[], {}, None, ["F32"]], ids=repr)
def test_a_dtype_that_is_no_name_is_refused(tmp_path, dtype):
    header = json.dumps({"a": {"dtype": dtype, "shape": [1], "data_offsets": [0, 4]}}).encode()
    (tmp_path / "x.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"\x00" * 4)
    with pytest.raises(CheckpointError, match="expected dtypes F16, F32, F64, got"):
        read_torch(tmp_path / "x.safetensors")


def test_a_truncated_file_is_refused(tmp_path, letters):
    path = saved(tmp_path / "x.safetensors", foreign())
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(CheckpointError, match="is damaged"):
        read_torch(path, vocabulary=letters)


def test_without_a_vocabulary_it_says_what_to_do(tmp_path):
    with pytest.raises(
        CheckpointError, match=r"does not contain its vocabulary of 5 tokens\. Give vocabulary, the path of"
    ):
        read_torch(saved(tmp_path / "x.safetensors", foreign()))


@pytest.mark.parametrize(("text", "why"), [
    ('["a", "b"]', "expected 5 tokens, as the model has, got 2"),
    ('["a", "b", "c", "d", "the"]', r"different characters.*vocabulary\.json"),
    ('["a", "b", "c", "d", "a"]', "different characters"),
    ('["a", "b", "c", "d", 5]', "different characters"),
    ('{"a": 0, "b": 1, "c": 2, "d": 3, "e": 5}', "each character with its id"),
    ('{"a": 0, "b": 1, "c": 2, "d": 3, "e": "4"}', "each character with its id"),
    ("abcdef", "got 6"),
])  # fmt: skip
def test_a_vocabulary_that_does_not_fit_is_refused(tmp_path, text, why):
    (tmp_path / "letters").write_text(text)
    with pytest.raises(VocabularyError, match=why):
        read_torch(saved(tmp_path / "x.safetensors", foreign()), vocabulary=tmp_path / "letters")


def test_a_vocabulary_that_is_not_utf_8_is_refused(tmp_path):
    (tmp_path / "letters").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(VocabularyError, match="not UTF-8"):
        read_torch(saved(tmp_path / "x.safetensors", foreign()), vocabulary=tmp_path / "letters")


@pytest.mark.parametrize(("options", "why"), [
    ({"activation": "relu"}, "got activation. Leave activation out"), ({"vocabulary": "x"}, "got vocabulary"),
])  # fmt: skip
def test_options_that_the_file_contains_are_refused(tmp_path, options, why):
    export_torch(random_run(tmp_path / "run"), tmp_path / "model.safetensors")
    with pytest.raises(ArgumentError, match=why):
        read_torch(tmp_path / "model.safetensors", **options)


@pytest.mark.parametrize(("facts", "why"), [
    ("{", "not JSON"), ("[]", "format 2, got list"), ('{"format": 9}', "got 9"),
    ('{"format": 2, "task": "tag"}', "config: expected an object"),
    ('{"format": 2, "task": "lm"}', "config: expected an object"),
])  # fmt: skip
def test_damaged_metadata_are_refused(tmp_path, facts, why):
    with pytest.raises(CheckpointError, match=why):
        read_torch(saved(tmp_path / "x.safetensors", foreign(), elman=facts))


def test_metadata_of_another_network_are_refused(tmp_path):
    model = random_model(layers=1)
    state = to_torch(model.network, model.parameters)
    for facts, why in (
        (random_model(layers=2).metadata(), "expected the 10 tensors of its network, got missing: rnn.bias_hh_l1, "),
        (random_model(layers=1, hidden=9).metadata(), r"rnn\.weight_ih_l0: expected shape \(9, 12\), got \(12, 12\)"),
    ):
        with pytest.raises(CheckpointError, match=why):
            read_torch(saved(tmp_path / "x.safetensors", state, elman=facts))


def test_sizes_that_a_file_claims_are_compared_and_not_allocated(tmp_path):
    model, H = random_model(layers=1), 10**9
    with pytest.raises(CheckpointError, match=r"rnn\.weight_ih_l0: expected shape \(1000000000, 1000000000\)"):
        from_torch(tmp_path, to_torch(model.network, model.parameters), language_network(H, H))


@pytest.mark.parametrize(
    "options", [{"layers": 2, "bidirectional": True, "learned_state": True}, {"embedding": 2}, {"tokens": False}]
)
def test_any_stack_is_imported_from_its_state_dict(tmp_path, options):
    network = HeadNetwork(Stack(5, 3, **options), 4)
    p = Parameters(network.shapes, np.float32)
    p.buffer[:] = np.random.default_rng(0).standard_normal(p.buffer.size)
    back = from_torch(tmp_path, to_torch(network, p), network)
    assert set(back) == set(p)
    assert all(np.array_equal(back[name], array) for name, array in p.items())


class Sparse:
    """A stand-in for a tensor of a dtype that NumPy does not have."""

    layout, dtype = "torch.sparse_coo", "torch.float32"

    def numel(self):
        return 1

    def element_size(self):
        return 4

    def untyped_storage(self):
        raise NotImplementedError("Cannot access storage of SparseTensorImpl")


def test_a_dtype_that_numpy_does_not_have_is_refused(tmp_path, monkeypatch):
    """torch is not installed with the tests; a stand-in returns its answer."""
    torch = types.ModuleType("torch")
    torch.__version__ = "2.13.0+cpu"
    torch.load = lambda *_, **__: {"out.weight": Sparse()}
    torch.is_tensor = lambda value: isinstance(value, Sparse)
    monkeypatch.setitem(sys.modules, "torch", torch)
    with pytest.raises(CheckpointError, match=r"out\.weight: expected a dense tensor of a dtype .*, got sparse_coo"):
        read_torch(tmp_path / "x.pt")


@pytest.mark.parametrize("version", ["1.13.1", "2.5.1+cpu", "2.5.0a0+git1234"])
def test_a_torch_version_with_unsafe_weights_only_is_not_used(tmp_path, monkeypatch, version):
    """torch is not installed with the tests; a stand-in has the version of an old one."""
    (tmp_path / "torch.py").write_text(
        f"__version__ = {version!r}\ndef load(*_, **__): open({str(tmp_path / 'opened')!r}, 'w')"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    (tmp_path / "x.pt").write_bytes(b"PK")
    with pytest.raises(ImportError, match=rf"expected PyTorch 2\.6 or newer.*got {re.escape(version)}.*upgrade torch"):
        read_torch(tmp_path / "x.pt")
    assert not (tmp_path / "opened").exists()
    del sys.modules["torch"]


def test_a_pickle_needs_torch(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    (tmp_path / "x.pt").write_bytes(b"PK")
    with pytest.raises(ImportError, match="pip install torch"):
        read_torch(tmp_path / "x.pt")


# -- plain arrays -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_npz_is_read_by_numpy_alone(tmp_path, precision):
    run = random_run(tmp_path / "run", "word", dtype=precision)
    export_npz(run, tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz", allow_pickle=False) as file:
        arrays = dict(file)
    facts = json.loads(str(arrays.pop("elman")))
    model = LanguageModel.load(run)
    assert facts["vocabulary"]["tokens"] == list(model.vocabulary_.tokens)
    assert facts["config"]["hidden"] == 12
    assert set(arrays) == set(model.parameters_)
    for name, array in arrays.items():
        assert array.tobytes() == model.parameters_[name].tobytes()
        assert array.dtype == precision
