"""The table of options: all that is made from it is up to date, and an option that is added is found everywhere."""

from __future__ import annotations

import difflib
import inspect
import json
import math
import os
import pydoc
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest

import elman
from elman.cli.flags import parse
from elman.cli.train import Train
from elman.config import (
    ALL_TASKS,
    BUDGET,
    BY_FORM,
    MIN_STEPS,
    OPTIONS,
    OTHER_NAMES,
    SUBWORDS,
    Config,
    DataForm,
    check_for_service,
    choices_of,
    defaults,
    described,
    from_json,
    kind_of,
    resolve,
    suggestion,
    to_json,
)
from elman.errors import ArgumentError, CheckpointError, RangeError, UnknownNameError, options_as
from elman.models.loading import model_class
from elman.models.options import OWN, Options, arguments

ROOT = Path(__file__).resolve().parents[1]
MODELS = {
    "lm": elman.LanguageModel,
    "classify": elman.SequenceClassifier,
    "regress": elman.SequenceRegressor,
    "tag": elman.SequenceTagger,
    "generate": elman.SequenceGenerator,
    "translate": elman.Seq2Seq,
}


def test_the_page_of_options_is_up_to_date():
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "generate", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}Run python scripts/generate."


@pytest.mark.parametrize("task", ALL_TASKS)
def test_the_help_of_a_model_explains_every_argument(task):
    text = pydoc.render_doc(MODELS[task], renderer=pydoc.plaintext)
    for name in inspect.signature(MODELS[task]).parameters:
        assert f" {name} : " in text
    assert model_class(task) is MODELS[task]


@pytest.mark.parametrize("task", ALL_TASKS)
def test_the_arguments_of_a_model_are_the_options_of_its_task(task):
    names = set(inspect.signature(MODELS[task]).parameters) - {"class_weight", "random_state", "preset"}
    wanted = {name for name, option in OPTIONS.items() if task in option.tasks and (option.argument or task == "lm")}
    assert names == wanted
    model = MODELS[task]()
    assert {name: getattr(model, name) for name in inspect.signature(MODELS[task]).parameters} == model.get_params()


def test_type_checkers_see_the_types_of_the_table_and_none_where_a_model_takes_it():
    shown, own = get_type_hints(Options), set(OWN)
    assert set(shown) == {name for task in ALL_TASKS for name in arguments(task)} | own
    for name in set(shown) - own:
        none = any(arguments(task).get(name, 0) is None for task in ALL_TASKS)
        table = get_type_hints(Config)[name]
        assert shown[name] == (table | None if none else table), name
    assert not any(hasattr(elman.SequenceTagger(), name) for name in ("pooling", "preset"))  # of other tasks


@pytest.mark.parametrize("name", OPTIONS)
def test_every_default_is_valid_and_every_bound_is_kept(name):
    option = OPTIONS[name]
    for task in option.tasks:
        resolve(task, {} if name in BUDGET else {name: defaults(task)[name]})
    if choices_of(name):
        with pytest.raises(UnknownNameError, match=name):
            Config().with_options(**{name: "neither"})
    for bound, step in ((option.above, 0), (option.least, -1), (option.below, 0), (option.most, 1)):
        if bound is not None:
            with pytest.raises(RangeError, match=f"^{name}: expected"):
                Config().with_options(**{name: kind_of(name)[0](bound + step)})


def test_one_budget_is_set_and_a_chosen_one_replaces_the_default():
    assert [resolve("tag").epochs, resolve("tag", {"steps": 3}).epochs, resolve("tag", {"steps": None}).steps] == [
        25, None, None,
    ]  # fmt: skip
    best = resolve("lm", {"seconds": 5.0, "hidden": 3}, preset="best")
    assert (best.seconds, best.epochs, best.hidden) == (5.0, None, 3)
    with pytest.raises(ArgumentError, match="one of epochs, steps and seconds"):
        resolve("lm", {"steps": 3, "epochs": 2})


