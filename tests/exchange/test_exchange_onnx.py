"""ONNX: onnxruntime computes the same as we do for every kind of network, and an import is equal bit for bit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from exchange_tools import VOCABULARIES, check_onnx, random_model, random_run, session
from hypothesis import given, settings
from hypothesis import strategies as st

from elman.data import BPEVocabulary
from elman.errors import ArgumentError, RangeError, RunError
from elman.exchange import export_onnx, onnx_graph
from elman.exchange.model_file import save_run
from elman.exchange.onnx_read import read_onnx
from elman.exchange.onnx_write import encoder_graph, head_graph, text_graph
from elman.maths.cells import make_cell
from elman.models import LanguageModel
from elman.network import DecoderState, EncoderDecoder, HeadNetwork, Parameters, Stack

TOLERANCE = 1e-5  # absolute, and relative to the largest entry where that is above 1
EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "sample_onnx.py"


def filled(network, rng):
    """Parameters whose recurrent products cannot make a rounding error grow."""
    p = Parameters(network.shapes, np.float32)
    p.buffer[:] = 0.5 * rng.standard_normal(p.buffer.size)
    for name in p:
        if name.endswith("W_hh"):
            p[name][...] *= 0.8 / np.linalg.norm(p[name], 2)
    return p


def agree(theirs, ours):
    largest = max(1, np.abs(ours).max(initial=0))
    np.testing.assert_allclose(theirs, ours, rtol=0, atol=TOLERANCE * largest)


# -- a language model -------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 3),
    st.sampled_from(["tanh", "relu", "sigmoid", "identity"]),
    st.integers(1, 9),
    st.integers(1, 4),
    st.integers(1, 20),
    st.sampled_from(["char", "byte", "word"]),
)
def test_text_equals_ours_with_any_state(layers, activation, T, B, hidden, kind):
    model = random_model(kind, layers=layers, activation=activation, hidden=hidden)
    network = model.network
    data = text_graph(network, model.parameters).to_bytes({})
    check_onnx(data)
    rng = np.random.default_rng(T)
    x = rng.integers(model.spec.n_inputs, size=(T, B))
    h0 = rng.standard_normal((layers, B, hidden)).astype(np.float32)
    logits, h_n = session(data).run(None, {"x": x, "h0": h0})
    o, state = network.read(network.pack(model.parameters), x, h0[:, np.newaxis])
    agree(logits, o)
    agree(h_n, state[:, 0])


def test_steps_with_carried_state_are_the_whole_text():
    model = random_model()
    run = session(text_graph(model.network, model.parameters).to_bytes({})).run
    x = np.random.default_rng(0).integers(model.spec.n_inputs, size=(7, 2))
    whole, last = run(None, {"x": x, "h0": np.zeros((2, 2, 12), np.float32)})
    h = np.zeros((2, 2, 12), np.float32)
    for t in range(7):
        logits, h = run(None, {"x": x[t : t + 1], "h0": h})
        agree(logits[0], whole[t])
    agree(h, last)


@pytest.mark.parametrize("kind", VOCABULARIES)
def test_the_example_generates_the_text_of_elman(tmp_path, kind):
    run = random_run(tmp_path / "run", kind)
    export_onnx(run, tmp_path / "model.onnx")
    prompt = "the cat" if kind == "word" else "abc é"
    words = [sys.executable, "-I", EXAMPLE, tmp_path / "model.onnx", prompt, "60", "0"]
    done = subprocess.run(words, check=True, capture_output=True, timeout=120)
    expected = LanguageModel.load(run).sample(60, prompt=prompt, temperature=0)
    assert len(set(expected)) > 5
    assert done.stdout.decode() == expected + "\n"


def test_the_example_ends_a_sequence_where_it_ends(tmp_path):
    LanguageModel().fit(["hello", "cat"], out=tmp_path / "run", listeners=[])
    export_onnx(tmp_path / "run", tmp_path / "model.onnx")
    for prompt, text in (("hell", "hello\n"), ("", "hello\n"), ("ca", "cat\n")):
        words = [sys.executable, "-I", EXAMPLE, tmp_path / "model.onnx", prompt, "60", "0"]
        done = subprocess.run(words, check=True, capture_output=True, text=True, timeout=120)
        assert done.stdout in ((text, "cat\n") if not prompt else (text,))


def test_the_example_reports_errors(tmp_path, monkeypatch):
    (tmp_path / "no.onnx").write_bytes(b"nonsense")
    monkeypatch.setitem(VOCABULARIES, "bpe", BPEVocabulary([(97, 98)]))
    export_onnx(random_run(tmp_path / "run", "bpe"), tmp_path / "subwords.onnx")
    for words, said in (
        ([], "elman export"),
        (["missing.onnx"], "missing.onnx cannot"),
        (["no.onnx"], "no.onnx cannot"),
        (["subwords.onnx"], "subwords.onnx has subwords as tokens"),
    ):
        done = subprocess.run(
            [sys.executable, "-I", EXAMPLE, *words],
            check=False,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 1
        assert said in done.stderr
        assert "Traceback" not in done.stderr


def test_the_example_needs_onnxruntime_and_numpy_alone():
    lines = map(str.strip, EXAMPLE.read_text().splitlines())
    imports = [line.split()[1] for line in lines if line.startswith(("import ", "from "))]
    assert set(imports) - set(sys.stdlib_module_names) == {"numpy", "onnxruntime"}


# -- and back ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", VOCABULARIES)
@pytest.mark.parametrize("activation", ["tanh", "relu", "sigmoid", "identity"])
@pytest.mark.parametrize("layers", [1, 3])
def test_it_is_imported_bit_for_bit(tmp_path, kind, activation, layers):
    run = random_run(tmp_path / "run", kind, activation=activation, layers=layers, dropout=0.3, seed=7)
    before = LanguageModel.load(run)
    before.parameters_["layers.0.b_h"][:2] = -0.0  # whose sign a sum with 0 would lose
    run = before.save(tmp_path / "saved")
    export_onnx(run, tmp_path / "model.onnx")
    check_onnx((tmp_path / "model.onnx").read_bytes())
    save_run(read_onnx(tmp_path / "model.onnx"), tmp_path / "back")
    after = LanguageModel.load(tmp_path / "back")
    assert after.config_ == before.config_
    assert after.vocabulary_ == before.vocabulary_
    assert after.parameters_.buffer.tobytes() == before.parameters_.buffer.tobytes()
    prompt = "the" if kind == "word" else "abc"
    assert after.sample(30, prompt=prompt, seed=3) == before.sample(30, prompt=prompt, seed=3)


def test_the_same_model_makes_the_same_file(tmp_path):
    run = random_run(tmp_path / "run")
    export_onnx(run, tmp_path / "a.onnx")
    export_onnx(run, tmp_path / "b.onnx")
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_float64_is_exported_as_float32(tmp_path):
    run = random_run(tmp_path / "run", dtype="float64")
    export_onnx(run, tmp_path / "model.onnx")
    back = read_onnx(tmp_path / "model.onnx")
    assert back.config.dtype == "float32"
    for name, array in LanguageModel.load(run).parameters_.items():
        np.testing.assert_array_equal(back.parameters[name], array.astype(np.float32))


def test_numbers_too_large_for_float32_are_refused(tmp_path):
    model = random_model(dtype="float64")
    model.parameters["head.b_y"][0] = 1e300
    run = save_run(model, tmp_path / "run")
    with pytest.raises(RunError, match=r"head\.b_y has numbers that are too large for float32"):
        export_onnx(run.path, tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


def test_a_model_too_large_for_protobuf_is_refused(monkeypatch):
    model = random_model()
    monkeypatch.setattr(onnx_graph, "MAX_BYTES", 1000)
    with pytest.raises(RangeError, match="at most 2 GB"):
        text_graph(model.network, model.parameters).to_bytes({})


@pytest.mark.parametrize("activation", [(np.tan, np.cos), "softsign"])
def test_an_activation_that_onnx_does_not_have_is_refused(activation):
    model = random_model()
    network = model.network
    network.stack.cell.activation = activation  # set after the constructor, which accepts known names only
    with pytest.raises(ArgumentError, match="ONNX's RNN does not have this activation"):
        text_graph(network, model.parameters)


# -- sequences --------------------------------------------------------------------------------------------------------

stacks = st.fixed_dictionaries({
    "inputs": st.integers(1, 6),
    "hidden": st.integers(1, 9),
    "layers": st.integers(1, 2),
    "bidirectional": st.booleans(),
    "embedding": st.sampled_from([0, 3]),
    "learned_state": st.booleans(),
    "cell": st.sampled_from(["tanh", "relu", "sigmoid", "identity"]).map(lambda name: make_cell("rnn", name)),
    "tokens": st.booleans(),
})  # fmt: skip


def sequences(stack, rng, T, B):
    """Rows of any length; the padding is huge and must not matter."""
    lengths = rng.integers(0, T + 1, B)
    x = rng.integers(stack.inputs, size=(T, B)) if stack.tokens else rng.standard_normal((T, B, stack.inputs))
    past = np.arange(T)[:, np.newaxis] >= lengths
    x[past] = 0 if stack.tokens else 1e3
    return x, lengths


def single(x):
    return x.astype(np.float32) if x.dtype.kind == "f" else x


def drawn_stack(options, **more):
    embedding = options["embedding"] if options["tokens"] else 0
    return Stack(**{**options, "embedding": embedding, **more})


@pytest.mark.parametrize("pooling", ["last", "mean", "max", "none"])
@settings(max_examples=20, deadline=None)
@given(stacks, st.integers(1, 6), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_outputs_of_sequences_equal_ours(pooling, options, T, B, seed):
    rng = np.random.default_rng(seed)
    network = HeadNetwork(drawn_stack(options), 3, pooling=pooling)
    p = filled(network, rng)
    x, lengths = sequences(network.stack, rng, T, B)
    data = head_graph(network, p).to_bytes({})
    check_onnx(data)
    (logits,) = session(data).run(None, {"x": x, "lengths": lengths})
    ours = network.outputs_of(network.pack(p), single(x), lengths)
    if pooling == "none":
        own = np.arange(T)[:, np.newaxis] < lengths
        logits, ours = logits[own], ours[own]
    agree(logits, ours)


@settings(max_examples=20, deadline=None)
@given(stacks, st.integers(1, 6), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_a_source_gives_the_initial_state_of_the_decoder(options, T, B, seed):
    rng = np.random.default_rng(seed)
    encoder = drawn_stack(options, prefix="encoder.")
    decoder = Stack(5, options["hidden"], options["layers"], embedding=options["embedding"], prefix="decoder.")
    network = EncoderDecoder(encoder, decoder, 5, edge=1)
    p = filled(network, rng)
    x, lengths = sequences(encoder, rng, T, B)
    data, step = encoder_graph(network, p).to_bytes({}), text_graph(network, p).to_bytes({})
    check_onnx(data)
    (h0,) = session(data).run(None, {"x": x, "lengths": lengths})
    packed = network.pack(p)
    state = network.initial_state(packed, single(x), lengths).state
    agree(h0, state[:, 0])
    ids = rng.integers(5, size=(1, B))
    logits, h_n = session(step).run(None, {"x": ids, "h0": h0})
    o, after = network.next_logits(packed, ids[0], DecoderState(state))
    agree(logits[0], o)
    agree(h_n, after.state[:, 0])


@pytest.mark.parametrize("labels", [True, False])
def test_a_condition_gives_the_initial_state_of_the_decoder(labels):
    rng = np.random.default_rng(0)
    network = EncoderDecoder(4, Stack(5, 6, 2, prefix="decoder."), 5, edge=1)
    p = filled(network, rng)
    x = rng.integers(4, size=3) if labels else rng.standard_normal((3, 4))
    data = encoder_graph(network, p, labels=labels).to_bytes({})
    check_onnx(data)
    (h0,) = session(data).run(None, {"x": x})
    agree(h0, network.initial_state(network.pack(p), single(x)).state[:, 0])


def test_raw_numbers_are_scaled_in_the_file():
    """Also numbers that are equal in float32."""
    rng = np.random.default_rng(0)
    network = HeadNetwork(Stack(3, 4, tokens=False), 2, pooling="mean")
    p, x, lengths = filled(network, rng), 1.7e9 + 9 * rng.standard_normal((5, 2, 3)), np.array([5, 3])
    mean, deviation = np.full(3, 1.7e9), np.full(3, 9.0)
    told = np.array([1e9, -4.0]), np.array([2.0, 3.0])
    data = head_graph(network, p, scale=(mean, deviation), target_scale=told).to_bytes({})
    check_onnx(data)
    (y,) = session(data).run(["y"], {"x": x, "lengths": lengths})
    o = network.outputs_of(network.pack(p), single((x - mean) / deviation), lengths)
    np.testing.assert_allclose(y, o * told[1] + told[0], rtol=0, atol=1e-5)


def test_a_file_contains_its_metadata():
    model = random_model("word")
    proto = onnx.load_from_string(text_graph(model.network, model.parameters).to_bytes({"elman": model.metadata()}))
    assert {entry.key: entry.value for entry in proto.metadata_props} == {"elman": model.metadata()}
    assert {node.op_type for node in proto.graph.node} >= {"RNN", "MatMul"}
