"""elman look: a verdict, a report, and clear words for what cannot be looked at."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from look_models import drawn_model

from elman.cli import main
from elman.data import CharVocabulary, WordVocabulary

TEXT = "The cat sat on the mat, and the dog sat on the log.\n"


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("ELMAN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    drawn_model(CharVocabulary(TEXT), layers=2).save("run")


@pytest.fixture
def look(capsys):
    def run(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as left:
            main(["look", *words])
        return left.value.code, *capsys.readouterr()

    return run


def test_it_prints_a_verdict_for_each_layer_and_writes_the_report_into_the_run(look):
    status, out, err = look("run", "--text", TEXT * 2)
    assert (status, err) == (0, "")
    assert re.search(r"^Layer 1: The gradient .*\n?.*^Layer 0: The gradient ", out, re.MULTILINE)
    assert out.endswith("Report (open it in a browser): run/look.html\n")
    assert "<title>run: report</title>" in Path("run/look.html").read_text()
    assert look("run", "--text", TEXT)[0] == 0  # the report in the run folder is replaced


def test_a_file_and_a_place_for_the_report(look):
    Path("cats.txt").write_text(TEXT * 20)
    status, out, _ = look("run", "--file", "cats.txt", "--out", "report.html")
    assert status == 0
    assert "The gradients are those of the first 256 steps of the text." in out
    assert Path("report.html").stat().st_size > 4e6  # Plotly is inside
    status, _, err = look("run", "--text", TEXT, "--out", "report.html")
    assert (status, err) == (2, "elman: report.html exists already. Choose another --out; --force replaces it.\n")
    assert look("run", "--text", TEXT, "--out", "report.html", "--force")[0] == 0
    assert {path.name for path in Path().iterdir()} == {"run", "cats.txt", "report.html"}  # and nothing is left behind


def test_what_the_model_does_not_know_can_be_skipped(look):
    status, out, _ = look("run", "--text", f"Zebra! {TEXT}", "--unknown", "skip")
    assert status == 0
    assert "characters were skipped" in out


def test_words_that_are_not_known_are_read_as_unknown(look):
    drawn_model(WordVocabulary(["<unk>", "The", " cat", " sat"])).save("words")
    status, out, _ = look("words", "--text", "The cat sat, dear. The cat sat")
    assert status == 0
    assert "were read as <unk>" in out


def other_task(run: Path) -> None:
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(config | {"task": "poetry"}))


@pytest.mark.parametrize(("words", "message"), [
    (["run"], "The text to read is missing. Give either --text TEXT or --file FILE"),
    (["run", "--text", "cat", "--file", "cats.txt"], "Two texts to read are given. Give either --text"),
    (["run", "--text", ""], "--text: expected at least two characters, got none"),
    (["run", "--text", "c"], "the text: expected at least two tokens.*got 1"),
    (["run", "--text", "Zebra"], "characters that the vocabulary.*'Z'.*--unknown skip"),
    (["run", "--text", "ЖЖ", "--unknown", "skip"], "no token of the vocabulary"),
    (["run", "--text", "the cat", "--encoding", "utf-8"], "--encoding: expected --file, .*, got --text"),
    (["run", "--file", "missing.txt"], "missing.txt"),
    (["run", "--file", "empty.txt"], "has no text"),
    (["missing", "--text", "cat"], "There is no run at missing"),
    (["run", "--text", "the cat", "--out", "cats.txt"], "cats.txt exists and is not a report of elman look"),
    (["run", "--text", "the cat", "--out", "cats.txt", "--force"], "cats.txt exists and is not a report of elman look"),
    (["run", "--text", "the cat", "--out", "run"], "run exists and is not a report of elman look"),
    (["run", "--text", "the cat", "--out", "nowhere/a.html"], "nowhere is not a folder"),
    (["other", "--text", "the cat"], "expected a run with one of the tasks lm, .*, got 'poetry'"),
])  # fmt: skip
def test_what_cannot_be_looked_at_is_said_and_nothing_is_written(look, words, message):
    Path("cats.txt").write_text(TEXT)
    Path("empty.txt").touch()
    drawn_model(CharVocabulary(TEXT)).save("other")
    other_task(Path("other"))
    before = {path: path.is_file() and path.read_bytes() for path in Path().rglob("*")}
    status, out, err = look(*words)
    assert (status, out) == (2, "")
    assert re.search(message, err.replace("\n", " ")), err
    assert "Traceback" not in err
    assert {path: path.is_file() and path.read_bytes() for path in Path().rglob("*")} == before


def test_without_plotly_the_way_to_get_it_is_said(look, monkeypatch):
    for name in ("theme", "page", "figures", "html_report"):
        monkeypatch.delitem(sys.modules, f"elman.look.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    status, out, err = look("run", "--text", TEXT)
    assert (status, out) == (2, "")
    assert err == "elman: Figures need plotly. Install it: pip install 'elman[look]'\n"