@pytest.mark.parametrize(("task", "options", "message"), [
    ("poetry", {}, "task: expected one of lm, classify"),
    ("lm", {"pooling": "max"}, "pooling does not apply to task lm. It is for classify and regress"),
    ("lm", {"hiden": 3}, r"Did you mean hidden\?"),
    ("lm", {"cell": "gru", "activation": "relu"}, "activation does not apply to cell gru: got 'relu'. Leave it out"),
    ("lm", {"hidden": True}, "hidden: expected a whole number, got True"),
])  # fmt: skip
def test_what_resolve_refuses(task, options, message):
    with pytest.raises(ArgumentError, match=message):
        resolve(task, options)


FORMS = [DataForm(kind, n, length, 2) for kind in ("char", "byte", "word", "bpe", "list", "numbers")
         for n in (0, 40, 3_000, 100_000) for length in (0.0, 8.0, 400.0)]  # fmt: skip
FORMS.append(DataForm("word", 3_000, 8.0, words=2_000))


@pytest.mark.parametrize("task", ALL_TASKS)
def test_defaults_by_form_of_data_are_valid_and_are_those_whose_argument_is_none(task):
    without = defaults(task)
    for form in FORMS:
        changed = {name for name, value in defaults(task, form=form).items() if value != without[name]}
        assert changed <= {*BY_FORM.get(task, ()), *(("tokens", "target_tokens") if task == "translate" else ())}
        resolve(task, form=form)
    arguments = inspect.signature(MODELS[task]).parameters
    assert all(arguments[name].default is None for name in BY_FORM.get(task, ()) if name in arguments)


@pytest.mark.parametrize("task", ALL_TASKS[1:])
def test_examples_end_a_training_after_as_many_validations_whatever_their_form(task):
    assert {defaults(task, form=form)["patience"] for form in (None, *FORMS)} == {4}


def test_what_is_chosen_overrules_the_form_of_the_data_and_none_chooses_nothing():
    words = DataForm("word", 3_000, 20.0, 2)
    assert resolve("classify", {"pooling": None}, form=words) == resolve("classify", form=words)
    assert resolve("classify", form=words).embedding > 0
    assert resolve("classify", {"embedding": 0, "cell": "rnn"}, form=words).embedding == 0
    assert "embedding 100" in described("classify", resolve("classify", form=words))
    assert str(words) == "words, 3,000 examples, 2 classes"


def test_a_translator_of_many_different_words_reads_and_generates_subwords():
    many, few = (DataForm("word", 20_000, 5.0, words=words) for words in (8_000, 300))
    chosen = resolve("translate", {"tokens": "auto"}, form=many)
    assert (chosen.tokens, chosen.target_tokens, chosen.vocabulary_size) == ("bpe", "bpe", 1000)
    assert "1,000 subwords" in described("translate", chosen)
    assert resolve("translate", {"vocabulary_size": 3000}, form=many).vocabulary_size == 3000
    words = resolve("translate", {"tokens": "word", "target_tokens": "word"}, form=many)
    assert (words.tokens, words.target_tokens, words.vocabulary_size) == ("word", "word", 20_000)
    assert words.dropout == chosen.dropout > resolve("translate", form=few).dropout
    assert resolve("translate", form=few).tokens == "auto"
    assert resolve("translate", {"tokens": "bpe"}, form=many).vocabulary_size == SUBWORDS


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_more_time_makes_a_larger_network_with_more_dropout_and_a_lower_rate(cell):
    novel = DataForm("char", 1, 640_000.0, speed=2e10)
    sized = [resolve("lm", {"seconds": seconds, "cell": cell}, form=novel) for seconds in (1.0, 30.0, 300.0, 3000.0)]
    assert [config.layers for config in sized] == [2, 2, 2, 2]
    for name, sign in (("hidden", 1), ("dropout", 1), ("learning_rate", -1)):
        values = [sign * getattr(config, name) for config in sized]
        assert values == sorted(values)
        assert values[0] < values[-1]
    short = resolve("lm", {"seconds": 3000.0, "cell": cell}, form=novel._replace(length=5_000.0))
    assert (short.hidden, short.layers, short.batch_size) == (256, 1, 16)
    assert short.dropout > sized[-1].dropout  # even a small network would learn a short text by heart
    unmeasured = resolve("lm", {"seconds": 300.0, "cell": cell}, form=novel._replace(speed=0.0))
    assert unmeasured.hidden == Config().hidden
    chosen = resolve("lm", {"seconds": 300.0, "cell": cell, "hidden": 128}, form=novel)
    assert (chosen.hidden, chosen.layers, chosen.dropout) == (128, 2, 0.0)
    assert resolve("lm", {"seconds": 60.0, "cell": cell, "layers": 1}, form=novel).hidden > sized[1].hidden
    for preset, seconds in (("fast", 30.0), ("default", 300.0), ("best", 3000.0)):
        assert resolve("lm", {"cell": cell}, form=novel, preset=preset) == resolve(
            "lm", {"cell": cell, "seconds": seconds}, form=novel
        )


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("length", [5, 399, 401, 1_000, 3_000, 8_000, 100_000])
def test_a_short_text_is_read_until_it_is_learned(cell, length):
    form = DataForm("char", 1, float(length))
    config = resolve("lm", {"cell": cell}, form=form)
    updates = max(1.0, 0.9 * length / config.window / config.batch_size)
    assert config.epochs * updates >= 0.95 * MIN_STEPS
    assert config.patience == resolve("lm", {"cell": cell, "validate_every": 250}, form=form).patience > 0
    assert resolve("lm", {"cell": cell, "validate_every": 3}, form=form).patience == 0


