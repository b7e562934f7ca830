"""Bad input: a clear message, exit code 2, and no new files."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from cli_text import TEXT

from elman.cli.console import reason


def tree():
    """All files of the working folder, with their content."""
    return {path: path.read_bytes() if path.is_file() else None for path in Path().rglob("*")}


@pytest.fixture
def refused(elman):
    def run(words, message, stdin=b""):
        before = tree()
        status, out, err = elman(*words, stdin=stdin)
        assert words[0] == "train" or out == ""  # train may have printed what it has read
        assert "Traceback" not in err
        said = re.sub(r"\s+", " ", re.sub("[│╭╮╰╯─]", " ", err))
        assert re.search(message, said), said
        assert status == 2
        assert tree() == before
        return said

    return run


@pytest.fixture
def files(text):
    Path("empty.txt").touch()
    Path("blank.txt").write_text("\n")
    mark = "*** {} OF THE PROJECT GUTENBERG EBOOK X ***\n"
    Path("shell.txt").write_text(f"Header\n{mark.format('START')}\n\n{mark.format('END')}A licence of words\n")
    Path("short.txt").write_text("hardly a window")
    Path("binary.bin").write_bytes(bytes(range(256)) * 8)
    Path("image.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" * 50)
    Path("nul.txt").write_bytes(b"text\0text" * 50)
    Path("latin.txt").write_bytes("Café. ".encode("latin-1") * 50)
    Path("folder").mkdir()
    Path("folder/inside.md").write_text("x")


@pytest.mark.parametrize(("words", "message"), [
    (["empty.txt"], "'empty.txt' has no text. It is empty. $"),
    (["shell.txt"], "'shell.txt' has no text: all 120 characters belong to Project Gutenberg's header and footer, and "
                    "nothing is between its START and END lines. Use another file; --keep-boilerplate keeps them. $"),
    (["shell.txt", "--tokens", "word"], "--keep-boilerplate keeps them"),
    (["blank.txt"], "at least two tokens, got 1"),
    (["short.txt", "--window", "64"], r"too short for a window: expected more than 64 tokens, got \d+ of \d+\. "
                                      "Use a longer text"),
    (["binary.bin"], "'binary.bin' .* --tokens byte"),
    (["image.png"], "'image.png' is not utf-8: byte 0 .*--encoding latin-1.* --tokens byte"),
    (["nul.txt"], "NUL at byte 4"),
    (["latin.txt"], "not utf-8: byte 3 .*--encoding latin-1"),
    (["missing.txt"], "no file and no corpus named 'missing.txt'"),
    (["./missing.txt"], "there is no file 'missing.txt'"),
    (["folder"], "'folder' is a folder without texts.* Name a file in it"),
    (["cat.txt/below"], "Not a directory"),
    (["prid-and-prejudice"], r"Did you mean pride-and-prejudice\?"),
    (["pyhton-docs"], r"Did you mean python-docs\?"),
    (["-"], "standard input has no text"),
    (["pride-and-prejudice"], "could not be fetched: no connection .* ELMAN_DATA"),
])  # fmt: skip
def test_a_text_that_cannot_be_used_is_refused(refused, files, words, message):
    refused(["train", *words, "--steps", 1], f"^elman: .*{message}")


def test_options_are_checked_before_the_task_is_guessed_from_the_file(refused):
    Path("numbers.csv").write_text("a,b\n1,2\n")
    refused(["train", "numbers.csv"], "a table of numbers")
    refused(["train", "numbers.csv", "--hidden", "0"], "^elman: --hidden: ")
    refused(["train", "numbers.csv", "--preset", "huge"], "^elman: --preset: ")


@pytest.mark.parametrize(("words", "message"), [
    (["--hidden", "0"], "^elman: --hidden: expected a whole number above 0, got 0"),
    (["--hidden", "-4"], "hidden: .*above 0"),
    (["--layers", "0"], "layers: .*above 0"),
    (["--batch-size", "0"], "^elman: --batch-size: .*above 0"),
    (["--window", "0"], "window: .*above 0"),
    (["--dropout", "1"], "dropout: expected a number below 1, got 1"),
    (["--dropout", "-0.1"], "dropout: .*0 or more"),
    (["--lr", "nan"], "^elman: --learning-rate: expected a finite number above 0, got nan"),
    (["--lr", "inf"], "^elman: --learning-rate: expected a finite number above 0, got inf"),
    (["--lr=-1"], "^elman: --learning-rate: expected a number above 0, got -1"),
    (["--clip-norm", "nan"], "--clip-norm: expected a finite number of 0 or more, got nan"),
    (["--seconds", "nan"], "seconds: .*nan"),
    (["--seconds", "0"], "seconds: .*above 0"),
    (["--epochs", "inf"], "epochs: .*inf"),
    (["--steps", "0"], "steps: .*above 0"),
    (["--seed", "-1"], "seed: .*0 or more"),
    (["--bptt-block", "65"], "--bptt-block: .*at most the window, 64, got 65"),
    (["--bptt-steps", "3", "--bptt-block", "5"], "--bptt-steps: .*at least --bptt-block, 5, got 3"),
    (["--steps", "2", "--epochs", "3"], "training time: .*--epochs, --steps and --seconds, got --epochs and --steps"),
    (["--steps", "2", "--seconds", "3"], "got --steps and --seconds"),
    (["--validation-fraction", "0.999", "--window", "9"], "too short for a window"),
    (["--validation-fraction", "0.99999"], "a part of the text left for training"),
    (["--validation-fraction", "0.5", "--test-fraction", "0.5"], "a part of the text left for training"),
    (["--validation-fraction", "1"], "^elman: --validation-fraction: expected a number below 1, got 1"),
    (["--validation-fraction", "nan"], "--validation-fraction: .*finite number of 0 or more and below 1, got nan"),
    (["--preset", "huge"], "--preset: expected one of fast, default, best, textbook, got 'huge'"),
    (["--preset=huge"], "--preset: expected one of"),
    (["--preset"], "--preset"),
    (["--threads", "0"], "threads: expected 1 or more"),
    (["--encoding", "utf-9"], "encoding: .*'utf-9'"),
    (["--encoding", "undefined"], "encoding: expected a text encoding that Python knows.*, got 'undefined'"),
    (["--tokens", "letter"], "^elman: --tokens: expected one of auto, char, byte, word, bpe, got 'letter'. See elman"),
    (["--hidden", "many"], "^elman: --hidden: expected a whole number, got 'many'. See elman train --help. $"),
    (["--hidden", "2.5"], "--hidden: expected a whole number, got '2.5'"),
    (["--hidden"], "^elman: --hidden: expected a value, got none"),
    (["--hidden", "None"], "--hidden: expected a whole number, got 'None'"),
    (["--steps", "None"], "--steps: expected a whole number, got 'None'"),
    (["--lr", "it's"], "^elman: --lr: expected a number, got \"it's\""),
    (["--learning-rate", "abc"], "^elman: --learning-rate: expected a number, got 'abc'"),
    (["--lr=1", "--learning_rate=abc"], "^elman: --learning-rate: expected a number, got 'abc'"),
    (["--lr"], "^elman: --lr: expected a value, got none"),
    (["--lr", "Missing from it"], "^elman: --lr: expected a number, got 'Missing from it'"),
    (["--learning-rat", "3"], "has no flag --learning-rat. Did you mean --learning-rate\\? $"),
    (["--color", "--hiden=3"], "has no flag --color. See elman train --help"),
    (["--epochs", "few"], "^elman: --epochs: expected a number, got 'few'"),
    (["--color", "red"], "^elman: elman train has no flag --color. See elman train --help"),
    (["--color=red"], "has no flag --color. See elman train --help"),
    (["--hiden", "3"], "^elman: elman train has no flag --hiden. Did you mean --hidden\\? $"),
    (["--hiden=3", "--color"], "has no flag --hiden. Did you mean --hidden\\? $"),
    (["-x"], "has no flag -x"),
    (["other.txt"], "other.txt"),
    (["--force=maybe"], "^elman: --force takes no value. Leave out '=maybe'. $"),
    (["--steps", "99999999999999999999"], r"steps: .*2\^53"),
    (["--hidden", "1" + "0" * 400], r"hidden: .*2\^53"),
    (["--hidden", "1000000000"], "parameters|memory"),
    (["--vocabulary-size", "0"], "--vocabulary-size: .*above 0"),
    (["--out", "cat.txt/run", "--steps", "1"], "cat.txt/run.*Not a directory"),
    (["--out", "run" * 200, "--steps", "1"], "File name too long"),
    (["--out", ".", "--steps", "1"], "exists already"),
    (["--out", "cat.txt", "--steps", "1"], "cat.txt exists already"),
])  # fmt: skip
def test_options_that_make_no_sense_are_refused(refused, text, words, message):
    refused(["train", text, *words], message)


def test_labels_that_are_all_the_same_are_refused(refused):
    Path("same.tsv").write_text("good\tA\nbad\tA\n")
    refused(["train", "same.tsv", "--task", "classify"], "^elman: labels: expected at least two classes, got 1 class")


def test_an_unknown_preset_of_a_sweep_is_refused(refused, text):
    pytest.importorskip("optuna")
    refused(
        ["sweep", text, "--preset", "huge"],
        "^elman: --preset: expected one of fast, default, best, textbook, got 'huge'",
    )


@pytest.mark.parametrize(("words", "message"), [
    (["--length", "-1"], r"length: expected a whole number of tokens from 0 to 2\^53, got -1"),
    (["--length", "99999999999999999999"], r"length: .*from 0 to 2\^53, got 99999999999999999999"),
    (["--temperature", "-1"], "temperature: expected a number, 0 or more, got -1"),
    (["--temperature", "nan"], "temperature: .*nan"),
    (["--temperature", "inf"], "temperature: .*inf"),
    (["--top-k", "0"], "^elman: --top-k: .*1 or more"),
    (["--top-p", "0"], "--top-p: .*above 0, at most 1"),
    (["--top-p", "2"], "^elman: --top-p: .*above 0, at most 1"),
    (["--top-p", "nan"], "--top-p: .*nan"),
    (["--beam", "0"], "beam: expected a whole number from 1 to 1024, got 0"),
    (["--beam", "1" + "0" * 20], "beam: expected a whole number from 1 to 1024, got 10000"),
    (["--beam", "2", "--count", "3"], "--beam searches for one text"),
    (["--count", "0"], "--count: expected 1 or more"),
    (["--seed", "-1"], "seed: .*0 or more"),
    (["--stop", ""], "stop: .*not empty"),
    (["--prompt", "Zebra!"], "'Z', 'b', 'r', '!'.*--unknown skip"),
    (["--unknown", "ignore"], "--unknown: expected one of error, skip, replace, got 'ignore'"),
    (["--length", "long"], "--length.*long"),
    (["--length", "1e3"], "--length.*1e3"),
    (["--lr", "3"], "--lr"),
    (["--prompt"], "--prompt"),
])  # fmt: skip
def test_samples_that_cannot_be_drawn_are_refused(refused, run, words, message):
    refused(["sample", run, *words], message)


@pytest.mark.parametrize(("words", "message"), [
    (["cat.txt", "dog.txt"], "^elman: elman eval: 'dog.txt' is one argument too many"),
    (["cat.txt", "a dog, or two"], "^elman: elman eval: 'a dog, or two' is one argument too many"),
    (["dog house", "dog"], "^elman: elman eval: 'dog' is one argument too many"),
    (["missing.txt"], "no file and no corpus named"),
    (["zebra.txt"], "'Z', 'b', 'r'.*--unknown skip"),
    (["strange.txt", "--unknown", "skip"], "'strange.txt' has no token of the vocabulary"),
    (["one.txt"], "at least two tokens"),
    (["shell.txt"], "nothing is between its START and END lines. Use another file. $"),  # no --keep-boilerplate
    (["cat.txt", "--unknown", "replace"], "replace"),
    (["cat.txt", "--encoding", "utf-9"], "encoding"),
    (["cat.txt", "--encoding", "undefined"], "encoding"),
])  # fmt: skip
def test_texts_that_cannot_be_evaluated_are_refused(refused, run, files, words, message):
    Path("zebra.txt").write_text("The Zebra sat")
    Path("strange.txt").write_text("ЖЖЖ")
    Path("one.txt").write_text("T")
    refused(["eval", run, *words], message)


def cut(path):
    path.write_bytes(path.read_bytes()[:-9])


def changed(**facts):
    def change(run):
        config = json.loads((run / "config.json").read_text())
        (run / "config.json").write_text(json.dumps(config | facts))

    return change


@pytest.mark.parametrize("command", ["sample", "eval", "show", "resume"])
@pytest.mark.parametrize(("spoil", "message"), [
    (lambda run: (run / "config.json").write_text("{"), "config.json is damaged: it is not JSON"),
    (lambda run: (run / "config.json").write_text("[]"), "config.json: expected a run of format 2"),
    (lambda run: (run / "config.json").write_bytes(b"\xff"), "config.json is damaged"),
    (lambda run: (run / "config.json").unlink(), "not a run: it has no config.json"),
    (changed(format=1), "expected a run of format 2, got 1"),
    (changed(task="poetry"), "expected a .*, got 'poetry'"),
    (changed(config={}), "config"),
    (changed(config={"data": 3}), "config"),
    (lambda run: (run / "vocabulary.json").unlink(), "vocabulary.json cannot be read"),
    (lambda run: (run / "vocabulary.json").write_text("3"), "vocabulary"),
])  # fmt: skip
def test_a_damaged_run_is_refused(refused, run, text, command, spoil, message):
    spoil(run)
    words = {"sample": ["sample", run], "eval": ["eval", run, text], "show": ["show", run]}
    refused(words.get(command, ["train", "--resume", run]), message)


@pytest.mark.parametrize(("spoil", "message"), [
    (lambda run: cut(run / "model.safetensors"), "model.safetensors is damaged"),
    (lambda run: (run / "model.safetensors").write_bytes(b""), "model.safetensors is damaged"),
    (lambda run: (run / "model.safetensors").unlink(), "run has no model yet.*elman train --resume run"),
])  # fmt: skip
def test_a_damaged_model_is_refused(refused, run, text, spoil, message):
    spoil(run)
    refused(["sample", run], message)
    refused(["eval", run, text], message)


@pytest.mark.parametrize("words", [["sample"], ["eval", "?", "cat.txt"], ["show"], ["train", "--resume"]])
@pytest.mark.parametrize(("place", "message"), [
    ("missing", "There is no run at missing. Create one with elman train"),
    ("cat.txt", "cat.txt is not a run"),
    ("folder", "folder is not a run"),
    ("x" * 300, "There is no run at|too long"),
])  # fmt: skip
def test_a_path_without_a_run_is_refused(refused, files, words, place, message):
    words = [place if word == "?" else word for word in words]
    refused(words if place in words else [*words, place], message)


@pytest.mark.parametrize(("words", "message"), [
    (["path"], "elman data path: expected a name, got none. elman data list shows all names"),
    (["fetch"], "elman data fetch: expected a name"),
    (["path", "prid-and-prejudice"], r"Did you mean pride-and-prejudice\?"),
    (["fetch", "prid-and-prejudice"], r"Did you mean pride-and-prejudice\?"),
    (["fetch", "pride-and-prejudice"], "could not be fetched: no connection"),
    (["delete"], "^elman: ACTION: expected one of list, path, fetch, got 'delete'"),
])  # fmt: skip
def test_unknown_corpora_are_refused(refused, words, message):
    refused(["data", *words], message)


def test_a_run_whose_text_changed_is_not_resumed(refused, elman, text):
    assert elman("train", text, "--steps", 1, "--hidden", 8, "--window", 16, "--out", "r").status == 0
    text.write_text(TEXT + "more")
    refused(["train", "--resume", "r", "--steps", 5], "has changed since the run began")
    text.unlink()
    refused(["train", "--resume", "r", "--steps", 5], "there is no file")


EACH = """
import json, sys
from elman.cli import main

