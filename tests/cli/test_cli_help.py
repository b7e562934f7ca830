"""Help that a person can read, whose examples work; and words that are no command."""

from __future__ import annotations

import re
import shlex
from importlib import import_module
from importlib.metadata import version

import pytest

from elman.cli.flags import parse
from elman.cli.main import COMMANDS
from elman.cli.train_sequences import MEANS
from elman.config import PRESETS, TASKS
from elman.models.language_run import DEFAULT_EPOCHS

BOX = re.compile("[│╭╰─]")


def examples(page):
    """The indented lines under "For instance:"."""
    return re.search(r"^For instance:\n((?:    elman .*\n)+)\n", page, re.MULTILINE)[1].splitlines()


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["help"]])
def test_the_overview_names_every_command(elman, words):
    status, out, err = elman(*words)
    assert (status, err) == (0, "")
    for name in COMMANDS:
        assert re.search(rf"^  elman {name} +\w", out, re.MULTILINE)
    assert "elman train" in out.split("Begin with:")[1]


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_the_version_is_the_package_s(elman, flag):
    assert elman(flag) == (0, f"elman {version('elman')}\n", "")


@pytest.mark.parametrize("flag", ["--help", "-h"])
@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_a_help_with_examples_first(elman, name, flag):
    status, out, err = elman(name, flag)
    assert (status, err) == (0, "")
    assert all(line.startswith(f"    elman {name}") for line in examples(out))
    assert out.index("For instance:") < out.index(f"usage: elman {name}")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_examples_of_a_help_are_commands(elman, name):
    for line in examples(elman(name, "--help").out):
        _, command, *words = shlex.split(line)
        module, kind = COMMANDS[command][0].split(":")
        assert type(parse(getattr(import_module(module), kind), command, words)).__name__ == kind


@pytest.mark.parametrize("name", COMMANDS)
def test_every_flag_is_explained_and_no_default_says_nothing(elman, name):
    out = elman(name, "--help").out
    flat = re.sub(r"\s+", " ", BOX.sub(" ", out))
    assert "None" not in flat
    assert "(default: False)" not in flat
    assert "(default: '')" not in flat
    module, kind = COMMANDS[name][0].split(":")
    for flag in set(re.findall(r"--[a-z][a-z0-9-]+", flat)) - {"--help"}:
        assert re.search(rf"{flag}\b[^-]* \w\w", flat)
    assert getattr(import_module(module), kind).__doc__


def test_defaults_that_say_something_are_shown(elman):
    out = elman("train", "--help").out
    assert "units in each recurrent layer (default: 256)" in out
    assert re.search(r"--lr FLOAT, --learning-rate FLOAT", out)
    assert re.search(r"RUN +a run made by elman train", elman("sample", "--help").out)


def test_the_defaults_shown_are_those_of_the_preset(elman):
    out = elman("train", "--preset", "large", "--help").out
    assert f"units in each recurrent layer (default: {PRESETS['large']['hidden']})" in out
    assert f"(default: {PRESETS['large']['epochs']:g}" in out


def test_one_number_of_epochs_is_the_default(elman):
    said = f"Without a budget or a preset {DEFAULT_EPOCHS} epochs are taken."
    for words, epochs in ([], None), (["--preset", "large"], PRESETS["large"]), (["--task", "tag"], TASKS["tag"]):
        flat = re.sub(r"\s+", " ", BOX.sub(" ", elman("train", *words, "--help").out))
        shown = "" if epochs is None else f" (default: {epochs['epochs']:g})"
        assert f"passes over the data{shown} --steps" in re.sub(r"(?<=--steps) INT", "", flat)
        assert (said in flat) == ("--task" not in words)


@pytest.mark.parametrize("task", ["classify", "tag", "generate", "translate"])
def test_the_help_of_a_task_lists_the_flags_that_it_takes_and_no_others(elman, task):
    def listed(*words):
        page = elman("train", *words, "--help").out.partition("usage:")[2]
        return set(re.findall(r"(?:^[^\w-]*|, )(--[a-z0-9-]+)", page, re.MULTILINE))

    flags = listed("--task", task)
    assert {"--hidden", "--lr", "--learning-rate", "--epochs", "--validation-fraction"} <= flags
    known = {"--window", "--bptt-block", "--bptt-steps", "--preset", *(f"--{name}" for name in MEANS)}
    turned_off = {flag for flag in known if flag.replace("--", "--no-") in flags}
    taken = sorted((flags | turned_off) - {"--help", "--resume", "--task"})
    # the values are looked at once every flag has been let through, and a switch takes none
    assert "takes no value" in elman("train", "--task", task, *(f"{flag}=1" for flag in taken)).err
    for flag in sorted(known - flags - turned_off):
        refused = elman("train", "--task", task, f"{flag}=1").err
        assert "means nothing" in refused or "for language models only" in refused
    assert {"--window", "--bptt-block", "--bptt-steps"} <= listed()  # of a language model, also after another task's


@pytest.mark.parametrize("columns", [60, 90])
@pytest.mark.parametrize("name", COMMANDS)
def test_the_words_fit_the_terminal(elman, name, columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    out = elman(name, "--help").out
    for line in out.split("usage:")[0].splitlines():
        assert len(line) <= columns or line.startswith("    elman")


@pytest.mark.parametrize(("word", "hint"), [
    ("sampel", "Did you mean elman sample?"),
    ("trian", "Did you mean elman train?"),
    ("evaluate", "Did you mean elman eval?"),
    ("xyzzy", "elman --help lists the commands."),
    ("--lr", "elman --help lists the commands."),
])  # fmt: skip
def test_a_command_that_does_not_exist(elman, word, hint):
    status, out, err = elman(word)
    assert (status, out) == (2, "")
    assert err == f"elman: There is no command {word!r}. {hint}\n"
