"""LanguageModel: what fit takes and refuses, scikit-learn's conventions, save and load, and that it learns."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from elman import look
from elman.config import PRESETS, Config
from elman.errors import (
    ArgumentError,
    CheckpointError,
    DataError,
    DtypeError,
    NotFittedError,
    RangeError,
    RunError,
    UnknownNameError,
    VocabularyError,
)
from elman.models import LanguageModel, runs, tasks

TINY = {"hidden": 8, "steps": 2, "batch_size": 2, "window": 8}


def test_it_learns_hello():
    model = LanguageModel(hidden=16, batch_size=4, window=16, steps=60, learning_rate=0.02, warmup_steps=0).fit(
        "hello " * 200
    )
    assert model.complete("hell", 20) == "hello hello hello hello "
    assert model.complete("hell", 20, stop=" ") == "hello"
    assert next(iter(model.next_distribution("hell"))) == "o"
    assert model.next_distribution("hell")["o"] > 0.9
    assert model.evaluate("hello hello").perplexity < 1.3
    assert model.sample(6, prompt="hell", temperature=0.1, seed=3) == "hello hell"
    assert model.sample(6, prompt="hell", beam=3) == "hello hell"


# -- what it is given -------------------------------------------------------------------------------------------------


def test_a_str_is_a_text_and_a_path_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "some text that is also the name of a file"
    Path(text).write_text("0123456789" * 10)
    assert set(LanguageModel(**TINY).fit(text).vocabulary_.tokens) == set(text)
    assert set(LanguageModel(**TINY).fit(Path(text)).vocabulary_.tokens) == set("0123456789")


@pytest.mark.parametrize("text", [b"bytes" * 50, ["a", 3], None, 3])
def test_anything_else_is_refused(text):
    with pytest.raises(ArgumentError, match=r"a str with the text, a Path|a list of str"):
        LanguageModel(**TINY).fit(text)


@pytest.mark.parametrize(("text", "tokens"), [
    ("日本語のテキスト、そして🙂。" * 20, "char"),
    ("日本語のテキスト、そして🙂。" * 20, "byte"),
    ("straße Ünïcödé عربى " * 20, "word"),
    ("e\u0301\u200d\U0001f469" * 40, "char"),
])  # fmt: skip
def test_any_script_is_text(text, tokens):
    model = LanguageModel(tokens=tokens, **TINY).fit(text)
    sample = model.sample(30)
    assert model.surprise(text).shape == (len(text),)
    if tokens == "char":
        assert set(sample) <= set(text)


def test_a_vocabulary_of_one_character_is_enough():
    model = LanguageModel(**TINY).fit("a" * 100)
    assert model.sample(5) == "aaaaa"
    assert model.evaluate("aaa").nats_per_token == 0
    assert model.next_distribution("a") == {"a": 1.0}
    assert model.sample(5, beam=2) == "aaaaa"


def test_a_short_text_gets_fewer_rows_in_a_batch():
    model = LanguageModel(hidden=8, steps=2, batch_size=64, window=16).fit("abc" * 30)  # 81 to train on: 5 windows
    assert model.fitted_.finished.step == 2


@pytest.mark.parametrize("text", ["", "a", "abc" * 5])
def test_too_short_a_text_is_refused_with_what_to_do(text):
    with pytest.raises(DataError, match=r"longer text|no text"):
        LanguageModel(hidden=8, steps=1, window=16).fit(text)


@pytest.mark.parametrize("options", [
    {"hidden": 0}, {"hidden": 2.5}, {"layers": -1}, {"dropout": 1.0}, {"learning_rate": float("nan")},
    {"window": 8, "bptt_block": 9}, {"bptt_block": 4, "bptt_steps": 3}, {"steps": 1, "epochs": 1},
    {"tokens": "letters"}, {"validation_fraction": 1.0}, {"validation_fraction": -0.1}, {"hidden": True}, {"seed": -1},
])  # fmt: skip
def test_invalid_options_are_refused_by_fit_not_by_the_constructor(options):
    model = LanguageModel(**options)
    with pytest.raises((ArgumentError, RangeError)):
        model.fit("hello " * 50)


@pytest.mark.parametrize("use", [
    lambda m, x: m.surprise(x), lambda m, x: m.next_distribution(x), lambda m, x: m.complete(x),
    lambda m, x: m.sample(3, prompt=x), lambda m, x: m.sample(3, prompt=x, beam=2), lambda m, x: m.stream(prompt=x),
])  # fmt: skip
@pytest.mark.parametrize("nothing", [None, 3, b"ab", ["a"]])
def test_arguments_that_are_no_text_are_refused(model, use, nothing):
    with pytest.raises(DtypeError, match=f"(text|prompt): expected a str, got {type(nothing).__name__}"):
        use(model, nothing)


# -- scikit-learn's conventions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("use", [
    lambda m: m.sample(3), lambda m: m.complete("a"), lambda m: m.next_distribution("a"), lambda m: m.score("ab"),
    lambda m: m.evaluate("ab"), lambda m: m.surprise("ab"), lambda m: m.stream(prompt="a"), lambda m: m.copies("a"),
    lambda m: m.save("nowhere"), lambda m: m.sample(3, beam=2),
])  # fmt: skip
def test_before_fit_methods_raise_not_fitted(use, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotFittedError, match=r"not fitted yet\. Call fit"):
        use(LanguageModel())
    assert list(tmp_path.iterdir()) == []


def test_a_failed_fit_leaves_the_model_unfitted():
    model = LanguageModel(**TINY)
    with pytest.raises(DataError):
        model.fit("abc")
    with pytest.raises(NotFittedError):
        model.sample()


def test_the_constructor_only_stores_and_parameters_come_back():
    model = LanguageModel(hidden=32, dropout=0.5)
    assert not [name for name in vars(model) if name.endswith("_")]
    assert model.get_params() == {**LanguageModel().get_params(), "hidden": 32, "dropout": 0.5}
    assert model.set_params(hidden=64, seed=3) is model
    assert model.get_params()["hidden"] == 64
    assert model.get_params()["seed"] == 3
    assert repr(model) == "LanguageModel(hidden=64, dropout=0.5, seed=3)"


def test_a_parameter_that_does_not_exist_is_refused_at_once():
    with pytest.raises(TypeError, match=r"^LanguageModel has no option 'hiden'\. Did you mean hidden\?$"):
        LanguageModel(hiden=3)
    with pytest.raises(TypeError, match=r"has no option 'colour'\. help\(LanguageModel\.__init__\) lists them"):
        LanguageModel(colour=3)
    with pytest.raises(TypeError, match=r"^LanguageModel takes its options by name"):
        LanguageModel(3)
    model = LanguageModel()
    with pytest.raises(UnknownNameError, match=r"got hiden\. Did you mean hidden\?"):
        model.set_params(hiden=3)
    assert model.get_params() == LanguageModel().get_params()


def test_fit_returns_self_accepts_y_and_starts_again():
    model = LanguageModel(**TINY)
    assert model.fit("abcd" * 20, None) is model
    first = model.parameters_.buffer.copy()
    np.testing.assert_array_equal(model.fit("abcd" * 20).parameters_.buffer, first)
    assert set(model.fit("wxyz" * 20).vocabulary_.tokens) == set("wxyz")
    assert model.copies("wxyz" * 5).share == 1


def test_what_was_fitted_stays_as_it_was_when_parameters_change(tmp_path):
    model = LanguageModel(**TINY).fit("abcd" * 20)
    model.set_params(hidden=99, tokens="word", validation_fraction=0.9)
    text = model.sample(10)
    assert model.evaluate("abcd").tokens == 3
    assert model.copies("abcd" * 10).share == 1
    model.save(tmp_path / "saved")
    assert LanguageModel.load(tmp_path / "saved").sample(10) == text


def test_scikit_learn_can_clone_it():
    base = pytest.importorskip("sklearn.base")
    model = LanguageModel(hidden=32, tokens="byte", steps=7)
    twin = base.clone(model)
    assert twin is not model
    assert type(twin) is LanguageModel
    assert twin.get_params() == model.get_params()


def test_neither_scikit_learn_nor_plotly_is_needed():
    """Fitting, sampling, evaluating, saving and loading in a process that cannot import them."""
    script = """
