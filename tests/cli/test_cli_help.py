"""The help and its examples, which must work; unknown commands."""

from __future__ import annotations

import re
import shlex
from importlib import import_module
from importlib.metadata import version

import pytest

from elman.cli.flags import parse
from elman.cli.main import COMMANDS
from elman.config import BY_FORM, OPTIONS, defaults


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
def test_every_flag_is_explained_and_empty_defaults_are_not_shown(elman, name):
    out = elman(name, "--help").out
    text = flat(out)
    assert "None" not in text
    assert "(default: False)" not in text
    assert "(default: )" not in text
    module, kind = COMMANDS[name][0].split(":")
    for flag in set(re.findall(r"--[a-z][a-z0-9-]+", text)) - {"--help"}:
        assert re.search(rf"{flag}\b[^-]* \w\w", text)
    assert getattr(import_module(module), kind).__doc__


def flat(page):
    return re.sub(r"\s+", " ", page)


def listed(elman, *words, command="train"):
    """The flags that the help of a command lists."""
    page = elman(command, *words, "--help").out.partition("usage:")[2]
    return set(re.findall(r"(?:^ *|, )(--[a-z0-9-]+)", page, re.MULTILINE))


def test_defaults_are_shown(elman):
    out = flat(elman("train", "--help").out)
    assert "--hidden INT number of units of each recurrent layer and direction (default: 256)" in out
    assert "--lr NUMBER, --learning-rate NUMBER maximum learning rate" in out
    assert "RUN a run made by elman train" in flat(elman("sample", "--help").out)


def test_the_ten_options_that_most_people_need_come_first(elman):
    page = elman("train", "--help").out.partition("main options:")[2]
    section = page.partition("\n\n")[0]
    assert len([line for line in section.splitlines() if line.startswith("  --")]) == 10
    assert all(flag in section for flag in ("--hidden", "--cell", "--epochs", "--seconds", "--learning-rate"))


@pytest.mark.parametrize("task", ["lm", "classify", "tag", "generate", "translate"])
def test_the_defaults_shown_are_those_of_the_task(elman, task):
    out, usual = flat(elman("train", "--task", task, "--help").out), defaults(task)
    for name in ("hidden", "batch_size", "learning_rate", "epochs", "dropout"):
        value = "depends on the data" if task != "lm" and name in BY_FORM.get(task, ()) else f"{usual[name]:g})"
        assert f"{OPTIONS[name].help} (default: {value}" in out


def test_the_help_says_where_the_time_and_the_text_change_defaults(elman):
    note = "With --seconds or --preset, there are 2 layers by default"
    for words in (["train"], ["train", "--task", "lm"]):
        assert flat(elman(*words, "--help").out).count(note) == 1
    for words in (["train", "--task", "tag"], ["sweep"]):  # a sweep has the plain defaults
        assert note not in flat(elman(*words, "--help").out)


@pytest.mark.parametrize("task", ["lm", "classify", "tag", "generate", "translate"])
def test_the_help_of_a_task_lists_the_flags_that_it_takes_and_no_others(elman, task):
    flags = listed(elman, "--task", task)
    for name, option in OPTIONS.items():
        flag = f"--{name.replace('_', '-')}"
        assert (flag in flags or flag.replace("--", "--no-") in flags) == (task in option.flags_of())


def test_the_help_of_a_sweep_lists_the_flags_of_language_models_only(elman):
    flags = listed(elman, command="sweep")
    assert "--window" in flags
    assert not {"--pooling", "--attention", "--target-tokens"} & flags


@pytest.mark.parametrize("task", ["lm", "classify", "tag", "generate", "translate"])
def test_a_flag_of_another_task_is_refused_by_name(elman, text, task):
    for name, option in OPTIONS.items():
        if option.flags_of() and task not in option.flags_of():
            value = {str: "auto", int: "1", float: "0.5"}.get(type(defaults("tag")[name]))
            value = {
                "pooling": "mean",
                "attention": "dot",
                "sample_every": "1",
                "bptt_block": "1",
                "bptt_steps": "1",
                "sequences": "lines",
            }.get(name, value)
            flag = f"--{name.replace('_', '-')}"
            status, _, err = elman("train", text, "--task", task, *([flag] if value is None else [flag, value]))
            assert (status, err.partition(".")[0].removesuffix(" from a file")) == (
                2, f"elman: {flag} does not apply to --task {task}"
            )  # fmt: skip


@pytest.mark.parametrize("columns", [60, 90])
@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_fits_the_terminal(elman, name, columns, monkeypatch):
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
def test_an_unknown_command_is_refused(elman, word, hint):
    status, out, err = elman(word)
    assert (status, out) == (2, "")
    assert err == f"elman: There is no command {word!r}. {hint}\n"