def test_the_window_leaves_room_for_the_parts_that_are_held_out():
    form = DataForm("char", 1, 11.0)
    assert resolve("lm", form=form).window == 10
    assert resolve("lm", {"validation_fraction": 0.3}, form=form).window < 7


@pytest.mark.parametrize(("options", "rate"), [({}, 1.0), ({"cell": "lstm"}, 4.0), ({"optimizer": "adam"}, 0.008)])
def test_the_textbook_preset_has_the_default_rate_of_its_optimizer(options, rate):
    for form in (None, DataForm("char", 1, 5.0), DataForm("char", 1, 1e6, speed=1e10)):
        assert resolve("lm", {"seconds": 9.0, **options}, form=form, preset="textbook").learning_rate == rate


def test_suggestions_begin_with_what_was_typed():
    assert suggestion("second", OPTIONS) == "seconds"
    assert suggestion("hiden", OPTIONS) == "hidden"
    assert suggestion("color", OPTIONS) is None


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_a_name_of_other_texts_leads_to_the_option_as_a_flag_and_as_an_argument(name):
    meant = OTHER_NAMES[name]
    assert difflib.get_close_matches(name, OPTIONS, 1, 0.7) != [meant], "similar anyway: the entry is superfluous"
    with pytest.raises(TypeError, match=rf"^LanguageModel has no option '{name}'\. Did you mean {meant}\?$"):
        elman.LanguageModel(**{name: 4})
    with pytest.raises(UnknownNameError, match=rf"got {name}\. Did you mean {meant}\?$"):
        elman.LanguageModel().set_params(**{name: 4})
    with pytest.raises(UnknownNameError, match=rf"got {name}\. Did you mean {meant}\?$"):
        resolve("lm", {name: 4})
    if name != "lr":  # --lr is a flag: the short name of --learning-rate
        flag, right = name.replace("_", "-"), meant.replace("_", "-")
        with pytest.raises(ArgumentError, match=rf"has no flag --{flag}\. Did you mean --{right}\?$"):
            parse(Train, "train", ["text", f"--{flag}", "4"])


def test_a_name_of_other_texts_is_not_suggested_where_the_option_does_not_exist():
    with pytest.raises(TypeError, match=r"^SequenceTagger has no option 'bptt_truncate'\. help\("):
        elman.SequenceTagger(bptt_truncate=4)


def test_config_json_has_every_option_and_nothing_else():
    config = resolve("classify", {"hidden": 3})
    written = json.loads(json.dumps(to_json(config)))
    assert set(written) == set(OPTIONS)
    assert from_json(written) == config
    for damaged, got in (
        ({**written, "strange": 1}, "got unknown: strange"),
        ({k: v for k, v in written.items() if k != "hidden"}, "got missing: hidden"),
        ([], "got list"),
        (None, "got NoneType"),
    ):
        with pytest.raises(CheckpointError, match=f"config: expected .*, {got}"):
            from_json(damaged)