import sys, tempfile
for name in ("sklearn", "plotly", "onnx", "tensorboardX", "starlette"):
    sys.modules[name] = None  # importing it fails
from elman.models import LanguageModel
model = LanguageModel(hidden=8, steps=2, batch_size=2, window=8).fit("hello " * 30)
model.sample(5), model.sample(5, beam=2), model.evaluate("hello"), model.surprise("hello"), model.copies("hello" * 5)
with tempfile.TemporaryDirectory() as folder:
    LanguageModel.load(model.save(folder + "/m")).get_params()
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


# -- sampling through it ----------------------------------------------------------------------------------------------


def test_sample_and_stream_write_the_same(model):
    options = {"temperature": 0.9, "top_k": 9, "top_p": 0.4, "seed": 4, "stop": "dog"}
    text = model.sample(40, prompt="The", index=2, **options)
    assert text == "The" + "".join(model.stream(40, prompt="The", index=2, **options))
    assert text == model.sample_many(3, 40, prompt="The", **options)[2]


def test_the_samplers_take_the_same_arguments():
    sample, many, stream = (
        set(inspect.signature(method).parameters)
        for method in (LanguageModel.sample, LanguageModel.sample_many, LanguageModel.stream)
    )
    assert sample == stream | {"beam"}
    assert many == stream - {"index"} | {"count"}