for words in json.loads(sys.argv[1]):
    try:
        main(words)
    except SystemExit as leave:
        print(leave.code, end="\\0", file=sys.stderr)
"""


@pytest.mark.parametrize("columns", ["20", "200"])
@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_errors_about_flags_do_not_depend_on_the_terminal(columns, encoding):
    long = "abcdefghij-" * 30
    environ = os.environ | {"COLUMNS": columns, "PYTHONIOENCODING": encoding, "FORCE_COLOR": "1"}
    lines = {
        "eval": "RUN is missing",
        "import": "FILE and --out are missing",
        "train --steps=many": "--steps: expected a whole number, got 'many'",
        "train --hiden=3": "elman train has no flag --hiden. Did you mean --hidden?",
        f"train --steps={long}": f"--steps: expected a whole number, got '{long[:190]}",
        f"train --{long}": f"elman train has no flag --{long}. See elman train --help.",
        "train --lr 'a  b'": "--lr: expected a number, got 'a  b'",
    }
    words = [sys.executable, "-c", EACH, json.dumps([shlex.split(line) for line in lines])]
    done = subprocess.run(words, env=environ, check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout == ""
    *plain, end = re.sub(r"\x1b\[[\d;]*m", "", done.stderr).split("\0")
    assert end == ""
    for said, says in zip(plain, lines.values(), strict=True):
        assert (said.startswith(f"elman: {says}"), said.rpartition("\n")[2]) == (True, "2"), said


def test_too_little_memory_gives_no_traceback(refused, text, monkeypatch):
    def too_much(*_, **__):
        raise MemoryError("Unable to allocate 4 TiB")

    monkeypatch.setattr("elman.models.runs.text_setup", too_much)
    advice = "Use a smaller model or a shorter text; for elman train a smaller --hidden, --batch-size or --window"
    refused(["train", text], f"not enough memory: Unable to allocate 4 TiB. {advice}")
    assert reason(MemoryError()) == f"not enough memory. {advice}."


def test_a_system_error_gives_no_traceback(refused, text, monkeypatch):
    def broken(*_, **__):
        raise OSError(5, "Input/output error", "disk")

    monkeypatch.setattr("elman.models.runs.text_setup", broken)
    refused(["train", text], "^elman: disk: Input/output error")
