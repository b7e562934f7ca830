"""docs/notebooks: every cell runs, each begins with what one needs to know and ends with three questions.

scripts/notebooks runs them in a real kernel and writes the outputs; here their code runs without one.
"""

from __future__ import annotations

import json
import re
import sys
import types
from pathlib import Path

import pytest

from elman import kernels  # noqa: F401 - compiled before a test has a cache of its own

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def cells(path, kind):
    return [
        "".join(cell["source"]) for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == kind
    ]


def test_there_are_seven():
    assert [path.name[0] for path in NOTEBOOKS] == list("0123456")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_begins_with_what_one_needs_and_ends_with_three_questions(path):
    words = cells(path, "markdown")
    assert words[0].startswith(f"# {path.name[0]}. ")
    assert "**What you need to know:**" in words[0]
    assert words[-1].startswith("## Questions")
    assert re.findall(r"^(\d)\. ", words[-1], re.MULTILINE) == ["1", "2", "3"]
    for target in re.findall(r"\]\((?!https?:)([^)\s#]+)", "\n".join(words)):
        assert (FOLDER / target).exists(), target


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_there_and_small_and_answer_the_questions(path):
    text = path.read_text("utf-8")
    assert len(text) < 100_000
    outputs = [cell["outputs"] for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    assert all(output["output_type"] != "error" for some in outputs for output in some)
    printed = "".join("".join(output.get("text", [])) for output in outputs[-1])
    answers = re.findall(r"^(\d)\. .*\d", printed, re.MULTILINE)
    assert answers == ["1", "2", "3"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_code_runs(path, monkeypatch, tmp_path, capsys):
    drawn = []
    display = types.ModuleType("IPython.display")
    display.SVG, display.display = str, drawn.append
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setenv("ELMAN_CACHE", str(tmp_path))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(FOLDER)
    namespace = {"__name__": "notebook"}
    for number, code in enumerate(cells(path, "code")):
        exec(compile(code, f"{path.stem} cell {number}", "exec"), namespace)
    assert re.findall(r"^(\d)\. .*\d", capsys.readouterr().out, re.MULTILINE)[-3:] == ["1", "2", "3"]
    assert all(figure.startswith("<svg") for figure in drawn)