def test_unknown_characters_are_skipped_where_that_is_asked_for(char_model):
    text = "The @cat"
    assert "@" not in char_model.vocabulary_.tokens
    for use in (char_model.surprise, char_model.evaluate, char_model.next_distribution, char_model.complete):
        with pytest.raises(VocabularyError):
            use(text)
        use(text, unknown="skip")
    losses = char_model.surprise(text, unknown="skip")
    assert np.isnan(losses[[0, 4]]).all()
    assert np.array_equal(np.delete(losses, 4), char_model.surprise("The cat"), equal_nan=True)


def test_a_model_has_the_history_and_a_summary_of_its_training(tmp_path):
    model = LanguageModel(hidden=8, steps=12, window=8, batch_size=2, log_every=4, validate_every=6)
    model.fit("hello world\n" * 40, out=tmp_path / "run", listeners=[])
    assert [row["step"] for row in model.history_] == [4, 6, 8, 12]
    best = min((row for row in model.history_ if row["validation_loss"]), key=lambda row: row["validation_loss"])
    assert model.summary_.startswith("12 steps in ")
    loss = f"validation loss {best['validation_loss']:.4f} nats per token (best, at step {best['step']})"
    assert loss in model.summary_
    model.save(tmp_path / "saved")
    for folder in ("run", "saved"):
        again = LanguageModel.load(tmp_path / folder)
        assert again.history_ == model.history_
        assert again.summary_ == model.summary_


def test_complete_is_greedy_and_a_beam_is_a_beam(char_model):
    assert char_model.complete("The", 30) == char_model.sample(30, prompt="The", temperature=0)
    assert char_model.complete("The", 30) == char_model.sample(30, prompt="The", beam=1)


def test_a_word_model_writes_words_it_knows(word_model):
    assert "<unk>" in word_model.vocabulary_.tokens
    assert word_model.vocabulary_.encode(" cat", unknown="replace").tolist() != [0]
    assert word_model.vocabulary_.encode(" zebra", unknown="replace").tolist() == [0]
    for index in range(5):
        assert "<unk>" not in word_model.sample(60, temperature=2, index=index)


# -- save and load ----------------------------------------------------------------------------------------------------


def test_save_and_load_change_nothing(model, tmp_path):
    folder = model.save(tmp_path / "saved")
    assert folder == tmp_path / "saved"
    again = LanguageModel.load(folder)
    text = "The cat sat on the log."
    chosen = {name: value for name, value in model.get_params().items() if value is not None}
    assert again.get_params() == again.get_params() | chosen
    np.testing.assert_array_equal(again.parameters_.buffer, model.parameters_.buffer)
    assert again.sample(50, seed=1, prompt="The") == model.sample(50, seed=1, prompt="The")
    assert again.sample(20, beam=3) == model.sample(20, beam=3)
    assert again.evaluate(text) == model.evaluate(text)
    np.testing.assert_array_equal(again.surprise(text), model.surprise(text))


def test_a_run_folder_made_by_fit_loads_the_best(tmp_path):
    model = LanguageModel(**TINY).fit("hello " * 30, out=str(tmp_path / "run"))
    again = LanguageModel.load(str(tmp_path / "run"))
    assert again.sample(30) == model.sample(30)
    assert again.run_.path == tmp_path / "run"
    again.fit("other text " * 20)
    assert again.run_ is None


def test_an_existing_folder_is_replaced_only_by_force(char_model, byte_model, tmp_path):
    char_model.save(tmp_path / "m")
    with pytest.raises(RunError, match="exists already"):
        byte_model.save(tmp_path / "m")
    assert LanguageModel.load(tmp_path / "m").vocabulary_.kind == "char"
    byte_model.save(tmp_path / "m", force=True)
    assert LanguageModel.load(tmp_path / "m").vocabulary_.kind == "byte"
    assert [path.name for path in tmp_path.iterdir() if path.name != "the-cache"] == ["m"]


