"""elman train: folders, presets, flags, sources, what it prints; the run is then used by the command it names."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from cli_text import TEXT

from elman import LanguageModel
from elman.config import SIZES

QUICK = ("--steps", 2, "--hidden", 8, "--batch-size", 4, "--window", 16)


def config(folder):
    return json.loads((Path(folder) / "config.json").read_text())["config"]


def options(folder):
    return config(folder)


def test_it_trains_and_the_last_line_is_the_next_command(elman, text):
    status, out, err = elman("train", text, *QUICK)
    assert (status, err) == (0, "")
    assert "cat: 2,080 characters" in out
    assert "1 layer of 8 tanh units" in out
    program, *words = shlex.split(out.splitlines()[-1])
    assert (program, words) == ("elman", ["sample", "runs/cat"])
    assert sorted(path.name for path in Path("runs/cat").iterdir()) == [
        "checkpoints", "config.json", "metrics.jsonl", "model.safetensors", "vocabulary.json",
    ]  # fmt: skip
    status, written, err = elman(*words, "--length", 30)
    assert (status, err) == (0, "")
    assert len(written) == 31


def test_a_folder_with_a_space_is_quoted_in_the_next_command(elman, text):
    *_, last = elman("train", text, *QUICK, "--out", "my runs/the cat's").out.splitlines()
    assert shlex.split(last) == ["elman", "sample", "my runs/the cat's"]
    assert elman(*shlex.split(last)[1:], "--length", 3).status == 0


def test_folders_are_numbered_when_none_is_named(elman, text):
    for folder in ("runs/cat", "runs/cat-2", "runs/cat-3"):
        assert elman("train", text, *QUICK).out.splitlines()[-1] == f"elman sample {folder}"
    assert sorted(path.name for path in Path("runs").iterdir()) == ["cat", "cat-2", "cat-3"]


def test_an_existing_folder_is_refused_without_force(elman, text):
    assert elman("train", text, *QUICK, "--out", "mine").status == 0
    before = {path: path.read_bytes() for path in Path("mine").rglob("*") if path.is_file()}
    status, out, err = elman("train", text, *QUICK, "--out", "mine", "--seed", 1)
    assert (status, out) == (2, "")
    assert re.fullmatch(r"elman: mine exists already\. Choose another folder.* --force .*\n", err)
    assert {path: path.read_bytes() for path in Path("mine").rglob("*") if path.is_file()} == before
    assert elman("train", text, *QUICK, "--out", "mine", "--seed", 1, "--force").status == 0
    assert options("mine")["seed"] == 1


def test_force_replaces_runs_and_nothing_else(elman, text):
    Path("photos").mkdir()
    Path("photos/1.jpg").write_bytes(b"dear to somebody")
    assert elman("train", text, *QUICK, "--out", "photos", "--force").status == 2
    assert elman("train", text, *QUICK, "--out", ".", "--force").status == 2
    assert elman("train", text, *QUICK, "--out", "cat.txt", "--force").status == 2
    assert Path("photos/1.jpg").read_bytes() == b"dear to somebody"
    assert text.read_text() == TEXT


def test_an_empty_folder_may_be_used(elman, text):
    Path("empty").mkdir()
    assert elman("train", text, *QUICK, "--out", "empty").status == 0


@pytest.mark.parametrize("words", [["--lr", "0.5"], ["--lr=0.5"], ["--learning-rate", "0.5"], ["--learning_rate=0.5"]])
def test_lr_is_the_learning_rate(elman, text, words):
    assert elman("train", text, *QUICK, *words, "--out", "r").status == 0
    assert options("r")["learning_rate"] == 0.5


def test_flags_override_a_preset(elman, text):
    assert elman("train", text, "--preset", "best", "--steps", 1, "--hidden", 8, "--out", "r").status == 0
    got = options("r")
    assert (got["hidden"], got["steps"], got["epochs"], got["seconds"]) == (8, 1, None, None)  # only one budget


@pytest.mark.parametrize("words", [
    ["--preset=fast", "--epochs", "0.1"],
    ["--epochs=0.1", "--preset", "fast"],
    ["--preset", "best", "--preset", "fast", "--epochs", "0.1"],
])  # fmt: skip
def test_a_preset_is_given_in_any_form_and_the_last_one_counts(elman, text, words):
    assert elman("train", text, *words, "--out", "r").status == 0
    got = options("r")
    assert (got["epochs"], got["dropout"]) == (0.1, 0.0)  # so few passes need none
    assert got["hidden"] in SIZES  # for the time of the preset


@pytest.mark.parametrize("words", [[], ["--cell", "gru"], ["--sequences", "lines"], ["--preset", "textbook"]])
def test_the_same_options_give_the_same_config_in_python(elman, text, words):
    assert elman("train", text, *words, "--steps", 1, "--out", "flags").status == 0
    names = dict(zip([word.removeprefix("--") for word in words[::2]], words[1::2], strict=True))
    LanguageModel(**names, steps=1).fit(text, out="arguments", listeners=[])
    assert options("flags") == options("arguments")


def test_a_time_limit_that_ends_earlier_is_named_also_when_the_run_is_resumed(elman, text):
    said = "passes over a text of this length are enough"
    assert said in elman("train", text, "--hidden", 8, "--seconds", 600, "--patience", 0, "--out", "r").out
    steps = config("r")["steps"]
    again = elman("train", "--resume", "r", "--seconds", 600)
    assert (again.status, config("r")["steps"]) == (0, steps), "more passes are not useful"
    assert said in again.out


def test_a_smaller_batch_for_a_short_text_is_printed(elman, text):
    out = elman("train", text, "--steps", 1, "--hidden", 8, "--window", 400, "--out", "r").out
    assert "The text is short: batch size 4 instead of 16." in out


def test_the_sizes_of_the_parts_are_printed(elman, text):
    out = elman("train", text, *QUICK, "--validation-fraction", 0.25, "--test-fraction", 0.25, "--out", "r").out
    assert "1,040 to train on, 520 to validate, 520 to test" in out


def test_a_dash_is_standard_input_and_such_a_run_can_be_resumed(elman):
    status, out, _ = elman("train", "-", *QUICK, stdin=TEXT.encode())
    assert status == 0
    assert out.splitlines()[-1] == "elman sample runs/stdin"
    assert "Continuing from step 2" in elman("train", "--resume", "runs/stdin", "--steps", 4).out
    assert "occur in the training text" in elman("sample", "runs/stdin", "--length", 52, "--copies").out
    status, out, _ = elman("eval", "runs/stdin", "-", "--json", stdin=b"the cat")
    assert json.loads(out)["tokens"] == 6


def test_without_source_network_and_copy_it_trains_on_python_docs_and_says_so(elman):
    status, out, err = elman("train", *QUICK, "--validation-fraction", 0)
    assert status == 0
    first, *rest = out.splitlines()
    assert re.fullmatch(r"pride-and-prejudice could not be fetched: .*python-docs.*", first)
    assert "no connection to raw.githubusercontent.com" in first
    assert rest[0].startswith("python-docs: ")
    assert rest[-1] == "elman sample runs/python-docs"
    assert err == ""


def test_without_source_a_copy_in_elman_data_is_used(elman, text, monkeypatch):
    Path("data").mkdir()
    text.rename("data/pride-and-prejudice.txt")
    monkeypatch.setenv("ELMAN_DATA", "data")
    out = elman("train", *QUICK).out
    assert out.startswith("pride-and-prejudice: 2,080 characters")
    assert elman("data", "path", "pride-and-prejudice").out == "data/pride-and-prejudice.txt\n"


def test_a_file_here_comes_before_elman_data_and_that_before_the_name(elman, monkeypatch):
    Path("data").mkdir()
    monkeypatch.setenv("ELMAN_DATA", "data")
    Path("data/novel.txt").write_text("in the folder " * 40)
    Path("data/python-docs").write_text("by its bare name " * 40)
    assert "novel: 560 characters" in elman("train", "novel", *QUICK, "--out", "1").out
    assert "python-docs: 680 characters" in elman("train", "python-docs", *QUICK, "--out", "2").out
    Path("novel.txt").write_text("right here " * 40)
    assert "novel: 440 characters" in elman("train", "novel.txt", *QUICK, "--out", "3").out


@pytest.mark.parametrize(("tokens", "said"), [("byte", "bytes, 256 different"), ("word", "words")])
def test_other_tokens(elman, text, tokens, said):
    out = elman("train", text, *QUICK, "--tokens", tokens, "--out", "r").out
    assert said in out
    assert elman("sample", "r", "--length", 10).status == 0


def test_samples_are_printed_during_training(elman, text):
    out = elman("train", text, *QUICK, "--sample-every", 1, "--out", "r").out
    rows = [json.loads(line) for line in (Path("r") / "metrics.jsonl").read_text().splitlines()]
    assert len([row for row in rows if row.get("sample")]) == 2
    for row in rows:
        assert row["sample"].strip() in out


def test_markup_in_a_sample_or_a_name_is_printed_as_text(elman, monkeypatch):
    monkeypatch.setattr("elman.models.sampling.TextSampler.write", lambda *_, **__: "[/red] [bold]x")
    Path("[bold]x.txt").write_text("[/red] [bold]" * 60)
    status, out, err = elman("train", "[bold]x.txt", *QUICK, "--sample-every", 1, "--out", "[red]run")
    assert (status, err) == (0, "")
    assert "[/red] [bold]x" in out
    assert out.splitlines()[-1] == "elman sample '[red]run'"
    assert "elman: [red]run exists already" in elman("train", "[bold]x.txt", *QUICK, "--out", "[red]run").err


def test_tensorboard_files_are_written_into_the_run(elman, text):
    pytest.importorskip("tensorboardX")
    assert elman("train", text, *QUICK, "--tensorboard", "--out", "r").status == 0
    assert list(Path("r/tensorboard").glob("events.out.tfevents.*"))


def test_resume_continues_with_a_larger_budget(elman, run):
    status, out, _ = elman("train", "--resume", run, "--steps", 50)
    assert status == 0
    assert "Continuing from step 40" in out
    assert "after 50 steps" in out
    assert out.splitlines()[-1] == "elman sample run"


@pytest.mark.parametrize(("words", "says"), [
    (["--steps", "7"], "it has already taken 40 steps, more than 7 steps. A larger --steps or --epochs, or"),
    (["--epochs", "0.1"], "it has already taken 40 steps, more than 0.1 epochs ("),
    (["--steps", "40"], "all 40 steps are taken. A larger --steps or --epochs, or --seconds for more"),
])  # fmt: skip
def test_a_budget_that_is_already_spent_is_reported_and_changes_nothing(elman, run, words, says):
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    status, out, _ = elman("train", "--resume", run, *words)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    assert status == 0
    assert f"Nothing is left to do: {says}" in out


def test_a_run_ended_by_patience_says_so_and_continues_with_a_larger_budget(elman, text):
    quick = ("--hidden", 8, "--batch-size", 2, "--window", 16, "--validate-every", 1, "--patience", 1, "--lr", 5)
    assert "validation has not improved since step" in elman("train", text, *quick, "--steps", 200, "--out", "r").out
    ended = (kept := Path("r/config.json")).read_bytes()
    out = elman("train", "--resume", "r", "--steps", 200).out
    more = "A larger --steps or --epochs, or --seconds for more time, continues the run."
    assert f"Nothing is left to do: validation stopped improving (--patience). {more}" in out
    assert re.search(r"Stopped at step \d+ after \d+ s: validation has not improved since step \d+, where it was ", out)
    assert kept.read_bytes() == ended
    assert "Continuing from step" in elman("train", "--resume", "r", "--steps", 201).out
    assert kept.read_bytes() != ended


@pytest.mark.parametrize("words", [
    ["--hidden", "9"], ["--lr", "1"], ["other.txt"], ["--out", "x"], ["--force"], ["--preset", "best"],
    ["--tokens", "byte"], ["--drop-unused"],
])  # fmt: skip
def test_resume_changes_nothing_but_the_budget(elman, run, words):
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    status, out, err = elman("train", "--resume", run, *words)
    assert (status, out) == (2, "")
    assert "only --epochs, --steps or --seconds may change" in err
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
