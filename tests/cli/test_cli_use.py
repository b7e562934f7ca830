"""elman sample, eval, show and data with valid input."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
from cli_text import TEXT

from elman.models import LanguageModel

# -- sample -----------------------------------------------------------------------------------------------------------


def test_sample_prints_what_the_model_samples(elman, run):
    status, out, err = elman("sample", run, "--prompt", "The ", "--length", 40, "--seed", 3)
    assert (status, err) == (0, "")
    assert out == LanguageModel.load(run).sample(40, prompt="The ", seed=3) + "\n"
    assert out == elman("sample", run, "--prompt", "The ", "--length", 40, "--seed", 3).out
    assert out != elman("sample", run, "--prompt", "The ", "--length", 40, "--seed", 4).out


@pytest.mark.parametrize(("words", "how"), [
    (["--temperature", "0"], {"temperature": 0}),
    (["--temperature", "1.5", "--top-k", "3"], {"temperature": 1.5, "top_k": 3}),
    (["--top-p", "0.4"], {"top_p": 0.4}),
    (["--top_p=0.4", "--top_k=2"], {"top_p": 0.4, "top_k": 2}),
])  # fmt: skip
def test_the_flags_reach_the_sampler(elman, run, words, how):
    wanted = "".join(LanguageModel.load(run).stream(60, prompt="The", **how))
    assert elman("sample", run, "--prompt", "The", "--length", 60, *words).out == f"The{wanted}\n"


def test_several_samples_equal_those_drawn_one_by_one(elman, run):
    model = LanguageModel.load(run)
    out = elman("sample", run, "--count", 3, "--length", 30).out
    parts = re.split(r"─+ \d of 3 ─+\n", out)
    assert parts == ["", *(model.sample(30, index=i) + "\n" for i in range(3))]


def test_a_beam_search_is_that_of_the_model(elman, run):
    out = elman("sample", run, "--beam", 4, "--length", 20, "--prompt", "The").out
    assert out == LanguageModel.load(run).sample(20, prompt="The", beam=4) + "\n"


def test_a_sample_ends_before_the_stop_text(elman, run):
    out = elman("sample", run, "--stop", "t", "--length", 200, "--prompt", "The ").out
    assert "t" not in out
    assert out.startswith("The ")


@pytest.mark.parametrize("prompt", ["-T", "--T", "--lr", "T=_=", "- T e", "--help me", ""])
def test_a_prompt_may_be_any_text(elman, run, prompt):
    for words in (["--prompt", prompt], [f"--prompt={prompt}"]):
        status, out, err = elman("sample", run, *words, "--length", 0, "--unknown", "skip")
        known = "".join(character for character in prompt if character in TEXT)
        assert (status, out, err) == (0, f"{known}\n", "")


def test_length_0_generates_nothing(elman, run):
    assert elman("sample", run, "--length", 0).out == "\n"


@pytest.mark.parametrize("flags", [[], ["--count", 2], ["--beam", 2]])
def test_copies_are_counted_in_the_text_after_the_prompt(elman, run, flags):
    begin = ("sample", run, "--prompt", TEXT[:100], *flags, "--copies", "--length")
    out = elman(*begin, 0).out
    assert out.splitlines()[-1].startswith("Copied: too short to say")
    model, options = LanguageModel.load(run), {"beam": 2} if "--beam" in flags else {"temperature": 0.8}
    sample = model.sample(100, prompt=TEXT[:100], **options).removeprefix(TEXT[:100])
    assert f"Copied: {model.copies(sample)}\n" in elman(*begin, 100).out


def test_unknown_words_of_a_prompt_may_be_replaced(elman, text):
    assert elman("train", text, "--tokens", "word", "--steps", 1, "--hidden", 8, "--out", "w").status == 0
    prompt = ("sample", "w", "--length", 3, "--prompt", "The zebra")
    status, _, err = elman(*prompt)
    assert status == 2
    offered = re.findall(r"--unknown (\w+)", err)
    assert offered == ["replace", "skip"]
    assert elman(*prompt, "--unknown", "replace").out.startswith("The zebra")
    assert elman(*prompt, "--unknown", "skip").out.startswith("The ")


# -- eval -------------------------------------------------------------------------------------------------------------


def test_figures_as_json_have_these_keys_and_no_other(elman, run, text):
    status, out, err = elman("eval", run, text, "--json")
    assert (status, err) == (0, "")
    figures = json.loads(out)
    assert list(figures) == [
        "nats_per_token",
        "bits_per_token",
        "bits_per_character",
        "perplexity",
        "tokens",
        "trained_on",
    ]
    assert figures.pop("trained_on")
    assert figures == LanguageModel.load(run).evaluate(TEXT)._asdict()
    assert figures["tokens"] == len(TEXT) - 1


def test_figures_are_printed(elman, run, text):
    nats = LanguageModel.load(run).evaluate(TEXT).nats_per_token
    out = elman("eval", run, text).out
    assert f"{nats:.4f} nats per token, perplexity {math.exp(nats):.3f}" in out
    assert f"{nats / math.log(2):.4f} bits per token" in out
    assert f"{len(TEXT) - 1:,} tokens predicted" in out


def test_infinite_figures_are_null_in_json(elman, run, text, monkeypatch):
    monkeypatch.setattr("elman.models.evaluation.mean_loss", lambda *_: 1e6)
    out = elman("eval", run, text, "--json").out
    assert json.loads(out, parse_constant=pytest.fail)["perplexity"] is None


def test_unknown_characters_may_be_skipped_with_a_note(elman, run):
    Path("other.txt").write_text("The cät")
    status, out, _ = elman("eval", run, "other.txt", "--unknown", "skip")
    assert status == 0
    assert "1 of 7 characters were skipped" in out
    assert "5 tokens predicted" in out


def test_the_encoding_is_that_of_training_unless_named(elman, run):
    Path("other.txt").write_text("The cat", encoding="utf-16")
    assert elman("eval", run, "other.txt").status == 2
    assert "6 tokens predicted" in elman("eval", run, "other.txt", "--encoding", "utf-16").out


# -- show -------------------------------------------------------------------------------------------------------------


def test_show_describes_a_run_and_its_progress(elman, run):
    status, out, err = elman("show", run)
    assert (status, err) == (0, "")
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    held = {row["validation_loss"]: row["step"] for row in rows if row["validation_loss"] is not None}
    assert "cat, 2,080 char tokens, 17 different" in out
    assert "1 × 16 tanh units" in out
    assert "step 40 of 40" in out
    assert f"{min(held):.4f} nats on validation, at step {held[min(held)]}" in out
    assert out.count("·") >= 8  # a dot for each row of the curve, and one in its legend
    assert "· training   o validation" in out


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_show_names_the_cell(elman, text, cell):
    assert (
        elman("train", text, "--cell", cell, "--hidden", 8, "--dropout", 0, "--steps", 2, "--out", "gated").status == 0
    )
    assert f"1 × 8 {cell.upper()} units, dropout 0, float32" in elman("show", "gated").out


def test_a_run_without_metrics_is_shown(elman, run):
    (run / "metrics.jsonl").unlink()
    status, out, _ = elman("show", run)
    assert status == 0
    assert "no metrics yet" in out
    assert "not validated yet" in out


@pytest.mark.parametrize("row", [
    '{"loss": 1.0}', '{"step": "x", "loss": 1.0}', '{"step": 3, "loss": "low", "epoch": [], "seconds": {}}',
    '{"step": 3, "loss": NaN}', '{"step": NaN, "loss": 1}', '{"step": 3, "loss": 1e999}', '{"step": 1e400, "loss": 1}',
    '{"step": null}', '{"event": 3}', '{"step": 4, "validation_loss": "x"}', "[]", "torn", '{"step": 9, "loss": 2.0}',
])  # fmt: skip
def test_damaged_rows_of_metrics_are_ignored(elman, run, row):
    with (run / "metrics.jsonl").open("a") as file:
        file.write(row + "\n")
    status, out, err = elman("show", run)
    assert (status, err) == (0, "")
    assert "└" in out


@pytest.mark.parametrize("corpus", [None, [], "x", {"name": 3}, {"tokens": "many", "name": "x"}, {}])
def test_a_run_whose_text_is_not_known_is_shown(elman, run, corpus):
    config = json.loads((run / "config.json").read_text())
    config["data"] = corpus
    (run / "config.json").write_text(json.dumps(config))
    status, out, _ = elman("show", run)
    assert status == 0
    assert "unknown" in out


def test_rollbacks_are_counted(elman, run):
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"event": "rolled back", "step": 41, "to": 40, "loss": 99.5}\n' * 2)
    out = elman("show", run).out
    assert "rolled back  2 times" in out
    assert "step 40 of 40" in out  # rollbacks are not points of the curve
    assert "99.5" not in out


# -- data -------------------------------------------------------------------------------------------------------------


def test_the_corpora_are_listed(elman):
    for words in (["data"], ["data", "list"]):
        status, out, err = elman(*words)
        assert (status, err) == (0, "")
        assert "pride-and-prejudice: 717,602 bytes, not downloaded" in out
        assert re.search(r"^python-docs: [\d,]+ bytes, made when first used$", out, re.MULTILINE)
        assert re.search(
            r"^brackets: 141,404 bytes, made when first used\n .*made by a program, needs no", out, re.MULTILINE
        )


def test_python_docs_are_fetched_without_a_network(elman):
    path = elman("data", "fetch", "python-docs").out.strip()
    assert Path(path).is_file()
    assert elman("data", "path", "python-docs").out.strip() == path
    assert re.search(rf"^python-docs: [\d,]+ bytes, {path}$", elman("data", "list").out, re.MULTILINE)


def test_validations_that_were_rolled_back_do_not_count(elman, run):
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": 44, "epoch": 1, "loss": 1.0, "validation_loss": 0.001, "seconds": 1}\n')
        file.write('{"event": "rolled back", "step": 45, "to": 40, "loss": 99.5}\n')
    assert "0.0010" not in elman("show", run).out