def test_a_saved_model_is_never_seen_without_its_weights(char_model, tmp_path, monkeypatch):
    """It appears whole: everything is in the folder before the folder has its name."""
    seen = []
    rename = Path.rename

    def watched(self, target):
        seen.append(sorted(path.name for path in self.iterdir()))
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", watched)
    char_model.save(tmp_path / "m")
    assert seen == [["config.json", "metrics.jsonl", "model.safetensors", "vocabulary.json"]]


def damaged_config(change):
    def damage(folder):
        config = json.loads((folder / "config.json").read_text())
        change(config)
        (folder / "config.json").write_text(json.dumps(config))

    return damage


def overwritten(name, data):
    return lambda folder: (folder / name).write_bytes(data)


@pytest.mark.parametrize("damage", [
    overwritten("config.json", b""),
    overwritten("config.json", b"[1, 2]"),
    overwritten("config.json", b"\xff\xfe{}"),
    overwritten("vocabulary.json", b'{"kind": "char", "tokens": ["a"]}'),
    overwritten("vocabulary.json", b'{"kind": "char"}'),
    overwritten("model.safetensors", b""),
    overwritten("model.safetensors", b"\xff" * 100),
    lambda folder: (folder / "vocabulary.json").unlink(),
    lambda folder: (folder / "model.safetensors").unlink(),
    lambda folder: (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-1]),
    damaged_config(lambda c: c.update(format=99)),
    damaged_config(lambda c: c.update(task="poem")),
    damaged_config(lambda c: c.update(config=None)),
    damaged_config(lambda c: c["config"].update(hidden=17)),
    damaged_config(lambda c: c["config"].update(hidden="16")),
    damaged_config(lambda c: c["config"].update(dtype="float64")),
    damaged_config(lambda c: c["config"].pop("hidden")),
    damaged_config(lambda c: c["config"].update(strange=1)),
])  # fmt: skip
def test_a_damaged_folder_is_refused_by_name(damage, char_model, tmp_path):
    char_model.save(tmp_path / "m")
    damage(tmp_path / "m")
    with pytest.raises((CheckpointError, RunError), match=r"m\b|config|vocabulary"):
        LanguageModel.load(tmp_path / "m")


def test_a_folder_that_is_not_a_run_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "missing", tmp_path, tmp_path / "file"):
        with pytest.raises(RunError, match=str(path)):
            LanguageModel.load(path)


def test_a_file_name_passed_as_a_str_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("novel.txt").write_text("hello " * 100)
    with pytest.raises(DataError, match=r"'novel.txt' is the name of a file.*Path\('novel.txt'\)"):
        LanguageModel(**TINY).fit("novel.txt")
    LanguageModel(**TINY).fit(Path("novel.txt"), listeners=[])


@pytest.mark.parametrize(
    ("options", "validated"), [({}, [12, 24, 36, 48, 50]), ({"validate_every": 15}, [15, 30, 45, 50])]
)
def test_a_tiny_text_is_validated_at_least_every_ten_epochs(options, validated):
    model = LanguageModel(hidden=4, window=8, batch_size=2, steps=50, validation_fraction=0.1, **options).fit(
        "abcd" * 10, listeners=[]
    )
    assert [row["step"] for row in model.history_ if row["validation_loss"] is not None] == validated


def test_a_longer_text_is_validated_at_the_usual_interval(monkeypatch):
    monkeypatch.setattr(tasks, "LONG_TEXT", 10_000)
    config = Config(batch_size=16)
    setup = runs.text_setup(runs.open_text("abcd" * 20_000, config), config)
    assert setup.new_task(setup.new_model()).trainer_config == config


@pytest.mark.parametrize("text", ["hello", "hello cats and dogs. " * 100], ids=["five characters", "a text"])
@pytest.mark.parametrize("budget", [{}, {"seconds": 0.2}, {"steps": 3}])
def test_data_and_time_do_not_touch_the_network_of_textbooks(text, budget):
    model = LanguageModel(preset="textbook", **budget).fit(text, listeners=[])
    assert set(model.parameters_) == {"layers.0.W_xh", "layers.0.W_hh", "layers.0.b_h", "head.W_hy", "head.b_y"}
    c, plain = model.config_, PRESETS["textbook"]
    assert {name: getattr(c, name) for name in plain} == plain
    assert not c.learned_state
    page = look.step_through("hel", "ell", model=model) if text == "hello" else None
    assert page is None or "fixed" not in page.data  # it can be edited
