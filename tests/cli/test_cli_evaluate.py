"""elman eval on held-out data and on files, elman surprise, elman runs; CSV files and numbers from the shell."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import numpy as np
import pytest

from elman.models import LanguageModel, SequenceClassifier
from elman.models.loading import load_model, load_predictor

LOG = "".join(f"INFO request {i} served in {i % 9} ms\n" for i in range(200))
SMALL = ("--hidden", 16, "--steps", 20, "--learning-rate", 0.02)


@pytest.fixture
def reviews():
    draw = random.Random(1)
    rows = ["id,review,sentiment"]
    for i in range(120):
        good = draw.random() < 0.5
        words = ("good", "great", "fine") if good else ("bad", "awful", "dull")
        rows.append(f'{i},"a film, {draw.choice(words)}",{"positive" if good else "negative"}')
    Path("reviews.csv").write_text("\n".join(rows) + "\n")
    return Path("reviews.csv")


def facts(elman, *words):
    status, out, err = elman(*words, "--json")
    assert status == 0, err
    return json.loads(out)


# -- the held-out part ------------------------------------------------------------------------------------------------


def test_without_a_file_the_validation_part_of_a_text_is_evaluated(elman, text):
    elman("train", text, *SMALL, "--window", 16, "--batch-size", 4, "--validation-fraction", 0.2, "--out", "r")
    found = facts(elman, "eval", "r")
    whole = text.read_text()
    model = LanguageModel.load("r")
    held_out = whole[-round(0.2 * len(whole)) :]
    assert found["part"] == "validation"
    assert found["nats_per_token"] == pytest.approx(model.evaluate(held_out).nats_per_token, rel=1e-6)
    assert "--test-fraction" in elman("eval", "r").out


def test_the_test_part_is_evaluated_where_there_is_one(elman, text):
    elman("train", text, *SMALL, "--window", 16, "--batch-size", 4, "--test-fraction", 0.25, "--out", "r")
    found = facts(elman, "eval", "r")
    whole = text.read_text()
    last = LanguageModel.load("r").evaluate(whole[-round(0.25 * len(whole)) :])
    assert (found["part"], found["tokens"]) == ("test", last.tokens)
    assert found["nats_per_token"] == pytest.approx(last.nats_per_token, rel=1e-6)
    assert "training never read" in elman("eval", "r").out


@pytest.mark.parametrize("task", ["classify", "regress", "tag", "translate", "generate"])
def test_examples_have_a_test_part_that_training_never_reads(elman, task):
    draw = random.Random(3)
    words = sorted({"".join(draw.choices("abcd", k=6)) for _ in range(60)})
    rows = {
        "classify": [f"{w}\t{'xy'[w[0] > 'b']}" for w in words],
        "regress": [f"{w}\t{ord(w[0]) - 96}.5" for w in words],
        "tag": ["\n".join(f"{c}\t{'VC'[c in 'ad']}" for c in w) + "\n" for w in words],
        "translate": [f"{w}\t{w[::-1]}" for w in words],
        "generate": [f"{w}\t{'xy'[w[0] > 'b']}" for w in words],
    }
    Path("data.tsv").write_text("\n".join(rows[task]) + "\n")
    flags = ["--task", task, "--test-fraction", 0.2, "--validation-fraction", 0.1, "--batch-size", 8]
    assert elman("train", "data.tsv", *flags, *SMALL, "--out", "r").status == 0
    found = facts(elman, "eval", "r")
    tags = 6 if task == "tag" else 1  # in each example
    assert (found["part"], found["examples"]) == ("test", round(0.2 * len(words)) * tags)
    whole = facts(elman, "eval", "r", "data.tsv")
    assert whole["examples"] == len(words) * tags
    assert whole["trained_on"] is True
    assert "part" not in whole


def test_figures_of_the_held_out_part_are_those_of_its_examples(elman):
    """The figures of a held-out part equal those of its examples in a file."""
    Path("data.tsv").write_text("".join(f"{'ab'[i % 2]}{i % 5}\t{'xyz'[i % 3]}\n" for i in range(60)))
    elman("train", "data.tsv", "--task", "classify", *SMALL, "--test-fraction", 0.5, "--out", "r")
    from elman.models import runs
    from elman.training.run import Run

    setup = runs.open_setup(Run(Path("r")))
    assert sorted(np.concatenate([setup.split.train, setup.split.validation, setup.split.test])) == list(range(60))
    lines = [line.split("\t") for line in Path("data.tsv").read_text().splitlines()]
    X, y = ([lines[i][side] for i in setup.split.test] for side in (0, 1))
    assert facts(elman, "eval", "r")["accuracy"] == pytest.approx(load_model("r").score(X, y))


def test_a_run_that_held_nothing_out_says_what_to_do(elman, text):
    elman("train", text, *SMALL, "--window", 16, "--batch-size", 4, "--validation-fraction", 0, "--out", "r")
    status, _, err = elman("eval", "r")
    assert (status, "has no held-out part" in err, "--test-fraction" in err) == (2, True, True)


def test_a_file_that_the_model_was_trained_on_is_noticed(elman, run, text):
    trained = elman("eval", run, Path(run).parent / text).out
    assert "the model was trained on this file" in trained
    Path("other.txt").write_text("The dog sat on the mat.\n" * 5)
    assert "was trained on" not in elman("eval", run, "other.txt").out


@pytest.mark.parametrize("task", ["lm", "classify"])
def test_a_model_without_its_data_is_evaluated_on_a_file(elman, run, task):
    if task == "lm":
        elman("export", run, "--to", "torch", "--out", "x.safetensors")
    else:
        Path("labels.tsv").write_text("good\tpos\nbad\tneg\n" * 20)
        elman("train", "labels.tsv", *SMALL, "--out", "r")
        elman("export", "r", "--to", "torch", "--out", "x.safetensors")
    status, out, _ = elman("import", "x.safetensors", "--out", "again")
    assert (status, out.splitlines()[-1]) == (0, f"elman {'sample' if task == 'lm' else 'predict'} again")
    status, out, err = elman("eval", "again")
    assert (status, out) == (2, "")
    assert "again has no held-out data: it was imported, or saved without its data. " in err
    assert "Give a file: elman eval again FILE." in err


# -- tables -----------------------------------------------------------------------------------------------------------


def test_a_csv_file_is_classified_and_evaluated(elman, reviews):
    columns = ("--text-column", "review", "--label-column", "sentiment")
    status, out, err = elman("train", reviews, *columns, "--test-fraction", 0.25, *SMALL, "--out", "r")
    assert status == 0, err
    assert "120 examples to classify, 78 to train on, 12 to validate, 30 to test; 2 labels" in out
    assert load_predictor("r").classes_.tolist() == ["negative", "positive"]
    assert facts(elman, "eval", "r")["examples"] == 30
    assert facts(elman, "eval", "r", reviews, *columns)["examples"] == 120
    assert "expected a run that reads examples, and SOURCE, got no SOURCE" in elman("eval", "r", *columns).err


def test_column_flags_need_a_table_of_examples(elman, text, run):
    for words in (
        ["train", text, "--text-column", "x"],
        ["eval", run, text, "--label-column", "x"],
        ["surprise", run, text, "--label-column", "x"],
    ):
        status, _, err = elman(*words)
        assert status == 2
        assert "column" in err


def test_a_model_of_numbers_reads_no_table(elman):
    rows = np.random.default_rng(0).normal(size=(8, 3))
    SequenceClassifier(hidden=4, epochs=1).fit(rows, ["a", "b"] * 4).save("numbers")
    Path("new.csv").write_text("text,label\n1,a\n")
    status, out, err = elman("predict", "numbers", "new.csv", "--text-column", "text")
    assert (status, out) == (2, "")
    assert err == "elman: --text-column: expected a model of texts, got numbers, which reads numbers. Leave it out.\n"


def test_a_regressor_is_trained_from_a_file(elman):
    Path("lengths.tsv").write_text("".join(f"{'x' * n}\t{n * 1.5}\n" for n in [1, 2, 3, 4, 5, 6] * 20))
    words = ("--task", "regress", "--hidden", 16, "--epochs", 30, "--learning-rate", 0.01, "--out", "r")
    assert elman("train", "lengths.tsv", *words).status == 0
    assert facts(elman, "eval", "r")["r2"] > 0.9
    assert "mean absolute error" in elman("eval", "r").out


# -- surprise ---------------------------------------------------------------------------------------------------------


def test_the_most_surprising_line_comes_first(elman):
    Path("app.log").write_text(LOG)
    small = ("--hidden", 32, "--steps", 60, "--batch-size", 8, "--window", 32, "--learning-rate", 0.02)
    assert elman("train", "app.log", "--tokens", "byte", *small, "--out", "r").status == 0
    lines = LOG.splitlines()
    lines.insert(120, "PANIC zzz qqq !!")
    Path("new.log").write_text("\n".join(lines) + "\n")
    out = elman("surprise", "r", "new.log", "--top", 3).out
    nats, number, line = out.splitlines()[0].split("\t")
    assert (number, line, len(out.splitlines())) == ("121", "PANIC zzz qqq !!", 3)
    ordered = [line.split("\t")[1] for line in elman("surprise", "r", "new.log", "--in-order").out.splitlines()]
    assert ordered == [str(i + 1) for i in range(201)]
    model, text = LanguageModel.load("r"), "\n".join(lines) + "\n"
    at = text.index("PANIC")
    each = model.surprise(text)[at : at + len("PANIC zzz qqq !!\n")]
    assert float(nats) == pytest.approx(each.mean(), abs=1e-3)


def test_a_text_that_has_a_name_is_found_as_elman_eval_finds_it(elman, run):
    for command in ("eval", "surprise"):
        assert elman(command, run, "python-docs", "--unknown", "skip").status == 0
    known = Path(elman("data", "path", "python-docs").out.strip()).read_text().splitlines()
    number, line = elman("surprise", run, "python-docs", "--in-order").out.splitlines()[1].split("\t")[1:]
    assert (number, line) == ("2", known[1])


def test_tokens_have_their_own_surprise(elman, run, text):
    rows = [json.loads(line) for line in elman("surprise", run, text, "--by", "token", "--json").out.splitlines()]
    whole = LanguageModel.load(run).surprise(text.read_text())
    assert rows[0]["nats"] is None  # nothing predicts the first token
    np.testing.assert_allclose([row["nats"] for row in rows[1:]], whole[1:])
    assert [row["text"] for row in rows[:4]] == list("The ")


def test_lines_with_unknown_characters_come_first(elman, run):
    lines = ["The cat sat.", "The dog€ sat.", "xqx zzz", "The dog sat.", "The → €at."]
    Path("new.txt").write_text("\n".join(lines), encoding="utf-8")
    status, out, err = elman("surprise", run, "new.txt", "--top", 3)
    found = [line.split("\t") for line in out.splitlines()]
    assert (status, [row[:2] for row in found]) == (0, [["inf", "3"], ["inf", "5"], ["inf", "2"]])  # 3, 2 and 1 unknown
    assert "Note: 3 of 5 lines have characters outside the vocabulary: 'q', 'x', 'z', '€', '→'. " in err
    assert "--unknown skip leaves them out" in err
    rows = [json.loads(line) for line in elman("surprise", run, "new.txt", "--in-order", "--json").out.splitlines()]
    assert [(row["nats"] is None, row.get("unknown")) for row in rows] == [
        (False, None), (True, "€"), (True, "xqz"), (False, None), (True, "→€"),
    ]  # fmt: skip
    tokens = [json.loads(line) for line in elman("surprise", run, "new.txt", "--by=token", "--json").out.splitlines()]
    assert [row["text"] for row in tokens if "unknown" in row] == list("€xqxzzz→€")


def test_unknown_characters_can_be_left_out(elman, run):
    Path("new.txt").write_text("The cat sat.\nThe dog€ sat.\n", encoding="utf-8")
    Path("known.txt").write_text("The cat sat.\nThe dog sat.\n")
    words = ("--in-order", "--unknown", "skip", "--json")
    rows, others = ([json.loads(line) for line in elman("surprise", run, name, *words).out.splitlines()]
                    for name in ("new.txt", "known.txt"))  # fmt: skip
    assert [row["nats"] for row in rows] == [row["nats"] for row in others]
    assert elman("surprise", run, "new.txt", *words).err == ""


def test_a_newline_that_the_model_never_read_is_not_surprising(elman):
    LanguageModel(hidden=4, steps=1, window=8, batch_size=2).fit("ab" * 200, listeners=[]).save("r")
    Path("new.txt").write_text("ab\nba\n")
    status, out, err = elman("surprise", "r", "new.txt")
    assert (status, err, "inf" in out, len(out.splitlines())) == (0, "", False, 2)


@pytest.mark.parametrize("by", ["line", "token"])
def test_an_empty_file_has_no_surprise(elman, run, by):
    Path("empty.txt").touch()
    status, out, err = elman("surprise", run, "empty.txt", "--by", by)
    assert (status, out, err) == (2, "", "elman: empty.txt has no text. It is empty.\n")


def test_a_wrong_label_is_surprising(elman):
    rows = [("good great", "pos"), ("bad awful", "neg")] * 40
    Path("labels.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in rows))
    elman("train", "labels.tsv", "--task", "classify", "--epochs", 10, "--hidden", 16, "--out", "r")
    Path("some.tsv").write_text("good great\tpos\ngood great\tneg\nbad awful\tneg\n")
    first = elman("surprise", "r", "some.tsv").out.splitlines()[0].split("\t")
    assert first[1:] == ["2", "good great", "neg"]
    status, _, err = elman("surprise", "r", "some.tsv", "--top", 0)
    assert (status, "--top: expected 1 or more" in err) == (2, True)
    status, _, err = elman("surprise", "r", "some.tsv", "--unknown", "skip")
    assert (status, "--unknown: expected a language model, got a run with --task classify" in err) == (2, True)
    status, _, err = elman("surprise", "r", "some.tsv", "--by", "token")
    assert (status, "--by token: expected a run with --task lm or tag, got --task classify" in err) == (2, True)


# -- runs -------------------------------------------------------------------------------------------------------------


def test_runs_are_listed_the_best_first_with_the_options_in_which_they_differ(elman, text):
    for name, steps in (("short", 1), ("long", 30)):
        small = ("--hidden", 8, "--batch-size", 4, "--window", 16, "--learning-rate", 0.02)
        assert elman("train", text, *small, "--steps", steps, "--out", f"runs/{name}").status == 0
    out = elman("runs").out.splitlines()
    assert re.split(r"\s{2,}", out[0]) == ["run", "task", "data", "loss", "accuracy", "steps", "network"]
    assert [line.split()[0] for line in out[1:3]] == ["runs/long", "runs/short"]
    assert "steps: long 30, short 1" in out
    assert not any(line.startswith("hidden:") for line in out)
    found = json.loads(elman("runs", "runs/short", "--json").out)
    assert [(row["run"], row["task"], row["step"]) for row in found] == [("runs/short", "lm", 1)]


def test_a_folder_without_runs_is_refused(elman):
    assert elman("runs").status == 2
    Path("runs").mkdir()
    status, _, err = elman("runs")
    assert (status, "has no runs" in err) == (2, True)


# -- samples ----------------------------------------------------------------------------------------------------------


def test_an_escaped_newline_stops_a_sample(elman, run):
    out = elman("sample", run, "--stop", r"\n", "--length", 300).out
    assert out.count("\n") == 1
    assert elman("sample", run, "--stop", "\n", "--length", 300).out == out


def test_skipped_characters_are_not_shown(elman, run):
    out = elman("sample", run, "--prompt", "The Z cat", "--unknown", "skip", "--length", 0).out
    assert out == "The  cat\n"


def test_a_generator_draws_several_samples_for_each_label(elman):
    Path("names.tsv").write_text("".join(f"{name}\t{label}\n" for name, label in [("anna", "x"), ("otto", "y")] * 20))
    elman("train", "names.tsv", "--task", "generate", *SMALL, "--out", "r")
    Path("labels.txt").write_text("x\ny\n")
    out = elman("predict", "r", "labels.txt", "--count", 3, "--temperature", 1.5).out.splitlines()
    assert len(out) == 6
    assert len(set(out)) > 2
    assert "--count" in elman("predict", "r", "labels.txt", "--count", 0).err
