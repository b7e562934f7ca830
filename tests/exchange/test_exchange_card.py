"""A model card: front matter that YAML reads, figures that are true, commands that work."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml
from exchange_pages import ENGLISH, SMALL, train
from hypothesis import example, given, settings
from hypothesis import strategies as st

from elman.cli import main
from elman.errors import RunError
from elman.exchange import export_torch, import_torch
from elman.exchange.card import TASKS, front_matter, plain, table, write_card
from elman.models import (
    LanguageModel,
    Seq2Seq,
    SequenceClassifier,
    SequenceGenerator,
    SequenceRegressor,
    SequenceTagger,
    runs,
)
from elman.models.evaluation import mean_loss
from elman.models.held_out import evaluate_held_out
from elman.training.run import Run

PRINTABLE = st.text().map(lambda text: "".join(c for c in text if c.isprintable()))


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("ELMAN_CACHE", str(tmp_path_factory.getbasetemp() / "the-cache"))


@pytest.fixture
def run(tmp_path):
    return train("one layer", tmp_path)


def command(*words: object) -> int:
    with pytest.raises(SystemExit) as caught:
        main([str(word) for word in words])
    assert isinstance(caught.value.code, int)
    return caught.value.code


def read(run: Path) -> tuple[dict, str]:
    _, head, body = (run / "README.md").read_text("utf-8").split("---\n", 2)
    return yaml.safe_load(head), body


def sample(body: str) -> str:
    (block,) = re.findall(
        r"^## A sample\n\n.*?:\n\n(.*?)\n\n(?:Of this sample|How much)", body, re.DOTALL | re.MULTILINE
    )
    lines = block.split("\n")
    assert all(line.startswith("    ") for line in lines)  # Markdown shows such lines as they are
    return "\n".join(line[4:] for line in lines)


def blocks(body: str, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)\n```$", body, re.DOTALL | re.MULTILINE)


def test_a_card_has_the_facts_of_the_run(run):
    assert command("card", run, "--seed", 3, "--length", 250) == 0
    head, body = read(run)
    model = LanguageModel.load(run)
    opened, fitted = runs.load(run)
    prepared = runs.open_text_setup(opened)
    loss = mean_loss(fitted.network, fitted.parameters, prepared.split.validation)
    (result,) = head["model-index"][0]["results"]
    metrics = {metric["type"]: metric["value"] for metric in result["metrics"]}
    assert metrics["nats_per_token"] == pytest.approx(loss, abs=1e-4)
    assert (head["library_name"], head["pipeline_tag"]) == ("elman", "text-generation")
    assert (result["dataset"]["name"], result["dataset"]["split"]) == ("text", "validation")
    assert "license" not in head
    assert "tokens" not in metrics
    assert f"| nats per token | {round(loss, 4)} |" in body
    assert f"| tokens | {len(prepared.split.validation) - 1:,} |" in body
    assert opened.config["data"]["sha256"] in body
    assert "| held out for validation | 10% |" in body
    assert f"1 × 24 tanh units, {fitted.parameters.buffer.size:,} parameters, float32" in body
    assert plain(model.summary_) in body
    assert "| optimizer | adam |" in body
    text = model.sample(250, seed=3)
    assert sample(body) == text
    assert plain(str(model.copies(text))) in body
    assert str(run.parent) not in body  # no path of this machine
    assert "$" not in body


def test_its_commands_and_its_code_work_as_written(run, monkeypatch, capsysbinary):
    write_card(run, seed=5, length=120, temperature=0.7)
    _, body = read(run)
    monkeypatch.chdir(run.parent)
    capsysbinary.readouterr()
    (commands,) = blocks(body, "sh")
    outputs = []
    for line in commands.splitlines():
        program, *words = shlex.split(line, comments=True)
        assert program == "elman"
        assert command(*words) == 0
        outputs.append(capsysbinary.readouterr().out.decode())
    assert outputs[0].removesuffix("\n") == sample(body)
    assert (run.parent / "run.html").is_file()
    (code,) = blocks(body, "python")
    exec(code, {})
    assert len(capsysbinary.readouterr().out.decode()) > 300


def test_a_card_is_replaced_and_a_readme_of_the_user_is_kept(run):
    write_card(run)
    first = (run / "README.md").read_bytes()
    assert command("card", run) == 0
    assert (run / "README.md").read_bytes() == first
    (run / "README.md").write_text("mine")
    assert command("card", run) == 2
    assert (run / "README.md").read_text() == "mine"
    assert command("card", run, "--force") == 0
    assert (run / "README.md").read_bytes() == first
    (run / "README.md").unlink()
    (run / "README.md").mkdir()
    with pytest.raises(RunError, match=r"README\.md was not made by elman card\. force=True replaces it\."):
        write_card(run)


def test_without_the_text_the_recorded_loss_is_shown(run):
    (run.parent / "text.txt").unlink()
    noted = min(row["validation_loss"] for row in Run(run).metrics() if row["validation_loss"] is not None)
    write_card(run)
    head, body = read(run)
    (result,) = head["model-index"][0]["results"]
    assert result["dataset"]["split"] == "validation"
    assert result["metrics"] == [{"type": "nats_per_token", "name": "nats per token", "value": round(noted, 4)}]
    assert f"validation loss {noted:.4f} nats per token" in body
    assert "How much of it is copied is unknown" in body


def test_a_model_without_history_has_no_figures(tmp_path):
    model = LanguageModel(**SMALL).fit(ENGLISH)
    model.history_.clear()
    model.save(tmp_path / "saved")
    assert write_card(tmp_path / "saved") == tmp_path / "saved" / "README.md"
    head, body = read(tmp_path / "saved")
    assert "model-index" not in head
    assert "Not measured" in body
    assert "60 steps." in body


def test_an_imported_model_has_no_data(run, tmp_path):
    export_torch(run, tmp_path / "x.safetensors")
    write_card(import_torch(tmp_path / "x.safetensors", tmp_path / "imported"))
    head, body = read(tmp_path / "imported")
    assert "model-index" not in head
    assert "The training data are not recorded." in body
    assert "Not measured" in body


def test_the_test_part_is_evaluated_if_there_is_one(tmp_path):
    (tmp_path / "text.txt").write_text(ENGLISH)
    LanguageModel(**SMALL, test_fraction=0.1).fit(tmp_path / "text.txt", out=tmp_path / "run")
    write_card(tmp_path / "run")
    head, body = read(tmp_path / "run")
    (result,) = head["model-index"][0]["results"]
    assert result["dataset"]["split"] == "test"
    assert "On the test part:" in body


@pytest.mark.parametrize("kind", ["bytes", "words"])
def test_other_tokens(kind, tmp_path):
    run = train(kind, tmp_path)
    write_card(run, temperature=3)  # so random that some bytes are not UTF-8
    head, body = read(run)
    assert len(head["model-index"][0]["results"][0]["metrics"]) == 4
    assert len(sample(body)) > 100
    assert not re.search(r"[^\n\t -~\xa0-\U0010ffff]", body)


def test_other_tasks_get_the_sections_that_apply(tmp_path, monkeypatch, capsys):
    names = ["anna", "anno", "bella", "bello", "carla", "carlo", "dina", "dino"] * 10
    options = {"hidden": 8, "epochs": 3, "validation_fraction": 0.2, "validate_every": 4, "random_state": 0}
    run = tmp_path / "run"
    SequenceClassifier(**options).fit(names, [name[-1] for name in names], out=run)
    assert command("card", run) == 0
    assert "data.safetensors has the training data" in capsys.readouterr().out
    head, body = read(run)
    assert head["pipeline_tag"] == "text-classification"
    _, scores = evaluate_held_out(run)
    found = {metric["type"]: metric["value"] for metric in head["model-index"][0]["results"][0]["metrics"]}
    assert found == {"accuracy": round(scores.accuracy, 4), "macro_f1": round(scores.macro_f1, 4)}
    assert f"On the validation part:\n\n| | |\n|---|---|\n| examples | {scores.examples} |\n| accuracy |" in body
    assert re.findall("^## (.*)$", body, re.MULTILINE) == ["Data", "Results", "Limits", "Use", "Training"]
    monkeypatch.chdir(tmp_path)
    exec(blocks(body, "python")[0], {})
    assert "SequenceClassifier" in capsys.readouterr().out
    config = json.loads((run / "config.json").read_text())
    config["config"] |= {"validation_fraction": "x", "test_fraction": 10**400}
    (run / "config.json").write_text(json.dumps(config))
    assert command("card", run) == 2
    assert "validation_fraction" in capsys.readouterr().err


WORDS = ["anna", "anno", "bella", "bello", "carla", "carlo", "dina", "dino"]


@pytest.mark.parametrize(
    ("model", "y", "measures"),
    [
        (SequenceRegressor, [len(word) for word in WORDS], {"r2", "mean_absolute_error", "root_mean_squared_error"}),
        (SequenceTagger, [["vowel" if c in "aeio" else "other" for c in word] for word in WORDS], {"accuracy"}),
        (SequenceGenerator, WORDS, {"nats_per_token", "perplexity"}),
        (Seq2Seq, [word[::-1] for word in WORDS], {"exact_match", "token_accuracy", "words_right"}),
    ],
)
def test_the_card_of_each_task_has_its_scores(model, y, measures, tmp_path):
    X = [word[-1] for word in WORDS] if model is SequenceGenerator else WORDS
    fitted = model(hidden=8, steps=2, validation_fraction=0.4, random_state=0).fit(X, y, out=tmp_path / "run")
    write_card(tmp_path / "run")
    head, body = read(tmp_path / "run")
    assert {metric["type"] for metric in head["model-index"][0]["results"][0]["metrics"]} >= measures
    assert head.get("pipeline_tag") == TASKS[fitted.task].pipeline
    assert "elman predict run   # reads standard input" in body


@pytest.mark.parametrize(
    ("facts", "files", "why"),
    [
        ({"task": "fly"}, {}, "a run with one of the tasks lm, classify, regress, tag, generate, translate, got 'fly'"),
        ({}, {}, "got None"),
        ({"task": "tag"}, {}, "vocabulary.json cannot be read"),
    ],
)
def test_a_run_that_cannot_have_a_card_is_refused_and_nothing_is_written(facts, files, why, tmp_path, capsys):
    run = Run.create(tmp_path / "run", facts, files).path
    before = sorted(run.iterdir())
    assert command("card", run) == 2
    assert why in capsys.readouterr().err
    assert sorted(run.iterdir()) == before


@pytest.mark.parametrize(
    ("missing", "why"),
    [("model.safetensors", "has no model yet"), ("vocabulary.json", "vocabulary.json cannot be read")],
)
def test_a_run_without_its_model_is_refused(run, missing, why, capsys):
    (run / missing).unlink()
    assert command("card", run) == 2
    assert why in capsys.readouterr().err
    assert not (run / "README.md").exists()


@pytest.mark.parametrize(
    "name", ["a: b # c", "- {x}", "'\"`", "*a* | <b> [c](d)", "caf\N{SNOWMAN} 🙂", "a\x85\x7f\ufeffb"]
)
def test_any_name_of_a_folder_can_be_shown(run, name):
    strange = run.rename(run.parent / name)
    write_card(strange)
    head, body = read(strange)
    shown = "".join(c if c.isprintable() else "\ufffd" for c in name)
    assert head["model-index"][0]["name"] == shown
    title = body.split("\n# ", 1)[1].split("\n", 1)[0]
    assert re.sub(r"\\(.)", r"\1", title) == shown
    assert not re.search(r"(?<!\\)[*<\[|#]", title)


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(sorted(TASKS)), PRINTABLE, PRINTABLE, st.dictionaries(PRINTABLE, st.floats(-1e15, 1e15)))
@example("regress", "yes", "c: d # e", {"r2": 1.0, "no": 0.0})
def test_a_yaml_reader_reads_the_front_matter(task, name, data, scores):
    scores = {score: round(value, 4) for score, value in scores.items()}
    read = yaml.safe_load(front_matter(TASKS[task], name, data, "test", scores))
    assert read.get("pipeline_tag") == TASKS[task].pipeline
    assert ("model-index" in read) == bool(scores)
    for entry in read.get("model-index", []):
        assert entry["name"] == name
        (result,) = entry["results"]
        assert result["dataset"] == {"name": data, "type": "text", "split": "test"}
        assert {metric["name"]: metric["value"] for metric in result["metrics"]} == scores


def test_values_do_not_end_the_cells_of_a_table():
    facts = {"name": "a | b\nc", "tokens": 12345, "learning rate": 0.00001, "clip norm": None}
    assert table(facts).splitlines()[2:] == [
        r"| name | a \| b c |",
        "| tokens | 12,345 |",
        "| learning rate | 1e-05 |",
        "| clip norm | None |",
    ]
