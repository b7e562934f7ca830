"""Sequence models, trained for a moment: onnxruntime predicts the same as the model from raw inputs."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from exchange_tools import check_onnx, session

from elman.errors import CheckpointError, RunError, StorageError
from elman.exchange import export_npz, export_onnx, export_torch
from elman.exchange.model_file import save_run
from elman.exchange.onnx_read import read_onnx
from elman.exchange.pytorch import read_torch
from elman.models.classifier import SequenceClassifier, SequenceRegressor
from elman.models.generator import SequenceGenerator
from elman.models.loading import load_model
from elman.models.seq2seq import Seq2Seq
from elman.models.tagger import SequenceTagger

NAMES = ["Rossi", "Bianchi", "Conti", "Schmidt", "Schulz", "Bauer"]
KINDS = ["Italian"] * 3 + ["German"] * 3
SMALL = {"hidden": 7, "steps": 4, "batch_size": 3, "random_state": 0}
PLAIN = {**SMALL, "attention": "none", "embedding": 0, "cell": "rnn"}
rng = np.random.default_rng(0)
SERIES = [5e8 + 30 * rng.standard_normal((T, 2)) for T in (3, 6, 1, 5, 4, 2)]

MODELS = {
    "classify": lambda: SequenceClassifier(**SMALL, bidirectional=True, pooling="last", layers=2).fit(NAMES, KINDS),
    "classify mean": lambda: SequenceClassifier(**SMALL, pooling="mean", embedding=3).fit(NAMES, KINDS),
    "classify numbers": lambda: SequenceClassifier(**SMALL, pooling="max", activation="relu").fit(SERIES, KINDS),
    "regress": lambda: SequenceRegressor(**SMALL, learned_state=True).fit(SERIES, [1e6 + 10 * len(s) for s in SERIES]),
    "regress two": lambda: SequenceRegressor(**SMALL).fit(NAMES, [[len(n), -len(n)] for n in NAMES]),
    "tag": lambda: SequenceTagger(**SMALL, dropout=0.3).fit(NAMES, [["vc"[c in "nt"] for c in n] for n in NAMES]),
    "generate": lambda: SequenceGenerator(**SMALL, layers=2).fit(KINDS, NAMES),
    "generate numbers": lambda: SequenceGenerator(**SMALL, embedding=2).fit(np.arange(12.0).reshape(6, 2) ** 3, NAMES),
    "translate": lambda: Seq2Seq(**PLAIN, layers=2, bidirectional=False).fit(NAMES, KINDS),
    "translate both ways": lambda: Seq2Seq(**PLAIN, learned_state=True).fit(NAMES, KINDS),
    "classify lstm": lambda: SequenceClassifier(**SMALL, cell="lstm", bidirectional=True, layers=2).fit(NAMES, KINDS),
    "regress gru": lambda: SequenceRegressor(**SMALL, cell="gru", learned_state=True).fit(SERIES, list(range(6))),
    "translate gru": lambda: Seq2Seq(**PLAIN | {"cell": "gru"}, layers=2).fit(NAMES, KINDS),
    "generate lstm": lambda: SequenceGenerator(**SMALL, cell="lstm", layers=2).fit(KINDS, NAMES),
    "translate dot": lambda: Seq2Seq(**SMALL, attention="dot", bidirectional=False, embedding=0,
                                     layers=2).fit(NAMES, KINDS),
    "translate additive": lambda: Seq2Seq(**SMALL, attention="additive", cell="lstm", embedding=3).fit(NAMES, KINDS),
    "translate forwards": lambda: Seq2Seq(**PLAIN, bidirectional=False, activation="relu").fit(NAMES, KINDS),
}  # fmt: skip


NUMBERS = ("classify numbers", "regress", "regress gru")  # those that read numbers


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return {name: make().save(folder / name.replace(" ", "-")) for name, make in MODELS.items()}


def padded(model, X):
    """The inputs that a user of the file would make: ids or numbers, time-major, and the lengths."""
    x = model.fitted_.spec.inputs
    rows = [x.symbols.encode(sequence) for sequence in X] if hasattr(x, "symbols") else [np.asarray(s) for s in X]
    lengths = np.array([len(row) for row in rows])
    batch = np.zeros((lengths.max(), len(rows), *rows[0].shape[1:]), np.float64 if rows[0].ndim == 2 else np.int64)
    for i, row in enumerate(rows):
        batch[: len(row), i] = row
    return {"x": batch, "lengths": lengths}


@pytest.mark.parametrize("name", [name for name in MODELS if name.startswith(("classify", "regress", "tag"))])
def test_a_file_predicts_as_the_model_does(tmp_path, runs, name):
    model, out = load_model(runs[name]), tmp_path / "model.onnx"
    wrote = export_onnx(runs[name], out)
    assert wrote.paths == [out]
    check_onnx(out.read_bytes())
    X = SERIES if name in NUMBERS else [*NAMES, "Xü", ""]
    (said,) = session(out).run(None, padded(model, X))
    if name.startswith("tag"):
        for i, y_hat in enumerate(model.predict_proba(X)):
            np.testing.assert_allclose(softmax(said[: len(y_hat), i]), y_hat, rtol=1e-5, atol=1e-5)
    elif name.startswith("regress"):
        np.testing.assert_allclose(np.squeeze(said), model.predict(X), rtol=0, atol=1e-3 if name == "regress" else 1e-5)
    else:
        np.testing.assert_allclose(softmax(said), model.predict_proba(X), rtol=1e-5, atol=1e-5)


def softmax(o):
    e = np.exp(o - o.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("name", [name for name in MODELS if name.startswith(("generate", "translate"))])
def test_encoder_and_decoder_files_generate_as_the_model_does(tmp_path, runs, name):
    model, out = load_model(runs[name]), tmp_path / "model.onnx"
    wrote = export_onnx(runs[name], out)
    assert [path.name for path in wrote.paths] == ["model.encoder.onnx", "model.decoder.onnx"]
    assert "h0" in wrote.description
    for path in wrote.paths:
        check_onnx(path.read_bytes())
    encoder, decoder = map(session, wrote.paths)
    if name in ("generate", "generate lstm"):
        X = ["German", "Italian"]
        fed = {"x": model.fitted_.spec.inputs.encode(X)}
    elif name == "generate numbers":
        X = np.array([[1.0, 50.0], [400.0, -3.0]])
        fed = {"x": X}
    else:
        X = [*NAMES, "Xü"]
        fed = padded(model, X)
    state = dict(zip([value.name for value in encoder.get_outputs()], encoder.run(None, fed), strict=True))
    if "values" in state:  # attention
        state |= {"lengths": fed["lengths"], "h_tilde": np.zeros((len(X), 7), np.float32)}
    facts = json.loads(decoder.get_modelmeta().custom_metadata_map["elman"])
    tokens = ["<unknown>", "<edge>", *facts["vocabulary"]["targets"]["symbols"]["tokens"]]
    told, ids = [""] * len(X), np.ones((1, len(X)), np.int64)  # the edge token begins and ends a sequence
    done = np.zeros(len(X), bool)
    for _ in range(12):
        found = dict(zip([v.name for v in decoder.get_outputs()], decoder.run(None, {"x": ids, **state}), strict=True))
        logits = found.pop("logits")
        state |= {name.replace("_n", "0" * (name != "h_tilde_n")): value for name, value in found.items()}
        state.pop("alpha", None)
        logits[..., 0] = -np.inf  # the unknown token is never generated
        ids = logits.argmax(axis=2)
        done |= ids[0] == 1
        told = [text if over else text + tokens[i] for text, over, i in zip(told, done, ids[0], strict=True)]
    assert told == model.predict(X, limit=12)
    assert any(told)


@pytest.mark.parametrize("name", MODELS)
def test_torch_weights_are_imported_bit_for_bit(tmp_path, runs, name):
    export_torch(runs[name], tmp_path / "model.safetensors")
    back = save_run(read_torch(tmp_path / "model.safetensors"), tmp_path / "back").path
    before, after = load_model(runs[name]), load_model(back)
    assert type(after) is type(before)
    assert after.fitted_.config == before.fitted_.config
    assert after.fitted_.spec.to_json() == before.fitted_.spec.to_json()
    assert after.fitted_.parameters.buffer.tobytes() == before.fitted_.parameters.buffer.tobytes()
    X = {"generate numbers": [[1.0, 2.0]]}.get(name, SERIES if name in NUMBERS else NAMES)
    X = ["German"] if name in ("generate", "generate lstm") else X
    assert np.array_equal(after.predict(X), before.predict(X)) or after.predict(X) == before.predict(X)


def test_npz_contains_all_parameters_and_the_task(tmp_path, runs):
    export_npz(runs["translate"], tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz", allow_pickle=False) as file:
        assert json.loads(str(file["elman"]))["task"] == "translate"
        assert set(file) - {"elman"} == set(load_model(runs["translate"]).fitted_.parameters)


@pytest.mark.parametrize("name", MODELS)
def test_onnx_is_imported_bit_for_bit(tmp_path, runs, name):
    for path in export_onnx(runs[name], tmp_path / "model.onnx").paths:  # either of two files stands for both
        back = save_run(read_onnx(path), tmp_path / path.stem).path
    before, after = load_model(runs[name]), load_model(back)
    assert type(after) is type(before)
    assert after.fitted_.config == before.fitted_.config
    assert after.fitted_.spec.to_json() == before.fitted_.spec.to_json()
    assert after.fitted_.parameters.buffer.tobytes() == before.fitted_.parameters.buffer.tobytes()
    assert read_onnx(tmp_path / "model.onnx").task == name.split()[0]


@pytest.mark.parametrize("name", MODELS)
def test_a_changed_graph_of_sequences_is_refused(tmp_path, runs, name):
    for path in export_onnx(runs[name], tmp_path / "model.onnx").paths:
        before = path.read_bytes()
        model = onnx.load_from_string(before)
        model.graph.node.pop()
        path.write_bytes(model.SerializeToString())
        with pytest.raises(CheckpointError, match="expected the graph that elman export writes"):
            read_onnx(path)
        path.write_bytes(before)


def test_the_encoder_of_another_model_is_refused(tmp_path, runs):
    """Both files have the same shapes, and the encoder comes from a model with other weights and labels."""
    other = SequenceGenerator(**SMALL | {"random_state": 1}, layers=2).fit(["x"] * 3 + ["y"] * 3, NAMES)
    export_onnx(runs["generate"], tmp_path / "model.onnx")
    export_onnx(other.save(tmp_path / "other"), tmp_path / "other.onnx")
    (tmp_path / "other.encoder.onnx").rename(tmp_path / "model.encoder.onnx")
    with pytest.raises(CheckpointError, match="expected the graph that elman export writes"):
        read_onnx(tmp_path / "model.onnx")


def test_of_two_files_none_is_written_if_one_exists(tmp_path, runs):
    (tmp_path / "model.decoder.onnx").write_text("mine")
    with pytest.raises(RunError, match=r"model\.decoder\.onnx exists already"):
        export_onnx(runs["translate"], tmp_path / "model.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["model.decoder.onnx"]
    export_onnx(runs["translate"], tmp_path / "model.onnx", force=True)
    check_onnx((tmp_path / "model.decoder.onnx").read_bytes())


@pytest.mark.parametrize(("changed", "why"), [
    ({"task": "classify"}, "expected inputs and targets of task classify"),
    ({"config": {}}, "config"),
    ({"vocabulary": {"task": "tag"}}, "damaged"),
])  # fmt: skip
def test_contradictory_metadata_are_refused(tmp_path, runs, changed, why):
    from safetensors import safe_open
    from safetensors.numpy import load_file, save_file

    path = tmp_path / "model.safetensors"
    export_torch(runs["tag"], path)
    with safe_open(path, "numpy") as file:
        facts = {**json.loads(file.metadata()["elman"]), **changed}
    save_file(load_file(path), path, {"elman": json.dumps(facts)})
    with pytest.raises(CheckpointError, match=why):
        read_torch(path)


def test_if_one_of_two_files_cannot_be_written_the_old_ones_stay(tmp_path, runs, monkeypatch):
    encoder, decoder = tmp_path / "model.encoder.onnx", tmp_path / "model.decoder.onnx"
    encoder.write_bytes(b"the old one")
    places = {encoder: tmp_path / "new", decoder: tmp_path / "missing" / "file"}  # the temporary names
    monkeypatch.setattr("elman.training.storage.temporary_name", places.__getitem__)
    with pytest.raises(StorageError, match="could not be written"):
        export_onnx(runs["translate"], tmp_path / "model.onnx", force=True)
    assert encoder.read_bytes() == b"the old one"