def test_the_service_takes_small_trainings_and_no_files():
    assert check_for_service({"hidden": 32, "steps": 5}).hidden == 32
    for options, message in (
        ({"hidden": 4096}, "hidden: expected at most 512"),
        ({"encoding": "latin-1"}, "encoding is about files"),
        ({"seconds": 3600}, "seconds: expected at most 600"),
    ):
        with pytest.raises(ArgumentError, match=message):
            check_for_service(options)


def test_an_option_that_is_added_to_the_table_is_found_everywhere(tmp_path):
    """In a copy: as a flag, in the help, in config.json, in the sweep and in both kinds of Python signature."""
    for folder in ("src", "scripts", "docs"):
        shutil.copytree(
            ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", "figures", "lessons")
        )
    table = tmp_path / "src" / "elman" / "config.py"
    text = table.read_text(encoding="utf-8")
    line = '    novelty: float = _training(0.25, "how new it is", least=0, below=1, sweep=Range(0.0, 0.5))\n'
    table.write_text(text.replace("    clip_norm: float =", f"{line}    clip_norm: float =", 1), encoding="utf-8")
    environ = os.environ | {"PYTHONPATH": str(tmp_path / "src"), "ELMAN_KERNELS": "reference"}

    def run(*words, status=0):
        done = subprocess.run(
            [sys.executable, *words], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == status, done.stderr
        return done.stdout

    assert "options.md: stale" in run("scripts/generate", "--check", status=1)
    run("scripts/generate")
    run("scripts/generate", "--check")
    assert "--novelty NUMBER                how new it is (default: 0.25)" in run("-m", "elman", "train", "--help")
    assert "| `novelty` | number, at least 0 and below 1 | 0.25 |" in (tmp_path / "docs" / "options.md").read_text()
    (tmp_path / "text.txt").write_text("The cat sat on the mat.\n" * 40)
    run("-m", "elman", "train", "text.txt", "--novelty=0.5", "--steps", "1", "--hidden", "4", "--out", "run")
    assert json.loads((tmp_path / "run" / "config.json").read_text())["config"]["novelty"] == 0.5
    script = """
import inspect, elman
from elman.models.sweep_space import space
for model in (elman.LanguageModel, elman.SequenceClassifier):
    assert inspect.signature(model).parameters["novelty"].default == 0.25
    assert "novelty : float, default=0.25" in model.__init__.__doc__
    assert model(novelty=0.1).get_params()["novelty"] == 0.1
assert (space(["novelty"])[0].low, space(["novelty"])[0].high) == (0.0, 0.5)
"""
    run("-c", script)


def test_messages_name_options_as_the_user_writes_them_and_as_config_json_has_them():
    with options_as("flags"):
        with pytest.raises(RangeError, match=r"^--learning-rate: expected a number above 0, got -1"):
            resolve("lm", {"learning_rate": -1.0})
        with pytest.raises(CheckpointError, match=r"^config: learning_rate: expected a number above 0, got -1"):
            from_json(Config().options() | {"learning_rate": -1.0})
    with pytest.raises(ArgumentError, match=r"^training time: expected one of epochs, steps and seconds, got .*steps"):
        resolve("lm", {"steps": 3, "seconds": 2.0})


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_refused_with_all_bounds(value):
    with pytest.raises(RangeError, match=f"^learning_rate: expected a finite number above 0, got {value}"):
        resolve("lm", {"learning_rate": value})
    with pytest.raises(RangeError, match=f"^dropout: expected a finite number of 0 or more and below 1, got {value}"):
        resolve("lm", {"dropout": value})


@pytest.mark.parametrize("task", ALL_TASKS)
def test_an_unknown_option_is_refused_by_the_name_of_the_model(task):
    model = MODELS[task]
    with pytest.raises(TypeError, match=rf"^{model.__name__} has no option 'hiden'\. Did you mean hidden\?$"):
        model(hiden=3)
    assert "hidden" in inspect.signature(model).parameters
