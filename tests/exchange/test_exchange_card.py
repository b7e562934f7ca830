"""A model card: front matter that YAML reads, figures that are true, commands that work."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from exchange_pages import ENGLISH, SMALL, train
from hypothesis import example, given, settings
from hypothesis import strategies as st

from elman.cli import main
from elman.errors import RunError
from elman.exchange.card import curve, fenced, front_matter, plain, write_card
from elman.models import LanguageModel, SequenceClassifier, runs
from elman.models.evaluation import mean_loss
from elman.training.arrays import to_bytes
from elman.training.run import Run


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
    assert metrics["loss"] == pytest.approx(loss, abs=1e-4)
    assert (head["library_name"], head["pipeline_tag"]) == ("elman", "text-generation")
    assert (result["dataset"]["name"], result["dataset"]["split"]) == ("text", "validation")
    assert "license" not in head
    assert f"| {loss:.4f} |" in body
    assert opened.config["data"]["sha256"] in body
    assert f"{fitted.parameters.buffer.size:,} parameters" in body
    text = model.sample(250, seed=3)
    assert text in blocks(body, "text")
    assert plain(str(model.copies(text))) in body
    assert str(run.parent) not in body  # no path of this machine
    for image in re.findall(r"!\[.*?\]\((.*?)\)", body):
        assert ElementTree.parse(run / image).getroot().tag.endswith("svg")
    assert "](curve.svg)" in body


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
    assert outputs[0].removesuffix("\n") in blocks(body, "text")
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
    (run / "curve.svg").write_text("<svg/>")
    with pytest.raises(RunError, match=r"curve\.svg was not made by elman card\. force=True replaces it\."):
        write_card(run)


def test_without_the_text_the_recorded_loss_is_shown(run):
    (run.parent / "text.txt").unlink()
    noted = min(row["validation_loss"] for row in Run(run).metrics() if row["validation_loss"] is not None)
    write_card(run)
    head, body = read(run)
    assert head["model-index"][0]["results"][0]["metrics"] == [
        {"type": "loss", "name": "nats per token", "value": round(noted, 4)}
    ]
    assert "How much of it is copied is unknown" in body


def test_a_model_without_history_has_no_curve_and_no_figures(tmp_path):
    model = LanguageModel(**SMALL).fit(ENGLISH)
    model.history_.clear()
    model.save(tmp_path / "saved")
    assert write_card(tmp_path / "saved") == [tmp_path / "saved" / "README.md"]
    head, body = read(tmp_path / "saved")
    assert "model-index" not in head
    assert "Not measured" in body
    assert "curve.svg" not in body


def test_the_test_part_is_evaluated_too(tmp_path):
    (tmp_path / "text.txt").write_text(ENGLISH)
    LanguageModel(**SMALL, test_fraction=0.1).fit(tmp_path / "text.txt", out=tmp_path / "run")
    write_card(tmp_path / "run")
    parts = [result["dataset"]["split"] for result in read(tmp_path / "run")[0]["model-index"][0]["results"]]
    assert parts == ["validation", "test"]


@pytest.mark.parametrize("kind", ["bytes", "words"])
def test_other_tokens(kind, tmp_path):
    run = train(kind, tmp_path)
    write_card(run, temperature=3)  # so random that some bytes are not UTF-8
    head, body = read(run)
    assert len(head["model-index"][0]["results"][0]["metrics"]) == 3
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
    held = [row for row in Run(run).metrics() if row["validation_loss"] is not None]
    best = min(held, key=lambda row: row["validation_loss"])
    found = {metric["type"]: metric["value"] for metric in head["model-index"][0]["results"][0]["metrics"]}
    assert found == {"loss": round(best["validation_loss"], 4), "accuracy": round(best["validation_accuracy"], 4)}
    assert "| part | nats per example | accuracy |\n|---|--:|--:|\n| validation |" in body
    assert re.findall("^## (.*)$", body, re.MULTILINE) == ["Data", "Results", "Use", "Training"]
    monkeypatch.chdir(tmp_path)
    exec(blocks(body, "python")[0], {})
    assert "SequenceClassifier" in capsys.readouterr().out
    config = json.loads((run / "config.json").read_text())
    config["config"] |= {"validation_fraction": "x", "test_fraction": 10**400}
    (run / "config.json").write_text(json.dumps(config))
    assert command("card", run) == 0
    assert "held out" not in read(run)[1]


@pytest.mark.parametrize(
    ("facts", "files", "why"),
    [
        ({"task": "fly"}, {}, "a run with one of the tasks lm, classify, regress, tag, generate, translate, got 'fly'"),
        ({}, {}, "got None"),
        ({"task": "tag"}, {}, "has no model yet"),
        ({"task": "tag"}, {"model.safetensors": b"nonsense"}, "is damaged"),
        ({"task": "tag"}, {"model.safetensors": to_bytes({})}, "does not describe the network"),
    ],
)
def test_a_run_that_cannot_have_a_card_is_refused_and_nothing_is_written(facts, files, why, tmp_path, capsys):
    run = Run.create(tmp_path / "run", facts, files).path
    before = sorted(run.iterdir())
    assert command("card", run) == 2
    assert why in capsys.readouterr().err
    assert sorted(run.iterdir()) == before


TEXTS = st.text().map(lambda text: "".join(c for c in text if c.isprintable()))
NAMES = st.from_regex(r"[a-z][a-z_-]{0,8}", fullmatch=True).filter(
    lambda name: name not in {"y", "n", "yes", "no", "on"}
)
VALUES = st.recursive(
    TEXTS | st.integers(-(10**6), 10**6) | st.floats(-1e6, 1e6).map(lambda value: round(value, 4)),
    lambda inner: st.lists(inner, min_size=1, max_size=3) | st.dictionaries(NAMES, inner, min_size=1, max_size=3),
    max_leaves=10,
)


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(NAMES.map(lambda name: f"k{name}"), VALUES, min_size=1, max_size=4))
@example({"list": [[1, [2]], {"a": {"b": "c: d # e"}}]})
def test_a_yaml_reader_reads_the_front_matter(facts):
    text = front_matter(facts)
    assert text.startswith("---\n")
    assert text.endswith("---\n")
    assert yaml.safe_load(text[4:-4]) == facts


def test_unprintable_characters_are_left_out_of_the_front_matter():
    assert yaml.safe_load(front_matter({"name": "a\x85\ud800\ufeffb"})[4:-4]) == {"name": "ab"}


@given(st.text(alphabet="`a\n\t\x1b\ud800é"))
def test_a_fence_is_longer_than_any_in_its_text(text):
    first, *middle, last = fenced(text, "text").split("\n")
    assert first == f"{last}text"
    assert not any(last in line for line in middle)
    assert "\n".join(middle) == text.replace("\x1b", "\ufffd").replace("\ud800", "\ufffd")


def test_a_curve_needs_two_points_and_stays_in_its_frame():
    assert curve([], "") is None
    assert curve([{"step": 1, "loss": 1.0}], "") is None
    rows = [{"step": i, "loss": 5 / i, "validation_loss": None if i % 10 else 6 / i} for i in range(1, 5001)]
    root = ElementTree.fromstring(curve(rows, "Loss"))
    for line in root.findall("{*}polyline"):
        points = [tuple(map(float, point.split(","))) for point in line.get("points").split()]
        assert 100 < len(points) <= 601
        assert all(60 <= x <= 620 and 34 <= y <= 294 for x, y in points)
        assert points[-1][0] == 620
    assert curve([{"step": 1, "loss": 1.0}, {"step": 2, "loss": 1.0}], "") is not None
